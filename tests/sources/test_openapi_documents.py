"""Documents: where they come from, and one clear error for each that cannot be used."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import sys

import openapi_documents as documents
import pytest
import yaml
from chat_server import run, stay_on_this_machine
from hypothesis import given
from hypothesis import strategies as st
from validating_server import Reply, ValidatingServer

from cnp_router.exceptions import (
    DataFileError,
    InputError,
    MissingExtraError,
    SourceAnswerError,
    SourceUnavailableError,
)
from cnp_router.sources.openapi_source import OpenApiSource
from cnp_router.sources.openapi_text import DocumentError, parse_document
from cnp_router.sources.source import Call

OK = documents.operation("ok", "OK")
PLAIN = documents.document({"/ok": {"get": OK}})


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    stay_on_this_machine(monkeypatch)


def with_body(schema, **fields):
    """Return a document whose one operation has a body."""
    made = documents.operation(
        "it", "It", requestBody=documents.body("application/json", schema), **fields
    )
    return documents.document({"/it": {"post": made}})


def changed(**fields):
    return {**PLAIN, **fields}


# -- files


@pytest.mark.parametrize("name", ["api.json", "api.yaml", "api.yml", "api"])
def test_a_file_in_json_or_yaml(name, tmp_path):
    file = tmp_path / name
    is_yaml = name.startswith("api.y")
    file.write_text(yaml.safe_dump(PLAIN) if is_yaml else json.dumps(PLAIN), encoding="utf-8")
    for place in (file, str(file)):
        source = OpenApiSource.read(place)
        assert source.name == "a-shelter"
        assert [api.id for api in run(source.apis())] == ["a-shelter__ok"]


def test_nothing_is_read_before_it_is_needed(tmp_path):
    source = OpenApiSource("it", tmp_path / "none.yaml", credentials={"none": "x"})
    with pytest.raises(SourceAnswerError, match=r"source 'it': .*none\.yaml: no such file"):
        run(source.apis())
    result = run(source.call(Call(api="it__ok")))
    assert (result.failure.kind, result.failure.was_done) == ("unusable", "no")


def test_the_name_is_made_of_the_title(tmp_path):
    file = tmp_path / "api.json"
    file.write_text(json.dumps(changed(info={"title": "Fish & Chips — v2 ", "version": "1"})))
    assert OpenApiSource.read(file).name == "fish-chips-v2"
    assert OpenApiSource.read(file, name="fish").name == "fish"
    file.write_text(json.dumps(changed(info={"title": "魚", "version": "1"})))
    with pytest.raises(DataFileError, match="its title makes no name"):
        OpenApiSource.read(file)


BAD = [
    ("", r"it is empty"),
    ("{", r"line 1: not JSON at column 2"),
    ('{"a": 1, "a": 2}', "key 'a' occurs twice"),
    ('{"openapi": NaN}', "NaN is not a JSON value"),
    ("[1]", "expected an object, got"),
    ("hello", "expected an object, got 'hello'"),
    ("a: [", "line 2: neither JSON nor YAML"),
    ("a: b: c", "line 1: neither JSON nor YAML: mapping values are not allowed"),
    ("a: 1\na: 2", "line 2: .*'a' occurs twice"),
    ("a: !!python/object:os.system x", "tag 'tag:yaml.org,2002:python"),
    ("a: !secret x", "the tag '!secret'"),
    ("--- 1\n--- 2", "a second document"),
    ("a: &a [*a]", "the alias 'a'"),
    ("? [1]\n: 2", "a key that is a list"),
    ("[" * 300, "nested deeper than 200"),
    ("[" * 5_000, "nested deeper than 200|exceeded maximum nesting depth"),  # PyYAML's own bound
    ('{"a":' * 100_000, "nested too deep"),
    ("info: {title: T, version: '1'}", "no field 'openapi'"),
    ("swagger: '2.0'", r"Swagger 2.0, not OpenAPI 3 \(convert"),
    ("openapi: '2.0'", "OpenAPI '2.0'"),
    ("openapi: 3.1", "no field 'openapi' with a version"),
    ("openapi: 4.0.0", "OpenAPI '4.0.0'"),
    ("openapi: 3.1.0", "not OpenAPI 3.1: info: Field required"),
    ("openapi: 3.0.0\ninfo: {title: T, version: '1'}\npaths: []", "not OpenAPI 3.0: paths: "),
]


@pytest.mark.parametrize(("text", "problem"), BAD, ids=[each[0][:20] for each in BAD])
def test_what_is_no_document(text, problem, tmp_path):
    file = tmp_path / "api.yaml"
    file.write_text(text)
    with pytest.raises(DataFileError, match=problem) as caught:
        OpenApiSource.read(file, name="it")
    assert str(caught.value).startswith(str(file))
    assert len(str(caught.value)) < len(str(file)) + 300
    with pytest.raises(SourceAnswerError, match=problem):
        run(OpenApiSource("it", file).apis())


def test_what_cannot_be_read_as_a_file(tmp_path):
    with pytest.raises(DataFileError, match="is a directory"):
        OpenApiSource.read(tmp_path)
    with pytest.raises(DataFileError, match="cannot be read"):
        OpenApiSource.read("a\0b")
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"a: 1\nb: \xff")
    with pytest.raises(DataFileError, match="line 2: not UTF-8"):
        OpenApiSource.read(file)
    with pytest.raises(InputError, match="document must be of type"):
        OpenApiSource("it", 3)


def paths(**items):
    return documents.document({f"/{name}": item for name, item in items.items()})


PET = {"$ref": "#/components/schemas/Pet"}
WRONG = [
    (documents.document({"ok": {"get": OK}}), "path 'ok' does not begin with '/'"),
    (documents.document({}), "no operation that can be used"),
    (
        with_body({"$ref": "other.yaml#/Pet"}),
        r"POST /it, .*'other.yaml#/Pet' leaves the document \(bundle",
    ),
    (with_body({"$ref": "https://x.example/y"}), "'https://x.example/y' leaves the document"),
    (with_body(PET), "'#/components/schemas/Pet' leads nowhere"),
    (with_body({"$ref": "#Pet"}), "'#Pet' is no path inside the document"),
    (with_body({"items": {"$ref": "#/info/title/x"}}), "leads nowhere"),
    (paths(a={"$ref": "#/paths/~1a"}), "leads back to itself"),
    (paths(a={"get": {**OK, "parameters": [{"$ref": "#/info"}]}}), "a parameter without name"),
    (paths(a={"post": {**OK, "requestBody": {"$ref": "#/info"}}}), "request body without content"),
    (paths(a={"get": {**OK, "security": [{"key": []}]}}), "there is no security scheme 'key'"),
    (changed(servers=[]), r"no server with an absolute URL \(give base_url\)"),
    (changed(servers=[{"url": "/v1"}]), "no server with an absolute URL"),
    (changed(servers=[{"url": "ftp://x.example"}]), "no server with an absolute URL"),
    (
        changed(servers=[{"url": "https://{region}.x.example"}]),
        "has no variable 'region'",
    ),
    (changed(servers=[{"url": "https://a b.example"}]), "must be plain"),
    (changed(servers=[{"url": "https://u:pw@x.example"}]), "no user or password"),
    (changed(servers=[{"url": "https://x.example:no"}]), "must have a URL"),
]


@pytest.mark.parametrize(("document", "problem"), WRONG, ids=[each[1][:40] for each in WRONG])
def test_what_is_wrong_in_a_document(document, problem, tmp_path):
    file = tmp_path / "api.json"
    file.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match=problem) as caught:
        OpenApiSource.read(file, name="it")
    assert "pw@" not in str(caught.value)


def test_what_is_not_reached_may_lead_anywhere(tmp_path):
    document = changed(components={"schemas": {"Pet": {"$ref": "other.yaml"}}})
    document["paths"]["/ok"]["get"]["responses"] = {"200": {"$ref": "other.yaml#/Found"}}
    assert len(run(OpenApiSource("it", document).apis())) == 1


@pytest.mark.parametrize("place", ["other.yaml#/b", "#/components/pathItems/b", "#/paths/~1b"])
def test_a_path_item_that_leads_nowhere_costs_its_operations(place):
    source = OpenApiSource("it", paths(a={"get": OK}, b={"$ref": place}))
    with pytest.warns(UserWarning, match="left out ./b: the reference"):
        (api,) = run(source.apis())
    assert api.id == "it__ok"
    assert [each.operation for each in source.left_out] == ["/b"]


@pytest.mark.parametrize(
    "broken",
    [
        {"parameters": [{"$ref": "#/components/parameters/Gone"}]},
        {"parameters": [{"$ref": "other.yaml#/Page"}]},
        {"requestBody": {"$ref": "#/components/requestBodies/Gone"}},
        {"requestBody": {"content": {"application/json": {"schema": PET}}}},
        {"requestBody": {"content": {"application/json": {"schema": {"items": PET}}}}},
    ],
)
def test_a_reference_that_leads_nowhere_costs_its_operation(broken):
    document = paths(a={"get": {**OK, "operationId": "a"}}, b={"post": {**OK, **broken}})
    source = OpenApiSource("it", document)
    with pytest.warns(UserWarning, match="left out .POST /b: the reference"):
        (api,) = run(source.apis())
    assert api.id == "it__a"
    (left,) = source.left_out
    assert left.operation == "POST /b"


def test_a_schema_that_is_none_costs_its_operation():
    document = with_body({"properties": {"a": 3}})
    document["paths"]["/ok"] = {"get": OK}
    source = OpenApiSource("it", document)
    with pytest.warns(UserWarning, match="POST /it: expected a schema, got 3"):
        assert [api.id for api in run(source.apis())] == ["it__ok"]


def test_schemas_of_3_1_may_be_true_or_false():
    schema = {"properties": {"a": True}, "items": False, "unevaluatedProperties": False}
    document = {**with_body(schema), "openapi": "3.1.0"}
    (api,) = run(OpenApiSource("it", document).apis())
    assert api.parameters["properties"]["body"] == schema


def test_3_2_is_read_as_3_1_with_a_warning():
    document = {**PLAIN, "openapi": "3.2.0"}
    document["paths"] = {"/ok": {"get": OK, "query": documents.operation("q", "Query")}}
    source = OpenApiSource("it", document)
    with pytest.warns(UserWarning) as caught:
        assert [api.id for api in run(source.apis())] == ["it__ok"]
    told = [str(each.message) for each in caught]
    assert told == [
        "OpenAPI 3.2.0 is read as 3.1",
        "source 'it': operations that cannot be used are left out (QUERY /ok: it is of OpenAPI "
        "3.2)",
    ]


@pytest.mark.parametrize("version", ["3.0.0", "3.0.4", "3.0.9", "3.1.0", "3.1.1", "3.1.9"])
def test_versions(version):
    assert len(run(OpenApiSource("it", {**PLAIN, "openapi": version}).apis())) == 1


def test_a_document_is_not_changed():
    for document in documents.ALL.values():
        before = copy.deepcopy(document)
        source = OpenApiSource("it", document)
        if document in (documents.SHELTER, documents.BANK):
            with pytest.warns(UserWarning, match="left out"):
                run(source.apis())
        else:
            run(source.apis())
        assert document == before


# -- YAML


def test_yaml_is_that_of_version_1_2():
    text = "a: on\nb: no\nc: 2020-01-01\nd: 1:30\ne: 010\nf: 1e3\ng: .5\nh: ~\ni: TRUE\n200: x\n"
    assert parse_document(text.encode()) == {
        "a": "on",
        "b": "no",
        "c": "2020-01-01",
        "d": "1:30",
        "e": 10,
        "f": 1000.0,
        "g": 0.5,
        "h": None,
        "i": True,
        "200": "x",
    }


def test_aliases_and_merges_of_yaml():
    text = "a: &a {x: 1, y: [2]}\nb: *a\nc: {<<: *a, x: 3}\nd: {<<: [*a, {z: 1}]}\ne: '12'\n"
    text += "f: {'<<': 1}"
    assert parse_document(text.encode()) == {
        "a": {"x": 1, "y": [2]},
        "b": {"x": 1, "y": [2]},
        "c": {"x": 3, "y": [2]},
        "d": {"x": 1, "y": [2], "z": 1},
        "e": "12",
        "f": {"<<": 1},
    }


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}], z: 1}}"])
def test_aliases_cannot_make_a_small_text_a_large_document(form):
    lines = ["a0: &a0 {x: 1, y: 2}"]
    aliases = (",".join([f"*a{n - 1}"] * 10) for n in range(1, 12))
    lines += [f"a{n}: &a{n} " + form.format(each) for n, each in enumerate(aliases, start=1)]
    with pytest.raises(DocumentError, match="more than 4,000,000 values"):
        parse_document("\n".join(lines).encode())


# PyYAML writes YAML 1.1, which leaves some texts bare that are numbers in 1.2, such as 0E0.
texts = st.text(max_size=8).filter(lambda text: not re.fullmatch(r"[-+.0-9eEoO_]+", text))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner),
    max_leaves=10,
)


@given(st.dictionaries(texts, json_values, min_size=1))
def test_what_is_written_as_yaml_is_read(value):
    text = json.dumps(value)
    assert parse_document(text.encode()) == value
    block = yaml.safe_dump(value, default_flow_style=False)
    if not block.lstrip().startswith("{"):
        assert parse_document(block.encode()) == value


# -- URLs


async def fetch(place, *, reply=None, read=False, **options):
    async with ValidatingServer(PLAIN) as server:
        document = changed(servers=[{"url": "/v1"}])
        server.document = document
        server.extra["/specs/api.json"] = reply or Reply(document)
        options.setdefault("headers", None)
        source = OpenApiSource("it", place.format(server.url), **options)
        async with source:
            assert server.seen == []
            found = await source.apis()
            result = await source.call(Call(api="it__ok"))
        return found, result, server


def test_a_document_from_a_url_and_a_server_relative_to_it():
    found, result, server = run(fetch("{}/specs/api.json?token=abc"))
    assert [api.id for api in found] == ["it__ok"]
    assert result.structured == {"operation": "ok"}
    assert [seen.target for seen in server.seen] == ["/specs/api.json?token=abc", "/v1/ok"]


def test_no_header_goes_along_with_the_request_for_a_document():
    _, result, server = run(fetch("{}/specs/api.json", headers={"X-Key": "secret-secret"}))
    assert result.is_done
    assert [seen.header("x-key") for seen in server.seen] == [None, "secret-secret"]


@pytest.mark.parametrize(
    ("reply", "error", "problem"),
    [
        (Reply(b"x", 404), SourceUnavailableError, "answers with HTTP 404"),
        (Reply(b"<html>"), SourceAnswerError, "expected an object"),
        (Reply({"swagger": "2.0"}), SourceAnswerError, "Swagger 2.0"),
        (Reply(b"x", fault="reset"), SourceUnavailableError, "cannot be fetched"),
        (Reply(b"x", fault="hang"), SourceUnavailableError, "did not come in 0.2 s"),
        (Reply(b"", 302, {"Location": "/specs/api.json"}), SourceUnavailableError, "cannot be"),
    ],
)
def test_a_url_that_gives_no_document(reply, error, problem):
    timeout = 0.2 if reply.fault == "hang" else 30
    with pytest.raises(error, match=problem) as caught:
        run(fetch("{}/specs/api.json?token=secret", reply=reply, document_timeout=timeout))
    assert "secret" not in str(caught.value)
    assert "/specs/api.json" in str(caught.value)


def test_a_url_that_is_too_large(monkeypatch):
    for module in ("openapi_document", "openapi_text"):
        monkeypatch.setattr(sys.modules[f"cnp_router.sources.{module}"], "MAX_BYTES", 1_000)
    with pytest.raises(SourceAnswerError, match="larger than 1,000 bytes"):
        run(fetch("{}/specs/api.json", reply=Reply(b"x" * 100_000)))


def test_reading_a_url_now():
    async def serve(done):
        async with ValidatingServer(PLAIN) as server:
            server.extra["/api.json"] = Reply(changed(servers=[{"url": "/"}]))
            url = f"{server.url}/api.json"
            with pytest.raises(InputError, match="an event loop is running"):
                OpenApiSource.read(url)
            return await asyncio.to_thread(done, url)

    assert run(serve(lambda url: OpenApiSource.read(url).name)) == "a-shelter"


def test_a_url_with_a_password_is_refused_without_showing_it():
    with pytest.raises(InputError, match="no user or password") as caught:
        OpenApiSource("it", "https://ada:secret@x.example/api.json")
    assert "secret" not in str(caught.value)


def test_several_who_need_it_at_a_time_fetch_it_once():
    async def main():
        async with ValidatingServer(PLAIN) as server:
            server.extra["/api.json"] = Reply(changed(servers=[{"url": "/"}]))
            async with OpenApiSource("it", f"{server.url}/api.json") as source:
                await asyncio.gather(*(source.apis() for _ in range(5)))
            return len(server.seen)

    assert run(main()) == 1


# -- entries of a configuration file, and options


def test_an_entry(tmp_path):
    (tmp_path / "api.yaml").write_text(yaml.safe_dump(PLAIN))
    fields = {
        "document": "api.yaml",
        "base_url": "http://127.0.0.1:1/",
        "credentials": {},
        "headers": {"X-Team": "red"},
    }
    source = OpenApiSource.from_entry("it", fields, folder=tmp_path, trusted=False)
    assert [api.id for api in run(source.apis())] == ["it__ok"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "field 'document'"),
        ({"document": 3}, "field 'document'"),
        ({"document": "a", "url": "b"}, r"unknown field 'url' \(it may have document, base_url"),
        ({"document": "a", "base_url": "x.example"}, "must have a URL with http"),
        ({"document": "a", "base_url": "http://x.example/?a=b"}, "must be plain"),
        ({"document": "a", "base_url": "ftp://ada:secret@x.example"}, "got 'ftp://x.example'"),
        ({"document": "a", "base_url": "http://"}, "must have a URL"),
        ({"document": "a", "credentials": []}, "credentials must be an object"),
        ({"document": "a", "headers": {"a b": "c"}}, "'a b' is not a header"),
        ({"document": "a", "headers": {"Host": "c"}}, "'Host' is not a header"),
    ],
)
def test_an_entry_that_is_wrong(fields, problem, tmp_path):
    with pytest.raises(InputError, match=problem) as caught:
        OpenApiSource.from_entry("it", fields, folder=tmp_path, trusted=False)
    assert "secret" not in str(caught.value)


def test_the_base_url_may_end_in_a_slash_and_stands_for_all_servers():
    async def main():
        document = changed(servers=[{"url": "https://elsewhere.example"}])
        document["paths"]["/ok"]["servers"] = [{"url": "https://third.example"}]
        async with (
            ValidatingServer({**PLAIN, "servers": [{"url": "/"}]}) as server,
            OpenApiSource("it", document, base_url=f"{server.url}/") as source,
        ):
            await source.call(Call(api="it__ok"))
        return server.seen[0].target

    assert run(main()) == "/ok"


@pytest.mark.parametrize("missing", ["yaml", "openapi_pydantic"])
def test_what_is_not_installed_is_named(missing, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, missing, None)
    file = tmp_path / "api.yaml"
    file.write_text(yaml.safe_dump(PLAIN))
    with pytest.raises(MissingExtraError, match=r"pip install 'cnp-router\[openapi\]'"):
        OpenApiSource.read(file)


def test_importing_it_imports_no_library():
    import subprocess

    code = (
        "import sys, cnp_router.sources.openapi_source; "
        "print({'yaml', 'httpx2', 'openapi_pydantic', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
