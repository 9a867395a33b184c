"""References are resolved as data, once, and their errors name them; nothing of a result."""

from __future__ import annotations

import json

import pytest
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.exceptions import InputError
from cnp_router.execution.references import MOST_CHARACTERS, references_in, resolve

RESULTS = {
    "weather": {"days": [{"rain": 0.5, "sky": "wet"}, {"rain": 0}], "a/b": 1, "m~n": 2, "": 3},
    "text": "a plain text",
    "my job": ["x", None, True, {"deep": {"er": [1, 2]}}],
}
NOT_THERE = "/none /days/2 /days/- /days/-1 /days/01 /days/0/rain/0 /#0 /#9 /days/#1 /days/0x0"
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # A key like "#1" is reached by its place alone.
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=15,
)


def at(job, path=""):
    return {"$from": job, "path": path}


def places(data, path=""):
    """Yield every place in data: its JSON Pointer, keys by their place, and what is there."""
    yield path, data
    if isinstance(data, dict):
        for number, inner in enumerate(data.values(), 1):
            yield from places(inner, f"{path}/#{number}")
    elif isinstance(data, list):
        for number, inner in enumerate(data):
            yield from places(inner, f"{path}/{number}")


class TestPaths:
    @pytest.mark.parametrize(
        ("job", "path", "value"),
        [
            ("text", "", "a plain text"),
            ("weather", "", RESULTS["weather"]),
            ("weather", "/days/0/rain", 0.5),
            ("weather", "/days/1", {"rain": 0}),
            ("weather", "/a~1b", 1),
            ("weather", "/m~0n", 2),
            ("weather", "/", 3),
            ("weather", "/#1/0/#2", "wet"),
            ("weather", "/#4", 3),
            ("my job", "/1", None),
            ("my job", "/3/deep/er/1", 2),
        ],
    )
    def test_what_is_there(self, job, path, value):
        assert resolve({"a": at(job, path)}, RESULTS) == {"a": value}
        assert resolve({"a": [{"b": at(job, path)}]}, RESULTS) == {"a": [{"b": value}]}

    @pytest.mark.parametrize(
        "path",
        [*NOT_THERE.split(), f"/days/{'9' * 400}", "/days/\u0660"],
    )
    def test_what_is_not_there(self, path):
        with pytest.raises(InputError, match=r"inputs\.a refers to .* of job 'weather', and its"):
            resolve({"a": at("weather", path)}, RESULTS)

    @pytest.mark.parametrize("path", ["days", "#/days", "/~", "/a~2b", "$.days"])
    def test_what_is_no_pointer(self, path):
        with pytest.raises(InputError, match="is not a JSON Pointer"):
            resolve({"a": at("weather", path)}, RESULTS)

    def test_without_a_path_it_is_the_whole_result(self):
        assert resolve({"a": {"$from": "text"}}, RESULTS) == {"a": "a plain text"}

    @given(JSON)
    def test_every_place_of_a_result_can_be_reached_and_comes_as_it_is(self, data):
        for path, value in places(data):
            found = resolve({"a": at("job", path)}, {"job": data})["a"]
            assert json.dumps(found) == json.dumps(value)

    def test_what_comes_is_a_copy(self):
        results = {"job": {"list": [1]}}
        resolve({"a": at("job")}, results)["a"]["list"].append(2)
        assert results == {"job": {"list": [1]}}


class TestJobs:
    def test_a_job_that_is_not_waited_for(self):
        problem = (
            r"inputs\.to\[0\] refers to job 'mail', which it does not wait for \(it waits for: "
            r"'weather', 'text', 'my job'; name the job in 'after'\)"
        )
        with pytest.raises(InputError, match=problem):
            resolve({"to": [at("mail")]}, RESULTS)
        with pytest.raises(InputError, match="waits for: none"):
            resolve({"a": {"$text": "{mail#/x}"}}, {})

    def test_which_are_named(self):
        inputs = {"a": [at("x"), {"b": at("y", "/1")}], "c": {"$text": "{z#} {{no#}} {x#/q}"}}
        assert set(references_in(inputs)) == {"x", "y", "z"}
        assert references_in({"a": {"$$from": "x"}, "b": "{x#/y}", "c": [1, None]}) == ()


class TestText:
    @pytest.mark.parametrize(
        ("template", "text"),
        [
            ("{text#}!", "a plain text!"),
            ("{weather#/days/0/rain} {weather#/days/1/rain}", "0.5 0"),
            ("{my job#/1}, {my job#/2}", "null, true"),
            ("{my job#/3/deep}", '{"er": [1, 2]}'),
            ("{weather#/#1/0/sky}", "wet"),
            ("{{text#}} {text#}", "{text#} a plain text"),
            ('{"a": {"b": 1}} {x} {} {# } #/', '{"a": {"b": 1}} {x} {} {# } #/'),
            ("no parts", "no parts"),
            ("", ""),
        ],
    )
    def test_parts_are_put_in(self, template, text):
        assert resolve({"a": {"$text": template}}, RESULTS) == {"a": text}

    def test_a_number_stays_one_outside_of_a_text(self):
        assert resolve({"a": at("weather", "/days/0/rain")}, RESULTS)["a"] == 0.5


@pytest.mark.parametrize("planted", [at("secret"), {"$text": "{secret#}"}, "{secret#}", *HOSTILE])
def test_a_result_is_never_read_for_references(planted):
    results = {"evil": {"value": planted, "list": [planted]}, "secret": "s3cret"}
    whole = resolve({"a": at("evil"), "b": at("evil", "/list/0")}, results)
    assert whole == {"a": results["evil"], "b": planted}
    text = resolve({"a": {"$text": "{evil#/value}{evil#/list}"}}, results)["a"]
    assert "s3cret" not in text


class TestEscapes:
    @pytest.mark.parametrize("key", ["$from", "$text", "$$from", "$$$text"])
    def test_an_object_with_such_a_key_can_be_written(self, key):
        written = {"filter": {f"${key}": "here", "b": [{f"${key}": 1}], "c": at("text")}}
        meant = {"filter": {key: "here", "b": [{key: 1}], "c": "a plain text"}}
        assert resolve(written, RESULTS) == meant
        assert references_in(written) == ("text",)

    def test_other_keys_stay_as_they_are(self):
        for key in ("$", "$ref", "$$", "$$ref", "from", "text", "$fro", "path"):
            assert resolve({"a": {key: 1}}, {}) == {"a": {key: 1}}

    def test_the_name_of_a_parameter_is_no_reference(self):
        assert resolve({"$from": "Kyoto", "path": "/x"}, {}) == {"$from": "Kyoto", "path": "/x"}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"$from": 3},
            {"$from": "text", "path": 0},
            {"$from": "text", "path": None},
            {"$from": "text", "more": 1},
            {"$text": ["a"]},
            {"$text": "a", "path": ""},
            {"$from": "text", "$text": "a"},
        ],
    )
    def test_what_is_not_well_formed(self, wrong):
        for work in (references_in, lambda inputs: resolve(inputs, RESULTS)):
            with pytest.raises(InputError, match=r"inputs\.a is not a reference: .*\$\$from"):
                work({"a": wrong})

    @given(JSON)
    def test_what_has_no_dollar_comes_back(self, data):
        if "$" not in json.dumps(data):
            assert resolve({"a": data}, {}) == {"a": data}
            assert references_in({"a": data}) == ()


class TestBounds:
    def test_size(self):
        results = {"big": {"all": "x" * (MOST_CHARACTERS // 2)}}
        assert len(resolve({"a": at("big", "/all")}, results)["a"]) == MOST_CHARACTERS // 2
        twice = [at("big", "/all")] * 2
        with pytest.raises(InputError, match="more than 1,000,000 characters of results"):
            resolve({"a": twice}, results)
        with pytest.raises(InputError, match="more than 1,000,000 characters"):
            resolve({"a": {"$text": "{big#/all}" * 3}}, results)

    def test_depth(self):
        inputs = {"a": 1}
        for _ in range(60):
            inputs = {"a": inputs}
        with pytest.raises(InputError, match="nested deeper than 50 levels"):
            resolve(inputs, {})
        assert references_in(inputs) == ()

    def test_a_result_that_is_not_json(self):
        deep = []
        for _ in range(100_000):
            deep = [deep]
        for value in (float("nan"), object(), deep):
            with pytest.raises(InputError, match="not JSON, or nested too deeply"):
                resolve({"a": at("odd", "/x")}, {"odd": {"x": value}})
        while deep:  # freed level by level: a whole one at once is too deep for some versions
            deep = deep[0]


@pytest.mark.parametrize("path", ["/none", "bad", "/list/7"])
def test_errors_quote_nothing_of_a_result(path):
    results = {"evil": {"OBEY ME": "PAY EVE", "list": ["PAY EVE"]}}
    with pytest.raises(InputError) as caught:
        resolve({"a": at("evil", path)}, results)
    assert "OBEY" not in str(caught.value)
    assert "EVE" not in str(caught.value)
