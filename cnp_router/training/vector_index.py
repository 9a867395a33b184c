"""An inverted file of vectors: finds those near a request's without looking at all of them.

Vectors lie in cells around centres, and a request is compared with those in the cells whose centres
are nearest to it (Sivic and Zisserman, 2003; Jégou, Douze and Schmid, 2011).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.entries import entries
from cnp_router.text.kernels import Rows
from cnp_router.training.linear import times_vector
from cnp_router.training.parts import ONES, Part
from cnp_router.training.postings import segments

__all__ = ["EXACT", "LOOKED_AT", "VectorIndex", "unit_vectors"]

# With at most so many vectors all of them are compared: read in their order, so many take no longer
# than those that an index looks at here and there.
EXACT = 16_384
LOOKED_AT = 4_096  # vectors a request
_CELLS = 4  # times the root of the number of vectors
_SAMPLED = 32  # vectors a cell, which its centre is learned from
_STEPS = 5
_AT_ONCE = 4_096  # vectors


@dataclass(frozen=True, eq=False)
class VectorIndex(Part):
    """Cells of vectors of length 1 or 0; a vector of zeros is in none. Of few vectors it has none.

    `centres` have the length 1 or 0, too; `cells` say in which cell each vector is: the one whose
    centre is the nearest.
    """

    centres: Annotated[NDArray[Any], "cells", "dimensions"]
    cells: Annotated[sparse.csr_array, "cells", "vectors", ONES]

    @classmethod
    def of(cls, vectors: NDArray[Any]) -> Self:
        """Return the index of some vectors, of shape (n_vectors, n_dimensions)."""
        n_cells = _n_cells(vectors)
        if not n_cells:
            return cls._of_few(*vectors.shape)
        centres = _centres(vectors, n_cells)
        return cls(centres, _members(_nearest(vectors, centres), n_cells))

    @classmethod
    def _of_few(cls, n_vectors: int, n_dimensions: int) -> Self:
        none = sparse.csr_array((0, n_vectors), dtype=np.float32)
        return cls(np.zeros((0, n_dimensions), dtype=np.float32), none)

    @property
    def is_exact(self) -> bool:
        """Whether there are so few vectors that a request is compared with all of them."""
        return not len(self.centres)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where an array is not of these sizes, or of a cell for each centre."""
        super().check({**sizes, "cells": len(self.centres)})

    def taken(self, rows: NDArray[Any]) -> VectorIndex:
        """Return the index of some of the vectors."""
        if len(rows) <= EXACT:
            return self._of_few(len(rows), self.centres.shape[1])
        return replace(self, cells=sparse.csr_array(self.cells[:, rows]))

    def updated(self, vectors: NDArray[Any], new: NDArray[Any]) -> VectorIndex:
        """Return the index of other vectors, of which all but the `new` ones keep their cells.

        Centres stay, until there are so many more vectors that there would be twice as many.
        """
        n_cells = _n_cells(vectors)
        if not n_cells or n_cells >= 2 * len(self.centres):
            return self.of(vectors)
        cell = np.full(len(vectors), -1)
        cell[self.cells.indices] = segments(self.cells.indptr)
        cell[new] = _nearest(vectors[new], self.centres)
        return replace(self, cells=_members(cell, len(self.centres)))

    def products(self, requests: NDArray[Any], vectors: NDArray[Any]) -> Rows:
        """Return the products of requests with the vectors that are looked at, no others.

        Of shape (n_requests, n_vectors), with at most `LOOKED_AT` entries a row.
        """
        sizes = np.diff(self.cells.indptr)
        found, values = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.float32)]
        for request in requests:
            order = np.argsort(-times_vector(self.centres, request), kind="stable")
            enough = 1 + sizes[order].cumsum().searchsorted(LOOKED_AT)
            there = np.sort(entries(self.cells, order[:enough]).index[:LOOKED_AT])
            found.append(there)
            values.append(times_vector(vectors.take(there, axis=0), request))
        pointers = np.cumsum([0, *map(len, found[1:])])
        shape = len(requests), len(vectors)
        return Rows(np.concatenate(values), np.concatenate(found), pointers, shape)


def unit_vectors(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return vectors brought to the length 1, or 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32)


def _n_cells(vectors: NDArray[Any]) -> int:
    n_vectors = len(vectors)
    if n_vectors <= EXACT or not vectors.shape[1]:
        return 0
    return min(n_vectors, _CELLS * math.isqrt(n_vectors))


def _centres(vectors: NDArray[Any], n_cells: int) -> NDArray[Any]:
    """Return centres of a sample of vectors, by spherical k-means (Dhillon and Modha, 2001)."""
    rng = np.random.default_rng(0)
    n_sampled = min(len(vectors), _SAMPLED * n_cells)
    sample = vectors[np.sort(rng.choice(len(vectors), n_sampled, replace=False))]
    centres = sample[rng.choice(n_sampled, n_cells, replace=False)]
    for _ in range(_STEPS):
        sums = _members(_nearest(sample, centres), n_cells) @ sample
        centres = np.where(sums.any(axis=1, keepdims=True), unit_vectors(sums), centres)
    return centres


def _nearest(vectors: NDArray[Any], centres: NDArray[Any]) -> NDArray[np.intp]:
    """Return which centre is the nearest to each vector; -1 of a vector of zeros."""
    nearest = np.empty(len(vectors), dtype=np.intp)
    for start in range(0, len(vectors), _AT_ONCE):
        some = vectors[start : start + _AT_ONCE]
        own = nearest[start : start + _AT_ONCE]
        own[:] = (some @ centres.T).argmax(axis=1)
        own[~some.any(axis=1)] = -1
    return nearest


def _members(cell: NDArray[np.intp], n_cells: int) -> sparse.csr_array:
    """Return ones where a vector is in a cell, given the cell of each, or -1."""
    (some,) = (cell >= 0).nonzero()
    ones = np.ones(len(some), dtype=np.float32)
    return sparse.csr_array((ones, (cell[some], some)), shape=(n_cells, len(cell)))
