"""The JSON of OpenAI's chat completions: what is sent, and what is read out of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cnp_router.exceptions import ChatAnswerError
from cnp_router.llm.chat import ChatRequest, Usage
from cnp_router.llm.parsing import read_answer, with_schema_in_prompt
from cnp_router.llm.schema import is_strict
from cnp_router.llm.tokens import estimate_usage

__all__ = ["FORMS", "Answer", "read_body", "read_data", "request_body"]

# How a server can be given a schema, the strongest first.
FORMS = ("json_schema", "json_object with the schema", "json_object", "text in the prompt")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a server.

    Parameters
    ----------
    text : str
    refusal, finish_reason : str or None
    model : str
    usage : Usage
    form : int
        Of `FORMS`: how the schema was given.
    """

    text: str
    refusal: str | None
    finish_reason: str | None
    model: str
    usage: Usage
    form: int

    @property
    def structured_by(self) -> Literal["server", "prompt"]:
        """Who was given the schema, if there is one."""
        return "server" if self.form < FORMS.index("json_object") else "prompt"

    @property
    def can_be_repaired(self) -> bool:
        """Whether to ask again: what was cut off once would be cut off again."""
        return not self.refusal and self.finish_reason not in ("length", "content_filter")


def request_body(model: str, request: ChatRequest, form: int, *, limit_name: str) -> dict[str, Any]:
    """Return the body of a request.

    Parameters
    ----------
    model : str
    request : ChatRequest
    form : int
        Of `FORMS`. All but the first have the schema in the prompt too: some servers pass over
        what they do not know.
    limit_name : str
        Name of the field for `ChatRequest.max_tokens`.

    Returns
    -------
    dict
    """
    asked = request if form == 0 else with_schema_in_prompt(request)
    body: dict[str, Any] = {"model": model, "messages": [m.to_dict() for m in asked.messages]}
    schema = request.schema
    if schema is not None and FORMS[form] == "json_schema":
        named = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif schema is not None and FORMS[form] != "text in the prompt":
        extra = {} if FORMS[form] == "json_object" else {"schema": schema}
        body["response_format"] = {"type": "json_object", **extra}
    options = {limit_name: request.max_tokens, "temperature": request.temperature}
    options["seed"] = request.seed
    return body | {name: value for name, value in options.items() if value is not None}


def read_body(body: Any, request: ChatRequest, form: int) -> Answer | None:
    """Return the answer in the body of a response, or None if there is none."""
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    text = _string(message.get("content")) or ""
    return Answer(
        text=text,
        refusal=_string(message.get("refusal")),
        finish_reason=_string(choice.get("finish_reason")),
        model=_string(body.get("model")) or "",
        usage=_usage(body.get("usage")) or estimate_usage(request, text),
        form=form,
    )


def read_data(answer: Answer, request: ChatRequest) -> dict[str, Any] | None:
    """Return the object that an answer has for the schema of the request, if there is one.

    Raises
    ------
    ChatAnswerError
        With what is wrong with the answer.
    """
    if answer.refusal:
        raise ChatAnswerError(f"the model refuses to answer: {answer.refusal[:200]!r}")
    if answer.finish_reason == "content_filter":
        raise ChatAnswerError("the server's content filter withholds the answer")
    if request.schema is not None:
        return read_answer(answer.text, request.schema)
    if not answer.text.strip():
        raise ChatAnswerError("the answer is empty")
    return None


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    counts: list[Any] = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    right = all(type(count) is int and count >= 0 for count in counts)
    return Usage(counts[0], counts[1], "server") if right else None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None
