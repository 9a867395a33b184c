"""The view of similar APIs: use of those whose specification is most like an API's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text import replaced_rows
from cnp_router.text.entries import entries
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.keyed import distinct
from cnp_router.training.likeness import most_like
from cnp_router.training.linear import spread_columns
from cnp_router.training.postings import EXACT, champions, segments
from cnp_router.training.views.base import Batch, View
from cnp_router.training.views.columns import Column, Dense, Pairs, Sparse

__all__ = ["SimilarView"]

N_SIMILAR = 10
# Of a large catalog: who is looked at for the APIs that the linear model expects most.
N_LIKELIEST, N_SIMILAR_TO = 16, 32
_FRESH_AT_ONCE = 256
_ALIKE = 1 - 1e-6  # what is that much as likely is as likely: it was added up otherwise


@dataclass(frozen=True, eq=False)
class SimilarView(View):
    """What the linear model of the history says of the most similar APIs.

    `weights` are of the `N_SIMILAR` APIs with history whose specification is most like each API's
    own, and in a small catalog of all that are as like as the last of them; rows sum to 1 or 0.
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
        fresh = np.setdiff1d(labels, old)
        if not len(fresh):
            same = replace(self, corpus=corpus)
            if "_similar_to" in self.__dict__:
                same.__dict__["_similar_to"] = self._similar_to
            return same
        weights = spread_columns(self.weights, old, labels)
        lost = np.zeros(corpus.n_apis, dtype=bool)
        return type(self)(corpus, _renewed(weights, corpus, lost, fresh))

    def columns(self, batch: Batch) -> tuple[Column]:
        """Return the mean score of the similar APIs, by their likeness."""
        corpus = self.corpus
        if corpus.specifications.is_exact:
            return (Dense((self.weights @ batch.product("ridge").T).T),)
        model = batch.found("ridge")

        def exact(pairs: Pairs) -> NDArray[np.float32]:
            return model.times(self.weights, pairs)

        starts, labels, _ = model.best(N_LIKELIEST)
        near = entries(self._similar_to, labels)
        keys = distinct(np.repeat(segments(starts), near.sizes) * corpus.n_apis + near.index)
        pairs = Pairs.of(keys, corpus.n_apis, len(batch))
        return (Sparse.positive(pairs, exact),)

    @cached_property
    def _similar_to(self) -> sparse.csr_array:
        """Of each API with history, those that are most like it."""
        return champions(sparse.csr_array(self.weights.T), N_SIMILAR_TO)


def _renewed(
    weights: sparse.csr_array, corpus: Corpus, lost: NDArray[Any], fresh: NDArray[Any]
) -> sparse.csr_array:
    """Return the weights where some rows have lost an API, and some APIs have history first now.

    Of the other rows only those are computed again that a fresh one enters: it must be as like the
    row's own API as the least like of those there.
    """
    if len(fresh):
        by_api = corpus.specifications.word_rows
        nearest = np.zeros(corpus.n_apis, dtype=np.float32)
        for first in range(0, len(fresh), _FRESH_AT_ONCE):
            some = sparse.csr_array(by_api[fresh[first : first + _FRESH_AT_ONCE]].T)
            np.maximum(nearest, (by_api @ some).max(axis=1).toarray().ravel(), out=nearest)
        floor = np.zeros(len(nearest))
        full = np.flatnonzero((np.diff(weights.indptr) >= N_SIMILAR) & (nearest > 0))
        last = corpus.labels[_least(weights)[full]]
        floor[full] = by_api[full].multiply(by_api[last]).sum(axis=1)
        lost = lost | ((nearest > 0) & (nearest >= floor * _ALIKE))
    changed = np.flatnonzero(lost)
    if not len(changed):
        return weights
    renewed = _most_similar(corpus, changed)
    return replaced_rows(weights, changed, renewed)


def _most_similar(corpus: Corpus, rows: NDArray[Any]) -> sparse.csr_array:
    """Return the weights of some APIs."""
    by_api, labels = corpus.specifications.word_rows, corpus.labels
    if len(labels) > EXACT and len(rows) * len(labels) > EXACT**2:
        return _likely_most_similar(by_api, labels, rows)
    labelled = sparse.csr_array(by_api[labels].T)
    keep = min(N_SIMILAR, len(labels))
    parts = [sparse.csr_array((0, len(labels)), dtype=np.float32)]
    block = min(1024, max(1, EXACT**2 // max(len(labels), 1)))
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


def _likely_most_similar(
    by_api: sparse.csr_array, labels: NDArray[Any], rows: NDArray[Any]
) -> sparse.csr_array:
    """Return the weights of some APIs of a large catalog, compared with likely ones only."""
    itself = np.full(by_api.shape[0], -1)
    itself[labels] = np.arange(len(labels))
    near = most_like(by_api[rows], by_api[labels], itself[rows], N_SIMILAR)
    total = np.asarray(near.sum(axis=1)).ravel()
    near.data /= np.repeat(np.maximum(total, 1e-9), np.diff(near.indptr)).astype(np.float32)
    return near


def _least(matrix: sparse.csr_array) -> NDArray[Any]:
    """Return where the least entry of each row is, of equal ones the first; -1 in empty rows."""
    columns = np.full(matrix.shape[0], -1)
    sizes = np.diff(matrix.indptr)
    (rows,) = np.nonzero(sizes)
    if len(rows):
        least = np.minimum.reduceat(matrix.data, matrix.indptr[rows])
        (places,) = np.nonzero(matrix.data == np.repeat(least, sizes[rows]))
        firsts = places[np.searchsorted(places, matrix.indptr[rows])]
        columns[rows] = matrix.indices[firsts]
    return columns
