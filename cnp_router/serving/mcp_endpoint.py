"""The gateway as an MCP server over streamable HTTP, to be mounted by the HTTP front."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST, REQUEST_TIMEOUT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from cnp_router.exceptions import InputError
from cnp_router.records import shown
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway import Gateway
from cnp_router.serving.http_limits import UNSURE
from cnp_router.serving.mcp_handlers import server_of

__all__ = ["McpEndpoint", "http_app"]


_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_LONGEST_NOTICE = 4_000  # bytes of a notice that a request is cancelled


class McpEndpoint:
    """An ASGI application for one path; made by `http_app`. It runs within `run`, once.

    Both eras of the protocol are served, 2026-07-28 and the earlier ones, without sessions: any
    worker answers any request. An answer is JSON, or a stream of events where the call reports
    progress, or the protocol is an earlier one.

    A client that disconnects cancels its call. Those of the earlier protocols may send a notice
    instead: they are given a random session id, by which it finds the request. Nothing is kept
    under it, and a notice that reaches another worker finds nothing.
    """

    def __init__(
        self, gateway: Gateway, client: Client | None, max_body: int, timeout: float
    ) -> None:
        self._client = client
        self._timeout = timeout
        self._under_way: dict[tuple[str, ...], anyio.CancelScope] = {}
        server = server_of(gateway, client=self._asker)
        server.middleware.append(self._bounded)
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=max_body
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve while the context lasts; calls that are under way at its end are cancelled."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is not a POST has no meaning without sessions."""
        request = Request(scope, receive)
        if request.method != "POST":
            refusal = PlainTextResponse("use POST", 405, {"Allow": "POST"})
            await refusal(scope, receive, send)
            return
        session = request.headers.get(_SESSION)
        length = request.headers.get("content-length", "")
        if session is None:
            if request.headers.get(_VERSION) not in MODERN_PROTOCOL_VERSIONS:
                send = _with_session(send)
        elif length.isdecimal() and int(length) <= _LONGEST_NOTICE:
            body = await request.body()
            if self._cancelled(scope, session, body):
                await Response(status_code=202)(scope, receive, send)
                return
            receive = _again(body, receive)
        await self._manager.handle_request(scope, receive, send)

    def _asker(self, ctx: ServerRequestContext[Any, Any]) -> Client:
        """Return who asks: `state.client` of the request, which the HTTP front has set."""
        scope: Scope = ctx.request.scope if ctx.request is not None else {}
        client = self._found(scope)
        if not isinstance(client, Client):
            raise InputError(f"a request without a client (state.client is {shown(client)})")
        return client

    def _found(self, scope: Scope) -> Any:
        return (scope.get("state") or {}).get("client", self._client)

    def _key(self, scope: Scope, session: str, request_id: object) -> tuple[str, ...]:
        """Return what finds a request again, for the client who sent it and nobody else."""
        return getattr(self._found(scope), "name", ""), session, str(request_id)

    async def _bounded(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a request in time, and so that a later notice can cancel it."""
        if ctx.request_id is None:
            return await call_next(ctx)
        asked, key = ctx.request, None
        if asked is not None and _SESSION in asked.headers:
            key = self._key(asked.scope, asked.headers[_SESSION], ctx.request_id)
        with anyio.move_on_after(self._timeout) as scope:
            if key is not None:
                self._under_way[key] = scope
            try:
                return await call_next(ctx)
            finally:
                if key is not None:
                    self._under_way.pop(key, None)
        if anyio.current_time() < scope.deadline:
            raise MCPError(INVALID_REQUEST, "the request was cancelled")
        problem = f"no answer in {self._timeout:g} s, so it was given up{UNSURE} (ask for less)"
        raise MCPError(REQUEST_TIMEOUT, problem)

    def _cancelled(self, scope: Scope, session: str, body: bytes) -> bool:
        """Whether a body is a notice that a request is cancelled, which is done then."""
        try:
            message = json.loads(body)
            if message["method"] != "notifications/cancelled":
                return False
            key = self._key(scope, session, message["params"]["requestId"])
        except (ValueError, RecursionError, KeyError, TypeError):
            return False
        if key in self._under_way:
            self._under_way[key].cancel()
        return True


def _with_session(send: Send) -> Send:
    """Give the client a session id of its own with the answer."""

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            header = (_SESSION.encode(), secrets.token_hex(16).encode())
            message = {**message, "headers": [*message["headers"], header]}
        await send(message)

    return send_on


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, and what comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_on() -> Message:
        return left.pop() if left else await receive()

    return receive_on


def http_app(
    gateway: Gateway,
    *,
    client: Client | None = None,
    max_body: int = 4 << 20,
    timeout: float = math.inf,
) -> McpEndpoint:
    """Return the ASGI application that serves a gateway by streamable HTTP.

    It checks neither token nor Host nor Origin: whoever mounts it does, and sets ``state.client``
    of each request to the `Client` who asks.

    Parameters
    ----------
    gateway : Gateway
        Entered and left by the caller.
    client : Client or None, default=None
        Who asks where the request does not say. None: such a request is refused.
    max_body : int >= 1, bytes, default=4 MiB
        A larger request is answered with 413.
    timeout : float > 0, seconds, default=inf
        A request that takes longer is given up, and answered with an error of the protocol.

    Examples
    --------
    In a Starlette application, with ``endpoint = http_app(gateway, client=Client())``::

        Starlette(routes=[Route("/mcp", endpoint)], lifespan=lambda _: endpoint.run())
    """
    return McpEndpoint(gateway, client, max_body, timeout)
