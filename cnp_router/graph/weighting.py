"""How strongly two APIs are tied: from counts to transition probabilities.

Of a pair that was counted ``c`` times, where ``s`` and ``t`` are the counts of either, out of a
total of ``N`` mashups or transitions, the weight is one of

- ``"probability"``: ``c`` itself.
- ``"jaccard"``: ``c / (s + t - c)``, the share of the uses of either that are uses of both.
- ``"ppmi"``, positive pointwise mutual information in nats: ``max(0, log(c N / (s t)))``. It asks
  how much oftener two APIs meet than their popularity alone explains, so it favours rare pairs,
  and drops those that meet no oftener than by chance; combine it with a minimum support.
- ``"cosine"``, of the two usage vectors (Salton's measure): ``c / sqrt(s t)``.

A weighting of one's own is one more entry of `WEIGHTINGS`.

References
----------
Church and Hanks, "Word association norms, mutual information, and lexicography", Computational
Linguistics 16(1), 1990, for the pointwise mutual information.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["WEIGHTINGS", "Weighting", "weighted"]

Weighting = Literal["probability", "jaccard", "ppmi", "cosine"]
Values = NDArray[Any]

WEIGHTINGS: dict[str, Callable[[Values, Values, Values, float], Values]] = {
    "probability": lambda c, s, t, total: c,
    "jaccard": lambda c, s, t, total: c / (s + t - c),
    "ppmi": lambda c, s, t, total: np.maximum(np.log(c * total / (s * t)), 0.0),
    "cosine": lambda c, s, t, total: c / np.sqrt(s * t),
}


def weighted(
    counts: csr_array, weighting: str, sources: Values, targets: Values, total: float
) -> csr_array:
    """Weigh counts and divide each row by its sum: its rows sum to 1 or 0.

    `sources` and `targets`, of shape (n,), are at least the counts of their row or column. The
    counts are left as they are, and no dense matrix is built.

    Examples
    --------
    >>> counts, used = csr_array([[0, 2, 1], [2, 0, 0], [1, 0, 0]]), np.array([3, 3, 1])
    >>> {name: weighted(counts, name, used, used, 9)[[0]].data.round(2) for name in WEIGHTINGS}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'probability': array([0.67, 0.33]), 'jaccard': array([0.6, 0.4]),
     'ppmi': array([0.39, 0.61]), 'cosine': array([0.54, 0.46])}
    """
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    values = WEIGHTINGS[weighting](
        counts.data.astype(float),
        np.asarray(sources, dtype=float)[rows],
        np.asarray(targets, dtype=float)[counts.indices],
        float(total),
    )
    result = csr_array((values, counts.indices, counts.indptr), shape=counts.shape, copy=True)
    result.eliminate_zeros()
    sums = np.asarray(result.sum(axis=1), dtype=float)
    result.data /= np.repeat(sums, np.diff(result.indptr))
    return result
