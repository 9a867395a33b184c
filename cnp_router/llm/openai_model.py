"""`OpenAIChatModel`: any server that speaks OpenAI's chat completions, through the `openai` SDK."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import openai

from cnp_router.exceptions import (
    ChatAccessError,
    ChatAnswerError,
    InputError,
    LanguageModelError,
)
from cnp_router.llm import openai_wire as wire
from cnp_router.llm.chat import ChatModel, ChatRequest, ChatResponse
from cnp_router.llm.openai_client import FAULT, GuardedClient
from cnp_router.llm.parsing import read_answer, repair_request
from cnp_router.llm.secret import Secret
from cnp_router.printing import printable

__all__ = ["OpenAIChatModel"]

logger = logging.getLogger("cnp_router.llm")

_LOCAL_MODEL = "gpt-oss:20b"
_NOT_REPAIRED = ("length", "content_filter", "refusal")
_LONGEST = 10_000_000  # seconds
_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class _Session:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    places: asyncio.Semaphore


class OpenAIChatModel(ChatModel):
    """A language model behind OpenAI's chat completions: OpenAI, vLLM, Ollama, llama.cpp, others.

    A schema is given to the server in the strongest form that it takes: as ``json_schema``, as
    ``json_object`` with the schema, as ``json_object``, or in the prompt alone. What it refuses is
    logged and remembered; `ChatResponse.structured_by` says how it went. An answer that does not
    fit the schema is shown to the model once more, with what is wrong; after that it is a
    ChatAnswerError. Failed requests are sent again by the SDK, later and later, or when the
    server's ``Retry-After`` says.

    A server is not trusted: answers are read up to `max_bytes`, the key is taken out of all that
    comes back, and only redirects to the same scheme, host and port are followed.

    One object serves any number of event loops; close it in each (``async with``).

    Parameters
    ----------
    model : str, optional
        By default ``"gpt-oss:20b"`` where a base URL is given.
    base_url : str, optional
        Of the server, such as ``"http://localhost:11434/v1"`` for Ollama. By default
        ``OPENAI_BASE_URL`` from the environment, or else OpenAI itself.
    api_key : str, optional
        By default ``OPENAI_API_KEY`` from the environment. A server with a base URL may need
        none. It is shown in no log, error or repr, and redacted where a server sends it back.
    timeout : float, seconds, default=120.0
        The longest that `complete` waits for the server in all: retries, the pauses before them
        and a repair included. Waiting for a free place is not counted.
    max_retries : int, default=2
        How often a request is sent again after a fault that may pass.
    max_concurrency : int, default=16
        How many requests are under way at once, in each event loop.
    max_bytes : int, default=2,097,152
        The most that is read of one answer, on the wire and after decompression.

    Raises
    ------
    InputError
        If an argument is out of range, there is no model name, or the base URL is not one.
    ChatAccessError
        If OpenAI itself is to be asked and there is no key.

    Examples
    --------
    >>> OpenAIChatModel(base_url="http://localhost:11434/v1")
    OpenAIChatModel('gpt-oss:20b', base_url='http://localhost:11434/v1')
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        max_retries: int = 2,
        max_concurrency: int = 16,
        max_bytes: int = 2_097_152,
    ) -> None:
        for what, text in {"model": model, "base_url": base_url, "api_key": api_key}.items():
            if not isinstance(text, str | None):  # a key of another type is not shown
                raise InputError(f"{what} must be a string, got {type(text).__name__}")
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        name = model or (_LOCAL_MODEL if base_url else None)
        if name is None:
            raise InputError("which model? (name one, or give the base_url of a server)")
        if not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
            raise InputError(
                f"timeout must be above 0 and at most {_LONGEST:,} seconds, got {timeout!r:.40}"
            )
        least = {"max_retries": (max_retries, 0), "max_concurrency": (max_concurrency, 1)}
        for what, (value, minimum) in {**least, "max_bytes": (max_bytes, 1)}.items():
            if not isinstance(value, int) or value < minimum:
                raise InputError(f"{what} must be a whole number from {minimum}, got {value!r}")
        self.name = name
        self.server: str = _checked_url(base_url or _OPENAI)
        self.timeout = timeout
        self.max_retries = max_retries
        self.max_concurrency = max_concurrency
        self.max_bytes = max_bytes
        self._where: dict[str, Any] = {"model": name, "server": self.server}
        self._key = _checked_key(api_key or os.environ.get("OPENAI_API_KEY") or "")
        is_openai = (urlsplit(self.server).hostname or "").endswith("openai.com")
        # OpenAI's newer models refuse the old name, other servers do not know the new one.
        self._limit_name = "max_completion_tokens" if is_openai else "max_tokens"
        if is_openai and not self._key.reveal():
            cure = "set OPENAI_API_KEY, or give api_key"
            raise ChatAccessError("there is no API key", **self._where, cure=cure)
        self._form = 0  # of FORMS: the strongest that the server has not refused
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the server, repairing the answer once if it does not fit the schema.

        What was paid for an answer that cannot be used is in the `usage` and `calls` of the error.
        """
        response = await self._ask(request, self.timeout)
        try:
            return self._read(response, request)
        except ChatAnswerError as exc:
            # What was cut off once would be cut off again.
            if request.schema is None or response.finish_reason in _NOT_REPAIRED:
                raise
            problem = exc.problem
        logger.info("model %r is asked again: %s", self.name, problem)
        asked = repair_request(request, response.text, problem)
        try:
            again = await self._ask(asked, self.timeout - response.seconds)
        except LanguageModelError as exc:
            exc.usage, exc.calls = response.usage, 1
            raise
        usage, seconds = response.usage + again.usage, response.seconds + again.seconds
        return self._read(replace(again, usage=usage, seconds=seconds, calls=2), request)

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.client.close()

    async def _ask(self, request: ChatRequest, seconds: float) -> ChatResponse:
        """Return what the server says within so many seconds, unread."""
        session = self._session()
        async with session.places:
            began = time.perf_counter()
            try:
                async with asyncio.timeout(seconds):
                    response = await self._negotiate(session, request)
            except (openai.APIError, TimeoutError) as exc:
                raise wire.mapped(exc, **self._where, timeout=self.timeout) from exc
            return replace(response, seconds=time.perf_counter() - began)

    async def _negotiate(self, session: _Session, request: ChatRequest) -> ChatResponse:
        """Send a request, with its schema in the strongest form that the server takes."""
        form, remember = self._form, True
        while True:
            try:
                return await self._send(session, request, form)
            except openai.APIStatusError as exc:
                is_last = request.schema is None or form + 1 == len(wire.FORMS)
                if is_last or not wire.concerns_the_schema(exc):
                    raise
                remember = remember and not wire.only_this_schema(exc)
                weaker = form + 1 if remember else max(form + 1, wire.FORMS.index("json_object"))
                if weaker > self._form:
                    taken = "no schemas" if remember else "not this schema"
                    taken += f" as {wire.FORMS[form]} ({wire.message_of(exc)})"
                    as_what = wire.FORMS[weaker]
                    logger.warning(
                        "the server of %s takes %s: given as %s", self.name, taken, as_what
                    )
                if remember:
                    self._form = max(weaker, self._form)
                form = weaker

    async def _send(self, session: _Session, request: ChatRequest, form: int) -> ChatResponse:
        body = wire.request_body(self.name, request, form, limit_name=self._limit_name)
        # Raw: the SDK reads whatever JSON comes into its types without a check.
        create: Any = session.client.chat.completions.with_raw_response.create
        response = (await create(**body)).http_response
        if FAULT in response.extensions:
            raise response.extensions[FAULT]
        answer = wire.read_body(response.text, request, form)
        if answer is None:
            problem = f"the response has no answer in it: {printable(response.text, 200)!r}"
            cure = "check that the base URL is that of OpenAI chat completions, ending in /v1"
            raise ChatAnswerError(self._key.redacted(problem), **self._where, cure=cure)
        return replace(answer, model=answer.model or self.name)

    def _session(self) -> _Session:
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
            self._sessions[loop] = _Session(client, asyncio.Semaphore(self.max_concurrency))
        return self._sessions[loop]

    def _read(self, response: ChatResponse, request: ChatRequest) -> ChatResponse:
        """Return the response with its data, without the key."""
        data, problem, why = None, "", response.finish_reason
        try:
            if request.schema is not None:
                data = read_answer(response.text, request.schema)
            elif not response.text.strip():
                problem = "the answer is empty"
        except ChatAnswerError as exc:
            problem = exc.problem
        if why in ("refusal", "content_filter"):
            problem = "the server's content filter withholds the answer"
            if why == "refusal":
                problem = f"the model refuses to answer: {response.text[:200]!r}"
            cure = "ask for something else, or use another model"
        elif why == "length":
            problem, cure = problem and f"{problem}, and it was cut off", "raise max_tokens"
        elif request.schema is None:
            cure = "use another model"
        elif response.structured_by == "prompt" or self._form:
            cure = (
                "it is the server that takes no JSON schema, or not this one, not the model: "
                "use a server that takes json_schema"
            )
        else:
            cure = "use a model that follows a schema"
        if problem:
            paid: dict[str, Any] = {"usage": response.usage, "calls": response.calls}
            raise ChatAnswerError(self._key.redacted(problem), **self._where, cure=cure, **paid)
        plain = json.dumps(data, ensure_ascii=False)
        redacted = self._key.redacted(plain)
        if redacted == plain or self._key.is_a_word:
            return replace(response, data=data)
        # Escapes in the text have hidden the key in it.
        return replace(response, text=redacted, data=json.loads(redacted))

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.name!r}, base_url={self.server!r})"


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
