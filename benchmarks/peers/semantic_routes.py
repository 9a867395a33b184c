"""semantic-router: a route an API, with past requests and the specification as its utterances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from semantic_router import Route
from semantic_router.routers import IndexedRouter

from benchmarks.peers.peer import Peer, best
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.text import specification_text

__all__ = ["SemanticRoutes"]

_NEAREST = 50


class _Given:
    """An encoder that knows the vectors that were given, by text."""

    def __init__(self, vectors: Mapping[str, NDArray[Any]]) -> None:
        self._vectors = vectors

    def __call__(self, docs: list[str]) -> list[NDArray[Any]]:
        return [self._vectors[text] for text in docs]


class SemanticRoutes(Peer):
    """Its router on its local index, by the sum over the 50 nearest utterances.

    Parameters
    ----------
    vectors : mapping of str to array
        The vector of each text: specifications, past and new requests.
    """

    def __init__(self, vectors: Mapping[str, NDArray[Any]]) -> None:
        self._encoder = _Given(vectors)

    def fit(self, catalog: Catalog, history: History) -> None:
        """Index the utterances of all routes."""
        utterances = {api.id: [specification_text(api)] for api in catalog}
        for mashup in history:
            for api in dict.fromkeys(mashup.apis):
                utterances[api].append(mashup.description)
        routes = [Route(name=api, utterances=said) for api, said in utterances.items()]
        self._router = IndexedRouter(
            self._encoder, routes, top_k=_NEAREST, aggregation="sum", confidence_threshold=None
        )
        self._catalog = catalog

    def scores(self, request: str) -> NDArray[Any]:
        """Return the confidence of each route; 0 for those that it does not choose."""
        scores = np.zeros(len(self._catalog))
        for choice in self._router(request, limit=None):
            scores[self._catalog.position(choice.name)] = choice.confidence
        return scores

    def top(self, request: str, k: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the best of those that it chooses."""
        chosen = self._router(request, limit=None)
        places = np.array([self._catalog.position(each.name) for each in chosen], dtype=np.intp)
        found, scores = best(np.array([each.confidence for each in chosen]), k)
        return places[found], scores
