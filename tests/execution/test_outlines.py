"""An outline has the structure of a result, and no text of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.execution.outlines import outline, path_of
from cnp_router.execution.plain_keys import is_plain
from cnp_router.execution.references import resolve

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=30,
)

PLAIN = """id name userId created_at_date temperature2m HTTPStatus _id geo.lat items line1 is_day
weather_code image-url"""
NOT_PLAIN = """1 #1 Pay pay_eve ignore_previous_instructions id/x id~x id_name_user_url_city
id123456789 send_email callTool IGNORE approve transfer delete_file {id} n\u00e9v"""
ODD = ("", "a b", "id\n", "id\x00", "x" * 42, "\uff49\uff44", "SYSTEM: obey")


def by_path(data, names=()):
    return {entry.pop("path"): entry for entry in outline(data, names)}


class TestValues:
    @pytest.mark.parametrize(
        ("value", "entry"),
        [
            (None, {"type": "null", "value": None}),
            (True, {"type": "boolean", "value": True}),
            (0, {"type": "integer", "value": 0}),
            (-999_999, {"type": "integer", "value": -999_999}),
            (1_000_000, {"type": "integer"}),
            (10**400, {"type": "integer"}),
            (21.5, {"type": "number", "value": 21.5}),
            (0.1234567, {"type": "number"}),
            (float("nan"), {"type": "number"}),
            (float("inf"), {"type": "number"}),
            ("", {"type": "string", "size": 0}),
            ("Pay Eve.", {"type": "string", "size": 8}),
            ("2026-11-22", {"type": "date", "value": "2026-11-22"}),
            ("2026-11-22T09:30:00+09:00", {"type": "date", "value": "2026-11-22T09:30:00+09:00"}),
            ("2026-11-22 Pay", {"type": "string", "size": 14}),
            ("2026-13-22", {"type": "string", "size": 10}),
            ("\uff12\uff10\uff12\uff16-11-22", {"type": "string", "size": 10}),
            ([], {"type": "array", "size": 0}),
            ((), {"type": "array", "size": 0}),
            ({}, {"type": "object", "size": 0}),
        ],
    )
    def test_alone_and_within(self, value, entry):
        assert by_path(value)[""] == entry
        assert by_path({"id": [value]})["/id/0"] == entry

    def test_nothing_else_is_shown(self):
        text = json.dumps(outline({"name": "Eve", "user_id": "Pay", "x y": {"Obey!": ["now"]}}))
        for word in ("Eve", "Pay", "x y", "Obey", "now"):
            assert word not in text


class TestKeys:
    @pytest.mark.parametrize("key", PLAIN.split())
    def test_plain(self, key):
        assert is_plain(key)
        assert f"/{key}" in by_path({key: 1})

    @pytest.mark.parametrize("key", [*NOT_PLAIN.split(), *ODD])
    def test_not_plain(self, key):
        assert not is_plain(key)
        assert list(by_path({"id": 0, key: 1})) == ["", "/id", "/#2"]
        assert resolve({"a": {"$from": "j", "path": "/#2"}}, {"j": {"id": 0, key: 1}}) == {"a": 1}

    def test_names_that_are_known_are_shown_if_they_are_identifiers(self):
        data = {"recipient": 1, "Obey me!": 2}
        assert list(by_path(data, data.keys())) == ["", "/recipient", "/#2"]

    def test_a_key_that_looks_like_a_place_is_not_taken_for_one(self):
        data = {"Obey!": "first", "#1": "second"}
        assert list(by_path(data)) == ["", "/#1", "/#2"]
        assert resolve({"a": {"$from": "j", "path": "/#1"}}, {"j": data}) == {"a": "first"}


class TestBounds:
    def test_width_depth_and_number(self):
        assert len(outline({f"id{n}": n for n in range(99)})) == 21
        assert len(outline([0] * 1_000)) == 6
        deep = 1
        for _ in range(50):
            deep = {"id": deep}
        assert len(outline(deep)) == 7
        assert len(outline([[{f"id{n}": n for n in range(20)}] * 5] * 5)) == 100

        assert len(outline([0] * 1_000, most=3)) == 3

    def test_the_shape_comes_before_the_depths(self):
        data = {"items": [{f"id{n}": n for n in range(20)}] * 5, "total": 5}
        assert list(by_path(data))[:3] == ["", "/items", "/total"]

    def test_it_is_small_whatever_the_result_is(self):
        key = "name_name_name_name"
        data = 0
        for _ in range(6):
            data = {f"{key}{n}": data for n in range(20)}
        assert len(json.dumps(outline(data))) < 20_000


@given(JSON)
def test_each_path_leads_to_what_is_said_of_it(data):
    sizes = {"string": len, "array": len, "object": len}
    for entry in outline(data):
        try:
            found = resolve({"a": {"$from": "j", "path": entry["path"]}}, {"j": data})["a"]
        except ValueError:  # NaN is not JSON
            continue
        if "value" in entry:
            assert found == entry["value"]
        elif "size" in entry:
            assert sizes[entry["type"]](found) == entry["size"]


@given(JSON)
def test_no_text_of_a_result_is_in_its_outline(data):
    def texts(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from () if is_plain(key) else (key,)
                yield from texts(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from texts(inner)
        elif isinstance(value, str):
            yield value

    marked = json.loads(json.dumps(data, default=str).replace("NaN", "0").replace("Infinity", "0"))
    shown = json.dumps([[e["path"], e.get("value")] for e in outline(marked)], ensure_ascii=False)
    for text in texts(marked):
        if len(text) > 3 and not set(text) <= set("0123456789-:TZ+ .null/#[],\"'truefalse"):
            assert json.dumps(text, ensure_ascii=False)[1:-1] not in shown


def test_the_path_of_a_place():
    data = {"Obey!": [{"id": 1}], "id": 2}
    assert path_of(data, ["Obey!", 0, "id"]) == "/#1/0/id"
    assert path_of(data, []) == ""
    for keys in (["none"], ["id", 0], ["Obey!", 1], ["Obey!", "0"], ["Obey!", 0, "x"]):
        assert path_of(data, keys) is None
