"""The view of the past: which APIs served requests that say the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing.result import Reason, used_by
from cnp_router.text import dense_product, unit_rows
from cnp_router.text.entries import entries
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus, Specifications
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.linear import (
    replaced_columns,
    ridge_weights,
    spread_columns,
    updated_weights,
)
from cnp_router.training.postings import (
    MOST,
    best_of_each,
    best_products,
    champions,
    ranked,
    row_products,
    segments,
)
from cnp_router.training.views.base import Batch, Evidence, Indexes, Products, View
from cnp_router.training.views.columns import Column, Dense, Pairs, Sparse, at_places
from cnp_router.training.views.quotation import best_quote
from cnp_router.training.views.votes import Votes

__all__ = [
    "CITED",
    "PAST_POOL",
    "POOL",
    "HistoryView",
    "Neighbours",
    "among_nearest",
    "citing",
    "nearest",
    "past",
    "votes",
]

N_NEIGHBOURS = 40
# How many APIs, and past requests, an index proposes to be looked at exactly.
POOL, PAST_POOL = 100, 256
PAST_COMPARED = 128  # past requests whose characters are looked at, too
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

    Columns of `centroids` have the length 1 or 0. Of each term both keep the weightiest labels.
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
    centroids: Annotated[sparse.csr_array, "words", "labels"]

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the linear model and the means."""
        by_label = _by_label(corpus, corpus.labels)
        weights = ridge_weights(requests.word, by_label, low_rank=corpus.low_rank)
        return cls(corpus, weights, _means(corpus, corpus.labels))

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view, fitted on the uses of those that have a past and were not there."""
        kept = super().synced(corpus, change)
        labels = corpus.labels
        (back,) = np.nonzero(change.added[labels])
        if not len(back):
            return kept
        by_label = _by_label(corpus, labels[back])
        weights = ridge_weights(corpus.word_rows, by_label, low_rank=corpus.low_rank)
        means = _means(corpus, labels[back])
        return type(self)(
            corpus,
            replaced_columns(kept.weights, back, weights),
            replaced_columns(kept.centroids, back, means),
        )

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view with one more step of the linear model, and with the new means."""
        before = self.corpus
        weights = updated_weights(
            spread_columns(self.weights, before.labels, corpus.labels),
            before.energy,
            requests.word,
            usage[:, corpus.labels],
        )
        changed = np.unique(usage.indices)
        centroids = replaced_columns(
            spread_columns(self.centroids, before.labels, corpus.labels),
            corpus.label_of[changed],
            _means(corpus, changed),
        )
        return type(self)(corpus, weights, centroids)

    def products(self) -> Products:
        """Return the linear model, the means, and the past requests themselves."""
        corpus, products = self.corpus, {}
        if corpus.few_labels:
            products = {"ridge": self.weights, "centroid": self.centroids}
        if not corpus.is_exact:
            return {"word": products}
        return {
            "word": {**products, "past words": corpus.history_words},
            "character": {"past characters": corpus.history_characters},
        }

    def indexes(self) -> Indexes:
        """Return the same where there are too many labels, or past requests, to look at all."""
        corpus, indexes = self.corpus, {}
        if not corpus.few_labels:
            indexes = {"ridge": ("word", self.weights), "centroid": ("word", self.centroids)}
        if not corpus.is_exact:
            indexes["past words"] = ("word", corpus.history_words)
        return indexes

    def forget(self, batch: Batch, row: int, absent: NDArray[Any]) -> None:
        """Take away the past requests that used them, and what the linear model says of them."""
        places = self.corpus.label_of[absent]
        batch.found("ridge").forget(row, places[places >= 0])
        past = np.unique(entries(self.corpus.mashups, absent).index)
        batch.found("past words").forget(row, past)
        if self.corpus.is_exact:
            batch.found("past characters").forget(row, past)

    def neighbours(self, batch: Batch) -> list[Neighbours]:
        """Return the past requests most similar to each request, by words and characters."""
        near = self._nearest(batch)
        ends = near.starts.tolist()
        return [
            Neighbours(near.positions[start:end], near.values[start:end])
            for start, end in itertools.pairwise(ends)
        ]

    def _nearest(self, batch: Batch) -> Sparse:
        near: Sparse = batch.once(self._nearest, lambda: nearest(past(batch, self.corpus)))
        return near

    def columns(self, batch: Batch) -> tuple[Column, ...]:
        """Return the linear model's scores, the neighbours' votes and the similarity to means."""
        voting = votes(batch, self.corpus)
        near = among_nearest(voting.past)
        return (
            self._of_labels(batch, "ridge"),
            voting.shares(near * near),
            voting.highest(near),
            self._of_labels(batch, "centroid"),
        )

    def _of_labels(self, batch: Batch, name: str) -> Column:
        corpus = self.corpus
        if corpus.few_labels:
            return Dense(batch.product(name), corpus.labels, corpus.label_of)
        found = batch.found(name)
        starts, labels, values = found.best(POOL)
        exact = at_places(found.at, corpus.label_of)
        return Sparse(starts, corpus.labels[labels], values, exact)

    def linear(self, words: sparse.csr_array) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the linear model's scores of any texts: places in the labels, ascending, and them.

        The scores are of shape (n_texts, n_places); elsewhere the model says little or nothing.
        """
        if self.corpus.few_labels:
            return np.arange(len(self.corpus.labels)), dense_product(words, self.weights)
        starts, labels, values = best_products(words, self.weights, POOL)
        places, at = np.unique(labels, return_inverse=True)
        scores = np.zeros((words.shape[0], len(places)), dtype=np.float32)
        scores[segments(starts), at] = values
        return places, scores

    def features(self, batch: Batch, pairs: Pairs) -> NDArray[np.float32]:
        """Return how often each API was used."""
        return np.asarray(np.log1p(self.corpus.counts[pairs.positions])[None])

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


def _by_label(corpus: Corpus, apis: NDArray[Any]) -> sparse.csr_array:
    return sparse.csr_array(corpus.mashups[:, apis])


def _means(corpus: Corpus, apis: NDArray[Any]) -> sparse.csr_array:
    """Return the means of the past requests that used some APIs, each of length 1."""
    sums = sparse.csr_array(sparse.csr_array(_by_label(corpus, apis).T) @ corpus.word_rows)
    means = sparse.csr_array(unit_rows(sums).T)
    return means if corpus.few_labels else champions(means, MOST)


def past(batch: Batch, corpus: Corpus) -> Sparse:
    """Return the past requests that are similar to each request, and how similar each is.

    The mean of the cosines of words and of characters, above 0, to 1. Of a long history they are
    those that have the most telling words in common; `Sparse.positions` are their rows.
    """

    def found() -> Sparse:
        if corpus.is_exact:
            words, characters = batch.product("past words"), batch.product("past characters")
            values = (words + characters).ravel() / 2
            flat = np.flatnonzero(values > 0)
            rows, columns = np.divmod(flat, max(words.shape[1], 1))
            starts = np.searchsorted(rows, np.arange(len(batch) + 1))
            return Sparse(starts, columns, values[flat])
        starts, rows, _ = batch.found("past words").best(PAST_POOL)
        word = row_products(batch.requests.word, corpus.word_rows, rows, starts)
        likely = best_of_each(word, starts, PAST_COMPARED)
        starts, rows, word = likely.searchsorted(starts), rows[likely], word[likely]
        character = row_products(batch.requests.character, corpus.character_rows, rows, starts)
        return Sparse(starts, rows, (word + character) / np.float32(2))

    similar: Sparse = batch.once(past, found)
    return similar


def votes(batch: Batch, corpus: Corpus) -> Votes:
    """Return what the `past` requests of a batch vote for."""
    made: Votes = batch.once(votes, lambda: Votes(corpus, past(batch, corpus)))
    return made


def among_nearest(past: Sparse) -> NDArray[np.float32]:
    """Return the values of past requests, with 0 for those that are not the nearest."""
    best = best_of_each(past.values, past.starts, N_NEIGHBOURS)
    near = np.zeros_like(past.values)
    near[best] = past.values[best]
    return near


def nearest(past: Sparse) -> Sparse:
    """Return the past requests most like each request, best first; of equal ones the first."""
    best = best_of_each(past.values, past.starts, N_NEIGHBOURS)
    starts = best.searchsorted(past.starts)
    order, _ = ranked(past.values[best], starts)
    best = best[order]
    return Sparse(starts, past.positions[best], past.values[best])


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
        self._read = specifications.encoders.boilerplate.without
        self._wanted = self._terms(evidence.batch.requests.word.indices)
        # The words of the specifications that were lately asked for.
        self._by_api = specifications.word_rows
        self._said = specifications.once(_Quoting, dict)

    def quote(self, rows: Sequence[int], api: int) -> str:
        """Return what fits the request and an API best, of past requests that used it."""
        if (said := self._said.get(api)) is None:
            places = self._by_api.indptr
            said = self._terms(self._by_api.indices[places[api] : places[api + 1]])
            if len(self._said) >= _KEPT:
                self._said.clear()
            self._said[api] = said
        texts = [self._read(self._history[row].description) for row in rows[:_COMPARED]]
        return best_quote(texts, self._wanted, said, self._encoder.idf)

    def _terms(self, columns: NDArray[Any]) -> set[str]:
        terms = self._encoder.terms_
        return {terms[column] for column in columns.tolist()}
