"""The gateway as an MCP server over streamable HTTP, to be mounted by the HTTP front."""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from cnp_router.exceptions import InputError
from cnp_router.records import shown
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway import Gateway
from cnp_router.serving.mcp_handlers import server_of

__all__ = ["McpEndpoint", "http_app"]


class McpEndpoint:
    """An ASGI application for one path; made by `http_app`. It runs within `run`, once.

    Both eras of the protocol are served, 2026-07-28 and the earlier ones, without sessions: any
    worker answers any request. An answer is JSON, or a stream of events where the call reports
    progress, or the protocol is an earlier one. A client that disconnects cancels its call.
    """

    def __init__(self, gateway: Gateway, client: Client | None, max_body: int) -> None:
        self._client = client
        self._manager = StreamableHTTPSessionManager(
            server_of(gateway, client=self._asker), stateless=True, max_request_body_size=max_body
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve while the context lasts; calls that are under way at its end are cancelled."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is not a POST has no meaning without sessions."""
        if scope["type"] == "http" and scope["method"] != "POST":
            refusal = PlainTextResponse("use POST", 405, {"Allow": "POST"})
            await refusal(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)

    def _asker(self, ctx: ServerRequestContext[Any, Any]) -> Client:
        """Return who asks: `state.client` of the request, which the HTTP front has set."""
        scope: Scope = ctx.request.scope if ctx.request is not None else {}
        state: MutableMapping[str, Any] = scope.get("state") or {}
        client = state.get("client", self._client)
        if not isinstance(client, Client):
            raise InputError(f"a request without a client (state.client is {shown(client)})")
        return client


def http_app(
    gateway: Gateway, *, client: Client | None = None, max_body: int = 4 << 20
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

    Examples
    --------
    In a Starlette application, with ``endpoint = http_app(gateway, client=Client())``::

        Starlette(routes=[Route("/mcp", endpoint)], lifespan=lambda _: endpoint.run())
    """
    return McpEndpoint(gateway, client, max_body)
