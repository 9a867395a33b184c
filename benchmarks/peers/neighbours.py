"""scikit-learn: the nearest past requests by TF-IDF vote, weighted by cosine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

from benchmarks.peers.peer import Peer, best
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.training.corpus import usage_matrix

__all__ = ["Neighbours"]

_K = 30


class Neighbours(Peer):
    """What the 30 nearest past requests used."""

    def fit(self, catalog: Catalog, history: History) -> None:
        """Index the past requests."""
        self._vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        past = self._vectors.fit_transform(history.texts)
        self._index = NearestNeighbors(n_neighbors=min(_K, len(history)), metric="cosine").fit(past)
        self._usage = usage_matrix(catalog, history)

    def scores(self, request: str) -> NDArray[Any]:
        """Return the sum of the similarities of the neighbours that used each API."""
        similarities, places = self._near(request)
        return np.asarray(similarities @ self._usage[places])

    def top(self, request: str, k: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the best of those that a neighbour used."""
        similarities, places = self._near(request)
        rows = self._usage[places]
        apis, which = np.unique(rows.indices, return_inverse=True)
        votes = np.repeat(similarities, np.diff(rows.indptr)) * rows.data
        found, scores = best(np.bincount(which, votes, len(apis)), k)
        return apis[found], scores

    def _near(self, request: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
        distances, places = self._index.kneighbors(self._vectors.transform([request]))
        return 1 - distances[0], places[0]
