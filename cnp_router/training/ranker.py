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
    """One past request as the ranker's training example, seen by views that were not fitted on it.

    Attributes
    ----------
    co_usage : csc_array of shape (n_apis, n_apis)
        ``P(row | column)``, from the history that the views saw.
    candidates : Candidates
    used : ndarray of int
        Positions of the APIs it used.
    hidden : bool
        Whether some contractors' history was hidden from the views.
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

    The trees are fitted in `N_PARTS` parts, each on the requests outside one part, and averaged,
    so that every past request also gets an answer from trees that never saw it: those answers
    calibrate the probabilities (Platt, 1999), and later the recipients.

    Attributes
    ----------
    first : Logistic
    parts : tuple of BoostedTrees
    scale : Logistic
        Calibration of the mean log-odds.
    """

    first: Logistic
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
        held_out : list of ndarray
            For each example, the probabilities of its candidates from trees that never saw it.
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
        ranker = cls(first, tuple(trees for trees, _ in fitted), scale)
        held_out = [
            ranker._combine(p, kept, answer)
            for (p, kept), answer in zip(shortlists, log_odds, strict=True)
        ]
        return ranker, held_out

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
        result = p.copy()
        result[kept] = self.scale.probability(log_odds[:, None])
        # What did not make the shortlist stays behind all that did.
        rest = np.ones(len(p), dtype=bool)
        rest[kept] = False
        result[rest] = np.minimum(p[rest], result[kept].min())
        return result

    def state(self) -> dict[str, Any]:
        """Return the ranker as plain data."""
        return {
            "first": self.first.state(),
            "parts": {str(i): trees.state() for i, trees in enumerate(self.parts)},
            "scale": self.scale.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Ranker:
        """Rebuild the ranker."""
        parts = state["parts"]
        return cls(
            Logistic.from_state(state["first"]),
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
    seen = y[~held_out]
    if seen.all() or not seen.any():
        rate = (seen.sum() + 1) / (len(seen) + 2)
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
        model.fit(X[~held_out], seen)
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
