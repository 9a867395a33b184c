"""`EvaluationCurves`: what an evaluation draws, beside the means that `Evaluation` has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.evaluation.metrics import ReliabilityBin

__all__ = [
    "LATENCY_LEVELS",
    "ConfidencePoint",
    "EvaluationCurves",
    "RecallPoint",
    "by_confidence",
    "by_depth",
    "by_threshold",
    "n_reached",
]

# Equally far apart in log-odds, from .99 to .0001; the last is reached by every API.
_THRESHOLDS = np.append(1 / (1 + np.exp(np.linspace(-4.6, 9.2, 47))), 0.0)
_DEPTHS = (1, 2, 3, 5, 7)  # times powers of ten
_CONFIDENCES = (*(n / 20 for n in range(20)), 0.98)
LATENCY_LEVELS = (1, 5, *range(10, 100, 10), 95, 99, 100)


@dataclass(frozen=True, slots=True)
class RecallPoint:
    """One way to choose the recipients of all requests, and what that reaches.

    Parameters
    ----------
    recipients : float, at least 1
        How many APIs are routed to, the mean over the requests.
    recall : float in [0, 1]
        Share of the APIs used that are among them, the mean over the requests.
    complete : float in [0, 1]
        Share of the requests that have all their APIs among them.
    threshold : float in [0, 1] or None, default=None
        The probability from which an API is a recipient; None where their number is fixed.
    """

    recipients: float
    recall: float
    complete: float
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class ConfidencePoint:
    """The requests whose confidence reaches a threshold, and how often the answer was right.

    Parameters
    ----------
    threshold : float in [0, 1]
    requests : int
        How many requests have a confidence of at least that.
    share : float in [0, 1]
        Their share of all requests.
    complete : float in [0, 1] or None
        The share of them whose recipients, as the router chose them, hold all that was used; None
        if there are none.
    """

    threshold: float
    requests: int
    share: float
    complete: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationCurves:
    """What an evaluation draws.

    Parameters
    ----------
    thresholds : tuple of RecallPoint
        Recipients are the APIs whose probability reaches a threshold, and always the most probable
        one; from the highest threshold to 0.
    depths : tuple of RecallPoint
        Recipients are the first so many of every request.
    reliability : tuple of ReliabilityBin
        Of each request's ten highest probabilities, in the bins of the calibration error.
    confidences : tuple of ConfidencePoint
        By rising threshold of the confidence; the one in use is among them.
    latency_ms : mapping of str to float, milliseconds
        Percentiles of `Router.route`, from ``p1`` to ``p100``.
    """

    thresholds: tuple[RecallPoint, ...]
    depths: tuple[RecallPoint, ...]
    reliability: tuple[ReliabilityBin, ...]
    confidences: tuple[ConfidencePoint, ...]
    latency_ms: Mapping[str, float]

    def __repr__(self) -> str:
        return (
            f"EvaluationCurves({len(self.thresholds)} thresholds, {len(self.depths)} depths, "
            f"{len(self.reliability)} bins)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the curves as a JSON object."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def n_reached(descending: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each threshold how many of some descending probabilities reach it, at least 1."""
    n = len(descending) - np.searchsorted(descending[::-1], _THRESHOLDS)
    return np.maximum(n, 1)


def by_threshold(
    places: Sequence[Mapping[str, int]], reached: Sequence[NDArray[np.intp]]
) -> tuple[RecallPoint, ...]:
    """Return a point for each threshold: the places of what each request used, and `n_reached`."""
    points = _points(places, np.array(reached))
    return tuple(
        RecallPoint(*point, threshold=float(threshold))
        for point, threshold in zip(points, _THRESHOLDS, strict=True)
    )


def by_depth(places: Sequence[Mapping[str, int]], n_apis: int) -> tuple[RecallPoint, ...]:
    """Return a point for 1, 2, 3, 5, 7, 10, 20 and so on of the first APIs of each request."""
    tens = 10 ** np.arange(len(str(n_apis)))
    depths = np.outer(tens, _DEPTHS).ravel()
    depths = np.append(depths[depths < n_apis], n_apis)
    points = _points(places, np.tile(depths, (len(places), 1)))
    return tuple(RecallPoint(*point) for point in points)


def by_confidence(
    confidences: Sequence[float], complete: Sequence[bool], threshold: float
) -> tuple[ConfidencePoint, ...]:
    """Return a point for thresholds in steps of a twentieth, and for the one in use."""
    p, right = np.array(confidences), np.array(complete)
    points = []
    for level in sorted({*_CONFIDENCES, threshold}):
        reached = right[p >= level]
        held = float(reached.mean()) if reached.size else None
        points.append(ConfidencePoint(level, reached.size, reached.size / p.size, held))
    return tuple(points)


def _points(
    places: Sequence[Mapping[str, int]], sizes: NDArray[np.intp]
) -> list[tuple[float, float, float]]:
    """Return recipients, recall and completeness, each a mean; `sizes` has a row a request."""
    found = np.array(
        [
            (np.fromiter(each.values(), np.intp)[:, None] < size).mean(axis=0)
            for each, size in zip(places, sizes, strict=True)
        ]
    )
    means = np.stack([sizes.mean(axis=0), found.mean(axis=0), (found == 1).mean(axis=0)], axis=1)
    return [(float(n), float(recall), float(complete)) for n, recall, complete in means]
