"""The registry of views, and `Views`: all of them, fitted on one corpus."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.routing import Reason
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus, Specifications
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.lost import lost
from cnp_router.training.parts import placed
from cnp_router.training.postings import sort_each
from cnp_router.training.prior import Belief
from cnp_router.training.views.base import (
    Batch,
    Candidates,
    Evidence,
    FusedProduct,
    Products,
    View,
)
from cnp_router.training.views.category import CategoryView
from cnp_router.training.views.co_usage import CoUsageView
from cnp_router.training.views.columns import Pairs, named
from cnp_router.training.views.date import DateView
from cnp_router.training.views.dense import DenseView
from cnp_router.training.views.expected import ExpectedView
from cnp_router.training.views.names import NamesView
from cnp_router.training.views.past_requests import HistoryView
from cnp_router.training.views.similar import SimilarView
from cnp_router.training.views.specification import SpecificationView

__all__ = ["VIEWS", "Views", "applying"]

# The registry, in the order of the features. Not every view applies to every corpus.
VIEWS: tuple[type[View], ...] = (
    HistoryView,
    SpecificationView,
    NamesView,
    ExpectedView,
    CategoryView,
    CoUsageView,
    SimilarView,
    DateView,
    DenseView,
)

PER_SCORE = 25  # candidates
NEXT_BEST = 75
MOST_REASONS = 3

_TOGETHER = 1 << 16  # features that are made at once: about what a cache holds
_POSITIVE = np.int32(0x7FFFFFFF)

V = TypeVar("V", bound=View)


class Views:
    """The views that apply to a corpus, fitted on it; a view is looked up by its class.

    Attributes
    ----------
    corpus : Corpus
    kinds : tuple of View types
        Those that apply, in the order of the registry.
    score_names, feature_names : tuple of str
        What the columns of `Candidates.features` are: the scores come first.
    likeness_names : tuple of str
        Of the scores, those that tell how well an API fits.
    """

    def __init__(self, corpus: Corpus, views: dict[type[View], View]) -> None:
        self.corpus = corpus
        self._views = views
        self.kinds: tuple[type[View], ...] = tuple(views)
        self.score_names: tuple[str, ...] = tuple(name for view in self for name in view.scores)
        told = [view.tells_fit for view in self for _ in view.scores]
        self._likeness = np.flatnonzero(told)
        self.likeness_names: tuple[str, ...] = tuple(self.score_names[i] for i in self._likeness)
        self.feature_names: tuple[str, ...] = (
            *self.score_names,
            *(f"rank by {name}" for name in self.score_names),
            *(f"share of the best {name}" for name in self.score_names),
            *(name for view in self for name in view.extras),
            *(name for view in self for name in view.context),
        )
        self.beliefs: dict[str, Belief] = {
            name: belief for view in self for name, belief in view.beliefs.items()
        }
        parts: Products = {}
        for view in self:
            for encoder, matrices in view.products().items():
                parts.setdefault(encoder, {}).update(matrices)
        self._fused = {
            encoder: FusedProduct(matrices, in_order=encoder == "character")
            for encoder, matrices in parts.items()
        }
        self._indexes = {name: index for view in self for name, index in view.indexes().items()}

    def _made(self, corpus: Corpus, make: Callable[[View], View]) -> Views:
        return Views(corpus, {kind: make(view) for kind, view in self._views.items()})

    @classmethod
    def fit(
        cls,
        corpus: Corpus,
        requests: EncodedRequests,
        kinds: Sequence[type[View]] | None = None,
    ) -> Views:
        """Fit every view on the past requests of a corpus, which are given encoded too.

        `kinds` are those that apply, unless others are given: to a part of a corpus, those that
        apply to the whole.
        """
        kinds = applying(corpus.specifications, corpus.days) if kinds is None else kinds
        return cls(corpus, {kind: kind.fit(corpus, requests) for kind in kinds})

    def fitted_anew(self, kind: type[View], requests: EncodedRequests) -> Views:
        """Return the views, one of them fitted anew on the past requests, where it applies."""
        anew = {kind: kind.fit(self.corpus, requests)} if kind in self._views else {}
        return Views(self.corpus, self._views | anew)

    def synced(
        self,
        catalog: Catalog,
        usage: sparse.csr_array,
        membership: sparse.csr_array,
        change: CatalogChange,
    ) -> Views:
        """Return the views of the same past requests and another catalog, without fitting again.

        `usage` says what each past request used of it, and `membership` is that of the known
        categories.
        """
        before = self.corpus.specifications
        specifications = before.synced(catalog, change)
        wider = before.encoders.widening(specifications.encoders)
        corpus = replace(
            self.corpus.moved(wider, specifications=specifications),
            usage=usage,
            membership=membership,
            fitted=placed(self.corpus.fitted, change.apis, 0),
            lost=lost(self.corpus, specifications, usage, change),
        )
        return self._made(corpus, lambda view: view.synced(corpus, change))

    def observed(self, requests: EncodedRequests, usage: sparse.csr_array) -> Views:
        """Return views that also know some new mashups, and what they used, without fitting again.

        What is counted, added up or remembered is as if fitted on all; the large linear models are
        corrected (`cnp_router.training.linear.updated_weights`); new words are known from now on
        where few texts were (`Encoders.observed`), and known categories stay as they are. Models
        and indexes are copied, the past requests only by whoever is first.
        """
        before, encoders = self.corpus, self.corpus.encoders.observed(requests.texts)
        wider = before.encoders.widening(encoders)
        if wider:
            before, requests = before.knowing(encoders, wider), encoders.reworded(requests)
        corpus = before.observed(requests, usage)

        def after(view: View) -> View:
            known = view.moved(wider, corpus=before) if wider else view
            return known.observed(corpus, requests, usage)

        return self._made(corpus, after)

    def __getitem__(self, kind: type[V]) -> V:
        view = self._views[kind]
        assert isinstance(view, kind)
        return view

    def __iter__(self) -> Iterator[View]:
        return iter(self._views.values())

    def batch(self, requests: EncodedRequests, absent: Sequence[NDArray[Any]] = ()) -> Batch:
        """Return requests as the views look at them.

        `absent` holds, if given, the positions that each request is looked at without: as if they
        had never been in the catalog, nor in the history.
        """
        batch = Batch(requests, self._fused, self._indexes, absent)
        for row, positions in enumerate(absent):
            for view in self:
                view.forget(batch, row, positions)
        return batch

    def candidates(self, batch: Batch) -> list[Candidates]:
        """Return the candidates of each request: the best by each score of each view."""
        n_apis, n_requests = self.corpus.n_apis, len(batch)
        columns = [column for view in self for column in view.scored(batch).values()]
        found = named(columns, n_requests, n_apis, PER_SCORE, NEXT_BEST)
        pairs = Pairs.of(found.best, n_apis, n_requests)
        scores = np.empty((len(columns), len(pairs)), dtype=np.float32)
        for place, column in enumerate(columns):
            scores[place] = column.at(pairs)
        extras = [view.features(batch, pairs) for view in self]
        context = np.hstack([view.request_features(batch) for view in self])
        features = _features(scores, extras, context, pairs)
        behind, n_naming = Pairs.of(found.next_best, n_apis, n_requests), found.n_naming
        return [
            Candidates(
                pairs.positions[own],
                features[own],
                self._likeness,
                behind.positions[rest],
                n_naming[rest],
            )
            for own, rest in zip(_slices(pairs.starts), _slices(behind.starts), strict=True)
        ]

    def reasons(
        self, evidence: Evidence, positions: Sequence[int]
    ) -> dict[int, tuple[Reason, ...]]:
        """Return up to three reasons for each of some APIs, the most telling kind first."""
        views = sorted(self, key=lambda view: view.telling)
        given = [view.reasons(evidence, positions) for view in views]
        answers = {}
        for position in positions:
            first: dict[str, Reason] = {}  # of each kind: two views cite past requests
            for reasons in given:
                if position in reasons:
                    first.setdefault(reasons[position].kind, reasons[position])
            found = list(first.values())
            if len(found) < MOST_REASONS:
                found.append(_experience(int(self.corpus.counts[position])))
            answers[position] = tuple(found[:MOST_REASONS])
        return answers

    def state(self) -> dict[str, Any]:
        """Return the corpus and what each view learned as plain data, without specifications."""
        return {"corpus": self.corpus.state(), **{view.name: view.state() for view in self}}

    @classmethod
    def from_state(cls, specifications: Specifications, state: dict[str, Any]) -> Views:
        """Rebuild the views, and check all arrays.

        Raises
        ------
        KeyError, TypeError, ValueError
            If some parts are missing, or more are there, or they do not fit each other.
        """
        corpus = Corpus.from_state(state["corpus"], specifications=specifications)
        kinds = [kind for kind in VIEWS if kind.name in state]
        if set(state) != {"corpus", *(kind.name for kind in kinds)}:
            raise ValueError(f"views {sorted(state)}, not those of this version")
        views = {kind: kind.from_state(state[kind.name], corpus=corpus) for kind in kinds}
        for part in (specifications.encoders, specifications, corpus, *views.values()):
            part.check(corpus.sizes)
        return cls(corpus, views)


def applying(specifications: Specifications, days: NDArray[Any]) -> tuple[type[View], ...]:
    """Return the views that apply to a history of such days, in the order of the registry."""
    return tuple(kind for kind in VIEWS if kind.applies(specifications, days))


@lru_cache(maxsize=1_000)
def _experience(count: int) -> Reason:
    """Return the reason that every API has: how many past requests used it."""
    if not count:
        return Reason("specification", "new: only its specification is known")
    return Reason("popularity", f"used by {count:,} past request{'s' * (count > 1)} in all")


def _slices(starts: NDArray[np.intp]) -> list[slice]:
    ends = starts.tolist()
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def _features(
    scores: NDArray[np.float32],
    extras: list[NDArray[np.float32]],
    context: NDArray[np.float32],
    pairs: Pairs,
) -> NDArray[np.float32]:
    """Return the features of all candidates, named by `Views.feature_names`: a row each.

    `scores` are of shape (n_scores, n_pairs), `context` (n_requests, n_context).
    """
    n_pairs, n_requests = len(pairs), len(context)
    n_features = 3 * len(scores) + sum(map(len, extras)) + context.shape[1]
    features = np.empty((n_pairs, n_features), dtype=np.float32)
    together = max(_TOGETHER * n_requests // max(n_features * n_pairs, 1), 1)
    for begin in range(0, n_requests, together):
        starts = pairs.starts[begin : begin + together + 1]
        own = slice(starts[0], starts[-1])
        if own.start == own.stop:
            continue
        parts = scores[:, own], [extra[:, own] for extra in extras], context[pairs.rows[own]]
        features[own] = _lines(*parts, starts - starts[0]).T
    return features


def _lines(
    scores: NDArray[np.float32],
    extras: list[NDArray[np.float32]],
    context: NDArray[np.float32],
    starts: NDArray[np.intp],
) -> NDArray[np.float32]:
    """Return the features of some candidates, at least one: a line for each feature.

    Those of request `i` are at ``starts[i]:starts[i + 1]``; `context` has a row for each.
    """
    n, n_pairs = scores.shape
    n_extras = sum(map(len, extras))
    lines = np.empty((3 * n + n_extras + context.shape[1], n_pairs), dtype=np.float32)
    lines[:n] = scores
    lines[n : 2 * n] = _ranks(scores, starts)
    # Where even the best is next to nothing, or below, the ratio could be anything.
    sizes = starts[1:] - starts[:-1]
    some = sizes > 0
    top = np.maximum.reduceat(scores, starts[:-1][some], axis=1)
    top = np.maximum(top, np.float32(1e-6)).repeat(sizes[some], axis=1)
    share = lines[2 * n : 3 * n]
    np.divide(scores, top, out=share)
    np.maximum(share, np.float32(-1), out=share)
    np.concatenate(extras, out=lines[3 * n : 3 * n + n_extras])
    lines[3 * n + n_extras :] = context.T
    return lines


def _ranks(scores: NDArray[np.float32], starts: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return the logarithm of one plus the rank of each candidate of a request, by each score.

    Equal scores share the best rank of theirs: their order in the catalog says nothing.
    """
    n, n_pairs = scores.shape
    sizes = starts[1:] - starts[:-1]
    first = starts[:-1].repeat(sizes)
    place = np.arange(n_pairs) - first
    # As whole numbers, which are sorted fast: how low the score is, and in the last digits the
    # place in the request, which says where each has gone.
    level = (scores + np.float32(0)).view(np.int32)  # without -0
    level ^= (level >> 31) & _POSITIVE
    digits = int(sizes.max(initial=0)).bit_length()
    keys = np.negative(level, dtype=np.int64)
    keys <<= digits
    keys += place
    lines = np.arange(n)[:, None] * n_pairs
    sort_each(keys.ravel(), np.append(lines + starts[:-1], keys.size))
    order = keys & ((1 << digits) - 1)
    order += first
    order += lines
    keys >>= digits
    is_other = np.ones(scores.shape, dtype=bool)
    np.not_equal(keys[:, 1:], keys[:, :-1], out=is_other[:, 1:])
    is_other[:, starts[:-1][sizes > 0]] = True
    (others,) = is_other.ravel().nonzero()
    sizes = np.empty(len(others), dtype=np.intp)  # of those with the same score
    np.subtract(others[1:], others[:-1], out=sizes[:-1])
    sizes[-1] = scores.size - others[-1]
    ranks, logarithms = np.empty_like(scores), np.empty_like(scores)
    logarithms[:] = np.log1p(place)
    ranks.ravel()[order.ravel()] = logarithms.ravel().take(others).repeat(sizes)
    return ranks
