"""The ledger of a round: what it has cost, by message type, role, stage and model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from cnp_router.llm import AgentRole, Usage
from cnp_router.protocols.messages import (
    Award,
    CallForProposals,
    Cancel,
    Failure,
    InformResult,
    Message,
    Proposal,
    Refusal,
)

__all__ = ["Cost", "ExecutionCost", "Ledger", "ModelCall"]

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One answer of a model, or an attempt at one that was paid for."""

    agent: str
    """The role, or of a contractor its id."""
    role: AgentRole | Literal["category-manager"]
    """A contractor that manages a net is asked as a manager, and booked apart."""
    model: str
    """Name of who answered."""
    stage: str
    """What it was for: the stage of the task, or ``"fallback"`` (category mapping where the router
    was not confident)."""
    steps: tuple[Count, ...]
    """The reasoning steps it covers."""
    tokens_in: Count
    tokens_out: Count
    tokens_are: Literal["server", "estimated"]
    tokens_cached: Count = 0
    """How many of `tokens_in` the server had read before and kept."""
    seconds: float = 0.0
    """Of the model."""
    calls: Count = 1
    """Answers it took: 2 where one was repaired."""
    cached: bool = False
    """Whether it was answered before, and nothing paid now."""
    cfp: Count | None = None
    """Id of the call for proposals it answers."""
    hallucinated: tuple[str, ...] = ()
    """Names in the answer that do not exist; they were dropped."""
    cut: tuple[str, ...] = ()
    """What was beyond the limits or the budget, a phrase each; it was cut."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    @property
    def usage(self) -> Usage:
        """What it has cost."""
        return Usage(self.tokens_in, self.tokens_out, self.tokens_are, self.tokens_cached)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {n: list(v) if isinstance(v, tuple) else v for n, v in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a part of a round has cost: of one role, of one stage, or of one model."""

    messages: int = 0  # sent by the role, or in the stage; models send none
    model_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0  # of the models, summed; those that answer at the same time count each


@dataclass(frozen=True, slots=True)
class ExecutionCost:
    """What a contractor has done of what it was awarded, and what that has cost."""

    awards: int = 0
    results: int = 0
    failures: int = 0
    cancelled: int = 0
    calls: int = 0  # of its APIs, each attempt one
    retries: int = 0  # calls beyond the first one of an award
    seconds: float = 0.0  # of the calls, summed; those at the same time count each
    n_bytes: int = 0  # that came back

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        said = asdict(self)
        size = said.pop("n_bytes")
        return {**said, "seconds": round(self.seconds, 6), "bytes": size}


@dataclass(frozen=True, repr=False)
class Ledger:
    """What a round has cost.

    Parameters
    ----------
    messages : mapping of str to int
        Performative to number of messages.
    usage : Usage
        Of all model calls.
    model_calls : int
    cached_calls : int
        How many of them were answered before, and not paid now.
    by_role : mapping of str to Cost
        ``"user"``, ``"manager"``, ``"category-manager"``, ``"contractor"``, ``"single-agent"``, as
        far as they took part.
    by_stage : mapping of str to Cost
        As in `ModelCall`, and ``"request"`` for the request and the report. Announcements and
        replies are messages of ``"bidding"``, awards and rejections of ``"API selection"``; what
        follows the awards, of ``"execution"``.
    by_model : mapping of str to Cost
        By the name of who answered.
    waves : int
        How many waves of calls for proposals, in all announcements.
    late : int
        Replies after the deadline.
    failures : mapping of str to int
        Of replies to calls for proposals: reason to number.
    hallucinated : int
        Names that a model made up; they were dropped.
    cut : int
        Answers that were beyond the limits of what an agent may say.
    seconds : float, seconds
        Of wall time.
    executions : mapping of str to ExecutionCost
        By contractor, if what was awarded was done.

    Examples
    --------
    >>> call = ModelCall(agent="maps", role="contractor", model="tiny", stage="bidding", steps=(3,),
    ...                  tokens_in=90, tokens_out=9, tokens_are="estimated")
    >>> ledger = Ledger.of([], [call, call])
    >>> ledger.tokens, ledger.by_role["contractor"].model_calls, ledger.by_model["tiny"].tokens_in
    (198, 2, 180)
    """

    messages: Mapping[str, int]
    usage: Usage
    model_calls: int
    cached_calls: int
    by_role: Mapping[str, Cost]
    by_stage: Mapping[str, Cost]
    by_model: Mapping[str, Cost]
    waves: int
    late: int
    failures: Mapping[str, int]
    hallucinated: int
    cut: int
    seconds: float
    executions: Mapping[str, ExecutionCost] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        calls: Iterable[ModelCall],
        *,
        seconds: float = 0.0,
    ) -> Ledger:
        """Return the ledger of messages and model calls."""
        messages, calls = list(messages), list(calls)
        server = bool(calls) and all(call.tokens_are == "server" for call in calls)
        return cls(
            messages=dict(Counter(message.performative for message in messages)),
            usage=Usage(
                sum(call.tokens_in for call in calls),
                sum(call.tokens_out for call in calls),
                "server" if server else "estimated",
                sum(call.tokens_cached for call in calls),
            ),
            model_calls=sum(call.calls for call in calls),
            cached_calls=sum(call.calls for call in calls if call.cached),
            by_role=_costs("role", messages, calls),
            by_stage=_costs("stage", messages, calls),
            by_model=_costs("model", [], calls),
            waves=len({(m.iteration, m.wave) for m in messages if isinstance(m, CallForProposals)}),
            late=sum(isinstance(m, (Proposal, Refusal)) and m.late for m in messages),
            failures=dict(
                Counter(m.reason for m in messages if isinstance(m, Failure) and m.api is None)
            ),
            hallucinated=sum(len(call.hallucinated) for call in calls),
            cut=sum(bool(call.cut) for call in calls),
            seconds=seconds,
            executions=_executions(messages),
        )

    @property
    def n_messages(self) -> int:
        """The number of messages."""
        return sum(self.messages.values())

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.usage.tokens_in + self.usage.tokens_out

    def __repr__(self) -> str:
        how = "" if self.usage.source == "server" else ", estimated"
        return (
            f"Ledger({self.n_messages:,} messages, {self.model_calls:,} model calls, "
            f"{self.tokens:,} tokens{how})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as a JSON object."""
        return {
            "messages": {"total": self.n_messages, **self.messages},
            "model_calls": self.model_calls,
            "cached_calls": self.cached_calls,
            "tokens_in": self.usage.tokens_in,
            "tokens_out": self.usage.tokens_out,
            "tokens_are": self.usage.source,
            "by_role": {name: asdict(cost) for name, cost in self.by_role.items()},
            "by_stage": {name: asdict(cost) for name, cost in self.by_stage.items()},
            "by_model": {name: asdict(cost) for name, cost in self.by_model.items()},
            "waves": self.waves,
            "late": self.late,
            "failures": dict(self.failures),
            "hallucinated": self.hallucinated,
            "cut": self.cut,
            "seconds": round(self.seconds, 6),
            "executions": {name: cost.to_dict() for name, cost in self.executions.items()},
        }


def _executions(messages: list[Message]) -> dict[str, ExecutionCost]:
    """Return what each contractor has done of its awards; nothing where none was to be done."""
    ends = [
        m
        for m in messages
        if isinstance(m, InformResult | Cancel) or (isinstance(m, Failure) and m.api is not None)
    ]
    if not ends:
        return {}
    by_award = {end.in_reply_to: end for end in ends}
    costs: dict[str, ExecutionCost] = {}
    for award in (m for m in messages if isinstance(m, Award)):
        before, end = costs.get(award.receiver, ExecutionCost()), by_award.get(award.id)
        tried = end if isinstance(end, InformResult | Failure) else None
        attempts = tried.attempts if tried else 0
        costs[award.receiver] = ExecutionCost(
            before.awards + 1,
            before.results + isinstance(end, InformResult),
            before.failures + isinstance(end, Failure),
            before.cancelled + isinstance(end, Cancel),
            before.calls + attempts,
            before.retries + max(attempts - 1, 0),
            before.seconds + (tried.seconds if tried else 0.0),
            before.n_bytes + (tried.n_bytes if tried else 0),
        )
    return costs


def _costs(part: str, messages: list[Message], calls: list[ModelCall]) -> dict[str, Cost]:
    """Return what each role, each stage or each model has cost."""
    sent = Counter(getattr(message, part) for message in messages)
    by_name: dict[str, list[ModelCall]] = {name: [] for name in sent}
    for call in calls:
        by_name.setdefault(getattr(call, part), []).append(call)
    return {
        name: Cost(
            sent[name],
            sum(call.calls for call in own),
            sum(call.tokens_in for call in own),
            sum(call.tokens_out for call in own),
            math.fsum(call.seconds for call in own),
        )
        for name, own in by_name.items()
    }
