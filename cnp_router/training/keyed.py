"""Values that stand under the same key, put together: keys are whole numbers below a size."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Filled", "added", "counted", "distinct", "highest", "scattered", "summed", "valued"]

# With so many cells a key, or fewer, a table of all keys is faster than putting them in order.
_CELLS_A_KEY = 32
_CELLS = 1 << 17  # of a table that a cache holds
_MOST_32 = np.iinfo(np.int32).max
_BITS, _MOST_DIGITS = 32, 62


def distinct(keys: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct keys, ascending: as `numpy.unique`, several times faster for a few.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ordered = np.sort(keys)
    return np.asarray(ordered[_firsts(ordered)])


def _firsts(ordered: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each distinct one of some ordered keys begins."""
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return np.asarray(is_first.nonzero()[0])


def counted(keys: NDArray[np.intp], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct keys, ascending, and how often each is there.

    Examples
    --------
    >>> counted(np.array([3, 1, 3]), 5)
    (array([1, 3]), array([1, 2]))
    """
    if size <= _CELLS_A_KEY * len(keys) and size <= _CELLS:
        times = np.bincount(keys, minlength=size)
        (there,) = (times > 0).nonzero()
        return there, times[there]
    # Half as long, they are sorted in half the time.
    ordered = np.sort(keys.astype(np.int32) if size <= _MOST_32 else keys)
    firsts = _firsts(ordered)
    return ordered[firsts].astype(np.intp), np.diff(firsts, append=len(ordered))


def summed(
    keys: NDArray[np.intp], values: NDArray[Any], size: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the distinct keys, ascending, and the sum of the values of each, which are above 0.

    Examples
    --------
    >>> summed(np.array([3, 1, 3]), np.array([0.5, 1.0, 2.0]), 5)
    (array([1, 3]), array([1. , 2.5]))
    """
    if size <= _CELLS_A_KEY * len(keys):
        # Of no keys at all numpy makes whole numbers.
        sums = np.bincount(keys, values, size).astype(np.float64, copy=False)
        (there,) = (sums > 0).nonzero()
        return there, sums[there]
    there, places = _numbered(keys, size)
    found = np.bincount(places, values, len(there))
    return there, found.astype(np.float64, copy=False)


def _numbered(keys: NDArray[np.intp], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct keys, ascending, and which of them each key is.

    Examples
    --------
    >>> _numbered(np.array([3, 1, 3]), 5)
    (array([1, 3]), array([1, 0, 1]))
    """
    digits = len(keys).bit_length()
    if size >> (_MOST_DIGITS - digits):
        there = distinct(keys)
        return there, there.searchsorted(keys)
    # Whole numbers are sorted fast: each key, and in the last digits where it stands.
    ordered = np.left_shift(keys, digits, dtype=np.int64)
    ordered += np.arange(len(keys))
    ordered.sort()
    places = ordered & ((1 << digits) - 1)
    ordered >>= digits
    firsts = _firsts(ordered)
    number = np.empty(len(keys), dtype=np.intp)
    number[places] = np.arange(len(firsts)).repeat(np.diff(firsts, append=len(keys)))
    return ordered[firsts].astype(np.intp), number


def highest(
    keys: NDArray[np.intp], values: NDArray[np.float32], size: int
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the distinct keys, ascending, and the highest value of each; values are above 0.

    Examples
    --------
    >>> highest(np.array([3, 1, 3]), np.array([0.5, 1.0, 2.0], dtype=np.float32), 5)
    (array([1, 3]), array([1., 2.], dtype=float32))
    """
    if size <= _CELLS_A_KEY * len(keys):
        most = np.zeros(size, dtype=np.float32)
        np.maximum.at(most, keys, values)
        (there,) = (most > 0).nonzero()
        return there, most[there]
    if not len(keys):
        return keys, values
    if size > _MOST_32:
        order = keys.argsort(kind="stable")
        keys, values = keys[order], values[order]
        firsts = _firsts(keys)
        return keys[firsts], np.maximum.reduceat(values, firsts)
    # Whole numbers are sorted fast: each key, and behind it the value, whose digits ascend with it.
    both = np.left_shift(keys, _BITS, dtype=np.int64)
    both += values.view(np.int32)
    both.sort()
    ordered = both >> _BITS
    lasts = np.append(_firsts(ordered)[1:], len(both)) - 1
    return ordered[lasts].astype(np.intp), both[lasts].astype(np.int32).view(np.float32)


class _Scratch(threading.local):
    """An array of zeros for each thread, so that none is made for each request.

    While it is lent it is not here: what an interrupted borrower leaves in it, nobody finds.
    """

    def __init__(self) -> None:
        self._cells = _NO_CELLS

    def lend(self, size: int) -> NDArray[np.float32]:
        """Return at least so many zeros."""
        cells, self._cells = self._cells, _NO_CELLS
        return cells if len(cells) >= size else np.zeros(max(size, 2 * len(cells)), np.float32)

    def take_back(self, cells: NDArray[np.float32], keys: NDArray[Any]) -> None:
        """Take back what was lent, of which the cells of some keys may have been changed."""
        cells[keys] = 0
        self._cells = cells


_NO_CELLS = np.zeros(0, dtype=np.float32)
_SCRATCH = _Scratch()


class Filled:
    """Lend an array of `size` with the values at their keys, which are below it, and 0 elsewhere.

    Making it takes as long as there are keys, however many there could be.

    Examples
    --------
    >>> with Filled(np.array([3, 1]), np.array([0.5, 2.0]), 5) as values:
    ...     values.tolist()
    [0.0, 2.0, 0.0, 0.5, 0.0]
    """

    __slots__ = ("_cells", "_keys", "_size", "_values")

    def __init__(self, keys: NDArray[Any], values: NDArray[Any] | float, size: int) -> None:
        self._keys, self._values, self._size = keys, values, size

    def __enter__(self) -> NDArray[np.float32]:
        self._cells = _SCRATCH.lend(self._size)
        self._cells[self._keys] = self._values
        return self._cells[: self._size]

    def __exit__(self, *_: object) -> None:
        _SCRATCH.take_back(self._cells, self._keys)


def scattered(
    keys: NDArray[Any], values: NDArray[Any] | float, wanted: NDArray[Any], size: int
) -> NDArray[Any]:
    """Return the values of the wanted keys, 0 for those that have none; keys are below `size`."""
    with Filled(keys, values, size) as cells:
        return cells.take(wanted)


def valued(
    keys: NDArray[np.intp], values: NDArray[np.float32], wanted: NDArray[np.intp], size: int
) -> NDArray[np.float32]:
    """Return the values of the wanted keys, 0 for those that have none; the keys ascend.

    Examples
    --------
    >>> valued(np.array([1, 3]), np.array([0.5, 2.0], dtype=np.float32), np.array([3, 4]), 5)
    array([2., 0.], dtype=float32)
    """
    if size <= _CELLS_A_KEY * (len(keys) + len(wanted)):
        return scattered(keys, values, wanted, size)
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.float32)
    place = keys.searchsorted(wanted)
    np.minimum(place, len(keys) - 1, out=place)
    found = values[place]
    found[keys[place] != wanted] = 0
    return found


def added(
    keys: NDArray[np.intp], values: NDArray[np.float32], size: int
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the distinct keys, ascending, and the sum of the values of each, added in their order.

    As a sparse product does; a sum of 0 may be left out.

    Examples
    --------
    >>> added(np.array([3, 1, 3]), np.array([0.5, 1.0, 2.0], dtype=np.float32), 5)
    (array([1, 3]), array([1. , 2.5], dtype=float32))
    """
    cells = _SCRATCH.lend(size)
    np.add.at(cells, keys, values)
    if size <= _CELLS_A_KEY * len(keys):
        (there,) = (cells[:size] != 0).nonzero()
    else:
        there = distinct(keys)
    sums = cells[there]
    _SCRATCH.take_back(cells, keys)
    return there, sums
