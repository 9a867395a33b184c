"""`OpenAIChatModel`: any server that speaks OpenAI's chat completions, through the `openai` SDK."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from dataclasses import dataclass
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
from cnp_router.llm.chat import ChatRequest, ChatResponse, Usage
from cnp_router.llm.chat_model import ChatModel
from cnp_router.llm.openai_body import FORMS, Answer, read_body, read_data, request_body
from cnp_router.llm.openai_client import FAULT, GuardedClient
from cnp_router.llm.openai_errors import concerns_the_schema, mapped, only_this_schema
from cnp_router.llm.parsing import repair_request
from cnp_router.llm.secret import Secret

__all__ = ["DEFAULT_LOCAL_MODEL", "OpenAIChatModel"]

logger = logging.getLogger("cnp_router.llm")

DEFAULT_LOCAL_MODEL = "gpt-oss:20b"
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
        If an argument is out of range, there is no model name, or the base URL is none.
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
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        name = model or (DEFAULT_LOCAL_MODEL if base_url else None)
        if name is None:
            raise InputError("which model? (name one, or give the base_url of a server)")
        if not timeout > 0:
            raise InputError(f"timeout must be above 0 seconds, got {timeout!r}")
        if max_retries < 0:
            raise InputError(f"max_retries must be at least 0, got {max_retries!r}")
        if max_concurrency < 1:
            raise InputError(f"max_concurrency must be at least 1, got {max_concurrency!r}")
        if max_bytes < 1:
            raise InputError(f"max_bytes must be at least 1, got {max_bytes!r}")
        self.name = name
        self.server: str = _checked_url(base_url or _OPENAI)
        self.timeout = timeout
        self.max_retries = max_retries
        self.max_concurrency = max_concurrency
        self.max_bytes = max_bytes
        is_openai = (urlsplit(self.server).hostname or "").endswith("openai.com")
        # OpenAI's newer models refuse the old name, other servers do not know the new one.
        self._limit_name = "max_completion_tokens" if is_openai else "max_tokens"
        self._key = _checked_key(api_key or os.environ.get("OPENAI_API_KEY") or "")
        if is_openai and not self._key.reveal():
            raise ChatAccessError(
                "there is no API key",
                model=name,
                server=self.server,
                cure="set OPENAI_API_KEY, or give api_key",
            )
        self._form = 0  # of FORMS: the strongest that the server has not refused
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the server, repairing the answer once if it does not fit the schema.

        Parameters
        ----------
        request : ChatRequest

        Returns
        -------
        ChatResponse

        Raises
        ------
        LanguageModelError
            If there is no usable answer; the subclass says whose fault it is. What was paid all
            the same is in its `usage` and `calls`.
        """
        answers: list[Answer] = []
        seconds = 0.0
        asked = request
        while True:
            try:
                answer, took = await self._ask(asked, self.timeout - seconds)
            except LanguageModelError as exc:
                _bill(exc, answers)
                raise
            answers.append(answer)
            seconds += took
            try:
                data = read_data(answer, request)
            except ChatAnswerError as exc:
                problem = self._key.redacted(exc.problem)
                if request.schema is not None and len(answers) == 1 and answer.can_be_repaired:
                    logger.info("model %r is asked again: %s", self.name, problem)
                    asked = repair_request(request, answer.text, problem)
                    continue
                raise self._unusable(problem, answers, request) from None
            text, data = self._without_key(answer.text, data)
            return ChatResponse(
                text=text,
                data=data,
                usage=_total(answers),
                model=answer.model or self.name,
                seconds=seconds,
                calls=len(answers),
                structured_by=None if data is None else answer.structured_by,
                finish_reason=answer.finish_reason,
            )

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.client.close()

    async def _ask(self, request: ChatRequest, seconds: float) -> tuple[Answer, float]:
        """Return the answer, and the seconds it took."""
        session = self._session()
        async with session.places:
            began = time.perf_counter()
            try:
                async with asyncio.timeout(seconds):
                    answer = await self._negotiate(session, request)
            except (openai.APIError, TimeoutError) as exc:
                raise mapped(exc, **self._where, timeout=self.timeout) from exc
            return answer, time.perf_counter() - began

    async def _negotiate(self, session: _Session, request: ChatRequest) -> Answer:
        """Send a request, with its schema in the strongest form that the server takes."""
        form, remember = self._form, True
        while True:
            try:
                return await self._send(session, request, form)
            except openai.APIStatusError as exc:
                if request.schema is None or form + 1 == len(FORMS) or not concerns_the_schema(exc):
                    raise
                remember = remember and not only_this_schema(exc)
                weaker = form + 1 if remember else max(form + 1, FORMS.index("json_object"))
                if weaker > self._form:
                    logger.warning(
                        "the server of %s takes %s as %s (%s), so it is given as %s",
                        self.name,
                        "no schema" if remember else "this schema not",
                        FORMS[form],
                        exc,
                        FORMS[weaker],
                    )
                if remember:
                    self._form = max(weaker, self._form)
                form = weaker

    async def _send(self, session: _Session, request: ChatRequest, form: int) -> Answer:
        # Raw: the SDK reads whatever JSON comes into its types without a check.
        create: Any = session.client.chat.completions.with_raw_response.create
        response = await create(
            **request_body(self.name, request, form, limit_name=self._limit_name)
        )
        fault = response.http_response.extensions.get(FAULT)
        if fault is not None:
            raise fault
        try:
            body = json.loads(response.http_response.content)
        except (ValueError, RecursionError) as exc:
            raise self._no_answer(f"is not JSON: {exc}") from exc
        answer = read_body(body, request, form)
        if answer is None:
            said = " ".join(self._key.redacted(repr(body)).split())
            raise self._no_answer(f"has no answer in it: {said[:200]}")
        return answer

    def _session(self) -> _Session:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            client = openai.AsyncOpenAI(
                # The SDK wants a key; servers that need none take any.
                api_key=self._key.reveal() or "none",
                base_url=self.server,
                timeout=self.timeout,
                max_retries=self.max_retries,
                http_client=GuardedClient(self._key, max_bytes=self.max_bytes, **self._where),
            )
            session = _Session(client, asyncio.Semaphore(self.max_concurrency))
            self._sessions[loop] = session
        return session

    @property
    def _where(self) -> dict[str, Any]:
        return {"model": self.name, "server": self.server}

    def _without_key(
        self, text: str, data: dict[str, Any] | None
    ) -> tuple[str, dict[str, Any] | None]:
        """Return both without the key, which escapes of the JSON in the text may have hidden."""
        if data is None or self._key.is_a_word:
            return text, data
        plain = json.dumps(data, ensure_ascii=False)
        redacted = self._key.redacted(plain)
        return (text, data) if redacted == plain else (redacted, json.loads(redacted))

    def _no_answer(self, problem: str) -> ChatAnswerError:
        return ChatAnswerError(
            f"the response {problem}",
            **self._where,
            cure="check that the base URL is that of OpenAI chat completions, ending in /v1",
        )

    def _unusable(
        self, problem: str, answers: list[Answer], request: ChatRequest
    ) -> ChatAnswerError:
        last = answers[-1]
        cut = last.finish_reason == "length"
        cure = "use a model that follows a schema"
        if cut:
            cure = "raise max_tokens"
        elif request.schema is not None and last.form:
            cure = (
                "it is the server that takes no JSON schema, not the model: it was given as "
                f"{FORMS[last.form]}; use a server that takes json_schema"
            )
        error = ChatAnswerError(
            problem + (", and it was cut off" if cut else ""), **self._where, cure=cure
        )
        _bill(error, answers)
        return error

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.name!r}, base_url={self.server!r})"


def _checked_key(key: str) -> Secret:
    key = key.strip()  # a key read from a file ends in a newline
    if not key.isascii() or not key.isprintable():
        # Not shown; and the client would show it, when it fails to write the header.
        raise InputError("the API key has characters that no key has (copy it once more)")
    return Secret(key or None)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, usable = urlsplit(""), False
    if "@" in url or parts.query or parts.fragment:
        # Not shown: that is where keys hide.
        raise InputError("base_url must have no user, password, query or fragment (use api_key)")
    if not usable:
        raise InputError(
            f"base_url must be a URL, got {url!r} (write it as http://localhost:11434/v1)"
        )
    return url.rstrip("/")


def _bill(error: LanguageModelError, answers: list[Answer]) -> None:
    if answers:
        error.usage = _total(answers)
        error.calls = len(answers)


def _total(answers: list[Answer]) -> Usage:
    total = answers[0].usage
    for answer in answers[1:]:
        total += answer.usage
    return total
