"""What all predictors share: an answer from raw probabilities, calibrated as it learns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cnp_router.exceptions import InputError
from cnp_router.prediction.base import (
    Candidate,
    Context,
    NextTool,
    NextToolPredictor,
    as_context,
    as_steps,
    check_weight,
)
from cnp_router.prediction.calibration import Calibrator
from cnp_router.prediction.priors import Priors, checked_priors
from cnp_router.trajectories import Step

__all__ = ["CalibratedPredictor", "Fading", "Judgement", "readable_state"]

_MOST_CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Judgement:
    """Raw probabilities of the next tool.

    Parameters
    ----------
    ranked : list of (tool, probability)
        Most probable first, ties by id; the sum is at most 1.
    """

    ranked: list[tuple[str, float]]

    @property
    def confidence(self) -> float:
        """The highest raw probability, 0 without any."""
        return self.ranked[0][1] if self.ranked else 0.0


@dataclass(frozen=True, slots=True)
class Fading:
    """How what was learned fades: counts are multiplied by `factor` every `window` trajectories.

    Parameters
    ----------
    factor : float in (0, 1], default=0.95
    window : int >= 1, default=1000

    Raises
    ------
    InputError
        If one is out of range.

    References
    ----------
    AutoTool (AAAI 2026), for both defaults.
    """

    factor: float = 0.95
    window: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.factor <= 1:
            raise InputError(f"factor must be in (0, 1], got {self.factor!r}")
        if self.window < 1:
            raise InputError(f"window must be at least 1, got {self.window!r}")


JudgementT = TypeVar("JudgementT", bound=Judgement)


class CalibratedPredictor(NextToolPredictor, Generic[JudgementT]):
    """A predictor that judges and learns; the calibration and the answer are made here.

    Parameters
    ----------
    fading : Fading, default=Fading()
    priors : mapping of tool to mapping of tool to float > 0, optional
        Transitions believed in beforehand, in observations.
    """

    def __init__(self, *, fading: Fading | None = None, priors: Priors | None = None) -> None:
        self.fading = fading or Fading()
        self.priors = checked_priors(priors)
        self.n_trajectories = 0
        self._calibrator = Calibrator()

    def predict_next(
        self, prefix: Sequence[Step | str], context: Context | None = None
    ) -> NextTool:
        """Foretell the next tool; see `NextToolPredictor`."""
        judgement = self._judge(as_steps(prefix), as_context(context))
        if not judgement.ranked:
            return NextTool(None, 0.0, (), self.name)
        raw = judgement.confidence
        confidence = self._calibrator.calibrate(raw)
        # The others share what the first one leaves, and none of them overtakes it.
        scale = (1.0 - confidence) / (1.0 - raw) if raw < 1.0 else 0.0
        shares = [min(p * scale, confidence) for _, p in judgement.ranked[1:_MOST_CANDIDATES]]
        tools = [tool for tool, _ in judgement.ranked]
        candidates = [Candidate(tools[0], confidence)]
        candidates += [Candidate(t, p) for t, p in zip(tools[1:], shares, strict=False) if p > 0]
        return NextTool(tools[0], confidence, tuple(candidates), self.name)

    def observe_step(
        self,
        prefix: Sequence[Step | str],
        step: Step | str,
        context: Context | None = None,
        *,
        weight: float = 1.0,
    ) -> None:
        """Learn that `step` came next; see `NextToolPredictor`."""
        check_weight(weight)
        steps, tool, known = as_steps(prefix), as_steps([step])[0].tool, as_context(context)
        if weight == 0.0:
            return
        judgement = self._judge(steps, known)
        if judgement.ranked:
            self._calibrator.observe(judgement.confidence, right=judgement.ranked[0][0] == tool)
        self._learn(judgement, tool, weight)

    def end_trajectory(self) -> None:
        """Count one more trajectory, and let what was learned fade when the window is full."""
        self.n_trajectories += 1
        if self.n_trajectories % self.fading.window == 0 and self.fading.factor < 1:
            self._fade(self.fading.factor)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; see `NextToolPredictor`."""
        with readable_state(self.name, state):
            self._restore(state)

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take over what was learned, all or nothing; any error says that it is broken."""

    @abstractmethod
    def _judge(self, steps: list[Step], context: Context) -> JudgementT:
        """Return the raw probabilities. Changes nothing."""

    @abstractmethod
    def _learn(self, judgement: JudgementT, tool: str, weight: float) -> None:
        """Learn that `tool` came where `judgement` was made."""

    @abstractmethod
    def _fade(self, factor: float) -> None:
        """Multiply the counts by `factor`."""


@contextmanager
def readable_state(kind: str, state: Mapping[str, Any]) -> Iterator[None]:
    """Check that `state` is of this kind; what breaks while it is read becomes an InputError."""
    if not isinstance(state, Mapping) or state.get("kind") != kind:
        came = state.get("kind") if isinstance(state, Mapping) else state
        raise InputError(f"no state of a {kind!r} predictor, got {came!r} (give what state() gave)")
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        if isinstance(exc, InputError):
            raise
        raise InputError(
            f"the state of a {kind!r} predictor is broken: {exc!r} (give what state() gave)"
        ) from exc
