"""`Run`: what came of a request that was planned, or served by an agent in turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cnp_router.execution import Execution, JobReport, Plan
from cnp_router.protocols.ledger import Ledger, ModelCall
from cnp_router.records import one_line

__all__ = ["AgentTurn", "Run", "TurnKind"]

TurnKind = Literal[
    "called",  # a call was made, and succeeded
    "failed",  # a call was made or its inputs did not fit, and it failed
    "repeated",  # the same call had succeeded before: its result was given again
    "refused",  # a rule of the workspace, or the user, forbade it: it was not made
    "unknown",  # there is no such tool, or none was named: nothing was called
    "early",  # it said that it is done while rules were not met
    "finished",  # it said that it is done, and the rules agree
    "unusable",  # an answer that none could read
]


@dataclass(frozen=True, slots=True, repr=False)
class AgentTurn:
    """One turn of an agent.

    Parameters
    ----------
    job : str
    number : int
        Within the job, from 1.
    kind : TurnKind
    tool : str
        "" where none was named.
    inputs : mapping of str to JSON value
    seen : JSON value
        What the agent was told of it.
    thought : str, default=""
    """

    job: str
    number: int
    kind: TurnKind
    tool: str
    inputs: Mapping[str, Any] = field(hash=False)
    seen: Any = field(hash=False)
    thought: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "job": self.job,
            "number": self.number,
            "kind": self.kind,
            "thought": self.thought,
            "tool": self.tool,
            "inputs": dict(self.inputs),
            "seen": self.seen,
        }

    __repr__ = one_line


@dataclass(frozen=True, repr=False)
class Run:
    """What came of a request that was planned and executed, or served by an agent in turns.

    Parameters
    ----------
    method : {"plan-and-execute", "react"}
    execution : Execution
        Its plan is the last one; a job is there for each that was done, and those that failed last.
    turns : tuple of AgentTurn
        Of agents that chose their calls themselves.
    model_calls : tuple of ModelCall
        What the models were paid, by role and stage.
    state : mapping, default={}
        Of the workspace, at the end.
    unmet : tuple of str, default=()
        Rules of the workspace that are not met.
    plans : tuple of Plan, default=()
        The first, and each revision.
    failed : tuple of JobReport, default=()
        Jobs that failed and were planned anew.

    Attributes
    ----------
    is_done : bool
        Whether all rules are met and all jobs are done.
    problem : str
        Why not, if not.
    """

    method: str
    execution: Execution
    turns: tuple[AgentTurn, ...]
    model_calls: tuple[ModelCall, ...]
    state: Mapping[str, Any] = field(default_factory=dict, hash=False)
    unmet: tuple[str, ...] = ()
    plans: tuple[Plan, ...] = ()
    failed: tuple[JobReport, ...] = ()

    @property
    def plan(self) -> Plan | None:
        """The last plan."""
        return self.execution.plan

    @property
    def is_done(self) -> bool:
        """Whether all rules are met and all jobs are done."""
        return self.execution.is_done and not self.unmet

    @property
    def problem(self) -> str:
        """Why it is not done; empty if it is."""
        if self.is_done:
            return ""
        broken = [self.execution.problem] if self.execution.problem else []
        jobs = [f"{job.id}: {job.problem}" for job in self.execution.jobs if job.problem]
        missing = [f"not met: {'; '.join(self.unmet)}"] if self.unmet else []
        return ". ".join([*missing, *(broken or jobs)]) or "nothing was done"

    @property
    def counts(self) -> dict[str, int]:
        """How many turns there were of each kind."""
        return dict(Counter(turn.kind for turn in self.turns))

    @property
    def ledger(self) -> Ledger:
        """What the models were paid, by role and by stage."""
        return Ledger.of((), self.model_calls, seconds=self.execution.seconds)

    @property
    def tokens(self) -> int:
        """Tokens in and out of all models."""
        return self.ledger.tokens

    @property
    def tokens_by_role(self) -> dict[str, int]:
        """Tokens in and out, by role."""
        roles = self.ledger.by_role
        return {name: cost.tokens_in + cost.tokens_out for name, cost in roles.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "method": self.method,
            "done": self.is_done,
            "problem": self.problem,
            "unmet": list(self.unmet),
            "state": dict(self.state),
            "turns": [turn.to_dict() for turn in self.turns],
            "plans": [plan.to_dict() for plan in self.plans],
            "failed": [job.to_dict() for job in self.failed],
            "ledger": self.ledger.to_dict(),
            "execution": self.execution.to_dict(),
        }

    def __repr__(self) -> str:
        end = "done" if self.is_done else "not done"
        return f"Run({self.method}: {end}, {len(self.turns)} turns, {self.tokens:,} tokens)"
