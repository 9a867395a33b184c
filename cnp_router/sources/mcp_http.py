"""MCP over HTTP: one request's failure stays its own, and no answer is larger than allowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport

__all__ = ["HTTP_ERROR", "ServerUrl"]

HTTP_ERROR = "cnp_router_http"
"""Key in the data of the JSON-RPC errors that are made here of what HTTP says."""

_PATIENCE = 5.0  # seconds that a message may take which has no answer
_PLAIN = {"Accept-Encoding": "identity"}  # compressed, a small answer can be of any size
_NEGOTIATED = (400, 404, 405)  # what they mean is a matter between the SDK and the server


class ServerUrl:
    """The address of a server, as a transport of the SDK.

    The SDK ends the whole connection where a request cannot be sent, and says nothing of the status
    of an answer. So both are made JSON-RPC errors of that one request, below the SDK.

    Attributes
    ----------
    ended : asyncio.Event
        Set when it is to be over.
    problem : str
        Why, if that was not this side's wish.
    is_nonsense : bool
        Never: what came belongs to one request.
    """

    is_nonsense = False
    detail = ""
    cure = "check its address, and that it runs"

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        auth: httpx2.Auth | None,
        connect_timeout: float,
        max_message: int,
    ) -> None:
        self.url = url
        self.headers = headers
        self.auth = auth
        self.connect_timeout = connect_timeout
        self.max_message = max_message
        self.ended = asyncio.Event()
        self.problem = ""

    def transport(self) -> Transport:
        """Return what the SDK's client enters."""
        return self._run()

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[Any]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # How long an answer may take is the affair of each call.
        timeout = httpx2.Timeout(self.connect_timeout, read=None)
        client = _client_class(self.max_message, min(self.connect_timeout, _PATIENCE))(
            headers={**self.headers, **_PLAIN}, auth=self.auth, timeout=timeout
        )
        async with (
            client,
            streamable_http_client(
                self.url, http_client=client, max_sse_event_size=self.max_message
            ) as streams,
        ):
            try:
                yield streams
            finally:
                self.ended.set()


def _client_class(most: int, patience: float) -> type[httpx2.AsyncClient]:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """A stream that ends where it becomes too long."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            total = 0
            async for chunk in self._stream:
                total += len(chunk)
                if total > most:
                    raise httpx2.StreamError(f"an answer of more than {most:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Client(httpx2.AsyncClient):
        """A client for which what goes wrong with one request is the answer to it."""

        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            # Above the flow of `auth`, which must see what really came.
            if request.method == "DELETE" or _is_notification(request):
                request.extensions["timeout"] = {**request.extensions["timeout"], "read": patience}
            try:
                response = await super().send(request, **options)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
                return _error(
                    request, f"no connection to {_host(request)}: {_said(exc)}", unsent=True
                )
            except httpx2.TransportError as exc:
                return _error(request, f"the connection broke: {_said(exc)}", lost=True)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                return _error(request, "a compressed answer, which was not asked for", packed=True)
            response.stream = Bounded(response.stream)
            if request.method != "POST" or (response.status_code < 400 and not _is_json(response)):
                return response
            return await _read(request, response)

    async def _read(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return a response that has been read whole."""
        status = response.status_code
        try:
            body = await response.aread()
            negotiated = status in _NEGOTIATED and not _forgotten(request, status)
            if status < 400 or (negotiated and _is_rpc_error(body)):
                return response
            reason = f"HTTP {status} {response.reason_phrase}".strip()
            later = "retry-after" in response.headers
            error = _error(request, reason, status=status, later=later)
        except httpx2.StreamError as exc:
            error = _error(request, str(exc), status=status, too_large=True)
        except httpx2.TransportError as exc:
            error = _error(request, f"the connection broke: {_said(exc)}", lost=True)
        await response.aclose()
        return error

    def _error(request: httpx2.Request, message: str, **what: Any) -> httpx2.Response:
        status = what.get("status", 503)
        code = -32601 if status == 404 and not _forgotten(request, status) else -32603
        error = {"code": code, "message": message, "data": {HTTP_ERROR: what}}
        body = {"jsonrpc": "2.0", "id": None, "error": error}
        return httpx2.Response(max(status, 400), json=body, request=request)

    return Client


def _forgotten(request: Any, status: int) -> bool:
    """Return whether a server says that it does not know the session."""
    return status == 404 and "mcp-session-id" in request.headers


def _is_notification(request: Any) -> bool:
    """Return whether a message has no answer to wait for."""
    return request.method == "POST" and b'"id"' not in request.content[:60]


def _host(request: Any) -> str:
    host: bytes = request.url.netloc
    return host.decode()


def _said(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


def _is_json(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.lower().startswith("application/json")


def _is_rpc_error(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and isinstance(answer.get("error"), dict)
