"""toolrank: its search by words, and that fused with the cosines of vectors.

Its own encoder, of 8 billion parameters, is not run here; the vectors given stand in for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from toolrank.adapters.bm25 import BM25Scorer
from toolrank.adapters.dense import DenseScorer
from toolrank.adapters.hybrid import HybridScorer
from toolrank.domain import Query, Tool
from toolrank.formats import NamedFormatter
from toolrank.ingest.text import tool_text

from benchmarks.peers.peer import Peer
from cnp_router.catalog import Api, Catalog
from cnp_router.history import History
from cnp_router.text import specification_text

__all__ = ["Toolrank"]

_DEEPEST = 100  # its own depth


class _Given:
    """An encoder that knows the vectors that were given, by text."""

    name = "given"

    def __init__(self, vectors: Mapping[str, NDArray[Any]]) -> None:
        self._vectors = vectors

    def encode(self, texts: Sequence[str], *, kind: str = "document") -> NDArray[Any]:
        return np.array([self._vectors[text] for text in texts])


class Toolrank(Peer):
    """BM25 over the text that it makes of a tool; with vectors, its hybrid search.

    Parameters
    ----------
    vectors : mapping of str to array or None, default=None
        The vector of each text: specifications and requests. None searches by words.
    """

    def __init__(self, vectors: Mapping[str, NDArray[Any]] | None = None) -> None:
        self._vectors = vectors

    def fit(self, catalog: Catalog, history: History) -> None:
        """Index the specifications; what it learns from its own log of calls is left out."""
        by_words = BM25Scorer()
        if self._vectors is None:
            self._scorer: Any = by_words
        else:
            said = {api.id: specification_text(api) for api in catalog}
            text = NamedFormatter("given", lambda tool: said[tool.id])
            self._scorer = HybridScorer(DenseScorer(_Given(self._vectors), text), by_words)
        self._scorer.index(map(_tool, catalog))
        self._catalog = catalog

    def scores(self, request: str) -> NDArray[Any]:
        """Return the scores of its 100 best; 0 for the others."""
        scores = np.zeros(len(self._catalog))
        (found,) = self._scorer.rank([Query("request", request, {})], _DEEPEST)
        for name, score in zip(found.tool_ids, found.scores, strict=True):
            scores[self._catalog.position(name)] = score
        return scores


def _tool(api: Api) -> Tool:
    """Return an API as its ingestion keeps a tool; the categories are in the description."""
    said = " ".join([api.description, *api.categories])
    schema = None if api.parameters is None else dict(api.parameters)
    return Tool(api.id, documentation=tool_text("", api.name, said, schema))
