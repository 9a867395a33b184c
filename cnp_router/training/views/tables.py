"""Scores that do not depend on the text of a request, such as what was popular on a day."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing.head import is_in
from cnp_router.training.postings import best, best_of_lines

__all__ = ["Brief", "Table"]


class Table:
    """A score of every place that several requests share, with the best APIs.

    `apis` are the positions of those that its places stand for, ascending.
    """

    def __init__(self, values: NDArray[np.float32], apis: NDArray[np.intp]) -> None:
        self._values, self.apis = values, apis
        self._best: dict[tuple[int, ...], list[NDArray[np.intp]]] = {}

    @property
    def values(self) -> NDArray[np.float32]:
        """The scores of all places."""
        return self._values

    def times(self, factor: np.float32) -> Table:
        """Return the same scores times a number."""
        return Table(self._values * factor, self.apis)

    def best(self, sizes: tuple[int, ...]) -> list[NDArray[np.intp]]:
        """Return the positions of the highest positive ones, ascending; of equal ones the first.

        So many as each of `sizes` says, which descend.
        """
        if (kept := self._best.get(sizes)) is None:
            kept = self._best[sizes] = self._named(*self._highest(sizes[0]), sizes)
        return kept

    def best_without(
        self, gone: NDArray[np.intp], sizes: tuple[int, ...]
    ) -> list[NDArray[np.intp]]:
        """Return the same of all places but some."""
        values = self.values.copy()
        values[gone] = 0
        return Table(values, self.apis).best(sizes)

    def _highest(self, most: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the places of so many of the highest positive scores, ascending, and these."""
        _, places, values = best_of_lines(self.values[None], most)
        return places, values

    def _named(
        self, places: NDArray[np.intp], values: NDArray[np.float32], sizes: tuple[int, ...]
    ) -> list[NDArray[np.intp]]:
        named = []
        for size in sizes:
            if len(places) > size:
                first = best(values, size)
                places, values = places[first], values[first]
            named.append(self.apis[places])
        return named


class Brief(Table):
    """A table of so many places that only the best are kept.

    `make` returns the scores of all. `places` are those of its highest positive scores, ascending,
    `values` what these are, and `are_all` says whether no others are positive.
    """

    def __init__(
        self,
        make: Callable[[], NDArray[np.float32]],
        apis: NDArray[np.intp],
        places: NDArray[np.intp],
        values: NDArray[np.float32],
        *,
        are_all: bool,
    ) -> None:
        super().__init__(values, apis)
        self._make, self._places, self._are_all = make, places, are_all

    @property
    def values(self) -> NDArray[np.float32]:
        """The scores of all places, which are made anew."""
        return self._make()

    def times(self, factor: np.float32) -> Brief:
        """Return the same scores times a number."""
        make, values = self._make, self._values * factor
        kept = values > 0
        return Brief(
            lambda: make() * factor,
            self.apis,
            self._places[kept],
            values[kept],
            are_all=self._are_all,
        )

    def best_without(
        self, gone: NDArray[np.intp], sizes: tuple[int, ...]
    ) -> list[NDArray[np.intp]]:
        """Return the best of all places but some."""
        left = ~is_in(self._places, gone)
        if np.count_nonzero(left) < sizes[0] and not self._are_all:
            return super().best_without(gone, sizes)
        return self._named(self._places[left], self._values[left], sizes)

    def _highest(self, most: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        if most > len(self._places) and not self._are_all:
            return super()._highest(most)
        return self._places, self._values
