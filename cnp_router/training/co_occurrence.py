"""What was used together with what: counts of pairs, which merge, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text import replaced_rows
from cnp_router.text.entries import Entries, entries
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.keyed import scattered, summed
from cnp_router.training.parts import Part
from cnp_router.training.postings import segments, together

__all__ = ["MOST_PARTNERS", "CoOccurrence"]

DOUBT = 2.0  # mashups of doubt in the denominator
# Of an API that was used with more others, those that it was used with most are looked at.
MOST_PARTNERS = 512
_CELLS = 500_000  # of the array in which values are looked up: about what a cache holds


@dataclass(frozen=True, eq=False)
class CoOccurrence(Part):
    """How many mashups used each two APIs, and how many each one.

    `together` is symmetric, and has nothing on its diagonal. Both are sums over mashups: those of
    two parts of a history add up to those of the whole, exactly.

    Examples
    --------
    >>> used = sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
    >>> pairs = CoOccurrence.of(used)
    >>> pairs.given(np.array([1])).data  # 2 of 3 mashups, 1 of 3, with doubt
    array([0.4, 0.2], dtype=float32)
    >>> both = CoOccurrence.of(used[:1]).merged(CoOccurrence.of(used[1:]))
    >>> (both.together != pairs.together).nnz, both.counts
    (0, array([2., 3., 1.], dtype=float32))
    """

    together: Annotated[sparse.csr_array, "apis", "apis"]
    counts: Annotated[NDArray[Any], "apis"]

    @classmethod
    def of(cls, usage: sparse.csr_array) -> CoOccurrence:
        """Count the pairs of some mashups: usage is of ones, of shape (n_mashups, n_apis)."""
        several = np.flatnonzero(np.diff(usage.indptr) > 1)
        some = sparse.csr_array(usage[several])
        counts = np.bincount(usage.indices, minlength=usage.shape[1]).astype(np.float32)
        return cls(_apart(sparse.csr_array(some.T @ some)), counts)

    def merged(self, other: CoOccurrence) -> CoOccurrence:
        """Return the counts of the mashups of both, which are of the same APIs."""
        together = sparse.csr_array(self.together + other.together).astype(np.float32)
        return CoOccurrence(together, self.counts + other.counts)

    def synced(self, change: CatalogChange, usage: sparse.csr_array) -> CoOccurrence:
        """Return the counts of another catalog, of which the same past mashups have some `usage`.

        Only those of the APIs that are new there, or there again, are counted.
        """
        there = self.moved({"apis": change.apis})
        new = np.flatnonzero(change.added)
        columns = sparse.csc_array(sparse.csc_array(usage)[:, new])
        if not columns.nnz:
            return there
        n_apis = usage.shape[1]
        counts = there.counts.copy()
        counts[new] = np.diff(columns.indptr)
        none = sparse.csr_array((n_apis, n_apis), dtype=np.float32)
        rows = replaced_rows(none, new, sparse.csr_array(columns.T @ usage))
        # What two new ones have in common is in the rows of both.
        old = np.ones(n_apis, dtype=np.float32)
        old[new] = 0
        mirrored = sparse.csr_array((rows @ sparse.diags_array(old)).T)
        total = sparse.csr_array(there.together + rows + mirrored).astype(np.float32)
        return CoOccurrence(_apart(total), counts)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where the arrays are not as annotated, or count less than nothing."""
        super().check(sizes)
        if len(self.counts) and not self.counts.min() >= 0:
            raise ValueError("counts of APIs that are below 0")

    def given(self, positions: NDArray[Any]) -> Entries:
        """Return ``P(i | j)`` for some APIs `j`: which APIs `i`, and how probable they are."""
        found = self._partners(positions)
        scale = (1 / (self.counts[positions] + DOUBT)).astype(np.float32)
        return Entries(found.index, found.data * np.repeat(scale, found.sizes), found.sizes)

    def called_for(
        self, positions: NDArray[Any], starts: NDArray[Any], p: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the sum of ``P(i | j) p(j)`` over some APIs `j` of each request, for all `i`.

        `positions` are those of the APIs `j`, and `p` their probabilities, of one request after the
        other, from `starts` on. Those of `i` ascend in each request: where each request begins,
        positions, and sums above 0.
        """
        n_apis = len(self.counts)
        keys, sums = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.float32)]
        for first, last in self._together(positions, starts):
            own = slice(starts[first], starts[last])
            found = self.given(positions[own])
            row = segments(starts[first : last + 1]).repeat(found.sizes)
            share = found.data * p[own].repeat(found.sizes)
            there, total = summed(row * n_apis + found.index, share, (last - first) * n_apis)
            keys.append(there + first * n_apis)
            sums.append(total.astype(np.float32))
        every = np.concatenate(keys)
        begins = every.searchsorted(np.arange(len(starts)) * n_apis)
        return begins, every - segments(begins) * n_apis, np.concatenate(sums)

    def conditional(self) -> sparse.csr_array:
        """Return ``P(i | j)`` of all pairs, of shape (n_apis, n_apis)."""
        scale = (1 / (self.counts + DOUBT)).astype(np.float32)
        return sparse.csr_array(self.together @ sparse.diags_array(scale))

    def expected(
        self,
        wanted: NDArray[Any],
        sizes: NDArray[Any],
        positions: NDArray[Any],
        starts: NDArray[Any],
        p: NDArray[Any],
    ) -> NDArray[Any]:
        """Return the sum of ``P(i | j) p(j)`` over the candidates `j` of each request.

        Of one request after the other, `wanted` are the APIs `i`, `sizes` of them; `positions` its
        candidates, ascending, and `p` their probabilities, from `starts` on (n_requests + 1).
        """
        answer = np.zeros(len(wanted), dtype=np.float32)
        if not len(wanted) or not self.together.nnz:
            return answer
        weight = (p / (self.counts[positions] + DOUBT)).astype(np.float32)
        n_apis, ends = len(self.counts), np.zeros(len(sizes) + 1, dtype=np.intp)
        sizes.cumsum(out=ends[1:])
        for first, last in self._together(wanted, ends):
            own, cells = slice(ends[first], ends[last]), slice(starts[first], starts[last])
            found = self._partners(wanted[own])
            where, asked = positions[cells], found.index
            if last - first > 1:
                number = np.arange(last - first) * n_apis
                where = where + number.repeat(np.diff(starts[first : last + 1]))
                asked = asked + number.repeat(sizes[first:last]).repeat(found.sizes)
            given = scattered(where, weight[cells], asked, (last - first) * n_apis)
            given *= found.data
            (some,) = found.sizes.nonzero()
            begin = found.sizes.cumsum() - found.sizes
            if len(some):
                answer[ends[first] + some] = np.add.reduceat(given, begin[some])
        return answer

    def _together(self, wanted: NDArray[Any], ends: NDArray[Any]) -> Iterator[tuple[int, int]]:
        """Yield which requests are looked at together: first one, and the one behind the last.

        As many at once as fit: each has places of its own, and partners to look up.
        """
        n_requests = len(ends) - 1
        if n_requests == 1:
            yield 0, 1
            return
        sizes = np.minimum(self._sizes(wanted), MOST_PARTNERS)
        partners = np.concatenate([[0], np.cumsum(sizes)])[ends]
        yield from together(partners, _CELLS, max(1, _CELLS // len(self.counts)))

    def _partners(self, positions: NDArray[Any]) -> Entries:
        """Return with what some APIs were used, the first of each, and how often."""
        sizes = self._sizes(positions)
        is_heavy = sizes > MOST_PARTNERS
        if not is_heavy.any():
            return entries(self.together, positions)
        light = entries(self.together, positions[~is_heavy])
        ends = np.where(is_heavy, 0, sizes).cumsum()[is_heavy]
        index: list[NDArray[Any]] = []
        data: list[NDArray[Any]] = []
        begin = 0
        for i, end in zip(positions[is_heavy].tolist(), ends.tolist(), strict=True):
            first_index, first_data = self._heavy[i]
            index += light.index[begin:end], first_index
            data += light.data[begin:end], first_data
            begin = end
        index.append(light.index[begin:])
        data.append(light.data[begin:])
        kept = np.minimum(sizes, MOST_PARTNERS)
        return Entries(np.concatenate(index), np.concatenate(data), kept)

    def _sizes(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return with how many others some APIs were used."""
        pointers = self.together.indptr
        return np.asarray(pointers[positions + 1] - pointers[positions])

    @cached_property
    def _heavy(self) -> dict[int, tuple[NDArray[Any], NDArray[Any]]]:
        """The APIs with too many partners, and what of them is looked at."""
        sizes = np.diff(self.together.indptr)
        found = {}
        for i in np.flatnonzero(sizes > MOST_PARTNERS).tolist():
            own = entries(self.together, np.array([i]))
            kept = np.sort(np.argsort(-own.data, kind="stable")[:MOST_PARTNERS])
            found[i] = own.index[kept], own.data[kept]
        return found


def _apart(pairs: sparse.csr_array) -> sparse.csr_array:
    """Return counts of pairs without those of an API with itself, in order."""
    row = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    kept = (row != pairs.indices) & (pairs.data != 0)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=pairs.shape[0]))])
    found = sparse.csr_array(
        (
            pairs.data[kept].astype(np.float32),
            pairs.indices[kept],
            pointers.astype(pairs.indptr.dtype),
        ),
        shape=pairs.shape,
    )
    found.sort_indices()
    return found
