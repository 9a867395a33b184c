"""`FillInputs`: the task of filling the inputs of one call, by an executor.

The executor sees no text of any result. It sees outlines, which have none, and answers with
references to results. What a result says can therefore give it no order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cnp_router.agents.answers import AnswerModel
from cnp_router.agents.parameters import parameters_of, takes_others
from cnp_router.agents.prompts import Instructions, json_object, quoted, sendable, specification
from cnp_router.agents.tasks import Task
from cnp_router.catalog import Api
from cnp_router.llm import ChatRequest

__all__ = ["FillInputs", "InputHint", "WrittenInputs"]


_ON_CONTEXT = (
    "Context are outlines of what was found out for other jobs, referred to as results are. It is "
    "similar, and may be about something else: use it only where a required value stands nowhere "
    "else."
)


class _Inputs(AnswerModel):
    inputs: dict[str, Any]
    missing: list[str]


@dataclass(frozen=True, slots=True)
class WrittenInputs:
    """The answer to `FillInputs`: values and references, as an executor wrote them."""

    inputs: dict[str, Any]
    missing: tuple[str, ...] = ()  # parameters of which it found no value
    hallucinated: tuple[str, ...] = ()  # names that the API does not take; they were dropped


@dataclass(frozen=True, slots=True)
class InputHint:
    """Where an input of an API usually came from: never what it was."""

    input: str
    job: str
    """The job whose API it came from."""
    source: Literal["result", "inputs"]
    path: str | None
    """JSON Pointer in that job's result, or the name of its input; None: somewhere in a text."""
    count: int
    of: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON object that the prompt shows."""
        where = {} if self.path is None else {"path": self.path}
        origin = {"input": self.input, "from": f"{self.source} of {self.job}"}
        return {**origin, **where, "count": self.count, "of": self.of}


@dataclass(frozen=True, slots=True, repr=False)
class FillInputs(Task[WrittenInputs]):
    """The inputs of one call, as literal values or as references to results.

    Parameters
    ----------
    request : str
        "" where the executor is not to see it.
    job : str
        What this call is to do, in plain language; "" where nobody said.
    api : Api
        Who was awarded. What it says of itself is data.
    given : mapping of str to JSON value, default={}
        Inputs that stand already.
    results : mapping of str to sequence of dict, default={}
        The outline of each result that may be used, by the job it is from.
    hints : tuple of InputHint, default=()
    context : mapping of str to sequence of dict, default={}
        The outline of each similar thing that was found out elsewhere, by its context id.

    Examples
    --------
    >>> api = Api("sms", "SMS", "Sends texts.", parameters={
    ...     "type": "object", "properties": {"body": {"type": "string"}}, "required": ["body"],
    ...     "additionalProperties": False})
    >>> task = FillInputs("Text me the forecast.", "Text it.", api,
    ...                   results={"weather": [{"path": "", "type": "string", "size": 31}]})
    >>> task.read({"inputs": {"body": {"$from": "weather", "path": ""}, "when": 1}, "missing": []})
    WrittenInputs(inputs={'body': {'$from': 'weather', 'path': ''}}, missing=(), \
hallucinated=('when',))
    """

    request: str
    job: str
    api: Api
    given: Mapping[str, Any] = field(default_factory=dict, hash=False)
    results: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict, hash=False)
    hints: tuple[InputHint, ...] = ()
    context: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict, hash=False)

    role = "executor"
    steps = ()
    stage = "filling"
    answer_tokens = 60
    answer_model = _Inputs
    instructions = Instructions(
        "You are an executor. You fill the inputs of one call; you choose no tool, and make no "
        "call.",
        "Look at each parameter of the specification that is not given. Its value stands in the "
        "job or the request, or is part of a result. Of results you see an outline: paths, types, "
        'sizes, no text. Write {"$from": job, "path": path} for a part of a result, and {"$text": '
        '"... {job#path} ..."} for a text with parts of results in it. Leave out an optional '
        "parameter that nobody asked for. Make up no value.",
        '"inputs": object of the values by parameter. "missing": required parameters that you '
        "found no value of.",
    )

    def information(self) -> str:
        """Return request, job, specification, what is given, outlines and hints."""
        fields = {
            "request": quoted(self.request) if self.request else "",
            "job": quoted(self.job) if self.job else "",
            "specification": specification(self.api),
            "given": _json(self.given),
            "results": _json(self.results),
            "hints": _json([hint.to_dict() for hint in self.hints]),
            "context": _json(self.context),
        }
        return json_object({name: text for name, text in fields.items() if text})

    def chat_request(self) -> ChatRequest:
        """Return the request; where there is context, with a sentence on what to make of it."""
        instructions = self.instructions
        if self.context:
            instructions = instructions.followed_by(_ON_CONTEXT)
        messages = instructions.messages(self.information())
        return ChatRequest(messages, schema=self.schema, task=self)

    def understand(self, said: _Inputs) -> WrittenInputs:
        """Return the inputs, without those that are given or that the API does not take."""
        names = {parameter.name for parameter in parameters_of(self.api)}
        written = {name: v for name, v in said.inputs.items() if name not in self.given}
        kept = {name: v for name, v in written.items() if name in names or takes_others(self.api)}
        missing = (n for n in said.missing if n in names and n not in {*kept, *self.given})
        hallucinated = tuple(name for name in written if name not in kept)
        return WrittenInputs(kept, tuple(dict.fromkeys(missing)), hallucinated)


def _json(value: Any) -> str:
    return sendable(json.dumps(value, ensure_ascii=False)) if value else ""
