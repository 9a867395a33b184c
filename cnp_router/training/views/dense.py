"""The dense view: requests and specifications as vectors of the user's encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.text.entries import entries
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus, Specifications
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.linear import times_vector
from cnp_router.training.prior import Belief
from cnp_router.training.vector_index import unit_vectors
from cnp_router.training.views.base import Batch, Evidence, View
from cnp_router.training.views.columns import (
    Column,
    Dense,
    Found,
    Sparse,
    at_places,
    vector_products,
)
from cnp_router.training.views.past_requests import CITED, PAST_POOL, POOL, citing
from cnp_router.training.views.votes import Votes

__all__ = ["DenseView"]

N_NEIGHBOURS = 40
_FLOOR = 0.8  # of the last neighbour's similarity: cosines of dense vectors are seldom near 0
_APART = 3.0  # standard deviations above the mean: what is as similar as that is cited


@dataclass(frozen=True, eq=False)
class DenseView(View):
    """What the other views ask of words, asked of vectors: of specifications and past requests.

    `gram` and `toward` are the sums that both linear models, `weights` and `map`, are solved from:
    of the products of past requests with themselves, and with the mean specification of what each
    used; `total` is the sum of the past requests. `map` is as that of `ExpectedView`. Of a large
    catalog, and of a long history, those are compared that an index proposes (`VectorIndex`).
    """

    name: ClassVar[str] = "dense"
    telling: ClassVar[int] = 5
    scores: ClassVar[tuple[str, ...]] = (
        "dense specification",  # cosine
        "dense neighbours",  # share of the nearest past requests that used it
        "dense nearest",  # cosine of the nearest past request that used it
        "dense centroid",  # cosine of the mean of the past requests that used it
        "dense ridge",  # linear model of the vectors against each API's use
        "dense expected",  # cosine of the specification that such requests call for
    )

    # The rank, since the cosines of one encoder mean something else than those of another.
    beliefs: ClassVar[Mapping[str, Belief]] = {
        "rank by dense specification": Belief(-0.2, 0.25, center=3.4)
    }

    gram: Annotated[NDArray[Any], "dimensions", "dimensions"]
    toward: Annotated[NDArray[Any], "dimensions", "dimensions"]
    total: Annotated[NDArray[Any], "dimensions"]
    weights: Annotated[NDArray[Any], "labels", "dimensions"]
    centroids: Annotated[NDArray[Any], "labels", "dimensions"]
    map: Annotated[NDArray[Any], "dimensions", "dimensions"]

    @classmethod
    def applies(cls, specifications: Specifications, days: NDArray[Any]) -> bool:
        """Return whether there are vectors."""
        return bool(specifications.vectors.shape[1])

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the linear models."""
        return cls._solved(corpus, *_sums(corpus, requests.dense, corpus.usage))

    @classmethod
    def _solved(
        cls, corpus: Corpus, gram: NDArray[Any], toward: NDArray[Any], total: NDArray[Any]
    ) -> Self:
        """Solve both ridge regressions, with a penalty of 1."""
        by_label = sparse.csr_array(corpus.usage[:, corpus.labels].T)
        used = by_label @ corpus.history_vectors
        penalised = gram + np.eye(len(gram), dtype=np.float32)
        solved = np.linalg.solve(penalised, np.hstack([used.T, toward])).astype(np.float32)
        weights = np.ascontiguousarray(solved[:, : len(used)].T)
        towards = np.ascontiguousarray(solved[:, len(used) :])
        return cls(corpus, gram, toward, total, weights, unit_vectors(used), towards)

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view fitted on all."""
        gram, toward, total = _sums(corpus, requests.dense, usage)
        return self._solved(corpus, self.gram + gram, self.toward + toward, self.total + total)

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view, fitted on all again if what was used is specified otherwise, or gone."""
        labels = self.corpus.labels
        if not (change.respecified[corpus.labels].any() or change.removed[labels].any()):
            return super().synced(corpus, change)
        return self._solved(corpus, *_sums(corpus, corpus.history_vectors, corpus.usage))

    def forget(self, batch: Batch, row: int, absent: NDArray[Any]) -> None:
        """Take away the past requests that used them."""
        past = np.unique(entries(self.corpus.mashups, absent).index)
        self._past(batch).forget(row, past)

    def columns(self, batch: Batch) -> tuple[Column, ...]:
        """Return the similarities, and what the linear model says."""
        vectors = batch.requests.dense
        expected = unit_vectors(_products(vectors, self.map.T))
        share, nearest = self._votes(self._past(batch))
        return (
            self._of_all(vectors),
            share,
            nearest,
            self._centroid(vectors),
            self._ridge(vectors),
            self._of_all(expected),
        )

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the past requests that used each API and mean about the same."""
        _, rows, similarity = self._past(evidence.batch).best(CITED)
        order = np.argsort(-similarity, kind="stable")
        rows = rows[order[similarity[order] > self._far(evidence.batch)]]
        return citing(evidence, self.corpus, rows, positions)

    def _far(self, batch: Batch) -> float:
        """Return how similar one of the past requests must be to be cited for the only request."""
        corpus = self.corpus
        if corpus.vector_index.is_exact:
            similarity = self._past(batch).whole
            return similarity.mean() + _APART * similarity.std() if similarity.size else 0
        # The same, without looking at all of them.
        (vector,), n_mashups = batch.requests.dense, len(corpus.history_vectors)
        mean = vector @ self.total / n_mashups
        square = vector @ times_vector(self.gram, vector) / n_mashups
        return float(mean + _APART * np.sqrt(max(square - mean**2, 0)))

    def _of_all(self, vectors: NDArray[Any]) -> Column:
        """Return the products of some vectors with those of the specifications."""
        known = self.corpus.specifications
        if known.vector_index.is_exact:
            return Dense(_products(vectors, known.vectors))
        found = Found(known.vector_index.products(vectors, known.vectors))
        return Sparse(*found.best(POOL), vector_products(vectors, known.vectors))

    def _centroid(self, vectors: NDArray[Any]) -> Column:
        if self.corpus.specifications.is_exact:
            return Dense(_products(vectors, self._all_centroids))
        return self._of_labels(vectors, self.centroids)

    @cached_property
    def _all_centroids(self) -> NDArray[Any]:
        """`centroids` of all APIs."""
        every = np.zeros((self.corpus.n_apis, self.centroids.shape[1]), dtype=np.float32)
        every[self.corpus.labels] = self.centroids
        return every

    def _ridge(self, vectors: NDArray[Any]) -> Column:
        few = self.corpus.few_labels
        return self._of_labels(vectors, self._few_weights if few else self.weights)

    @cached_property
    def _few_weights(self) -> NDArray[Any]:
        """`weights`, one dimension after the other: all of a few are multiplied faster so."""
        return np.asfortranarray(self.weights)

    def _of_labels(self, vectors: NDArray[Any], rows: NDArray[Any]) -> Column:
        """Return the products of some vectors with the row of each API with history."""
        corpus = self.corpus
        if corpus.few_labels:
            return Dense(_products(vectors, rows), corpus.labels, corpus.label_of)
        exact = at_places(vector_products(vectors, rows), corpus.label_of)
        return Sparse.silent(len(vectors), exact)

    def _past(self, batch: Batch) -> Found:
        """Return the cosines of past requests: of a short history all, those below 0 as 0."""

        def similar() -> Found:
            vectors, corpus = batch.requests.dense, self.corpus
            if not corpus.vector_index.is_exact:
                return Found(corpus.vector_index.products(vectors, corpus.history_vectors))
            past = _products(vectors, corpus.history_vectors)
            return Found(np.maximum(past, 0, out=past))

        past: Found = batch.once((self, "past"), similar)
        return past

    def _votes(self, past: Found) -> tuple[Column, Column]:
        """Return the share of the nearest past requests that used each API, and the nearest."""
        corpus = self.corpus
        if corpus.vector_index.is_exact:
            places = corpus.labels, corpus.label_of
            share, nearest = self._votes_of_all(past.whole)
            return Dense(share, *places), Dense(nearest, *places)
        starts, rows, similarity = past.best(N_NEIGHBOURS)
        sizes = np.diff(starts)
        floor, full = np.zeros(len(sizes), dtype=np.float32), sizes == N_NEIGHBOURS
        floor[full] = similarity[full.repeat(sizes)].reshape(-1, N_NEIGHBOURS).min(axis=1)
        weight = similarity - np.float32(_FLOOR) * floor.repeat(sizes)
        near, pool = Sparse(starts, rows, weight), Sparse(*past.best(PAST_POOL))
        return Votes(corpus, near).shares(weight), Votes(corpus, pool).highest(pool.values)

    def _votes_of_all(self, similarity: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the same for APIs with history: two of shape (n_requests, n_labels)."""
        labels, n_mashups = self.corpus.labels, similarity.shape[1]
        if not len(labels):
            none = np.zeros((len(similarity), 0), dtype=np.float32)
            return none, none
        floor = np.zeros((len(similarity), 1), dtype=np.float32)
        if n_mashups > N_NEIGHBOURS:
            floor = np.partition(similarity, -N_NEIGHBOURS, axis=1)[:, [-N_NEIGHBOURS]]
        weight = np.where(similarity >= floor, similarity - _FLOOR * floor, 0)
        total = np.maximum(weight.sum(axis=1, keepdims=True), np.float32(1e-9))
        share = (sparse.csr_array(weight / total) @ self.corpus.usage).toarray()[:, labels]
        uses, starts = self.corpus.uses
        return share, np.maximum.reduceat(similarity[:, uses], starts, axis=1)


def _sums(
    corpus: Corpus, vectors: NDArray[Any], usage: sparse.csr_array
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return what some past requests add to `gram`, `toward` and `total`."""
    sizes = np.diff(usage.indptr)[:, None]
    target = (usage @ corpus.specifications.vectors) / np.maximum(sizes, 1)
    gram, toward = vectors.T @ vectors, vectors.T @ target
    return gram.astype(np.float32), toward.astype(np.float32), vectors.sum(axis=0)


def _products(vectors: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the product of each of some vectors with each row of a matrix."""
    each = [times_vector(matrix, vector) for vector in vectors]  # alike alone and with others
    return np.array(each, dtype=np.float32).reshape(len(vectors), len(matrix))
