"""Calibration that never looks ahead, and the measures of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cnp_router.exceptions import InputError

__all__ = ["Calibrator", "RiskCoverage", "expected_calibration_error", "risk_coverage"]

_BINS = 20
_PRIOR = 5.0
_MEMORY = 0.97


class Calibrator:
    """Turns a confidence into how often such a confidence was right, learning as it goes.

    Evenly spaced knots over [0, 1] each keep a faded count of how often the prediction was
    right. A prior says that the confidence is right as it is, with the weight of a few
    observations. The rates are made to rise (pool adjacent violators), and what lies between
    two knots is interpolated.

    References
    ----------
    Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability
    estimates", KDD 2002, for the isotonic fit.

    Examples
    --------
    >>> calibrator = Calibrator()
    >>> for _ in range(100):
    ...     calibrator.observe(0.9, right=False)
    >>> calibrator.calibrate(0.9) < 0.4
    True
    """

    def __init__(self) -> None:
        self._knots = [(i + 0.5) / _BINS for i in range(_BINS)]
        self._seen = [0.0] * _BINS
        self._right = [0.0] * _BINS
        self._rates = list(self._knots)

    def calibrate(self, confidence: float) -> float:
        """Return the calibrated confidence, in [0, 1]; it never falls as `confidence` rises."""
        below, share = _between(confidence)
        knots, rates = self._knots, self._rates
        low, high = rates[below] - knots[below], rates[below + 1] - knots[below + 1]
        return min(max(confidence + (1 - share) * low + share * high, 0.0), 1.0)

    def observe(self, confidence: float, *, right: bool) -> None:
        """Learn that a prediction of that confidence was right or wrong."""
        below, share = _between(confidence)
        for knot, weight in ((below, 1 - share), (below + 1, share)):
            kept = _MEMORY**weight
            self._seen[knot] = self._seen[knot] * kept + weight
            self._right[knot] = self._right[knot] * kept + weight * right
        self._rates = self._rising_rates()

    def state(self) -> dict[str, list[float]]:
        """Return what it has learned as JSON values."""
        return {"seen": list(self._seen), "right": list(self._right)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Calibrator:
        """Return the calibrator whose `state` this is.

        Raises
        ------
        InputError
            If it is not one.
        """
        calibrator = cls()
        try:
            seen = [float(value) for value in state["seen"]]
            right = [float(value) for value in state["right"]]
        except (KeyError, TypeError, ValueError) as exc:
            raise InputError(f"no state of a calibrator: {exc!r} (give what state() gave)") from exc
        good = len(seen) == len(right) == _BINS
        if not good or not all(0 <= r <= s for r, s in zip(right, seen, strict=True)):
            raise InputError("no state of a calibrator: counts do not fit (give what state() gave)")
        calibrator._seen, calibrator._right = seen, right
        calibrator._rates = calibrator._rising_rates()
        return calibrator

    def _rising_rates(self) -> list[float]:
        blocks: list[list[float]] = []  # rate, weight, number of knots
        for knot, seen, right in zip(self._knots, self._seen, self._right, strict=True):
            weight = seen + _PRIOR
            blocks.append([(right + _PRIOR * knot) / weight, weight, 1])
            while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
                rate, weight, n = blocks.pop()
                last = blocks[-1]
                last[0] = (last[0] * last[1] + rate * weight) / (last[1] + weight)
                last[1] += weight
                last[2] += n
        return [rate for rate, _, n in blocks for _ in range(int(n))]


def expected_calibration_error(
    confidences: ArrayLike, right: ArrayLike, *, n_bins: int = 15
) -> float:
    """Return the mean distance of confidence and accuracy over equal-width bins.

    Parameters
    ----------
    confidences : array-like of shape (n,), in [0, 1]
    right : array-like of bool, shape (n,)
    n_bins : int >= 1, default=15

    Returns
    -------
    float in [0, 1]
        0 if there is nothing to measure.

    References
    ----------
    Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
    binning", AAAI 2015.

    Examples
    --------
    >>> round(expected_calibration_error([0.9, 0.9, 0.2], [True, False, False]), 6)
    0.333333
    """
    claimed, came = np.asarray(confidences, dtype=float), np.asarray(right, dtype=float)
    if not claimed.size:
        return 0.0
    bins = np.minimum((claimed * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, claimed - came, minlength=n_bins)
    return float(np.abs(gaps).sum() / claimed.size)


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """One point of the curve: the most confident predictions, and how often they are wrong.

    Parameters
    ----------
    threshold : float in [0, 1]
        The lowest confidence among them.
    coverage : float in [0, 1]
        Their share of all steps.
    risk : float in [0, 1]
        The share of them that is wrong.
    """

    threshold: float
    coverage: float
    risk: float


def risk_coverage(
    confidences: ArrayLike, right: ArrayLike, *, n_points: int = 50
) -> tuple[RiskCoverage, ...]:
    """Return the risk-coverage curve, by rising coverage.

    Parameters
    ----------
    confidences : array-like of shape (n,), in [0, 1]
    right : array-like of bool, shape (n,)
    n_points : int >= 1, default=50
        At most so many points. Equal confidences are covered together or not at all.

    References
    ----------
    El-Yaniv and Wiener, "On the foundations of noise-free selective classification", JMLR 11,
    2010.

    Examples
    --------
    >>> [(p.coverage, p.risk) for p in risk_coverage([0.9, 0.5], [True, False])]
    [(0.5, 0.0), (1.0, 0.5)]
    """
    claimed, came = np.asarray(confidences, dtype=float), np.asarray(right, dtype=float)
    if not claimed.size:
        return ()
    order = np.argsort(-claimed, kind="stable")
    claimed, hits = claimed[order], np.cumsum(came[order])
    ends = np.flatnonzero(np.append(claimed[:-1] > claimed[1:], True))
    chosen = np.unique(np.round(np.linspace(0, len(ends) - 1, n_points)).astype(int))
    return tuple(
        RiskCoverage(
            float(claimed[end]),
            (int(end) + 1) / claimed.size,
            1.0 - float(hits[end]) / (int(end) + 1),
        )
        for end in ends[chosen]
    )


def _between(confidence: float) -> tuple[int, float]:
    place = min(max(confidence * _BINS - 0.5, 0.0), _BINS - 1.0)
    below = min(int(place), _BINS - 2)
    return below, place - below
