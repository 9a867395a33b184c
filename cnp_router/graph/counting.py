"""From a history to sparse counts: who was used, with whom, and before whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from cnp_router.closest import closest
from cnp_router.exceptions import UnknownApiError
from cnp_router.history import History

__all__ = ["Counts", "at_least", "count", "unknown_api"]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """What a history says about its APIs: the attributes of these names of `TransitionGraph`."""

    apis: tuple[str, ...]
    usage: NDArray[np.int64]
    co_usage: csr_array
    transitions: csr_array


def count(history: History, ids: Sequence[str] | None = None) -> Counts:
    """Count uses, co-uses and transitions, in time linear in the squared mashup sizes.

    The arrays are in the order of `ids`, or else of the sorted ids of the history. A mashup that
    names another API is an UnknownApiError.
    """
    used = list(chain.from_iterable(mashup.apis for mashup in history))
    apis = tuple(sorted(set(used)) if ids is None else ids)
    positions = {api: position for position, api in enumerate(apis)}
    try:
        columns = np.fromiter((positions[api] for api in used), dtype=np.int64, count=len(used))
    except KeyError as exc:
        raise unknown_api(exc.args[0], apis) from None
    sizes = np.fromiter((len(m.apis) for m in history), dtype=np.int64, count=len(history))
    rows = np.repeat(np.arange(len(history)), sizes)
    ones = np.ones(len(columns), dtype=np.int64)
    membership = _csr(rows, columns, ones, (len(history), len(apis)))
    membership.data[:] = 1  # an API that is listed twice was used once
    square = (len(apis), len(apis))
    both = (membership.T @ membership).tocoo()
    apart = both.row != both.col
    ordered = np.fromiter((m.ordered for m in history), dtype=bool, count=len(history))
    follows = (rows[1:] == rows[:-1]) & ordered[rows[1:]]
    return Counts(
        apis=apis,
        usage=np.asarray(membership.sum(axis=0), dtype=np.int64),
        co_usage=_csr(both.row[apart], both.col[apart], both.data[apart], square),
        transitions=_csr(columns[:-1][follows], columns[1:][follows], ones[1:][follows], square),
    )


def at_least(least: int, counts: csr_array) -> csr_array:
    """Return the entries that are at least so many."""
    kept = counts.copy()
    kept.data[kept.data < least] = 0
    kept.eliminate_zeros()
    return kept


def unknown_api(api: str, apis: Sequence[str]) -> UnknownApiError:
    """Return what to raise where an API is not among those of the graph."""
    return UnknownApiError(api, close=closest(str(api), apis))


def _csr(
    rows: NDArray[Any], columns: NDArray[Any], data: NDArray[Any], shape: tuple[int, int]
) -> csr_array:
    return coo_array((data, (rows, columns)), shape=shape).tocsr()
