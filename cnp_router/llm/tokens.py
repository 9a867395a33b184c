"""Token counts where no server gives them: an estimate without a tokenizer.

A token of the common byte-pair vocabularies is about four bytes of UTF-8: four letters of English
(the rule of thumb that OpenAI gives), a little over one Chinese or Japanese character. Take it as
right within some 20 % for prose; what it is used in is always marked as estimated.

Chat formats put role and delimiters around the text of each message, and open the answer: 4 and 3
tokens, as in OpenAI's own recipe for counting the tokens of messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cnp_router.llm.chat import ChatRequest, ChatResponse, Usage
from cnp_router.llm.parsing import read_answer, schema_text

__all__ = ["estimate_request_tokens", "estimate_tokens", "estimate_usage", "estimated_response"]

_BYTES_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4
_TOKENS_TO_OPEN_THE_ANSWER = 3


def estimate_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def estimate_request_tokens(request: ChatRequest) -> int:
    """Return the estimated number of tokens that a request puts into a model.

    A schema counts as the text it is: servers that are given one show it to the model.
    """
    schema = "" if request.schema is None else schema_text(request.schema)
    return (
        sum(_TOKENS_PER_MESSAGE + estimate_tokens(m.content) for m in request.messages)
        + estimate_tokens(schema)
        + _TOKENS_TO_OPEN_THE_ANSWER
    )


def estimate_usage(request: ChatRequest, text: str) -> Usage:
    """Return the estimated usage of a request and the text of its answer."""
    return Usage(estimate_request_tokens(request), estimate_tokens(text), "estimated")


def estimated_response(
    request: ChatRequest, answer: Mapping[str, Any] | str, model: str
) -> ChatResponse:
    """Return the response of a model, by its name, that no server counts the tokens of.

    A mapping is written as JSON. With a schema, a text is read as a real answer would be: where
    none fits, it is a ChatAnswerError.

    Examples
    --------
    >>> from cnp_router.llm import ChatMessage
    >>> estimated_response(ChatRequest([ChatMessage("user", "Hello")]), "Hi there", "tiny").usage
    Usage(tokens_in=9, tokens_out=2, source='estimated')
    """
    text = answer if isinstance(answer, str) else json.dumps(dict(answer), ensure_ascii=False)
    return ChatResponse(
        text=text,
        data=None if request.schema is None else read_answer(text, request.schema),
        usage=estimate_usage(request, text),
        model=model,
        seconds=0.0,
        structured_by=None if request.schema is None else "server",
    )
