"""Candidates of a request, and what the ranker sees of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.views import N_VIEWS, VIEWS, Views

__all__ = ["Candidates", "candidates", "shortlist_features"]

PER_VIEW = 25
# Views whose best score says what kind of request it is.
_CONTEXT = tuple(VIEWS.index(n) for n in ("ridge", "neighbours", "nearest", "words", "name"))
# Views whose sum says how many APIs such requests use.
_SIZES = tuple(VIEWS.index(n) for n in ("ridge", "neighbours"))
N_FEATURES = 3 * N_VIEWS + 1 + len(_CONTEXT) + len(_SIZES)


@dataclass(frozen=True)
class Candidates:
    """The contractors that some view puts among its best, for one request.

    Attributes
    ----------
    positions : ndarray of shape (n_candidates,), int, ascending
    features : ndarray of shape (n_candidates, n_features), float32
        Per view the score, the logarithm of one plus the rank, and the ratio to the best; then
        the logarithm of one plus the history size, the best score of some views and the sum of
        others.
    """

    positions: NDArray[Any]
    features: NDArray[Any]


def candidates(views: Views, scores: NDArray[Any], *, per_view: int = PER_VIEW) -> Candidates:
    """Collect the candidates of one request.

    Parameters
    ----------
    views : Views
    scores : ndarray of shape (n_views, n_apis)
    per_view : int
        How many each view may name. It names none that it scores 0.
    """
    positions = np.flatnonzero(_best(scores, per_view).any(axis=0))
    own = scores[:, positions]
    order = np.argsort(-own, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(len(positions)), order.shape), axis=1)
    top = own.max(axis=1, initial=0)
    features = np.empty((N_FEATURES, len(positions)), dtype=np.float32)
    features[:N_VIEWS] = own
    features[N_VIEWS : 2 * N_VIEWS] = np.log1p(rank)
    features[2 * N_VIEWS : 3 * N_VIEWS] = own / np.maximum(top, 1e-6)[:, None]
    features[3 * N_VIEWS] = np.log1p(views.counts[positions])
    features[3 * N_VIEWS + 1 : -len(_SIZES)] = top[list(_CONTEXT)][:, None]
    features[-len(_SIZES) :] = np.clip(scores[list(_SIZES)], 0, None).sum(axis=1)[:, None]
    return Candidates(positions, np.ascontiguousarray(features.T))


def _best(scores: NDArray[Any], k: int) -> NDArray[Any]:
    """Mark each row's `k` highest positive scores; of equal ones the first."""
    n_apis = scores.shape[1]
    if k >= n_apis:
        return scores > 0
    # Values are partitioned, not indices: that is several times faster where many are equal.
    floor = np.partition(scores, n_apis - k, axis=1)[:, n_apis - k, None]
    marked = np.asarray((scores >= floor) & (scores > 0))
    for row in np.flatnonzero(np.count_nonzero(marked, axis=1) > k):
        tied = np.flatnonzero(marked[row] & (scores[row] == floor[row]))
        surplus = np.count_nonzero(marked[row]) - k
        marked[row, tied[len(tied) - surplus :]] = False
    return marked


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
