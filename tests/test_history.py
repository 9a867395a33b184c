from __future__ import annotations

import datetime
import pickle
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.history import History, Mashup, warn_of_missing_texts
from cnp_router.records import check_id

GOOD = '{"id": "m1", "description": "Rain by text", "apis": ["weather", "sms"]}\n'


def usable_id(text):
    with suppress(InputError):
        return check_id("mashup", text) == text
    return False


@pytest.fixture
def file(tmp_path):
    return tmp_path / "mashups.jsonl"


def read_error(file, content, **options):
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataFileError) as caught:
        History.read(file, **options)
    return str(caught.value).replace(str(file), "FILE")


class TestRead:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (
                '{"id": "m2", "apis": ["a"]}',
                "missing field 'description' (it has 'id', 'apis')",
            ),
            (
                '{"id": "m2", "description": "x"}',
                "missing field 'apis' (it has 'id', 'description')",
            ),
            (
                '{"id": "m2", "description": "x", "apis": []}',
                "field 'apis' must not be empty (name at least one API id)",
            ),
            (
                '{"id": "m2", "description": "x", "apis": ["a", ""]}',
                "an id must be a non-blank string, got '' (used API)",
            ),
            (
                '{"id": "m2", "description": "x", "apis": "a"}',
                "field 'apis' must be a list of strings, got 'a' (give ['a'])",
            ),
            (
                '{"id": "m2", "description": "x", "apis": ["a"], "ordered": 1}',
                "field 'ordered' must be true or false, got 1",
            ),
            (
                '{"id": "m2", "description": "x", "apis": ["a"], "name": 1}',
                "field 'name' must be a string, got 1",
            ),
            (
                '{"id": "m1", "description": "x", "apis": ["a"]}',
                "duplicate mashup id 'm1', first on line 1 (ids must be unique)",
            ),
        ],
    )
    def test_a_bad_line(self, file, line, message):
        assert read_error(file, GOOD + line) == f"FILE, line 2: {message}"

    @pytest.mark.parametrize(
        "day", ['"25.06.2013"', '"20130625"', '"2013-W26-2"', '"2013-02-30"', '"2013-6-5"', "2013"]
    )
    def test_a_bad_date(self, file, day):
        line = f'{{"id": "m2", "description": "x", "apis": ["a"], "date": {day}}}'
        shown = day.replace('"', "'")
        assert read_error(file, GOOD + line) == (
            f"FILE, line 2: field 'date' must be YYYY-MM-DD, got {shown}"
        )

    def test_optional_fields(self, file):
        file.write_text(
            '{"id": "a", "description": "", "apis": ["x"], "categories": null, "date": null}\n'
            '{"id": "b", "description": "t", "apis": ["x", "x"], "categories": ["C"], "name": "N",'
            ' "date": "2013-06-25", "ordered": true, "calls": [{"deep": [1]}]}\n'
        )
        assert list(History.read(file)) == [
            Mashup("a", "", ("x",)),
            Mashup("b", "t", ("x", "x"), ("C",), "N", datetime.date(2013, 6, 25), True),
        ]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("past.csv", "Where is my parcel?\n"),
            ("past.tsv", "id"),
            ("past.jsonl", 'ticket,day,text,used\n1,2026-01-09,"Where is it, please?",orders\n'),
            ("past.jsonl", '"ticket";"text"\r\n1;Where?\r\n'),
            ("past.jsonl", "\nid\tdescription\n1\tWhere?\n"),
        ],
    )
    def test_a_spreadsheet_is_called_one(self, tmp_path, name, text):
        (tmp_path / name).write_text(text, newline="")
        with pytest.raises(DataFileError, match=r"this looks like CSV \(make it JSON Lines: docs"):
            History.read(tmp_path / name)

    def test_an_unknown_api_is_an_error(self, file, catalog):
        line = '{"id": "m2", "description": "x", "apis": ["maps", "fax", "telex"]}'
        assert read_error(file, GOOD + line, catalog=catalog) == (
            "FILE, line 2: unknown API 'fax' "
            "(add it to the catalog, or leave such mashups out: fit does with --unknown skip, "
            "Python with unknown='skip')"
        )

    def test_an_unknown_api_with_a_name_like_a_known_one(self, file, catalog):
        line = '{"id": "m2", "description": "x", "apis": ["mapps"]}'
        assert "unknown API 'mapps' (did you mean 'maps'? Or add it to the catalog, or" in (
            read_error(file, GOOD + line, catalog=catalog)
        )

    def test_an_unknown_api_is_skipped_and_counted_on_demand(self, file, catalog):
        file.write_text(GOOD + '{"id": "m2", "description": "x", "apis": ["maps", "fax"]}\n')
        history = History.read(file, catalog=catalog, unknown="skip")
        assert ([m.id for m in history], history.skipped) == (["m1"], 1)
        assert repr(history) == "History(1 mashups, 1 skipped)"

    def test_a_skipped_mashup_still_holds_its_id(self, file, catalog):
        lines = '{"id": "m2", "description": "x", "apis": ["fax"]}\n' * 2
        message = read_error(file, lines, catalog=catalog, unknown="skip")
        assert message.startswith("FILE, line 2: duplicate mashup id 'm2', first on line 1")

    def test_without_a_catalog_any_api_will_do(self, file):
        file.write_text('{"id": "m2", "description": "x", "apis": ["fax"]}\n')
        assert History.read(file)[0].apis == ("fax",)

    def test_a_mistyped_policy(self, file, catalog):
        with pytest.raises(InputError, match=r"^unknown must be 'error' or 'skip', got 'skp'$"):
            History.read(file, catalog=catalog, unknown="skp")

    def test_several_files_are_one_history(self, tmp_path, history):
        files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
        history[:1].write(files[0])
        history[1:].write(files[1])
        assert History.read(files) == history
        assert History.read(str(file) for file in files) == history

    def test_ids_are_unique_over_all_files(self, tmp_path, history):
        files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
        for file in files:
            history.write(file)
        with pytest.raises(DataFileError) as caught:
            History.read(files)
        assert str(caught.value) == (
            f"{files[1]}, line 1: duplicate mashup id 'm1', first in {files[0]}, line 1 "
            "(ids must be unique)"
        )

    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    identifier = text.filter(usable_id)
    mashups = st.lists(
        st.builds(
            Mashup,
            id=identifier,
            description=text,
            apis=st.lists(identifier, min_size=1, max_size=3).map(tuple),
            categories=st.lists(text, max_size=2).map(tuple),
            name=st.none() | text,
            date=st.none() | st.dates(),
            ordered=st.booleans(),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda mashup: mashup.id,
    )

    @given(mashups)
    def test_any_history_is_read_back(self, tmp_path_factory, mashups):
        file = tmp_path_factory.mktemp("history") / "mashups.jsonl"
        History(mashups).write(file)
        assert History.read(file) == History(mashups)


class TestHistory:
    @pytest.mark.parametrize(
        ("mashups", "message"),
        [
            (
                [Mashup("m", "x", ("a",)), Mashup("m", "y", ("a",))],
                r"^duplicate mashup id 'm' \(ids must be unique\)$",
            ),
            ([Mashup("m", "x", ())], r"^mashup 'm' has no API \(give at least one\)$"),
            ([{"id": "m"}], r"^mashups must be several Mashup objects, got \{'id': 'm'\}$"),
            (None, r"^mashups must be several Mashup objects, got None$"),
        ],
    )
    def test_bad_mashups(self, mashups, message):
        with pytest.raises(InputError, match=message):
            History(mashups)

    def test_apis_as_one_string(self):
        with pytest.raises(
            InputError, match=r"^apis must be a list of strings, got 'sms' \(give \['sms'\]\)$"
        ):
            Mashup("m", "x", "sms")

    def test_lists_are_kept_as_tuples(self):
        assert Mashup("m", "x", ["sms"], ["C"]) == Mashup("m", "x", ("sms",), ("C",))

    def test_it_is_a_sequence(self, history):
        assert len(history) == 4
        assert history[1].id == "m2"
        assert history[-1] in history
        assert isinstance(history[1:3], History)
        assert [m.id for m in history[1:3]] == ["m2", "m3"]
        assert history.texts[0] == "Send me a text message when it rains."
        assert next(reversed(history)).id == "m4"

    def test_an_empty_history_is_one(self):
        assert (len(History([])), History([]).texts, repr(History([]))) == (
            0,
            (),
            "History(0 mashups)",
        )

    def test_the_filter_drops_whole_mashups_and_adds_up_what_it_dropped(self, history):
        without_maps = Catalog([Api("weather", "W"), Api("sms", "S"), Api("mail", "M")])
        kept = history.known_to(without_maps)
        assert ([m.id for m in kept], kept.skipped) == (["m1", "m3"], 2)
        fewer = kept.known_to(Catalog([Api("weather", "W"), Api("sms", "S")]))
        assert ([m.id for m in fewer], fewer.skipped) == (["m1"], 3)
        assert (len(history), history.skipped) == (4, 0)

    def test_it_travels_to_worker_processes(self, history):
        assert pickle.loads(pickle.dumps(history)) == history


@pytest.mark.shared_data
def test_the_real_data_is_read(shared_data):
    folder = shared_data / "programmableweb"
    catalog = Catalog.read(folder / "apis.jsonl")
    history = History.read(folder / "mashups-train.jsonl", catalog=catalog, unknown="skip")
    assert len(catalog) == 1345
    assert len(history) + history.skipped == 4556


def test_texts_that_are_missing_are_warned_of(caplog):
    past = [
        Mashup(name, text, ("sms",)) for name, text in (("a", "text me"), ("b", " "), ("c", ""))
    ]
    warn_of_missing_texts(past[:1])
    assert not caplog.text
    warn_of_missing_texts(past)
    assert "mashup 'b' has no text, and 1 more: it tells what is used together" in caplog.text
