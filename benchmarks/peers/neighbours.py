"""scikit-learn: the nearest past requests by TF-IDF vote, weighted by cosine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

from benchmarks.peers.peer import Peer
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
        distances, places = self._index.kneighbors(self._vectors.transform([request]))
        return np.asarray((1 - distances[0]) @ self._usage[places[0]])
