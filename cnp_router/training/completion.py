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
        """Learn from the examples with two or more APIs, some of them taken as known."""
        rng = np.random.default_rng(random_state)
        X, y = [], []
        for example, p in zip(examples, held_out, strict=True):
            if len(example.used) < 2:
                continue
            n_known = int(rng.integers(1, len(example.used)))
            known = rng.permutation(example.used)[:n_known]
            positions, text = _pool(example.candidates.positions, p, example.co_usage, known)
            X.append(_features(positions, text, example.co_usage, known))
            y.append(np.isin(positions, example.used))
        if not X:
            return cls(Logistic(np.eye(N_FEATURES)[0], 0.0))
        return cls(Logistic.fit(np.vstack(X), np.concatenate(y)))

    def probabilities(
        self,
        positions: NDArray[Any],
        text: NDArray[Any],
        co_usage: sparse.csr_array,
        known: Sequence[int],
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return candidates and probabilities, given the known APIs.

        Parameters
        ----------
        positions : ndarray of int
            Candidates from the text.
        text : ndarray of the same shape, in [0, 1]
            Their probabilities from the text.
        co_usage : csr_array of shape (n_apis, n_apis)
            ``P(row | column)``.
        known : sequence of int
        """
        taken = np.asarray(known, dtype=np.intp)
        positions, text = _pool(positions, text, co_usage, taken)
        if not len(positions):
            return positions, text
        return positions, self.model.probability(_features(positions, text, co_usage, taken))

    def state(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return self.model.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Completion:
        """Rebuild the model."""
        return cls(Logistic.from_state(state))


def _pool(
    positions: NDArray[Any], text: NDArray[Any], co_usage: sparse.csr_array, known: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Add what is most used together with the known APIs, and leave those out."""
    evidence = _evidence(co_usage, known)
    used = np.flatnonzero(evidence[:, 0])
    best = used[np.argsort(-evidence[used, 0], kind="stable")[:N_CO_USED]]
    pool = np.setdiff1d(np.union1d(positions, best), known)
    p = np.full(len(pool), _FLOOR)
    inside = np.isin(pool, positions)
    p[inside] = text[np.searchsorted(positions, pool[inside])]
    return pool, p


def _evidence(co_usage: sparse.csr_array, known: NDArray[Any]) -> NDArray[Any]:
    """Return the highest and the mean probability given each known API."""
    columns = co_usage[:, known].toarray()
    return np.column_stack([columns.max(axis=1), columns.mean(axis=1)])


def _features(
    positions: NDArray[Any], text: NDArray[Any], co_usage: sparse.csr_array, known: NDArray[Any]
) -> NDArray[Any]:
    evidence = _evidence(co_usage, known)[positions]
    p = np.clip(text, _FLOOR, 1 - _FLOOR)
    return np.column_stack(
        [
            np.log(p / (1 - p)),
            np.log(evidence[:, 0] + 0.005),
            np.log(evidence[:, 1] + 0.005),
            np.full(len(positions), np.log(len(known))),
        ]
    )
