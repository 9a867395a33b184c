"""What observed requests say of how probable a router's answers should have been."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.linear import Evidence, Gaussian, sigmoid
from cnp_router.training.parts import Part

__all__ = ["Recalibration"]

# Requests back at which one counts 1 / e: what is right changes as more is learned.
_HORIZON = 200.0
# What is known beforehand: that nothing has to be corrected, as some 25 requests would say it.
_BEFORE = Gaussian(np.zeros(1), np.ones(1), np.array([1.0, 0.0]), np.diag([60.0, 25.0]))
_LEAST = 1e-9  # what is less probable says nothing
_SLOPES = (0.2, 5.0)  # lowest and highest


@dataclass(frozen=True, eq=False)
class Recalibration(Part):
    """Probabilities after some feedback: their log-odds times a `slope`, plus an `intercept`.

    Online Platt scaling (Gupta and Ramdas, "Online Platt scaling with calibeating", 2023): a
    logistic regression of what was used on the log-odds that it had been given, of which the last
    requests count most. It changes no order.
    """

    evidence: Evidence = field(default_factory=lambda: Evidence.none(2))
    slope: float = 1.0
    intercept: float = 0.0

    def of(self, probabilities: NDArray[Any]) -> NDArray[Any]:
        """Return corrected probabilities; 0 and 1 stay as they are."""
        if not self.evidence.n:
            return probabilities
        with np.errstate(divide="ignore"):
            return sigmoid(self.slope * _log_odds(probabilities) + self.intercept)

    def observed(
        self, given: Sequence[NDArray[Any]], labels: Sequence[NDArray[np.bool_]]
    ) -> Recalibration:
        """Return it after some requests, of which it became known what they used.

        `given` are the uncorrected probabilities of the candidates of each, before anything was
        learned of it, and `labels` say which of them it used.
        """
        p, used = np.concatenate(given), np.concatenate(labels)
        told = (p > _LEAST) & (p < 1 - _LEAST)
        if not told.any():
            return self
        before = self.evidence.faded(math.exp(-len(given) / _HORIZON))
        rows = _log_odds(p[told])[:, None]
        evidence = before.with_rows(_BEFORE, rows, used[told], len(given))
        found = evidence.posterior(_BEFORE)
        free, intercept = found.mean.tolist()
        slope = min(max(free, _SLOPES[0]), _SLOPES[1])
        # Where it is at an end, the intercept is the most probable one beside that slope.
        intercept -= float(found.precision[1, 0] / found.precision[1, 1]) * (slope - free)
        return replace(self, evidence=evidence, slope=slope, intercept=intercept)


def _log_odds(p: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.log(p) - np.log1p(-p))
