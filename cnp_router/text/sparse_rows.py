"""Sparse rows: made piece by piece in little memory, brought to length 1, multiplied."""

from __future__ import annotations

import copy
import itertools
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.kernels import Rows, add_all, add_up, n_entries, taken

__all__ = [
    "GrowingRows",
    "add_product",
    "counted_rows",
    "dense_product",
    "longer",
    "one_row",
    "replaced_rows",
    "rows_below",
    "rows_between",
    "unit_data",
    "unit_rows",
]

_GROWTH = 1.125
_LEAST = 1 << 16
_COPIED = 1 << 15  # entries
_FIRST = np.zeros(1, dtype=np.intp)
_MOST_32 = np.iinfo(np.int32).max


class GrowingRows:
    """A sparse float32 matrix that is made from the top, some rows at a time.

    Its arrays grow in place: at no time are they there twice, where the system can move pages.
    """

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self._n_rows = self._n_entries = 0
        self._data = np.zeros(0, dtype=np.float32)
        self._columns = np.zeros(0, dtype=np.int32)
        self._sizes: list[NDArray[Any]] = []

    def add(self, data: NDArray[Any], columns: NDArray[Any], sizes: NDArray[Any]) -> None:
        """Add rows, each of which has the next `sizes` of the entries."""
        end = self._n_entries + len(data)
        if end > len(self._data):
            # What is added at once needs no room for more, and clearing it takes time.
            room = max(end, int(_GROWTH * len(self._data)), _LEAST) if self._n_entries else end
            # Nothing else refers to them; numpy's own check of that fails under a debugger.
            self._data.resize(room, refcheck=False)
            self._columns.resize(room, refcheck=False)
        self._data[self._n_entries : end] = data
        self._columns[self._n_entries : end] = columns
        self._sizes.append(sizes)
        self._n_entries = end
        self._n_rows += len(sizes)

    def matrix(self) -> sparse.csr_array:
        """Return all rows; no more can be added."""
        return self.rows().matrix()

    def rows(self) -> Rows:
        """Return the same without what a matrix checks, which for a few rows takes longer."""
        self._data.resize(self._n_entries, refcheck=False)
        self._columns.resize(self._n_entries, refcheck=False)
        pointers = np.zeros(self._n_rows + 1, dtype=np.int64)
        np.cumsum(np.concatenate([*self._sizes, np.zeros(0, np.int64)]), out=pointers[1:])
        columns: NDArray[Any] = self._columns
        if self._n_entries <= _MOST_32:
            pointers = pointers.astype(np.int32)
        else:  # scipy wants both of one type
            columns = columns.astype(np.int64)
        return Rows(self._data, columns, pointers, (self._n_rows, self._n_columns))


class _Room(np.ndarray[Any, Any]):
    """An array of which the first elements are used, and more may be put behind these."""

    used = 0


_claiming = threading.Lock()


def longer(array: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    """Return an array with more elements, or rows, at its end, which cannot be changed any more.

    The array stays as it is. It is copied once, with room behind it: who goes on from what was
    returned last puts what comes into that.

    Examples
    --------
    >>> one = longer(np.array([1, 2]), np.array([3]))
    >>> longer(one, np.array([4, 5])), longer(one, np.array([6])), one
    (array([1, 2, 3, 4, 5]), array([1, 2, 3, 6]), array([1, 2, 3]))
    """
    shape = (len(array) + len(more), *array.shape[1:])
    flat, n, end = array.ravel(), array.size, array.size + more.size
    room: Any = flat.base
    while isinstance(room, np.ndarray) and not isinstance(room, _Room):
        room = room.base
    with _claiming:
        follows = (
            isinstance(room, _Room)
            and room.used == n
            and end <= len(room)
            and room.dtype == flat.dtype
        )
        if follows:
            room.used = end
    if not follows:
        room = _Room(int(_GROWTH * end) + _LEAST, array.dtype)
        room[:n], room.used = flat, end
    room[n:end] = more.ravel()
    grown = np.asarray(room)[:end].reshape(shape)
    grown.flags.writeable = False
    return grown


def rows_below(matrix: sparse.csr_array, more: sparse.csr_array) -> sparse.csr_array:
    """Return a matrix with rows of another one below its own, as `longer` does it.

    Examples
    --------
    >>> one = sparse.csr_array(np.eye(2, dtype=np.float32))
    >>> rows_below(one, one[1:]).toarray()
    array([[1., 0.],
           [0., 1.],
           [0., 1.]], dtype=float32)
    """
    n_entries = int(matrix.indptr[-1]) + int(more.indptr[-1])
    kind = np.int32 if n_entries <= _MOST_32 else np.int64  # scipy wants both of one type
    behind = more.indptr[1:].astype(np.int64) + matrix.indptr[-1]
    shape = matrix.shape[0] + more.shape[0], matrix.shape[1]
    below = sparse.csr_array(shape, dtype=matrix.dtype)
    # As they are, without what scipy checks: that would look at all.
    below.data = longer(matrix.data, more.data)
    below.indices = longer(matrix.indices.astype(kind, copy=False), more.indices)
    below.indptr = longer(matrix.indptr.astype(kind, copy=False), behind)
    return below


def replaced_rows(
    matrix: sparse.csr_array, rows: NDArray[Any], values: sparse.csr_array
) -> sparse.csr_array:
    """Return a matrix with some of its rows replaced, columns in order.

    Examples
    --------
    >>> one = sparse.csr_array(np.eye(2, dtype=np.float32))
    >>> replaced_rows(one, np.array([1]), one[[0]]).toarray()
    array([[1., 0.],
           [1., 0.]], dtype=float32)
    """
    n_rows = matrix.shape[0]
    order = np.arange(n_rows)
    order[rows] = np.arange(n_rows, n_rows + len(rows))
    replaced = sparse.csr_array(sparse.vstack([matrix, values], format="csr")[order])
    replaced.sort_indices()
    return replaced


def counted_rows(
    columns: NDArray[Any], sizes: NDArray[Any], n_columns: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the distinct columns of each row in order, how often each is there, and new sizes.

    The rows follow each other in `columns`, with `sizes` entries each.
    """
    if len(sizes) == 1:
        keys = np.sort(columns)
        firsts, counts = _runs(keys)
        return keys[firsts], counts, np.array([len(firsts)])
    small = len(sizes) * n_columns <= _MOST_32
    starts = np.arange(len(sizes), dtype=np.int32 if small else np.int64) * n_columns
    keys = columns + np.repeat(starts, sizes)
    keys.sort()
    firsts, counts = _runs(keys)
    keys = keys[firsts]
    own = np.diff(np.searchsorted(keys, np.append(starts, len(sizes) * n_columns)))
    return keys - np.repeat(starts, own), counts, own


def _runs(keys: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return where each of some numbers that are in order begins, and how often it is there."""
    is_first = np.ones(len(keys) + 1, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:-1])
    (bounds,) = is_first.nonzero()
    return bounds[:-1], (bounds[1:] - bounds[:-1]).astype(np.float32)


def one_row(
    blank: sparse.csr_array, weights: NDArray[Any], columns: NDArray[Any]
) -> sparse.csr_array:
    """Return one row of length 1, as wide as a blank one, without the checks of scipy."""
    row = copy.copy(blank)
    row.data, row.indices, row.indptr = weights, columns, np.array([0, len(weights)], np.int32)
    if len(weights):
        # As `unit_data` does it, so that one row is the same as among many: by an array, too, since
        # before version 2 numpy divides by a number in the precision of the array.
        square = np.add.reduceat(np.square(weights, dtype=np.float64), _FIRST)
        row.data = (weights / np.sqrt(np.maximum(square, 1e-24))).astype(np.float32)
    return row


def rows_between(matrix: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Return rows that stand together; if they are most of all, their entries are not copied."""
    pointers = matrix.indptr[start : stop + 1]
    own = slice(pointers[0], pointers[-1])
    return sparse.csr_array(
        (matrix.data[own], matrix.indices[own], pointers - pointers[0]),
        shape=(stop - start, matrix.shape[1]),
    )


def unit_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix with each row scaled to length 1; rows of zeros stay."""
    scaled = copy.copy(matrix)  # it shares all but the data
    scaled.data = unit_data(matrix.data, matrix.indptr)
    return scaled


def unit_data(data: NDArray[Any], pointers: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of a matrix with each row scaled to length 1."""
    sizes = np.diff(pointers)
    is_filled = sizes > 0
    if not is_filled.any():
        return data.astype(np.float32)
    squares = np.add.reduceat(data.astype(np.float64) ** 2, pointers[:-1][is_filled])
    lengths = np.sqrt(np.maximum(squares, 1e-24))
    return np.asarray((data / np.repeat(lengths, sizes[is_filled])).astype(np.float32))


def dense_product(rows: sparse.csr_array | Rows, matrix: sparse.csr_array) -> NDArray[Any]:
    """Return ``rows @ matrix`` as a dense array.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1, 0], [2, 1]], dtype=np.float32))
    >>> dense_product(rows, sparse.csr_array(np.array([[0, 3], [1, 0]], dtype=np.float32)))
    array([[0., 3.],
           [1., 6.]], dtype=float32)
    """
    shape = rows.shape[0], matrix.shape[1]
    products = np.zeros(shape, dtype=np.result_type(rows.data, matrix.data))
    # In the order of the rows, as scipy adds them up, which a copy takes.
    pairs = list(itertools.pairwise(rows.indptr.tolist()))
    at_once = _copied_at_once(rows, matrix)
    for first in range(0, shape[0], at_once):
        some = pairs[first : first + at_once]
        start = some[0][0]
        own = taken(matrix, rows.indices[start : some[-1][1]])
        for line, (begin, end) in zip(products[first:], some, strict=False):
            pointers = own.indptr[begin - start : end - start + 1]
            each = Rows(own.data, own.indices, pointers, (end - begin, shape[1]))
            add_all(each, rows.data[begin:end], line)
    return products


def _copied_at_once(rows: sparse.csr_array | Rows, matrix: sparse.csr_array) -> int:
    """Return for how many rows a cache holds all that they are multiplied by."""
    n_rows = rows.shape[0]
    if n_rows < 2:
        return 1
    return max(_COPIED * n_rows // max(n_entries(matrix, rows.indices), 1), 1)


def add_product(rows: Rows, matrix: sparse.csr_array, into: NDArray[Any]) -> None:
    """Add ``rows @ matrix`` to a dense array; the columns of the rows best descend."""
    ends = rows.indptr.tolist()
    for line, (begin, end) in zip(into, itertools.pairwise(ends), strict=True):
        add_up(matrix, rows.indices[begin:end], rows.data[begin:end], line)
