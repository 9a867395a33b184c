"""The view of the expected specification: what serves such a request would say of itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.kernels import dense_times
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.linear import times_vector
from cnp_router.training.views.base import Batch, View
from cnp_router.training.views.columns import Column, Dense, Sparse, vector_products

__all__ = ["ExpectedView"]

# Of a request that has no words of past ones only rounding is left, and that has no direction.
_LEAST_LENGTH = 0.01


@dataclass(frozen=True, eq=False)
class ExpectedView(View):
    """Similarity of each specification to the one that such requests call for.

    A linear map from a request to the mean specification of what it used, both in the latent
    space, by ridge regression; a zero-shot view, since what it learned of the APIs with history
    holds for those without (Romera-Paredes and Torr, 2015).
    """

    name: ClassVar[str] = "expected"
    scores: ClassVar[tuple[str, ...]] = ("expected specification",)

    map: Annotated[NDArray[Any], "components", "components"]

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the map."""
        return cls(corpus, _map(corpus, requests.word))

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view fitted on all."""
        return type(self)(corpus, _map(corpus, corpus.word_rows))

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view, fitted on all again if what was used is specified otherwise now."""
        if not change.respecified[corpus.labels].any():
            return replace(self, corpus=corpus)
        return type(self)(corpus, _map(corpus, corpus.word_rows))

    def columns(self, batch: Batch) -> tuple[Column]:
        """Return the cosine of each specification and the expected one.

        In a large catalog, of those that others propose.
        """
        index = self.corpus.specifications
        latent = dense_times(batch.requests.word, index.encoders.projection)
        each = [times_vector(self.map.T, request) for request in latent]
        called_for = np.array(each, dtype=np.float32).reshape(latent.shape)
        lengths = np.sqrt((called_for * called_for).sum(axis=1, keepdims=True))
        called_for *= (lengths >= _LEAST_LENGTH) / np.maximum(lengths, _LEAST_LENGTH)
        if index.is_exact:
            scores = np.empty((len(batch), self.corpus.n_apis), dtype=np.float32)
            for row, vector in enumerate(called_for):
                scores[row] = times_vector(index.latent, vector)
            return (Dense(scores),)
        return (Sparse.silent(len(batch), vector_products(called_for, index.latent)),)


def _map(corpus: Corpus, words: sparse.csr_array) -> NDArray[Any]:
    index = corpus.specifications
    sizes = np.diff(corpus.usage.indptr)
    used = np.flatnonzero(sizes)
    latent = words[used] @ index.encoders.projection
    target = (corpus.usage[used] @ index.latent) / sizes[used, None]
    gram = latent.T @ latent + np.eye(latent.shape[1], dtype=np.float32)
    return np.asarray(np.linalg.solve(gram, latent.T @ target), dtype=np.float32)
