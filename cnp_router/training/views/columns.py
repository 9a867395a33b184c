"""What a view says of APIs: columns of scores, of all APIs or of the few that matter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing.head import is_in
from cnp_router.text.kernels import Rows
from cnp_router.training.keyed import counted, scattered, valued
from cnp_router.training.linear import times_vector
from cnp_router.training.postings import (
    TINY,
    best_of_each,
    best_of_lines,
    best_products,
    pooled,
    ranked,
    reached,
    reduced,
    row_products,
    segments,
    sparse_product,
)
from cnp_router.training.views.tables import Table

__all__ = [
    "Column",
    "Dense",
    "Found",
    "Named",
    "OfIndex",
    "Pairs",
    "Shared",
    "Sparse",
    "at_places",
    "named",
    "vector_products",
]

_CELLS = 1 << 15
_LONG = 512  # rows of a column of which the best are taken before all are put in order
_FEW = 8  # times more scores than are asked for: they are searched, not gone through


@dataclass(frozen=True)
class Pairs:
    """Requests and APIs that are looked at together, those of a request one after the other.

    `rows` says of which request each pair is, `positions`, which ascend in each request, of which
    API; the pairs of request `i` are ``starts[i]:starts[i + 1]``.
    """

    rows: NDArray[np.intp]
    positions: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, keys: NDArray[np.intp], n_apis: int, n_requests: int) -> Pairs:
        """Return the pairs with some ascending keys, ``row * n_apis + position``."""
        if n_requests == 1:
            return cls(np.zeros(len(keys), dtype=np.intp), keys, np.array([0, len(keys)]))
        starts = keys.searchsorted(np.arange(n_requests + 1) * n_apis)
        rows = segments(starts)
        return cls(rows, keys - rows * n_apis, starts)

    @classmethod
    def across(cls, positions: Sequence[NDArray[np.intp]]) -> Pairs:
        """Return the pairs of some requests, given the positions of each."""
        starts = np.cumsum([0, *map(len, positions)])
        none = np.zeros(0, dtype=np.intp)
        return cls(segments(starts), np.concatenate([none, *positions]), starts)

    def cleared(
        self, scores: NDArray[np.float32], absent: Sequence[NDArray[np.intp]]
    ) -> NDArray[np.float32]:
        """Return their scores, which are changed, with 0 for some APIs of each request."""
        for row, gone in enumerate(absent):
            own = slice(*self.starts[row : row + 2])
            scores[own][is_in(self.positions[own], gone)] = 0
        return scores

    def __len__(self) -> int:
        return len(self.positions)


class Found:
    """The product of some requests with a matrix: all of it, or rows of what is not 0."""

    def __init__(self, product: NDArray[np.float32] | Rows) -> None:
        self.product = product

    @property
    def whole(self) -> NDArray[np.float32]:
        """The product, where it is all there: of shape (n_requests, n_columns)."""
        assert isinstance(self.product, np.ndarray)
        return self.product

    def at(self, pairs: Pairs) -> NDArray[np.float32]:
        """Return the values in some places, whose columns are the positions of the pairs."""
        product = self.product
        if isinstance(product, np.ndarray):
            return np.asarray(product[pairs.rows, pairs.positions])
        answers = np.empty(len(pairs), dtype=np.float32)
        for row in range(product.shape[0]):
            own = slice(*product.indptr[row : row + 2])
            asked = slice(*pairs.starts[row : row + 2])
            answers[asked] = scattered(
                product.indices[own], product.data[own], pairs.positions[asked], product.shape[1]
            )
        return answers

    def times(self, matrix: sparse.csr_array, pairs: Pairs) -> NDArray[np.float32]:
        """Return the product of each request's values with the rows of a matrix at some positions.

        The columns of the matrix are those of the values.
        """
        return row_products(self.product, matrix, pairs.positions, pairs.starts)

    def best(self, most: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
        """Return the largest positive values of each request: where each begins, columns, values.

        The columns ascend in each request.
        """
        product = self.product
        if isinstance(product, np.ndarray):
            return best_of_lines(product, most)
        return pooled(product, most)

    def forget(self, row: int, columns: NDArray[np.intp]) -> None:
        """Set some values of a request to 0, in place."""
        product = self.product
        if isinstance(product, np.ndarray):
            product[row, columns] = 0
        else:
            own = slice(*product.indptr[row : row + 2])
            product.data[own][is_in(product.indices[own], columns)] = 0


class OfIndex(Found):
    """The product of some requests with an index: all of it is there only where it is needed."""

    def __init__(self, requests: sparse.csr_array, index: sparse.csr_array) -> None:
        self._of = requests, index

    @cached_property
    def product(self) -> Rows:  # type: ignore[override]
        """Rows of what is not 0."""
        return sparse_product(*self._of)

    def best(self, most: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
        """Return the largest positive values of each request, as any `Found` does."""
        if "product" in self.__dict__:
            return super().best(most)
        return best_products(*self._of, most)


class Column(ABC):
    """A score, for some requests: highest for the APIs that a view speaks for."""

    @abstractmethod
    def at(self, pairs: Pairs) -> NDArray[np.float32]:
        """Return the scores of some APIs, of shape (n_pairs,)."""

    @abstractmethod
    def without(self, absent: Sequence[NDArray[np.intp]]) -> Column:
        """Return the column without some APIs of each request: they are never its best."""

    @abstractmethod
    def highest(self) -> NDArray[np.float32]:
        """Return the best score of each request, at least 0."""

    @abstractmethod
    def total(self) -> NDArray[np.float32]:
        """Return the sum of the positive scores of each request."""


class Dense(Column):
    """Scores of every API, or of every one with history: ndarray of shape (n_requests, width).

    `apis` are the positions of the APIs that its places stand for, ascending, and `places` the
    place of each API, -1 for those without; None where they are all.
    """

    def __init__(
        self,
        values: NDArray[np.float32],
        apis: NDArray[np.intp] | None = None,
        places: NDArray[np.intp] | None = None,
    ) -> None:
        self.values, self.apis, self._places = values, apis, places

    def at(self, pairs: Pairs) -> NDArray[np.float32]:
        """Return the scores of some APIs; 0 of those that have no place."""
        if not self.values.shape[1]:
            return np.zeros(len(pairs), dtype=np.float32)
        places = pairs.positions if self._places is None else self._places[pairs.positions]
        if len(self.values) == 1:  # for which numpy is faster so
            found: NDArray[np.float32] = self.values[0].take(places)
        else:
            found = self.values[pairs.rows, places]
        if self._places is not None:
            found[places < 0] = 0
        return found

    def without(self, absent: Sequence[NDArray[np.intp]]) -> Dense:
        """Return the scores with 0 for some APIs of each request."""
        values = self.values.copy()
        for row, positions in zip(values, absent, strict=True):
            if self._places is None:
                row[positions] = 0
            else:
                places = self._places[positions]
                row[places[places >= 0]] = 0
        return Dense(values, self.apis, self._places)

    def highest(self) -> NDArray[np.float32]:
        """Return the best score of each request, at least 0."""
        return np.asarray(self.values.max(axis=1, initial=0))

    def total(self) -> NDArray[np.float32]:
        """Return the sum of the positive scores of each request."""
        return np.asarray(np.maximum(self.values, 0).sum(axis=1))


class Sparse(Column):
    """Scores of the few APIs that there is anything to say of: positive, of ascending positions.

    Those of request `i` are at ``starts[i]:starts[i + 1]``. Where `exact` is given it says the
    scores of any others, too.
    """

    def __init__(
        self,
        starts: NDArray[np.intp],
        positions: NDArray[np.intp],
        values: NDArray[np.float32],
        exact: Callable[[Pairs], NDArray[np.float32]] | None = None,
    ) -> None:
        self.starts, self.positions, self.values, self._exact = starts, positions, values, exact

    @classmethod
    def across(cls, rows: Sequence[tuple[NDArray[np.intp], NDArray[np.float32]]]) -> Sparse:
        """Return the column of some requests, given positions and values of each."""
        pairs = Pairs.across([positions for positions, _ in rows])
        none = np.zeros(0, dtype=np.float32)
        values = np.concatenate([none, *(own for _, own in rows)]).astype(np.float32)
        return cls(pairs.starts, pairs.positions, values)

    @classmethod
    def silent(cls, n_requests: int, exact: Callable[[Pairs], NDArray[np.float32]]) -> Sparse:
        """Return the column that proposes none, and says the scores of those that others do."""
        none = np.zeros(0, dtype=np.float32)
        return cls(np.zeros(n_requests + 1, dtype=np.intp), none.astype(np.intp), none, exact)

    @classmethod
    def positive(cls, pairs: Pairs, exact: Callable[[Pairs], NDArray[np.float32]]) -> Sparse:
        """Return the column that proposes those of some pairs whose score is positive."""
        scores = exact(pairs)
        (kept,) = (scores > 0).nonzero()
        return cls(kept.searchsorted(pairs.starts), pairs.positions[kept], scores[kept], exact)

    def at(self, pairs: Pairs) -> NDArray[np.float32]:
        """Return the scores of some APIs; 0 where nothing is said of one."""
        if self._exact is not None:
            return self._exact(pairs)
        if not len(self.positions):
            return np.zeros(len(pairs), dtype=np.float32)
        own, wanted = self.positions, pairs.positions
        if len(own) > _FEW * len(wanted):
            return self._looked_up(pairs)
        width = 1 + max(int(own.max()), int(wanted.max(initial=0)))
        if (n_requests := len(self.starts) - 1) > 1:
            own, wanted = segments(self.starts) * width + own, pairs.rows * width + wanted
        return valued(own, self.values, wanted, n_requests * width)

    def _looked_up(self, pairs: Pairs) -> NDArray[np.float32]:
        """Return the same request by request: what is there need not be gone through."""
        found = np.zeros(len(pairs), dtype=np.float32)
        ends = pairwise(self.starts.tolist()), pairwise(pairs.starts.tolist())
        for (begin, end), (first, last) in zip(*ends, strict=True):
            if begin < end:
                own, wanted = self.positions[begin:end], pairs.positions[first:last]
                place = own.searchsorted(wanted)
                is_there = own.take(place, mode="clip") == wanted
                found[first:last][is_there] = self.values[begin:end][place[is_there]]
        return found

    def without(self, absent: Sequence[NDArray[np.intp]]) -> Sparse:
        """Return the column without some APIs of each request."""
        kept = np.ones(len(self.positions), dtype=bool)
        for row, positions in enumerate(absent):
            own = slice(*self.starts[row : row + 2])
            kept[own] = ~is_in(self.positions[own], positions)
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        known = self._exact

        exact = None if known is None else lambda pairs: pairs.cleared(known(pairs), absent)
        return Sparse(starts, self.positions[kept], self.values[kept], exact)

    def highest(self) -> NDArray[np.float32]:
        """Return the best score of each request, at least 0."""
        return reduced(np.maximum, self.values, self.starts)

    def total(self) -> NDArray[np.float32]:
        """Return the sum of the scores of each request."""
        return reduced(np.add, self.values, self.starts)


def vector_products(
    vectors: NDArray[np.float32], rows: NDArray[np.float32]
) -> Callable[[Pairs], NDArray[np.float32]]:
    """Return what says the product of each request's vector with the rows at some positions."""

    def exact(pairs: Pairs) -> NDArray[np.float32]:
        products = np.empty(len(pairs), dtype=np.float32)
        # Request by request: what is taken of the rows stays in a cache.
        for vector, (begin, end) in zip(vectors, pairwise(pairs.starts.tolist()), strict=True):
            own = rows.take(pairs.positions[begin:end], axis=0)
            products[begin:end] = times_vector(own, vector)
        return products

    return exact


def at_places(
    exact: Callable[[Pairs], NDArray[np.float32]], places: NDArray[np.intp]
) -> Callable[[Pairs], NDArray[np.float32]]:
    """Return what says the scores of some APIs by the place of each; 0 of those without: -1."""

    def placed(pairs: Pairs) -> NDArray[np.float32]:
        own = places[pairs.positions]
        scores = exact(replace(pairs, positions=np.maximum(own, 0)))
        return np.where(own >= 0, scores, np.float32(0))

    return placed


class Shared(Column):
    """Scores that do not depend on the text of the request: `tables` has that of each request.

    `places` is that of `Dense`; the `gone` of each request are never its best. Where `exact` is
    given it says the scores of some, which the tables are spared.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        places: NDArray[np.intp],
        gone: Sequence[NDArray[np.intp]] = (),
        exact: Callable[[Pairs], NDArray[np.float32]] | None = None,
    ) -> None:
        self.tables, self._places, self.gone, self._exact = tables, places, gone, exact

    def best(self, row: int, sizes: tuple[int, ...]) -> list[NDArray[np.intp]]:
        """Return the positions of the best for one request: so many as each of `sizes` says."""
        table = self.tables[row]
        if not len(self.gone):
            return table.best(sizes)
        gone = self._places[self.gone[row]]
        return table.best_without(gone[gone >= 0], sizes)

    def at(self, pairs: Pairs) -> NDArray[np.float32]:
        """Return the scores of some APIs; 0 of those that have no place."""
        if self._exact is not None:
            found = self._exact(pairs)
            return pairs.cleared(found.copy(), self.gone) if len(self.gone) else found
        places = self._places[pairs.positions]
        found = np.zeros(len(pairs), dtype=np.float32)
        for row, table in enumerate(self.tables):
            own = slice(*pairs.starts[row : row + 2])
            if len(table.values):
                found[own] = table.values[places[own]]
        found[places < 0] = 0
        return pairs.cleared(found, self.gone) if len(self.gone) else found

    def without(self, absent: Sequence[NDArray[np.intp]]) -> Shared:
        """Return the column without some APIs of each request."""
        return Shared(self.tables, self._places, absent, self._exact)

    def highest(self) -> NDArray[np.float32]:
        """Return the best score of each request, at least 0; what is absent counts."""
        return np.array([table.values.max(initial=0) for table in self.tables], dtype=np.float32)

    def total(self) -> NDArray[np.float32]:
        """Return the sum of the scores of each request; what is absent counts."""
        return np.array([table.values.sum() for table in self.tables], dtype=np.float32)


@dataclass(frozen=True)
class Named:
    """The best APIs by some columns, and behind them the next best: ``row * n_apis + position``.

    `n_naming` says of the next best by how many columns each is.
    """

    best: NDArray[np.intp]
    next_best: NDArray[np.intp]
    n_naming: NDArray[np.intp]


def named(columns: Sequence[Column], n_requests: int, n_apis: int, most: int, n_next: int) -> Named:
    """Return which APIs any column puts among its `most` best, and which among its `n_next`.

    Only what has a positive score is among the best; of equal ones the first.
    """
    none: list[tuple[Any, ...]] = [(np.zeros(0, np.float32), np.zeros(0, np.intp), [0])]
    parts = [*none, *_dense(columns, n_apis, n_next), *_sparse(columns, n_requests, n_apis, n_next)]
    values, keys, sizes = map(np.concatenate, zip(*parts, strict=True))
    order, rank = ranked(values.astype(np.float32, copy=False), np.cumsum(sizes))
    keys = keys[order]
    far, near = [keys[rank < n_next]], [keys[rank < most]]
    for column in columns:
        if isinstance(column, Shared):
            each = [column.best(row, (n_next, most)) for row in range(n_requests)]
            for found, own in zip((far, near), zip(*each, strict=True), strict=True):
                rows = np.arange(n_requests).repeat([len(positions) for positions in own])
                found.append(rows * n_apis + np.concatenate(own))
    named, times = counted(np.concatenate(far), n_requests * n_apis)
    best, _ = counted(np.concatenate(near), n_requests * n_apis)
    is_behind = np.ones(len(named), dtype=bool)
    is_behind[named.searchsorted(best)] = False
    return Named(best, named[is_behind], times[is_behind])


def _dense(
    columns: Sequence[Column], n_apis: int, n_next: int
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.intp]]]:
    """Yield what may be the next best by the columns of all APIs.

    Their values, their keys, and how many there are of each request by each column. Those of the
    same places are looked at together, where a cache holds them.
    """
    groups: dict[tuple[int, int], list[Dense]] = {}
    for place, column in enumerate(columns):
        if isinstance(column, Dense):
            apart = place if column.values.size > _CELLS else 0
            groups.setdefault((id(column.apis), apart), []).append(column)
    for group in groups.values():
        apis, n_requests = group[0].apis, len(group[0].values)
        values = group[0].values
        if len(group) > 1:
            values = np.concatenate([column.values for column in group])
        n_lines, width = values.shape
        floor = np.maximum(reached(values, n_next), TINY)
        (flat,) = (values >= floor[:, None]).ravel().nonzero()
        line, at = np.divmod(flat, width)
        keys = line % n_requests * n_apis + (at if apis is None else apis[at])
        yield values.ravel()[flat], keys, np.bincount(line, minlength=n_lines)


def _sparse(
    columns: Sequence[Column], n_requests: int, n_apis: int, n_next: int
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the same of the columns of a few APIs."""
    for column in columns:
        if isinstance(column, Sparse):
            values, keys, starts = column.values, column.positions, column.starts
            if (starts[1:] - starts[:-1]).max(initial=0) > _LONG:
                kept = best_of_each(values, starts, n_next)
                values, keys, starts = values[kept], keys[kept], kept.searchsorted(starts)
            if n_requests > 1:
                keys = segments(starts) * n_apis + keys
            yield values, keys, starts[1:] - starts[:-1]
