"""OpenAI's chat completions: what is sent, what is read out of an answer, what errors mean."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

import openai

from cnp_router.exceptions import (
    ChatAccessError,
    ChatConnectionError,
    ChatModelUnknownError,
    ChatRateLimitError,
    ChatRequestError,
    ChatTimeoutError,
    ChatUnavailableError,
    ContextTooLongError,
    LanguageModelError,
)
from cnp_router.llm.chat import ChatRequest, ChatResponse, Usage, are_counts
from cnp_router.llm.parsing import with_schema_in_prompt
from cnp_router.llm.schema import is_strict
from cnp_router.llm.tokens import estimate_usage
from cnp_router.printing import printable

__all__ = [
    "FORMS",
    "APIError",
    "concerns_the_schema",
    "mapped",
    "message_of",
    "only_this_schema",
    "read_body",
    "request_body",
]

APIError = openai.APIError  # for those who catch it of others that use the SDK

# How a server can be given a schema, the strongest first.
FORMS = ("json_schema", "json_object with the schema", "json_object", "text in the prompt")

# Each server has its own words for the same thing (OpenAI, vLLM before and after 0.16, llama.cpp).
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|context (length|size|window)|prompt is too long",
    re.IGNORECASE,
)
_SCHEMA_REFUSED = re.compile(
    r"response_?format|json_?(schema|object)|structured.?output|guided|grammar", re.IGNORECASE
)
_ONLY_THIS_SCHEMA = re.compile(r"invalid schema|grammar", re.IGNORECASE)
_KEY = "check the api_key argument or OPENAI_API_KEY"
_BY_STATUS: dict[int, tuple[type[LanguageModelError], str]] = {
    401: (ChatAccessError, _KEY),
    403: (ChatAccessError, _KEY),
    404: (ChatModelUnknownError, "check the model name and that the base URL ends in /v1"),
    429: (ChatRateLimitError, "ask later, or lower max_concurrency"),
}


def request_body(model: str, request: ChatRequest, form: int, *, limit_name: str) -> dict[str, Any]:
    """Return the body of a request, with its schema in one of the `FORMS`.

    `limit_name` is the server's word for `ChatRequest.max_tokens`.
    """
    wanted: dict[str, Any] | None = None
    asked, schema = request, request.schema
    if schema is not None:
        named = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
        wanted = (
            {"type": "json_schema", "json_schema": named},
            {"type": "json_object", "schema": schema},
            {"type": "json_object"},
            None,
        )[form]
        if form:  # in the prompt too: servers may ignore what they do not know
            asked = with_schema_in_prompt(request)
    body = {
        "model": model,
        "messages": [asdict(message) for message in asked.messages],
        "response_format": wanted,
        limit_name: request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    return {name: value for name, value in body.items() if value is not None}


def read_body(raw: str, request: ChatRequest, form: int) -> ChatResponse | None:
    """Return what the body of a response says, or None if there is no answer in it.

    `model` is left empty, and `data` is not read yet. The text of a refusal comes with the finish
    reason ``"refusal"``.
    """
    try:
        body = json.loads(raw)
        choice = body["choices"][0]
        refusal, content = (_string(choice["message"].get(name)) for name in ("refusal", "content"))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    usage: Any = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    counted = are_counts(tokens_in, tokens_out)
    by_server = form < FORMS.index("json_object")
    text = refusal or content
    return ChatResponse(
        text=text,
        data=None,
        usage=(
            Usage(tokens_in, tokens_out, "server", _cached(usage, tokens_in))
            if counted
            else estimate_usage(request, text)
        ),
        model="",
        seconds=0.0,
        structured_by=None if request.schema is None else "server" if by_server else "prompt",
        finish_reason="refusal" if refusal else _string(choice.get("finish_reason")) or None,
        served_as=_string(body.get("model")) or None,
    )


def _cached(usage: dict[str, Any], tokens_in: int) -> int:
    """Return how many tokens of the prompt the server had kept; 0 where it does not say."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if type(cached) is int and 0 <= cached <= tokens_in else 0


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def concerns_the_schema(error: openai.APIStatusError) -> bool:
    """Return whether the server refused a request because of its response format.

    Some say so with 400, some with 422, 500 or 501.
    """
    words = f"{message_of(error)} {error.param}"
    return error.status_code in (400, 422, 500, 501) and bool(_SCHEMA_REFUSED.search(words))


def only_this_schema(error: openai.APIStatusError) -> bool:
    """Return whether the server takes schemas, only not this one."""
    return bool(_ONLY_THIS_SCHEMA.search(message_of(error)))


def mapped(
    error: openai.APIError | TimeoutError, *, model: str, server: str, timeout: float
) -> LanguageModelError:
    """Return (not raise) the error of this library for one of the SDK."""
    kind: type[LanguageModelError]
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        kind, problem = ChatTimeoutError, f"no answer within {timeout:g} s"
        cure = "give it a longer timeout, or the server fewer requests at once"
    elif isinstance(error, openai.APIConnectionError):
        because = f": {printable(str(error.__cause__), 300)}" if str(error.__cause__ or "") else ""
        kind, problem = ChatConnectionError, f"no connection{because}"
        cure = "check the base URL and whether the server runs"
    elif isinstance(error, openai.APIStatusError):
        kind, cure = _by_status(error)
        problem = f"the server answered {error.status_code}: {message_of(error)}"
    else:
        kind, problem, cure = ChatUnavailableError, message_of(error), "ask again later"
    return kind(problem, model=model, server=server, cure=cure)


def _by_status(error: openai.APIStatusError) -> tuple[type[LanguageModelError], str]:
    status = error.status_code
    said = f"{message_of(error)} {error.code} {error.type}"
    if error.code == "insufficient_quota":
        return ChatAccessError, "the account has no credit left"
    # llama.cpp has said this with 500 as well.
    if status in (400, 413, 422, 500) and _TOO_LONG.search(said):
        return ContextTooLongError, "ask with a shorter prompt, or raise the server's limit"
    if status >= 500 or status in (408, 409):
        return ChatUnavailableError, "see the server's log, and ask again later"
    return _BY_STATUS.get(status, (ChatRequestError, "the server takes no such request"))


def message_of(error: openai.APIError) -> str:
    """Return what the server says, in one line that can be shown."""
    body: Any = error.body
    said = body.get("message") if isinstance(body, dict) else body
    if said is None and isinstance(body, dict) and "detail" in body:  # as FastAPI has it
        said = json.dumps(body["detail"], ensure_ascii=False)
    return printable(said if isinstance(said, str) and said.strip() else error.message, 300)
