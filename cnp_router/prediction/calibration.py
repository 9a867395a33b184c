"""`Calibrator`: how often a confidence is right, learned without looking ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnp_router.exceptions import InputError

__all__ = ["Calibrator"]

_BINS = 20
_PRIOR = 5.0
_DECAY = 0.97


class Calibrator:
    """Turns a confidence into how often such a confidence was right, learning as it goes.

    Evenly spaced knots over [0, 1] each keep a decaying count of how often the prediction was
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
        self._counts = [0.0] * _BINS
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
            decay = _DECAY**weight
            self._counts[knot] = self._counts[knot] * decay + weight
            self._right[knot] = self._right[knot] * decay + weight * right
        self._rates = self._rising_rates()

    def state(self) -> dict[str, list[float]]:
        """Return what it has learned as JSON values."""
        return {"counts": list(self._counts), "right": list(self._right)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Calibrator:
        """Return the calibrator whose `state` this is; InputError if it is not one."""
        calibrator = cls()
        try:
            counts = [float(value) for value in state["counts"]]
            right = [float(value) for value in state["right"]]
        except (KeyError, TypeError, ValueError) as exc:
            problem = f"not a state of a calibrator: {exc!r} (give what state() gave)"
            raise InputError(problem) from exc
        good = len(counts) == len(right) == _BINS
        if not good or not all(0 <= r <= n for r, n in zip(right, counts, strict=True)):
            raise InputError(
                "not a state of a calibrator: counts do not fit (give what state() gave)"
            )
        calibrator._counts, calibrator._right = counts, right
        calibrator._rates = calibrator._rising_rates()
        return calibrator

    def _rising_rates(self) -> list[float]:
        blocks: list[list[float]] = []  # rate, weight, number of knots
        for knot, count, right in zip(self._knots, self._counts, self._right, strict=True):
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
    place = min(max(confidence * _BINS - 0.5, 0.0), _BINS - 1.0)
    below = min(int(place), _BINS - 2)
    return below, place - below
