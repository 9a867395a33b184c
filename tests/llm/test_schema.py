"""JSON schemas, and reading data out of what a model said."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from cnp_router.exceptions import ChatAnswerError, InputError
from cnp_router.llm import ChatMessage, ChatRequest
from cnp_router.llm.parsing import read_answer, repair_request, with_schema_in_prompt
from cnp_router.llm.schema import check_schema, is_strict, misfit

ANY = {"type": "object"}


def of(**properties):
    return {"type": "object", "properties": properties}


def nested(depth):
    schema = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


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
    assert misfit(value, schema) == "answer.tasks[1].name: 2 is not of type 'string'"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array"}, "must be of an object"),
        ([], "must be of an object"),
        (of(a={"$ref": "#/$defs/b"}), r"schema at properties\.a\.\$ref: '#/\$defs/b' is not in"),
        (of(a={"type": "set"}), "'set' is not one of"),
        (
            of(a={"items": {"pattern": "("}}),
            r"properties\.a\.items\.pattern: '\(' is not a 'regex'",
        ),
        (of(a={"anyOf": [{"type": "int"}]}), r"properties\.a\.anyOf\.0\.type: 'int'"),
        (of(a="string"), r"properties\.a: 'string' is not of type 'object'"),
        (of() | {"required": "a"}, "required: 'a' is not of type 'array'"),
        (of() | {"additionalProperties": 3}, "additionalProperties: 3 is not of type"),
        ({"type": "object", "properties": []}, r"properties: \[\] is not of type 'object'"),
        (of(a={"const": {1}}), "must be JSON"),
        (nested(200), "nested too deeply"),
        (nested(90_000), "must be JSON"),
    ],
)
def test_schemas_that_cannot_be_used(schema, words):
    with pytest.raises(InputError, match=words) as caught:
        check_schema(schema)
    assert len(str(caught.value)) <= 250
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_what_a_reference_points_to_is_never_fetched(keyword):
    # Any look-up of a name or connection to elsewhere is an error in these tests (conftest.py).
    for target in ("http://192.0.2.1/a.json", "other.json", "file:///etc/passwd"):
        with pytest.raises(InputError, match="nothing is fetched"):
            check_schema(of(a={keyword: target}))
        with pytest.raises(InputError, match="nothing is fetched"):
            misfit({"a": 1}, of(a={keyword: target}))


def test_references_within_a_schema():
    schema = of(a={"$ref": "#/$defs/name"}) | {"$defs": {"name": {"type": "string"}}}
    check_schema(schema)
    assert misfit({"a": "x"}, schema) is None
    assert misfit({"a": 1}, schema) == "answer.a: 1 is not of type 'string'"
    check_schema(of(a={"enum": [{"$ref": "http://192.0.2.1/"}]}))  # data, not a reference


def test_a_value_or_a_schema_without_end_is_an_answer_too():
    assert "nested too deeply" in misfit({}, {"type": "object", "$ref": "#"})
    endless = of(a={"$ref": "#"})
    value = {}
    for _ in range(5_000):
        value = {"a": value}
    assert "nested too deeply" in misfit(value, endless)


def test_a_misfit_is_one_short_line():
    problem = misfit({"a": ["x\n\x1b[2J\u202e" * 9_999]}, of(a={"type": "string"}))
    assert problem.startswith("answer.a: ['x")
    assert len(problem) <= 200
    assert problem.isprintable()


def test_alternatives_are_named():
    schema = of(a={"anyOf": [{"type": "string"}, {"type": "null"}]})
    problem = misfit({"a": 2}, schema)
    assert problem == "answer.a: 2 is not of type 'string' or 2 is not of type 'null'"


REF = {"$ref": "#/$defs/b"}
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
        (CLOSED | {"properties": {"a": REF}, "required": ["a"], "$defs": {"b": CLOSED}}, True),
        (CLOSED | {"properties": {"a": REF}, "required": ["a"], "$defs": {"b": ANY}}, False),
        (CLOSED | {"allOf": [CLOSED]}, False),
    ],
)
def test_which_schemas_are_strict(schema, strict):
    assert is_strict(schema) is strict


class Place(BaseModel, extra="forbid"):
    name: str


class Places(BaseModel, extra="forbid"):
    """A model as users write them."""

    places: list[Place]
    best: Place | None


class OpenPlaces(BaseModel):
    places: list[Place]


def test_schemas_as_pydantic_writes_them():
    schema = Places.model_json_schema()
    assert is_strict(schema)
    assert not is_strict(OpenPlaces.model_json_schema())
    check_schema(schema)
    assert misfit({"places": [{"name": "a"}], "best": None}, schema) is None
    assert misfit({"places": [{"name": 1}], "best": None}, schema).startswith(
        "answer.places[0].name: "
    )


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
    began = time.thread_time()
    with pytest.raises(ChatAnswerError):
        read_answer(text, ANY)
    assert time.thread_time() - began < 2


def test_an_endless_row_of_objects_is_read_in_bounded_time():
    began = time.thread_time()
    with pytest.raises(ChatAnswerError, match="is a required property"):
        read_answer('{"b": 1}' * 250_000, of(a={}) | {"required": ["a"]})
    assert time.thread_time() - began < 2


def test_the_schema_goes_after_the_users_message():
    system, user = ChatMessage("system", "Be brief."), ChatMessage("user", "Which?")
    assistant = ChatMessage("assistant", "Well,")
    for messages, roles in [
        ((system, user), ["system", "user"]),
        ((user, assistant), ["user", "assistant", "user"]),
    ]:
        asked = with_schema_in_prompt(ChatRequest(messages, ANY))
        assert [m.role for m in asked.messages] == roles
        assert asked.messages[-1].content.endswith('JSON schema:\n{"type":"object"}')


def test_a_repair_does_not_show_an_endless_answer_again():
    asked = repair_request(
        ChatRequest([ChatMessage("user", "Which?")], ANY), "x" * 99_999, "no JSON"
    )
    assert len(asked.messages[1].content) == 4_000
    assert "That cannot be used: no JSON." in asked.messages[2].content
