"""The compiled loops of scipy, without what its operators check and copy around them.

An answer multiplies some dozen times a few rows: of what that takes, the operators are more than
the numbers. scipy has the loops under a private name; where that is not there, its operators do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

try:
    from scipy.sparse import _sparsetools as loops
except ImportError:  # a scipy that has them elsewhere
    loops = None

__all__ = [
    "Rows",
    "add_all",
    "add_up",
    "below",
    "dense_times",
    "descending",
    "n_entries",
    "product",
    "taken",
    "times_each",
]

_MOST_32 = np.iinfo(np.int32).max


class Rows(NamedTuple):
    """Sparse rows, with the attributes of a csr_array; those of a row may be in any order."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    shape: tuple[int, int]

    def matrix(self) -> sparse.csr_array:
        """Return them as a csr_array."""
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def toarray(self) -> NDArray[Any]:
        """Return them as a dense array; no row may have a column twice."""
        dense = np.zeros(self.shape, dtype=self.data.dtype)
        n_rows, width = self.shape
        where = self.indices
        if n_rows > 1:
            lines = np.arange(0, n_rows * width, width)
            where = where + lines.repeat(self.indptr[1:] - self.indptr[:-1])
        dense.ravel()[where] = self.data
        return dense


def first_columns(rows: sparse.csr_array | Rows, n: int) -> sparse.csr_array | Rows:
    """Return the first columns of rows: ``rows[:, :n]``.

    Examples
    --------
    >>> first_columns(sparse.csr_array([[1.0, 2.0], [0.0, 3.0]]), 1).toarray()
    array([[1.],
           [0.]])
    """
    if n >= rows.shape[1]:
        return rows
    (kept,) = (rows.indices < n).nonzero()
    pointers = kept.searchsorted(rows.indptr).astype(rows.indptr.dtype)
    return Rows(rows.data[kept], rows.indices[kept], pointers, (rows.shape[0], n))


def taken(matrix: sparse.csr_array | Rows, lines: NDArray[np.intp]) -> Rows:
    """Return some rows of a matrix, or of what has its attributes: ``matrix[lines]``.

    Examples
    --------
    >>> taken(sparse.csr_array([[1.0, 0.0], [0.0, 2.0]]), np.array([1])).indices
    array([1], dtype=int32)
    """
    pointers = matrix.indptr
    starts = pointers.take(lines)
    sizes = pointers.take(lines + 1)
    sizes -= starts
    own = np.zeros(len(lines) + 1, dtype=pointers.dtype)
    sizes.cumsum(out=own[1:])
    shape = len(lines), matrix.shape[1]
    if loops is None:
        where = np.arange(own[-1]) + (starts - own[:-1]).repeat(sizes)
        return Rows(matrix.data[where], matrix.indices[where], own, shape)
    data, indices = np.empty(own[-1], matrix.data.dtype), np.empty(own[-1], matrix.indices.dtype)
    lines = lines.astype(pointers.dtype, copy=False)
    loops.csr_row_index(len(lines), lines, pointers, matrix.indices, matrix.data, indices, data)
    return Rows(data, indices, own, shape)


def n_entries(matrix: sparse.csr_array | Rows, lines: NDArray[Any]) -> int:
    """Return how many entries some rows of a matrix have.

    Examples
    --------
    >>> n_entries(sparse.csr_array([[1.0, 2.0], [0.0, 2.0]]), np.array([0, 1, 1]))
    4
    """
    pointers = matrix.indptr
    return int((pointers.take(lines + 1) - pointers.take(lines)).sum(dtype=np.int64))


def descending(rows: sparse.csr_array | Rows) -> Rows:
    """Return rows whose columns descend.

    Examples
    --------
    >>> descending(sparse.csr_array([[1.0, 2.0], [3.0, 0.0]])).indices.tolist()
    [1, 0, 0]
    """
    n_rows, width = rows.shape
    keys = rows.indices
    if n_rows > 1:
        lines = np.arange(n_rows) * width
        keys = keys - lines.repeat(rows.indptr[1:] - rows.indptr[:-1])
    order = keys.argsort()[::-1]
    return Rows(rows.data[order], rows.indices[order], rows.indptr, rows.shape)


def below(above: sparse.csr_array | Rows, rows: sparse.csr_array | Rows) -> Rows:
    """Return the rows of both, those of the first above the others.

    Examples
    --------
    >>> rows = sparse.csr_array([[0.0, 2.0]])
    >>> below(rows, rows).toarray()
    array([[0., 2.],
           [0., 2.]])
    """
    end = above.indptr[-1]
    return Rows(
        np.concatenate([above.data, rows.data]),
        np.concatenate([above.indices, rows.indices]),
        np.concatenate([above.indptr, rows.indptr[1:] + end]),
        (above.shape[0] + rows.shape[0], above.shape[1]),
    )


def times_each(
    matrix: sparse.csr_array | Rows,
    lines: NDArray[np.intp],
    starts: NDArray[np.intp],
    vectors: Iterable[NDArray[Any]],
) -> NDArray[Any]:
    """Return the product of some rows of a matrix and a vector, for each of some vectors.

    The rows of vector `i` are ``lines[starts[i] : starts[i + 1]]``, which best ascend; the products
    follow each other. A vector is needed no more when the next one is taken.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1, 0], [0, 2]], dtype=np.float32))
    >>> vectors = np.array([[3, 4], [5, 6]], dtype=np.float32)
    >>> times_each(rows, np.array([0, 1, 1]), np.array([0, 2, 3]), vectors)
    array([ 3.,  8., 12.], dtype=float32)
    """
    pairs = zip(vectors, itertools.pairwise(starts.tolist()), strict=True)
    if loops is None:
        own = (taken(matrix, lines[begin:end]).matrix() @ vector for vector, (begin, end) in pairs)
        return np.concatenate([np.zeros(0, dtype=matrix.data.dtype), *own])
    pointers, last = _apart(matrix, lines[::-1]), 2 * len(lines)
    products = np.zeros(last, dtype=matrix.data.dtype)
    of = matrix.indices, matrix.data
    for vector, (begin, end) in pairs:
        first, n_rows = last - 2 * end, 2 * (end - begin) - 1
        if n_rows > 0:
            there = pointers[first : first + n_rows + 1], *of, vector
            loops.csr_matvec(n_rows, matrix.shape[1], *there, products[first : first + n_rows])
    return products[last - 2 :: -2]


def add_up(
    matrix: sparse.csr_array | Rows,
    lines: NDArray[np.intp],
    weights: NDArray[Any],
    into: NDArray[Any],
) -> None:
    """Add some rows of a matrix, which best descend, each times its weight, to a vector.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1, 0], [0, 2]], dtype=np.float32))
    >>> total = np.ones(2, dtype=np.float32)
    >>> add_up(rows, np.array([1, 0]), np.array([3.0, 4.0], dtype=np.float32), total)
    >>> total
    array([5., 7.], dtype=float32)
    """
    if not len(lines):
        return
    if loops is None:
        add_all(taken(matrix, lines), weights, into)
        return
    pointers = _apart(matrix, lines)
    each = np.zeros(len(pointers) - 1, dtype=weights.dtype)
    each[::2] = weights
    shape = len(each), matrix.shape[1]
    add_all(Rows(matrix.data, matrix.indices, pointers, shape), each, into)


def add_all(rows: Rows, weights: NDArray[Any], into: NDArray[Any]) -> None:
    """Add all of some rows, each times its weight, to a vector, one after the other.

    Examples
    --------
    >>> rows = taken(sparse.csr_array(np.eye(2, dtype=np.float32)), np.array([1, 1]))
    >>> total = np.ones(2, dtype=np.float32)
    >>> add_all(rows, np.array([3.0, 4.0], dtype=np.float32), total)
    >>> total
    array([1., 8.], dtype=float32)
    """
    if loops is None:
        sizes = rows.indptr[1:] - rows.indptr[:-1]
        np.add.at(into, rows.indices, rows.data * weights.repeat(sizes))
        return
    # Rows are the columns of the transposed matrix.
    of = rows.indptr, rows.indices, rows.data
    loops.csc_matvec(rows.shape[1], rows.shape[0], *of, weights, into)


def _apart(matrix: sparse.csr_array | Rows, lines: NDArray[np.intp]) -> NDArray[Any]:
    """Return pointers to some rows of a matrix, with what lies between two of them as one more row.

    So nothing needs to be copied. Where the rows descend, there is nothing in between.
    """
    pointers = np.empty(2 * len(lines), dtype=matrix.indptr.dtype)
    pointers[::2] = matrix.indptr.take(lines)
    pointers[1::2] = matrix.indptr.take(lines + 1)
    return pointers


def dense_times(rows: sparse.csr_array | Rows, matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the product of each row and a dense matrix, whose rows stand one after the other.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[0.0, 2.0]]))
    >>> dense_times(rows, np.array([[1.0, 0.0], [0.0, 3.0]]))
    array([[0., 6.]])
    """
    (n_rows, n), width = rows.shape, matrix.shape[1]
    if loops is None or not matrix.flags.c_contiguous:
        return np.asarray((rows.matrix() if isinstance(rows, Rows) else rows) @ matrix)
    products = np.zeros((n_rows, width), dtype=np.result_type(rows.data, matrix))
    of = rows.indptr, rows.indices, rows.data
    loops.csr_matvecs(n_rows, n, width, *of, matrix.ravel(), products.ravel())
    return products


def product(rows: sparse.csr_array | Rows, matrix: sparse.csr_array) -> Rows:
    """Return ``rows @ matrix``.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[0.0, 2.0]]))
    >>> product(rows, sparse.csr_array(np.array([[1.0, 0.0], [0.0, 3.0]]))).data
    array([6.])
    """
    n_rows, n_columns = shape = rows.shape[0], matrix.shape[1]
    pointers, terms = matrix.indptr, rows.indices
    # There are no more entries than that, which is known without counting them.
    most = min(n_entries(matrix, terms), n_rows * n_columns)
    if loops is None or most > _MOST_32:
        found = (rows.matrix() if isinstance(rows, Rows) else rows) @ matrix
        return Rows(found.data, found.indices, found.indptr, shape)
    kind = pointers.dtype
    own = np.empty(n_rows + 1, dtype=kind)
    data = np.empty(most, dtype=np.result_type(rows.data, matrix.data))
    indices = np.empty(most, dtype=kind)
    rows_ = rows.indptr.astype(kind, copy=False), terms.astype(kind, copy=False), rows.data
    into = own, indices, data
    loops.csr_matmat(n_rows, n_columns, *rows_, pointers, matrix.indices, matrix.data, *into)
    return Rows(data[: own[-1]], indices[: own[-1]], own, shape)
