"""The candidates of many requests as the first stage ranks them, in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.co_occurrence import CoOccurrence
from cnp_router.training.linear import Logistic, sigmoid
from cnp_router.training.postings import reduced
from cnp_router.training.views import Candidates

__all__ = ["N_REST_FEATURES", "N_SET_FEATURES", "SHORTLIST", "Shortlists"]

SHORTLIST = 40
N_SET_FEATURES = 6
N_REST_FEATURES = 4
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class Shortlists:
    """Candidates of several requests, one request after the other, and the best of each.

    Those of a request begin at its place in `starts`, of shape (n_requests + 1,). Each has its
    position in the catalog, the log-odds `x` of the first stage, and its `rank` among those of its
    request, from 0. `kept` are the places of the best of each request, best first.
    """

    starts: NDArray[Any]
    positions: NDArray[Any]
    x: NDArray[Any]
    rank: NDArray[Any]
    kept: NDArray[Any]

    @classmethod
    def of(cls, first: Logistic, found: Sequence[Candidates]) -> Shortlists:
        """Rank the candidates of some requests; of equal ones the first comes first."""
        if len(found) == 1:
            (own,) = found
            x = first.log_odds(own.features)
            order = np.argsort(-x, kind="stable")
            rank = np.empty(len(x), dtype=np.intp)
            rank[order] = np.arange(len(x))
            return cls(np.array([0, len(x)]), own.positions, x, rank, order[:SHORTLIST])
        sizes = np.array([len(own.positions) for own in found], dtype=np.intp)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        if not starts[-1]:
            none = np.zeros(0, dtype=np.intp)
            return cls(starts, none, np.zeros(0), none, none)
        x = np.concatenate([first.log_odds(own.features) for own in found])
        place = np.arange(sizes.max())
        there = place < sizes[:, None]
        padded = np.full(there.shape, np.inf)
        padded[there] = -x
        order = np.argsort(padded, axis=1, kind="stable")
        ranks = np.empty(there.shape, dtype=np.intp)
        np.put_along_axis(ranks, order, place[None], axis=1)
        best = (order + starts[:-1, None])[:, :SHORTLIST]
        kept = best[there[:, :SHORTLIST]]
        positions = np.concatenate([own.positions for own in found])
        return cls(starts, positions, x, ranks[there], kept)

    @cached_property
    def sizes(self) -> NDArray[Any]:
        """How many candidates each request has."""
        return np.diff(self.starts)

    @cached_property
    def n_kept(self) -> NDArray[Any]:
        """How many of each request are kept."""
        return np.asarray(np.minimum(self.sizes, SHORTLIST))

    @cached_property
    def left(self) -> NDArray[Any]:
        """The places of all others."""
        return np.flatnonzero(self.rank >= SHORTLIST)

    @cached_property
    def n_left(self) -> NDArray[Any]:
        """How many these are of each request."""
        return np.asarray(self.sizes - self.n_kept)

    @cached_property
    def p(self) -> NDArray[Any]:
        """The probability of each candidate in the first stage."""
        return np.asarray(np.clip(sigmoid(self.x), _LEAST, 1 - _LEAST))

    @cached_property
    def mass(self) -> NDArray[Any]:
        """The sum of these, by request."""
        return reduced(np.add, self.p, self.starts)

    @cached_property
    def best(self) -> NDArray[Any]:
        """The highest of these, by request; 0 where it has no candidates."""
        return reduced(np.maximum, self.p, self.starts)

    def features(self, co_usage: CoOccurrence, found: Sequence[Candidates]) -> NDArray[Any]:
        """Return what the second stage sees of those kept: (n_kept, n_features + 6), float32.

        Their features, and the first stage's picture of the set: its log-odds, rank, ratio to the
        best, sum and best of its probabilities, and the co-usage with what it expects.
        """
        n_kept, kept = self.n_kept, self.kept
        short = self.p[kept]
        n_features = found[0].features.shape[1]
        X = np.empty((len(kept), n_features + N_SET_FEATURES), dtype=np.float32)
        ends = np.cumsum(n_kept).tolist()
        own = kept - self.starts[:-1].repeat(n_kept)
        for each, start, end in zip(found, [0, *ends], ends, strict=False):
            X[start:end, :n_features] = each.features.take(own[start:end], axis=0)
        best = self.best.repeat(n_kept)
        X[:, n_features] = np.log(short / (1 - short))
        X[:, n_features + 1] = np.log1p(self.rank[kept])
        X[:, n_features + 2] = short / best
        X[:, n_features + 3] = self.mass.repeat(n_kept)
        X[:, n_features + 4] = best
        X[:, n_features + 5] = co_usage.expected(
            self.positions[kept], n_kept, self.positions, self.starts, self.p
        )
        return X

    def rest_features(self) -> NDArray[Any]:
        """Return what tells how probable those are that are left, of shape (n_left, 4).

        Log-odds and rank in the first stage; its sum and its best, which are the request's.
        """
        left = self.left
        q = self.p[left]
        some = self.n_left > 0
        n_left = self.n_left[some]
        features = np.empty((len(left), N_REST_FEATURES))
        features[:, 0] = np.log(q / (1 - q))
        features[:, 1] = np.log1p(self.rank[left])
        features[:, 2] = np.log(self.mass[some]).repeat(n_left)
        features[:, 3] = np.log(self.best[some]).repeat(n_left)
        return features

    def combined(self, short: NDArray[Any], rest: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of each candidate, given those of the kept and of the left.

        Far from what it was fitted on, such as with many new APIs, the one of the left may say
        anything: they are kept below the middle of the shortlist, in their own order.
        """
        result = np.empty(len(self.x))
        result[self.kept] = short
        left = self.left
        if not len(left):
            return result
        n_kept = self.n_kept
        padded = np.full((len(n_kept), SHORTLIST), np.inf)
        padded[np.arange(SHORTLIST) < n_kept[:, None]] = short
        padded.sort(axis=1)
        each = np.arange(len(n_kept))
        middle = 0.5 * (padded[each, (n_kept - 1) // 2] + padded[each, n_kept // 2])
        starts = np.zeros(len(n_kept) + 1, dtype=np.intp)
        self.n_left.cumsum(out=starts[1:])
        most = reduced(np.maximum, rest, starts)
        scale = np.where(most > middle, middle / np.maximum(most, 1e-300), 1.0)
        result[left] = rest * scale.repeat(self.n_left)
        return result
