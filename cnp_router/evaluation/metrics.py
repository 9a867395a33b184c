"""Every metric, once, in its standard definition; `RANKING` registers those of a ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cnp_router.exceptions import InputError
from cnp_router.records import check_number

__all__ = [
    "RANKING",
    "Ranking",
    "ReliabilityBin",
    "RiskCoverage",
    "SetScores",
    "brier",
    "ece",
    "means",
    "percentiles",
    "reliability",
    "risk_coverage",
    "rounded",
    "set_scores",
]

# pydantic checks it where scores are read from a file.
_Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class SetScores:
    """Precision, recall and F1 of a set, each in [0, 1]."""

    precision: _Share
    recall: _Share
    f1: _Share

    def to_dict(self) -> dict[str, float]:
        """Return ``precision recall f1``."""
        return asdict(self)


def set_scores(predicted: Collection[Hashable], used: Collection[Hashable]) -> SetScores:
    """Return precision, recall and F1 of what was predicted, as a set.

    All three are 0 where nothing was predicted; that nothing was used is an InputError.

    Examples
    --------
    >>> set_scores(["maps", "sms", "mail"], ["sms", "weather"])
    SetScores(precision=0.3333333333333333, recall=0.5, f1=0.4)
    """
    truth, answer = _truth(used), set(predicted)
    hits = len(truth & answer)
    return SetScores(
        precision=hits / len(answer) if answer else 0.0,
        recall=hits / len(truth),
        f1=2 * hits / (len(answer) + len(truth)),
    )


class Ranking:
    """What was ranked for one request, and the metrics of its first `k`, each in [0, 1].

    Parameters
    ----------
    ranked : sequence of distinct items
        Best first; may be shorter than a `k`.
    used : collection
        At least one, or it is an InputError, as is a `k` below 1; what comes twice counts once.

    Examples
    --------
    >>> ranking = Ranking(["maps", "sms", "mail", "weather"], ["sms", "weather"])
    >>> ranking.recall(2), ranking.complete(2), ranking.average_precision(4)
    (0.5, 0.0, 0.5)
    """

    def __init__(self, ranked: Sequence[Hashable], used: Collection[Hashable]) -> None:
        truth = _truth(used)
        self.n_used = len(truth)
        self._hits = np.array([item in truth for item in ranked], dtype=bool)

    def recall(self, k: int) -> float:
        """Return the share of what was used that is among the first `k`."""
        return float(self._first(k).sum() / self.n_used)

    def complete(self, k: int) -> float:
        """Return 1 if all that was used is among the first `k`, else 0."""
        return float(self._first(k).sum() == self.n_used)

    def ndcg(self, k: int) -> float:
        """Return the normalised discounted cumulative gain, of gain 1 or 0.

        ``sum over the hits among the first k of 1 / log2(rank + 1)``, over the same sum for an
        ideal ranking, whose first ``min(k, n_used)`` are hits (Järvelin and Kekäläinen, 2002). It
        is normalised by what was used, never by what was hit.
        """
        hits = self._first(k)
        discounts = 1 / np.log2(np.arange(2, k + 2))
        return float(discounts[: len(hits)][hits].sum() / discounts[: self.n_used].sum())

    def average_precision(self, k: int) -> float:
        """Return the average precision of the first `k`; its mean over requests is MAP.

        ``sum over the hits among the first k of the precision at their rank``, over
        ``min(k, n_used)``.
        """
        hits = self._first(k)
        precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        return float(precisions[hits].sum() / min(k, self.n_used))

    def _first(self, k: int) -> NDArray[np.bool_]:
        return self._hits[: check_number("k", k, 1, whole=True)]


RANKING: Mapping[str, tuple[Callable[[Ranking, int], float], int]] = {
    **{f"recall@{k}": (Ranking.recall, k) for k in (5, 10, 20, 50, 100)},
    **{f"ndcg@{k}": (Ranking.ndcg, k) for k in (5, 10)},
    "map@10": (Ranking.average_precision, 10),
    "complete@20": (Ranking.complete, 20),
}
"""The metrics of a ranking that `evaluate` reports: name to metric and `k`."""


def ece(probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = 15) -> float:
    """Return the expected calibration error, over bins of equal width.

    The mean over bins of the distance between mean probability and share of outcomes, weighted by
    the bins' sizes (Naeini, Cooper and Hauskrecht, 2015; 15 bins as in Guo et al., 2017). A bin
    includes its lower end; the last one both. It is an InputError if probabilities and outcomes
    differ in number, are none, or are not in [0, 1] and 0 or 1.

    Examples
    --------
    >>> round(ece([0.9, 0.9, 0.1, 0.1], [1, 1, 0, 1]), 3)
    0.25
    """
    found = reliability(probabilities, outcomes, bins=bins)
    gaps = math.fsum(each.n * abs(each.predicted - each.observed) for each in found)
    return gaps / sum(each.n for each in found)


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """What came of the predictions whose probability is in a range.

    Parameters
    ----------
    low, high : float in [0, 1]
        The range.
    n : int, at least 1
        How many predictions.
    predicted : float in [0, 1]
        Their mean probability.
    observed : float in [0, 1]
        The share of them that came true.
    """

    low: float
    high: float
    n: int
    predicted: float
    observed: float


def reliability(
    probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = 15
) -> tuple[ReliabilityBin, ...]:
    """Return the bins of the calibration error, by rising probability; none that is empty.

    Errors as in `ece`.

    Examples
    --------
    >>> reliability([0.9, 0.9, 0.1], [1, 0, 0], bins=2)[1]
    ReliabilityBin(low=0.5, high=1.0, n=2, predicted=0.9, observed=0.5)
    """
    check_number("bins", bins, 1, whole=True)
    p, y = _pairs(probabilities, outcomes)
    which = np.minimum((p * bins).astype(int), bins - 1)
    sizes = np.bincount(which, minlength=bins)
    predicted, observed = (np.bincount(which, weights=each, minlength=bins) for each in (p, y))
    return tuple(
        ReliabilityBin(
            i / bins,
            (i + 1) / bins,
            int(sizes[i]),
            float(predicted[i] / sizes[i]),
            float(observed[i] / sizes[i]),
        )
        for i in np.flatnonzero(sizes).tolist()
    )


def brier(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Return the mean squared distance of probability and outcome (Brier, 1950); see `ece`."""
    p, y = _pairs(probabilities, outcomes)
    return float(np.mean((p - y) ** 2))


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """One point of the curve: the most confident predictions, and how often they are wrong.

    Parameters
    ----------
    threshold : float in [0, 1]
        The lowest confidence among them.
    coverage : float in [0, 1]
        Their share of all predictions.
    risk : float in [0, 1]
        The share of them that is wrong.
    """

    threshold: float
    coverage: float
    risk: float


def risk_coverage(
    probabilities: ArrayLike, outcomes: ArrayLike, *, n_points: int = 50
) -> tuple[RiskCoverage, ...]:
    """Return the risk-coverage curve, by rising coverage (El-Yaniv and Wiener, JMLR 11, 2010).

    At most `n_points`; equal probabilities are covered together or not at all. Errors as in `ece`.

    Examples
    --------
    >>> [(p.coverage, p.risk) for p in risk_coverage([0.9, 0.5], [True, False])]
    [(0.5, 0.0), (1.0, 0.5)]
    """
    p, y = _pairs(probabilities, outcomes)
    order = np.argsort(-p, kind="stable")
    p, hits = p[order], np.cumsum(y[order])
    ends = np.flatnonzero(np.append(p[:-1] > p[1:], True))
    chosen = np.unique(np.round(np.linspace(0, len(ends) - 1, n_points)).astype(int))
    return tuple(
        RiskCoverage(float(p[end]), (int(end) + 1) / p.size, 1.0 - float(hits[end]) / (end + 1))
        for end in ends[chosen].tolist()
    )


def percentiles(values: ArrayLike, levels: Sequence[float] = (50, 95)) -> dict[str, float]:
    """Return percentiles by name, interpolated linearly; no value is an InputError.

    Examples
    --------
    >>> percentiles([1, 2, 3, 4], [25, 50])
    {'p25': 1.75, 'p50': 2.5}
    """
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise InputError("percentiles need at least one value (got none)")
    return {f"p{level:g}": float(np.percentile(array, level)) for level in levels}


def means(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each figure, summed without rounding error; none of nothing.

    Examples
    --------
    >>> means([{"recall": 1.0, "f1": 0.5}, {"recall": 0.0, "f1": 0.0}])
    {'recall': 0.5, 'f1': 0.25}
    """
    names = figures[0] if figures else ()
    return {name: math.fsum(each[name] for each in figures) / len(figures) for name in names}


def rounded(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the figures for JSON: floats with six digits.

    Examples
    --------
    >>> rounded({"recall": 2 / 3, "total": 149, "f1": None})
    {'recall': 0.666667, 'total': 149, 'f1': None}
    """
    return {name: round(v, 6) if isinstance(v, float) else v for name, v in figures.items()}


def _truth(used: Collection[Hashable]) -> set[Hashable]:
    if not used:
        raise InputError("nothing was used, so there is nothing to find (give at least one)")
    return set(used)


def _pairs(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    p = np.asarray(probabilities, dtype=np.float64).ravel()
    y = np.asarray(outcomes, dtype=np.float64).ravel()
    if not len(p) or len(p) != len(y):
        raise InputError(
            f"give as many probabilities as outcomes, at least one (got {len(p)} and {len(y)})"
        )
    outside = p[~((p >= 0) & (p <= 1))]
    if len(outside):
        raise InputError(f"a probability must be between 0 and 1, got {float(outside[0])!r}")
    strange = y[~np.isin(y, (0, 1))]
    if len(strange):
        raise InputError(f"an outcome must be 0 or 1, got {float(strange[0])!r}")
    return p, y
