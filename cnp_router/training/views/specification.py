"""The view of the specifications: which APIs say of themselves what the request says."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.text import clauses, dense_product
from cnp_router.text.entries import entries
from cnp_router.text.kernels import Rows
from cnp_router.training.keyed import highest
from cnp_router.training.postings import pooled, row_products, segments, sparse_product
from cnp_router.training.views.base import Batch, Evidence, Indexes, Products, View
from cnp_router.training.views.columns import Column, Dense, Found, Pairs, Sparse
from cnp_router.training.views.past_requests import POOL

__all__ = ["SpecificationView"]

# A word in more than about one text of ten says nothing: idf is 1 + ln(1 / share).
_TELLING = 3.3
# Unless there are hardly more texts: then one that two of them say is telling, too.
_OF_TWO = float(np.log(3)) + 1e-6  # below the idf of a word that none says


@dataclass(frozen=True, eq=False)
class SpecificationView(View):
    """Similarity of the request to each specification, by words and by runs of characters.

    By the words of the clause that fits it best, too: what serves one of several needs shares few
    words with the others.
    """

    name: ClassVar[str] = "specification"
    telling: ClassVar[int] = 3
    scores: ClassVar[tuple[str, ...]] = ("words", "characters", "clause")
    context: ClassVar[tuple[str, ...]] = ("best words",)

    def products(self) -> Products:
        """Return the specifications."""
        index = self.corpus.specifications
        if not index.is_exact:
            return {}
        return {
            "word": {"words": index.word_columns},
            "character": {"characters": index.character_columns},
        }

    def indexes(self) -> Indexes:
        """Return the same of a catalog that is too large to look at all of it."""
        index = self.corpus.specifications
        if index.is_exact:
            return {}
        return {
            "words": ("word", index.word_columns),
            "characters": ("character", index.character_columns),
        }

    def columns(self, batch: Batch) -> tuple[Column, ...]:
        """Return the similarities."""
        index, requests = self.corpus.specifications, batch.requests
        if index.is_exact:
            words, characters = batch.product("words"), batch.product("characters")
            return Dense(words), Dense(characters), Dense(self._clause(batch, words))
        said = _proposed(batch.found("words"), requests.word, index.word_rows)
        spelt = _proposed(batch.found("characters"), requests.character, index.character_rows)
        # How well the best one fits is looked at, too.
        pairs = Pairs(segments(said.starts), said.positions, said.starts)
        said = Sparse(said.starts, said.positions, said.at(pairs), said.at)
        return said, spelt, self._clause_of_many(batch, said)

    def _clause(self, batch: Batch, whole: NDArray[Any]) -> NDArray[Any]:
        """Return the similarity of the most similar clause of each request."""
        several, vectors, starts = self._parts(batch)
        if not several:
            return whole
        best = whole.copy()
        similar = dense_product(vectors, self.corpus.specifications.word_columns)
        for row, (begin, end) in zip(several, itertools.pairwise(starts.tolist()), strict=True):
            similar[begin:end].max(axis=0, out=best[row])
        return best

    def _parts(self, batch: Batch) -> tuple[list[int], sparse.csr_array | Rows, NDArray[Any]]:
        """Return which requests have several clauses, these encoded, and where each begins."""
        parts = [clauses(text) for text in batch.requests.texts]
        several = [i for i, own in enumerate(parts) if len(own) > 1]
        vectors: sparse.csr_array | Rows = batch.requests.word
        if several:
            texts = [clause for i in several for clause in parts[i]]
            vectors = self.corpus.encoders.word.rows(texts)
        starts = np.cumsum([0, *(len(parts[i]) for i in several)])
        return several, vectors, starts

    def _clause_of_many(self, batch: Batch, whole: Sparse) -> Sparse:
        """Return the same where the catalog is too large to look at all of it."""
        several, vectors, begins = self._parts(batch)
        if not several:
            return whole
        index, n_apis = self.corpus.specifications, self.corpus.n_apis
        asked = np.zeros(len(batch), dtype=bool)
        asked[several] = True
        found = sparse_product(vectors, index.word_columns)
        starts, positions, similar = pooled(found, POOL)
        rows = segments(whole.starts)
        as_one = ~asked[rows]
        owner = np.repeat(several, np.diff(begins))
        keys = np.concatenate([owner[segments(starts)], rows[as_one]]) * n_apis
        keys += np.concatenate([positions, whole.positions[as_one]])
        values = np.concatenate([similar, whole.values[as_one]])
        keys, values = highest(keys, values, len(batch) * n_apis)
        proposed = Pairs.of(keys, n_apis, len(batch))
        n_parts = np.zeros(len(batch), dtype=np.intp)
        n_parts[several] = np.diff(begins)
        parts = np.concatenate([[0], n_parts.cumsum()])

        def exact(pairs: Pairs) -> NDArray[np.float32]:
            scores = row_products(vectors, index.word_rows, pairs.positions, pairs.starts, parts)
            alone = ~asked[pairs.rows]
            if alone.any():
                scores[alone] = whole.at(pairs)[alone]
            return scores

        return Sparse(proposed.starts, proposed.positions, values, exact)

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return how well the best specification fits."""
        return self.scored(batch)["words"].highest()[:, None]

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the words that the request and each specification share, most telling first."""
        index, word = self.corpus.specifications, evidence.batch.requests.word
        encoder = index.encoders.word
        said = word.indices[np.argsort(-word.data, kind="stable")]
        least = min(_TELLING, encoder.rare_ - _OF_TWO)
        telling = [
            (column, f"“{term}”")
            for column in said[encoder.idf_[said] >= least].tolist()
            if " " not in (term := encoder.terms_[column]) and len(term) >= 3
        ]
        own = entries(index.word_rows, np.asarray(positions, dtype=np.intp))
        shared: dict[int, list[str]] = {}
        ends = np.cumsum(own.sizes)
        for position, start, end in zip(positions, ends - own.sizes, ends, strict=True):
            there = set(own.index[start:end].tolist())
            if words := [term for column, term in telling if column in there]:
                shared[position] = words
        return {
            position: Reason("specification", f"its specification says {_listed(terms[:3])}, too")
            for position, terms in shared.items()
        }


def _proposed(found: Found, queries: sparse.csr_array, rows: sparse.csr_array) -> Sparse:
    """Return what an index proposes, and the similarity of each request to any API."""

    def exact(pairs: Pairs) -> NDArray[np.float32]:
        return row_products(queries, rows, pairs.positions, pairs.starts)

    return Sparse(*found.best(POOL), exact)


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
