"""Near duplicates: requests that say the same as others, as with another name or day in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text import words

__all__ = ["NearDuplicates"]

ALIKE = 0.5  # cosine
_ROWS = 256  # at once


class NearDuplicates:
    """Which of some texts are near duplicates of each other, by the cosine of all their words.

    Parameters
    ----------
    texts : sequence of str

    Examples
    --------
    >>> texts = ["mail the plan to Ann", "is it raining in Oslo", "mail the plan to Bob"]
    >>> found = NearDuplicates(texts)
    >>> found.group
    array([0, 1, 0])
    >>> found.like([0])
    array([ True, False,  True])
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    @cached_property
    def group(self) -> NDArray[np.intp]:
        """For each text the place of the first of its group, which it is like, or its own.

        Leader clustering (Hartigan, "Clustering Algorithms", 1975): the first text that is in no
        group begins one, and all that are in none and like it join.
        """
        n = len(self._texts)
        group = np.full(n, -1, dtype=np.intp)
        for start in range(0, n, _ROWS):
            leaders = start + np.flatnonzero(group[start : start + _ROWS] < 0)
            alike = self._alike(leaders, slice(start, n))
            for leader, begin, end in zip(leaders, alike.indptr, alike.indptr[1:], strict=False):
                if group[leader] < 0:
                    own = start + alike.indices[begin:end]
                    group[own[group[own] < 0]] = leader
                    group[leader] = leader
        return group

    def like(self, places: Sequence[int] | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which texts are like one of those in some places, or are one of them."""
        found = np.zeros(len(self._texts), dtype=bool)
        for start in range(0, len(found), _ROWS):
            alike = self._alike(slice(start, start + _ROWS), places)
            found[start : start + _ROWS] = np.diff(alike.indptr) > 0
        found[places] = True
        return found

    def _alike(self, rows: Any, columns: Any) -> sparse.csr_array:
        found = self._vectors[rows] @ self._vectors[columns].T
        found.data[found.data < ALIKE] = 0
        found.eliminate_zeros()
        return found

    @cached_property
    def _vectors(self) -> sparse.csr_array:
        from sklearn.feature_extraction.text import TfidfVectorizer

        encoder = TfidfVectorizer(analyzer=words, sublinear_tf=True, dtype=np.float32)
        if not any(map(words, self._texts)):
            return sparse.csr_array((len(self._texts), 1), dtype=np.float32)
        return sparse.csr_array(encoder.fit_transform(self._texts))
