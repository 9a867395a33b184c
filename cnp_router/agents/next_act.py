"""`NextAct`: what an agent that works in turns does next; `NextStep`: the same, told everything.

An executor of a plan takes `NextAct`: it sees its job, the guideline and the state, never the
request or the profile. A single agent without a plan takes `NextStep`.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
from cnp_router.llm.tokens import estimate_tokens
from cnp_router.records import one_line

__all__ = ["NextAct", "NextStep", "ShownHistory", "TriedCall", "WantedCall"]

_FIFTH = 5
_WORD_FOR_WORD = 3  # turns at the end


class _Act(AnswerModel):
    thought: str
    tool: str
    inputs: dict[str, Any]
    done: bool


@dataclass(frozen=True, slots=True)
class TriedCall:
    """One turn of an agent, and what came of it.

    Parameters
    ----------
    tool : str
        "" where it only said that it is done.
    inputs : mapping of str to JSON value
    seen : JSON value
        What the agent is told of it: a result, or why nothing was called.
    thought : str, default=""
        What it said before.
    kind : str, default=""
        What came of it, in a word.
    """

    tool: str
    inputs: Mapping[str, Any] = field(hash=False)
    seen: Any = field(hash=False)
    thought: str = ""
    kind: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON object that the prompt shows."""
        said = {"thought": self.thought, "tool": self.tool, "inputs": dict(self.inputs)}
        return {**{name: value for name, value in said.items() if value}, "seen": self.seen}

    def brief(self) -> dict[str, Any]:
        """Return what was wanted and what came of it in a word: so that it is not tried again."""
        return {"tool": self.tool, "inputs": dict(self.inputs), "came to": self.kind}

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class ShownHistory:
    """The turns of an agent as it is shown them again.

    Parameters
    ----------
    last : tuple of TriedCall, default=()
        Word for word.
    before : tuple of TriedCall, default=()
        Those before them, in brief.
    n_left : int, default=0
        How many before these are not shown.
    """

    last: tuple[TriedCall, ...] = ()
    before: tuple[TriedCall, ...] = ()
    n_left: int = 0

    @classmethod
    def of(cls, turns: Sequence[TriedCall], most: int) -> ShownHistory:
        """Return turns that take at most so many estimated tokens.

        Where they do not fit, the last three are shown word for word if they fit themselves, and
        more if there is room; the rest is shown in brief, in at most a fifth of the tokens that it
        has and of those that there are. The last one is shown whatever it takes.

        Examples
        --------
        >>> names = ("Kyoto", "Nara", "Kobe", "Otsu", "Uji")
        >>> turns = [TriedCall("maps__find", {"name": name}, "It is " * 9) for name in names]
        >>> shown = ShownHistory.of(turns, 120)
        >>> [turn.inputs["name"] for turn in shown.last]
        ['Kobe', 'Otsu', 'Uji']
        >>> [turn.inputs["name"] for turn in shown.before], shown.n_left
        ([], 2)
        """
        whole = [estimate_tokens(_json(turn.to_dict())) for turn in turns]
        if sum(whole) <= most:
            return cls(tuple(turns))
        # The last three may take all of it, what is more leaves room for what comes in brief.
        last = max(_fitting(whole, most, least=1), len(turns) - _WORD_FOR_WORD)
        start = min(last, _fitting(whole, most - most // _FIFTH, least=1))
        rest = min(most, sum(whole[:start])) // _FIFTH
        in_brief = min(rest, most - sum(whole[start:]))
        brief = [estimate_tokens(_json(turn.brief())) for turn in turns[:start]]
        first = _fitting(brief, in_brief)
        return cls(tuple(turns[start:]), tuple(turns[first:start]), first)


def _fitting(sizes: Sequence[int], most: int, *, least: int = 0) -> int:
    """Return from which place on the sizes fit together; so many at the end do in any case."""
    place = len(sizes)
    for size in reversed(sizes):
        most -= size
        if most < 0 and len(sizes) - place >= least:
            break
        place -= 1
    return place


@dataclass(frozen=True, slots=True)
class WantedCall:
    """The answer to `NextAct`: a call that an agent wants to make, or that it says it is done."""

    thought: str
    tool: str
    inputs: dict[str, Any] = field(hash=False)
    is_done: bool

    __repr__ = one_line


@dataclass(frozen=True, slots=True, repr=False)
class _Next(Task[WantedCall]):
    """What the tasks of those who work in turns have in common."""

    job: str
    apis: tuple[Api, ...]
    state: Mapping[str, Any] = field(default_factory=dict, hash=False)
    unmet: tuple[str, ...] = ()
    history: ShownHistory = field(default_factory=ShownHistory)

    steps = ()
    stage = "acting"
    answer_tokens = 80
    answer_model: ClassVar[type[AnswerModel]] = _Act

    def information(self) -> str:
        """Return what the agent knows, as one JSON object; what is empty is left out."""
        fields = {
            **self.told(),
            "tools": json_list(map(short_specification, self.apis)),
            "state": _json(dict(self.state)),
            "not met": _json(list(self.unmet)),
            "earlier acts that are not shown": str(n_left)
            if (n_left := self.history.n_left)
            else "",
            "earlier acts": _json([act.brief() for act in self.history.before]),
            "acts": _json([act.to_dict() for act in self.history.last]),
        }
        return json_object({name: text for name, text in fields.items() if text})

    @abstractmethod
    def told(self) -> dict[str, str]:
        """Return what it is to do, as JSON texts by name."""

    def understand(self, said: _Act) -> WantedCall:
        """Return what it wants to do; whether there is such a tool, the engine looks."""
        return WantedCall(said.thought, said.tool.strip(), dict(said.inputs), said.done)


@dataclass(frozen=True, slots=True, repr=False)
class NextAct(_Next):
    """The next call for a job, by its executor.

    Texts of results are shown: it has to choose among them. They stand in the prompt as JSON data,
    and what the executor then wants is still asked of the workspace and, where it does not only
    read, of the user.

    Parameters
    ----------
    job : str
        What is to be done, in plain language.
    apis : tuple of Api
        The tools that it may call, shown by their `summary` where they have one.
    state : mapping, default={}
        How far the work is, of a `Workspace`.
    unmet : tuple of str, default=()
        Rules that are not met yet.
    history : ShownHistory, optional
        Its own turns.
    guideline : str, default=""
        Of the plan.
    results : mapping of str to JSON value, default={}
        By job, of those that this one waits for.

    Examples
    --------
    >>> find = Api("maps__find", "find", "Finds places.")
    >>> task = NextAct("Find Kyoto.", (find,), state={"found": 0})
    >>> print(task.information())
    {"job": "Find Kyoto.", "tools": [{"id": "maps__find", "summary": "Finds places."}], \
"state": {"found": 0}}
    >>> task.read({"thought": "", "tool": "maps__find", "inputs": {"name": "Kyoto"}, "done": False})
    WantedCall(thought='', tool='maps__find', inputs={'name': 'Kyoto'}, is_done=False)
    """

    guideline: str = ""
    results: Mapping[str, Any] = field(default_factory=dict, hash=False)

    role = "executor"
    instructions = Instructions(
        "You are an executor. You do one job of a plan by calls of tools, one a turn. You call no "
        "tool that is not in the list, and never make the same call twice.",
        "Look at the job, the state, and what your earlier calls gave. Choose the next call, with "
        "all inputs that it needs. A call that was refused says why: choose another one. Where "
        "the job is finished, call nothing and say that it is done.",
        '"thought": a short sentence. "tool": its id, or "" for none. "inputs": object of its '
        'values. "done": whether the job is finished.',
    )

    def told(self) -> dict[str, str]:
        """Return guideline, job, and results of other jobs, as JSON texts by name."""
        return {
            "guideline": quoted(self.guideline) if self.guideline else "",
            "job": quoted(self.job),
            "results": _json(dict(self.results)),
        }


@dataclass(frozen=True, slots=True, repr=False)
class NextStep(_Next):
    """The next call for a whole request, by a single agent that knows everything.

    Parameters
    ----------
    job : str
        The request.
    apis, state, unmet, history
        As of `NextAct`.
    profile : str, default=""
        What is known of the user.
    hints : tuple of str, default=()
        What is known of the domain.

    Examples
    --------
    >>> task = NextStep("Find Kyoto.", (), profile="Likes tea.")
    >>> print(task.information())
    {"request": "Find Kyoto.", "profile": "Likes tea.", "tools": []}
    """

    profile: str = ""
    hints: tuple[str, ...] = ()

    role = "single-agent"
    instructions = Instructions(
        "You are an agent. You serve a request by calls of tools, one a turn. You call no tool "
        "that is not in the list, and never make the same call twice.",
        "Look at the request, the profile, the state, and what your earlier calls gave. Choose "
        "the next call, with all inputs that it needs. A call that was refused says why: choose "
        "another one. Where the request is served, call nothing and say that it is done.",
        '"thought": a short sentence. "tool": its id, or "" for none. "inputs": object of its '
        'values. "done": whether the request is served.',
    )

    def told(self) -> dict[str, str]:
        """Return the request and all that is known, as JSON texts by name."""
        return {
            "request": quoted(self.job),
            "profile": quoted(self.profile) if self.profile else "",
            "hints": _json(list(self.hints)),
        }


def _json(value: Any) -> str:
    return sendable(json.dumps(value, ensure_ascii=False)) if value else ""
