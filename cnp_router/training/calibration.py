"""What held-out answers teach about the decision: the recall promise and the confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing.selection import RecallControl, mass_positions
from cnp_router.training.ranker import Logistic

__all__ = ["confidence_features", "fit_confidence", "fit_recall_control"]

_SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_SIZES = (1, 3, 5, 10, 20, 50)


def fit_recall_control(
    held_out: Sequence[tuple[NDArray[Any], NDArray[Any], int]],
) -> RecallControl:
    """Collect what each held-out request needed, for conformal risk control.

    Parameters
    ----------
    held_out : sequence of (probabilities, labels, n_used)
        Of each request's candidates, and how many APIs it used in all: those that are no
        candidate can be reached by a broadcast only.
    """
    needed, weights = [], []
    for probabilities, labels, n_used in held_out:
        order = np.argsort(-probabilities, kind="stable")
        found = mass_positions(probabilities[order])[labels[order]]
        needed.extend([*found, *[np.inf] * (n_used - len(found))])
        weights.extend([1 / n_used] * n_used)
    return RecallControl(np.array(needed), np.array(weights), len(held_out))


def confidence_features(probabilities: NDArray[Any], outside: float) -> NDArray[Any]:
    """Return what the confidence is judged by.

    Parameters
    ----------
    probabilities : ndarray of shape (n,), in [0, 1]
    outside : float
        Sum of the probabilities of those that are not asked.

    Returns
    -------
    ndarray of shape (4,)
        Logarithm of the mass outside, its share of the whole, the highest probability, and the
        logarithm of the whole mass.
    """
    total = float(probabilities.sum())
    best = float(probabilities.max(initial=0.0))
    return np.array(
        [np.log(outside + 1e-3), outside / max(total, 1e-9), best, np.log(total + 1e-3)]
    )


def fit_confidence(
    held_out: Sequence[tuple[NDArray[Any], NDArray[Any], int]],
) -> Logistic:
    """Learn the probability that the recipients cover all that a request needs.

    Parameters
    ----------
    held_out : sequence of (probabilities, labels, n_used)

    Returns
    -------
    Logistic
        On `confidence_features`, over selections of many sizes.
    """
    rows, covered = [], []
    for probabilities, labels, n_used in held_out:
        order = np.argsort(-probabilities, kind="stable")
        descending, hits = probabilities[order], np.cumsum(labels[order])
        place = mass_positions(descending)
        sizes = {int(np.count_nonzero(place <= share)) for share in _SHARES} | set(_SIZES)
        for size in sorted(min(size, len(order)) for size in sizes):
            if size:
                rows.append(confidence_features(probabilities, float(descending[size:].sum())))
                covered.append(hits[size - 1] == n_used)
    if not rows:
        return Logistic(np.zeros(4), 0.0)
    return Logistic.fit(np.array(rows), np.array(covered))
