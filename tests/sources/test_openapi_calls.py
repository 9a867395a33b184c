"""Requests as a server sees them that reads the document on its own."""

from __future__ import annotations

import copy
import json

import jsonschema
import openapi_documents as documents
import pytest
from chat_server import run, stay_on_this_machine
from hypothesis import given, settings
from hypothesis import strategies as st
from validating_server import Checker, Seen, ValidatingServer

from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.sources.openapi_document import Document
from cnp_router.sources.openapi_operations import Operations
from cnp_router.sources.openapi_request import build_request
from cnp_router.sources.openapi_source import OpenApiSource
from cnp_router.sources.source import Call

pytestmark = pytest.mark.filterwarnings("ignore:.*are left out")


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    stay_on_this_machine(monkeypatch)


async def call(document, api, inputs, *, keys=None, key="", **options):
    """Call an API of a served document; return the result and the server."""
    async with (
        ValidatingServer(document, keys=keys) as server,
        OpenApiSource("it", document, base_url=f"{server.url}/v1", **options) as source,
    ):
        (schema,) = [each.parameters for each in await source.apis() if each.id == f"it__{api}"]
        jsonschema.Draft202012Validator(schema).validate(inputs)
        result = await source.call(Call(api=f"it__{api}", inputs=inputs, key=key))
    return result, server


def understood(document, api, inputs, **options):
    result, server = run(call(document, api, inputs, **options))
    assert result.failure is None, (result.failure, server.problems)
    assert result.structured["operation"] in (api, None)
    return {name: value for name, value in result.structured.items() if name != "operation"}


@pytest.mark.parametrize(
    ("document", "api", "inputs", "expected"),
    [
        (
            documents.SHELTER,
            "listAnimals",
            {"limit": 3, "kind": ["cat", "big dog"], "X-Trace": "a b"},
            {
                "query": {"limit": 3, "kind": ["cat", "big dog"]},
                "header": {"X-Trace": "a b"},
            },
        ),
        (documents.SHELTER, "listAnimals", {}, {}),
        (documents.SHELTER, "getAnimal", {"animalId": 7}, {"path": {"animalId": 7}}),
        (
            documents.SHELTER,
            "addAnimal",
            {
                "name": "Minka",
                "kind": "cat",
                "chip": None,
                "weight": 4.5,
                "mother": {"name": "Mo", "kind": "cat"},
            },
            {
                "body": {
                    "name": "Minka",
                    "kind": "cat",
                    "chip": None,
                    "weight": 4.5,
                    "mother": {"name": "Mo", "kind": "cat"},
                }
            },
        ),
        (
            documents.SHELTER,
            "put_animals_animalId",
            {"animalId": "7", "name": "Rex", "kind": "dog"},
            {"path": {"animalId": "7"}, "body": {"name": "Rex", "kind": "dog"}},
        ),
        (
            documents.MESSAGES,
            "sendMessage",
            {
                "account": "AC/1",
                "To": "+49123",
                "Body": "Rain & wind = 50 %, ümläut + more",
                "MediaUrl": ["https://a.example/?x=1&y=2", "b"],
                "MaxPrice": 0.5,
                "Urgent": True,
            },
            {
                "path": {"account": "AC/1"},
                "body": {
                    "To": "+49123",
                    "Body": "Rain & wind = 50 %, ümläut + more",
                    "MediaUrl": ["https://a.example/?x=1&y=2", "b"],
                    "MaxPrice": 0.5,
                    "Urgent": True,
                },
            },
        ),
        (
            documents.MESSAGES,
            "createCharge",
            {
                "amount": 500,
                "metadata": {"order id": "6/1", "x": "&"},
                "items": [{"price": "p1", "quantity": 2}, {"price": "p2"}],
                "address": {"city": "Köln", "zip": "50667"},
                "expand": ["a b", "c"],
            },
            {
                "body": {
                    "amount": 500,
                    "metadata": {"order id": "6/1", "x": "&"},
                    "items": [{"price": "p1", "quantity": 2}, {"price": "p2"}],
                    "address": {"city": "Köln", "zip": "50667"},
                    "expand": ["a b", "c"],
                }
            },
        ),
        (
            documents.MESSAGES,
            "addNote",
            {"title": "Two\r\nlines", "labels": ["a", "b"], "size": {"width": 3}},
            {"body": {"title": "Two\r\nlines", "labels": ["a", "b"], "size": {"width": 3}}},
        ),
        (documents.MESSAGES, "log", {"body": "done: ✓"}, {"body": "done: ✓"}),
        (
            documents.TREE,
            "addPerson",
            {"name": "Ada", "born": None, "children": [{"name": "Byron", "born": "1836"}]},
            {
                "body": {
                    "name": "Ada",
                    "born": None,
                    "children": [{"name": "Byron", "born": "1836"}],
                }
            },
        ),
        (documents.TREE, "putNumbers", {"body": [1, None, 2.5]}, {"body": [1, None, 2.5]}),
        (
            documents.TREE,
            "putCat",
            {"name": "Tom", "body": {"name": "Tom", "sound": "none", "lives": 9}},
            {"path": {"name": "Tom"}, "body": {"name": "Tom", "sound": "none", "lives": 9}},
        ),
        (
            documents.SEARCH,
            "plain",
            {
                "path_id": "a/b",
                "list": ["x,y", "z"],
                "point": {"x": 1, "y": -2.5},
                "query_id": "a&b=c",
                "many": ["1", "2 3"],
                "few": ["1,2", "3"],
                "spaced": ["a", "b"],
                "piped": [1, 2, 3],
                "corner": {"x": 3, "y": 4},
                "filter": {"name": "n", "tags": ["t", "u"], "price": {"gte": 1.5}},
                "flag": False,
                "shape": {"name": "round", "tags": []},
                "X-Names": ["a", "b"],
                "X-Point": {"x": 1, "y": 2},
                "taste": "salt; sweet",
            },
            {
                "path": {"id": "a/b", "list": ["x,y", "z"], "point": {"x": 1, "y": -2.5}},
                "query": {
                    "id": "a&b=c",
                    "many": ["1", "2 3"],
                    "few": ["1,2", "3"],
                    "spaced": ["a", "b"],
                    "piped": [1, 2, 3],
                    "corner": {"x": 3, "y": 4},
                    "filter": {"name": "n", "tags": ["t", "u"], "price": {"gte": 1.5}},
                    "flag": False,
                    "shape": {"name": "round", "tags": []},
                },
                "header": {"X-Names": ["a", "b"], "X-Point": {"x": 1, "y": 2}},
                "cookie": {"taste": "salt; sweet"},
            },
        ),
        (
            documents.SEARCH,
            "marked",
            {
                "a": "one",
                "b": ["x", "y"],
                "c": {"x": 1, "y": 2},
                "d": "two;three",
                "e": ["x=1", "y"],
                "f": {"x": 1, "y": 2},
                "point": {"x": 5, "y": 6},
            },
            {
                "path": {
                    "a": "one",
                    "b": ["x", "y"],
                    "c": {"x": 1, "y": 2},
                    "d": "two;three",
                    "e": ["x=1", "y"],
                    "f": {"x": 1, "y": 2},
                },
                "query": {"point": {"x": 5, "y": 6}},
            },
        ),
    ],
)
def test_what_the_server_understands_is_what_was_meant(document, api, inputs, expected):
    assert understood(document, api, inputs) == expected


def test_every_document_has_an_operation_that_is_called_above():
    used = {"shelter", "messages", "tree", "search"}
    assert used | {"bank"} == set(documents.ALL)  # the bank is that of the security tests


def test_a_body_that_cannot_be_spread_or_collides_is_one_input():
    item = copy.deepcopy(documents.SHELTER["paths"]["/animals/{animalId}"])
    item["put"]["requestBody"] = documents.body(
        "application/json",
        {"type": "object", "properties": {"animalId": documents.TEXT, "name": documents.TEXT}},
    )
    document = documents.document({"/animals/{animalId}": item})
    operations = Operations(Document(document), "s", base_url=None, headers=())
    schema = operations.by_id["s__put_animals_animalId"].api.parameters
    assert list(schema["properties"]) == ["animalId", "body"]
    inputs = {"animalId": "7", "body": {"animalId": "8"}}
    assert understood(document, "put_animals_animalId", inputs) == {
        "path": {"animalId": "7"},
        "body": {"animalId": "8"},
    }


def test_a_body_that_is_optional_asks_for_all_or_nothing():
    schema = {"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}}
    body = documents.body("application/json", schema, required=False)
    paths = {"/x": {"post": documents.operation("x", "X", requestBody=body)}}
    document = documents.document(paths)
    operations = Operations(Document(document), "s", base_url=None, headers=())
    found = operations.by_id["s__x"].api.parameters
    assert found["dependentRequired"] == {"b": ["a"]}
    assert "required" not in found
    assert understood(document, "x", {}) == {}
    assert understood(document, "x", {"a": 1}) == {"body": {"a": 1}}


def test_the_idempotency_key_is_that_of_the_call_and_asked_of_nobody():
    _, server = run(call(documents.SHELTER, "releaseAnimal", {"animalId": "1"}, key="abc-1"))
    assert server.seen[0].header("idempotency-key") == "abc-1"
    assert server.problems == []


def test_what_reads_is_known_by_its_method():
    operations = Operations(Document(documents.SHELTER), "s", base_url=None, headers=())
    effects = {each.method: each.api.effects for each in operations.by_id.values()}
    assert effects == {
        "GET": "reads",
        "HEAD": "reads",
        "POST": "writes",
        "PUT": "writes",
        "DELETE": "writes",
    }


# -- text in inputs stays text


def first(document, api):
    operations = Operations(Document(document), "s", base_url=None, headers=())
    return operations.by_id[f"s__{api}"]


@pytest.mark.parametrize("text", ["..", ".", "%2e%2e", "%2E.", ""])
def test_a_part_of_a_path_that_would_be_taken_away_is_refused(text):
    if text.startswith("%"):  # escaped once more: it is that text, and no step up
        target = build_request(first(documents.MESSAGES, "sendMessage"), {"account": text}).target
        assert target == f"/v1/accounts/{text.replace('%', '%25')}/messages"
        return
    with pytest.raises(InputError, match=r"missing or empty|cannot be a part of the path"):
        build_request(first(documents.MESSAGES, "sendMessage"), {"account": text})


@pytest.mark.parametrize(
    "text", ["../admin", "a/../../b", "a?b=c", "a#b", "a\\b", "//evil.example", "a\r\nX: y", "a;b"]
)
def test_a_path_has_the_segments_of_its_template(text):
    request = build_request(first(documents.MESSAGES, "sendMessage"), {"account": text})
    assert request.target.startswith("/v1/accounts/")
    assert request.target.endswith("/messages")
    assert request.target.count("/") == 4
    assert not set("?#\\\r\n ") & set(request.target)


def test_names_in_a_path_may_be_any_and_stand_anywhere_in_a_segment():
    path = "/a b/v{pet id}.{größe}/{x}{y}"
    names = ["pet id", "größe", "x", "y"]
    parameters = [documents.parameter(name, "path", documents.TEXT) for name in names]
    get = documents.operation("it", "It", parameters=parameters)
    operation = first(documents.document({path: {"get": get}}), "it")
    inputs = {"pet id": "1", "größe": "x/y", "x": ".", "y": "-"}
    assert build_request(operation, inputs).target == "/v1/a%20b/v1.x%2Fy/.-"
    with pytest.raises(InputError, match=r"'\.\.' cannot be a part"):
        build_request(operation, {**inputs, "y": "."})


@pytest.mark.parametrize("text", ["a\r\nX-Admin: 1", "a\nb", "a\0b", " a", "a "])
def test_a_header_cannot_be_broken(text):
    with pytest.raises(InputError, match="X-Trace"):
        build_request(first(documents.SHELTER, "listAnimals"), {"X-Trace": text})


def test_an_object_in_a_query_cannot_set_another_parameter():
    with pytest.raises(InputError, match="is another parameter"):
        build_request(
            first(documents.SEARCH, "plain"),
            {"path_id": "a", "list": ["b"], "point": {"x": 1}, "corner": {"flag": True}},
        )


def test_what_separates_values_cannot_be_in_them():
    inputs = {"path_id": "a", "list": ["b"], "point": {"x": 1}, "spaced": ["a b"]}
    with pytest.raises(InputError, match="cannot contain it"):
        build_request(first(documents.SEARCH, "plain"), inputs)


def test_a_key_in_brackets_has_none_itself():
    with pytest.raises(InputError, match=r"a key in 'metadata' cannot contain"):
        inputs = {"amount": 1, "metadata": {"a][b": "c"}}
        build_request(first(documents.MESSAGES, "createCharge"), inputs)


def test_an_input_that_it_does_not_have_is_not_dropped_in_silence():
    with pytest.raises(InputError, match=r"takes no input 'nmae'"):
        build_request(first(documents.SHELTER, "addAnimal"), {"nmae": "x"})


def test_inputs_that_cannot_be_sent_are_a_failure_and_nothing_is_sent():
    result, server = run(
        call(documents.MESSAGES, "sendMessage", {"account": "..", "To": "+1", "Body": ""})
    )
    assert result.failure.kind == "inputs"
    assert server.seen == []


def test_an_unknown_api_is_named_with_a_close_one():
    async def main():
        async with OpenApiSource("it", documents.SHELTER) as source:
            await source.call(Call(api="it__getAnimals"))

    with pytest.raises(UnknownApiError, match="did you mean 'it__getAnimal'"):
        run(main())


# -- round trips: what is written can be read back by the rules of the specification

texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)
plain = texts.filter(lambda text: text.isprintable() and text == text.strip() and "," not in text)
whole = st.integers(-(2**53), 2**53)
points = st.fixed_dictionaries({"x": whole, "y": st.floats(-1e6, 1e6)})
deep = st.fixed_dictionaries(
    {},
    optional={
        "name": texts,
        "tags": st.lists(texts, min_size=1, max_size=3),
        "price": st.fixed_dictionaries({"gte": whole}),
    },
).filter(bool)


@settings(max_examples=150)
@given(
    st.fixed_dictionaries(
        {
            "path_id": texts.filter(lambda text: text not in (".", "..")),
            "list": st.lists(texts, min_size=2, max_size=3),
            "point": points,
        },
        optional={
            "query_id": texts,
            "many": st.lists(texts, min_size=1, max_size=3),
            "few": st.lists(texts, min_size=1, max_size=3),
            "spaced": st.lists(texts.filter(lambda t: " " not in t), min_size=1, max_size=3),
            "piped": st.lists(whole, min_size=1, max_size=3),
            "corner": points,
            "filter": deep,
            "flag": st.booleans(),
            "shape": deep,
            "X-Names": st.lists(plain, min_size=1, max_size=3),
        },
    )
)
def test_parameters_round_trip(inputs):
    request = build_request(first(documents.SEARCH, "plain"), inputs)
    seen = Seen("GET", request.target, list(request.headers), b"")
    Checker(documents.SEARCH, {}).reply(seen)
    assert seen.problems == []
    expected = {
        name.removeprefix("path_").removeprefix("query_"): value for name, value in inputs.items()
    }
    expected |= {"id": inputs["path_id"]}
    got = {**seen.understood.get("query", {}), **seen.understood["path"]}
    got |= seen.understood.get("header", {})
    assert got == expected
    if "query_id" in inputs:
        assert seen.understood["query"]["id"] == inputs["query_id"]


@settings(max_examples=100)
@given(
    st.fixed_dictionaries(
        {"amount": whole},
        optional={
            "metadata": st.dictionaries(
                texts.filter(lambda t: "]" not in t and "[" not in t), texts, min_size=1, max_size=3
            ),
            "items": st.lists(
                st.fixed_dictionaries({"price": texts, "quantity": whole}), min_size=1, max_size=3
            ),
            "address": st.fixed_dictionaries({"city": texts}),
            "expand": st.lists(texts.filter(lambda t: "," not in t), min_size=1, max_size=3),
        },
    )
)
def test_forms_round_trip(inputs):
    request = build_request(first(documents.MESSAGES, "createCharge"), inputs)
    headers = [*request.headers, ("Content-Length", str(len(request.content)))]
    seen = Seen("POST", request.target, headers, request.content)
    Checker(documents.MESSAGES, {}).reply(seen)
    assert seen.problems == []
    assert seen.understood["body"] == json.loads(json.dumps(inputs))
