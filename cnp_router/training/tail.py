"""What stands behind the candidates: the probability of an API that no score puts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.linear import Gaussian, Logistic, sigmoid
from cnp_router.training.parts import Part
from cnp_router.training.ranker import Example

__all__ = ["N_FEATURES", "Tail"]

N_FEATURES = 5
_OF_TIME = slice(3, 5)  # of the features
# Standard deviation, of the logarithm of months after the history, below which they teach nothing:
# what a few days later tell would be taken far beyond them, to a year.
_LEAST_SPREAD = 0.1


@dataclass(frozen=True, eq=False)
class Tail(Part):
    """Probability of each API behind the candidates, by the group that it is in.

    A group is all APIs that as many scores put among their next best, and as many mashups used:
    how probable they are changes with how long after the history the request is asked, most of all
    for those without history. Without a `model` nothing behind the candidates is probable.
    """

    model: Logistic | None

    @classmethod
    def fit(cls, examples: Sequence[Example]) -> Tail:
        """Learn from past requests that used something that was no candidate, and from others."""
        if not examples:
            return cls(None)
        missed = [example.behind.missed for example in examples]
        groups = [example.behind.groups for example in examples]
        each = np.array([[own.shape[1] for own in parts] for parts in (missed, groups)])
        months = np.array([example.months for example in examples])
        both = np.hstack([*missed, *groups])
        n_missed = int(each[0].sum())
        y = np.arange(both.shape[1]) < n_missed
        if y.all() or not y.any():
            return cls(None)
        X = _features(both[0], both[1], np.concatenate([months.repeat(sizes) for sizes in each]))
        weight = np.ones(len(y))
        weight[n_missed:] = np.concatenate([example.behind.sizes for example in examples])
        precision = np.diag([*[1.0] * N_FEATURES, 1e-6])
        scale = np.maximum(X.std(axis=0), 1e-6)
        scale[_OF_TIME][scale[_OF_TIME] < _LEAST_SPREAD] = np.inf
        # Newton's method: where so few are needed, others stop before they have begun.
        prior = Gaussian(X.mean(axis=0), scale, np.zeros(N_FEATURES + 1), precision)
        return cls(Logistic.fit(X, y, prior=prior, weight=weight))

    def missed(self, examples: Sequence[Example]) -> list[NDArray[Any]]:
        """Return the probabilities of what past requests used behind their candidates."""
        if not examples:
            return []
        sizes = [example.behind.missed.shape[1] for example in examples]
        n_naming, counts = np.hstack([example.behind.missed for example in examples])
        months = np.array([example.months for example in examples]).repeat(sizes)
        return np.split(self.probabilities(n_naming, counts, months), np.cumsum(sizes)[:-1])

    def probabilities(
        self, n_naming: NDArray[Any], counts: NDArray[Any], months: NDArray[Any] | float
    ) -> NDArray[Any]:
        """Return the probabilities of APIs that so many scores name, and so many mashups used."""
        if self.model is None:
            return np.zeros(len(counts))
        return self.model.probability(_features(n_naming, counts, months))

    def groups(
        self, n_naming: NDArray[Any], counts: NDArray[Any], months: NDArray[Any]
    ) -> NDArray[Any]:
        """Return the same of some groups, of which there are few: faster, up to rounding.

        The three need not be of the same shape, if numpy can make them so.
        """
        if self.model is None:
            return np.zeros(np.broadcast(n_naming, counts, months).shape)
        named, used, cold, late, cold_late = self.model.coefficients.tolist()
        after = np.log1p(np.maximum(months, 0.0))
        x = named * np.log1p(n_naming) + used * np.log1p(counts)
        x = x + (self.model.intercept + late * after)
        x += (cold + cold_late * after) * (counts == 0)
        return sigmoid(x)


def _features(
    n_naming: NDArray[Any], counts: NDArray[Any], months: NDArray[Any] | float
) -> NDArray[Any]:
    cold = counts == 0
    found = np.empty((len(counts), N_FEATURES))
    found[:, 0] = np.log1p(n_naming)
    found[:, 1] = np.log1p(counts)
    found[:, 2] = cold
    found[:, 3] = np.log1p(np.maximum(months, 0.0))
    found[:, 4] = cold * found[:, 3]
    return found
