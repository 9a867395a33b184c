"""The routes of the gateway over HTTP, and what they say of what cannot be done."""

from __future__ import annotations

import asyncio
import json

import jsonschema
import pytest
from http_serving import Browser, home
from openapi_pydantic.v3.v3_1 import OpenAPI

from cnp_router.exceptions import ContextStoreError, DataFileError, SourceUnavailableError
from cnp_router.serving import Client, Clients, GatewaySettings
from cnp_router.serving.http_front import CallBody, FeedbackBody, RouteBody, SearchBody
from cnp_router.serving.openapi_of_gateway import openapi_of
from cnp_router.sources import Call
from cnp_router.sources.openapi_source import OpenApiSource


def asked(*requests, **how):
    """The answers to requests, one after the other: (path, document) or a path."""

    async def main():
        async with home(**how) as (browser, _):
            return [
                await (browser.get(r) if isinstance(r, str) else browser.post(*r)) for r in requests
            ]

    return asyncio.run(main())


class TestRoutes:
    def test_search_call_and_rate(self):
        async def main():
            async with home() as (browser, gateway):
                found = (await browser.post("/v1/search", {"query": "rain forecast", "k": 1})).json
                inputs = {"city": "Kyoto"}
                name, search_id = found["tools"][0]["name"], found["search_id"]
                call = {"name": name, "inputs": inputs, "search_id": search_id}
                called = await browser.post("/v1/call", call)
                rating = {"search_id": search_id, "rating": 5}
                rated = await browser.post("/v1/feedback", rating)
                return found, called.json, rated, gateway.log.searches()

        found, called, rated, logged = asyncio.run(main())
        assert [tool["name"] for tool in found["tools"]] == ["home__forecast"]
        assert found["tools"][0]["inputSchema"]["required"] == ["city"]
        assert found["fits"] is True and found["acted"] is True
        assert called["result"]["done"] is True
        assert called["result"]["text"] == "Rain in Kyoto"
        assert called["search_id"] == found["search_id"]
        assert (rated.status, rated.json["rating"]) == (200, 5)
        assert (logged[0].called, logged[0].rating) == (("home__forecast",), 5)

    def test_a_routing_is_the_whole_decision(self):
        (found,) = asked(("/v1/route", {"request": "the weather forecast"}))
        assert found.json["routing"]["recipients"][0]["contractor"] == "home__forecast"
        assert found.json["tools"][0]["name"] == "home__forecast"

    def test_the_tools_in_pages(self):
        every, first, second, beyond = asked(
            "/v1/tools", "/v1/tools?limit=2", "/v1/tools?offset=2&limit=2", "/v1/tools?offset=9"
        )
        assert [each.json["total"] for each in (every, first, second, beyond)] == [3] * 4
        pages = first.json["tools"] + second.json["tools"]
        assert pages == every.json["tools"]
        assert beyond.json["tools"] == []

    def test_health(self):
        (health,) = asked("/healthz")
        assert health.json["status"] == "ok"
        assert health.json["tools"] == 3

    def test_the_page(self):
        (page,) = asked("/")
        assert page.body.startswith(b"<!doctype html>")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"

    def test_answers_are_not_kept_by_others(self):
        for answer in asked("/v1/tools", "/healthz", ("/v1/search", {"query": "rain"})):
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "server" not in answer.headers

    def test_mcp(self):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

        async def main():
            async with home() as (browser, _):
                accept = "application/json, text/event-stream"
                return await browser.post("/mcp", body, accept=accept)

        answer = asyncio.run(main())
        assert answer.status == 200
        assert b'"search_tools"' in answer.body

    def test_what_goes_wrong_in_a_tool_is_no_error_of_http(self):
        (answer,) = asked(("/v1/call", {"name": "home__send", "inputs": {"text": "hi"}}))
        assert answer.status == 200
        assert answer.json["result"]["failure"]["kind"] == "declined"

    def test_one_act_is_done_once_by_its_key(self):
        async def main():
            settings = GatewaySettings(allow_write=True)
            anyone = Client(allow_write=True)
            async with home(settings=settings, anyone=anyone) as (browser, _):
                body = {"name": "home__send", "inputs": {"text": "hi"}}
                first = await browser.post("/v1/call", body, idempotency_key="a")
                body["inputs"] = {"text": "ho"}
                return first, await browser.post("/v1/call", body, idempotency_key="a")

        first, other = asyncio.run(main())
        assert first.json["result"]["text"] == "sent hi"
        assert other.error == (400, "invalid")  # the key was given for another act


class TestErrors:
    @pytest.mark.parametrize(
        ("path", "body", "said"),
        [
            ("/v1/search", b"{", "not JSON"),
            ("/v1/search", b"", "not JSON"),
            ("/v1/search", b"\xff{}", "UTF-8"),
            ("/v1/search", b"[1]", "must be a JSON object, got [1]"),
            ("/v1/search", b"null", "must be a JSON object, got None"),
            ("/v1/search", b'{"query": "a", "query": "b"}', "query"),
            ("/v1/search", b'{"query": NaN}', "NaN"),
            ("/v1/search", b"[" * 100_000, "JSON"),
            ("/v1/search", b'{"query": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, "nested"),
            ("/v1/search", {}, "missing field 'query'"),
            ("/v1/search", {"query": 3}, "a request must be a string, got 3"),
            ("/v1/search", {"query": " "}, "must not be blank"),
            ("/v1/search", {"query": "\ud800"}, "surrogate"),
            ("/v1/search", {"query": "a", "k": "3"}, "'k' must be a whole number"),
            ("/v1/search", {"query": "a", "k": True}, "'k' must be a whole number"),
            ("/v1/search", {"query": "a", "k": 0}, "'k' must be a whole number"),
            ("/v1/search", {"query": "a", "k": 51}, "50"),
            ("/v1/search", {"qeury": "a"}, "unknown key 'qeury' (did you mean 'query'?)"),
            ("/v1/route", {"query": "a"}, "unknown key 'query'"),
            ("/v1/call", {"name": 1}, "'name' must be a string"),
            ("/v1/call", {"name": "home__forecast", "inputs": [1]}, "'inputs' must be an object"),
            ("/v1/call", {"name": "home__forecast", "search_id": 1}, "'search_id' must be a str"),
            ("/v1/feedback", {"search_id": "a", "rating": 6}, "'rating' must be a whole number"),
            ("/v1/feedback", {"search_id": "a"}, "missing field 'rating'"),
            ("/v1/tools?limit=0", None, "limit must be a whole number"),
            ("/v1/tools?offset=-1", None, "offset must be a whole number"),
            ("/v1/tools?offset=99999999999999999999", None, "offset must be a whole number"),
        ],
    )
    def test_what_cannot_be_used(self, path, body, said):
        (answer,) = asked(path if body is None else (path, body))
        assert answer.error == (400, "invalid")
        assert said in answer.json["error"]["message"]
        assert len(answer.body) < 600

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            ("/v1/nothing", (404, "not_found")),
            ("/v1/search", (405, "method_not_allowed")),
            ("/mcp", (405, "method_not_allowed")),
            (("/healthz", {}), (405, "method_not_allowed")),
            (("/v1/call", {"name": "home__fly"}), (404, "unknown_tool")),
            (("/v1/feedback", {"search_id": "a", "rating": 1}), (404, "unknown_search")),
            (
                ("/v1/call", {"name": "home__forecast", "search_id": "a"}),
                (404, "unknown_search"),
            ),
        ],
    )
    def test_what_is_not_there(self, request_, error):
        (answer,) = asked(request_)
        assert answer.error == error
        if error[0] == 405:
            assert answer.headers["allow"]

    @pytest.mark.parametrize("media_type", ["text/plain", "application/jsonx", None])
    def test_what_is_not_json(self, media_type):
        async def main():
            async with home() as (browser, _):
                return await browser.post("/v1/search", {"query": "a"}, content_type=media_type)

        assert asyncio.run(main()).error == (415, "unsupported_media_type")

    def test_json_with_a_charset(self):
        async def main():
            async with home() as (browser, _):
                kind = "Application/JSON; charset=utf-8"
                return await browser.post("/v1/search", {"query": "a"}, content_type=kind)

        assert asyncio.run(main()).status == 200

    @pytest.mark.parametrize(
        ("raised", "error"),
        [
            (SourceUnavailableError("home", "/secret/place is gone"), (503, "source_unavailable")),
            (DataFileError("/secret/place", "is gone"), (500, "internal")),
            (ContextStoreError("/secret/place", "is gone"), (500, "internal")),
            (ZeroDivisionError("/secret/place"), (500, "internal")),
        ],
    )
    def test_nothing_internal_is_said(self, raised, error, caplog):
        async def main():
            async with home() as (browser, gateway):

                async def search(*_, **__):
                    raise raised

                gateway.search = search
                return await browser.post("/v1/search", {"query": "a"})

        answer = asyncio.run(main())
        assert answer.error == error
        assert b"secret" not in answer.body
        assert "secret" in caplog.text  # who runs it is told
        assert (answer.status == 503) == ("retry-after" in answer.headers)


class TestClients:
    CLIENTS = Clients(
        {"alice": "alice-token", "bob": "bob-token-1"},
        [Client("alice", among=("*__forecast",)), Client("bob", exclude=("*__dig",))],
    )

    def ask(self, token, path="/v1/tools", document=None):
        async def main():
            async with home(self.CLIENTS) as (browser, _):
                held = {} if token is None else {"authorization": f"Bearer {token}"}
                if document is None:
                    return await browser.get(path, **held)
                return await browser.post(path, document, **held)

        return asyncio.run(main())

    @pytest.mark.parametrize(
        ("token", "seen"),
        [
            ("alice-token", ["home__forecast"]),
            ("bob-token-1", ["home__forecast", "home__send"]),
        ],
    )
    def test_each_sees_what_it_may(self, token, seen):
        assert [tool["name"] for tool in self.ask(token).json["tools"]] == seen

    def test_what_a_client_may_not_see_is_not_there(self):
        call = {"name": "home__send", "inputs": {"text": "a"}}
        assert self.ask("alice-token", "/v1/call", call).error == (404, "unknown_tool")

    @pytest.mark.parametrize("path", ["/v1/tools", "/metrics", "/openapi.json", "/mcp", "/nothing"])
    @pytest.mark.parametrize("token", [None, "wrong-token", "alice-token-", ""])
    def test_without_a_token_nothing_is_said(self, token, path):
        answer = self.ask(token, path)
        assert answer.error == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert ("invalid_token" in answer.headers["www-authenticate"]) == bool(token)
        assert b"alice" not in answer.body

    def test_what_is_open(self):
        assert self.ask(None, "/").status == 200
        health = self.ask(None, "/healthz")
        assert sorted(health.json) == ["status", "version"]

    @pytest.mark.parametrize(("token", "n_tools"), [("alice-token", 1), ("bob-token-1", 2)])
    def test_its_state_is_that_of_what_it_may_see(self, token, n_tools):
        assert self.ask(token, "/healthz").json["tools"] == n_tools

    def test_metrics_name_all_sources(self):
        clients = Clients.one("token-of-all")

        async def main():
            async with home(clients) as (browser, _):
                return await browser.get("/metrics", authorization="Bearer token-of-all")

        assert asyncio.run(main()).status == 200
        for token in ("alice-token", "bob-token-1"):
            answer = self.ask(token, "/metrics")
            assert answer.error == (403, "forbidden")
            assert b"cnp_router_" not in answer.body

    def test_over_mcp(self):
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "search_tools", "arguments": {"query": "the weather forecast"}},
        }

        async def main():
            async with home(self.CLIENTS) as (browser, _):
                accept = "application/json, text/event-stream"
                held = {"accept": accept, "authorization": "Bearer alice-token"}
                return await browser.post("/mcp", body, **held)

        answer = asyncio.run(main())
        assert answer.status == 200
        assert b"home__forecast" in answer.body and b"home__send" not in answer.body


class TestOpenApi:
    def test_the_document_is_valid(self):
        for needs_token in (False, True):
            document = openapi_of(needs_token=needs_token)
            parsed = OpenAPI.model_validate(document)
            assert parsed.openapi == "3.1.0"
            assert len(parsed.paths) == 7
            assert bool(parsed.security) == needs_token

    @pytest.mark.parametrize("body", [SearchBody, RouteBody, CallBody, FeedbackBody])
    def test_it_has_the_fields_of_each_body(self, body):
        schema = openapi_of()["components"]["schemas"][body.__name__]
        assert list(schema["properties"]) == list(body.__dataclass_fields__)

    @pytest.mark.parametrize("share", [0.0, 1.0])
    def test_it_describes_each_answer(self, share):
        """Those of searches that are not acted on, and of calls that fail, too."""
        clients = Clients.one("token-of-all")

        async def main():
            settings = GatewaySettings(share=share)
            async with home(clients, settings=settings) as (browser, gateway):
                held = {"authorization": "Bearer token-of-all"}
                found = await browser.post("/v1/search", {"query": "rain forecast"}, **held)
                rain = {"name": "home__forecast", "inputs": {"city": "Kyoto"}}
                sent = {"name": "home__send", "search_id": found.json["search_id"]}
                answers = [
                    ("Search", found),
                    ("Routing", await browser.post("/v1/route", {"request": "rain"}, **held)),
                    ("Called", await browser.post("/v1/call", rain, **held)),
                    ("Called", await browser.post("/v1/call", sent, **held)),
                    ("Tools", await browser.get("/v1/tools", **held)),
                    ("Health", await browser.get("/healthz", **held)),
                    ("Health", await browser.get("/healthz")),
                    ("Error", await browser.get("/v1/tools")),
                ]
                await gateway.__aexit__(None, None, None)
                answers.append(("Health", await browser.get("/healthz", **held)))
                await gateway.__aenter__()
                return answers

        schemas = openapi_of()["components"]["schemas"]
        answers = asyncio.run(main())
        for name, answer in answers:
            checked = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
            jsonschema.Draft202012Validator(checked).validate(answer.json)
            described = schemas[name].get("properties", {})
            if name in ("Called", "Health", "Tools"):
                assert answer.json.keys() <= described.keys()
        assert answers[0][1].json["acted"] is (share == 1.0)
        assert answers[2][1].json["result"].keys() == schemas["Result"]["properties"].keys()
        assert answers[3][1].json["result"]["failure"]["kind"] in ("inputs", "declined")
        assert answers[-1][1].json["status"] == "closed"

    def test_each_path_is_served(self):
        paths = [path for path in openapi_of()["paths"] if path.startswith("/v1")]
        for answer in asked(*paths):
            assert answer.status in (200, 405)

    def test_the_gateway_is_a_source_itself(self):
        async def main():
            async with home() as (browser, _):
                place = f"http://127.0.0.1:{browser.port}/openapi.json"
                source = OpenApiSource("gateway", place)
                try:
                    names = [api.id for api in await source.apis()]
                    inputs = {"query": "rain forecast", "k": 1}
                    found = await source.call(Call(api="gateway__search", inputs=inputs))
                    inputs = {"name": "home__forecast", "inputs": {"city": "Kyoto"}}
                    called = await source.call(Call(api="gateway__call", inputs=inputs))
                    return names, found, called
                finally:
                    await source.aclose()

        names, found, called = asyncio.run(main())
        assert {"gateway__search", "gateway__route", "gateway__call"} <= set(names)
        assert found.structured["tools"][0]["name"] == "home__forecast"
        assert called.structured["result"]["text"] == "Rain in Kyoto"


def test_requests_of_one_connection():
    """A connection is used again, and a body that was refused is read to its end."""

    async def main():
        async with home() as (browser, _):
            assert isinstance(browser, Browser)
            reader, writer = await asyncio.open_connection("127.0.0.1", browser.port)
            statuses = []
            for path, size in (("/v1/search", 2_000_000), ("/v1/nothing", 2), ("/v1/search", 2)):
                body = json.dumps({"query": "a"}).encode().ljust(size)
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
                length = answer.lower().partition(b"content-length: ")[2].split(b"\r")[0]
                await reader.readexactly(int(length))
                statuses.append(answer.split(b" ")[1])
            writer.close()
            return statuses

    assert asyncio.run(main()) == [b"413", b"404", b"200"]
