"""Completion: what else a composition needs, given APIs it already uses.

Co-usage does not help to rank from text alone, but it does once some APIs are known: how much is
learned here, from past mashups of which one part is taken as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.pool import ALONE, Pool
from cnp_router.routing.head import is_in
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.parts import Part
from cnp_router.training.ranker import Example, Ranker
from cnp_router.training.views import Neighbours

__all__ = ["Completed", "Completion"]

# Fewer examples teach no more than the text says, and more than the most only cost time. The
# least is of those that calibrate: out of folds that hide nothing.
MIN_NATURAL = 24
MAX_EXAMPLES = 1_500


@dataclass(frozen=True)
class Completed:
    """Candidates for what else is needed, ascending, without the known, and how probable."""

    positions: NDArray[Any]
    probabilities: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Completion(Part):
    """Probability of an API from the text's probability and from the known APIs.

    The ranker looks at `CoUsageFeatures.candidates`. It is None where the history has too few
    mashups of several APIs to learn from: the text decides.
    """

    ranker: Ranker | None

    @classmethod
    def fit(
        cls,
        examples: Sequence[Example],
        out_of_fold: Sequence[NDArray[Any]],
        *,
        random_state: int,
        pool: Pool = ALONE,
    ) -> Completion:
        """Learn from the examples with several APIs, some but not all of them taken as known.

        `out_of_fold` holds the probabilities of each example's candidates from the text.
        """
        rng = np.random.default_rng(random_state)
        tasks = [
            (example, text, known)
            for example, text in zip(examples, out_of_fold, strict=True)
            for known in _parts_known(example.used, rng)
        ]
        if sum(example.is_natural for example, *_ in tasks) < MIN_NATURAL:
            return cls(None)
        kept = np.sort(rng.permutation(len(tasks))[:MAX_EXAMPLES])
        ranker, _ = Ranker.fit(
            [_given(*tasks[i]) for i in kept], random_state=random_state, pool=pool
        )
        return cls(ranker)

    def complete(
        self,
        positions: NDArray[Any],
        text: NDArray[Any],
        past: CoUsageFeatures,
        neighbours: Neighbours,
        known: Sequence[int],
    ) -> Completed:
        """Return candidates and probabilities, given at least one known API.

        The text's candidates ascend, and come with their probabilities.
        """
        places = np.asarray(known, dtype=np.intp)
        if self.ranker is None:
            left = ~is_in(positions, places)
            return Completed(positions[left], text[left])
        found = past.candidates(positions, text, neighbours, known)
        p = self.ranker.probabilities(past.co_usage, found)
        # The text's other candidates come behind all that were looked at.
        rest = ~is_in(positions, np.append(found.positions, places))
        joined = np.concatenate([found.positions, positions[rest]])
        behind = np.minimum(text[rest], p.min(initial=1.0))
        order = np.argsort(joined, kind="stable")
        return Completed(joined[order], np.concatenate([p, behind])[order])


def _parts_known(used: NDArray[Any], rng: np.random.Generator) -> list[NDArray[Any]]:
    """Return parts of a composition to take as known: all but one, and any number but all."""
    if len(used) < 2:
        return []
    most = np.sort(rng.permutation(used)[1:])
    some = np.sort(rng.permutation(used)[: rng.integers(1, len(used))])
    return [most] if np.array_equal(most, some) else [most, some]


def _given(example: Example, text: NDArray[Any], known: NDArray[Any]) -> Example:
    """Return the example as it looks once some of its APIs are known."""
    past, near = example.past, example.neighbours
    found = past.candidates(example.candidates.positions, text, near, known)
    return replace(example, candidates=found, used=example.used[~is_in(example.used, known)])
