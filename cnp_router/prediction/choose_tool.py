"""`ChooseTool`: the task of naming the next tool, and the `ToolList` that it is named from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cnp_router.agents import AnswerModel, Task
from cnp_router.agents.prompts import (
    Instructions,
    json_list,
    json_object,
    quoted,
    specification,
)
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.prediction.predictor import Candidate
from cnp_router.records import shown
from cnp_router.text import BM25
from cnp_router.trajectories import Step

__all__ = ["ChooseTool", "ToolChoice", "ToolList", "offline_choice"]

_MOST_STEPS = 10
# Characters of what a step was given and of what it returned, each.
_MOST_TEXT = 1_000


class _Named(AnswerModel):
    tool: str


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The answer to `ChooseTool`: the tool, or what was named instead and dropped."""

    tool: str | None
    hallucinated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ChooseTool(Task[ToolChoice]):
    """The next tool of an agent, named by a model.

    It is shown the last ten steps, long texts cut, what was predicted, and the specifications
    `tools`; it may name all ids that are `allowed`.

    Examples
    --------
    >>> task = ChooseTool("Rain?", (Step("weather", {"city": "Kyoto"}, "rain"),),
    ...                   (Candidate("sms", 0.5),), (Api("sms", "SMS", "Sends texts."),),
    ...                   frozenset({"sms", "mail"}))
    >>> task.read({"tool": "mail"})
    ToolChoice(tool='mail', hallucinated=())
    >>> task.read({"tool": "pigeon"})
    ToolChoice(tool=None, hallucinated=('pigeon',))
    """

    goal: str
    prefix: tuple[Step, ...]
    candidates: tuple[Candidate, ...]
    tools: tuple[Api, ...]
    allowed: frozenset[str]

    role = "single-agent"
    steps = ()
    answer_tokens = 15
    answer_model = _Named
    instructions = Instructions(
        "You are an agent that reaches a goal by calling tools, one at a time. You name the next "
        "tool and do not call it. You use no tool that is not in the list.",
        "Compare the goal with what the steps so far have returned, and say to yourself what is "
        "missing. The candidates are what usually follows such steps, with its probability: take "
        "one of them if it serves the goal now, and another tool of the list if none does.",
        '"tool": the id of the next tool.',
    )

    def information(self) -> str:
        """Return the goal, the last steps, the candidates and the tools."""
        return json_object(
            {
                "goal": quoted(self.goal),
                "steps": json_list([_step(step) for step in self.prefix[-_MOST_STEPS:]]),
                "candidates": json_list([_candidate(c) for c in self.candidates]),
                "tools": json_list([specification(tool) for tool in self.tools]),
            }
        )

    def understand(self, said: _Named) -> ToolChoice:
        """Return the tool, if it may be named."""
        known = said.tool in self.allowed
        return ToolChoice(said.tool) if known else ToolChoice(None, (said.tool,))


def offline_choice(task: ChooseTool) -> dict[str, Any]:
    """Return the answer of an offline model: the first candidate, or else the first tool."""
    known = [candidate.tool for candidate in task.candidates] + [tool.id for tool in task.tools]
    return {"tool": known[0] if known else ""}


class ToolList:
    """The tools a model may choose from, by id; a bare id is a tool of which nothing is known."""

    def __init__(self, tools: Iterable[Api | str]) -> None:
        if isinstance(tools, str):
            raise InputError(f"tools must be several, got {tools!r} (write [{tools!r}])")
        self.apis: dict[str, Api] = {}
        for tool in tools:
            api = tool if isinstance(tool, Api) else Api(tool, tool)
            if api.id in self.apis:
                raise InputError(f"tool {api.id!r} is given twice (ids must be unique)")
            self.apis[api.id] = api

    def shortlist(self, goal: str, first: Sequence[str], k: int) -> tuple[Api, ...]:
        """Return at most `k` tools: `first`, then those whose specification is nearest to `goal`.

        Of `first`, those that are not in the list are passed over. If all fit, the rest is in the
        order given.
        """
        rest = list(self.apis)
        if len(rest) > k:
            nearest = np.argsort(-self._index.scores(goal), kind="stable")[:k]
            rest = [rest[place] for place in nearest]
        ids = dict.fromkeys([*(tool for tool in first if tool in self.apis), *rest])
        return tuple(self.apis[tool] for tool in list(ids)[:k])

    @cached_property
    def _index(self) -> BM25:
        return BM25([f"{api.name} {api.description}" for api in self.apis.values()])


def _candidate(candidate: Candidate) -> str:
    probability = f"{candidate.probability:.2f}"
    return json_object({"id": quoted(candidate.tool), "probability": probability})


def _step(step: Step) -> str:
    try:
        inputs = json.dumps(step.inputs, ensure_ascii=False, default=repr)
    except (RecursionError, TypeError, ValueError):  # nested too deep or in itself, or odd keys
        inputs = quoted(shown(step.inputs))
    short = inputs.encode("utf-8", "replace").decode() if len(inputs) <= _MOST_TEXT else None
    fields = {
        "tool": quoted(step.tool),
        "inputs": short or quoted(_cut(inputs)),
        "observation": quoted(_cut(step.observation)),
    }
    if step.success is not None:
        fields["success"] = "true" if step.success else "false"
    return json_object(fields)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "..."
