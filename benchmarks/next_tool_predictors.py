"""Predictors that note what they answer, or learn no more: what the plots need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnp_router.prediction import Context, NextTool, NextToolPredictor, State
from cnp_router.trajectories import Step, Trajectory

__all__ = ["Frozen", "Recorded", "ReliabilityBin"]

_BINS = 15


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Answers whose confidence is in the same equal-width bin of [0, 1].

    Parameters
    ----------
    n : int >= 1
    confidence : float in [0, 1]
        Mean of them.
    accuracy : float in [0, 1]
    """

    n: int
    confidence: float
    accuracy: float


class _Wrapped(NextToolPredictor):
    """Hands everything on to another predictor."""

    def __init__(self, inner: NextToolPredictor) -> None:
        self.inner = inner
        self.name = inner.name

    def predict_next(
        self, prefix: Sequence[Step | str], context: Context | None = None
    ) -> NextTool:
        return self.inner.predict_next(prefix, context)

    def observe_step(self, *lesson: Any, **options: Any) -> None:
        self.inner.observe_step(*lesson, **options)

    def end_trajectory(self) -> None:
        self.inner.end_trajectory()

    def observe(self, trajectory: Trajectory) -> None:
        self.inner.observe(trajectory)

    def state(self) -> State:
        return self.inner.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.inner.restore(state)


class Frozen(_Wrapped):
    """Learns from whole trajectories, and nothing while one is replayed."""

    def observe_step(self, *lesson: Any, **options: Any) -> None:
        """Learn nothing."""

    def end_trajectory(self) -> None:
        """Count nothing."""


class Recorded(_Wrapped):
    """Notes the confidence of each answer of a replay, and whether it was right."""

    def __init__(self, inner: NextToolPredictor) -> None:
        super().__init__(inner)
        self._said = NextTool(None, 0.0, (), inner.name)
        self._confidence: list[float] = []
        self._right: list[bool] = []

    def predict_next(
        self, prefix: Sequence[Step | str], context: Context | None = None
    ) -> NextTool:
        """Note the answer; `observe_step` says what came."""
        self._said = super().predict_next(prefix, context)
        return self._said

    def observe_step(self, *lesson: Any, **options: Any) -> None:
        """Note whether the answer was right, and learn."""
        _, step, *_ = lesson
        self._confidence.append(self._said.confidence)
        self._right.append(self._said.tool == step.tool)
        super().observe_step(*lesson, **options)

    def reliability(self) -> tuple[ReliabilityBin, ...]:
        """Return the bins that hold an answer, by rising confidence.

        They are those of `ece`: the mean distance of confidence and
        accuracy, weighted by `n`, is that error.
        """
        confidence = np.array(self._confidence, dtype=float)
        right = np.array(self._right, dtype=float)
        bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
        return tuple(
            ReliabilityBin(
                int((bins == number).sum()),
                float(confidence[bins == number].mean()),
                float(right[bins == number].mean()),
            )
            for number in np.unique(bins)
        )
