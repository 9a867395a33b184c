"""The ranker: from the views' features to calibrated probabilities, in two stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.pool import ALONE, Pool
from cnp_router.training.co_occurrence import CoOccurrence
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.linear import (
    Evidence,
    Gaussian,
    Logistic,
    sampled_negatives,
    single_class,
)
from cnp_router.training.parts import Part
from cnp_router.training.prior import bundled_prior
from cnp_router.training.shortlists import N_REST_FEATURES, Shortlists
from cnp_router.training.trees import BoostedTrees
from cnp_router.training.views import Behind, Candidates, Neighbours, Views

__all__ = ["Example", "Ranker", "RankerPrior", "calibration_features"]

N_PARTS = 2
MOST_REQUESTS = 10_000  # of a part
# Of more rows, of those behind the first of each shortlist a share is enough.
MANY_ROWS = 60_000
N_FIRST = 10
SHARE_BEHIND = 1 / 3
LEVELS = ("share", "log-odds")  # what a first stage without trees is calibrated by
# With fewer past requests trees lose to the first stage; with as many, both decide alike.
MIN_FOR_TREES = 100
HALF_TRUST = 100.0
# What nobody tried is unlabelled rather than not needed (Elkan and Noto, "Learning classifiers from
# only positive and unlabeled data", 2008): as that, it counts less.
UNTRIED_WEIGHT = 0.25
HALF_SCALE = 10.0  # mashups after which the odds themselves count half in the calibration
# What is observed weighs no more than so many requests: it is of those APIs that were chosen.
MOST_EVIDENCE = 100
_LEAST = -14.0
_TOGETHER = 256  # requests


@dataclass(frozen=True, eq=False)
class Example:
    """One past request as a training example, out of fold: its views do not know it.

    `past` and `neighbours` are of the history that they were fitted on. If that of more APIs was
    hidden than new requests will meet, it is not `is_natural`, and calibrates nothing. `used` holds
    the positions of the APIs that it used. The same `request` may be looked at more than once. It
    was asked `months` after the end of that history, or before it; `behind` says what was no
    candidate.
    """

    past: CoUsageFeatures
    neighbours: Neighbours
    candidates: Candidates
    used: NDArray[Any]
    is_natural: bool
    request: int
    months: float
    behind: Behind

    @cached_property
    def labels(self) -> NDArray[Any]:
        """Which candidates it used."""
        positions = self.candidates.positions
        labels = np.zeros(len(positions), dtype=bool)
        place = np.searchsorted(positions, self.used)
        inside = place < len(positions)
        place = place[inside]
        labels[place[positions[place] == self.used[inside]]] = True
        return labels


@dataclass(frozen=True)
class RankerPrior:
    """What is known beforehand of the weights of the first stage, and of the calibration.

    `blind` is the calibration of who has no examples. It goes by the share of the odds alone: how
    high they are differs from catalog to catalog.
    """

    first: Gaussian
    scale: Gaussian
    blind: Logistic

    @classmethod
    def at(cls, n_mashups: int, views: Views) -> RankerPrior:
        """Return what is known at a number of mashups, of the features of some views."""
        prior = bundled_prior()
        return cls(
            prior.ranker.at(n_mashups, views.feature_names, views.beliefs),
            prior.calibration.at(n_mashups, LEVELS),
            prior.blind_calibration,
        )


@dataclass(frozen=True, eq=False)
class Ranker(Part):
    """Two stages: a logistic regression picks a shortlist, boosted trees order it.

    Another logistic regression says how probable the rest is: the first one, fitted on all, thinks
    too much of those it left behind, and many of them make a long announcement.

    The trees are fitted in `N_PARTS` parts, each on the requests outside one part, and averaged,
    so that every past request also gets an answer out of fold: those answers
    calibrate the probabilities by `scale`, and later the recipients. `trust` is the weight of the
    trees' log-odds against those of the first stage; from few examples there are no trees, and the
    first stage orders all candidates. It was fitted on `n_examples`; without trees, `evidence` is
    what these, and requests that were observed since, say of the weights of the first stage.
    """

    first: Logistic
    rest: Logistic
    parts: tuple[BoostedTrees, ...]
    scale: Logistic
    trust: float
    n_examples: int
    evidence: Evidence | None = None

    @classmethod
    def fit(
        cls,
        examples: Sequence[Example],
        *,
        random_state: int,
        pool: Pool = ALONE,
        prior: RankerPrior | None = None,
        untried: Sequence[int] | NDArray[np.intp] = (),
    ) -> tuple[Ranker, list[NDArray[Any]]]:
        """Fit it, and return the probabilities of each example's candidates, out of fold, too.

        With a `prior`, there may be few examples, or none. The trees learn less from the `untried`
        APIs, given by their positions, as candidates.
        """
        first = _fit_first(examples, random_state, prior)
        if prior is not None and len(examples) < MIN_FOR_TREES:
            return _without_trees(first, examples, prior)
        runs = [(own, Shortlists.of(first, _found(own))) for own in _runs(examples)]
        X = np.vstack([lists.features(own[0].past.co_usage, _found(own)) for own, lists in runs])
        x = np.concatenate([lists.x[lists.kept] for _, lists in runs])
        y = np.concatenate([_labels(own)[lists.kept] for own, lists in runs])
        rank = np.concatenate([lists.rank[lists.kept] for _, lists in runs])
        sizes = np.concatenate([lists.n_kept for _, lists in runs])
        requests = np.array([example.request for example in examples])
        weight = None
        if len(untried):
            kept = np.concatenate([lists.positions[lists.kept] for _, lists in runs])
            weight = np.where(np.isin(kept, untried), UNTRIED_WEIGHT, 1.0)
        log_odds, parts = _fit_parts(X, y, rank, weight, requests.repeat(sizes), random_state, pool)
        trust = len(examples) / (len(examples) + HALF_TRUST)
        blend = trust * log_odds + (1 - trust) * x
        is_natural = np.array([example.is_natural for example in examples])
        natural = is_natural.repeat(sizes)
        scale = Logistic.fit(blend[natural, None], y[natural], C=1e6)
        rest = _fit_rest(runs)
        ranker = cls(first, rest, parts, scale, trust, len(examples))
        short = np.split(scale.probability(blend[:, None]), _ends(runs))
        return ranker, [
            p for (_, lists), own in zip(runs, short, strict=True) for p in ranker._all(lists, own)
        ]

    @property
    def learns(self) -> bool:
        """Whether it learns from what is observed: it has no trees."""
        return not self.parts

    def observed(
        self, prior: Gaussian, rows: Sequence[tuple[NDArray[Any], NDArray[np.bool_]]]
    ) -> Ranker:
        """Return it with more evidence: which candidates some requests turned out to use.

        Each has the features of some candidates, and which of them it used. The `prior` is on the
        weights of the first stage, with as many mashups as the views knew that found them.
        """
        if not rows:
            return self
        before = self.evidence or Evidence.none(len(prior.mean))
        features, labels = zip(*rows, strict=True)
        told = np.vstack(features), np.concatenate(labels)
        return replace(self, evidence=before.with_rows(prior, *told, len(rows)))

    def at(self, n_mashups: int, views: Views) -> Ranker:
        """Return it with what is known beforehand of so many mashups, and its evidence.

        Its calibration stays, if it was fitted on examples.
        """
        prior = RankerPrior.at(n_mashups, views)
        known = prior.first
        if self.evidence is not None:
            known = self.evidence.posterior(known, MOST_EVIDENCE)
        scale = self.scale
        if not self.n_examples:
            share = n_mashups / (n_mashups + HALF_SCALE)
            scale = prior.blind.blended(prior.scale.most_probable, share)
        return replace(self, first=known.most_probable, scale=scale)

    def probabilities(self, co_usage: CoOccurrence, found: Candidates) -> NDArray[Any]:
        """Return the calibrated probability of each candidate."""
        return self.each(co_usage, [found])[0]

    def each(self, co_usage: CoOccurrence, found: Sequence[Candidates]) -> list[NDArray[Any]]:
        """Return the calibrated probabilities of the candidates of several requests."""
        answers: list[NDArray[Any]] = []
        for start in range(0, len(found), _TOGETHER):
            own = found[start : start + _TOGETHER]
            if not self.parts:
                levels = (calibration_features(self.first, one) for one in own)
                answers.extend(self.scale.probability(level) for level in levels)
                continue
            lists = Shortlists.of(self.first, own)
            log_odds = self._forest.log_odds(lists.features(co_usage, own))
            blend = self.trust * log_odds + (1 - self.trust) * lists.x[lists.kept]
            answers.extend(self._all(lists, self.scale.probability(blend[:, None])))
        return answers

    def _all(self, lists: Shortlists, short: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the probabilities of all candidates by request, given those of the kept."""
        every = lists.combined(short, self.rest.probability(lists.rest_features()))
        return [every] if len(lists.starts) == 2 else np.split(every, lists.starts[1:-1])

    @cached_property
    def _forest(self) -> BoostedTrees:
        """All parts as one, whose log-odds are the mean of theirs."""
        return BoostedTrees.mean(self.parts)


def _runs(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """Yield examples that are looked at together: neighbours with the same past, not too many."""
    start = 0
    for end in range(1, len(examples) + 1):
        is_last = end == len(examples) or examples[end].past is not examples[start].past
        if is_last or end - start == _TOGETHER:
            yield examples[start:end]
            start = end


def _found(examples: Sequence[Example]) -> list[Candidates]:
    return [example.candidates for example in examples]


def _labels(examples: Sequence[Example]) -> NDArray[Any]:
    return np.concatenate([example.labels for example in examples])


def _ends(runs: Sequence[tuple[Sequence[Example], Shortlists]]) -> NDArray[Any]:
    return np.cumsum([len(lists.kept) for _, lists in runs])[:-1]


def _fit_first(
    examples: Sequence[Example], random_state: int, prior: RankerPrior | None
) -> Logistic:
    gaussian = None if prior is None else prior.first
    if not examples and gaussian is not None:
        return gaussian.most_probable
    y = np.concatenate([e.labels for e in examples])
    rows, weight = sampled_negatives(y, random_state)
    # Only what was sampled is put together: all candidates of all examples take a gigabyte.
    ends = np.cumsum([0, *(len(e.labels) for e in examples)])
    place = np.searchsorted(rows, ends)
    X = [
        e.candidates.features[rows[start:end] - first]
        for e, start, end, first in zip(examples, place, place[1:], ends, strict=False)
    ]
    return Logistic.fit(np.vstack(X), y[rows], prior=gaussian, weight=weight)


def _without_trees(
    first: Logistic, examples: Sequence[Example], prior: RankerPrior
) -> tuple[Ranker, list[NDArray[Any]]]:
    """Return the ranker that has only its first stage, calibrated.

    It has so few degrees of freedom beside the prior that its answers to its examples are as good
    as out of fold.
    """
    levels = [calibration_features(first, example.candidates) for example in examples]
    rest = Logistic(np.zeros(N_REST_FEATURES), 0.0)
    if not examples:
        return Ranker(first, rest, (), prior.blind, 0.0, 0), []
    scale = Logistic.fit(np.vstack(levels), _labels(examples), prior=prior.scale)
    ranker = Ranker(first, rest, (), scale, 0.0, len(examples))
    told = [(example.candidates.features, example.labels) for example in examples]
    return ranker.observed(prior.first, told), [scale.probability(own) for own in levels]


def calibration_features(first: Logistic, found: Candidates) -> NDArray[Any]:
    """Return what calibrates a first stage without trees, of shape (n_candidates, 2).

    The logarithm of each candidate's share of the odds, in which what is wrong with all of a
    request's candidates cancels out, and its log-odds.
    """
    return _levels(first.log_odds(found.features))


def _levels(x: NDArray[Any]) -> NDArray[Any]:
    share = x - np.logaddexp.reduce(x) if len(x) else x
    return np.column_stack([np.maximum(share, _LEAST), x])


def _fit_parts(
    X: NDArray[Any],
    y: NDArray[Any],
    rank: NDArray[Any],
    weight: NDArray[Any] | None,
    requests: NDArray[Any],
    random_state: int,
    pool: Pool,
) -> tuple[NDArray[Any], tuple[BoostedTrees, ...]]:
    """Fit the trees in parts of the requests, which the rows name; return the log-odds, too.

    Those of each row are out of fold.
    """
    distinct, which = np.unique(requests, return_inverse=True)
    place = np.random.default_rng(random_state).permutation(len(distinct))[which]
    shared = pool.share((X, y, rank, weight, place, random_state))
    both = list(pool.each(_fit_part, range(N_PARTS), shared))
    answers = np.empty(len(y))
    for number, (_, outside) in enumerate(both):
        answers[place % N_PARTS == number] = outside
    return answers, tuple(trees for trees, _ in both)


def _fit_part(shared: tuple[Any, ...], number: int) -> tuple[BoostedTrees, NDArray[Any]]:
    """Return the trees of a part, and their log-odds of the rows in it, as a piece of work."""
    X, y, rank, weight, place, random_state = shared
    held_out = place % N_PARTS == number
    rows = np.flatnonzero(~held_out & (place < N_PARTS * MOST_REQUESTS))
    own = None if weight is None else weight[rows]
    rows, own = _telling(rows, y[rows], rank[rows], own, random_state + number)
    trees = BoostedTrees.fit(X[rows], y[rows], own, random_state + number)
    return trees, trees.log_odds(X[held_out])


def _telling(
    rows: NDArray[Any],
    y: NDArray[Any],
    rank: NDArray[Any],
    weight: NDArray[Any] | None,
    random_state: int,
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the rows to fit trees on, and their weights.

    Of many, some of those that were not used and are not among the first of their shortlist are
    left out, and the others count for them.
    """
    if len(rows) <= MANY_ROWS:
        return rows, weight
    is_first = y | (rank < N_FIRST)
    drawn = np.random.default_rng(random_state).random(len(rows)) < SHARE_BEHIND
    counts = np.where(is_first, 1.0, 1 / SHARE_BEHIND)
    if weight is not None:
        counts *= weight
    kept = is_first | drawn
    return rows[kept], counts[kept]


def _fit_rest(runs: Sequence[tuple[Sequence[Example], Shortlists]]) -> Logistic:
    X = [np.zeros((0, N_REST_FEATURES))]
    y = [np.zeros(0, dtype=bool)]
    for examples, lists in runs:
        is_natural = np.array([example.is_natural for example in examples])
        natural = is_natural.repeat(lists.sizes)[lists.left]
        X.append(lists.rest_features()[natural])
        y.append(_labels(examples)[lists.left[natural]])
    features, labels = np.vstack(X), np.concatenate(y)
    if labels.any():
        model = Logistic.fit(features, labels, C=1e3)
        if model.coefficients[0] > 0 > model.coefficients[1]:
            return model
        # Too few to tell odds and rank apart: the order of the first stage must stay.
        features[:, 1] = 0
        model = Logistic.fit(features, labels, C=1e3)
        if model.coefficients[0] > 0:
            return model
    # Hardly any API behind the shortlist was ever needed: the first stage's picture, lowered.
    wanted = single_class(labels)
    lowered = min(float(wanted - features[:, 0].mean()), 0.0) if len(features) else 0.0
    return Logistic(np.array([1.0, 0.0, 0.0, 0.0]), lowered)
