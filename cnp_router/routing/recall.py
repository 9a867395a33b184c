"""The control that makes a target recall a promise: a threshold chosen on held-out requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing.head import TOLERANCE

__all__ = ["FEEDBACK_TARGET", "RecallControl"]

# Requests whose places in time differ by so much, in the logarithm of months, count 1 / e. Of these
# widths it is the first at which enough of them count, all together, to promise anything from.
_WIDTHS = (0.5, 1.0, 2.0, math.inf)
_ENOUGH = 20.0  # over one minus the target
_DIGITS = 1  # of that logarithm: thresholds in between are not told apart
_LEARNING_RATE = 0.2
_IMPOSSIBLE = 1e-9  # no probability that was learned is lower, but 0, nor higher than 1 less that
FEEDBACK_TARGET = 0.9


@dataclass(frozen=True, eq=False)  # == of arrays has no truth value
class RecallControl:
    """The threshold for a target recall, chosen on held-out requests by conformal risk control.

    A request's recipients are the APIs whose probability reaches a threshold. The loss, one minus
    recall, cannot grow as the threshold falls, so the highest one with
    ``(n * mean loss + 1) / (n + 1) <= 1 - target`` keeps the expected recall of a new exchangeable
    request at or above the target, for any sample size `n` (Angelopoulos, Bates, Fisch, Lei and
    Schuster, "Conformal Risk Control", 2022).

    Requests are not exchangeable where much is new to the router: those later than the history
    need more recipients. So held-out requests count by how like the new one they are in
    their time, and the guarantee becomes an approximate one (Barber, Candès, Ramdas and Tibshirani,
    "Conformal prediction beyond exchangeability", 2023). What happened moves the
    threshold, too: `adapted`.

    Parameters
    ----------
    needed : ndarray of shape (n_uses,), in [0, 1]
        For each API that a held-out request used, the probability that it was given; 0 where no
        threshold reaches it.
    request : ndarray of shape (n_uses,), int
        Which request used it.
    months : ndarray of shape (n_requests,)
        When each request was asked, in months after the end of the history that the router had
        then; negative before it.
    shift : float, default=0.0
        What is added to the log-odds of every threshold.
    is_promise : bool, default=True
        Whether the target is promised: not where some of the requests are made up, for want of
        past ones.
    slope, intercept : float, default=1.0 and 0.0
        How the log-odds of all probabilities have been corrected since: those of the threshold are,
        too.
    highest : float in (0, 1], default=1.0
        No threshold is above it. Where probabilities are calibrated, whom a request needs with more
        than one half is worth asking, though the promise would be kept without.

    Examples
    --------
    >>> control = RecallControl(np.array([0.8, 0.6, 0.1]), np.arange(3), np.zeros(3))
    >>> control.threshold(0.5)
    0.6
    >>> control.threshold(0.99)  # three requests cannot promise that: everyone is asked
    0.0
    """

    needed: NDArray[Any]
    request: NDArray[Any]
    months: NDArray[Any]
    shift: float = 0.0
    is_promise: bool = True
    slope: float = 1.0
    intercept: float = 0.0
    highest: float = 1.0

    def __repr__(self) -> str:
        return f"RecallControl({len(self.needed)} uses in {self.n_requests} requests)"

    @property
    def n_requests(self) -> int:
        """Number of held-out requests."""
        return len(self.months)

    def threshold(self, target: float, months: float = 0.0) -> float:
        """Return the highest threshold that keeps the promise, up to `highest`; 0 if none does.

        Parameters
        ----------
        target : float in (0, 1)
        months : float, default=0.0
            When the request is asked, in months after the end of the history.
        """
        return min(self._unbounded(target, months), self.highest)

    def _unbounded(self, target: float, months: float) -> float:
        found = self._unshifted(target, months)
        if (self.shift, self.slope, self.intercept) == (0, 1, 0) or not 0 < found < 1:
            return found
        odds = self.slope * (math.log(found / (1 - found)) + self.shift) + self.intercept
        share = math.exp(-abs(odds))  # which cannot overflow
        return 1 / (1 + share) if odds > 0 else share / (1 + share)

    def _unshifted(self, target: float, months: float) -> float:
        when = round(float(_logarithm(np.float64(months))), _DIGITS)
        if (target, when) not in self._thresholds:
            self._thresholds[target, when] = self._at(target, when)
        return self._thresholds[target, when]

    def _at(self, target: float, when: float) -> float:
        if not len(self.months):
            return 0.0
        apart = np.abs(_logarithm(self.months) - when)
        apart -= apart.min()  # of what is like none of them, the nearest count
        for width in _WIDTHS:
            likeness = np.exp(-apart / width)
            if likeness.sum() >= _ENOUGH / (1 - target):
                break
        each = likeness / np.maximum(np.bincount(self.request, minlength=self.n_requests), 1)
        order = self._descending
        total = likeness.sum()
        risk = (total - np.cumsum(each[self.request[order]]) + 1) / (total + 1)
        given = self.needed[order]
        enough = np.flatnonzero((risk <= 1 - target + 1e-12) & (given > 0))
        # Ties: a threshold lets in every API that is given as much.
        return float(given[enough[0]]) if len(enough) else 0.0

    @cached_property
    def _descending(self) -> NDArray[np.intp]:
        return np.argsort(-self.needed, kind="stable")

    @cached_property
    def _thresholds(self) -> dict[tuple[float, float], float]:
        return {}

    def adapted(self, given: Sequence[float] | NDArray[Any], months: float = 0.0) -> RecallControl:
        """Return the control after a request, of which it became known what it needed.

        Adaptive conformal inference: the log-odds of the threshold fall where it reached too few,
        and rise where it reached more than promised, so that in the long run the recall is kept
        whatever the drift (Gibbs and Candès, "Adaptive conformal inference under distribution
        shift", 2021). They stay where all are asked for a recall of .9 whatever the shift, as after
        few held-out requests. What was given a probability of 0 is missed by every threshold: it
        counts, until the threshold lets in all that is not impossible.

        Parameters
        ----------
        given : sequence of float in [0, 1], at least one
            The probability of each API that the request needed, before anything was learned of it.
        months : float, default=0.0
            As in `threshold`.

        Examples
        --------
        >>> control = RecallControl(np.full(20, 0.2), np.arange(20), np.zeros(20))
        >>> control.threshold(0.9)
        0.2
        >>> round(control.adapted([0.9, 0.1]).threshold(0.9), 3)
        0.188
        >>> round(control.adapted([0.9, 0.3]).threshold(0.9), 3)
        0.203
        """
        if not 0 < self._unshifted(FEEDBACK_TARGET, months) < 1:
            return self
        least = self.threshold(FEEDBACK_TARGET, months)
        recall = float(np.mean(np.asarray(given) >= least - TOLERANCE))
        step = _LEARNING_RATE * (recall - FEEDBACK_TARGET)
        most = min(self.highest, 1 - _IMPOSSIBLE)
        if (step < 0 and least <= _IMPOSSIBLE) or (step > 0 and least >= most):
            return self
        after = replace(self, shift=self.shift + step)
        after.__dict__.update(_descending=self._descending, _thresholds=self._thresholds)
        return after

    @classmethod
    def measured(
        cls, probabilities: Iterable[NDArray[Any]], used: Iterable[Sequence[int] | NDArray[Any]]
    ) -> RecallControl:
        """Measure on held-out requests that are all alike.

        Parameters
        ----------
        probabilities : iterable of ndarray of shape (n_apis,), in [0, 1]
            What the router gives to each request, without having learned from it.
        used : iterable of sequence of int
            Distinct positions of the APIs that each request turned out to need, at least
            one.

        Examples
        --------
        >>> probabilities = np.array([0.5, 0.3, 0.2])
        >>> control = RecallControl.measured([probabilities] * 9, [[0], [1, 2], [0]] * 3)
        >>> control.threshold(0.8)
        0.2
        """
        pairs = zip(probabilities, used, strict=True)
        given = [row[list(positions)] for row, positions in pairs]
        sizes = [len(own) for own in given]
        return cls(
            np.concatenate([np.empty(0), *given]),
            np.repeat(np.arange(len(given)), sizes),
            np.zeros(len(given)),
        )


def _logarithm(months: NDArray[Any] | np.float64) -> Any:
    """Return the logarithm of one plus the months, with the sign of the months."""
    return np.sign(months) * np.log1p(np.abs(months))
