from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
from mcp import Client as McpClient
from mcp_gateways import EVENTS, alone, mcp_site
from tool_servers import wait_until

from cnp_router.serving.clients import Client, Clients
from cnp_router.serving.http_front import app_of

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture(autouse=True)
def no_events():
    EVENTS.clear()


@pytest.fixture(scope="module")
def address():
    with mcp_site() as address:
        yield address


@pytest.fixture(scope="module", params=[None, app_of], ids=["alone", "front"])
def guarded(request):
    """The address without and with the HTTP front before it."""
    with mcp_site(app=request.param) as address:
        yield address


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def request(era, method, params, name=""):
    """Return headers and body of a request as a client of that era sends it."""
    headers = {**ACCEPT, "mcp-protocol-version": era}
    if era == "2026-07-28":
        headers |= {"mcp-method": method} | ({"mcp-name": name} if name else {})
        params = params | {
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": era,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        }
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@ERAS
def test_the_official_client_searches_and_calls(guarded, mode):
    async def ask():
        async with McpClient(guarded, mode=mode) as client:
            found = await client.call_tool("search_tools", {"query": "weather forecast of a city"})
            search_id = found.structured_content["search_id"]
            inputs = {"name": "tools__forecast", "inputs": {"city": "Oslo"}}
            called = await client.call_tool("call_tool", inputs | {"search_id": search_id})
            page = await client.read_resource("catalog://pages/1")
            return await client.list_tools(), called, page

    tools, called, page = asyncio.run(ask())
    assert len(tools.tools) == 5
    assert called.structured_content == {"city": "Oslo", "weather": "rain"}
    assert len(json.loads(page.contents[0].text)["tools"]) == 11


@ERAS
def test_progress_is_passed_on(guarded, mode):
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    async def ask():
        async with McpClient(guarded, mode=mode) as client:
            arguments = {"name": "odd__copy"}
            return await client.call_tool("call_tool", arguments, progress_callback=note)

    assert text_of(asyncio.run(ask())) == "copied"
    assert seen == [(0, 3, "page 1"), (1, 3, "page 2"), (2, 3, "page 3")]


@ERAS
def test_a_client_that_cancels_ends_its_call_and_no_other(guarded, mode):
    async def ask():
        async with McpClient(guarded, mode=mode) as client, McpClient(guarded, mode=mode) as other:
            calls = [
                asyncio.create_task(each.call_tool("tools__wait", {"seconds": seconds}))
                for each, seconds in ((client, 30), (other, 0.5))
            ]
            while EVENTS.count("started") < 2:
                await asyncio.sleep(0.01)
            calls[0].cancel()
            await asyncio.gather(calls[0], return_exceptions=True)
            while "cancelled" not in EVENTS:
                await asyncio.sleep(0.01)
            return await calls[1], await client.call_tool("tools__add", {"a": 1, "b": 2})

    waited, after = asyncio.run(asyncio.wait_for(ask(), 60))
    assert (text_of(waited), text_of(after)) == ("waited", "3")
    assert EVENTS.count("cancelled") == 1


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_a_client_that_disconnects_in_a_call_ends_it(guarded, era):
    params = {"name": "tools__wait", "arguments": {"seconds": 30}}
    headers, body = request(era, "tools/call", params, "tools__wait")

    async def ask():
        async with httpx2.AsyncClient() as client:
            call = asyncio.create_task(client.post(guarded, json=body, headers=headers))
            while "started" not in EVENTS:
                await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    asyncio.run(ask())
    assert wait_until(lambda: "cancelled" in EVENTS)


def test_an_answer_without_progress_is_json_in_the_present_protocol(address):
    params = {"name": "tools__add", "arguments": {"a": 1, "b": 2}}
    headers, body = request("2026-07-28", "tools/call", params, "tools__add")
    answer = httpx2.post(address, json=body, headers=headers)
    assert answer.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in answer.headers
    assert answer.json()["result"]["structuredContent"] == 3


def test_any_worker_answers_any_request(address):
    with mcp_site() as another:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        params["clientInfo"] = {"name": "test", "version": "1"}
        headers, body = request("2025-11-25", "initialize", params)
        answer = httpx2.post(address, json=body, headers=headers)
        session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        headers, body = request("2025-11-25", "tools/list", {})
        listed = httpx2.post(another, json=body, headers=headers | session)
    assert "search_tools" in listed.text


def test_a_notice_of_cancelling_needs_the_session_of_the_request(address):
    call = {"name": "tools__wait", "arguments": {"seconds": 0.4}}
    headers, body = request("2025-11-25", "tools/call", call)
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    async def ask():
        async with httpx2.AsyncClient() as client:
            mine = {"mcp-session-id": "mine"}
            asked = asyncio.create_task(client.post(address, json=body, headers=headers | mine))
            while "started" not in EVENTS:
                await asyncio.sleep(0.01)
            for session in ({"mcp-session-id": "theirs"}, {}):
                sent = await client.post(address, json=notice, headers=headers | session)
                assert sent.status_code == 202
            return await asked

    assert "waited" in asyncio.run(ask()).text
    assert "cancelled" not in EVENTS


def test_a_notice_of_cancelling_needs_the_client_of_the_request():
    clients = Clients(
        {"ann": "ann-token-1", "bob": "bob-token-1"}, [Client("ann"), Client("bob", among=())]
    )
    call = {"name": "tools__wait", "arguments": {"seconds": 30}}
    headers, body = request("2025-11-25", "tools/call", call)
    headers["mcp-session-id"] = "one that both know"
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    async def ask(address):
        async with httpx2.AsyncClient() as client:

            def post(name, document):
                token = {"authorization": f"Bearer {name}-token-1"}
                return client.post(address, json=document, headers=headers | token)

            asked = asyncio.create_task(post("ann", body))
            while "started" not in EVENTS:
                await asyncio.sleep(0.01)
            assert (await post("bob", notice)).status_code == 202
            await asyncio.sleep(0.1)
            events = list(EVENTS)
            assert (await post("ann", notice)).status_code == 202
            return events, await asked

    with mcp_site(app=lambda gateway: app_of(gateway, clients)) as address:
        events, answer = asyncio.run(ask(address))
    assert "cancelled" not in events
    assert "the request was cancelled" in answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_a_post_has_a_meaning(address, method):
    answer = httpx2.request(method, address, headers=ACCEPT)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize(
    ("body", "status"),
    [(b"no JSON", 400), (b"[]", 400), (b"{}", 400), (b"[" * 100_000, 400), (b"x" * 5_000_000, 413)],
)
def test_a_body_that_is_no_message_is_one_clear_error(address, era, body, status):
    headers, _ = request(era, "tools/list", {})
    answer = httpx2.post(address, content=body, headers=headers)
    assert answer.status_code == status


def test_an_unknown_protocol_version_is_refused(address):
    headers, body = request("2026-07-28", "tools/list", {})
    headers["mcp-protocol-version"] = "2031-01-01"
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2031-01-01"
    answer = httpx2.post(address, json=body, headers=headers)
    assert answer.status_code == 400 and "2026-07-28" in answer.text


def test_a_request_that_nobody_was_found_for_is_refused():
    with mcp_site(client=None) as address:
        headers, body = request("2025-11-25", "tools/list", {})
        answer = httpx2.post(address, json=body, headers=headers)
    assert "search_tools" not in answer.text and "error" in answer.text


def test_the_client_is_the_one_that_the_front_has_found():
    class Front:
        """Sets `state.client`, as the HTTP front does when it has checked the token."""

        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            if scope["type"] == "http":
                names = dict(scope["headers"]).get(b"authorization", b"").decode().split()
                among = ("tools__*",) if names[-1:] == ["bob"] else ()
                scope.setdefault("state", {})["client"] = Client("someone", among=among)
            await self.app(scope, receive, send)

    headers, body = request("2025-11-25", "resources/read", {"uri": "catalog://pages/1"})
    with mcp_site(app=lambda gateway: Front(alone(gateway, None))) as address:
        bob = httpx2.post(address, json=body, headers=headers | {"authorization": "Bearer bob"})
        nobody = httpx2.post(address, json=body, headers=headers)
    assert "tools__add" in bob.text and "odd__draw" not in bob.text
    assert "tools__add" not in nobody.text


def test_calls_under_way_end_with_the_server():
    params = {"name": "tools__wait", "arguments": {"seconds": 30}}
    headers, body = request("2025-11-25", "tools/call", params)
    with mcp_site() as address, httpx2.Client() as client:
        sending = client.stream("POST", address, json=body, headers=headers)
        stream = sending.__enter__()
        assert wait_until(lambda: "started" in EVENTS)
    stream.close()
    assert "cancelled" in EVENTS
