"""The view of similar APIs: use of those whose specification is most like an API's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.linear import replaced_columns, spread_columns
from cnp_router.training.views.base import Batch, Dense, View

__all__ = ["SimilarView"]

N_SIMILAR = 10


@dataclass(frozen=True, eq=False)
class SimilarView(View):
    """What the linear model of the history says of the most similar APIs.

    `weights` are of the `N_SIMILAR` APIs with history whose specification is most like each API's
    own; rows sum to 1 or 0.
    """

    name: ClassVar[str] = "similar"
    scores: ClassVar[tuple[str, ...]] = ("similar APIs",)

    weights: Annotated[sparse.csr_array, "apis", "labels"]

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Compare all specifications."""
        return cls(corpus, _most_similar(corpus, np.arange(corpus.n_apis)))

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view with rows computed again that are new, or whose similar ones are not all.

        What is specified otherwise now is compared as if it were new.
        """
        labels, anew = corpus.labels, change.respecified
        same = sparse.csr_array(change.apis @ sparse.diags_array((~anew).astype(np.float32)))
        places = replace(change, apis=same).labels(self.corpus.labels, labels)
        kept = self.moved({"apis": same, "labels": places}, corpus=corpus)
        n_before = same.T @ np.diff(self.weights.indptr)
        lost = anew | (np.diff(kept.weights.indptr) < n_before)
        fresh = np.setdiff1d(labels, labels[places.indices])
        return type(self)(corpus, _renewed(kept.weights, corpus, lost, fresh))

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view when more APIs have history."""
        old, labels = self.corpus.labels, corpus.labels
        weights = spread_columns(self.weights, old, labels)
        lost = np.zeros(corpus.n_apis, dtype=bool)
        return type(self)(corpus, _renewed(weights, corpus, lost, np.setdiff1d(labels, old)))

    def columns(self, batch: Batch) -> tuple[Dense]:
        """Return the mean score of the similar APIs, by their likeness."""
        return (Dense((self.weights @ batch.product("ridge").T).T),)


def _renewed(
    weights: sparse.csr_array, corpus: Corpus, lost: NDArray[Any], fresh: NDArray[Any]
) -> sparse.csr_array:
    """Return the weights where some rows have lost an API, and some APIs have history first now.

    Of the other rows only those are computed again that a fresh one enters: it must be more like
    the row's own API than the least like of those there.
    """
    if len(fresh):
        columns = corpus.specifications.word_columns
        by_api = sparse.csr_array(columns.T)
        nearest = (by_api @ sparse.csc_array(columns)[:, fresh]).max(axis=1).toarray().ravel()
        floor = np.zeros(len(nearest))
        full = np.flatnonzero(np.diff(weights.indptr) >= N_SIMILAR)
        last = [_least(weights, int(row)) for row in full]
        floor[full] = by_api[full].multiply(by_api[corpus.labels[last]]).sum(axis=1)
        lost = lost | (nearest > floor)
    changed = np.flatnonzero(lost)
    if not len(changed):
        return weights
    renewed = _most_similar(corpus, changed)
    by_row = replaced_columns(sparse.csc_array(weights.T), changed, renewed.T)
    return sparse.csr_array(by_row.T)


def _most_similar(corpus: Corpus, rows: NDArray[Any], *, block: int = 1024) -> sparse.csr_array:
    """Return the weights of some APIs."""
    columns, labels = corpus.specifications.word_columns, corpus.labels
    by_api = sparse.csr_array(columns.T)
    labelled = sparse.csr_array(sparse.csc_array(columns)[:, labels])
    keep = min(N_SIMILAR, len(labels))
    parts = [sparse.csr_array((0, len(labels)), dtype=np.float32)]
    for first in range(0, len(rows), block):
        apis = rows[first : first + block]
        likeness = (by_api[apis] @ labelled).toarray()
        itself, place = np.nonzero(apis[:, None] == labels)
        likeness[itself, place] = 0
        if keep < len(labels):
            floor = np.partition(likeness, -keep, axis=1)[:, -keep][:, None]
            likeness[likeness < floor] = 0
        likeness /= np.maximum(likeness.sum(axis=1, keepdims=True), 1e-9)
        parts.append(sparse.csr_array(likeness))
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _least(matrix: sparse.csr_array, row: int) -> int:
    start, end = matrix.indptr[row : row + 2]
    return int(matrix.indices[start + int(matrix.data[start:end].argmin())])
