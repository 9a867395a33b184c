"""How strongly two APIs are tied: pure functions from a CSR matrix of counts to one of weights.

Each keeps the sparsity of its input (or drops more), leaves its input as it was, and never
builds a dense matrix. `totals` are the counts against which a pair is judged: in how many
mashups an API was used (undirected), or how many transitions leave or reach it (directed).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cnp_router.exceptions import InputError

__all__ = ["WEIGHTINGS", "Weighting", "cosine", "jaccard", "positive_pmi", "probability", "weigh"]

Weighting = Literal["probability", "jaccard", "ppmi", "cosine"]
WEIGHTINGS: tuple[str, ...] = get_args(Weighting)

Totals = NDArray[Any]


def probability(counts: csr_array) -> csr_array:
    """Divide each row by its sum: ``P(j | i) = count(i, j) / sum_k count(i, k)``.

    Parameters
    ----------
    counts : csr_array of shape (n, n), non-negative

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
    sums = np.asarray(counts.sum(axis=1), dtype=float)
    return _with_data(counts, counts.data / sums[_rows(counts)])


def jaccard(counts: csr_array, sources: Totals, targets: Totals) -> csr_array:
    """Share of the uses of either that are uses of both: ``c / (s_i + t_j - c)``.

    Parameters
    ----------
    counts : csr_array of shape (n, n), positive where stored
    sources, targets : ndarray of shape (n,), at least the counts of their row or column

    Returns
    -------
    csr_array of shape (n, n), values in (0, 1]

    Examples
    --------
    >>> jaccard(csr_array([[0, 2], [2, 0]]), np.array([3, 3]), np.array([3, 3])).toarray()
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    either = sources[_rows(counts)] + targets[counts.indices] - counts.data
    return _with_data(counts, counts.data / either)


def cosine(counts: csr_array, sources: Totals, targets: Totals) -> csr_array:
    """Return the cosine of the two usage vectors (Salton's measure): ``c / sqrt(s_i t_j)``.

    Parameters
    ----------
    counts : csr_array of shape (n, n), positive where stored
    sources, targets : ndarray of shape (n,), at least the counts of their row or column

    Returns
    -------
    csr_array of shape (n, n), values in (0, 1]

    Examples
    --------
    >>> cosine(csr_array([[0, 2], [2, 0]]), np.array([4, 1]), np.array([4, 1])).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    product = sources[_rows(counts)].astype(float) * targets[counts.indices]
    return _with_data(counts, counts.data / np.sqrt(product))


def positive_pmi(counts: csr_array, sources: Totals, targets: Totals, total: float) -> csr_array:
    """Positive pointwise mutual information: ``max(0, log(c N / (s_i t_j)))``, in nats.

    It asks how much oftener two APIs meet than their popularity alone explains, so it favours
    rare pairs; combine it with a minimum support.

    Parameters
    ----------
    counts : csr_array of shape (n, n), positive where stored
    sources, targets : ndarray of shape (n,)
    total : float
        N: the number of mashups, or of transitions.

    Returns
    -------
    csr_array of shape (n, n), values above 0
        Pairs that meet no oftener than by chance are dropped.

    References
    ----------
    Church and Hanks, "Word association norms, mutual information, and lexicography",
    Computational Linguistics 16(1), 1990.

    Examples
    --------
    >>> used = np.array([2, 2])
    >>> positive_pmi(csr_array([[0, 2], [2, 0]]), used, used, 4).toarray().round(3)
    array([[0.   , 0.693],
           [0.693, 0.   ]])
    """
    by_chance = sources[_rows(counts)].astype(float) * targets[counts.indices]
    information = np.log(counts.data * float(total) / by_chance)
    weights = _with_data(counts, np.maximum(information, 0.0))
    weights.eliminate_zeros()
    return weights


def weigh(
    counts: csr_array, weighting: str, sources: Totals, targets: Totals, total: float
) -> csr_array:
    """Apply the weighting of that name.

    Parameters
    ----------
    counts : csr_array of shape (n, n), positive where stored
    weighting : {"probability", "jaccard", "ppmi", "cosine"}
    sources, targets : ndarray of shape (n,)
    total : float

    Raises
    ------
    InputError
        If there is no weighting of that name.

    Examples
    --------
    >>> weigh(csr_array((1, 1)), "lift", np.zeros(1), np.zeros(1), 1)
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.InputError: unknown weighting 'lift' (use one of 'probability', \
'jaccard', 'ppmi', 'cosine')
    """
    if weighting == "probability":
        return probability(counts)
    if weighting == "jaccard":
        return jaccard(counts, sources, targets)
    if weighting == "cosine":
        return cosine(counts, sources, targets)
    if weighting == "ppmi":
        return positive_pmi(counts, sources, targets, total)
    names = ", ".join(repr(name) for name in WEIGHTINGS)
    raise InputError(f"unknown weighting {weighting!r} (use one of {names})")


def _rows(matrix: csr_array) -> NDArray[np.intp]:
    """Row number of each stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _with_data(matrix: csr_array, data: NDArray[np.float64]) -> csr_array:
    return csr_array((data, matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape)
