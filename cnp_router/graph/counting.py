"""From a history to sparse counts: who was used, with whom, and before whom."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from cnp_router.exceptions import UnknownApiError
from cnp_router.history import History

__all__ = ["Counts", "at_least", "count"]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """What a history says about its APIs.

    Parameters
    ----------
    apis : tuple of str
        The ids, in the order of every array.
    usage : ndarray of shape (n_apis,), int
        In how many mashups each API is.
    co_usage : csr_array of shape (n_apis, n_apis), int, symmetric, zero diagonal
        In how many mashups both are.
    transitions : csr_array of shape (n_apis, n_apis), int
        How often the second came right after the first, in ordered mashups.
    """

    apis: tuple[str, ...]
    usage: NDArray[np.int64]
    co_usage: csr_array
    transitions: csr_array


def count(history: History, ids: Sequence[str] | None = None) -> Counts:
    """Count uses, co-uses and transitions, in time linear in the squared mashup sizes.

    Parameters
    ----------
    history : History
    ids : sequence of str, optional
        The APIs, in the order of every array; without them, the sorted ids of the history.

    Raises
    ------
    UnknownApiError
        If a mashup names an API that is not among them.

    Examples
    --------
    >>> from cnp_router.history import Mashup
    >>> counts = count(History([Mashup("m1", "Rain by text", ("weather", "sms"), ordered=True)]))
    >>> counts.apis, counts.co_usage.toarray().tolist(), counts.transitions.toarray().tolist()
    (('sms', 'weather'), [[0, 1], [1, 0]], [[0, 0], [1, 0]])
    """
    used = list(chain.from_iterable(mashup.apis for mashup in history))
    apis = tuple(sorted(set(used)) if ids is None else ids)
    positions = {api: position for position, api in enumerate(apis)}
    try:
        columns = np.fromiter((positions[api] for api in used), dtype=np.int64, count=len(used))
    except KeyError as exc:
        stranger = exc.args[0]
        close = difflib.get_close_matches(stranger, apis, n=1)
        raise UnknownApiError(stranger, close=close) from None
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
    """Return the entries that are at least so many.

    Examples
    --------
    >>> at_least(2, csr_array([[0, 1], [3, 0]])).toarray().tolist()
    [[0, 0], [3, 0]]
    """
    kept = counts.copy()
    kept.data[kept.data < least] = 0
    kept.eliminate_zeros()
    return kept


def _csr(
    rows: NDArray[Any], columns: NDArray[Any], data: NDArray[Any], shape: tuple[int, int]
) -> csr_array:
    return coo_array((data, (rows, columns)), shape=shape).tocsr()
