"""`Delegate` and `ComposeAnswer`: what an orchestrator of agents is asked.

It answers alone, or says which agents are asked what; then it makes one answer of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cnp_router.agents.answers import AnswerModel
from cnp_router.agents.prompts import (
    Instructions,
    json_list,
    json_object,
    quoted,
    sendable,
    short_specification,
)
from cnp_router.agents.tasks import Task
from cnp_router.catalog import Api
from cnp_router.exceptions import ChatAnswerError
from cnp_router.records import one_line

__all__ = ["ComposeAnswer", "Delegate", "Delegation", "WantedAsk"]


class _Ask(AnswerModel):
    agent: str
    text: str
    arguments: dict[str, Any]


class _Delegated(AnswerModel):
    answer: str
    asks: list[_Ask]
    missing: str


class _Composed(AnswerModel):
    answer: str


@dataclass(frozen=True, slots=True)
class WantedAsk:
    """A question that an orchestrator wants to put to an agent."""

    agent: str
    text: str
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class Delegation:
    """The answer to `Delegate`: whom to ask what; or, where nobody is to be asked, the answer."""

    answer: str
    asks: tuple[WantedAsk, ...] = ()
    missing: str = ""  # what the request needs and none of the agents can do
    hallucinated: tuple[str, ...] = ()  # agents that there are not; they are not asked

    __repr__ = one_line


@dataclass(frozen=True, slots=True, repr=False)
class Delegate(Task[Delegation]):
    """Whether an orchestrator answers alone, or which agents it asks what.

    Parameters
    ----------
    request : str
    agents : tuple of Api
        That may be asked.
    history : tuple of str, default=()
        What was said before, the newest last. Agents are not told it.

    Examples
    --------
    >>> weather = Api("weather", "weather", "Says what the weather is.")
    >>> task = Delegate("Hello! Rain in Nara?", (weather,))
    >>> answer = task.read({"answer": "", "asks": [
    ...     {"agent": "weather", "text": "Rain in Nara?", "arguments": {}},
    ...     {"agent": "sky", "text": "Rain?", "arguments": {}}], "missing": ""})
    >>> answer.asks, answer.hallucinated
    ((WantedAsk(agent='weather', text='Rain in Nara?', arguments={}),), ('sky',))
    """

    request: str
    agents: tuple[Api, ...]
    history: tuple[str, ...] = ()

    role = "manager"
    stage = "delegation"
    answer_tokens = 60
    answer_model = _Delegated
    instructions = Instructions(
        "You are an orchestrator of agents. You ask no agent that is not in the list.",
        "A greeting, or what everybody knows, you answer yourself. Otherwise choose the agents "
        "that the request needs, as few as will do. Give each the part of the request that is for "
        "it, so that it can be understood alone: agents see neither the request nor what was said "
        "before.",
        '"answer": your answer, or "" where you ask agents. "asks": for each its "agent", the '
        '"text" and the "arguments" that it takes; none where you answer yourself. "missing": the '
        'part of the request that needs an agent which is not in the list, or "".',
    )

    def information(self) -> str:
        """Return the request, what was said before it, and the agents, as one JSON object."""
        fields = {
            "before": json_list(map(quoted, self.history)) if self.history else "",
            "request": quoted(self.request),
            "agents": json_list(map(short_specification, self.agents)) if self.agents else "",
        }
        return json_object({name: text for name, text in fields.items() if text})

    def understand(self, said: _Delegated) -> Delegation:
        """Return who is to be asked, without agents that there are not.

        An answer that comes to nothing is a ChatAnswerError.
        """
        known = {api.id for api in self.agents}
        asks = tuple(
            WantedAsk(ask.agent, ask.text, dict(ask.arguments))
            for ask in said.asks
            if ask.agent in known and ask.text.strip()
        )
        if not (asks or said.answer.strip() or said.missing.strip()):
            raise ChatAnswerError("it neither answers nor asks an agent that there is")
        strangers = dict.fromkeys(ask.agent for ask in said.asks if ask.agent not in known)
        return Delegation(said.answer, asks, said.missing.strip(), tuple(strangers))


@dataclass(frozen=True, slots=True, repr=False)
class ComposeAnswer(Task[str]):
    """One answer out of those of several agents.

    Parameters
    ----------
    request : str
    analyses : mapping of str to JSON value
        By agent. What agents say is data.
    errors : mapping of str to str, default={}
        Of those that have failed.

    Examples
    --------
    >>> task = ComposeAnswer("Rain in Nara?", {"weather": "None before five."})
    >>> print(task.information())
    {"request": "Rain in Nara?", "analyses": {"weather": "None before five."}}
    >>> task.read({"answer": "No rain before five."})
    'No rain before five.'
    """

    request: str
    analyses: Mapping[str, Any] = field(hash=False)
    errors: Mapping[str, str] = field(default_factory=dict, hash=False)

    role = "manager"
    stage = "answer"
    answer_tokens = 120
    answer_model = _Composed
    instructions = Instructions(
        "You are an orchestrator of agents. You tell the user what they found, and make up "
        "nothing.",
        "Answer the request by the analyses. Where agents contradict each other, say so. Say what "
        "is missing because an agent failed.",
        '"answer": the answer, in the language of the request.',
    )

    def information(self) -> str:
        """Return the request, what agents said, and what went wrong, as one JSON object."""
        fields = {"request": quoted(self.request), "analyses": _json(self.analyses)}
        if self.errors:
            fields["errors"] = _json(self.errors)
        return json_object(fields)

    def understand(self, said: _Composed) -> str:
        """Return the answer."""
        return said.answer


def _json(value: Mapping[str, Any]) -> str:
    return sendable(json.dumps(dict(value), ensure_ascii=False))
