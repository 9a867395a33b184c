"""The HTTP client that is given to the `openai` SDK: where answers are bounded and made safe.

All that a server sends passes here before anything else sees it: at most so many bytes of it, on
the wire and after decompression, and without the key.
"""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

import openai

from cnp_router.exceptions import ChatAnswerError, ChatRequestError, LanguageModelError
from cnp_router.llm.secret import Secret
from cnp_router.llm.switch import check_model_request
from cnp_router.printing import printable

__all__ = ["FAULT", "GuardedClient"]

FAULT = "cnp_router.fault"
_MOST_HOPS = 5
_MOST_OF_AN_ERROR = 65_536  # bytes: of what a server says of an error, a line is shown
_KEPT_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")  # the SDK heeds them


class GuardedClient(openai.DefaultAsyncHttpxClient):
    """A client that reads bounded answers, and follows no redirect to another origin.

    What is wrong with an answer is returned in a response, as extension `FAULT`: what is raised
    here the SDK would take for a broken connection, and send the request again.
    """

    def __init__(self, key: Secret, *, max_bytes: int, model: str, server: str) -> None:
        super().__init__()
        self._key = key
        self._max_bytes = max_bytes
        self._where: dict[str, Any] = {"model": model, "server": server}

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request, and return the response, read."""
        try:
            return await self._follow(request, {**options, "stream": True})
        except LanguageModelError as exc:
            return _response(request, 200, extensions={FAULT: exc})
        except Exception as exc:
            _scrub(exc, self._key)
            raise

    async def _follow(self, request: Any, options: dict[str, Any]) -> Any:
        for _ in range(_MOST_HOPS):
            try:
                check_model_request(str(request.url), model=self._where["model"])
                request.headers["accept-encoding"] = "gzip"
                response = await super().send(request, **{**options, "follow_redirects": False})
            finally:
                request.headers.pop("authorization", None)  # errors of the SDK keep the request
            try:
                if not response.has_redirect_location:
                    body = self._cleaned(await self._read(response), response.is_error)
                    kept = {n: self._shown(response.headers.get(n, "")) for n in _KEPT_HEADERS}
                    headers = {name: value for name, value in kept.items() if value}
                    return _response(request, response.status_code, content=body, headers=headers)
            finally:
                await response.aclose()
            following: Any = response.next_request  # None where the address makes no sense
            to = self._shown(response.headers["location"])
            # An address is logged, so that the key may not stand in it.
            address = "" if following is None else str(following.url)
            echoes = self._key.redacted(address) != address
            if following is None or echoes or _target(following) != _target(request):
                raise ChatRequestError(
                    f"the server redirects to {to}, which is not followed",
                    **self._where,
                    cure="give that address as the base URL, if you trust it",
                )
            request = following
        problem = f"the server redirects more than {_MOST_HOPS} times"
        raise ChatRequestError(problem, **self._where, cure="check the base URL")

    async def _read(self, response: Any) -> bytes:
        """Return the body, unpacked; of an error only its beginning."""
        limit = min(_MOST_OF_AN_ERROR, self._max_bytes) if response.is_error else self._max_bytes
        encoding = response.headers.get("content-encoding", "").strip()
        if encoding.lower() not in ("gzip", "identity", ""):
            raise self._unreadable(f"is encoded as {self._shown(encoding)}, which it must not be")
        gzipped = encoding.lower() == "gzip"
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if gzipped else None
        body, wire = bytearray(), 0
        async for chunk in response.aiter_raw():
            wire += len(chunk)
            try:
                # A maximum of 0 would be none: there is always room for the byte that is too many.
                body += unpacker.decompress(chunk, limit + 1 - len(body)) if unpacker else chunk
            except zlib.error as exc:
                raise self._unreadable(f"cannot be decompressed: {exc}") from exc
            if max(wire, len(body)) > limit:
                if response.is_error:
                    break
                raise self._unreadable(f"is larger than {limit:,} bytes (max_bytes)")
        return bytes(body[:limit])

    def _cleaned(self, body: bytes, is_error: bool) -> bytes:
        try:
            text = json.dumps(json.loads(body), ensure_ascii=False)  # no escapes hide the key
        except (ValueError, RecursionError):
            text = body.decode("utf-8", "replace")
        if is_error or not self._key.is_a_word:
            text = self._key.redacted(text)
        return text.encode("utf-8", "replace")  # no file could hold halves of surrogate pairs

    def _shown(self, header: str) -> str:
        return printable(self._key.redacted(header), 300)

    def _unreadable(self, problem: str) -> ChatAnswerError:
        return ChatAnswerError(
            f"the response {problem}", **self._where, cure="check the server and the base URL"
        )


def _response(request: Any, status: int, **options: Any) -> Any:
    # Version 2 of the SDK uses httpx, version 3 httpx2.
    httpx = sys.modules[type(request).__module__.partition(".")[0]]
    return httpx.Response(status, request=request, **options)


def _target(request: Any) -> tuple[str, str, str, int | None]:
    return request.method, request.url.scheme, request.url.host, request.url.port


def _scrub(error: BaseException, key: Secret) -> None:
    """Take the key out of an error and of what it came from, since both are in a traceback."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.args = tuple(key.redacted(a) if isinstance(a, str) else a for a in current.args)
        current = current.__cause__ or current.__context__
