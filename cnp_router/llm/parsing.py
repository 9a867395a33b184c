"""From what a model said to data that fits the schema, and what to say when it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from cnp_router.exceptions import ChatAnswerError
from cnp_router.llm.chat import ChatMessage, ChatRequest
from cnp_router.llm.schema import misfit
from cnp_router.printing import printable

__all__ = ["read_answer", "repair_request", "schema_text", "with_schema_in_prompt"]

_DECODER = json.JSONDecoder()
_MOST_FALSE_STARTS = 50  # braces that open no JSON: each costs a look at the rest of the text
_MOST_OBJECTS = 1_000
_MOST_QUOTED = 4_000  # characters of a wrong answer that are shown to the model again


def read_answer(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    r"""Return the JSON object in an answer; ChatAnswerError says why none fits the schema.

    What stands around it (a code fence, a sentence, thoughts) is passed over. Of several objects
    the last that fits is taken: thoughts come before the answer.

    Examples
    --------
    >>> schema = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}
    >>> read_answer('Here it is:\n```json\n{"apis": ["maps"]}\n```', schema)
    {'apis': ['maps']}
    """
    if not text.strip():
        raise ChatAnswerError("the answer is empty")
    problem = ""
    for value in [*islice(_objects(text), _MOST_OBJECTS)][::-1]:
        wrong = misfit(value, schema)
        if wrong is None:
            return value
        problem = problem or f"the answer does not fit the schema: {wrong}"
    raise ChatAnswerError(problem or f"the answer has no JSON object: {printable(text, 80)!r}")


def with_schema_in_prompt(request: ChatRequest) -> ChatRequest:
    """Return the request without its schema, which stands at the end of the prompt instead.

    It is for models and servers that take no schema. It goes into a message of the user because
    many chat templates take a system message only at the start, or none.

    Examples
    --------
    >>> request = ChatRequest([ChatMessage("user", "Which APIs?")], schema={"type": "object"})
    >>> print(with_schema_in_prompt(request).messages[0].content)
    Which APIs?
    <BLANKLINE>
    Answer with one JSON object and nothing else. It must fit this JSON schema:
    {"type":"object"}
    """
    demand = _demand(request)
    if request.schema is None or request.messages[-1].content.endswith(demand):
        return replace(request, schema=None)
    return replace(_with_demand(request, demand), schema=None)


def repair_request(request: ChatRequest, text: str, problem: str) -> ChatRequest:
    """Return the request that shows the model its wrong answer, and asks for a right one."""
    # Some servers refuse an empty message of the assistant.
    quoted = (ChatMessage("assistant", text[:_MOST_QUOTED]),) if text.strip() else ()
    asked = replace(request, messages=(*request.messages, *quoted))
    return _with_demand(asked, f"That cannot be used: {problem}.\n\n{_demand(request)}")


def _with_demand(request: ChatRequest, demand: str) -> ChatRequest:
    *before, last = request.messages
    if last.role != "user":
        before, content = [*before, last], demand
    else:  # not all servers take two messages of the user in a row
        content = f"{last.content}\n\n{demand}"
    return replace(request, messages=(*before, ChatMessage("user", content)))


def _demand(request: ChatRequest) -> str:
    return (
        "Answer with one JSON object and nothing else. It must fit this JSON schema:\n"
        + schema_text(request.schema or {})
    )


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as the text that a model is shown."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in a text."""
    end = false_starts = 0
    for start in (match.start() for match in re.finditer(r"\{", text)):
        if start < end or false_starts == _MOST_FALSE_STARTS:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
            # Not JSON though Python reads it: NaN, 1e999, an escape of half a surrogate pair.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            false_starts += 1
        else:
            yield value
