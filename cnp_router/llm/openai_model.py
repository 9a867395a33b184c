"""`OpenAIChatModel`: any server that speaks OpenAI's chat completions, through the `openai` SDK."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import openai

from cnp_router.exceptions import ChatAnswerError, LanguageModelError
from cnp_router.llm import openai_wire as wire
from cnp_router.llm.chat import ChatModel, ChatRequest, ChatResponse
from cnp_router.llm.openai_server import OpenAIServer, Session
from cnp_router.llm.parsing import read_answer, repair_request
from cnp_router.printing import printable

__all__ = ["OpenAIChatModel"]

logger = logging.getLogger("cnp_router.llm")

_LOCAL_MODEL = "gpt-oss:20b"
_NOT_REPAIRED = ("length", "content_filter", "refusal")


class OpenAIChatModel(OpenAIServer, ChatModel):
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
        By default ``OPENAI_API_KEY`` from the environment; an empty string is none. A server with
        a base URL may need none. It is shown in no log, error or repr, and redacted where a server
        sends it back.
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

    server: str

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
        super().__init__(
            model,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            max_concurrency=max_concurrency,
            max_bytes=max_bytes,
            local=_LOCAL_MODEL,
        )
        # OpenAI's newer models refuse the old name, other servers do not know the new one.
        self._limit_name = "max_completion_tokens" if self._is_openai else "max_tokens"
        self._form = 0  # of FORMS: the strongest that the server has not refused

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

    async def _ask(self, request: ChatRequest, seconds: float) -> ChatResponse:
        """Return what the server says within so many seconds, unread."""
        response, took = await self._timed(lambda s: self._negotiate(s, request), seconds)
        return replace(response, seconds=took)

    async def _negotiate(self, session: Session, request: ChatRequest) -> ChatResponse:
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

    async def _send(self, session: Session, request: ChatRequest, form: int) -> ChatResponse:
        body = wire.request_body(self.name, request, form, limit_name=self._limit_name)
        text = await self._text(session.client.chat.completions.with_raw_response.create, body)
        answer = wire.read_body(text, request, form)
        if answer is None:
            problem = f"the response has no answer in it: {printable(text, 200)!r}"
            raise self._unusable(problem, "chat completions")
        return replace(answer, model=self.name)

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
