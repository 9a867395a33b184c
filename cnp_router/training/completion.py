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

from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.ranker import Example, Ranker
from cnp_router.training.views import Neighbours

__all__ = ["Completed", "Completion", "Neighbourhood"]

# Fewer examples teach no more than the text says, and more than the most only cost time. The
# least is of those that calibrate: out of folds that hide nothing.
MIN_NATURAL = 24
MAX_EXAMPLES = 1_500


@dataclass(frozen=True)
class Neighbourhood:
    """What lies around one request besides its candidates.

    Attributes
    ----------
    co_usage : CoUsageFeatures
        Of past mashups; for a training example, without itself.
    neighbours : Neighbours
        The most similar of them.
    """

    co_usage: CoUsageFeatures
    neighbours: Neighbours


@dataclass(frozen=True)
class Completed:
    """Candidates for what else is needed.

    Attributes
    ----------
    positions : ndarray of shape (n_candidates,), int, ascending
        None of the known APIs is among them.
    probabilities : ndarray of shape (n_candidates,), in [0, 1]
    """

    positions: NDArray[Any]
    probabilities: NDArray[Any]


@dataclass(frozen=True)
class Completion:
    """Probability of an API from the text's probability and from the known APIs.

    Attributes
    ----------
    ranker : Ranker or None
        On the features of `CoUsageFeatures.candidates`. None where the history has too few
        mashups of several APIs to learn from: the text decides.
    """

    ranker: Ranker | None

    @classmethod
    def fit(
        cls,
        examples: Sequence[Example],
        out_of_fold: Sequence[NDArray[Any]],
        neighbourhoods: Sequence[Neighbourhood],
        *,
        random_state: int,
        n_jobs: int | None = None,
    ) -> Completion:
        """Learn from the examples with several APIs, some but not all of them taken as known.

        Parameters
        ----------
        examples : sequence of Example
        out_of_fold : sequence of ndarray
            For each example, the probabilities of its candidates, out of fold.
        neighbourhoods : sequence of Neighbourhood
            Of each example, out of fold.
        random_state : int
        n_jobs : int or None, default=None
        """
        rng = np.random.default_rng(random_state)
        tasks = [
            (row, known)
            for row, example in enumerate(examples)
            for known in _parts_known(example.used, rng)
        ]
        if sum(not examples[row].hidden for row, _ in tasks) < MIN_NATURAL:
            return cls(None)
        kept = np.sort(rng.permutation(len(tasks))[:MAX_EXAMPLES])
        ranker, _ = Ranker.fit(
            [
                _given(examples[row], out_of_fold[row], neighbourhoods[row], known)
                for row, known in (tasks[i] for i in kept)
            ],
            random_state=random_state,
            n_jobs=n_jobs,
        )
        return cls(ranker)

    def complete(
        self,
        positions: NDArray[Any],
        text: NDArray[Any],
        around: Neighbourhood,
        known: Sequence[int],
    ) -> Completed:
        """Return candidates and probabilities, given the known APIs.

        Parameters
        ----------
        positions : ndarray of shape (n,), int, ascending
            Candidates from the text.
        text : ndarray of shape (n,), in [0, 1]
            Their probabilities from the text.
        around : Neighbourhood
        known : sequence of int
            At least one.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> around = SimpleNamespace()  # not looked at where nothing was learned
        >>> Completion(None).complete(np.array([0, 4]), np.array([0.2, 0.3]), around, [4])
        Completed(positions=array([0]), probabilities=array([0.2]))
        """
        if self.ranker is None:
            left = ~np.isin(positions, known)
            return Completed(positions[left], text[left])
        co_usage = around.co_usage
        found = co_usage.candidates(positions, text, around.neighbours, known)
        p = self.ranker.probabilities(co_usage.co_usage, found)
        return _with_the_rest(found.positions, p, positions, text, known)

    def state(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {"ranker": self.ranker.state() if self.ranker else None}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Completion:
        """Rebuild the model."""
        ranker = state["ranker"]
        return cls(None if ranker is None else Ranker.from_state(ranker))


def _parts_known(used: NDArray[Any], rng: np.random.Generator) -> list[NDArray[Any]]:
    """Return parts of a composition to take as known: all but one, and any number but all."""
    if len(used) < 2:
        return []
    most = np.sort(rng.permutation(used)[1:])
    some = np.sort(rng.permutation(used)[: rng.integers(1, len(used))])
    return [most] if np.array_equal(most, some) else [most, some]


def _given(
    example: Example, text: NDArray[Any], around: Neighbourhood, known: NDArray[Any]
) -> Example:
    """Return the example as it looks once some of its APIs are known."""
    co_usage = around.co_usage
    found = co_usage.candidates(example.candidates.positions, text, around.neighbours, known)
    wanted = np.setdiff1d(example.used, known)
    return Example(co_usage.co_usage, found, wanted, example.hidden)


def _with_the_rest(
    found: NDArray[Any],
    p: NDArray[Any],
    positions: NDArray[Any],
    text: NDArray[Any],
    known: Sequence[int],
) -> Completed:
    """Join the text's other candidates, behind all that were looked at."""
    rest = ~np.isin(positions, np.union1d(found, known))
    joined = np.concatenate([found, positions[rest]])
    behind = np.minimum(text[rest], p.min(initial=1.0))
    order = np.argsort(joined, kind="stable")
    return Completed(joined[order], np.concatenate([p, behind])[order])
