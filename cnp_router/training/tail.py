"""What stands behind the candidates: the probability of an API that no score puts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.linear import Gaussian, Logistic
from cnp_router.training.parts import Part
from cnp_router.training.ranker import Example

__all__ = ["N_FEATURES", "Tail"]

N_FEATURES = 5


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
        rows = [np.zeros((0, N_FEATURES))]
        labels, weight = [np.zeros(0, dtype=bool)], [np.zeros(0)]
        for example in examples:
            behind = example.behind
            for group, size, used in (
                (behind.missed, np.ones(behind.missed.shape[1]), True),
                (behind.groups, behind.sizes, False),
            ):
                rows.append(_features(group[0], group[1], example.months))
                labels.append(np.full(len(size), used))
                weight.append(size)
        y = np.concatenate(labels)
        if y.all() or not y.any():
            return cls(None)
        X, precision = np.vstack(rows), np.diag([*[1.0] * N_FEATURES, 1e-6])
        scale = np.maximum(X.std(axis=0), 1e-6)
        # Newton's method: where so few are needed, others stop before they have begun.
        prior = Gaussian(X.mean(axis=0), scale, np.zeros(N_FEATURES + 1), precision)
        return cls(Logistic.fit(X, y, prior=prior, weight=np.concatenate(weight)))

    def missed(self, example: Example) -> NDArray[Any]:
        """Return the probabilities of what a past request used behind its candidates."""
        return self.probabilities(
            example.behind.missed[0], example.behind.missed[1], example.months
        )

    def probabilities(
        self, n_naming: NDArray[Any], counts: NDArray[Any], months: float
    ) -> NDArray[Any]:
        """Return the probabilities of APIs that so many scores name, and so many mashups used."""
        if self.model is None:
            return np.zeros(len(counts))
        return self.model.probability(_features(n_naming, counts, months))


def _features(n_naming: NDArray[Any], counts: NDArray[Any], months: float) -> NDArray[Any]:
    cold = counts == 0
    found = np.empty((len(counts), N_FEATURES))
    found[:, 0] = np.log1p(n_naming)
    found[:, 1] = np.log1p(counts)
    found[:, 2] = cold
    found[:, 3] = np.log1p(max(months, 0.0))
    found[:, 4] = cold * found[:, 3]
    return found
