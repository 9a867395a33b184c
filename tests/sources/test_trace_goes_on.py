"""A trace goes on at the servers that are called."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tool_servers import script_entry

from cnp_router import telemetry
from cnp_router.sources import Call, McpServer, Sources
from cnp_router.sources.openapi_http import HttpClient, Progress
from cnp_router.sources.openapi_request import HttpRequest


@contextmanager
def listening():
    """A server, and the headers of each request to it."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(dict(self.headers))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def get(url, headers=()):
    client = HttpClient(1_000)
    client.open()
    try:
        await client.exchange(HttpRequest("GET", url, "/", headers), Progress())
    finally:
        await client.aclose()


async def ask_agent(url):
    _BoundedClient = pytest.importorskip("cnp_router.sources.a2a_connection")._BoundedClient
    async with _BoundedClient(url, {}, 1_000) as client:
        await client.get(url)


@pytest.mark.parametrize("ask", [get, ask_agent])
def test_http_servers_are_told_the_trace_and_no_more(watched, ask):
    with listening() as (url, seen):
        asyncio.run(ask(url))
        with telemetry.span("execute_tool it__get"):
            asyncio.run(ask(url))
    context = watched.span("execute_tool it__get").context
    before, within = ({k.lower(): v for k, v in each.items()} for each in seen)
    assert "traceparent" not in before
    known = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert within["traceparent"] == known
    assert "baggage" not in within


def test_a_traceparent_that_is_given_is_kept(watched):
    with listening() as (url, seen), telemetry.span("route"):
        asyncio.run(get(url, (("Traceparent", "mine"),)))
    assert [v for k, v in seen[0].items() if k.lower() == "traceparent"] == ["mine"]


def test_mcp_servers_are_told_by_the_sdk_within_our_span(watched):
    async def main():
        async with Sources([McpServer("sky", **script_entry("meta"))]) as tools:
            await tools.load()
            return await tools.call(Call(api="sky__look"))

    result = asyncio.run(main())
    context = watched.span("execute_tool sky__look").context
    assert result.data["traceparent"].startswith(f"00-{context.trace_id:032x}-")
