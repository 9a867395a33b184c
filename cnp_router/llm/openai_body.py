"""The JSON of OpenAI's chat completions: what is sent, and what is read out of an answer."""

from __future__ import annotations

from typing import Any

from cnp_router.llm.chat import ChatRequest, ChatResponse, Usage
from cnp_router.llm.parsing import with_schema_in_prompt
from cnp_router.llm.schema import is_strict
from cnp_router.llm.tokens import estimate_usage

__all__ = ["FORMS", "read_body", "request_body"]

# How a server can be given a schema, the strongest first.
FORMS = ("json_schema", "json_object with the schema", "json_object", "text in the prompt")


def request_body(model: str, request: ChatRequest, form: int, *, limit_name: str) -> dict[str, Any]:
    """Return the body of a request, with its schema in one of the `FORMS`.

    `limit_name` is the server's word for `ChatRequest.max_tokens`.
    """
    schema = request.schema
    # All but the first have the schema in the prompt too: servers may ignore what they do not know.
    asked = request if form == 0 else with_schema_in_prompt(request)
    strict = schema is not None and form == 0 and is_strict(schema)
    named = {"name": "answer", "schema": schema, "strict": strict}
    wanted: tuple[dict[str, Any] | None, ...] = (
        {"type": "json_schema", "json_schema": named},
        {"type": "json_object", "schema": schema},
        {"type": "json_object"},
        None,
    )
    body = {
        "model": model,
        "messages": [message.to_dict() for message in asked.messages],
        "response_format": None if schema is None else wanted[form],
        limit_name: request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    return {name: value for name, value in body.items() if value is not None}


def read_body(body: Any, request: ChatRequest, form: int) -> ChatResponse | None:
    """Return what the body of a response says, or None if there is no answer in it.

    `data` is not read yet. The text of a refusal comes with the finish reason ``"refusal"``.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    refusal = _string(message.get("refusal"))
    text = refusal or _string(message.get("content"))
    by_server = form < FORMS.index("json_object")
    return ChatResponse(
        text=text,
        data=None,
        usage=_usage(body.get("usage")) or estimate_usage(request, text),
        model=_string(body.get("model")),
        seconds=0.0,
        structured_by=None if request.schema is None else "server" if by_server else "prompt",
        finish_reason="refusal" if refusal else _string(choice.get("finish_reason")) or None,
    )


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    counts: list[Any] = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    right = all(type(count) is int and count >= 0 for count in counts)
    return Usage(counts[0], counts[1], "server") if right else None


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
