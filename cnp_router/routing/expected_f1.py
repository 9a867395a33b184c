"""How many of the most probable to recommend: the set of the highest expected F1."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACT", "expected_f1_size"]

EXACT = 30
"""Needs whose number is taken exactly when a set is chosen."""

_NODES = 64
_POWER = 3  # nodes crowd at 0, where the integrand has a power that is no whole number
_SAME = 1 + 1e-11  # differences below are rounding


def expected_f1_size(
    descending: NDArray[Any], outside: NDArray[Any] | None = None, rest: float = 0.0
) -> int:
    """Return how many of the most probable to recommend so that the expected F1 is highest.

    Needs are taken as independent. With ``H`` needs among the first ``k`` and ``R`` among the
    others, the F1 is ``2 H / (k + H + R)``; its expectation takes the distributions of both counts
    (Poisson-binomial; Ye, Chai, Lee and Chieu, "Optimizing F-measure", 2012). They are exact over
    the first 30, and the rest adds its mean to ``R``. At least 1; 0 for no candidates.

    `outside` are the probabilities of what cannot be recommended, in descending order too: such
    needs are misses. Of more than 30 the last may be left out, with their sum as `rest`.

    Examples
    --------
    >>> expected_f1_size(np.array([0.9, 0.8, 0.1, 0.05]))
    2
    """
    if not len(descending):
        return 0
    head = descending[:EXACT]
    needs = head
    if len(descending) > EXACT:
        rest += float(descending[EXACT:].sum())
    if outside is not None and len(outside):
        misses = outside[: EXACT - len(head)]
        needs = np.concatenate([head, misses])
        rest += float(outside[len(misses) :].sum())
    # 1 / x is the integral of t ** (x - 1), of which the expectation is a product over the needs:
    # the sum over both counts becomes one over nodes.
    t, weight, missing = _nodes()
    chances = 1 - needs[:, None] * missing
    weight = weight * chances.prod(axis=0) * t**rest
    best, size, hits = -1.0, 1, np.zeros(len(t))
    for k, p in enumerate(head.tolist(), start=1):
        hits += p / chances[k - 1]
        weight *= t
        expected = float(hits @ weight)
        if expected > best * _SAME:
            best, size = expected, k
        elif p < best / 4:
            # What is needed with less than half the best F1, with some room, no longer raises it.
            break
    return size


@cache
def _nodes() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return nodes in (0, 1), twice their weights, and how far they are from 1."""
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    t = ((x + 1) / 2) ** _POWER
    weight = weight * _POWER * ((x + 1) / 2) ** (_POWER - 1)
    return t, weight, 1 - t
