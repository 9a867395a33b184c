"""The dense view: requests and specifications as vectors of the user's encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from cnp_router.training.views.base import Batch, Evidence, View
from cnp_router.training.views.columns import Dense
from cnp_router.training.views.past_requests import CITED, citing

__all__ = ["DenseView"]

N_NEIGHBOURS = 40
_FLOOR = 0.8  # of the last neighbour's similarity: cosines of dense vectors are seldom near 0
_FEW = 4  # requests
_APART = 3.0  # standard deviations above the mean: what is as similar as that is cited


@dataclass(frozen=True, eq=False)
class DenseView(View):
    """What the other views ask of words, asked of vectors: of specifications and past requests.

    `gram` and `toward` are the sums that both linear models, `weights` and `map`, are solved from:
    of the products of past requests with themselves, and with the mean specification of what each
    used. `map` is as that of `ExpectedView`.
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
    weights: Annotated[NDArray[Any], "dimensions", "labels"]
    map: Annotated[NDArray[Any], "dimensions", "dimensions"]

    def __post_init__(self) -> None:
        sums = sparse.csr_array(self.corpus.usage.T) @ self.corpus.history_vectors
        object.__setattr__(self, "_centroids", _unit(sums))

    @classmethod
    def applies(cls, specifications: Specifications, days: NDArray[Any]) -> bool:
        """Return whether there are vectors."""
        return bool(specifications.vectors.shape[1])

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the linear models."""
        return cls._solved(corpus, *_sums(corpus, requests.dense, corpus.usage))

    @classmethod
    def _solved(cls, corpus: Corpus, gram: NDArray[Any], toward: NDArray[Any]) -> Self:
        """Solve both ridge regressions, with a penalty of 1."""
        by_label = sparse.csr_array(corpus.usage[:, corpus.labels].T)
        used = (by_label @ corpus.history_vectors).T
        penalised = gram + np.eye(len(gram), dtype=np.float32)
        solved = np.linalg.solve(penalised, np.hstack([used, toward])).astype(np.float32)
        n_labels = used.shape[1]
        weights = np.ascontiguousarray(solved[:, :n_labels])
        return cls(corpus, gram, toward, weights, np.ascontiguousarray(solved[:, n_labels:]))

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view fitted on all."""
        gram, toward = _sums(corpus, requests.dense, usage)
        return self._solved(corpus, self.gram + gram, self.toward + toward)

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view, fitted on all again if what was used is specified otherwise now."""
        if not change.respecified[corpus.labels].any():
            return super().synced(corpus, change)
        return self._solved(corpus, *_sums(corpus, corpus.history_vectors, corpus.usage))

    def forget(self, batch: Batch, row: int, absent: NDArray[Any]) -> None:
        """Take away the past requests that used them."""
        past = np.unique(entries(self.corpus.mashups, absent).index)
        self._similarity(batch)[row, past] = 0

    def columns(self, batch: Batch) -> tuple[Dense, ...]:
        """Return all similarities, and what the linear model says."""
        vectors, index = batch.requests.dense, self.corpus.specifications
        share, nearest = self._votes(self._similarity(batch))
        ridge = np.zeros((len(batch), self.corpus.n_apis), dtype=np.float32)
        ridge[:, self.corpus.labels] = _products(vectors, self.weights.T)
        expected = _unit(_products(vectors, self.map.T))
        centroids: NDArray[Any] = self._centroids  # type: ignore[attr-defined]
        scores = (
            _products(vectors, index.vectors),
            share,
            nearest,
            _products(vectors, centroids),
            ridge,
            _products(expected, index.vectors),
        )
        return tuple(Dense(values) for values in scores)

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the past requests that used each API and mean about the same."""
        (similarity,) = self._similarity(evidence.batch)
        far = similarity.mean() + _APART * similarity.std() if len(similarity) else 0
        rows = np.argsort(-similarity, kind="stable")[:CITED]
        return citing(evidence, self.corpus, rows[similarity[rows] > far], positions)

    def _similarity(self, batch: Batch) -> NDArray[Any]:
        """Return the cosine of each past request, at least 0: of shape (n_requests, n_mashups)."""

        def similar() -> NDArray[Any]:
            past = _products(batch.requests.dense, self.corpus.history_vectors)
            np.maximum(past, 0, out=past)
            return past

        similarity: NDArray[Any] = batch.once((self, "similarity"), similar)
        return similarity

    def _votes(self, similarity: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the share of the nearest past requests that used each API, and the nearest."""
        share, nearest = np.zeros((2, len(similarity), self.corpus.n_apis), dtype=np.float32)
        n_mashups = similarity.shape[1]
        if not n_mashups:
            return share, nearest
        floor = np.zeros((len(similarity), 1), dtype=np.float32)
        if n_mashups > N_NEIGHBOURS:
            floor = np.partition(similarity, -N_NEIGHBOURS, axis=1)[:, [-N_NEIGHBOURS]]
        weight = np.where(similarity >= floor, similarity - _FLOOR * floor, 0)
        total = np.maximum(weight.sum(axis=1, keepdims=True), np.float32(1e-9))
        share = (sparse.csr_array(weight / total) @ self.corpus.usage).toarray()
        if len(self.corpus.labels):
            uses, starts = self.corpus.uses
            nearest[:, self.corpus.labels] = np.maximum.reduceat(
                similarity[:, uses], starts, axis=1
            )
        return share, nearest


def _sums(
    corpus: Corpus, vectors: NDArray[Any], usage: sparse.csr_array
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what some past requests add to `gram` and `toward`."""
    sizes = np.diff(usage.indptr)[:, None]
    target = (usage @ corpus.specifications.vectors) / np.maximum(sizes, 1)
    gram, toward = vectors.T @ vectors, vectors.T @ target
    return gram.astype(np.float32), toward.astype(np.float32)


def _products(vectors: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the product of each of some vectors with each row of a matrix."""
    if len(vectors) <= _FEW:
        each = [times_vector(matrix, vector) for vector in vectors]
        return np.array(each, dtype=np.float32).reshape(len(vectors), len(matrix))
    return np.asarray(vectors @ matrix.T)


def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32)
