"""How strongly two APIs are tied: pure functions from a CSR matrix of counts to one of weights.

Each keeps the sparsity of its input (or drops more), leaves its input as it was, and never
builds a dense matrix. A weighting of one's own is one more entry of `WEIGHTINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cnp_router.exceptions import InputError

__all__ = ["WEIGHTINGS", "Weighting", "check_weighting", "probability", "weigh"]

Weighting = Literal["probability", "jaccard", "ppmi", "cosine"]
Values = NDArray[Any]


def _positive_pmi(c: Values, s: Values, t: Values, total: float) -> Values:
    return np.asarray(np.maximum(np.log(c * total / (s * t)), 0.0))


# Of a pair counted c times, where s and t are the counts of either, out of a total.
WEIGHTINGS: dict[str, Callable[[Values, Values, Values, float], Values]] = {
    "probability": lambda c, s, t, total: c,
    "jaccard": lambda c, s, t, total: c / (s + t - c),
    "ppmi": _positive_pmi,
    "cosine": lambda c, s, t, total: c / np.sqrt(s * t),
}


def weigh(
    counts: csr_array, weighting: str, sources: Values, targets: Values, total: float
) -> csr_array:
    """Weigh pairs that were counted ``c`` times against the counts ``s`` and ``t`` of either.

    Parameters
    ----------
    counts : csr_array of shape (n, n), positive where stored
    weighting : str
        ``"probability"`` leaves the counts, to be divided by the sum of their row.
        ``"jaccard"``, the share of the uses of either that are uses of both:
        ``c / (s + t - c)``. ``"cosine"``, of the two usage vectors (Salton's measure):
        ``c / sqrt(s t)``. ``"ppmi"``, positive pointwise mutual information in nats:
        ``max(0, log(c N / (s t)))``. The last asks how much oftener two APIs meet than their
        popularity alone explains, so it favours rare pairs, and drops those that meet no oftener
        than by chance; combine it with a minimum support.
    sources, targets : ndarray of shape (n,)
        In how many mashups an API was used, or how many transitions leave or reach it; at least
        the counts of its row or column.
    total : float
        N: the number of mashups, or of transitions.

    Returns
    -------
    csr_array of shape (n, n), values above 0

    Raises
    ------
    InputError
        If there is no weighting of that name.

    References
    ----------
    Church and Hanks, "Word association norms, mutual information, and lexicography",
    Computational Linguistics 16(1), 1990, for the pointwise mutual information.

    Examples
    --------
    >>> counts, used = csr_array([[0, 2], [2, 0]]), np.array([3, 3])
    >>> {name: float(weigh(counts, name, used, used, 9)[0, 1].round(3)) for name in WEIGHTINGS}
    {'probability': 2.0, 'jaccard': 0.5, 'ppmi': 0.693, 'cosine': 0.667}
    """
    check_weighting(weighting)
    values = WEIGHTINGS[weighting](
        counts.data.astype(float),
        np.asarray(sources, dtype=float)[_rows(counts)],
        np.asarray(targets, dtype=float)[counts.indices],
        float(total),
    )
    weights = _with_data(counts, values)
    weights.eliminate_zeros()
    return weights


def probability(weights: csr_array) -> csr_array:
    """Divide each row by its sum: ``P(j | i) = count(i, j) / sum_k count(i, k)``.

    Parameters
    ----------
    weights : csr_array of shape (n, n), non-negative

    Returns
    -------
    csr_array of shape (n, n), rows sum to 1 or 0

    Examples
    --------
    >>> probability(csr_array([[0, 3, 1], [3, 0, 0], [0, 0, 0]])).toarray()
    array([[0.  , 0.75, 0.25],
           [1.  , 0.  , 0.  ],
           [0.  , 0.  , 0.  ]])
    """
    sums = np.asarray(weights.sum(axis=1), dtype=float)
    return _with_data(weights, weights.data / sums[_rows(weights)])


def check_weighting(name: str) -> None:
    """Raise InputError if there is no weighting of that name."""
    if name not in WEIGHTINGS:
        names = ", ".join(map(repr, WEIGHTINGS))
        raise InputError(f"unknown weighting {name!r} (use one of {names})")


def _rows(matrix: csr_array) -> NDArray[np.intp]:
    """Row number of each stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _with_data(matrix: csr_array, data: NDArray[np.float64]) -> csr_array:
    return csr_array((data, matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape)
