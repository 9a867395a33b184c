"""langgraph-bigtool: its own retrieval of tools, which searches LangGraph's store by vectors.

In an agent a language model writes the query; here the query is the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph_bigtool.tools import get_default_retrieval_tool
from numpy.typing import NDArray

from benchmarks.peers.peer import Peer
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.text import specification_text

__all__ = ["ToolStore"]

_NAMESPACE = ("tools",)
_LIMIT = 20  # places looked at; its own default is 2


class ToolStore(Peer):
    """Its default function on the store in memory, as in its documentation.

    Parameters
    ----------
    vectors : mapping of str to array
        The vector of each text: specifications and requests.
    """

    def __init__(self, vectors: Mapping[str, NDArray[Any]]) -> None:
        self._vectors = vectors

    def fit(self, catalog: Catalog, history: History) -> None:
        """Put the specifications into the store; it learns nothing from a history."""
        self._store = InMemoryStore(
            index={
                "dims": len(next(iter(self._vectors.values()))),
                "embed": lambda texts: [self._vectors[text].tolist() for text in texts],
                "fields": ["description"],
            }
        )
        self._store.batch(
            PutOp(_NAMESPACE, api.id, {"description": specification_text(api)}) for api in catalog
        )
        self._retrieve, _ = get_default_retrieval_tool(_NAMESPACE, limit=_LIMIT)
        self._catalog = catalog

    def scores(self, request: str) -> NDArray[Any]:
        """Return 20 for the first place down to 1: it gives ids in order, without scores."""
        scores = np.zeros(len(self._catalog))
        for place, name in enumerate(self._retrieve(request, store=self._store)):
            scores[self._catalog.position(name)] = _LIMIT - place
        return scores
