"""What a fitted router learns from one more mashup, at once and without fitting again.

What is counted or remembered is as if fitted on all: past requests, use, co-use, centroids, similar
APIs, the specification that requests call for. The linear models of APIs and categories are
corrected by a ridge regression of their errors on the new requests, in which a word's penalty grows
with how much was learned of it already: recursive least squares with a diagonal covariance. The
ranker, the calibration, the known words and the known categories stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.linear import ridge_weights
from cnp_router.training.specifications import EncodedRequests
from cnp_router.training.text import unit_rows
from cnp_router.training.views import (
    N_SIMILAR,
    Views,
    expected_specification,
    similar_apis,
)

__all__ = ["observed_views"]

# Errors of the linear model below this are let stand: most labels of most requests.
_UNTOLD = 0.02


def observed_views(views: Views, requests: EncodedRequests, usage: sparse.csr_array) -> Views:
    """Return views that also know some new mashups.

    Takes time linear in the size of the views.

    Parameters
    ----------
    views : Views
        They stay as they are.
    requests : EncodedRequests
        The texts of the new mashups.
    usage : csr_array of shape (n_new, n_apis), of ones
        What they used.

    Returns
    -------
    Views
    """
    labels = np.union1d(views.labels, np.unique(usage.indices)).astype(views.labels.dtype)
    everything = sparse.csr_array(sparse.vstack([views.usage, usage], "csr"))
    history_words = _beside(views.history_words, requests.word.T)
    return Views(
        specifications=views.specifications,
        usage=everything,
        history_words=history_words,
        history_characters=_beside(views.history_characters, requests.character.T),
        word_weights=_word_weights(views, labels, requests, usage, everything, history_words),
        labels=labels,
        membership=views.membership,
        expected=expected_specification(
            views.specifications, sparse.csr_array(history_words.T), everything
        ),
        co_usage=_co_usage(views, usage),
        similar=_similar(views, labels),
    )


def _word_weights(
    views: Views,
    labels: NDArray[Any],
    requests: EncodedRequests,
    usage: sparse.csr_array,
    everything: sparse.csr_array,
    history_words: sparse.csr_array,
) -> sparse.csr_array:
    n_labels, n_categories = len(views.labels), views.membership.shape[1]
    n_apis = usage.shape[1]
    linear = sparse.csc_array(views.word_weights[:, :n_labels])
    categories = sparse.csc_array(views.category_weights)
    spread = _spread(linear, views.labels, labels)
    energy = np.asarray(views.history_words.power(2).sum(axis=1)).ravel()
    centroids = sparse.csc_array(views.word_weights[:, n_labels + n_categories :])
    called_for = sparse.csr_array(usage @ views.membership)
    called_for.data = np.ones_like(called_for.data)
    changed = np.unique(usage.indices)
    by_api = sparse.csc_array(everything)[:, changed]
    renewed = unit_rows(sparse.csr_array((history_words @ by_api).T))
    return sparse.csr_array(
        sparse.hstack(
            [
                _updated(spread, energy, requests.word, usage[:, labels]),
                _updated(categories, energy, requests.word, called_for),
                _replaced(centroids, changed, renewed.T, n_apis),
            ],
            "csr",
        )
    )


def _updated(
    weights: sparse.sparray, energy: NDArray[Any], X: sparse.csr_array, Y: sparse.csr_array
) -> sparse.csr_array:
    """Return the weights of a ridge regression after more rows.

    Parameters
    ----------
    weights : sparse array of shape (n_terms, n_labels)
    energy : ndarray of shape (n_terms,)
        Sum of the squares of each term in the old rows.
    X : csr_array of shape (n_new, n_terms)
    Y : csr_array of shape (n_new, n_labels)
    """
    weights = sparse.csr_array(weights)
    missing = sparse.csr_array(Y - X @ weights)
    missing.data[np.abs(missing.data) < _UNTOLD] = 0
    missing.eliminate_zeros()
    # Only what the new rows touch; for one row, that is next to nothing.
    terms, labels = np.unique(X.indices), np.unique(missing.indices)
    doubt = sparse.diags_array(1 / np.sqrt(1 + energy[terms]))
    step = doubt @ ridge_weights(
        sparse.csr_array(X[:, terms] @ doubt), missing[:, labels], prune=_UNTOLD / 10
    )
    by_term = _spread(sparse.csr_array(step.T), terms, np.arange(len(energy))).T
    correction = _spread(by_term, labels, np.arange(weights.shape[1]))
    return sparse.csr_array(weights + correction).astype(np.float32)


def _replaced(
    matrix: sparse.csc_array, columns: NDArray[Any], values: sparse.sparray, n_columns: int
) -> sparse.csc_array:
    """Return the matrix with some of its columns replaced."""
    keep = np.ones(n_columns, dtype=np.float32)
    keep[columns] = 0
    kept = sparse.csc_array(matrix @ sparse.diags_array(keep))
    kept.eliminate_zeros()
    return sparse.csc_array(kept + _spread(values, columns, np.arange(n_columns)))


def _spread(matrix: sparse.sparray, old: NDArray[Any], new: NDArray[Any]) -> sparse.csr_array:
    """Return columns that stand for `old` as columns that stand for `new`, a superset."""
    place = sparse.csr_array(
        (np.ones(len(old), dtype=np.float32), (np.arange(len(old)), np.searchsorted(new, old))),
        shape=(len(old), len(new)),
    )
    return sparse.csr_array(matrix @ place).astype(np.float32)


def _beside(matrix: sparse.csr_array, more: sparse.sparray) -> sparse.csr_array:
    return sparse.csr_array(sparse.hstack([matrix, more], "csr"))


def _similar(views: Views, labels: NDArray[Any]) -> sparse.csr_array:
    """Return the similar APIs when more APIs have history; see `similar_apis`.

    Only rows that a new one enters are computed again: it must be more like the row's own API than
    the least like of those there.
    """
    similar = _spread(views.similar, views.labels, labels)
    new = np.setdiff1d(labels, views.labels)
    if not len(new):
        return similar
    columns = views.specifications.word_columns
    by_api = sparse.csr_array(columns.T)
    nearest = (by_api @ sparse.csc_array(columns)[:, new]).max(axis=1).toarray().ravel()
    floor = np.zeros(len(nearest))
    full = np.flatnonzero(np.diff(similar.indptr) >= N_SIMILAR)
    last = [_least(similar, int(row)) for row in full]
    floor[full] = by_api[full].multiply(by_api[labels[last]]).sum(axis=1)
    changed = np.flatnonzero(nearest > floor)
    renewed = similar_apis(views.specifications, labels, changed)
    by_row = _replaced(sparse.csc_array(similar.T), changed, renewed.T, len(nearest))
    return sparse.csr_array(by_row.T)


def _least(matrix: sparse.csr_array, row: int) -> int:
    start, end = matrix.indptr[row : row + 2]
    return int(matrix.indices[start + int(matrix.data[start:end].argmin())])


def _co_usage(views: Views, usage: sparse.csr_array) -> sparse.csc_array:
    """Return the co-usage with the new mashups counted: see `cnp_router.training.views`."""
    counts = views.counts
    together = views.co_usage @ sparse.diags_array(counts + 2.0)
    more = sparse.csr_array(usage.T @ usage)
    more.setdiag(0)
    more.eliminate_zeros()
    total = sparse.csc_array(together + more)
    total.data = np.rint(total.data)
    after = counts + np.bincount(usage.indices, minlength=len(counts))
    scale = sparse.diags_array((1 / (after + 2.0)).astype(np.float32))
    return sparse.csc_array(total @ scale).astype(np.float32)
