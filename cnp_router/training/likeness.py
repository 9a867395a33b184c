"""Which items are most like each of some others: exact products of what an index proposes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.postings import best_of_each, champions, postings, row_products, segments

__all__ = ["most_like"]

# What is looked at: so many terms of each row, items of each term, and the best of those exactly.
TERMS, CHAMPIONS, POOL = 64, 256, 40


def most_like(
    rows: sparse.csr_array,
    items: sparse.csr_array,
    itself: NDArray[np.intp],
    most: int,
    *,
    block: int = 512,
) -> sparse.csr_array:
    """Return how like each row the items are that are most so: float32 of shape (n_rows, n_items).

    The products of both are exact; which items are looked at is known from the weightiest terms, so
    that time is linear in the rows, and memory in `block` of them.

    Parameters
    ----------
    rows, items : csr_array of shape (n, n_terms)
        The weights of their terms, not negative.
    itself : ndarray of shape (n_rows,)
        The item that a row is, which is passed over; -1 where it is none.
    most : int
        How many items a row has at most; all of them have a term in common with it.

    Examples
    --------
    >>> items = sparse.csr_array(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
    >>> most_like(items, items, itself=np.arange(3), most=1).toarray()
    array([[0. , 0.6, 0. ],
           [0. , 0. , 0.8],
           [0. , 0.8, 0. ]], dtype=float32)
    """
    index = postings(items, exact=False, most=CHAMPIONS)
    sizes, columns, values = [np.zeros(1, dtype=np.intp)], [], []
    for first in range(0, rows.shape[0], block):
        own = sparse.csr_array(rows[first : first + block])
        starts, near = _candidates(own, index, itself[first : first + block], max(POOL, 2 * most))
        likeness = row_products(own, items, near, starts)
        best = best_of_each(likeness, starts, most)
        best = best[likeness[best] > 0]
        sizes.append(np.diff(np.searchsorted(best, starts)))
        columns.append(near[best])
        values.append(likeness[best])
    none: list[NDArray[Any]] = [np.zeros(0, dtype=np.float32)]
    pointers = np.cumsum(np.concatenate(sizes))
    indices = np.concatenate([*columns, np.zeros(0, dtype=np.intp)])
    return sparse.csr_array(
        (np.concatenate(values + none), indices, pointers), shape=(rows.shape[0], items.shape[0])
    )


def _candidates(
    rows: sparse.csr_array, index: sparse.csr_array, itself: NDArray[np.intp], most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where each row's items begin, and the items, ascending."""
    found = sparse.csr_array(champions(rows, TERMS) @ index)
    row = segments(found.indptr)
    found.data[found.indices == itself[row]] = 0
    best = best_of_each(found.data, found.indptr, most)
    best = best[found.data[best] > 0]
    order = np.lexsort((found.indices[best], row[best]))
    return np.searchsorted(best, found.indptr), found.indices[best[order]].astype(np.intp)
