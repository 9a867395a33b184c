"""Plain embedding search: the cosine of the request's vector and each specification's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.peer import Peer
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.text import specification_text

__all__ = ["EmbeddingSearch"]


class EmbeddingSearch(Peer):
    """Exact search, as a flat index of a vector store does it. It learns nothing from a history.

    Parameters
    ----------
    vectors : mapping of str to array
        The unit vector of each text: specifications and requests.
    """

    def __init__(self, vectors: Mapping[str, NDArray[Any]]) -> None:
        self._vectors = vectors

    def fit(self, catalog: Catalog, history: History) -> None:
        """Take the vectors of the specifications."""
        self._index = np.array([self._vectors[specification_text(api)] for api in catalog])

    def scores(self, request: str) -> NDArray[Any]:
        """Return the cosine with each specification."""
        return np.asarray(self._index @ self._vectors[request])
