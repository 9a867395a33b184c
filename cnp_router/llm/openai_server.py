"""`OpenAIServer`: a server that speaks OpenAI's wire format, asked through the `openai` SDK."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import openai

from cnp_router.exceptions import ChatAccessError, ChatAnswerError, InputError
from cnp_router.llm.openai_client import FAULT, GuardedClient
from cnp_router.llm.openai_wire import mapped
from cnp_router.llm.providers import KEY_VARIABLE, OPENAI_URL
from cnp_router.llm.secret import Secret

__all__ = ["OpenAIServer"]

T = TypeVar("T")

_LONGEST = 10_000_000  # seconds


@dataclass(frozen=True, slots=True)
class Session:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    places: asyncio.Semaphore


class OpenAIServer:
    """A server, and one of its models: the base of whatever asks for chat or for vectors.

    It is not trusted: answers are read up to `max_bytes`, the key is taken out of all that comes
    back, and only redirects to the same scheme, host and port are followed. Failed requests are
    sent again by the SDK, later and later, or when the server's ``Retry-After`` says.

    Without `model`, the model is `remote` at OpenAI itself and `local` behind a base URL.
    """

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        max_retries: int,
        max_concurrency: int,
        max_bytes: int,
        remote: str | None = None,
        local: str | None = None,
    ) -> None:
        for what, text in {"model": model, "base_url": base_url, "api_key": api_key}.items():
            if not isinstance(text, str | None):  # a key of another type is not shown
                raise InputError(f"{what} must be a string, got {type(text).__name__}")
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        name = model or (local if base_url else remote)
        if name is None:
            other = "" if base_url else ", or give the base_url of a server"
            raise InputError(f"which model? (name one{other if local else ''})")
        if not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
            raise InputError(
                f"timeout must be above 0 and at most {_LONGEST:,} seconds, got {timeout!r:.40}"
            )
        least = {"max_retries": (max_retries, 0), "max_concurrency": (max_concurrency, 1)}
        for what, (value, minimum) in {**least, "max_bytes": (max_bytes, 1)}.items():
            if not isinstance(value, int) or value < minimum:
                raise InputError(f"{what} must be a whole number from {minimum}, got {value!r}")
        self.name = name
        self.server: str = _checked_url(base_url or OPENAI_URL)
        self.timeout = timeout
        self.max_retries = max_retries
        self.max_concurrency = max_concurrency
        self.max_bytes = max_bytes
        self._where: dict[str, Any] = {"model": name, "server": self.server}
        key = os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key
        self._key = _checked_key(key)
        self._is_openai = (urlsplit(self.server).hostname or "").endswith("openai.com")
        if self._is_openai and not self._key.reveal():
            cure = "set OPENAI_API_KEY, or give api_key"
            raise ChatAccessError("there is no API key", **self._where, cure=cure)
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, Session] = WeakKeyDictionary()

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.client.close()

    async def _timed(
        self, work: Callable[[Session], Awaitable[T]], seconds: float
    ) -> tuple[T, float]:
        """Do some work with the server within so many seconds, and say how many it took.

        The errors are those of this library. Waiting for a free place is not counted.
        """
        session = self._session()
        async with session.places:
            began = time.perf_counter()
            try:
                async with asyncio.timeout(seconds):
                    found = await work(session)
            except (openai.APIError, TimeoutError) as exc:
                raise mapped(exc, **self._where, timeout=self.timeout) from exc
            return found, time.perf_counter() - began

    async def _text(self, create: Any, body: dict[str, Any]) -> str:
        """Return the body of the server's response to a request."""
        # Raw: the SDK reads whatever JSON comes into its types without a check.
        response = (await create(**body)).http_response
        if FAULT in response.extensions:
            raise response.extensions[FAULT]
        return str(response.text)

    def _unusable(self, problem: str, kind: str) -> ChatAnswerError:
        """Return the error for an answer that is not one; `kind` is what was asked for."""
        cure = f"check that the base URL is that of OpenAI {kind}, ending in /v1"
        return ChatAnswerError(self._key.redacted(problem), **self._where, cure=cure)

    def _session(self) -> Session:
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            client = openai.AsyncOpenAI(
                # The SDK wants a key; servers that need none take any.
                api_key=self._key.reveal() or "none",
                base_url=self.server,
                timeout=self.timeout,
                max_retries=self.max_retries,
                http_client=GuardedClient(self._key, max_bytes=self.max_bytes, **self._where),
            )
            self._sessions[loop] = Session(client, asyncio.Semaphore(self.max_concurrency))
        return self._sessions[loop]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self.server!r})"


def _checked_key(key: str) -> Secret:
    key = key.strip()  # a key read from a file ends in a newline
    if not key.isascii() or not key.isprintable():
        # Not shown; and the client would show it, when it fails to write the header.
        raise InputError("the API key has characters that no key has (copy it once more)")
    return Secret(key)


def _checked_url(url: str) -> str:
    if not {"@", "?", "#"}.isdisjoint(url):
        # Not shown: that is where keys hide.
        raise InputError("base_url must have no user, password, query or fragment (use api_key)")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InputError(
            f"base_url must be a URL, got {url!r} (write it as http://localhost:11434/v1)"
        )
    return url.rstrip("/")
