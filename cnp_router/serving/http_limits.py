"""`Guard`: what every HTTP request has to pass before anything is done, and what bounds it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cnp_router import telemetry
from cnp_router.printing import printable
from cnp_router.records import check_number
from cnp_router.serving.clients import Client

if TYPE_CHECKING:
    from cnp_router.serving.clients import Clients

__all__ = ["ACCESS_LOG", "UNSURE", "Guard", "Limits", "error_document", "is_loopback"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ACCESS_LOG = "cnp_router.serving.access"
_LOGGER = logging.getLogger(__name__)
_ACCESS = logging.getLogger(ACCESS_LOG)

_OPEN = ("/", "/healthz")  # nothing in them is anybody's
_MCP = "/mcp"
_CALLS = ("/v1/call", _MCP)  # what may have been done when no answer comes
_SMALL = (*_OPEN, "/metrics")  # answered however much there is to do, and they take no body
_SAY_BODY = frozenset((b"content-length", b"transfer-encoding"))
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
_RETRY_AFTER = 1  # seconds
_REFUSED = -32_000  # the first of the codes of JSON-RPC that are a server's own
UNSURE = "; what was called may have been done: see whether it was before you call it again"
"""What is said of a call that has no answer."""
_CLIENT_CLOSED = 499  # what nginx calls it, in log and metrics: nobody is there to read an answer


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process takes at most.

    Parameters
    ----------
    max_body : int, bytes, default=1,000,000
    max_concurrent : int, default=256
        Requests at once; others are asked to come again.
    timeout : float, seconds, default=60.0
        How long a request may take, its body not counted.
    body_timeout : float, seconds, default=10.0
        How long its body may take to come, and before it its headers; and how long a client may
        leave what it was sent unread.
    max_connections : int, default=2,000
        Open connections, with or without a request.

    Raises
    ------
    InputError
        If one of them cannot be used.

    Examples
    --------
    >>> Limits(max_concurrent=8).max_body
    1000000
    """

    max_body: int = 1_000_000
    max_concurrent: int = 256
    timeout: float = 60.0
    body_timeout: float = 10.0
    max_connections: int = 2_000

    def __post_init__(self) -> None:
        for name in ("max_body", "max_concurrent", "max_connections"):
            check_number(name, getattr(self, name), 1, 10**9, whole=True)
        for name in ("timeout", "body_timeout"):
            check_number(f"{name} in seconds", getattr(self, name), 0, 10**6, ends=False)


def error_document(kind: str, message: str) -> dict[str, Any]:
    """Return the document that says what went wrong."""
    return {"error": {"type": kind, "message": message}}


def is_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, is this machine by a name nobody can give.

    Examples
    --------
    >>> is_loopback("localhost:8000"), is_loopback("127.0.0.1.example.com")
    (True, False)
    """
    return _LOOPBACK.fullmatch(host) is not None


def _is_of_loopback(origin: str) -> bool:
    try:
        return is_loopback(urlsplit(origin).netloc)
    except ValueError:  # it is not a URL
        return False


class RefusedError(Exception):
    """A request is answered with an error."""

    def __init__(
        self, status: int, kind: str, message: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.status, self.kind, self.message, self.headers = status, kind, message, headers
        super().__init__(message)


class _GoneError(Exception):
    """The client is not there any more."""


class Guard:
    """Checks who asks, bounds what comes and how long it takes, and counts it.

    An application of ASGI around another one. Without `clients`, Host and Origin have to be of this
    machine, so that no page of another place reaches it by a name that it gives to 127.0.0.1. With
    them, a bearer token is needed. The application finds who asks in ``scope["state"]["client"]``.

    Parameters
    ----------
    app : ASGI application
    clients : Clients or None, default=None
    limits : Limits, default=Limits()
    anyone : Client, default=Client()
        Who asks where there are no `clients`.
    routes : tuple of str, default=()
        Paths that log and metrics name; the others are one.
    """

    def __init__(
        self,
        app: App,
        clients: Clients | None = None,
        limits: Limits | None = None,
        *,
        anyone: Client | None = None,
        routes: tuple[str, ...] = (),
    ) -> None:
        self.app = app
        self.clients = clients
        self.limits = limits or Limits()
        self.anyone = anyone or Client()
        self.routes = routes
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = monotonic()
        path, method = scope["path"], scope["method"]
        place = ExitStack()  # among those that are answered at once
        # Left before the last byte, not after it: who has an answer may ask again at once.
        answer = _Answer(send, place.close)
        answer.is_rpc = path == _MCP
        try:
            await self._guarded(scope, receive, answer, place)
        except RefusedError as exc:
            await answer.refuse(exc)
        except _GoneError:
            answer.status = answer.status or _CLIENT_CLOSED
        except asyncio.CancelledError:  # the server ends, and its patience has
            problem = f"the server ends{_unsure(path)} (ask again)"
            await answer.refuse(RefusedError(503, "ending", problem))
        except Exception as exc:
            asked = _said(method, path)
            _LOGGER.error("%s cannot be answered: %s", asked, _fault(exc), exc_info=exc)
            problem = "something went wrong here (the server's log says what)"
            await answer.refuse(RefusedError(500, "internal", problem))
        finally:
            place.close()
            self._note(scope, method, path, answer.status or 500, monotonic() - began)

    async def _guarded(
        self, scope: Scope, receive: Receive, answer: _Answer, place: ExitStack
    ) -> None:
        headers: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, value.decode("latin-1"))
        scope.setdefault("state", {})["client"] = self._client(scope["path"], headers)
        body = b""
        if scope["path"] in _SMALL:
            answer.is_last = not _SAY_BODY.isdisjoint(headers)  # what would come is not read
        else:  # counted only now: nobody without a token takes the place of one with a token
            self._enter(place)
            body = await self._body(headers, receive)
        await self._run(scope, body, receive, answer)

    def _enter(self, place: ExitStack) -> None:
        """Take a place, until it is closed."""
        if self.running >= self.limits.max_concurrent:
            problem = f"{self.limits.max_concurrent} requests are being answered (ask again)"
            retry = (("Retry-After", str(_RETRY_AFTER)),)
            raise RefusedError(503, "busy", problem, retry)
        self.running += 1
        place.callback(self._leave)

    def _leave(self) -> None:
        self.running -= 1

    def _client(self, path: str, headers: dict[bytes, str]) -> Client | None:
        """Return who asks; None where that is open to everybody and no token says it."""
        if self.clients is None:
            host, origin = headers.get(b"host", ""), headers.get(b"origin")
            if not is_loopback(host):
                problem = f"the Host is {host[:60]!r} (use 127.0.0.1 or localhost)"
                raise RefusedError(403, "forbidden", problem)
            if origin is not None and not _is_of_loopback(origin):
                problem = f"a page of {origin[:60]!r} asks (only pages of this machine may)"
                raise RefusedError(403, "forbidden", problem)
            return self.anyone
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer" and bool(token.strip())
        client = self.clients.of(token.strip()) if is_bearer else None
        if client is None and path not in _OPEN:
            problem = (
                "the token is wrong (ask who runs the server for one)"
                if is_bearer
                else "a token is needed (send the header Authorization: Bearer TOKEN)"
            )
            said = 'Bearer realm="cnp-router"' + (', error="invalid_token"' if is_bearer else "")
            raise RefusedError(401, "unauthorized", problem, (("WWW-Authenticate", said),))
        return client

    async def _body(self, headers: dict[bytes, str], receive: Receive) -> bytes:
        """Read the body, which may be chunked, as far as it is allowed to go."""
        most = self.limits.max_body
        too_large = RefusedError(
            413, "too_large", f"the body is larger than {most:,} bytes (send less)"
        )
        length = headers.get(b"content-length", "0")
        if length.isdecimal() and len(length) < 20 and int(length) > most:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            problem = f"the body did not come in {self.limits.body_timeout:g} s (send it at once)"
            close = (("Connection", "close"),)
            raise RefusedError(408, "body_timeout", problem, close) from None

    async def _run(self, scope: Scope, body: bytes, receive: Receive, answer: _Answer) -> None:
        """Have it answered, and give it up when it takes too long or the client goes."""
        gone = asyncio.Event()
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            if unread:
                return unread.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        work = asyncio.ensure_future(self.app(scope, replay, answer))
        watching = asyncio.ensure_future(watch())
        try:
            async with asyncio.timeout(self.limits.timeout) as answer.clock:
                await asyncio.wait({work, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not (work.done() or answer.is_complete):
                    raise _GoneError
                await work
        except TimeoutError:
            late = f"no answer in {self.limits.timeout:g} s, so it was given up"
            problem = f"{late}{_unsure(scope['path'])} (ask for less)"
            raise RefusedError(504, "timeout", problem) from None
        finally:
            for task in (work, watching):
                task.cancel()
            await asyncio.gather(work, watching, return_exceptions=True)

    def _note(self, scope: Scope, method: str, path: str, status: int, seconds: float) -> None:
        known = path in self.routes
        about = {
            "http.request.method": method if method in ("GET", "HEAD", "POST") else "_OTHER",
            "http.route": path if known else "other",
            "http.response.status_code": status,
        }
        telemetry.record("http.server.request.duration", seconds, about)
        if _ACCESS.isEnabledFor(logging.INFO):
            client = scope.get("state", {}).get("client")
            who = "-" if client is None else printable(client.name)
            _ACCESS.info("%s %s %d %.1f ms", who, _said(method, path), status, 1000 * seconds)


def _unsure(path: str) -> str:
    """Return what else is to be said where something may have been called."""
    return UNSURE if path in _CALLS else ""


def _said(method: str, path: str) -> str:
    """Return what was asked for, as a log can have it."""
    return printable(f"{method[:10]} {path[:200]}")


def _fault(error: Exception) -> str:
    """Return what went wrong in the program, and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (line {place.lineno} of {place.filename})"


class _Answer:
    """What is sent back: with headers that every answer has, and once."""

    def __init__(self, send: Send, completed: Callable[[], None]) -> None:
        self._send = send
        self._completed = completed
        self.status = 0
        self.is_complete = False
        self.is_last = False
        self.is_rpc = False
        self.clock: asyncio.Timeout | None = None

    async def __call__(self, message: Message) -> None:
        if self.clock is not None and self.clock.expired():
            return  # it was given up
        begun = 0
        if message["type"] == "http.response.start":
            begun = message["status"]
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            if b"cache-control" not in names:
                headers.append((b"cache-control", b"no-store"))
            if b"x-content-type-options" not in names:
                headers.append((b"x-content-type-options", b"nosniff"))
            if self.is_last and b"connection" not in names:
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
            if b"content-length" in names:  # all is done: only the client may keep it waiting
                self._completed()
            kind = dict(headers).get(b"content-type", b"")
            if self.clock is not None and kind.startswith(b"text/event-stream"):
                self.clock.reschedule(None)  # who sends it ends it
        elif message["type"] == "http.response.body":
            self.is_complete = not message.get("more_body", False)
            if self.is_complete:
                self._completed()
        await self._send(message)  # which waits for a client that does not read
        self.status = begun or self.status

    async def refuse(self, error: RefusedError) -> None:
        """Send an error, if nothing was sent yet."""
        if self.status:
            return
        self.clock = None
        document = error_document(error.kind, error.message)
        if self.is_rpc:  # clients of MCP show what such an error says, and nothing of another
            about = {"code": _REFUSED, "message": error.message, "data": {"type": error.kind}}
            document = {"jsonrpc": "2.0", "id": None, "error": about}
        body = json.dumps(document).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *((name.lower().encode(), value.encode("latin-1")) for name, value in error.headers),
        ]
        await self({"type": "http.response.start", "status": error.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})
