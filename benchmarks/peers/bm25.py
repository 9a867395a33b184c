"""bm25s over the specifications, with stop words and stemmer as in its documentation."""

from __future__ import annotations

from typing import Any

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from benchmarks.peers.peer import Peer
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.text import specification_text

__all__ = ["Bm25s"]


class Bm25s(Peer):
    """Retrieval of specifications: it learns nothing from a history."""

    def fit(self, catalog: Catalog, history: History) -> None:
        """Index the specifications."""
        self._stemmer = Stemmer.Stemmer("english")
        self._index = bm25s.BM25()
        texts = [specification_text(api) for api in catalog]
        self._index.index(self._tokens(texts), show_progress=False)
        self._n_apis = len(catalog)

    def scores(self, request: str) -> NDArray[Any]:
        """Return the score of each specification."""
        (tokens,) = self._tokens([request])
        return np.asarray(self._index.get_scores(tokens) if tokens else np.zeros(self._n_apis))

    def _tokens(self, texts: list[str]) -> list[list[str]]:
        found: list[list[str]] = bm25s.tokenize(
            texts, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return found
