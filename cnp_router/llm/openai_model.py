"""`OpenAIChatModel`: any server that speaks OpenAI's chat completions, through the `openai` SDK."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from cnp_router.exceptions import (
    ChatAccessError,
    ChatAnswerError,
    InputError,
    LanguageModelError,
)
from cnp_router.llm.chat import ChatRequest, ChatResponse, Usage
from cnp_router.llm.chat_model import ChatModel
from cnp_router.llm.openai_errors import concerns_the_schema, mapped, only_this_schema, scrub
from cnp_router.llm.parsing import read_answer, repair_request, with_schema_in_prompt
from cnp_router.llm.schema import is_strict
from cnp_router.llm.secret import Secret
from cnp_router.llm.switch import check_model_request
from cnp_router.llm.tokens import estimate_usage

if TYPE_CHECKING:
    import openai

__all__ = ["DEFAULT_LOCAL_MODEL", "OpenAIChatModel"]

logger = logging.getLogger("cnp_router.llm")

DEFAULT_LOCAL_MODEL = "gpt-oss:20b"
_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class _Session:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    places: asyncio.Semaphore


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer of the server."""

    text: str
    refusal: str | None
    finish_reason: str | None
    model: str
    usage: Usage


class OpenAIChatModel(ChatModel):
    """A language model behind OpenAI's chat completions: OpenAI, vLLM, Ollama, llama.cpp, others.

    A schema is given to the server. If that takes none, it is written into the prompt instead,
    which is logged and told in the response (`ChatResponse.structured_by`). An answer that does
    not fit the schema is shown to the model once more, with what is wrong; after that it is a
    ChatAnswerError. Failed requests are sent again by the SDK, later and later, or when the
    server's ``Retry-After`` says.

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
        The longest silence of the server in one attempt. Waiting for a free place is not counted.
    max_retries : int, default=2
        How often a request is sent again after a fault that may pass.
    max_concurrency : int, default=16
        How many requests are under way at once, in each event loop.

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
        self.name = name
        self.server: str = _checked_url(base_url or _OPENAI)
        self.timeout = timeout
        self.max_retries = max_retries
        self.max_concurrency = max_concurrency
        self._is_openai = (urlsplit(self.server).hostname or "").endswith("openai.com")
        self._key = _checked_key(api_key or os.environ.get("OPENAI_API_KEY") or "")
        if self._is_openai and not self._key.reveal():
            raise ChatAccessError(
                "there is no API key",
                model=name,
                server=self.server,
                cure="set OPENAI_API_KEY, or give api_key",
            )
        self._server_takes_schemas = True
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()
        # The SDK takes a second to import: here, rather than in the first answer's time.
        import openai  # noqa: F401

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
        answers: list[_Answer] = []
        seconds = 0.0
        asked = request
        while True:
            try:
                answer, took, structured_by = await self._ask(asked)
            except LanguageModelError as exc:
                self._bill(exc, answers)
                raise
            answers.append(answer)
            seconds += took
            try:
                data = _read(answer, request)
            except ChatAnswerError as exc:
                wrong = exc
                if request.schema is not None and len(answers) == 1 and _can_be_repaired(answer):
                    logger.info("model %r is asked again: %s", self.name, wrong.problem)
                    asked = repair_request(request, answer.text, wrong.problem)
                    continue
                raise self._unusable(wrong, answers) from exc
            return ChatResponse(
                text=answer.text,
                data=data,
                usage=_total(answers),
                model=answer.model or self.name,
                seconds=seconds,
                calls=len(answers),
                structured_by=structured_by,
                finish_reason=answer.finish_reason,
            )

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.client.close()

    async def _ask(self, request: ChatRequest) -> tuple[_Answer, float, Any]:
        """Return the answer, the seconds it took, and who was given the schema."""
        import openai

        check_model_request(self.server, model=self.name)
        session = self._session()
        async with session.places:
            began = time.perf_counter()
            structured_by = None
            try:
                if request.schema is not None and self._server_takes_schemas:
                    structured_by = "server"
                    try:
                        answer = await self._send(session, request)
                    except openai.APIStatusError as exc:
                        if not concerns_the_schema(exc):
                            raise
                        self._note_refusal(exc)
                        structured_by = "prompt"
                        answer = await self._send(session, with_schema_in_prompt(request))
                elif request.schema is not None:
                    structured_by = "prompt"
                    answer = await self._send(session, with_schema_in_prompt(request))
                else:
                    answer = await self._send(session, request)
            except openai.APIError as exc:
                scrub(exc, self._key)
                error = mapped(exc, model=self.name, server=self.server, timeout=self.timeout)
                raise error from exc
            return answer, time.perf_counter() - began, structured_by

    async def _send(self, session: _Session, request: ChatRequest) -> _Answer:
        # Raw: the SDK reads whatever JSON comes into its types without a check.
        create: Any = session.client.chat.completions.with_raw_response.create
        response = await create(**self._body(request))
        try:
            body = json.loads(response.http_response.content)
        except (ValueError, RecursionError) as exc:
            raise self._error(f"the response is no JSON: {exc}") from exc
        return self._answer(body, request)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [message.to_dict() for message in request.messages],
        }
        if request.schema is not None:
            schema = {
                "name": "answer",
                "schema": request.schema,
                "strict": is_strict(request.schema),
            }
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        # OpenAI's newer models refuse the old name, other servers do not know the new one.
        limit = "max_completion_tokens" if self._is_openai else "max_tokens"
        options = {limit: request.max_tokens, "temperature": request.temperature}
        options["seed"] = request.seed
        return body | {name: value for name, value in options.items() if value is not None}

    def _answer(self, body: Any, request: ChatRequest) -> _Answer:
        choices = body.get("choices") if isinstance(body, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            said = " ".join(self._key.redacted(repr(body)).split())
            raise self._error(f"the response has no answer in it: {said[:200]}")
        text = _plain(self._key.redacted_answer(_string(message.get("content")) or ""))
        refusal = _string(message.get("refusal"))
        return _Answer(
            text=text,
            refusal=None if refusal is None else _plain(self._key.redacted(refusal)),
            finish_reason=_string(choice.get("finish_reason")),
            model=_plain(self._key.redacted_answer(_string(body.get("model")) or "")),
            usage=_usage(body.get("usage")) or estimate_usage(request, text),
        )

    def _session(self) -> _Session:
        import openai

        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            client = openai.AsyncOpenAI(
                # The SDK wants a key; servers that need none take any.
                api_key=self._key.reveal() or "none",
                base_url=self.server,
                timeout=self.timeout,
                max_retries=self.max_retries,
            )
            session = _Session(client, asyncio.Semaphore(self.max_concurrency))
            self._sessions[loop] = session
        return session

    def _note_refusal(self, error: openai.APIStatusError) -> None:
        scrub(error, self._key)
        if only_this_schema(error):
            logger.warning("%s refuses a schema, which goes into the prompt: %s", self.name, error)
        elif self._server_takes_schemas:
            self._server_takes_schemas = False
            logger.warning(
                "%s takes no schemas: from now on they go into the prompt (%s)", self.name, error
            )

    def _error(self, problem: str) -> ChatAnswerError:
        return ChatAnswerError(
            problem,
            model=self.name,
            server=self.server,
            cure="check that the base URL is that of OpenAI chat completions, ending in /v1",
        )

    def _unusable(self, wrong: ChatAnswerError, answers: list[_Answer]) -> ChatAnswerError:
        cut = answers[-1].finish_reason == "length"
        error = ChatAnswerError(
            wrong.problem + (", and it was cut off" if cut else ""),
            model=self.name,
            server=self.server,
            cure="raise max_tokens" if cut else "use a model that follows a schema",
        )
        self._bill(error, answers)
        return error

    def _bill(self, error: LanguageModelError, answers: list[_Answer]) -> None:
        if answers:
            error.usage = _total(answers)
            error.calls = len(answers)

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


def _read(answer: _Answer, request: ChatRequest) -> dict[str, Any] | None:
    if answer.refusal:
        raise ChatAnswerError(f"the model refuses to answer: {answer.refusal[:200]!r}")
    if answer.finish_reason == "content_filter":
        raise ChatAnswerError("the server's content filter withholds the answer")
    if request.schema is not None:
        return read_answer(answer.text, request.schema)
    if not answer.text.strip():
        raise ChatAnswerError("the answer is empty")
    return None


def _can_be_repaired(answer: _Answer) -> bool:
    # What was cut off once would be cut off again, at the same length.
    return not answer.refusal and answer.finish_reason not in ("length", "content_filter")


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    tokens_in, tokens_out = (
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )
    if tokens_in is None or tokens_out is None:
        return None
    return Usage(tokens_in, tokens_out, "server")


def _count(value: Any) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if right else None


def _total(answers: list[_Answer]) -> Usage:
    total = answers[0].usage
    for answer in answers[1:]:
        total += answer.usage
    return total


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _plain(text: str) -> str:
    """Return the text without halves of surrogate pairs, which no file could hold."""
    return text.encode("utf-8", "replace").decode()
