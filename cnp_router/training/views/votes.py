"""What past requests vote for: the APIs that they used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cnp_router.text.entries import entries
from cnp_router.training.corpus import Corpus
from cnp_router.training.keyed import highest, summed
from cnp_router.training.postings import segments
from cnp_router.training.views.columns import Pairs, Sparse

__all__ = ["Votes"]


class Votes:
    """What some past requests of each request used, looked up once for all that weighs them.

    Each past request has a weight, in the order of `past`; one of 0 has no vote.
    """

    def __init__(self, corpus: Corpus, past: Sparse) -> None:
        self.past = past
        self._corpus, self._rows = corpus, segments(past.starts)
        used = entries(corpus.usage, past.positions)
        self._sizes, self._keys = used.sizes, used.index.astype(np.intp)
        if len(past.starts) > 2:
            self._keys += (self._rows * corpus.n_apis).repeat(used.sizes)
        self._size = (len(past.starts) - 1) * corpus.n_apis

    def shares(self, weights: NDArray[np.float32]) -> Sparse:
        """Return what share of the past requests, by their weights, used each API."""
        there, sums = summed(*self._cast(weights), self._size)
        pairs = self._pairs(there)
        total = np.bincount(self._rows, weights, len(pairs.starts) - 1)
        sums /= np.maximum(total, 1e-12)[pairs.rows]
        return Sparse(pairs.starts, pairs.positions, sums.astype(np.float32))

    def highest(self, weights: NDArray[np.float32]) -> Sparse:
        """Return the highest weight of the past requests that used each API."""
        there, most = highest(*self._cast(weights), self._size)
        pairs = self._pairs(there)
        return Sparse(pairs.starts, pairs.positions, most)

    def _cast(self, weights: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        each = weights.repeat(self._sizes)
        (some,) = (each > 0).nonzero()
        return self._keys[some], each[some]

    def _pairs(self, keys: NDArray[np.intp]) -> Pairs:
        return Pairs.of(keys, self._corpus.n_apis, len(self.past.starts) - 1)
