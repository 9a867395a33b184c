"""Inverted indexes: which items a term weighs for, at most so many a term, the weightiest.

Champion lists (Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008,
section 7.1): what a request costs is bounded by its own terms, however many items there are. What
is found so is then compared exactly, by the rows of the items.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.entries import entries, places
from cnp_router.training.keyed import added, scattered

__all__ = [
    "EXACT",
    "MOST",
    "best",
    "best_of_each",
    "champions",
    "first_of_equal",
    "pooled",
    "postings",
    "row_products",
    "segments",
    "sparse_product",
]

# With at most so many items all of them are looked at, with all that they say.
EXACT = 4_096
MOST = 512  # items a term
_FEW_ROWS, _MANY_COLUMNS = 16, 1 << 18
_ENTRIES = 500_000  # that are looked at together: about what a cache holds


def postings(rows: sparse.csr_array, *, exact: bool, most: int = MOST) -> sparse.csr_array:
    """Return the index of some items, a row each: csr_array of shape (n_terms, n_items).

    All that they say if it is to be `exact`, else the champions of each term.
    """
    index = sparse.csr_array(rows.T)
    return index if exact else champions(index, most)


def champions(matrix: sparse.csr_array, most: int) -> sparse.csr_array:
    """Return a matrix with at most so many entries a row, the largest; of equal ones the first."""
    sizes = np.diff(matrix.indptr)
    long = np.flatnonzero(sizes > most)
    if not len(long):
        return matrix
    kept = np.ones(matrix.nnz, dtype=bool)
    for row in long.tolist():
        start, end = matrix.indptr[row : row + 2]
        values = matrix.data[start:end]
        floor = np.partition(values, -most)[-most]
        above = values > floor
        tied = np.flatnonzero(values == floor)
        above[tied[: most - int(np.count_nonzero(above))]] = True
        kept[start:end] = above
    pointers = np.concatenate([[0], np.cumsum(np.minimum(sizes, most))])
    return sparse.csr_array(
        (matrix.data[kept], matrix.indices[kept], pointers.astype(matrix.indptr.dtype)),
        shape=matrix.shape,
    )


def segments(starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return of which segment each element is, given where each begins, and where the last ends."""
    if len(starts) == 2:
        return np.zeros(starts[1] - starts[0], dtype=np.intp)
    return np.arange(len(starts) - 1).repeat(starts[1:] - starts[:-1])


def best_of_each(
    values: NDArray[np.float32], starts: NDArray[np.intp], most: int
) -> NDArray[np.intp]:
    """Return the places of the largest values of each segment, ascending; of equal ones the first.

    Examples
    --------
    >>> best_of_each(np.array([1.0, 3.0, 2.0, 5.0]), np.array([0, 3, 4]), 2)
    array([1, 2, 3])
    """
    sizes = starts[1:] - starts[:-1]
    if not len(sizes) or sizes.max() <= most:
        return np.arange(len(values))
    if len(sizes) == 1:
        return best(values, most)
    kept = np.ones(len(values), dtype=bool)
    (lines,) = (sizes > most).nonzero()
    block = max(1, _ENTRIES // int(sizes.max()))
    for begin in range(0, len(lines), block):
        own = lines[begin : begin + block]
        where, which = places(starts, own)[0], np.arange(len(own)).repeat(sizes[own])
        floor = _floors(values[where], sizes[own], most)
        above = values[where] >= floor[which]
        (high,) = above.nonzero()
        if len(high) > most * len(own):
            above[high] = first_of_equal(values[where[high]], which[high], floor, most)
        kept[where] = above
    return np.asarray(kept.nonzero()[0])


def _floors(values: NDArray[np.float32], sizes: NDArray[np.intp], most: int) -> NDArray[np.float32]:
    """Return the lowest of the `most` largest values of each segment; each has as many."""
    width = int(sizes.max())
    padded = np.full((len(sizes), width), -np.inf, dtype=np.float32)
    padded[np.arange(width) < sizes[:, None]] = values
    return np.asarray(np.partition(padded, width - most, axis=1)[:, width - most])


def first_of_equal(
    values: NDArray[np.float32], line: NDArray[np.intp], floor: NDArray[np.float32], size: int
) -> NDArray[np.bool_]:
    """Return which values to keep, so many a line: of those that equal the floor the first."""
    tied = values == floor[line]
    n_above = np.bincount(line[~tied], minlength=len(floor))
    number = tied.cumsum()
    before = np.concatenate([[0], number])[line.searchsorted(np.arange(len(floor)))]
    return np.asarray(~tied | (number - before[line] <= size - n_above[line]))


def best(values: NDArray[np.float32], most: int) -> NDArray[np.intp]:
    """Return the places of the largest of more values, ascending; of equal ones the first."""
    floor = np.partition(values, -most)[-most]
    (kept,) = (values >= floor).nonzero()
    if len(kept) > most:
        is_tied = values[kept] == floor
        n_tied = most - len(kept) + int(np.count_nonzero(is_tied))
        kept = kept[~is_tied | (is_tied.cumsum() <= n_tied)]
    return np.asarray(kept)


def row_products(
    queries: sparse.csr_array,
    items: sparse.csr_array,
    of: NDArray[np.intp],
    starts: NDArray[np.intp],
    parts: NDArray[np.intp] | None = None,
) -> NDArray[np.float32]:
    """Return the product of each request with some rows of a matrix, one request after the other.

    Those of request `i` are ``of[starts[i] : starts[i + 1]]``. It is row `i` of `queries`, or where
    `parts` says so rows ``parts[i] : parts[i + 1]``, of which the highest product counts.
    """
    products = np.zeros(len(of), dtype=np.float32)
    parts = np.arange(len(starts)) if parts is None else parts
    width = items.shape[1]
    every = items.indptr[of + 1] - items.indptr[of]
    for first, last in itertools.pairwise(_cuts(every, starts)):
        own = slice(starts[first], starts[last])
        where, sizes = places(items.indptr, of[own])
        terms, weights = items.indices[where], items.data[where]
        ends = np.append(0, sizes.cumsum())
        for row in range(first, last):
            left, right = starts[row] - starts[first], starts[row + 1] - starts[first]
            (here,) = sizes[left:right].nonzero()
            here += left
            if not len(here):
                continue
            between = slice(ends[left], ends[right])
            found = products[own]
            for part in range(parts[row], parts[row + 1]):
                said = slice(*queries.indptr[part : part + 2])
                values = scattered(queries.indices[said], queries.data[said], terms[between], width)
                values *= weights[between]
                sums = np.add.reduceat(values, ends[here] - ends[left])
                found[here] = sums if part == parts[row] else np.maximum(found[here], sums)
    return products


def sparse_product(rows: sparse.csr_array, matrix: sparse.csr_array) -> sparse.csr_array:
    """Return ``rows @ matrix``. Of a few rows, what it takes does not grow with the columns."""
    n_rows, width = rows.shape[0], matrix.shape[1]
    if n_rows > _FEW_ROWS or width <= _MANY_COLUMNS:  # clearing so many takes no time
        whole: sparse.csr_array = rows @ matrix
        return whole
    columns, values = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.float32)]
    for row in range(n_rows):
        own = slice(*rows.indptr[row : row + 2])
        found = entries(matrix, rows.indices[own])
        weights = found.data * rows.data[own].repeat(found.sizes)
        there, sums = added(found.index.astype(np.intp), weights, width)
        columns.append(there)
        values.append(sums)
    pointers = np.cumsum([0, *map(len, columns[1:])])
    return sparse.csr_array(
        (np.concatenate(values), np.concatenate(columns), pointers), shape=(n_rows, width)
    )


def _cuts(sizes: NDArray[np.intp], starts: NDArray[np.intp]) -> list[int]:
    """Return where to cut some requests so that each part has about so many entries at most."""
    if len(starts) == 2:
        return [0, 1]
    ends = np.concatenate([[0], np.cumsum(sizes)])[starts]
    cuts = [0]
    while cuts[-1] < len(starts) - 1:
        most = ends[cuts[-1]] + _ENTRIES
        cuts.append(max(int(np.searchsorted(ends, most, side="right")) - 1, cuts[-1] + 1))
    return cuts


def pooled(
    found: sparse.csr_array, most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return the largest positive values of each row: where each row begins, columns, values.

    The columns ascend in each row.
    """
    (kept,) = (found.data > 0).nonzero()
    starts = kept.searchsorted(found.indptr)
    kept = kept[best_of_each(found.data[kept], starts, most)]
    starts = kept.searchsorted(found.indptr)
    columns = found.indices[kept].astype(np.intp)
    order = (segments(starts) * found.shape[1] + columns).argsort()
    return starts, columns[order], found.data[kept[order]]
