"""`http_server`: uvicorn, with limits on connections that ask nothing, and an end of ours."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cnp_router.serving.http_limits import Limits, error_document

__all__ = ["http_server"]


def http_server(
    app: Any, limits: Limits, *, grace: float, ready: Callable[[], None]
) -> uvicorn.Server:
    """Return a server that takes no signals: it ends when `should_exit` is set.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
        Of its connections; a `Guard` sees to the rest.
    grace : float, seconds
        How long requests may go on then.
    ready : callable
        Is called when requests are answered.
    """

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for each in sockets or ():
                each.listen(limits.max_connections)
            if self.started:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            if self.force_exit:  # which is no reason to leave the application open
                await self.lifespan.shutdown()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        app,
        http=_bounded(limits),
        ws="none",
        lifespan="on",
        backlog=1,  # so many asyncio takes at once: the others are for other workers
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=grace,  # type: ignore[arg-type]
    )
    return Server(config)


def _bounded(limits: Limits) -> type[H11Protocol]:
    """Return a protocol that bounds connections.

    A connection has ``limits.body_timeout`` seconds to send the head of a request; when there are
    ``limits.max_connections`` of them, another one is told to come again. What cannot be read as
    HTTP is answered with a document as every other error.
    """

    class Bounded(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.max_connections:
                transport.write(_plain(503, "busy", "too many connections (ask again)"))
                transport.close()
                return
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._is_asking():
                self._enough()
            elif self._late is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._enough()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            self.transport.write(_plain(400, "invalid", f"{msg.rstrip('.')} (send HTTP/1.1)"))
            self.transport.close()

        def _is_asking(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _wait(self) -> None:
            self._late = self.loop.call_later(limits.body_timeout, self._close)

        def _enough(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _close(self) -> None:
            self._late = None
            if not self.transport.is_closing() and not self._is_asking():
                self.transport.write(_plain(408, "late", "no request came in time (send it)"))
                self.transport.close()

    return Bounded


def _plain(status: int, kind: str, message: str) -> bytes:
    """Return a whole response for a connection that asked nothing that can be read."""
    phrases = {400: "Bad Request", 408: "Request Timeout", 503: "Service Unavailable"}
    body = json.dumps(error_document(kind, message)).encode()
    head: list[tuple[str, Any]] = [
        ("Content-Type", "application/json"),
        ("Content-Length", len(body)),
        ("Connection", "close"),
        *([("Retry-After", 1)] if status == 503 else []),
    ]
    lines = [f"HTTP/1.1 {status} {phrases[status]}", *(f"{name}: {value}" for name, value in head)]
    return "\r\n".join([*lines, "", ""]).encode() + body
