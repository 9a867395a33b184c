"""`CoUsageFeatures`: what past mashups say of an API, given others that are used already."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing.head import is_in
from cnp_router.text.entries import Entries, entries
from cnp_router.training.co_occurrence import DOUBT, CoOccurrence
from cnp_router.training.corpus import Corpus
from cnp_router.training.keyed import distinct, scattered
from cnp_router.training.linear import pair_products
from cnp_router.training.views import Candidates, Neighbours

__all__ = ["FEATURES", "N_CO_USED", "N_FROM_TEXT", "CoUsageFeatures"]

FEATURES = (
    "log-odds",  # of the text
    "rank",  # in the text's order, as log(1 + rank)
    "ratio",  # to the best probability of the text
    "mass",  # sum of the text's probabilities: how many it expects
    "best",  # the text's best probability: how decisive it is
    "expected",  # the highest probability the text gave to a known API
    "strongest",  # log of the highest P(candidate | known API)
    "mean",  # log of the mean of these
    "any",  # probability that at least one of the known APIs calls for it, were they independent
    "lift",  # log of the highest, over the frequency of the candidate
    "reverse",  # the highest P(known API | candidate)
    "support",  # share of the known APIs it was used with
    "together",  # share of the mashups with all known APIs that used it
    "precedents",  # log(1 + number of these mashups)
    "alike",  # share of the mashups with known APIs that used it, weighted by likeness
    "likely neighbours",  # the same of the most similar requests
    "nearest",  # similarity of the most similar request that used it and a known API
    "categories",  # share of its categories that a known API has too
    "category co-usage",  # how often its categories come with those of the known APIs
    "likeness",  # of its specification to the most similar known one: what can stand in for it
    "mean likeness",
    "known",  # log of the number of known APIs
    "history",  # log(1 + mashups that used it)
    "most history",  # of the known APIs
    "least history",
)
N_FROM_TEXT = 20
N_CO_USED = 20
# Of a known API that more mashups used, the newest are looked at.
MOST_MASHUPS = 8_192
_FLOOR = 1e-4
_DOUBT = 0.005  # a conditional probability of less tells nothing
_DISTANT = 0.02  # neighbours whose squared similarities sum to less tell little


class CoUsageFeatures:
    """Past mashups as sets of APIs, to look up what was used together with some of them."""

    def __init__(self, corpus: Corpus, co_usage: CoOccurrence) -> None:
        self.co_usage = co_usage
        self.usage = corpus.usage
        self.mashups = corpus.mashups
        self.counts = corpus.counts
        self.membership = corpus.mean_membership
        self.specifications = corpus.specifications.latent

    @cached_property
    def category_co_usage(self) -> sparse.csc_array:
        """``[i, j]``: how often category i is that of an API used with one of category j."""
        scale = sparse.diags_array(self.counts / (self.counts + DOUBT))
        pairs = self.co_usage.together @ (scale @ self.membership)
        together = sparse.csc_array(self.membership.T @ pairs)
        total = np.asarray(together.sum(axis=0)).ravel()
        return sparse.csc_array(together @ sparse.diags_array(1 / (total + 2.0)))

    def candidates(
        self,
        positions: NDArray[np.intp],
        text: NDArray[np.float64],
        neighbours: Neighbours,
        known: Sequence[int] | NDArray[np.intp],
    ) -> Candidates:
        """Return the candidates for what else is needed: the text's best and the most co-used.

        The text's candidates ascend, and come with its probabilities; at least one API is known.
        None of the known is a candidate; `FEATURES` names the features.
        """
        used = distinct(np.asarray(known, dtype=np.intp))
        found = self.co_usage.given(used)
        partners = distinct(found.index)
        partners = partners[~is_in(partners, used)]
        strongest = _matrix(found, partners).max(axis=1)
        p = np.clip(text, _FLOOR, 1 - _FLOOR)
        n_apis = len(self.counts)
        is_open = scattered(used, 1.0, positions, n_apis) == 0
        expected = p[~is_open].max(initial=_FLOOR)
        open_, p = positions[is_open], p[is_open]
        pool = distinct(
            np.append(_best(p, open_, N_FROM_TEXT), _best(strongest, partners, N_CO_USED))
        )
        own = np.full(len(pool), _FLOOR)
        inside = scattered(pool, 1.0, open_, n_apis) > 0
        own[np.searchsorted(pool, open_[inside])] = p[inside]
        columns = [
            *_text_features(p.sum(), own),
            expected,
            *self._pairs(pool, used, _matrix(found, pool)),
            *self._sets(pool, used),
            *self._similar_requests(pool, used, neighbours),
            *self._kinds(pool, used),
            np.log(len(used)),
            np.log1p(self.counts[pool]),
            np.log1p(self.counts[used].max()),
            np.log1p(self.counts[used].min()),
        ]
        features = np.empty((len(pool), len(columns)), dtype=np.float32)
        for place, column in enumerate(columns):
            features[:, place] = column
        return Candidates(pool, features)

    def _pairs(
        self, pool: NDArray[np.intp], known: NDArray[np.intp], given: NDArray[np.float64]
    ) -> list[Any]:
        """Compare candidates with one known API at a time."""
        highest = given.max(axis=1)
        frequency = (self.counts[pool] + 1) / (self.usage.shape[0] + 2)
        reverse = given * (self.counts[known] + 2) / (self.counts[pool] + 2)[:, None]
        return [
            np.log(highest + _DOUBT),
            np.log(given.mean(axis=1) + _DOUBT),
            1 - np.prod(1 - given, axis=1),
            np.log((highest + _DOUBT) / (frequency + _DOUBT)),
            reverse.max(axis=1),
            (given > 0).mean(axis=1),
        ]

    def _sets(self, pool: NDArray[np.intp], known: NDArray[np.intp]) -> list[Any]:
        """Count candidates in the mashups that used some of the known APIs."""
        rows = distinct(
            np.concatenate(
                [
                    self.mashups.indices[max(start, end - MOST_MASHUPS) : end]
                    for start, end in zip(
                        self.mashups.indptr[known], self.mashups.indptr[known + 1], strict=True
                    )
                ]
            )
        )
        found = entries(self.usage, rows)
        n_apis = len(self.counts)
        mashup = np.repeat(np.arange(len(rows)), found.sizes)
        is_known = scattered(known, 1.0, found.index, n_apis)
        shared = np.bincount(mashup, is_known, len(rows))
        whole = shared == len(known)
        # The squared cosine of the two sets.
        alike = shared**2 / (found.sizes * len(known))
        place = scattered(pool, np.arange(1, len(pool) + 1), found.index, n_apis).astype(np.intp)
        together = np.bincount(place, whole[mashup], len(pool) + 1)[1:]
        votes = np.bincount(place, alike[mashup], len(pool) + 1)[1:]
        return [
            together / (whole.sum() + 2),
            np.log1p(whole.sum()),
            votes / (alike.sum() + 1),
        ]

    def _similar_requests(
        self, pool: NDArray[np.intp], known: NDArray[np.intp], near: Neighbours
    ) -> list[Any]:
        """Count candidates in the most similar requests, where they used a known API."""
        n_apis = len(self.counts)
        found = entries(self.usage, near.rows)
        row = np.repeat(np.arange(len(near.rows)), found.sizes)
        is_known = scattered(known, 1.0, found.index, n_apis)
        share = np.bincount(row, is_known, len(near.rows)) / len(known)
        weight = near.similarity**2 * share
        place = scattered(pool, np.arange(1, len(pool) + 1), found.index, n_apis).astype(np.intp)
        votes = np.bincount(place, weight[row], len(pool) + 1)[1:]
        nearest = np.zeros(len(pool) + 1)
        np.maximum.at(nearest, place, (near.similarity * share)[row])
        return [votes / (weight.sum() + _DISTANT), nearest[1:]]

    def _kinds(self, pool: NDArray[np.intp], known: NDArray[np.intp]) -> list[Any]:
        """Compare categories and specifications of candidates with those of the known APIs."""
        n_categories = self.membership.shape[1]
        found = entries(self.membership, known)
        share = np.bincount(found.index, found.data, n_categories)
        related = self.category_co_usage @ (share / len(known))
        own = entries(self.membership, pool)
        row = np.repeat(np.arange(len(pool)), own.sizes)
        likeness = pair_products(self.specifications[pool], self.specifications[known])
        return [
            np.bincount(row, own.data * (share > 0)[own.index], len(pool)),
            np.bincount(row, own.data * related[own.index], len(pool)),
            likeness.max(axis=1),
            likeness.mean(axis=1),
        ]


def _matrix(found: Entries, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return what some columns have in some rows, which ascend: (n_rows, n_columns)."""
    dense = np.zeros((len(rows), len(found.sizes)))
    place = np.searchsorted(rows, found.index)
    inside = np.flatnonzero(place < len(rows))
    inside = inside[rows[place[inside]] == found.index[inside]]
    column = np.repeat(np.arange(len(found.sizes)), found.sizes)
    dense[place[inside], column[inside]] = found.data[inside]
    return dense


def _best(scores: NDArray[np.float64], positions: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return the positions of the highest scores, of equal ones the first."""
    return positions[np.argsort(-scores, kind="stable")[:n]]


def _text_features(mass: float, p: NDArray[np.float64]) -> list[Any]:
    rank = np.empty(len(p))
    rank[np.argsort(-p, kind="stable")] = np.arange(len(p))
    best = p.max(initial=_FLOOR)
    return [np.log(p / (1 - p)), np.log1p(rank), p / best, mass, best]
