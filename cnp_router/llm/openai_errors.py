"""What the OpenAI SDK raises, as errors of this library: whose fault it is, and what cures it."""

from __future__ import annotations

import re
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
from cnp_router.printing import printable

__all__ = ["concerns_the_schema", "mapped", "only_this_schema"]

# Each server has its own words for the same thing (OpenAI, vLLM before and after 0.16, llama.cpp).
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|context (length|size|window)|prompt is too long",
    re.IGNORECASE,
)
_SCHEMA_REFUSED = re.compile(
    r"response_?format|json_?(schema|object)|structured.?output|guided|grammar", re.IGNORECASE
)
_LATER = "see the server's log, and ask again later"
_KEY = "check the api_key argument or OPENAI_API_KEY"
_BY_STATUS: dict[int, tuple[type[LanguageModelError], str]] = {
    401: (ChatAccessError, _KEY),
    403: (ChatAccessError, _KEY),
    404: (ChatModelUnknownError, "check the model name and that the base URL ends in /v1"),
    408: (ChatUnavailableError, _LATER),
    409: (ChatUnavailableError, _LATER),
    429: (ChatRateLimitError, "ask later, or lower max_concurrency"),
}
_ONLY_THIS_SCHEMA = re.compile(r"invalid schema|grammar", re.IGNORECASE)


def _message_of(error: openai.APIError) -> str:
    body: Any = error.body
    said = body.get("message") if isinstance(body, dict) else body
    return printable(said if isinstance(said, str) and said.strip() else error.message, 300)


def concerns_the_schema(error: openai.APIStatusError) -> bool:
    """Return whether the server refused a request because of its response format.

    Some say so with 400, some with 422, 500 or 501.
    """
    words = f"{_message_of(error)} {error.param}"
    return error.status_code in (400, 422, 500, 501) and bool(_SCHEMA_REFUSED.search(words))


def only_this_schema(error: openai.APIStatusError) -> bool:
    """Return whether the server takes schemas, only not this one."""
    return bool(_ONLY_THIS_SCHEMA.search(_message_of(error)))


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
        problem = f"the server answered {error.status_code}: {_message_of(error)}"
    else:
        kind, problem, cure = ChatUnavailableError, _message_of(error), "ask again later"
    return kind(problem, model=model, server=server, cure=cure)


def _by_status(error: openai.APIStatusError) -> tuple[type[LanguageModelError], str]:
    status = error.status_code
    said = f"{_message_of(error)} {error.code} {error.type}"
    if error.code == "insufficient_quota":
        return ChatAccessError, "the account has no credit left"
    # llama.cpp has said this with 500 as well.
    if status in (400, 413, 422, 500) and _TOO_LONG.search(said):
        return ContextTooLongError, "ask with a shorter prompt, or raise the server's limit"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ChatUnavailableError, _LATER
    return ChatRequestError, "the server takes no such request"
