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

_LEAST_READ = 16 * 1024  # bytes of a large answer that a client has to read in each body_timeout


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

    A connection has ``limits.body_timeout`` seconds to send the head of a request, and as long to
    read what it was sent, or a part of it; then it is closed. When there are more than
    ``limits.max_connections`` of them, the one that has kept the server waiting longest is closed,
    or the new one is asked to come again if all are being answered. What cannot be read as HTTP is
    answered with a document as every other error.
    """
    waiting: dict[Bounded, None] = {}  # for a request, or to be read: the longest first

    class Bounded(H11Protocol):
        _late: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # Whatever the client leaves unread is said at once: here, and not hidden by the system.
            transport.set_write_buffer_limits(0)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                sock = transport.get_extra_info("socket")
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _LEAST_READ)
            if len(self.connections) > limits.max_connections:
                if not waiting:
                    transport.write(_plain(503, "busy", "too many connections (ask again)"))
                    transport.close()
                    return
                longest = next(iter(waiting))
                del waiting[longest]
                longest.transport.abort()
            self._wait()
            self._sort()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._is_asking():
                self._enough()
            elif self._late is None:
                self._wait()
            self._sort()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._sort()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._wait_for_reader()
            self._sort()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._read()
            self._sort()

        def connection_lost(self, exc: Exception | None) -> None:
            waiting.pop(self, None)
            self._enough()
            self._read()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            self.transport.write(_plain(400, "invalid", f"{msg.rstrip('.')} (send HTTP/1.1)"))
            self.transport.close()

        def _is_asking(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _sort(self) -> None:
            if self._is_asking() and self._unread is None:
                waiting.pop(self, None)
            elif self in self.connections:
                waiting.setdefault(self)

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

        def _wait_for_reader(self) -> None:
            unread = self.transport.get_write_buffer_size()
            self._unread = self.loop.call_later(limits.body_timeout, self._look, unread)

        def _look(self, before: int) -> None:
            if before - self.transport.get_write_buffer_size() < _LEAST_READ:
                self.transport.abort()
            else:
                self._wait_for_reader()

        def _read(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

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
