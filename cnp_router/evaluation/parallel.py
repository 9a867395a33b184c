"""The same work for each of many requests, by several workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cnp_router.pool import Pool, spans

__all__ = ["in_order"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_PIECES = 4  # for each worker of a cluster: not all are equally fast
_MOST = 500  # items of one


def in_order(
    work: Callable[[Item], Result], pool: Pool
) -> Callable[[Sequence[Item]], list[Result]]:
    """Share some work; return what does it for each of many items, and gives results in order.

    Examples
    --------
    >>> from cnp_router.pool import LocalPool
    >>> in_order(abs, LocalPool(2, threads=True))([3, -4])
    [3, 4]
    """
    shared = pool.share(work)

    def done(items: Sequence[Item]) -> list[Result]:
        # One piece a worker here: sending the router to one costs more than routing a request.
        # Those of a cluster get it once.
        most, least = (_MOST, _PIECES * pool.n_workers) if pool.is_remote else (len(items), 0)
        pieces = spans(len(items), max(most, 1), max(least, pool.n_workers))
        chunks = pool.each(_each, [items[i:j] for i, j in pieces], shared)
        return [result for chunk in chunks for result in chunk]

    return done


def _each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [work(item) for item in items]
