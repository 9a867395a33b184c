"""The same work for each of many requests, by several workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

__all__ = ["in_order", "n_workers"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_workers(n_jobs: int | None, items: int) -> int:
    """Return how many joblib workers share so many items; None is one, unless a backend is active.

    Examples
    --------
    >>> n_workers(None, 10), n_workers(4, 3), n_workers(4, 0)
    (1, 3, 1)
    """
    import joblib

    workers = int(joblib.effective_n_jobs(joblib.Parallel(n_jobs=n_jobs).n_jobs))
    return max(min(workers, items), 1)


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None
) -> list[Result]:
    """Return the result for each item, in their order."""
    import joblib

    # One chunk a worker: sending the router to one costs more than routing a request.
    cuts = np.linspace(0, len(items), n_workers(n_jobs, len(items)) + 1).astype(int)
    chunks = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_each)(work, items[i:j]) for i, j in itertools.pairwise(cuts)
    )
    return [result for chunk in chunks for result in chunk]


def _each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [work(item) for item in items]
