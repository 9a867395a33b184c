"""Near duplicates: requests that say the same as others, as with another name or day in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text import words

__all__ = ["NearDuplicates"]

ALIKE, CONTAINED = 0.5, 0.6  # a cosine, and a share of what one says
# A word that few say, as a name or a number, counts as one that a text in so many says: it is what
# near duplicates differ in.
COMMON = 8
_ROWS = 256  # at once


class NearDuplicates:
    """Which of some texts are near duplicates of each other, by all their words.

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

    def among(self, places: NDArray[np.intp]) -> NearDuplicates:
        """Return the near duplicates among the texts in some places, in their order."""
        return NearDuplicates([self._texts[place] for place in places.tolist()])

    @cached_property
    def group(self) -> NDArray[np.intp]:
        """For each text the place of the first of its group, which it is like, or its own.

        By the cosine, and leader clustering (Hartigan, "Clustering Algorithms", 1975): the first
        text that is in no group begins one, and all that are in none and like it join.
        """
        n = len(self._texts)
        group = np.full(n, -1, dtype=np.intp)
        units = sparse.csr_array(sparse.diags_array(self._lengths**-0.5) @ self._vectors)
        for start in range(0, n, _ROWS):
            leaders = start + np.flatnonzero(group[start : start + _ROWS] < 0)
            alike = units[leaders] @ units[start:].T
            alike.data[alike.data < ALIKE] = 0
            alike.eliminate_zeros()
            for leader, begin, end in zip(leaders, alike.indptr, alike.indptr[1:], strict=False):
                if group[leader] < 0:
                    own = start + alike.indices[begin:end]
                    group[own[group[own] < 0]] = leader
                    group[leader] = leader
        return group

    def like(self, places: Sequence[int] | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which texts are like one of those in some places, contain it, or are it.

        What asks for something else, too, is less like it, but contains most of it (Broder, "On the
        resemblance and containment of documents", 1997).
        """
        found = np.zeros(len(self._texts), dtype=bool)
        others, lengths = self._vectors[places], self._lengths[places]
        for start in range(0, len(found), _ROWS):
            rows = slice(start, start + _ROWS)
            common = sparse.coo_array(self._vectors[rows] @ others.T)
            row, column = common.coords
            own, other = self._lengths[rows][row], lengths[column]
            least = np.minimum(ALIKE * np.sqrt(own * other), CONTAINED * other)
            found[start + row[common.data >= least]] = True
        found[places] = True
        return found

    @cached_property
    def _lengths(self) -> NDArray[np.float32]:
        squares: NDArray[np.float32] = self._vectors.power(2).sum(axis=1)
        return np.maximum(squares, 1)  # a word weighs 1 or more

    @cached_property
    def _vectors(self) -> sparse.csr_array:
        from sklearn.feature_extraction.text import TfidfVectorizer

        encoder = TfidfVectorizer(analyzer=words, binary=True, norm=None, dtype=np.float32)
        if not any(map(words, self._texts)):
            return sparse.csr_array((len(self._texts), 1), dtype=np.float32)
        encoder.fit(self._texts)
        encoder.idf_ = np.minimum(encoder.idf_, 1 + np.log(COMMON))
        return sparse.csr_array(encoder.transform(self._texts))
