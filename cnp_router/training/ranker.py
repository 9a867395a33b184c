"""The ranker: from the views' features to calibrated probabilities, in two stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.linear import Gaussian, Logistic, sampled_negatives, sigmoid, single_class
from cnp_router.training.parts import Part
from cnp_router.training.trees import BoostedTrees
from cnp_router.training.views import Behind, Candidates, Neighbours

__all__ = ["Example", "Ranker", "RankerPrior", "calibration_features", "shortlist_features"]

SHORTLIST = 40
N_PARTS = 2
N_REST_FEATURES = 4
LEVELS = ("share", "log-odds")  # what a first stage without trees is calibrated by
# With fewer past requests trees lose to the first stage; with as many, both decide alike.
MIN_FOR_TREES = 100
HALF_TRUST = 100.0
_LEAST = -14.0


@dataclass(frozen=True, eq=False)
class Example:
    """One past request as a training example, out of fold: its views do not know it.

    `past` and `neighbours` are of the history that they were fitted on, of which they hid that
    of some APIs if it is `hidden`; `used` holds the positions of the APIs that it used. The same
    `request` may be looked at more than once. It was asked `months` after the end of that history,
    or before it; `behind` says what was no candidate.
    """

    past: CoUsageFeatures
    neighbours: Neighbours
    candidates: Candidates
    used: NDArray[Any]
    hidden: bool
    request: int
    months: float
    behind: Behind

    @cached_property
    def labels(self) -> NDArray[Any]:
        """Which candidates it used."""
        return np.isin(self.candidates.positions, self.used)


@dataclass(frozen=True)
class RankerPrior:
    """What is known beforehand of the weights of the first stage, and of the calibration.

    `blind` is the calibration of who has no examples. It goes by the share of the odds alone: how
    high they are differs from catalog to catalog.
    """

    first: Gaussian
    scale: Gaussian
    blind: Logistic


@dataclass(frozen=True, eq=False)
class Ranker(Part):
    """Two stages: a logistic regression picks a shortlist, boosted trees order it.

    Another logistic regression says how probable the rest is: the first one, fitted on all, thinks
    too much of those it left behind, and many of them make a long announcement.

    The trees are fitted in `N_PARTS` parts, each on the requests outside one part, and averaged,
    so that every past request also gets an answer out of fold: those answers
    calibrate the probabilities by `scale`, and later the recipients. `trust` is the weight of the
    trees' log-odds against those of the first stage; from few examples there are no trees, and the
    first stage orders all candidates. It was fitted on `n_examples`.
    """

    first: Logistic
    rest: Logistic
    parts: tuple[BoostedTrees, ...]
    scale: Logistic
    trust: float
    n_examples: int

    @classmethod
    def fit(
        cls,
        examples: Sequence[Example],
        *,
        random_state: int,
        n_jobs: int | None = None,
        prior: RankerPrior | None = None,
    ) -> tuple[Ranker, list[NDArray[Any]]]:
        """Fit it, and return the probabilities of each example's candidates, out of fold, too.

        With a `prior`, there may be few examples, or none.
        """
        first = _fit_first(examples, random_state, prior)
        if prior is not None and len(examples) < MIN_FOR_TREES:
            return _without_trees(first, examples, prior)
        shortlists = [_shortlist(first, example.candidates) for example in examples]
        X = [
            shortlist_features(e.past.co_usage, e.candidates, x, kept)
            for e, (x, kept) in zip(examples, shortlists, strict=True)
        ]
        y = [e.labels[kept] for e, (_, kept) in zip(examples, shortlists, strict=True)]
        requests = np.array([example.request for example in examples])
        log_odds, parts = _fit_parts(X, y, requests, random_state, n_jobs)
        natural = [i for i, e in enumerate(examples) if not e.hidden]
        trust = len(examples) / (len(examples) + HALF_TRUST)
        scale = Logistic.fit(
            np.vstack([_blend(*shortlists[i], log_odds[i], trust) for i in natural]),
            np.concatenate([y[i] for i in natural]),
            C=1e6,
        )
        rest = _fit_rest([examples[i] for i in natural], [shortlists[i] for i in natural])
        ranker = cls(first, rest, parts, scale, trust, len(examples))
        out_of_fold = [
            ranker._combine(x, kept, answer)
            for (x, kept), answer in zip(shortlists, log_odds, strict=True)
        ]
        return ranker, out_of_fold

    def probabilities(self, co_usage: sparse.csc_array, found: Candidates) -> NDArray[Any]:
        """Return the calibrated probability of each candidate."""
        return self.each(co_usage, [found])[0]

    def each(self, co_usage: sparse.csc_array, found: Sequence[Candidates]) -> list[NDArray[Any]]:
        """Return the calibrated probabilities of the candidates of several requests."""
        shortlists = [_shortlist(self.first, own) for own in found]
        if not self.parts:
            return [self.scale.probability(_levels(x)) for x, _ in shortlists]
        X = [
            shortlist_features(co_usage, own, x, kept)
            for own, (x, kept) in zip(found, shortlists, strict=True)
        ]
        rows = np.vstack(X) if len(X) > 1 else X[0]
        log_odds = np.mean([trees.log_odds(rows) for trees in self.parts], axis=0)
        ends = np.cumsum([len(own) for own in X])[:-1]
        return [
            self._combine(x, kept, own)
            for (x, kept), own in zip(shortlists, np.split(log_odds, ends), strict=True)
        ]

    def _combine(self, x: NDArray[Any], kept: NDArray[Any], log_odds: NDArray[Any]) -> NDArray[Any]:
        if not len(kept):
            return x
        result = np.empty(len(x))
        result[kept] = self.scale.probability(_blend(x, kept, log_odds, self.trust))
        left, features = _rest_features(x, kept)
        result[left] = self.rest.probability(features)
        # Far from what it was fitted on, such as with many new APIs, it may say anything: it is
        # kept below the middle of the shortlist, in its own order.
        middle, most = np.median(result[kept]), result[left].max(initial=0)
        if most > middle:
            result[left] *= middle / most
        return result


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
    scale = prior.blind
    if examples:
        labels = np.concatenate([e.labels for e in examples])
        scale = Logistic.fit(np.vstack(levels), labels, prior=prior.scale)
    rest = Logistic(np.zeros(N_REST_FEATURES), 0.0)
    ranker = Ranker(first, rest, (), scale, 0.0, len(examples))
    return ranker, [scale.probability(own) for own in levels]


def calibration_features(first: Logistic, found: Candidates) -> NDArray[Any]:
    """Return what calibrates a first stage without trees, of shape (n_candidates, 2).

    The logarithm of each candidate's share of the odds, in which what is wrong with all of a
    request's candidates cancels out, and its log-odds.
    """
    return _levels(first.log_odds(found.features))


def _levels(x: NDArray[Any]) -> NDArray[Any]:
    share = x - np.logaddexp.reduce(x) if len(x) else x
    return np.column_stack([np.maximum(share, _LEAST), x])


def _blend(
    x: NDArray[Any], kept: NDArray[Any], log_odds: NDArray[Any], trust: float
) -> NDArray[Any]:
    """Return the log-odds of both stages together, of shape (n_kept, 1)."""
    return np.asarray(trust * log_odds + (1 - trust) * x[kept])[:, None]


def shortlist_features(
    co_usage: sparse.csc_array, found: Candidates, x: NDArray[Any], kept: NDArray[Any]
) -> NDArray[Any]:
    """Return what the second stage sees, of shape (n_kept, n_features + 6), float32.

    The features, and the first stage's picture of the set: its log-odds `x`, rank, ratio to the
    best, sum and best of its probabilities, and the co-usage with what it expects. `kept` is the
    shortlist: indices into the candidates, most probable first.
    """
    p = np.clip(sigmoid(x), 1e-6, 1 - 1e-6)
    short = p[kept]
    extra = np.empty((len(kept), 6), dtype=np.float32)
    extra[:, 0] = np.log(short / (1 - short))
    extra[:, 1] = np.log1p(np.arange(len(kept)))
    extra[:, 2] = short / short[0] if len(kept) else 0
    extra[:, 3] = p.sum()
    extra[:, 4] = short[0] if len(kept) else 0
    expected = np.zeros(co_usage.shape[1], dtype=np.float32)
    expected[found.positions] = p
    extra[:, 5] = (co_usage @ expected)[found.positions[kept]]
    return np.hstack([found.features[kept], extra])


def _fit_parts(
    X: list[NDArray[Any]],
    y: list[NDArray[Any]],
    requests: NDArray[Any],
    random_state: int,
    n_jobs: int | None,
) -> tuple[list[NDArray[Any]], tuple[BoostedTrees, ...]]:
    """Fit the trees in parts of the requests; return the log-odds of each request out of fold."""
    from joblib import Parallel, delayed

    distinct, which = np.unique(requests, return_inverse=True)
    part = (np.random.default_rng(random_state).permutation(len(distinct)) % N_PARTS)[which]
    stacked, ends = np.vstack(X), np.cumsum([len(labels) for labels in y])[:-1]
    labels, row_part = np.concatenate(y), np.repeat(part, [len(own) for own in y])
    fitted = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_fit_trees)(stacked, labels, row_part == number, random_state + number)
        for number in range(N_PARTS)
    )
    answers = np.empty(len(labels))
    for number, (_, outside) in enumerate(fitted):
        answers[row_part == number] = outside
    return np.split(answers, ends), tuple(trees for trees, _ in fitted)


def _fit_trees(
    X: NDArray[Any], y: NDArray[Any], held_out: NDArray[Any], random_state: int
) -> tuple[BoostedTrees, NDArray[Any]]:
    """Fit on the rows that are not held out, and return the log-odds of those that are."""
    inside = y[~held_out]
    if inside.all() or not inside.any():
        constant = BoostedTrees.constant(single_class(inside))
        return constant, constant.log_odds(X[held_out])
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingClassifier(
        learning_rate=0.13,
        max_iter=60,
        max_leaf_nodes=31,
        max_depth=8,
        min_samples_leaf=20,
        max_features=0.4,
        l2_regularization=10.0,
        early_stopping=False,
        random_state=random_state,
    )
    # Its own threads wait for each other after every node: with another process on the machine
    # that made fitting seven times slower. The parts are fitted at the same time instead.
    with threadpool_limits(1, user_api="openmp"):
        model.fit(X[~held_out], inside)
        answers = model.decision_function(X[held_out]) if held_out.any() else np.zeros(0)
    return BoostedTrees.from_sklearn(model), answers


def _shortlist(first: Logistic, found: Candidates) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the log-odds of each candidate, and the places of the best."""
    x = first.log_odds(found.features)
    return x, np.argsort(-x, kind="stable")[:SHORTLIST]


def _fit_rest(
    examples: Sequence[Example], shortlists: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> Logistic:
    X = [np.zeros((0, N_REST_FEATURES))]
    y = [np.zeros(0, dtype=bool)]
    for example, (x, kept) in zip(examples, shortlists, strict=True):
        left, features = _rest_features(x, kept)
        X.append(features)
        y.append(example.labels[left])
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


def _rest_features(x: NDArray[Any], kept: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return who is behind the shortlist, and what tells how probable they are: (n_left, 4).

    Log-odds and rank in the first stage; its sum and its best, which are the request's.
    """
    left = np.delete(np.arange(len(x)), kept)
    q = np.clip(sigmoid(x), 1e-6, 1 - 1e-6)
    rank = np.argsort(np.argsort(-x[left], kind="stable"), kind="stable")
    features = np.empty((len(left), N_REST_FEATURES))
    features[:, 0] = np.log(q[left] / (1 - q[left]))
    features[:, 1] = np.log1p(len(kept) + rank)
    features[:, 2] = np.log(q.sum()) if len(q) else 0
    features[:, 3] = np.log(q.max(initial=1e-6))
    return left, features
