"""Sparse text retrieval for the baselines: BM25 and TF-IDF, as matrices of documents and words.

scikit-learn is imported when an index is built, so that importing `cnp_router.routing` is cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["Bm25Index", "TfidfIndex"]


class Bm25Index:
    """Okapi BM25, without negative weights for frequent words, as in Lucene.

    ``idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))`` with
    ``idf = log(1 + (n - df + 0.5) / (df + 0.5))`` (Robertson and Zaragoza, "The Probabilistic
    Relevance Framework: BM25 and Beyond", 2009).

    Parameters
    ----------
    documents : sequence of str
        At least one; they may be empty.
    k1 : float >= 0, default=1.2
    b : float in [0, 1], default=0.75

    Examples
    --------
    >>> index = Bm25Index(["shows places on a map", "sends text messages"])
    >>> [round(score, 2) for score in index.scores("a map of all places").tolist()]
    [1.39, 0.0]
    """

    def __init__(self, documents: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        self._words, counts = _counted(documents)
        self._names = self._words.get_feature_names_out()
        lengths = counts.sum(axis=1)
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        idf = np.log1p((len(documents) - frequency + 0.5) / (frequency + 0.5))
        rows = np.repeat(np.arange(len(documents)), np.diff(counts.indptr))
        norm = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-12))
        weights = idf[counts.indices] * counts.data * (k1 + 1) / (counts.data + norm[rows])
        weighted = csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
        self._by_word = csr_array(weighted.T)

    def scores(self, text: str) -> NDArray[Any]:
        """Return the score of each document.

        Parameters
        ----------
        text : str

        Returns
        -------
        ndarray of shape (n_documents,), at least 0
        """
        words = self._positions(text)
        return np.asarray(self._by_word[words].sum(axis=0)).ravel()

    def shared_words(
        self, text: str, documents: Sequence[int] | NDArray[np.intp], limit: int = 3
    ) -> list[tuple[str, ...]]:
        """Return for each of some documents the words it shares with a text, weightiest first.

        Parameters
        ----------
        text : str
        documents : sequence of int
        limit : int, default=3
            At most so many words each.

        Returns
        -------
        list of tuple of str
        """
        words = self._positions(text)
        weights = self._by_word[words].tocsc()[:, documents].toarray().T
        shared = []
        for row in weights:
            order = np.argsort(-row, kind="stable")[:limit]
            shared.append(tuple(str(self._names[words[i]]) for i in order if row[i] > 0))
        return shared

    def _positions(self, text: str) -> NDArray[Any]:
        return np.asarray(self._words.transform([text]).indices)


class TfidfIndex:
    """Cosine similarity of TF-IDF vectors, term frequencies dampened by ``1 + log(tf)``.

    Parameters
    ----------
    documents : sequence of str
        At least one; they may be empty.

    Examples
    --------
    >>> index = TfidfIndex(["weather on a map", "text message when it rains"])
    >>> [round(score, 2) for score in index.similarities("map of the weather").tolist()]
    [1.0, 0.0]
    """

    def __init__(self, documents: Sequence[str]) -> None:
        self._words, counts = _counted(documents)
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        self._idf = 1 + np.log((1 + len(documents)) / (1 + frequency))
        self._documents = self._weighted(counts)
        self._by_word = csr_array(self._documents.T)

    def similarities(self, text: str) -> NDArray[Any]:
        """Return the cosine of the text and each document.

        Parameters
        ----------
        text : str

        Returns
        -------
        ndarray of shape (n_documents,), in [0, 1]
        """
        query = self._weighted(csr_array(self._words.transform([text])))
        return self._against_all(query)

    def similarities_within(self, document: int) -> NDArray[Any]:
        """Return the cosine of one document and each document, itself included."""
        return self._against_all(self._documents[[document]])

    def _against_all(self, query: csr_array) -> NDArray[Any]:
        return np.asarray(np.minimum((query @ self._by_word).toarray().ravel(), 1.0))

    def _weighted(self, counts: csr_array) -> csr_array:
        data = (1 + np.log(counts.data)) * self._idf[counts.indices]
        weighted = csr_array((data, counts.indices, counts.indptr), shape=counts.shape)
        norms = np.sqrt(weighted.power(2).sum(axis=1))
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        weighted.data /= np.maximum(norms, 1e-12)[rows]
        return weighted


def _counted(documents: Sequence[str]) -> tuple[Any, csr_array]:
    """Return the fitted vectorizer and the counts of words."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(stop_words="english", token_pattern=r"(?u)\b\w+\b")
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError:
        # No document has a word. A vocabulary cannot be empty; this word is in no request.
        vectorizer = CountVectorizer(vocabulary=["\0"])
        counts = vectorizer.transform(documents)
    return vectorizer, csr_array(counts, dtype=np.float64)
