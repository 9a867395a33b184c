"""Completion: what else a composition needs, given APIs it already uses.

Co-usage does not help to rank from text alone, but it does once some APIs are known: how much is
learned here, from past mashups of which one part is taken as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.ranker import Example, Logistic

__all__ = ["Completion"]

N_CO_USED = 50
N_FEATURES = 4
_FLOOR = 1e-4


@dataclass(frozen=True)
class Completion:
    """Probability of a contractor from the text's probability and from the known APIs.

    Attributes
    ----------
    model : Logistic
    """

    model: Logistic

    @classmethod
    def fit(
        cls,
        examples: Sequence[Example],
        held_out: Sequence[NDArray[Any]],
        *,
        random_state: int,
    ) -> Completion:
        """Learn from the examples with several APIs, some but not all of them taken as known."""
        rng = np.random.default_rng(random_state)
        X, y = [], []
        for example, p in zip(examples, held_out, strict=True):
            if len(example.used) < 2:
                continue
            n_known = int(rng.integers(1, len(example.used)))
            known = rng.permutation(example.used)[:n_known]
            positions, features = _given(example.candidates.positions, p, example.co_usage, known)
            X.append(features)
            y.append(np.isin(positions, example.used))
        if not X:
            return cls(Logistic(np.eye(N_FEATURES)[0], 0.0))
        return cls(Logistic.fit(np.vstack(X), np.concatenate(y)))

    def probabilities(
        self,
        positions: NDArray[Any],
        text: NDArray[Any],
        co_usage: sparse.csc_array,
        known: Sequence[int],
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return candidates and probabilities, given the known APIs.

        Parameters
        ----------
        positions : ndarray of int
            Candidates from the text.
        text : ndarray of the same shape, in [0, 1]
            Their probabilities from the text.
        co_usage : csc_array of shape (n_apis, n_apis)
            ``P(row | column)``.
        known : sequence of int
        """
        pool, features = _given(positions, text, co_usage, np.asarray(known, dtype=np.intp))
        return pool, self.model.probability(features)

    def state(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return self.model.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Completion:
        """Rebuild the model."""
        return cls(Logistic.from_state(state))


def _given(
    positions: NDArray[Any], text: NDArray[Any], co_usage: sparse.csc_array, known: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return candidates and their features.

    What is most used together with the known APIs joins the candidates, and those leave them.
    """
    columns = co_usage[:, known].toarray()
    highest, mean = columns.max(axis=1), columns.mean(axis=1)
    used = np.flatnonzero(highest)
    best = used[np.argsort(-highest[used], kind="stable")[:N_CO_USED]]
    pool = np.setdiff1d(np.union1d(positions, best), known)
    p = np.full(len(pool), _FLOOR)
    inside = np.isin(pool, positions)
    p[inside] = np.clip(text[np.searchsorted(positions, pool[inside])], _FLOOR, 1 - _FLOOR)
    features = np.empty((len(pool), N_FEATURES))
    features[:, 0] = np.log(p / (1 - p))
    features[:, 1] = np.log(highest[pool] + 0.005)
    features[:, 2] = np.log(mean[pool] + 0.005)
    features[:, 3] = np.log(len(known))
    return pool, features
