"""The view of the specifications: which APIs say of themselves what the request says."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.text import clauses, dense_product, is_unspaced
from cnp_router.text.entries import entries
from cnp_router.text.kernels import Rows, below, taken
from cnp_router.training.corpus import Specifications
from cnp_router.training.keyed import highest
from cnp_router.training.postings import best_products, part_products, row_products, segments
from cnp_router.training.views.base import Batch, Evidence, Indexes, Products, View
from cnp_router.training.views.columns import Column, Dense, Found, Pairs, Sparse
from cnp_router.training.views.past_requests import POOL

__all__ = ["SpecificationView"]

# A word in more than about one text of ten says nothing: idf is 1 + ln(1 / share).
_TELLING = 3.3
# Unless there are hardly more texts: then one that two of them say is telling, too.
_OF_TWO = float(np.log(3)) + 1e-6  # below the idf of a word that none says
_TOGETHER = 8  # requests, whose candidates' words a cache holds


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
            said, spelt = batch.product("words"), batch.product("characters")
            return Dense(said), Dense(spelt), Dense(self._clause(batch, said))
        starts, positions, values = batch.found("characters").best(POOL)

        def spelling(pairs: Pairs) -> NDArray[np.float32]:
            rows = index.character_rows
            return row_products(requests.character, rows, pairs.positions, pairs.starts)

        by_words = _ByWords(requests.word, *self._parts(batch), index)
        words, clause = by_words.proposed(batch.found("words"))
        return words, Sparse(starts, positions, values, spelling), clause

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
            if " " not in (term := encoder.terms_[column]) and _can_be_cited(term)
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


def _can_be_cited(term: str) -> bool:
    """Return whether a word says something to a reader; of scripts without spaces, two characters.

    Hiragana beside another script is an ending or a particle: the two are of two words.
    """
    if not is_unspaced(term[0]):
        return len(term) >= 3
    return len(term) >= 2 and len({"ぁ" <= character <= "ゟ" for character in term}) == 1


class _ByWords:
    """The similarity of specifications to requests, and to the clauses of those with `several`.

    `begins` says where the clauses of each begin.
    """

    def __init__(
        self,
        requests: sparse.csr_array,
        several: Sequence[int],
        clauses: sparse.csr_array | Rows,
        begins: NDArray[np.intp],
        index: Specifications,
    ) -> None:
        n_requests = requests.shape[0]
        self._clauses, self._index = clauses, index
        self._several, self._begins = np.asarray(several, dtype=np.intp), begins
        # Each request itself and its clauses, and where those of each begin.
        counts = begins[1:] - begins[:-1]
        sizes = np.ones(n_requests, dtype=np.intp)
        sizes[self._several] += counts
        self._starts = np.concatenate([np.zeros(1, dtype=np.intp), sizes.cumsum()])
        self._said: sparse.csr_array | Rows = requests
        if several:
            owner = np.concatenate([np.arange(n_requests), self._several.repeat(counts)])
            self._said = taken(below(requests, clauses), owner.argsort(kind="stable"))
        self._last: tuple[Pairs, tuple[NDArray[np.float32], NDArray[np.float32]]] | None = None

    def proposed(self, found: Found) -> tuple[Sparse, Sparse]:
        """Return the column of whole requests, and that of the most similar clauses."""
        starts, positions, _ = found.best(POOL)
        pairs = Pairs(segments(starts), positions, starts)
        # How well the best one fits is looked at, too.
        words = Sparse(starts, positions, self._at(pairs)[0], lambda pairs: self._at(pairs)[0])
        if not len(self._several):
            return words, words
        n_requests, n_apis = len(self._starts) - 1, len(self._index.catalog)
        columns = self._index.word_columns
        own, said, values = best_products(self._clauses, columns, POOL, self._begins)
        keys = self._several[segments(own)] * n_apis + said
        if len(self._several) < n_requests:
            is_alone = np.ones(n_requests, dtype=bool)
            is_alone[self._several] = False
            alone = is_alone[pairs.rows]
            keys = np.concatenate([keys, pairs.rows[alone] * n_apis + positions[alone]])
            values = np.concatenate([values, words.values[alone]])
        keys, values = highest(keys, values, n_requests * n_apis)
        best = Pairs.of(keys, n_apis, n_requests)
        return words, Sparse(best.starts, best.positions, values, lambda pairs: self._at(pairs)[1])

    def _at(self, pairs: Pairs) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return both similarities of some pairs: both columns are asked about the same ones."""
        if self._last is None or self._last[0] is not pairs:
            self._last = pairs, self._similarities(pairs)
        return self._last[1]

    def _similarities(self, pairs: Pairs) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        whole = np.zeros(len(pairs), dtype=np.float32)
        best = np.zeros(len(pairs), dtype=np.float32)
        for first in range(0, len(pairs.starts) - 1, _TOGETHER):
            begins = self._starts[first : first + _TOGETHER + 1]
            starts = pairs.starts[first : first + _TOGETHER + 1]
            own = slice(starts[0], starts[-1])
            said = taken(self._said, np.arange(begins[0], begins[-1]))
            asked = taken(self._index.word_rows, pairs.positions[own])
            found = part_products(said, begins - begins[0], asked, starts - starts[0])
            whole[own] = best[own] = found[:, 0]
            if found.shape[1] > 1:
                several = (begins[1:] - begins[:-1] > 1).repeat(starts[1:] - starts[:-1])
                # Column by column: rows are too short for what numpy does once a row.
                likeliest = functools.reduce(np.maximum, found.T[1:])
                np.copyto(best[own], likeliest, where=several)
        return whole, best


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
