"""The ranker: from the views' features to calibrated probabilities, in two stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.features import Candidates, shortlist_features
from cnp_router.training.linear import times_vector
from cnp_router.training.trees import BoostedTrees

__all__ = ["Example", "Logistic", "Ranker"]

SHORTLIST = 40
N_PARTS = 2
MAX_NEGATIVES = 100_000
N_REST_FEATURES = 4


@dataclass(frozen=True)
class Logistic:
    """A logistic regression: ``p = 1 / (1 + exp(-(x . coefficients + intercept)))``.

    Examples
    --------
    >>> Logistic(np.array([1.0]), 0.0).probability(np.array([[0.0]]))
    array([0.5])
    """

    coefficients: NDArray[Any]
    intercept: float

    @classmethod
    def fit(
        cls, X: NDArray[Any], y: NDArray[Any], *, C: float = 1.0, random_state: int = 0
    ) -> Logistic:
        """Fit on standardised features, and fold the scale into the coefficients.

        Of more than `MAX_NEGATIVES` negatives a random sample is taken, and weighted back. With a
        single class there is nothing to learn but its frequency, smoothed by one of each.
        """
        if y.all() or not y.any():
            rate = (y.sum() + 1) / (len(y) + 2)
            return cls(np.zeros(X.shape[1]), float(np.log(rate / (1 - rate))))
        from sklearn.linear_model import LogisticRegression

        negatives = np.flatnonzero(~y)
        weight = np.ones(len(y))
        if len(negatives) > MAX_NEGATIVES:
            rng = np.random.default_rng(random_state)
            sample = rng.choice(negatives, MAX_NEGATIVES, replace=False)
            rows = np.sort(np.concatenate([np.flatnonzero(y), sample]))
            X, y = X[rows], y[rows]
            weight = np.where(y, 1.0, len(negatives) / MAX_NEGATIVES)
        X = X.astype(np.float64)
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
        model = LogisticRegression(C=C, max_iter=300, tol=1e-3)
        model.fit((X - mean) / scale, y, sample_weight=weight)
        coefficients = model.coef_[0] / scale
        return cls(coefficients, float(model.intercept_[0] - coefficients @ mean))

    def probability(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of each row."""
        wide = X.reshape(-1, X.shape[-1])
        log_odds = times_vector(wide, self.coefficients) + self.intercept
        return sigmoid(log_odds.reshape(X.shape[:-1]))

    def state(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {"coefficients": self.coefficients, "intercept": self.intercept}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Logistic:
        """Rebuild the model."""
        return cls(state["coefficients"], float(state["intercept"]))


@dataclass(frozen=True)
class Example:
    """One past request as the ranker's training example, out of fold: its views do not know it.

    Attributes
    ----------
    co_usage : csc_array of shape (n_apis, n_apis)
        ``P(row | column)``, from the history that the views were fitted on.
    candidates : Candidates
    used : ndarray of int
        Positions of the APIs it used.
    hidden : bool
        Whether the history of some APIs was hidden from the views.
    """

    co_usage: sparse.csc_array
    candidates: Candidates
    used: NDArray[Any]
    hidden: bool

    @property
    def labels(self) -> NDArray[Any]:
        """Which candidates it used."""
        return np.isin(self.candidates.positions, self.used)


@dataclass(frozen=True)
class Ranker:
    """Two stages: a logistic regression picks a shortlist, boosted trees order it.

    Another logistic regression says how probable the rest is: the first one, fitted on all, thinks
    too much of those it left behind, and many of them make a long announcement.

    The trees are fitted in `N_PARTS` parts, each on the requests outside one part, and averaged,
    so that every past request also gets an answer out of fold: those answers
    calibrate the probabilities (Platt, 1999), and later the recipients.

    Attributes
    ----------
    first : Logistic
    rest : Logistic
        Of the candidates that are not on the shortlist.
    parts : tuple of BoostedTrees
    scale : Logistic
        Calibration of the mean log-odds.
    """

    first: Logistic
    rest: Logistic
    parts: tuple[BoostedTrees, ...]
    scale: Logistic

    @classmethod
    def fit(
        cls, examples: Sequence[Example], *, random_state: int, n_jobs: int | None = None
    ) -> tuple[Ranker, list[NDArray[Any]]]:
        """Fit the ranker.

        Returns
        -------
        ranker : Ranker
        out_of_fold : list of ndarray
            For each example, the probabilities of its candidates from trees fitted without it.
        """
        from joblib import Parallel, delayed

        rng = np.random.default_rng(random_state)
        first = _fit_first(examples, random_state)
        shortlists = [_shortlist(first, example.candidates) for example in examples]
        X = [
            shortlist_features(e.co_usage, e.candidates, p, kept)
            for e, (p, kept) in zip(examples, shortlists, strict=True)
        ]
        y = [e.labels[kept] for e, (_, kept) in zip(examples, shortlists, strict=True)]
        part = rng.permutation(len(examples)) % N_PARTS
        stacked, ends = np.vstack(X), np.cumsum([len(labels) for labels in y])[:-1]
        labels, row_part = np.concatenate(y), np.repeat(part, [len(own) for own in y])
        fitted = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(_fit_trees)(stacked, labels, row_part == number, random_state + number)
            for number in range(N_PARTS)
        )
        answers = np.empty(len(labels))
        for number, (_, outside) in enumerate(fitted):
            answers[row_part == number] = outside
        log_odds = np.split(answers, ends)
        natural = [i for i, e in enumerate(examples) if not e.hidden]
        scale = Logistic.fit(
            np.concatenate([log_odds[i] for i in natural])[:, None],
            np.concatenate([y[i] for i in natural]),
            C=1e6,
        )
        rest = _fit_rest([examples[i] for i in natural], [shortlists[i] for i in natural])
        ranker = cls(first, rest, tuple(trees for trees, _ in fitted), scale)
        out_of_fold = [
            ranker._combine(p, kept, answer)
            for (p, kept), answer in zip(shortlists, log_odds, strict=True)
        ]
        return ranker, out_of_fold

    def probabilities(self, co_usage: sparse.csc_array, found: Candidates) -> NDArray[Any]:
        """Return the calibrated probability of each candidate.

        Returns
        -------
        ndarray of shape (n_candidates,), in [0, 1]
        """
        p, kept = _shortlist(self.first, found)
        if not len(kept):
            return p
        X = shortlist_features(co_usage, found, p, kept)
        return self._combine(p, kept, np.mean([t.log_odds(X) for t in self.parts], axis=0))

    def _combine(self, p: NDArray[Any], kept: NDArray[Any], log_odds: NDArray[Any]) -> NDArray[Any]:
        if not len(kept):
            return p
        result = np.empty(len(p))
        result[kept] = self.scale.probability(log_odds[:, None])
        left = _left(p, kept)
        result[left] = self.rest.probability(_rest_features(p, kept, left))
        # Far from what it was fitted on, such as with many new APIs, it may say anything: it is
        # kept below the middle of the shortlist, in its own order.
        middle, most = np.median(result[kept]), result[left].max(initial=0)
        if most > middle:
            result[left] *= middle / most
        return result

    def state(self) -> dict[str, Any]:
        """Return the ranker as plain data."""
        return {
            "first": self.first.state(),
            "rest": self.rest.state(),
            "parts": {str(i): trees.state() for i, trees in enumerate(self.parts)},
            "scale": self.scale.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Ranker:
        """Rebuild the ranker."""
        parts = state["parts"]
        return cls(
            Logistic.from_state(state["first"]),
            Logistic.from_state(state["rest"]),
            tuple(BoostedTrees.from_state(parts[str(i)]) for i in range(len(parts))),
            Logistic.from_state(state["scale"]),
        )


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """Return ``1 / (1 + exp(-x))`` without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _fit_trees(
    X: NDArray[Any], y: NDArray[Any], held_out: NDArray[Any], random_state: int
) -> tuple[BoostedTrees, NDArray[Any]]:
    """Fit on the rows that are not held out, and return the log-odds of those that are."""
    inside = y[~held_out]
    if inside.all() or not inside.any():
        rate = (inside.sum() + 1) / (len(inside) + 2)
        constant = BoostedTrees.constant(float(np.log(rate / (1 - rate))))
        return constant, constant.log_odds(X[held_out])
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingClassifier(
        learning_rate=0.1,
        max_iter=80,
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


def _fit_first(examples: Sequence[Example], random_state: int) -> Logistic:
    return Logistic.fit(
        np.vstack([example.candidates.features for example in examples]),
        np.concatenate([example.labels for example in examples]),
        random_state=random_state,
    )


def _shortlist(first: Logistic, found: Candidates) -> tuple[NDArray[Any], NDArray[Any]]:
    p = first.probability(found.features)
    return p, np.argsort(-p, kind="stable")[:SHORTLIST]


def _fit_rest(
    examples: Sequence[Example], shortlists: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> Logistic:
    X = [np.zeros((0, N_REST_FEATURES))]
    y = [np.zeros(0, dtype=bool)]
    for example, (p, kept) in zip(examples, shortlists, strict=True):
        left = _left(p, kept)
        X.append(_rest_features(p, kept, left))
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
    rate = (labels.sum() + 1) / (len(labels) + 2)
    mean = features[:, 0].mean() if len(features) else np.log(rate / (1 - rate))
    lowered = min(float(np.log(rate / (1 - rate)) - mean), 0.0)
    return Logistic(np.array([1.0, 0.0, 0.0, 0.0]), lowered)


def _left(p: NDArray[Any], kept: NDArray[Any]) -> NDArray[Any]:
    """Return the indices that are not on the shortlist."""
    return np.delete(np.arange(len(p)), kept)


def _rest_features(p: NDArray[Any], kept: NDArray[Any], left: NDArray[Any]) -> NDArray[Any]:
    """Return what tells how probable those behind the shortlist are.

    Returns
    -------
    ndarray of shape (n_left, 4)
        Log-odds and rank in the first stage; its sum and its best, which are the request's.
    """
    q = np.clip(p, 1e-6, 1 - 1e-6)
    rank = np.argsort(np.argsort(-p[left], kind="stable"), kind="stable")
    features = np.empty((len(left), N_REST_FEATURES))
    features[:, 0] = np.log(q[left] / (1 - q[left]))
    features[:, 1] = np.log1p(len(kept) + rank)
    features[:, 2] = np.log(q.sum()) if len(q) else 0
    features[:, 3] = np.log(q.max(initial=1e-6))
    return features
