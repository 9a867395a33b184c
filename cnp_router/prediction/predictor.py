"""`NextToolPredictor`: which tool an agent will call next, and how sure that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, TypeAlias, cast

from cnp_router.exceptions import InputError
from cnp_router.records import one_line, shown
from cnp_router.trajectories import Step, Trajectory

__all__ = [
    "Candidate",
    "Context",
    "NextTool",
    "NextToolPredictor",
    "State",
    "as_context",
    "as_steps",
    "lessons",
    "readable_state",
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
        If the goal is not a string.

    Examples
    --------
    >>> Context("Warn me of rain.").goal
    'Warn me of rain.'
    """

    goal: str = ""

    __repr__ = one_line

    def __post_init__(self) -> None:
        if not isinstance(self.goal, str):
            raise InputError(
                f"goal must be a string, got {shown(self.goal)} (leave it out, or give it)"
            )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool that may come next, with its probability in [0, 1]."""

    tool: str
    probability: float


@dataclass(frozen=True, slots=True, repr=False)
class NextTool:
    """The predicted tool.

    Parameters
    ----------
    tool : str or None
        The most probable one; None if nothing is known.
    confidence : float in [0, 1]
        Calibrated probability that `tool` is right; what a threshold is compared with.
    candidates : tuple of Candidate
        Most probable first, ties by id; the probabilities sum to at most 1.
    source : str
        Who predicted it: the name of the predictor, or of whom it asked.

    Examples
    --------
    >>> NextTool("sms", 0.8, (Candidate("sms", 0.8), Candidate("mail", 0.1)), "context")
    NextTool('sms', confidence=0.80, source='context')
    """

    tool: str | None
    confidence: float
    candidates: tuple[Candidate, ...]
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    def __repr__(self) -> str:
        facts = [repr(self.tool), f"confidence={self.confidence:.2f}", f"source={self.source!r}"]
        return f"{type(self).__name__}({', '.join([*facts, *self._more_facts()])})"

    def _repr_html_(self) -> str:
        rows = [("tool", "probability")]
        rows += [(c.tool, f"{c.probability:.3f}") for c in self.candidates]
        body = "".join(f"<tr><td>{escape(a)}</td><td>{b}</td></tr>" for a, b in rows)
        return f"<table><caption>{escape(repr(self))}</caption>{body}</table>"

    def _more_facts(self) -> Iterable[str]:
        return ()


class NextToolPredictor(ABC):
    """Predicts the next tool from the steps so far, and learns from what came.

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
        """Predict the tool that follows `prefix`. Changes nothing.

        Parameters
        ----------
        prefix : sequence of Step or str
            The steps so far, in order, possibly none. A bare tool id is a step of which nothing
            else is known. Tools that were never observed are allowed.
        context : Context, optional

        Returns
        -------
        NextTool
            With tool None and confidence 0 if nothing was learned.

        Raises
        ------
        InputError
            If `prefix` is one bare string or not a sequence, or holds something else, or
            `context` is not a Context.
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
        """Count one more trajectory: every so many of them, what was learned decays."""

    def observe(self, trajectory: Trajectory) -> None:
        """Learn from a finished trajectory: every step, then its end.

        Failed steps (``success`` false), and all steps of a failed trajectory, are not
        reinforced: they count with weight 0.
        """
        for prefix, step, context, weight in lessons(trajectory):
            self.observe_step(prefix, step, context, weight=weight)
        self.end_trajectory()

    @abstractmethod
    def state(self) -> State:
        """Return a copy of all it has learned, for `restore`; its parameters are not in it.

        JSON values, and numpy arrays (no objects in them) directly under their names.
        """

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what another one had learned, in place of what this one has.

        Its own parameters stay. Priors are in what was learned, and are not added again.
        InputError if the state is not one of this predictor, or cannot be used with its
        parameters; nothing is changed then.
        """


def lessons(
    trajectory: Trajectory, *, in_hindsight: bool = True
) -> Iterator[tuple[tuple[Step, ...], Step, Context, float]]:
    """Yield prefix, step, context and weight of each step; the weight is 0 if it failed.

    Whether the whole trajectory failed is known `in_hindsight` only.
    """
    context, lost = Context(trajectory.goal), in_hindsight and trajectory.success is False
    for place, step in enumerate(trajectory.steps):
        weight = 0.0 if lost or step.success is False else 1.0
        yield trajectory.steps[:place], step, context, weight


def as_steps(prefix: Sequence[Step | str]) -> list[Step]:
    """Return the steps of a prefix; a bare tool id becomes a step with nothing else."""
    if isinstance(prefix, str) or not isinstance(prefix, Iterable):
        cure = f"write [{prefix!r}]" if isinstance(prefix, str) else "write [] where there is none"
        raise InputError(f"prefix must be several steps and tool ids, got {shown(prefix)} ({cure})")
    given = list(prefix)
    if set(map(type, given)) <= {Step}:  # as it mostly is, and looked at once for each step
        return cast("list[Step]", given)
    steps = []
    for step in given:
        if not isinstance(step, Step | str):
            raise InputError(
                f"a prefix holds steps and tool ids, got {shown(step)} (write Step(...))"
            )
        steps.append(step if isinstance(step, Step) else Step(step))
    return steps


def as_context(context: Context | None) -> Context:
    """Return the context, an empty one for None; InputError if it is something else."""
    if context is None:
        return Context()
    if not isinstance(context, Context):
        cure = f"write Context({context!r})" if isinstance(context, str) else "give one, or None"
        raise InputError(f"context must be a Context, got {context!r} ({cure})")
    return context


@contextmanager
def readable_state(kind: str, state: Mapping[str, Any]) -> Iterator[None]:
    """Check that `state` is of this kind; what breaks while it is read becomes an InputError."""
    came = state.get("kind") if isinstance(state, Mapping) else state
    if came != kind:
        raise InputError(
            f"not a state of a {kind!r} predictor, got {came!r} (give what state() gave)"
        )
    try:
        yield
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise InputError(
            f"the state of a {kind!r} predictor is broken: {exc!r} (give what state() gave)"
        ) from exc
