"""Sending one HTTP request and reading its answer; redirects stay on the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from cnp_router import telemetry
from cnp_router.sources.openapi_answer import Answer, read_bounded
from cnp_router.sources.openapi_document import import_httpx2, origin
from cnp_router.sources.openapi_request import HttpRequest

__all__ = ["HttpClient", "Progress"]

_MOST_REDIRECTS = 5


@dataclass
class Progress:
    """Whether anything of a request went out, so that somebody may have acted on it."""

    is_sent: bool = False
    _stream: Any = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take notice of an event of the connection."""
        self.is_sent |= event.endswith("send_request_headers.started")
        if event.endswith("connect_tcp.complete"):
            self._stream = info["return_value"]
        elif event.endswith("start_tls.failed") and self._stream is not None:
            # The library leaves it open where the handshake is cancelled.
            await self._stream.aclose()


class HttpClient:
    """Connections of one source, opened when needed; `max_bytes` bounds the body of an answer."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._client: Any = None

    def open(self) -> bool:
        """Make it ready; whether it was not."""
        if self._client is not None:
            return False
        # No cookie of an answer goes along with a later call.
        jar = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
        self._client = import_httpx2().AsyncClient(timeout=None, cookies=jar)
        return True

    async def aclose(self) -> None:
        """Close the connections; it can be opened again."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def exchange(self, request: HttpRequest, progress: Progress) -> Answer:
        """Return the answer to a request, after redirects to the same server."""
        for _ in range(_MOST_REDIRECTS):
            answer = await self._one(request, progress)
            following = _redirected(request, answer)
            if following is None:
                return answer
            request = following
        return answer

    async def _one(self, request: HttpRequest, progress: Progress) -> Answer:
        server = urlsplit(request.server)
        address = f"{server.scheme}://{server.netloc}"
        # The client logs the URL: there is no more of it than the server, and so no secret.
        target = request.target or "/"
        if server.scheme == "http" and _has_proxy(server.hostname or ""):
            target = address + target
        headers = [(name.encode(), value.encode()) for name, value in request.headers]
        names = {name.lower() for name, _ in request.headers}
        own = {"accept-encoding": "identity", "user-agent": "cnp-router"}
        own |= telemetry.trace_headers()
        headers += [(n.encode(), v.encode()) for n, v in own.items() if n not in names]
        async with self._client.stream(
            request.method,
            address,
            headers=headers,
            content=request.content,
            extensions={"target": target.encode("ascii"), "trace": progress.trace},
        ) as response:
            headers_back = {name.lower(): value for name, value in response.headers.items()}
            encoding = headers_back.get("content-encoding", "").strip().lower()
            body, n_bytes, is_cut = await read_bounded(
                response.aiter_raw(), self._max_bytes, "" if request.method == "HEAD" else encoding
            )
            declared = headers_back.get("content-length", "")
            if is_cut and declared.isdecimal() and len(declared) < 16:
                n_bytes = max(n_bytes, int(declared))
            phrase = response.reason_phrase
            return Answer(response.status_code, phrase, headers_back, body, n_bytes, is_cut)


def _redirected(request: HttpRequest, answer: Answer) -> HttpRequest | None:
    """Return the request that a redirect asks for; None if it is none, or is not followed."""
    place = answer.headers.get("location")
    if answer.status not in (301, 302, 303, 307, 308) or not place:
        return None
    here = urlsplit(request.server)
    try:
        found = urljoin(f"{here.scheme}://{here.netloc}{request.target}", place)
        url, same = urlsplit(found), origin(found) == origin(request.server)
    except ValueError:
        return None
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    if not same or not target.isascii() or any(c <= " " or c == "\x7f" for c in target):
        return None
    if request.method in ("GET", "HEAD") or answer.status in (307, 308):
        return replace(request, target=target)
    if answer.status == 303 or request.method == "POST":
        kept = [each for each in request.headers if each[0].lower() != "content-type"]
        return replace(request, method="GET", target=target, headers=tuple(kept), content=None)
    return None


def _has_proxy(host: str) -> bool:
    """Whether requests to a host go to a proxy, which wants the whole URL."""
    return not {"http", "all"}.isdisjoint(getproxies()) and not proxy_bypass(host)
