"""Inverted indexes: which items a term weighs for, at most so many a term, the weightiest.

Champion lists (Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008,
section 7.1): what a request costs is bounded by its own terms, however many items there are. What
is found so is then compared exactly, by the rows of the items.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.entries import entries, places
from cnp_router.text.kernels import (
    Rows,
    dense_times,
    descending,
    n_entries,
    product,
    times_each,
)
from cnp_router.text.sparse_rows import add_product
from cnp_router.training.keyed import Filled, added, highest

__all__ = [
    "EXACT",
    "MOST",
    "TINY",
    "best",
    "best_of_each",
    "best_of_lines",
    "best_products",
    "champions",
    "part_products",
    "pooled",
    "postings",
    "ranked",
    "reached",
    "reduced",
    "row_products",
    "segments",
    "sort_each",
    "sparse_product",
    "together",
    "with_items",
]

# With at most so many items all of them are looked at, with all that they say.
EXACT = 4_096
MOST = 512  # items a term
_BESIDE, _LAST = 64, np.iinfo(np.int64).max  # segments that are sorted beside each other
_FEW_KEYS = 2_048  # are sorted as one before they stand beside each other
_BITS, _HIGHEST = 31, np.int32(0x7FFFFFFF)  # of a positive number
TINY = np.finfo(np.float32).tiny  # smaller products are taken for 0
_FEW_ROWS, _MANY_COLUMNS = 16, 1 << 18
# With more columns for each entry of an index that is multiplied, only what is there is looked at.
_CELLS_AN_ENTRY = 12
_CELLS = 1 << 18  # of all products of some rows: about what a cache holds
_FEWER = 4  # times as many as are wanted
# The floors of segments that are no longer than this are looked for together, of so many at once.
_SHORT, _AT_ONCE = 256, 2_048


def postings(rows: sparse.csr_array, *, exact: bool, most: int = MOST) -> sparse.csr_array:
    """Return the index of some items, a row each: csr_array of shape (n_terms, n_items).

    All that they say if it is to be `exact`, else the champions of each term.
    """
    index = sparse.csr_array(rows.T)
    return index if exact else champions(index, most)


def with_items(
    index: sparse.csr_array, rows: sparse.csr_array, most: int = MOST
) -> sparse.csr_array:
    """Return an index of champions with more items behind its own, as if made of all.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[0.6, 0.8], [1.0, 0.0], [0.8, 0.6]]))
    >>> index = postings(rows[:2], exact=False, most=1)
    >>> with_items(index, rows[2:], 1).toarray()
    array([[0. , 1. , 0. ],
           [0.8, 0. , 0. ]])
    """
    more = sparse.csr_array(rows.T)
    return champions(sparse.csr_array(sparse.hstack([index, more], "csr")), most)


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


def together(
    starts: NDArray[np.intp], most: int, n_most: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield segments that are looked at together: the first, and the one behind the last.

    As many as have at most so many elements, and at most `n_most` of them, but at least one.

    Examples
    --------
    >>> list(together(np.array([0, 2, 4, 9, 10]), 4)), list(together(np.array([0, 1, 2]), 4, 1))
    ([(0, 2), (2, 3), (3, 4)], [(0, 1), (1, 2)])
    """
    last, n = 0, len(starts) - 1
    while last < n:
        first = last
        fitting = int(starts.searchsorted(starts[first] + most, side="right")) - 1
        last = min(max(fitting, first + 1), first + (n_most or n), n)
        yield first, last


def segments(starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return of which segment each element is, given where each begins, and where the last ends."""
    if len(starts) == 2:
        return np.zeros(starts[1] - starts[0], dtype=np.intp)
    return np.arange(len(starts) - 1).repeat(starts[1:] - starts[:-1])


def reduced(by: np.ufunc, values: NDArray[Any], starts: NDArray[np.intp]) -> NDArray[Any]:
    """Return what a function makes of the values of each segment; 0 of an empty one.

    Examples
    --------
    >>> reduced(np.add, np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2, 3]))
    array([3., 0., 4.])
    """
    found = np.zeros(len(starts) - 1, dtype=values.dtype)
    (some,) = (starts[1:] > starts[:-1]).nonzero()
    if len(some):
        found[some] = by.reduceat(values, starts[some])
    return found


def sort_each(keys: NDArray[np.int64], starts: NDArray[np.intp]) -> None:
    """Sort each segment of some keys, in place.

    Some short ones are sorted beside each other, which is many times faster than all of them as
    one: what fits into a few registers needs no pivots.

    Examples
    --------
    >>> keys = np.array([3, 1, 2, 9, 7])
    >>> sort_each(keys, np.array([0, 3, 5]))
    >>> keys
    array([1, 2, 3, 7, 9])
    """
    sizes = starts[1:] - starts[:-1]
    width = int(sizes.max(initial=0))
    if len(sizes) * width == len(keys):
        keys.reshape(-1, max(width, 1)).sort(axis=1)
        return
    for begin in range(0, len(sizes), _BESIDE):
        own = sizes[begin : begin + _BESIDE]
        ends = starts[begin : begin + len(own) + 1]
        if own.max() > _SHORT:
            for first, last in itertools.pairwise(ends.tolist()):
                keys[first:last].sort()
            continue
        beside = keys[ends[0] : ends[-1]]
        there = np.arange(own.max()) < own[:, None]
        padded = np.full(there.shape, _LAST)
        padded[there] = beside
        padded.sort(axis=1)
        beside[:] = padded[there]


def ranked(
    values: NDArray[np.float32], starts: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of positive values, segment by segment, the largest first; and ranks.

    Of equal ones the first comes first. The ranks begin with 0 in each segment.

    Examples
    --------
    >>> ranked(np.array([1, 3, 2, 5], dtype=np.float32), np.array([0, 3, 4]))
    (array([1, 2, 0, 3]), array([0, 1, 2, 0]))
    """
    sizes = starts[1:] - starts[:-1]
    first = starts[:-1].repeat(sizes)
    rank = np.arange(len(values)) - first
    # As whole numbers, which are sorted fast: the segment, how far below the highest number there
    # is, and in the last digits the place in the segment.
    digits = int(sizes.max(initial=0)).bit_length()
    keys = np.arange(len(sizes)).repeat(sizes) << _BITS
    keys += _HIGHEST - values.view(np.int32)
    keys <<= digits
    keys += rank
    if len(keys) > _FEW_KEYS:
        sort_each(keys, starts)
    else:
        keys.sort()
    keys &= (1 << digits) - 1
    keys += first
    return keys, rank


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
    which = segments(starts)
    floor = _floors(values, starts, sizes, most)
    (kept,) = (values >= floor[which]).nonzero()
    if len(kept) > np.minimum(sizes, most).sum():
        kept = kept[_first_of_equal(values[kept], which[kept], floor, most)]
    return np.asarray(kept)


def _reaching(values: NDArray[np.float32], starts: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return the places of the largest values of each segment, and of all that equal the last."""
    floor = _floors(values, starts, starts[1:] - starts[:-1], most)
    return np.asarray((values >= floor[segments(starts)]).nonzero()[0])


def _floors(
    values: NDArray[np.float32], starts: NDArray[np.intp], sizes: NDArray[np.intp], most: int
) -> NDArray[np.float32]:
    """Return the lowest of the `most` largest values of each segment; -inf of one with no more."""
    floor = np.full(len(sizes), -np.inf, dtype=np.float32)
    for line in (sizes > max(most, _SHORT)).nonzero()[0].tolist():
        floor[line] = _floor(values[starts[line] : starts[line + 1]], most)
    (lines,) = ((sizes > most) & (sizes <= _SHORT)).nonzero()
    for begin in range(0, len(lines), _AT_ONCE):
        own = lines[begin : begin + _AT_ONCE]
        padded = np.full((len(own), int(sizes[own].max())), -np.inf, dtype=np.float32)
        there = np.arange(padded.shape[1]) < sizes[own][:, None]
        padded[there] = values[places(starts, own)[0]]
        cut = padded.shape[1] - most
        floor[own] = np.partition(padded, cut, axis=1)[:, cut]
    return floor


def _floor(values: NDArray[np.float32], most: int) -> np.float32:
    """Return the lowest of the `most` largest of more values, found among what may be of them."""
    if len(values) > _SHORT:
        values = values[values >= reached(values[None], most)]
    return np.partition(values, -most)[-most]  # type: ignore[no-any-return]


def _first_of_equal(
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
    floor = _floor(values, most)
    (kept,) = (values >= floor).nonzero()
    if len(kept) > most:
        is_tied = values[kept] == floor
        n_tied = most - len(kept) + int(np.count_nonzero(is_tied))
        kept = kept[~is_tied | (is_tied.cumsum() <= n_tied)]
    return np.asarray(kept)


def reached(values: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Return what at least so many values of each line reach, and hardly more.

    So many of the largest of every few: they are there at once, and there are fewer to order.
    """
    n_lines, width = values.shape
    if width <= most:
        return np.full(n_lines, -np.inf, dtype=np.float32)
    few = max(width // (_FEWER * most), 1)
    of = width // few
    largest = values[:, : few * of].reshape(n_lines, few, of).max(axis=1)
    return np.asarray(np.partition(largest, of - most, axis=1)[:, of - most])


def row_products(
    queries: sparse.csr_array | Rows | NDArray[np.float32],
    items: sparse.csr_array,
    of: NDArray[np.intp],
    starts: NDArray[np.intp],
) -> NDArray[np.float32]:
    """Return the product of each request with some rows of a matrix, one request after the other.

    Those of request `i`, which is row `i` of `queries`, are ``of[starts[i] : starts[i + 1]]``.
    """
    if isinstance(queries, np.ndarray):
        products = times_each(items, of, starts, queries)
    else:
        with closing(_with_zeros(queries)) as vectors:  # it is given back, whatever happens
            products = times_each(items, of, starts, vectors)
    return products.astype(np.float32, copy=False)


def _with_zeros(rows: sparse.csr_array | Rows) -> Generator[NDArray[np.float32], None, None]:
    """Yield each of some rows with all its zeros; when the next one is taken, it is gone."""
    for begin, end in itertools.pairwise(rows.indptr.tolist()):
        with Filled(rows.indices[begin:end], rows.data[begin:end], rows.shape[1]) as row:
            yield row


def part_products(
    parts: Rows, begins: NDArray[np.intp], items: Rows, starts: NDArray[np.intp]
) -> NDArray[np.float32]:
    """Return the products of the items of each of some requests with its parts: (n_items, most).

    Those of request `i` are the parts ``begins[i] : begins[i + 1]`` and the items
    ``starts[i] : starts[i + 1]``; one with fewer parts than another has zeros behind them. Only
    what the items have in common with any part is multiplied.

    Examples
    --------
    >>> parts = sparse.csr_array(np.array([[1, 0, 0], [0, 2, 0]], dtype=np.float32))
    >>> parts = Rows(parts.data, parts.indices, parts.indptr, parts.shape)
    >>> part_products(parts, np.array([0, 2]), parts, np.array([0, 2]))
    array([[1., 0.],
           [0., 4.]], dtype=float32)
    """
    sizes = begins[1:] - begins[:-1]
    number = np.arange(1, len(parts.indices) + 1, dtype=np.float32)
    place, common = np.empty_like(number), np.empty(len(items.indices), dtype=np.float32)
    said = itertools.pairwise(parts.indptr.take(begins).tolist())
    there = itertools.pairwise(items.indptr.take(starts).tolist())
    for own, its in zip(
        itertools.starmap(slice, said), itertools.starmap(slice, there), strict=True
    ):
        terms = parts.indices[own]
        with Filled(terms, number[own], items.shape[1]) as number_of:  # the last of equal ones
            place[own] = number_of.take(terms)
            common[its] = number_of.take(items.indices[its])
    weights = np.zeros((len(number), int(sizes.max(initial=1))), dtype=np.float32)
    column = np.arange(len(parts.indptr) - 1) - begins[:-1].repeat(sizes)
    weights[place.astype(np.intp) - 1, column[segments(parts.indptr)]] = parts.data
    (kept,) = (common > 0).nonzero()
    kind = items.indptr.dtype
    columns, pointers = common[kept].astype(kind), kept.searchsorted(items.indptr).astype(kind)
    columns -= 1
    shape = len(pointers) - 1, len(number)
    return dense_times(Rows(items.data[kept], columns, pointers, shape), weights)


def best_products(
    rows: sparse.csr_array | Rows,
    index: sparse.csr_array,
    most: int,
    begins: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return the largest positive products of each row with an index, as `pooled` does.

    Where `begins` says which rows are parts of one request, those of request `i` being
    ``begins[i] : begins[i + 1]``, at least one: the largest of each request, and for each column
    the product of the part that fits best.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1, 2], [2, 0]], dtype=np.float32))
    >>> index = sparse.csr_array(np.array([[3, 0, 9], [4, 0, 0]], dtype=np.float32))
    >>> best_products(rows, index, 1)
    (array([0, 1, 2]), array([0, 2]), array([11., 18.], dtype=float32))
    >>> best_products(rows, index, 2, np.array([0, 2]))
    (array([0, 2]), array([0, 2]), array([11., 18.], dtype=float32))
    """
    n_rows, width = rows.shape[0], index.shape[1]
    rows = descending(rows)  # so that all ways to multiply add up in the same order
    if n_rows * width > _CELLS_AN_ENTRY * n_entries(index, rows.indices):
        found = pooled(sparse_product(rows, index), most)
        return found if begins is None else _best_of_parts(*found, begins, width, most)
    starts = np.arange(n_rows + 1) if begins is None else begins
    blocks = []
    for first, last in together(starts, max(_CELLS // max(width, 1), 1)):
        pointers = rows.indptr[starts[first] : starts[last] + 1]
        shape = len(pointers) - 1, rows.shape[1]
        some = Rows(rows.data, rows.indices, pointers, shape)
        products = np.zeros((shape[0], width), dtype=np.float32)
        add_product(some, index, products)
        if begins is not None:
            own = itertools.pairwise((begins[first : last + 1] - begins[first]).tolist())
            products = np.stack([products[begin:end].max(axis=0) for begin, end in own])
        blocks.append(best_of_lines(products, most))
    if len(blocks) == 1:
        return blocks[0]
    sizes = [own[1:] - own[:-1] for own, _, _ in blocks]
    starts = np.cumsum(np.concatenate([np.zeros(1, dtype=np.intp), *sizes]))
    columns = [np.zeros(0, dtype=np.intp), *(own for _, own, _ in blocks)]
    values = [np.zeros(0, dtype=np.float32), *(own for _, _, own in blocks)]
    return starts, np.concatenate(columns), np.concatenate(values)


def _best_of_parts(
    starts: NDArray[np.intp],
    columns: NDArray[np.intp],
    values: NDArray[np.float32],
    begins: NDArray[np.intp],
    width: int,
    most: int,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return the same of requests, given the largest products of their parts."""
    request = segments(begins)[segments(starts)]
    n_requests = len(begins) - 1
    keys, values = highest(request * width + columns, values, n_requests * width)
    own = keys.searchsorted(np.arange(n_requests + 1) * width)
    kept = best_of_each(values, own, most)
    own = kept.searchsorted(own)
    return own, keys[kept] - segments(own) * width, values[kept]


def best_of_lines(
    values: NDArray[np.float32], most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return the largest positive values of each line, as `pooled` does."""
    n_lines, width = values.shape
    least = np.maximum(reached(values, most), TINY)
    (flat,) = (values >= least[:, None]).ravel().nonzero()
    found, starts = values.ravel()[flat], flat.searchsorted(np.arange(n_lines + 1) * width)
    kept = best_of_each(found, starts, most)
    starts = kept.searchsorted(starts)
    return starts, flat[kept] - segments(starts) * width, found[kept]


def sparse_product(rows: sparse.csr_array | Rows, index: sparse.csr_array) -> Rows:
    """Return ``rows @ index``. Of a few rows, what it takes does not grow with the columns."""
    n_rows, width = rows.shape[0], index.shape[1]
    if n_rows > _FEW_ROWS or width <= _MANY_COLUMNS:  # clearing so many takes no time
        return product(rows, index)
    columns, values = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.float32)]
    for begin, end in itertools.pairwise(rows.indptr.tolist()):
        found = entries(index, rows.indices[begin:end])
        weights = found.data * rows.data[begin:end].repeat(found.sizes)
        there, sums = added(found.index.astype(np.intp), weights, width)
        columns.append(there)
        values.append(sums)
    pointers = np.cumsum([len(own) for own in columns])
    return Rows(np.concatenate(values), np.concatenate(columns), pointers, (n_rows, width))


def pooled(
    found: Rows, most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return the largest positive values of each row: where each row begins, columns, values.

    The columns ascend in each row. Of equal values those in the first columns are taken.
    """
    (kept,) = (found.data > 0).nonzero()
    starts = kept.searchsorted(found.indptr)
    kept = kept[_reaching(found.data[kept], starts, most)]
    starts = kept.searchsorted(found.indptr)
    columns = found.indices[kept].astype(np.intp)
    order = (segments(starts) * found.shape[1] + columns).argsort()
    columns, values = columns[order], found.data[kept[order]]
    best = best_of_each(values, starts, most)
    return best.searchsorted(starts), columns[best], values[best]
