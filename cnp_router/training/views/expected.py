"""The view of the expected specification: what serves such a request would say of itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.linear import times_vector
from cnp_router.training.views.base import Batch, View
from cnp_router.training.views.columns import Column, Dense, Sparse, vector_products

__all__ = ["ExpectedView"]

# Of a request that has no words of past ones only rounding is left, and that has no direction.
_LEAST_LENGTH = 0.01
_AT_ONCE = 16_384  # mashups


@dataclass(frozen=True, eq=False)
class ExpectedView(View):
    """Similarity of each specification to the one that such requests call for.

    A linear map from a request to the mean specification of what it used, both in the latent
    space, by ridge regression; a zero-shot view, since what it learned of the APIs with history
    holds for those without (Romera-Paredes and Torr, 2015). The `map` follows from sums over the
    mashups: `gram` of each request with itself, `toward` of each with that mean.
    """

    name: ClassVar[str] = "expected"
    scores: ClassVar[tuple[str, ...]] = ("expected specification",)

    map: Annotated[NDArray[Any], "components", "components"]
    gram: Annotated[NDArray[Any], "components", "components"]
    toward: Annotated[NDArray[Any], "components", "components"]

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the map."""
        return cls._of(corpus, *_sums(corpus, requests.word, corpus.usage))

    @classmethod
    def _of(cls, corpus: Corpus, gram: NDArray[Any], toward: NDArray[Any]) -> Self:
        penalised = gram.astype(np.float32) + np.eye(len(gram), dtype=np.float32)
        fitted = np.linalg.solve(penalised, toward.astype(np.float32))
        return cls(corpus, np.asarray(fitted, dtype=np.float32), gram, toward)

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view as if fitted on all: the sums add up."""
        gram, toward = _sums(corpus, requests.word, usage)
        return self._of(corpus, self.gram + gram, self.toward + toward)

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view as if fitted on what is there: some mashups are taken out, and added."""
        before = self.corpus
        (rows,) = (before.usage @ change.removed + corpus.usage @ change.respecified).nonzero()
        if not len(rows):
            return replace(self, corpus=corpus)
        were = _sums(before, before.word_rows[rows], before.usage[rows])
        are = _sums(corpus, corpus.word_rows[rows], corpus.usage[rows])
        sums = zip((self.gram, self.toward), were, are, strict=True)
        gram, toward = (own - out + now for own, out, now in sums)
        return self._of(corpus, gram, toward)

    def columns(self, batch: Batch) -> tuple[Column]:
        """Return the cosine of each specification and the expected one.

        In a large catalog, of those that others propose.
        """
        index = self.corpus.specifications
        latent = index.encoders.latent(batch.requests.word)
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


def _sums(
    corpus: Corpus, words: sparse.csr_array, usage: sparse.csr_array
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what some mashups, given by words and use, add to the gram and to the toward."""
    index = corpus.specifications
    latent, n = index.latent, index.latent.shape[1]
    gram, toward = np.zeros((n, n)), np.zeros((n, n))
    used = np.flatnonzero(np.diff(usage.indptr))
    for start in range(0, len(used), _AT_ONCE):
        rows = used[start : start + _AT_ONCE]
        asked, named = index.encoders.latent(words[rows]), usage[rows]
        means = (named @ latent) / np.diff(named.indptr)[:, None]
        gram += asked.T @ asked
        toward += asked.T @ means
    return gram, toward
