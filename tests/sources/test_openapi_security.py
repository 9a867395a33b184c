"""Credentials: from the environment to the right server, and into nothing that is kept or shown."""

from __future__ import annotations

import copy
import logging
import pickle

import openapi_documents as documents
import pytest
from chat_server import run, stay_on_this_machine
from validating_server import Reply, ValidatingServer

from cnp_router.exceptions import InputError, SourceAnswerError
from cnp_router.sources.openapi_document import Document
from cnp_router.sources.openapi_security import Credentials
from cnp_router.sources.openapi_source import OpenApiSource
from cnp_router.sources.source import Call

pytestmark = pytest.mark.filterwarnings("ignore:.*are left out")

KEYS = {
    "apiKey": "k-1234567890",
    "queryKey": "q+/=12345678",
    "cookieKey": "c-1234567890",
    "password": "ada:pass:word1",
    "login": "l-1234567890",
    "token": "t-1234567890",
}
VARIABLES = {
    "apiKey": "BANK_APIKEY",
    "queryKey": "BANK_QUERYKEY",
    "cookieKey": "BANK_COOKIEKEY",
    "password": "BANK_PASSWORD",
    "login": "BANK_LOGIN",
    "token": "BANK_TOKEN",
}


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch):
    stay_on_this_machine(monkeypatch)
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def environment(monkeypatch):
    """Put the credentials of some schemes into the environment."""

    def put(*schemes):
        for scheme in schemes:
            monkeypatch.setenv(VARIABLES[scheme], KEYS[scheme])

    return put


async def ask(tool, inputs=None, *, reply=None, document=documents.BANK, **options):
    async with (
        ValidatingServer(document, keys=KEYS, reply=reply) as server,
        OpenApiSource("bank", document, base_url=f"{server.url}/v1", **options) as source,
    ):
        result = await source.call(Call(api=f"bank__{tool}", inputs=inputs or {}))
    return result, server


@pytest.mark.parametrize(
    ("tool", "schemes"),
    [
        ("rates", ()),
        ("balance", ("token",)),
        ("balance", ("apiKey",)),
        ("branches", ()),
        ("branches", ("apiKey",)),
        ("report", ("queryKey",)),
        ("session", ("cookieKey",)),
        ("login", ("password",)),
        ("sign", ("login",)),
        ("transfer", ("token", "apiKey")),
        ("transfer", ("password",)),
    ],
)
def test_an_operation_is_signed_by_what_the_environment_has(tool, schemes, environment):
    environment(*schemes)
    inputs = {"amount": 1} if tool == "transfer" else {}
    result, server = run(ask(tool, inputs))
    assert result.is_done, (result.failure, server.problems)
    carried = str([server.seen[0].headers, server.seen[0].target])
    assert ("k-1234567890" in carried) == ("apiKey" in schemes)


@pytest.mark.parametrize(
    ("tool", "schemes", "named"),
    [
        ("balance", (), "BANK_TOKEN, or BANK_APIKEY"),
        ("transfer", ("token",), "BANK_TOKEN and BANK_APIKEY, or BANK_PASSWORD"),
        ("report", ("apiKey",), "BANK_QUERYKEY"),
    ],
)
def test_without_credentials_nothing_is_sent_and_the_variables_are_named(
    tool, schemes, named, environment
):
    environment(*schemes)
    inputs = {"amount": 1} if tool == "transfer" else {}
    result, server = run(ask(tool, inputs))
    assert result.failure.kind == "permission"
    assert result.failure.was_done == "no"
    assert named in result.failure.message
    assert server.seen == []


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv("BANK_TOKEN", "  ")
    assert run(ask("balance"))[0].failure.kind == "permission"


def test_credentials_can_be_given_by_scheme(environment):
    environment("password")  # that of the environment is not asked for
    result, server = run(ask("login", credentials={"password": "eve:other"}))
    assert result.failure.kind == "permission"
    assert server.seen[0].header("authorization") == "Basic ZXZlOm90aGVy"
    assert result.failure.message.endswith("(check credentials of source 'bank')")
    assert run(ask("balance", credentials={"token": KEYS["token"]}))[0].is_done


def test_a_header_that_always_goes_along_satisfies_its_scheme():
    result, server = run(ask("balance", headers={"x-api-key": KEYS["apiKey"], "X-Team": "red"}))
    assert result.is_done
    assert server.seen[0].header("x-team") == "red"


def test_an_operation_that_cannot_be_signed_is_left_out_and_said():
    source = OpenApiSource("bank", documents.BANK)
    with pytest.warns(UserWarning, match="GET /vault: it needs 'mutualTLS'"):
        run(source.apis())
    assert [each.operation for each in source.left_out] == ["GET /vault"]


def test_a_scheme_that_the_document_does_not_have():
    source = OpenApiSource("bank", documents.BANK, credentials={"apikey": "k"})
    with pytest.raises(SourceAnswerError, match=r"no security scheme 'apikey' \(it has 'apiKey'"):
        run(source.apis())


@pytest.mark.parametrize("value", ["a\nb", "a\rX: y", "käse"])
def test_a_value_that_no_header_can_hold_is_not_sent_or_shown(value, monkeypatch):
    monkeypatch.setenv("BANK_TOKEN", value)
    result, server = run(ask("balance"))
    assert result.failure.kind == "permission"
    assert "BANK_TOKEN" in result.failure.message
    assert value not in str(result)
    assert server.seen == []


def test_a_key_that_is_declared_as_a_parameter_is_asked_of_nobody(environment):
    environment("apiKey")
    document = copy.deepcopy(documents.BANK)
    document["paths"]["/rates"]["get"]["parameters"] = [
        documents.parameter("X-Api-Key", "header", documents.TEXT, required=True)
    ]
    result, server = run(ask("rates", document=document))
    assert result.is_done, server.problems
    assert server.seen[0].header("x-api-key") == KEYS["apiKey"]


@pytest.mark.parametrize(
    ("source", "scheme", "variable"),
    [
        ("petstore", "api_key", "PETSTORE_API_KEY"),
        ("pet-store", "OAuth 2.0", "PET_STORE_OAUTH_2_0"),
        ("Käse", "k", "K_SE_K"),
    ],
)
def test_the_name_of_a_variable(source, scheme, variable):
    assert Credentials(source, {}, {}).variable(scheme) == variable


# -- secrets


SCHEMES = [
    ("balance", "token"),
    ("report", "queryKey"),
    ("session", "cookieKey"),
    ("login", "password"),
]


@pytest.mark.parametrize(("tool", "scheme"), SCHEMES)
@pytest.mark.parametrize("status", [200, 401, 500])
def test_what_echoes_a_secret_is_cleaned(tool, scheme, status, environment):
    environment(scheme)

    def echo(seen):
        body = {
            "got": seen.headers,
            "target": seen.target,
            "nested": {KEYS[scheme]: [KEYS[scheme]]},
        }
        return Reply(body, status, {"Location": seen.target, "Retry-After": KEYS[scheme]})

    result, _ = run(ask(tool, reply=echo))
    told = repr(result) + str(result.to_dict())
    assert (status == 200) == result.is_done
    for form in (KEYS[scheme], "q%2B%2F%3D12345678", "YWRhOnBhc3M6d29yZDE=", "pass:word1"):
        assert form not in told
    assert "***" in told


@pytest.mark.parametrize("kind", ["text/plain", "image/png", "application/json"])
def test_texts_and_bytes_are_cleaned_and_escapes_see_through(kind, environment):
    environment("token")
    escaped = "".join(f"\\u{ord(c):04x}" for c in KEYS["token"])
    body = f'["{KEYS["token"]}", "{escaped}"]'.encode()
    result, _ = run(ask("balance", reply=lambda _: Reply(body, 200, {"Content-Type": kind})))
    assert result.is_done
    told = (
        str(result.to_dict()) + result.text + str(result.attachments and result.attachments[0].data)
    )
    assert KEYS["token"] not in told
    if kind == "application/json":
        assert result.structured == ["***", "***"]
        assert "\\u0074" not in result.text


def test_half_a_secret_at_the_end_of_what_is_cut_goes_too(environment):
    environment("token")
    body = b"x" * 95 + KEYS["token"].encode() + b"y" * 50
    reply = Reply(body, 200, {"Content-Type": "text/plain"})
    result, _ = run(ask("balance", reply=lambda _: reply, max_bytes=102))
    assert result.is_cut
    assert result.text == "x" * 95 + "***"


def test_secrets_are_in_no_representation_log_or_pickle(environment, caplog):
    environment("queryKey")
    caplog.set_level(logging.DEBUG)
    headers = {"X-Team": "secret-of-the-team"}
    result, _ = run(ask("report", headers=headers, credentials={"login": KEYS["login"]}))
    source = OpenApiSource("bank", documents.BANK, credentials=KEYS, headers=headers)
    told = caplog.text + repr(source) + repr(result) + repr(Credentials("bank", KEYS, headers))
    assert "127.0.0.1" in caplog.text
    for secret in (*KEYS.values(), "q%2B%2F%3D12345678", "secret-of-the-team"):
        assert secret not in told
    with pytest.raises(TypeError):
        pickle.dumps(Credentials("bank", KEYS, headers))


@pytest.mark.parametrize("value", [{"a": 1}, "secret", ["secret"], {"token": None}])
def test_an_error_does_not_show_the_values_of_credentials(value):
    with pytest.raises(InputError) as caught:
        OpenApiSource("bank", documents.BANK, credentials=value)
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        OpenApiSource("bank", documents.BANK, headers={"X-Key": "secret\n"})
    assert "secret" not in str(caught.value)


# -- where a request goes


async def redirect(place, *, tool="balance", status=302, inputs=None):
    """Ask a bank that redirects; `place` may name its own URL and that of another server."""
    async with ValidatingServer(documents.BANK, keys=KEYS) as other:

        def moved(seen):
            at = seen.target.partition("?")[0]
            there = place.format(own=own.url, other=other.url)
            return Reply({}, status, {"Location": there}) if at != "/v1/rates" else None

        async with (
            ValidatingServer(documents.BANK, keys=KEYS, reply=moved) as own,
            OpenApiSource("bank", documents.BANK, base_url=f"{own.url}/v1") as source,
        ):
            result = await source.call(Call(api=f"bank__{tool}", inputs=inputs or {}))
    return result, own, other


@pytest.mark.parametrize(
    "place",
    ["{other}/v1/balance", "//localhost:{other}", "https://127.0.0.1/", "ftp://x", "http://["],
)
def test_a_redirect_to_another_server_is_not_followed(place, environment):
    environment("token")
    result, own, other = run(redirect(place))
    assert result.failure.kind == "tool"
    assert "redirects to another server" in result.failure.message
    assert len(own.seen) == 1
    assert other.seen == []


@pytest.mark.parametrize("place", ["{own}/v1/rates", "/v1/rates", "rates"])
def test_a_redirect_on_the_same_server_is_followed(place, environment):
    environment("token")
    result, own, _ = run(redirect(place))
    assert result.structured["operation"] == "rates"
    assert [seen.header("authorization") is not None for seen in own.seen] == [True, True]


def test_redirects_in_a_circle_end(environment):
    environment("token")
    result, own, _ = run(redirect("/v1/balance"))
    assert result.failure.kind == "tool"
    assert len(own.seen) == 5


@pytest.mark.parametrize(("status", "methods"), [(303, ["POST", "GET"]), (307, ["POST", "POST"])])
def test_a_redirected_write_is_sent_once_more_only_where_that_is_meant(
    status, methods, environment
):
    environment("password")
    inputs = {"amount": 1}
    _, own, _ = run(redirect("/v1/rates", tool="transfer", status=status, inputs=inputs))
    assert [seen.method for seen in own.seen] == methods
    assert own.seen[1].body == (own.seen[0].body if status == 307 else b"")


def test_a_redirected_write_to_elsewhere_may_have_been_done(environment):
    environment("password")
    result, _, _ = run(redirect("{other}/v1/rates", tool="transfer", inputs={"amount": 1}))
    assert result.failure.was_done == "unknown"


def test_a_cookie_of_an_answer_goes_along_with_no_later_call(environment):
    environment("token")

    async def main():
        reply = Reply({}, 200, {"Set-Cookie": "sid=eve; Path=/"})
        async with (
            ValidatingServer(documents.BANK, keys=KEYS, reply=lambda _: reply) as server,
            OpenApiSource("bank", documents.BANK, base_url=f"{server.url}/v1") as source,
        ):
            for _ in range(2):
                await source.call(Call(api="bank__balance"))
        return server

    assert run(main()).seen[1].header("cookie") is None


@pytest.mark.parametrize(
    ("document", "server", "may"),
    [
        ("", "http://x.example", True),
        ("https://x.example/api.json", "https://x.example:443/v1", True),
        ("https://X.example/api.json", "/v1", True),
        ("http://x.example/api.json", "http://x.example/v1", True),
        ("https://x.example/api.json", "https://x.example:8443/v1", False),
        ("http://x.example/api.json", "https://x.example/v1", False),
        ("https://x.example/api.json", "http://x.example/v1", False),
        ("https://x.example/api.json", "https://y.example/v1", False),
        ("https://x.example/api.json", "http://169.254.169.254/latest", False),
    ],
)
def test_which_servers_a_document_may_name(document, server, may):
    found = Document({**documents.BANK, "servers": [{"url": server}]}, document)
    source = OpenApiSource("bank", found)
    if may:
        assert len(run(source.apis())) > 1
        return
    with pytest.raises(SourceAnswerError, match="names a server elsewhere") as caught:
        run(source.apis())
    assert server in str(caught.value)
    assert f"is at {document.removesuffix('/api.json')}, " in str(caught.value)
    assert f"give base_url={server!r}" in str(caught.value)
    assert len(run(OpenApiSource("bank", found, base_url=server).apis())) > 1


async def fetched(document, *, moved=False, **options):
    """Call a bank of a document from a URL; `moved` to another server, which is the bank."""
    async with (
        ValidatingServer(documents.BANK, keys=KEYS) as server,
        ValidatingServer(documents.BANK, keys=KEYS) as front,
    ):
        server.extra["/openapi.json"] = Reply(document(server))
        place = f"{server.url}/openapi.json"
        if moved:
            front.extra["/openapi.json"] = Reply(b"", 302, {"Location": place})
            place = f"{front.url}/openapi.json"
        if options.get("base_url"):
            options["base_url"] = options["base_url"](server)
        async with OpenApiSource("bank", place, **options) as source:
            result = await source.call(Call(api="bank__rates"))
            with_key = await source.call(Call(api="bank__balance"))
    return result, with_key, [seen.target for seen in server.seen]


@pytest.mark.parametrize("key", [True, False])
def test_no_request_goes_where_only_a_document_from_elsewhere_says(key, environment):
    if key:
        environment("token")

    def localhost(server):
        return f"http://localhost:{server.port}/v1"

    def document(server):
        return {**documents.BANK, "servers": [{"url": localhost(server)}]}

    *refused, seen = run(fetched(document))
    for result in refused:
        assert (result.failure.kind, result.failure.was_done) == ("unusable", "no")
        assert "give base_url='http://localhost:" in result.failure.message
    assert set(seen) == {"/openapi.json"}
    rates, _, seen = run(fetched(document, base_url=localhost))
    assert rates.is_done
    assert "/v1/rates" in seen


def test_a_document_that_was_redirected_gets_no_credentials_for_where_it_was_found(environment):
    environment("token")

    def document(server):
        return {**documents.BANK, "servers": [{"url": "/v1"}]}

    *refused, seen = run(fetched(document, moved=True))
    assert [result.failure.kind for result in refused] == ["unusable", "unusable"]
    assert set(seen) == {"/openapi.json"}
    *allowed, _ = run(fetched(document, moved=True, base_url=lambda server: f"{server.url}/v1"))
    assert all(result.is_done for result in allowed)
