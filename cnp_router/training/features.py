"""Candidates of a request, and what the ranker sees of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Candidates", "shortlist_features"]


@dataclass(frozen=True)
class Candidates:
    """The APIs that some view puts among its best, for one request.

    Attributes
    ----------
    positions : ndarray of shape (n_candidates,), int, ascending
    features : ndarray of shape (n_candidates, n_features), float32
        By the text, `Views.feature_names`: per score its value, the logarithm of one plus its
        rank, and its ratio to the best; then what the views say besides.
    """

    positions: NDArray[Any]
    features: NDArray[Any]


def shortlist_features(
    co_usage: sparse.csc_array, found: Candidates, first: NDArray[Any], kept: NDArray[Any]
) -> NDArray[Any]:
    """Return what the second stage sees: the features, and the first stage's picture of the set.

    Parameters
    ----------
    co_usage : csc_array of shape (n_apis, n_apis)
        ``P(row | column)``.
    found : Candidates
    first : ndarray of shape (n_candidates,), in [0, 1]
        First-stage probabilities.
    kept : ndarray of int
        The shortlist: indices into the candidates, most probable first.

    Returns
    -------
    ndarray of shape (n_kept, n_features + 6), float32
        In addition: log-odds, rank, ratio to the best, sum and best of the first stage, and the
        co-usage with what the first stage expects.
    """
    p = np.clip(first, 1e-6, 1 - 1e-6)
    short = p[kept]
    extra = np.empty((len(kept), 6), dtype=np.float32)
    extra[:, 0] = np.log(short / (1 - short))
    extra[:, 1] = np.log1p(np.arange(len(kept)))
    extra[:, 2] = short / short[0] if len(kept) else 0
    extra[:, 3] = p.sum()
    extra[:, 4] = short[0] if len(kept) else 0
    expected = np.zeros(co_usage.shape[1], dtype=np.float32)
    expected[found.positions] = p
    extra[:, 5] = (co_usage @ expected)[found.positions[kept]]
    return np.hstack([found.features[kept], extra])
