"""`NextToolPredictor`: which tool an agent will call next, and how sure that is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from cnp_router.exceptions import InputError
from cnp_router.trajectories import Step, Trajectory

__all__ = [
    "Candidate",
    "Context",
    "NextTool",
    "NextToolPredictor",
    "State",
    "as_context",
    "as_steps",
]

State: TypeAlias = dict[str, Any]
"""What a predictor knows: JSON values, and numpy arrays directly under their names."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the caller knows besides the steps.

    Parameters
    ----------
    goal : str, default=""
        What the agent is to reach, in plain language.

    Raises
    ------
    InputError
        If the goal is no string.

    Examples
    --------
    >>> Context("Warn me of rain.").goal
    'Warn me of rain.'
    """

    goal: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.goal, str):
            raise InputError(f"goal must be a string, got {self.goal!r} (leave it out, or give it)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool that may come next.

    Parameters
    ----------
    tool : str
    probability : float in [0, 1]
    """

    tool: str
    probability: float


@dataclass(frozen=True, slots=True)
class NextTool:
    """The foretold tool.

    Parameters
    ----------
    tool : str or None
        The most probable one; None if nothing is known.
    confidence : float in [0, 1]
        Calibrated probability that `tool` is right; what a threshold is compared with.
    candidates : tuple of Candidate
        Most probable first, ties by id; the probabilities sum to at most 1.
    source : str
        Who foretold it: the name of the predictor, or of whom it asked.

    Examples
    --------
    >>> NextTool("sms", 0.8, (Candidate("sms", 0.8), Candidate("mail", 0.1)), "context").tool
    'sms'
    """

    tool: str | None
    confidence: float
    candidates: tuple[Candidate, ...]
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        record = asdict(self)
        record["candidates"] = list(record["candidates"])
        return record


class NextToolPredictor(ABC):
    """Foretells the next tool from the steps so far, and learns from what came.

    Not thread-safe: the caller locks.

    Attributes
    ----------
    name : str
        The `source` of its answers.
    """

    name: str

    @abstractmethod
    def predict_next(
        self, prefix: Sequence[Step | str], context: Context | None = None
    ) -> NextTool:
        """Foretell the tool that follows `prefix`. Changes nothing.

        Parameters
        ----------
        prefix : sequence of Step or str
            The steps so far, in order, possibly none. A bare tool id is a step of which nothing
            else is known. Tools never seen are no error.
        context : Context, optional

        Returns
        -------
        NextTool
            With tool None and confidence 0 if nothing was learned.

        Raises
        ------
        InputError
            If `prefix` is one bare string or no sequence, or holds something else, or `context`
            is no Context.
        """

    @abstractmethod
    def observe_step(
        self,
        prefix: Sequence[Step | str],
        step: Step | str,
        context: Context | None = None,
        *,
        weight: float = 1.0,
    ) -> None:
        """Learn, at once, that `step` followed `prefix`.

        Parameters
        ----------
        prefix : sequence of Step or str
        step : Step or str
            What came. Only its tool is learned now; the rest counts as it becomes part of the
            prefix.
        context : Context, optional
        weight : float in [0, 1], default=1.0
            How much it counts. With 0 nothing is reinforced.

        Raises
        ------
        InputError
            As `predict_next`, or if `weight` is out of range.
        """

    @abstractmethod
    def end_trajectory(self) -> None:
        """Count one more trajectory: every so many of them, what was learned fades."""

    def observe(self, trajectory: Trajectory) -> None:
        """Learn from a finished trajectory: every step, then its end.

        Failed steps (``success`` false), and all steps of a failed trajectory, are not
        reinforced: they count with weight 0.

        Parameters
        ----------
        trajectory : Trajectory
        """
        context = Context(trajectory.goal)
        for place, step in enumerate(trajectory.steps):
            failed = trajectory.success is False or step.success is False
            weight = 0.0 if failed else 1.0
            self.observe_step(trajectory.steps[:place], step, context, weight=weight)
        self.end_trajectory()

    @abstractmethod
    def state(self) -> State:
        """Return all it has learned and its parameters, for `restore` and `from_state`.

        Returns
        -------
        dict
            JSON values, and numpy arrays (no objects in them) directly under their names. A
            copy: learning on does not change it.
        """

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what another one had learned, in place of what this one has.

        Its own parameters stay. Priors are in what was learned, and are not added again.

        Raises
        ------
        InputError
            If the state is not one of this predictor, or cannot be used with its parameters.
            Nothing is changed then.
        """

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any]) -> NextToolPredictor:
        """Return a predictor with the parameters and all else of the one whose `state` this is.

        Raises
        ------
        InputError
            If the state is not one of this predictor.
        """


def as_steps(prefix: Sequence[Step | str]) -> list[Step]:
    """Return the steps of a prefix; a bare tool id becomes a step with nothing else.

    Raises
    ------
    InputError
        If it is one bare string or no sequence, or holds something else than steps and tool ids.

    Examples
    --------
    >>> [step.tool for step in as_steps(["weather", Step("sms")])]
    ['weather', 'sms']
    """
    if isinstance(prefix, str):
        raise InputError(f"prefix must be several steps, got {prefix!r} (write [{prefix!r}])")
    if not isinstance(prefix, Iterable):
        raise InputError(
            f"prefix must be a sequence of steps and tool ids, got {prefix!r} "
            "(write [] where there is none)"
        )
    return [step if isinstance(step, Step) else _as_step(step) for step in prefix]


def as_context(context: Context | None) -> Context:
    """Return the context, an empty one for None.

    Raises
    ------
    InputError
        If it is something else.

    Examples
    --------
    >>> as_context(None)
    Context(goal='')
    """
    if context is None:
        return Context()
    if not isinstance(context, Context):
        cure = f"write Context({context!r})" if isinstance(context, str) else "give one, or None"
        raise InputError(f"context must be a Context, got {context!r} ({cure})")
    return context


def check_weight(weight: float) -> None:
    """Raise InputError unless `weight` is in [0, 1]."""
    if not (math.isfinite(weight) and 0 <= weight <= 1):
        raise InputError(f"weight must be in [0, 1], got {weight!r}")


def _as_step(step: object) -> Step:
    if not isinstance(step, str):
        raise InputError(f"a prefix holds steps and tool ids, got {step!r}")
    return Step(step)
