"""`CalibratedPredictor`: what all predictors share that judge by counts; calibrated as they learn.

A predictor of its own gives a name and five methods: `_judge`, `_learn`, `_decay`, `_learned` and
`_take_over`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.prediction.predictor import (
    Candidate,
    Context,
    NextTool,
    NextToolPredictor,
    State,
    as_context,
    as_steps,
    readable_state,
)
from cnp_router.records import check_id, check_number, shown
from cnp_router.trajectories import Step

__all__ = ["AlwaysAsk", "CalibratedPredictor", "Calibrator", "Decay", "Judgement", "Priors"]

Priors = Mapping[str, Mapping[str, float]]
"""Tool, then tool that follows it, to how many observations the belief is worth."""

_MOST_CANDIDATES = 10
_BINS = 20
_KNOTS = [(i + 0.5) / _BINS for i in range(_BINS)]
# What a confidence is worth beforehand, in observations, and what is left of an observation later.
_PRIOR = 5.0
_DECAY = 0.97


@dataclass(frozen=True, slots=True)
class Judgement:
    """Raw probabilities of the next tool, most probable first, ties by id; the sum is at most 1.

    `basis` is whatever `_learn` needs of how they came about.
    """

    ranked: list[tuple[str, float]]
    basis: Any = None


@dataclass(frozen=True, slots=True)
class Decay:
    """How what was learned decays: counts are multiplied by `factor` every `window` trajectories.

    `factor` is in (0, 1], `window` at least 1. Both defaults are those of AutoTool (AAAI 2026).
    """

    factor: float = 0.95
    window: int = 1000

    def __post_init__(self) -> None:
        if check_number("factor", self.factor, 0, 1) == 0:
            raise InputError("factor must be a number above 0, got 0 (1: nothing decays)")
        check_number("window", self.window, 1, whole=True)


class CalibratedPredictor(NextToolPredictor):
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
        weight = check_number("weight", weight, 0, 1)
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
                before = shown(priors) if priors else "none"
                raise InputError(
                    f"what was learned began with the priors {before}, got {shown(self.priors)} "
                    "(give the same ones or none, or observe again in a new file)"
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
    def _judge(self, steps: list[Step], context: Context) -> Judgement:
        """Return the raw probabilities. Changes nothing."""

    @abstractmethod
    def _learn(self, judgement: Judgement, tool: str, weight: float) -> None:
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


class AlwaysAsk(CalibratedPredictor):
    """Predicts nothing, so that the model is always asked: what the others are compared with."""

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


class Calibrator:
    """Turns a confidence into how often such a confidence was right, learning as it goes.

    Evenly spaced knots over [0, 1] each keep a decaying count of how often the prediction was
    right. A prior says that the confidence is right as it is. The rates are made to rise (pool
    adjacent violators; Zadrozny and Elkan, KDD 2002), and between two knots it is interpolated.
    """

    def __init__(self) -> None:
        self._counts = [0.0] * _BINS
        self._right = [0.0] * _BINS
        self._rates = _KNOTS

    def calibrate(self, confidence: float) -> float:
        """Return the calibrated confidence, in [0, 1]; it never falls as `confidence` rises."""
        below, share = _between(confidence)
        low, high = (self._rates[knot] - _KNOTS[knot] for knot in (below, below + 1))
        return min(max(confidence + (1 - share) * low + share * high, 0.0), 1.0)

    def observe(self, confidence: float, *, right: bool) -> None:
        """Learn that a prediction of that confidence was right or wrong."""
        below, share = _between(confidence)
        for knot, weight in ((below, 1 - share), (below + 1, share)):
            decay = _DECAY**weight
            self._counts[knot] = self._counts[knot] * decay + weight
            self._right[knot] = self._right[knot] * decay + weight * right
        self._rates = self._rising_rates()

    def state(self) -> dict[str, list[float]]:
        """Return what it has learned as JSON values."""
        return {"counts": list(self._counts), "right": list(self._right)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Calibrator:
        """Return the calibrator whose `state` this is; KeyError, TypeError or ValueError if not."""
        calibrator = cls()
        counts, right = ([float(n) for n in state[name]] for name in ("counts", "right"))
        fitting = len(counts) == len(right) == _BINS
        if not fitting or not all(0 <= r <= n for r, n in zip(right, counts, strict=True)):
            raise ValueError("the counts of the calibrator do not fit together")
        calibrator._counts, calibrator._right = counts, right
        calibrator._rates = calibrator._rising_rates()
        return calibrator

    def _rising_rates(self) -> list[float]:
        blocks: list[list[float]] = []  # rate, weight, number of knots
        for knot, count, right in zip(_KNOTS, self._counts, self._right, strict=True):
            weight = count + _PRIOR
            blocks.append([(right + _PRIOR * knot) / weight, weight, 1])
            while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
                rate, weight, n = blocks.pop()
                last = blocks[-1]
                last[0] = (last[0] * last[1] + rate * weight) / (last[1] + weight)
                last[1] += weight
                last[2] += n
        return [rate for rate, _, n in blocks for _ in range(int(n))]


def _between(confidence: float) -> tuple[int, float]:
    """Return the knot at or below a confidence, and how far it is on the way to the next."""
    place = min(max(confidence * _BINS - 0.5, 0.0), _BINS - 1.0)
    below = min(int(place), _BINS - 2)
    return below, place - below


def _checked(priors: Priors) -> dict[str, dict[str, float]]:
    """Return a copy of the priors, without tools that nothing follows."""
    checked: dict[str, dict[str, float]] = {}
    for tool, followers in priors.items():
        row = {
            check_id("tool", follower): check_number(
                f"the prior of {shown(tool)} to {shown(follower)}", weight, 0, ends=False
            )
            for follower, weight in followers.items()
        }
        if row:
            checked[check_id("tool", tool)] = row
    return checked
