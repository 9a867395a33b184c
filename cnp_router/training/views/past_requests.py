"""The view of the past: which APIs served requests that say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing.result import Reason, used_by
from cnp_router.text import dense_product, unit_rows
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus, Specifications, entries
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.linear import (
    replaced_columns,
    ridge_weights,
    spread_columns,
    updated_weights,
)
from cnp_router.training.views.base import Batch, Dense, Evidence, Products, Sparse, View
from cnp_router.training.views.quotation import best_quote

__all__ = ["CITED", "HistoryView", "Neighbours", "citing", "similarities"]

N_NEIGHBOURS = 40
# How many past requests are looked at for a reason, and how similar one must be to be cited.
CITED = 10
_SIMILAR = 0.1
# For how many APIs one of them is quoted, and of how many the best is chosen.
_QUOTED = 5
_COMPARED = 2
_KEPT = 500


@dataclass(frozen=True)
class Neighbours:
    """The past requests most similar to one request, and how similar each is: above 0, to 1."""

    rows: NDArray[Any]
    similarity: NDArray[Any]


@dataclass(frozen=True, eq=False)
class HistoryView(View):
    """Past requests: a linear model of their words, the nearest of them, their mean by API.

    Columns of `centroids` have the length 1 or 0.
    """

    name: ClassVar[str] = "history"
    telling: ClassVar[int] = 2
    scores: ClassVar[tuple[str, ...]] = (
        "ridge",  # linear model of the words against each API's use
        "neighbours",  # share of the most similar past requests that used it
        "nearest",  # similarity of the most similar past request that used it
        "centroid",  # similarity to the mean of the past requests that used it
    )
    extras: ClassVar[tuple[str, ...]] = ("history size",)  # log(1 + mashups that used it)
    context: ClassVar[tuple[str, ...]] = (
        "best ridge",
        "best neighbours",
        "best nearest",
        "sum of ridge",  # how many APIs such requests use
        "sum of neighbours",
    )

    weights: Annotated[sparse.csr_array, "words", "labels"]
    centroids: Annotated[sparse.csr_array, "words", "apis"]

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the linear model and the means."""
        weights = ridge_weights(
            requests.word, sparse.csr_array(sparse.csc_array(corpus.usage)[:, corpus.labels])
        )
        by_api = sparse.csr_array(corpus.usage.T)
        scale = sparse.diags_array((1 / (corpus.counts + 1.0)).astype(np.float32))
        centroids = unit_rows(sparse.csr_array(scale @ (by_api @ requests.word)))
        return cls(corpus, weights, sparse.csr_array(centroids.T))

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view, fitted on the uses of those that have a past and were not there."""
        kept = super().synced(corpus, change)
        labels = corpus.labels
        (back,) = np.nonzero(change.apis.sum(axis=0)[labels] == 0)
        if not len(back):
            return kept
        by_api = sparse.csc_array(corpus.usage)[:, labels[back]]
        weights = ridge_weights(sparse.csr_array(corpus.history_words.T), by_api)
        return type(self)(
            corpus,
            sparse.csr_array(replaced_columns(kept.weights, back, weights)),
            _with_means(kept.centroids, corpus, labels[back]),
        )

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view with one more step of the linear model, and with the new means."""
        before = self.corpus
        weights = updated_weights(
            spread_columns(self.weights, before.labels, corpus.labels),
            before.history_words,
            requests.word,
            usage[:, corpus.labels],
        )
        changed = np.unique(usage.indices)
        return type(self)(corpus, weights, _with_means(self.centroids, corpus, changed))

    def products(self) -> Products:
        """Return the linear model, the means, and the past requests themselves."""
        return {
            "word": {
                "ridge": self.weights,
                "centroid": self.centroids,
                "past words": self.corpus.history_words,
            },
            "character": {"past characters": self.corpus.history_characters},
        }

    def forget(self, batch: Batch, row: int, absent: NDArray[Any]) -> None:
        """Take away the past requests that used them, and what the linear model says of them."""
        places = np.flatnonzero(np.isin(self.corpus.labels, absent))
        batch.product("ridge")[row, places] = 0
        past = np.unique(entries(self.corpus.mashups, absent).index)
        for name in ("past words", "past characters"):
            batch.product(name)[row, past] = 0

    def neighbours(self, batch: Batch) -> list[Neighbours]:
        """Return the past requests most similar to each request, by words and characters."""

        def similar() -> list[Neighbours]:
            return [nearest(row) for row in similarities(batch)]

        neighbours: list[Neighbours] = batch.once((self, "neighbours"), similar)
        return neighbours

    def columns(self, batch: Batch) -> tuple[Dense, Sparse, Sparse, Dense]:
        """Return the linear model's scores, the neighbours' votes and the similarity to means."""
        ridge = self._spread(batch.product("ridge"))
        votes = [self._votes(near) for near in self.neighbours(batch)]
        return (
            Dense(ridge),
            Sparse([(apis, share) for apis, share, _ in votes]),
            Sparse([(apis, nearest) for apis, _, nearest in votes]),
            Dense(batch.product("centroid")),
        )

    def linear(self, words: sparse.csr_array) -> NDArray[Any]:
        """Return the linear model's scores of any texts, of shape (n_texts, n_apis)."""
        return self._spread(dense_product(words, self.weights))

    def _spread(self, scores: NDArray[Any]) -> NDArray[Any]:
        every = np.zeros((len(scores), self.corpus.n_apis), dtype=np.float32)
        every[:, self.corpus.labels] = scores
        return every

    def _votes(self, near: Neighbours) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        used = entries(self.corpus.usage, near.rows)
        weight = np.repeat(near.similarity, used.sizes)
        share, nearest = np.zeros((2, self.corpus.n_apis), dtype=np.float32)
        np.add.at(share, used.index, weight**2)
        np.maximum.at(nearest, used.index, weight)
        apis = np.flatnonzero(nearest)
        total = max(np.square(near.similarity).sum(), np.float32(1e-12))
        return apis, share[apis] / total, nearest[apis]

    def features(self, batch: Batch, candidates: Sequence[NDArray[np.intp]]) -> list[NDArray[Any]]:
        """Return its scores of some candidates of each request, and how often they were used."""
        found = super().features(batch, candidates)
        for own, positions in zip(found, candidates, strict=True):
            own[-1] = np.log1p(self.corpus.counts[positions])
        return found

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return how well the past knows such requests, and how many APIs they used."""
        ridge, neighbours, nearest, _ = self.scored(batch).values()
        highest = [column.highest() for column in (ridge, neighbours, nearest)]
        return np.stack([*highest, ridge.total(), neighbours.total()], axis=1)

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the similar past requests that used each API."""
        (near,) = self.neighbours(evidence.batch)
        rows = near.rows[:CITED][near.similarity[:CITED] >= _SIMILAR]
        return citing(evidence, self.corpus, rows, positions)


def _with_means(
    centroids: sparse.csr_array, corpus: Corpus, apis: NDArray[Any]
) -> sparse.csr_array:
    """Return the means with those of some APIs made again."""
    by_api = sparse.csc_array(corpus.usage)[:, apis]
    renewed = unit_rows(sparse.csr_array((corpus.history_words @ by_api).T))
    return sparse.csr_array(replaced_columns(centroids, apis, renewed.T))


def similarities(batch: Batch) -> NDArray[Any]:
    """Return the similarity of each request to each past one, of shape (n_requests, n_mashups).

    The mean of the cosines of words and of characters, from 0 to 1.
    """

    def mean() -> NDArray[Any]:
        return np.asarray(batch.product("past words") + batch.product("past characters")) / 2

    found: NDArray[Any] = batch.once(similarities, mean)
    return found


def nearest(similarity: NDArray[Any]) -> Neighbours:
    """Return the most similar past requests, of equal ones the first."""
    rows = np.flatnonzero(similarity > 0)
    values = similarity[rows]
    if len(values) > N_NEIGHBOURS:
        best = values >= np.partition(values, -N_NEIGHBOURS)[-N_NEIGHBOURS]
        rows, values = rows[best], values[best]
    order = np.argsort(-values, kind="stable")[:N_NEIGHBOURS]
    return Neighbours(rows[order], values[order])


def citing(
    evidence: Evidence, corpus: Corpus, rows: NDArray[Any], positions: Sequence[int]
) -> dict[int, Reason]:
    """Return as reasons which of some past requests used each of some APIs.

    For the first APIs, the past request is quoted of which a part fits the request and the API.
    """
    used = entries(corpus.usage, rows)
    served: dict[int, list[int]] = {}
    for api, row in zip(used.index.tolist(), np.repeat(rows, used.sizes).tolist(), strict=True):
        served.setdefault(api, []).append(row)
    history, quoting = evidence.history, _Quoting(evidence, corpus.specifications)
    found = {}
    for place, position in enumerate(positions):
        if (own := served.get(position)) is None:
            continue
        text = used_by(len(own))
        if place < _QUOTED:
            colon = ":" if len(own) == 1 else ", such as"
            text = f"{text}{colon} “{quoting.quote(own, position)}”"
        found[position] = Reason("history", text, tuple(history[row].id for row in own))
    return found


class _Quoting:
    """Quotes past requests for one request."""

    def __init__(self, evidence: Evidence, specifications: Specifications) -> None:
        self._history = evidence.history
        self._encoder = specifications.encoders.word
        self._wanted = self._terms(evidence.batch.requests.word.indices)
        # Specifications by API, and the words of those that were lately asked for.
        self._by_api, self._said = specifications.once(
            _Quoting, lambda: (sparse.csc_array(specifications.word_columns), {})
        )

    def quote(self, rows: Sequence[int], api: int) -> str:
        """Return what fits the request and an API best, of past requests that used it."""
        if (said := self._said.get(api)) is None:
            places = self._by_api.indptr
            said = self._terms(self._by_api.indices[places[api] : places[api + 1]])
            if len(self._said) >= _KEPT:
                self._said.clear()
            self._said[api] = said
        texts = [self._history[row].description for row in rows[:_COMPARED]]
        return best_quote(texts, self._wanted, said, self._encoder.idf)

    def _terms(self, columns: NDArray[Any]) -> set[str]:
        terms = self._encoder.terms_
        return {terms[column] for column in columns.tolist()}
