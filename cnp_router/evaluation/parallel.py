"""The same work for each of many requests, by several workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

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

    # One batch a worker: sending the router to one costs more than routing a request.
    size = -(-len(items) // n_workers(n_jobs, len(items))) or 1
    parallel = joblib.Parallel(n_jobs=n_jobs, batch_size=size, pre_dispatch="all")
    return list(parallel(joblib.delayed(work)(item) for item in items))
