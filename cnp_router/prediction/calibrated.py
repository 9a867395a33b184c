"""`CalibratedPredictor`: what all predictors share that judge by counts; calibrated as they learn.

A predictor of its own gives a name and five methods: `_judge`, `_learn`, `_decay`, `_learned` and
`_take_over`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cnp_router.exceptions import InputError
from cnp_router.prediction.calibration import Calibrator
from cnp_router.prediction.predictor import (
    Candidate,
    Context,
    NextTool,
    NextToolPredictor,
    State,
    as_context,
    as_steps,
    check_weight,
    readable_state,
)
from cnp_router.records import check_id
from cnp_router.trajectories import Step

__all__ = ["AlwaysAsk", "CalibratedPredictor", "Decay", "Judgement", "Priors"]

Priors = Mapping[str, Mapping[str, float]]
"""Tool, then tool that follows it, to how many observations the belief is worth."""

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


@dataclass(frozen=True, slots=True)
class Decay:
    """How what was learned decays: counts are multiplied by `factor` every `window` trajectories.

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
    decay : Decay, default=Decay()
    priors : mapping of tool to mapping of tool to float > 0, optional
        Transitions believed in beforehand, in observations.

    Raises
    ------
    InputError
        If an id is blank, or a weight is not finite and above 0.
    """

    def __init__(self, *, decay: Decay | None = None, priors: Priors | None = None) -> None:
        self.decay = decay or Decay()
        self.priors = _checked(priors or {})
        self.n_trajectories = 0
        self._calibrator = Calibrator()

    def predict_next(
        self, prefix: Sequence[Step | str], context: Context | None = None
    ) -> NextTool:
        """Predict the next tool; see `NextToolPredictor`."""
        ranked = self._judge(as_steps(prefix), as_context(context)).ranked
        if not ranked:
            return NextTool(None, 0.0, (), self.name)
        tool, raw = ranked[0]
        confidence = self._calibrator.calibrate(raw)
        # The others share what the first one leaves, and none of them overtakes it.
        scale = (1.0 - confidence) / (1.0 - raw) if raw < 1.0 else 0.0
        others = ((t, min(p * scale, confidence)) for t, p in ranked[1:_MOST_CANDIDATES])
        candidates = (Candidate(tool, confidence), *(Candidate(t, p) for t, p in others if p > 0))
        return NextTool(tool, confidence, candidates, self.name)

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
            first, raw = judgement.ranked[0]
            self._calibrator.observe(raw, right=first == tool)
        self._learn(judgement, tool, weight)

    def end_trajectory(self) -> None:
        """Count one more trajectory, and let what was learned decay when the window is full."""
        self.n_trajectories += 1
        if self.n_trajectories % self.decay.window == 0 and self.decay.factor < 1:
            self._decay(self.decay.factor)

    def state(self) -> State:
        """Return all it has learned; see `NextToolPredictor`."""
        return {
            "kind": self.name,
            "priors": {tool: dict(followers) for tool, followers in self.priors.items()},
            "n_trajectories": self.n_trajectories,
            "calibrator": self._calibrator.state(),
            **self._learned(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; see `NextToolPredictor`."""
        with readable_state(self.name, state):
            priors, n_trajectories = _checked(state["priors"]), int(state["n_trajectories"])
            calibrator = Calibrator.from_state(state["calibrator"])
            if self.priors and self.priors != priors:
                raise InputError(
                    f"what was learned began with the priors {_shown(priors)}, got "
                    f"{_shown(self.priors)} (give the same ones or none, or observe again in a "
                    "new file)"
                )
            self._take_over(state)
        self.priors, self.n_trajectories, self._calibrator = priors, n_trajectories, calibrator

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_trajectories:,} trajectories)"

    def _prior_transitions(self) -> Iterator[tuple[str, str, float]]:
        """Yield tool, follower and weight of each prior."""
        for tool, followers in self.priors.items():
            yield from ((tool, follower, weight) for follower, weight in followers.items())

    @abstractmethod
    def _judge(self, steps: list[Step], context: Context) -> JudgementT:
        """Return the raw probabilities. Changes nothing."""

    @abstractmethod
    def _learn(self, judgement: JudgementT, tool: str, weight: float) -> None:
        """Learn that `tool` came where `judgement` was made."""

    @abstractmethod
    def _decay(self, factor: float) -> None:
        """Multiply the counts by `factor`."""

    @abstractmethod
    def _learned(self) -> State:
        """Return a copy of what it has learned itself."""

    @abstractmethod
    def _take_over(self, state: Mapping[str, Any]) -> None:
        """Take over what `_learned` gave, all or nothing; any error says that it is broken."""


class AlwaysAsk(CalibratedPredictor[Judgement]):
    """Predicts nothing, so that the model is always asked: what the others are compared with.

    Examples
    --------
    >>> AlwaysAsk().predict_next(["weather"])
    NextTool(None, confidence=0.00, source='always-ask')
    """

    name = "always-ask"

    def _judge(self, steps: list[Step], context: Context) -> Judgement:
        return Judgement([])

    def _learn(self, judgement: Judgement, tool: str, weight: float) -> None:
        pass

    def _decay(self, factor: float) -> None:
        pass

    def _learned(self) -> State:
        return {}

    def _take_over(self, state: Mapping[str, Any]) -> None:
        pass


def _checked(priors: Priors) -> dict[str, dict[str, float]]:
    """Return a copy of the priors, without tools that nothing follows."""
    checked: dict[str, dict[str, float]] = {}
    for tool, followers in priors.items():
        check_id("tool", tool)
        for follower, weight in followers.items():
            check_id("tool", follower)
            if not (math.isfinite(weight) and weight > 0):
                raise InputError(
                    f"a prior must be finite and above 0, got {weight!r} ({tool!r} to {follower!r})"
                )
            checked.setdefault(tool, {})[follower] = float(weight)
    return checked


def _shown(priors: Priors) -> str:
    text = repr(priors) if priors else "none"
    return text if len(text) <= 60 else text[:57] + "..."
