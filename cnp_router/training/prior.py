"""What is known before a history is: priors on the weights of logistic regressions, as data.

They were learned from episodes on the bundled sample: each takes some of its mashups for the
past, from none to 250, and others for requests. `scripts/fit_prior.py` makes them anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.pool import one_thread
from cnp_router.storage import state_from_bytes
from cnp_router.training.linear import (
    Gaussian,
    Logistic,
    curvature,
    maximum_a_posteriori,
    rising,
    sigmoid,
)
from cnp_router.training.parts import Part

__all__ = [
    "MOST",
    "PRIOR_FILE",
    "WEIGHT",
    "AnswerablePrior",
    "Belief",
    "BySize",
    "ConfidencePrior",
    "EpisodePrior",
    "Prior",
    "bundled_prior",
]

PRIOR_FILE = Path(__file__).parent / "prior.npz"
MOST = 250  # mashups in an episode
# What the episodes weigh, in requests: one's own decide as soon as there are more.
WEIGHT = 300.0
_RIDGE = 20.0  # precision of what the episodes say nothing about


@dataclass(frozen=True, slots=True)
class Belief:
    """What is thought beforehand of the weight of a feature, whose mean is about `center`."""

    weight: float
    deviation: float
    center: float


@dataclass(frozen=True, eq=False)
class EpisodePrior(Part):
    """A Gaussian on the weights of a logistic regression, which moves with the number of mashups.

    `names` are of the features; a feature that it has never seen has a weight of about 0. The
    weights at `n` mashups are ``u + s v``, with ``s = log(1 + n) / log(1 + MOST)``, and at none
    ``u + w``; `mean` holds `u`, `v` and `w`, each with an intercept, and `precision` is that of the
    episodes (Laplace's approximation).
    """

    names: list[str]
    center: NDArray[Any]
    scale: NDArray[Any]
    mean: NDArray[Any]
    precision: NDArray[Any]

    @classmethod
    def fit(
        cls,
        names: Sequence[str],
        X: NDArray[Any],
        y: NDArray[Any],
        n_mashups: NDArray[Any],
        weight: NDArray[Any],
        *,
        is_rising: bool = False,
    ) -> EpisodePrior:
        """Learn it from the rows of all episodes; the weights are to sum to `WEIGHT` requests.

        If it `is_rising`, no feature lowers the answer.
        """
        center, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 1e-6, scale, 1.0)
        n = X.shape[1] + 1
        flat = Gaussian(center, scale, np.zeros(n), np.eye(n))
        Z = flat.standardised(X.astype(np.float64))
        Z = np.hstack([Z * column[:, None] for column in _basis(n_mashups)])
        ridge = np.full(Z.shape[1], _RIDGE)
        ridge[n - 1 :: n] = 1e-3
        free = Gaussian(center, scale, np.zeros(Z.shape[1]), np.diag(ridge))
        if is_rising:
            mean = rising(Z, y, weight, free, range(n - 1, Z.shape[1], n))
        else:
            mean = maximum_a_posteriori(Z, y, weight, free)
        precision = curvature(Z, weight, sigmoid(Z @ mean)) + free.precision
        return cls(list(names), center, scale, mean, precision)

    def at(
        self, n_mashups: int, names: Sequence[str], beliefs: Mapping[str, Belief] | None = None
    ) -> Gaussian:
        """Return the prior at a number of mashups, on some features.

        There may be `beliefs` of features that the episodes do not know.
        """
        n = len(self.names) + 1
        joined = np.hstack([column[0] * np.eye(n) for column in _basis(np.array([n_mashups]))])
        with one_thread:  # how many there are changes the last digits, which are kept
            precision = np.linalg.inv(joined @ self._covariance @ joined.T)
        place = {name: i for i, name in enumerate(self.names)}
        known = [i for i, name in enumerate(names) if name in place]
        own = [place[names[i]] for i in known]
        center, scale = np.zeros(len(names)), np.ones(len(names))
        center[known], scale[known] = self.center[own], self.scale[own]
        mean, wider = np.zeros(len(names) + 1), np.diag(np.full(len(names) + 1, _RIDGE))
        known, own = [*known, len(names)], [*own, n - 1]
        mean[known] = (joined @ self.mean)[own]
        wider[np.ix_(known, known)] = precision[np.ix_(own, own)]
        for name, belief in (beliefs or {}).items():
            place_ = names.index(name)
            center[place_], mean[place_] = belief.center, belief.weight
            wider[place_, place_] = 1 / belief.deviation**2
        return Gaussian(center, scale, mean, wider)

    @cached_property
    def _covariance(self) -> NDArray[np.float64]:
        return np.asarray(np.linalg.inv(self.precision))


def _basis(n_mashups: NDArray[Any]) -> list[NDArray[Any]]:
    """Return what each part of the weights is multiplied by, at some numbers of mashups."""
    grown = np.log1p(np.minimum(n_mashups, MOST)) / math.log1p(MOST)
    return [np.ones(len(n_mashups)), grown, (n_mashups == 0).astype(np.float64)]


@dataclass(frozen=True, eq=False)
class BySize(Part):
    """What was found in the episodes of each size: a row of `values` for each of `sizes`."""

    sizes: NDArray[Any]
    values: NDArray[Any]

    def at(self, n_mashups: int) -> Any:
        """Return what was found at about that number of mashups."""
        near = np.argmin(np.abs(np.log1p(self.sizes) - math.log1p(n_mashups)))
        return self.values[near]

    def blended(self, own: float, n_own: int, n_mashups: int) -> float:
        """Return what was found with one's own requests, trusted by how many they are."""
        trust = n_own / (n_own + MOST)
        return trust * own + (1 - trust) * float(self.at(n_mashups))


@dataclass(frozen=True, eq=False)
class AnswerablePrior(Part):
    """What is known beforehand of whether anything serves a request; see `Answerable`."""

    says: EpisodePrior
    fits: EpisodePrior
    both: EpisodePrior
    level: BySize


@dataclass(frozen=True, eq=False)
class ConfidencePrior(Part):
    """What is known beforehand of whether the recipients cover what a request needs."""

    covered: EpisodePrior
    level: BySize


@dataclass(frozen=True, eq=False)
class Prior(Part):
    """All that is known beforehand.

    `recall` holds quantiles of the probability that was given to a need that some view saw.
    """

    ranker: EpisodePrior
    calibration: EpisodePrior
    blind_calibration: Logistic
    recall: BySize
    answerable: AnswerablePrior
    confidence: ConfidencePrior


@cache
def bundled_prior() -> Prior:
    """Return what comes with the package."""
    return Prior.from_state(state_from_bytes(PRIOR_FILE.read_bytes()))
