"""What came of an execution: each job, who acted, what was tried."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cnp_router.execution.task_graph import Plan
from cnp_router.protocols import Cost, Ledger, ModelCall, Transcript
from cnp_router.sources import CallResult

__all__ = ["Act", "By", "Execution", "JobEvent", "JobReport", "JobState", "Reports"]

_LOGGER = logging.getLogger(__name__)

JobState = Literal[
    "waiting", "asking", "filling", "approving", "acting", "done", "failed", "skipped", "cancelled"
]

_ENDS: tuple[JobState, ...] = ("done", "failed", "skipped", "cancelled")

By = Literal["award", "re-award", "directed", "fallback", "direct", "earlier", "context"]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A job has come into a state; a live view shows it.

    Parameters
    ----------
    job : str
    state : JobState
    api : str or None, default=None
        Who acts, or is to.
    text : str, default=""
        What there is to say of it.
    asked : int, default=0
        Contractors that were called for proposals.
    """

    job: str
    state: JobState
    api: str | None = None
    text: str = ""
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Act:
    """What one contractor did for a job.

    Parameters
    ----------
    api : str
    by : By
        How it came to it. ``"earlier"``: the same call had succeeded before in this execution, and
        was not made again; ``"context"``: what is shared knew it; ``"direct"``: the manager was
        lost, and the router's recommendation was called.
    inputs : mapping of str to JSON value
        What it was called with; empty where they could not be filled.
    result : CallResult
    attempts : int >= 0
        Calls made; 0 where it was not called.
    seconds : float >= 0, seconds
        Of all attempts.
    filling : ModelCall or None, default=None
        What the model was paid that filled the inputs; None if none was asked.
    dropped : tuple of str, default=()
        Parameters that this model made up; they did not go along.
    is_confidential : bool, default=False
        Whether what it gave never leaves its contractor: transcripts, reasons and what is learned
        leave it out.
    began, ended : float >= 0, seconds, or None, default=None
        After the beginning of the execution; from the filling of its inputs to what came back, with
        the time in which a person was asked. None where nothing was done in this run of it.
    """

    api: str
    by: By
    inputs: Mapping[str, Any]
    result: CallResult
    attempts: int
    seconds: float
    filling: ModelCall | None = None
    dropped: tuple[str, ...] = ()
    is_confidential: bool = False
    began: float | None = None
    ended: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "api": self.api,
            "by": self.by,
            "inputs": dict(self.inputs),
            "attempts": self.attempts,
            "seconds": round(self.seconds, 6),
            "began": _rounded(self.began),
            "ended": _rounded(self.ended),
            "tokens": self.tokens,
            "dropped": list(self.dropped),
            "confidential": self.is_confidential,
            "result": self.result.to_dict(),
        }

    @property
    def tokens(self) -> int:
        """Tokens in and out of the model that filled the inputs."""
        return 0 if self.filling is None else self.filling.tokens_in + self.filling.tokens_out

    def __repr__(self) -> str:  # the inputs may hold what no log should
        return f"Act({self.api!r}, {self.by!r}, {self.result!r}, {self.attempts} attempts)"


@dataclass(slots=True)
class JobReport:
    """How a job ended.

    Parameters
    ----------
    id, task : str
    after : tuple of str
    state : JobState
    asked : int
        Contractors that were called for proposals; 0 for a directed contract.
    acts : list of Act
        In order; the last one is what it came to.
    problem : str
        Why it is not done, in words; empty if it is.
    is_resumed : bool
        Whether it had been done before the execution was continued, and was not done again.
    is_final : bool
        Whether it may go to nobody else: it was not approved, the right to it is missing, or
        nobody knows whether it was done.
    is_in_turns : bool
        Whether an agent chose its calls itself, one a turn.
    lost : str
        Why its contractor was called without manager or coordinator, in words; empty if it was not.
    category : str or None
        Of the job, where the router has a classifier.
    began, ended : float >= 0, seconds, or None
        After the beginning of the execution. None for a job that was not begun in this run of it:
        it was done before, or skipped.
    """

    id: str
    task: str
    after: tuple[str, ...] = ()
    state: JobState = "waiting"
    asked: int = 0
    acts: list[Act] = field(default_factory=list)
    problem: str = ""
    is_resumed: bool = False
    is_final: bool = False
    is_in_turns: bool = False
    lost: str = ""
    category: str | None = None
    began: float | None = None
    ended: float | None = None

    @property
    def result(self) -> CallResult | None:
        """What came back, if it is done."""
        return self.acts[-1].result if self.state == "done" and self.acts else None

    @property
    def api(self) -> str | None:
        """Who acted last."""
        return self.acts[-1].api if self.acts else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "id": self.id,
            "task": self.task,
            "after": list(self.after),
            "state": self.state,
            "asked": self.asked,
            "api": self.api,
            "acts": [act.to_dict() for act in self.acts],
            "problem": self.problem,
            "resumed": self.is_resumed,
            "lost": self.lost,
            "began": _rounded(self.began),
            "ended": _rounded(self.ended),
        }


class Reports(dict[str, JobReport]):
    """The reports of an execution on its way, by job; `watch` is told of each new state.

    The execution begins when they are made.
    """

    def __init__(self, watch: Callable[[JobEvent], object] | None = None) -> None:
        super().__init__()
        self._watch = watch
        self._began = time.perf_counter()

    def now(self) -> float:
        """Return the seconds since the execution began."""
        return time.perf_counter() - self._began

    def add(self, job: str, act: Act, began: float) -> Act:
        """Add to a report the act that has just ended, with its times, and return it."""
        timed = replace(act, began=began, ended=self.now())
        self[job].acts.append(timed)
        return timed

    def enter(self, report: JobReport, state: JobState, api: str | None, text: str = "") -> None:
        """Say that a job has come into a state."""
        report.state = state
        if state in _ENDS and report.began is not None and report.ended is None:
            report.ended = self.now()
        if self._watch is None:
            return
        try:
            self._watch(JobEvent(report.id, state, api, text, report.asked))
        except Exception:  # who looks on stops no job
            _LOGGER.warning("watch raised an error at %r", report.id, exc_info=True)


@dataclass(frozen=True, repr=False)
class Execution:
    """What came of a request that was executed.

    Parameters
    ----------
    id : str
        Of this execution; the same when it is continued.
    request : str
    plan : Plan or None
        The jobs, as they were awarded or given; None if nothing was awarded.
    jobs : tuple of JobReport
        In the order of the plan.
    transcripts : tuple of Transcript
        Of the rounds that were held: one for the request, or one a job.
    seconds : float >= 0, seconds
    problem : str, default=""
        Why it was broken off or nothing was done, if so.
    n_before : int, default=0
        Calls that were made before it was continued.
    context_problem : str, default=""
        Why it went on without shared context, if so.
    failed : tuple of JobReport, default=()
        Jobs that failed and were planned anew; what was called for them is among the acts.
    unmet : tuple of str, default=()
        Rules that are not met, of what the jobs worked on.
    is_late : bool, default=False
        Whether it was broken off since the time of the settings was over.
    passed_over : tuple of str, default=()
        Where the router alone chose: what was awarded and not called, and parts of the request
        that nothing was called for, and why.

    Examples
    --------
    >>> from cnp_router.execution import Job
    >>> plan = Plan("What time is it?", (Job("now", "the time"),))
    >>> report = JobReport("now", "the time", state="failed", problem="nobody proposed")
    >>> execution = Execution("a1", plan.request, plan, (report,), (), 0.2)
    >>> execution.is_done, execution.counts
    (False, {'failed': 1})
    """

    id: str
    request: str
    plan: Plan | None
    jobs: tuple[JobReport, ...]
    transcripts: tuple[Transcript, ...]
    seconds: float
    problem: str = ""
    n_before: int = 0
    context_problem: str = ""
    failed: tuple[JobReport, ...] = ()
    unmet: tuple[str, ...] = ()
    is_late: bool = False
    passed_over: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether there was a job, all are done, and no rule is left that is not met."""
        is_done = bool(self.jobs) and all(job.state == "done" for job in self.jobs)
        return is_done and not self.unmet

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs ended in each state."""
        states = [job.state for job in self.jobs]
        return {state: states.count(state) for state in dict.fromkeys(states)}

    @property
    def results(self) -> dict[str, CallResult]:
        """The results of the jobs that are done."""
        return {job.id: job.result for job in self.jobs if job.result is not None}

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that did what was asked, each once."""
        return tuple(dict.fromkeys(job.api for job in self.jobs if job.result and job.api))

    @property
    def acts(self) -> list[Act]:
        """What contractors did, job by job; first for those that were planned anew."""
        return [act for job in (*self.failed, *self.jobs) for act in job.acts]

    @property
    def n_calls(self) -> int:
        """Calls that were made, not counting those before it was continued."""
        return sum(act.attempts for act in self.acts)

    @property
    def n_recalled(self) -> int:
        """Calls that were not made, since shared context knew what they give."""
        return sum(act.by == "context" for act in self.acts)

    @property
    def n_retries(self) -> int:
        """How many of them were repeated."""
        return sum(max(act.attempts - 1, 0) for act in self.acts)

    @property
    def n_avoided(self) -> int:
        """Calls that were not made, since what they give was known."""
        return sum(act.by in ("earlier", "context") for act in self.acts)

    @property
    def model_calls(self) -> list[ModelCall]:
        """What models were asked: in the rounds, and to fill inputs."""
        rounds = [call for transcript in self.transcripts for call in transcript.calls]
        return rounds + [act.filling for act in self.acts if act.filling is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, without the transcripts."""
        acts, plan = self.acts, self.plan
        paid = Ledger.of([], self.model_calls)
        return {
            "id": self.id,
            "request": self.request,
            "done": self.is_done,
            "problem": self.problem,
            "passed_over": list(self.passed_over),
            "levels": [[job.id for job in level] for level in plan.levels] if plan else [],
            "parallelism": plan.parallelism if plan else 0,
            "jobs": [job.to_dict() for job in self.jobs],
            "calls": self.n_calls,
            "retries": self.n_retries,
            "avoided": self.n_avoided,
            "recalled": self.n_recalled,
            "context_problem": self.context_problem,
            "bytes": sum(act.result.n_bytes for act in acts),
            "tokens_of_inputs": sum(act.tokens for act in acts),
            "rounds": [transcript.ledger.to_dict() for transcript in self.transcripts],
            "tokens_by_role": _tokens(paid.by_role),
            "tokens_by_model": _tokens(paid.by_model),
            "tokens_are": paid.usage.source,
            "seconds": round(self.seconds, 6),
        }

    def __repr__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        return f"Execution({len(self.jobs)} jobs: {states or 'none'}, {self.seconds:.1f} s)"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _tokens(costs: Mapping[str, Cost]) -> dict[str, dict[str, int]]:
    return {
        name: {"tokens_in": cost.tokens_in, "tokens_out": cost.tokens_out}
        for name, cost in costs.items()
    }
