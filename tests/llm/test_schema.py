"""The subset of JSON schemas, and reading data out of what a model said."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.exceptions import ChatAnswerError, InputError
from cnp_router.llm import ChatMessage, ChatRequest
from cnp_router.llm.parsing import read_answer, repair_request, with_schema_in_prompt
from cnp_router.llm.schema import check_schema, is_strict, misfit

ANY = {"type": "object"}


def of(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("part", "fits", "fails"),
    [
        ({"type": "string"}, ["", "a"], [1, None, ["a"]]),
        ({"type": "integer"}, [0, -3, 2.0, 10**400], [2.5, True, "1", float("inf")]),
        ({"type": "number"}, [0, 2.5], [False, "1", float("nan")]),
        ({"type": "boolean"}, [True], [0, 1, "true"]),
        ({"type": "null"}, [None], [0, False, ""]),
        ({"type": ["string", "null"]}, ["a", None], [1]),
        ({"type": "array", "items": {"type": "string"}}, [[], ["a"]], [["a", 1], "a", {}]),
        ({"enum": ["a", 1]}, ["a", 1], ["b", True, None]),
        ({"const": 0}, [0], [False, "0"]),
        ({"minimum": 0, "maximum": 1}, [0, 0.5, 1, "x"], [-0.1, 2]),
        ({"minLength": 1, "maxLength": 2}, ["a", "ab", 7], ["", "abc"]),
        ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], "x"], [[], [1, 2, 3]]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["a", None], [1, []]),
        (of(a={"type": "string"}) | {"required": ["a"]}, [{"a": "x", "b": 1}], [{}, {"a": 1}]),
        (of(a={}) | {"additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
        ({}, [None, 1, {"a": []}], []),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else "",
)
def test_values_and_schemas(part, fits, fails):
    check_schema(of(x=part))
    for value in fits:
        assert misfit({"x": value}, of(x=part)) is None
    for value in fails:
        assert "answer.x" in misfit({"x": value}, of(x=part))


def test_a_misfit_says_where():
    schema = of(tasks={"type": "array", "items": of(name={"type": "string"})})
    value = {"tasks": [{"name": "a"}, {"name": 2}]}
    assert misfit(value, schema) == "answer.tasks[1].name must be of type string, got 2"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array"}, "must be one of an object"),
        ([], "must be one of an object"),
        (of(a={"$ref": "#/$defs/b"}), r"schema at properties\.a: keyword '\$ref'"),
        (of(a={"type": "set"}), "type 'set' does not exist"),
        (of(a={"type": "array", "items": {"pattern": "x"}}), r"properties\.a\.items: keyword"),
        (of(a={"anyOf": [{"type": "int"}]}), r"properties\.a\.anyOf\.0: type 'int'"),
        (of(a="string"), "must be an object"),
        (of() | {"required": "a"}, "required must be a list"),
        (of() | {"additionalProperties": {}}, "must be true or false"),
        ({"type": "object", "properties": []}, "properties must be an object"),
    ],
)
def test_schemas_outside_the_subset_are_refused(schema, words):
    with pytest.raises(InputError, match=words):
        check_schema(schema)


CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        (ANY, False),
        (CLOSED | {"properties": {"a": {"type": "string"}}}, False),
        (CLOSED | {"properties": {"a": ANY}, "required": ["a"]}, False),
        (CLOSED | {"properties": {"a": CLOSED}, "required": ["a"]}, True),
        (
            CLOSED | {"properties": {"a": {"type": "array", "items": ANY}}, "required": ["a"]},
            False,
        ),
        (CLOSED | {"properties": {"a": {"anyOf": [ANY, {}]}}, "required": ["a"]}, False),
    ],
)
def test_which_schemas_are_strict(schema, strict):
    assert is_strict(schema) is strict


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.booleans())
def test_what_is_written_as_json_is_read_back_from_within_prose(value, escape):
    text = f"Sure!\n```json\n{json.dumps(value, ensure_ascii=escape)}\n```\nAnything else?"
    assert read_answer(text, ANY) == value


@given(st.text())
def test_whatever_a_model_says_is_read_or_refused(text):
    try:
        assert isinstance(read_answer(text, ANY), dict)
    except ChatAnswerError as exc:
        assert str(exc).startswith("the answer")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": 1} or rather {"a": 2}', {"a": 2}),
        ('{"a": 2} since {"b": 1}', {"a": 2}),
        ('use {braces} as in {"a": {"b": "}"}}', {"a": {"b": "}"}}),
        (json.dumps({"a": [{"b": i} for i in range(200)]}), {"a": [{"b": i} for i in range(200)]}),
    ],
)
def test_which_object_is_taken(text, data):
    assert read_answer(text, of(a={}) | {"required": ["a"]}) == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[1, 2]",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"a":' * 20_000,
        "{" * 20_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=lambda text: text[:12] or "empty",
)
def test_texts_without_a_usable_object(text):
    began = time.perf_counter()
    with pytest.raises(ChatAnswerError):
        read_answer(text, ANY)
    assert time.perf_counter() - began < 2


def test_the_schema_goes_after_the_users_message():
    system, user = ChatMessage("system", "Be brief."), ChatMessage("user", "Which?")
    assistant = ChatMessage("assistant", "Well,")
    for messages, roles in [
        ((system, user), ["system", "user"]),
        ((user, assistant), ["user", "assistant", "user"]),
    ]:
        asked = with_schema_in_prompt(ChatRequest(messages, ANY))
        assert [m.role for m in asked.messages] == roles
        assert asked.messages[-1].content.endswith('JSON schema:\n{"type": "object"}')


def test_a_repair_does_not_show_an_endless_answer_again():
    asked = repair_request(
        ChatRequest([ChatMessage("user", "Which?")], ANY), "x" * 99_999, "no JSON"
    )
    assert len(asked.messages[1].content) == 4_000
    assert "That cannot be used: no JSON." in asked.messages[2].content
