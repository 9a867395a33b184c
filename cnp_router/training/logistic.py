"""Logistic regression: from features, or scores, to calibrated probabilities (Platt, 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.linear import times_vector
from cnp_router.training.parts import Part

__all__ = ["Logistic", "single_class"]

MAX_NEGATIVES = 100_000


@dataclass(frozen=True, eq=False)
class Logistic(Part):
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
            return cls(np.zeros(X.shape[1]), single_class(y))
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
        # 1 / (1 + exp(-x)) without overflow.
        return np.asarray(0.5 * (1 + np.tanh(0.5 * log_odds.reshape(X.shape[:-1]))))


def single_class(y: NDArray[Any]) -> float:
    """Return the log-odds of a label's frequency, smoothed by one of each."""
    rate = (y.sum() + 1) / (len(y) + 2)
    return float(np.log(rate / (1 - rate)))
