"""BM25: which documents are about the words of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.stop_words import STOP_WORDS
from cnp_router.text.tfidf import count_terms
from cnp_router.text.tokenise import content_words, singular, words

__all__ = ["BM25"]


class BM25:
    """Okapi BM25, without negative weights for frequent words, as in Lucene.

    ``idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))`` with
    ``idf = log(1 + (n - df + 0.5) / (df + 0.5))`` (Robertson and Zaragoza, "The Probabilistic
    Relevance Framework: BM25 and Beyond", 2009), over `cnp_router.text.content_words`. There must
    be a document; it may be empty.

    Examples
    --------
    >>> index = BM25(["shows places on a map", "sends text messages"])
    >>> [round(score, 2) for score in index.scores("a map of all places").tolist()]
    [1.39, 0.0]
    """

    def __init__(self, documents: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        counts, self._column = count_terms(map(content_words, documents))
        lengths = np.asarray(counts.sum(axis=1), dtype=np.float64)
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        idf = np.log1p((len(documents) - frequency + 0.5) / (frequency + 0.5))
        norm = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-12))
        by_row = norm[np.repeat(np.arange(len(documents)), np.diff(counts.indptr))]
        weights = idf[counts.indices] * counts.data * (k1 + 1) / (counts.data + by_row)
        weighted = sparse.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
        self._by_word = sparse.csr_array(weighted.T)

    def scores(self, text: str) -> NDArray[Any]:
        """Return the score of each document, at least 0."""
        return np.asarray(self._by_word[list(self._said(text))].sum(axis=0)).ravel()

    def shared_words(
        self, text: str, documents: Sequence[int] | NDArray[np.intp], limit: int = 3
    ) -> list[tuple[str, ...]]:
        """Return for some documents the words each shares with a text, weightiest first."""
        said = self._said(text)
        found, shared = list(said.values()), []
        for row in self._by_word[list(said)].tocsc()[:, documents].toarray().T:
            order = np.argsort(-row, kind="stable")[:limit]
            shared.append(tuple(found[i] for i in order if row[i] > 0))
        return shared

    def __repr__(self) -> str:
        return f"BM25({self._by_word.shape[1]} documents, {len(self._column)} words)"

    def _said(self, text: str) -> dict[int, str]:
        """Return the known words of a text: their column, and how the text says them."""
        said: dict[int, str] = {}
        for word in words(text):
            column = self._column.get(singular(word))
            if column is not None and word not in STOP_WORDS:
                said.setdefault(column, word)
        return said
