"""TF-IDF: texts to sparse unit vectors.

scikit-learn's vectorizers do the same; they are not used because importing scikit-learn costs more
than answering a request, and a saved model has to answer from a cold start.
"""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.tokenise import ANALYZERS, grams_of, standing_words

__all__ = ["TfidfEncoder", "count_terms", "dense_product", "unit_rows"]


Analyzer = Literal["word", "content", "character"]


class TfidfEncoder:
    """Text to unit vectors of sublinear term frequency times inverse document frequency.

    Weights are ``(1 + ln tf) * (1 + ln((1 + n) / (1 + df)))`` (Salton and Buckley, 1988, with the
    smoothing of scikit-learn), then each row is scaled to length 1.

    Terms are those of an analyzer of `cnp_router.text.tokenise`: words and pairs of them, words
    that carry meaning, or runs of characters. A term in fewer than `min_df` documents is dropped,
    and all but the `max_terms` most frequent. `rare_` is what the idf of an unknown term would be.

    Examples
    --------
    >>> encoder = TfidfEncoder(min_df=1).fit(["a map", "a song"])
    >>> encoder.transform(["map map"]).toarray().round(1)
    array([[1., 0.]], dtype=float32)
    """

    def __init__(
        self,
        analyzer: Analyzer = "word",
        *,
        min_df: int = 2,
        max_terms: int = 100_000,
    ) -> None:
        self.analyzer = analyzer
        self.min_df = min_df
        self.max_terms = max_terms

    def fit(self, texts: Sequence[str]) -> TfidfEncoder:
        """Learn the terms and their document frequencies."""
        self.fit_transform(texts)
        return self

    def fit_transform(self, texts: Sequence[str], *, n_telling: int = 0) -> sparse.csr_array:
        """Learn the terms, and encode the same texts, in one pass.

        The terms of the last `n_telling` texts are kept however rare they are.
        """
        if self.analyzer == "character":
            # A history says the same words all the time: their runs are counted once a word.
            said, vocabulary = count_terms(map(standing_words, texts))
            grams, column = count_terms(map(grams_of, vocabulary))
            counts = sparse.csr_array(said @ grams)
        else:
            counts, column = count_terms(map(ANALYZERS[self.analyzer], texts))
        frequency = np.bincount(counts.indices, minlength=len(column))
        terms = np.array(list(column), dtype=object)
        is_kept = frequency >= self.min_df
        if n_telling:
            is_kept[counts[-n_telling:].indices] = True
        kept = sorted(np.flatnonzero(is_kept), key=lambda i: terms[i])
        if len(kept) > self.max_terms:
            most = sorted(kept, key=lambda i: -frequency[i])[: self.max_terms]
            kept = sorted(most, key=lambda i: terms[i])
        chosen = np.array(kept, dtype=np.int64)
        idf = 1 + np.log((1 + len(texts)) / (1 + frequency[chosen]))
        self._set(list(terms[chosen]), idf.astype(np.float32), 1 + math.log(1 + len(texts)))
        return self._weighted(sparse.csr_array(sparse.csc_array(counts)[:, chosen]))

    def _set(self, terms: list[str], idf: NDArray[Any], rare: float) -> TfidfEncoder:
        self.terms_ = terms
        self.idf_ = idf
        self.rare_ = rare
        self._column = {term: i for i, term in enumerate(terms)}
        return self

    @property
    def n_texts(self) -> int:
        """How many texts it was fitted on."""
        return round(math.exp(self.rare_ - 1)) - 1

    def grown(self, texts: Iterable[str]) -> TfidfEncoder:
        """Return an encoder that has the terms of more texts, too, at the end of its terms.

        Each counts as if one text had it; what the other terms count stays as it is.

        Examples
        --------
        >>> TfidfEncoder(min_df=1).fit(["a map", "a song"]).grown(["a map of bars"]).terms_
        ['map', 'song', 'bar', 'map bar']
        """
        documents = map(ANALYZERS[self.analyzer], texts)
        new = sorted({term for terms in documents for term in terms}.difference(self._column))
        if not new:
            return self
        once = np.full(len(new), self.rare_ - math.log(2), dtype=np.float32)
        other = TfidfEncoder(self.analyzer, min_df=self.min_df, max_terms=self.max_terms)
        return other._set([*self.terms_, *new], np.concatenate([self.idf_, once]), self.rare_)

    def transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Encode texts as rows of length 1, or 0 where a text has no known term; float32."""
        documents = map(ANALYZERS[self.analyzer], texts)
        return self._weighted(count_terms(documents, self._column)[0])

    def linear(self, text: str, weights: NDArray[Any]) -> float:
        """Return the product of a text's vector and some weights: ``transform([text]) @ weights``.

        Without building a matrix, several times faster.
        """
        found = Counter(filter(self._column.__contains__, ANALYZERS[self.analyzer](text)))
        if not found:
            return 0.0
        columns = np.array([self._column[term] for term in found])
        vector = (1 + np.log(np.array(list(found.values()), dtype=float))) * self.idf_[columns]
        return float(vector @ weights[columns] / np.sqrt(vector @ vector))

    def weights(self, text: str) -> dict[str, float]:
        """Return a text's vector by term. Unknown terms count as rare, not as nothing."""
        weights = {}
        for term, count in Counter(ANALYZERS[self.analyzer](text)).items():
            column = self._column.get(term)
            idf = self.rare_ if column is None else float(self.idf_[column])
            weights[term] = (1 + math.log(count)) * idf
        length = math.hypot(*weights.values())
        return {term: weight / length for term, weight in weights.items()}

    def idf(self, term: str) -> float | None:
        """Return a term's inverse document frequency; None if it is unknown."""
        column = self._column.get(term)
        return None if column is None else float(self.idf_[column])

    def _weighted(self, counts: sparse.csr_array) -> sparse.csr_array:
        counts.data = (1 + np.log(counts.data)) * self.idf_[counts.indices]
        return unit_rows(counts)

    def __repr__(self) -> str:
        terms = getattr(self, "terms_", None)
        state = "not fitted" if terms is None else f"{len(terms)} terms"
        return f"TfidfEncoder({self.analyzer!r}, {state})"

    def state(self) -> dict[str, Any]:
        """Return all that was learned, as plain data."""
        learned = {"terms": self.terms_, "idf": self.idf_, "rare": self.rare_}
        return {"analyzer": self.analyzer, **learned}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TfidfEncoder:
        """Rebuild a fitted encoder; raises KeyError, TypeError or ValueError if it was none."""
        terms, idf = list(state["terms"]), state["idf"]
        if not set(map(type, terms)) <= {str} or len(set(terms)) < len(terms):
            raise ValueError("expected distinct terms")
        if idf.shape != (len(terms),):
            raise ValueError("expected a weight for each term")
        if state["analyzer"] not in ANALYZERS:
            raise ValueError(f"expected one of {sorted(ANALYZERS)}, got {state['analyzer']!r}")
        return cls(state["analyzer"])._set(terms, idf, float(state["rare"]))


def count_terms(
    documents: Iterable[Iterable[str]], column: Mapping[str, int] | None = None
) -> tuple[sparse.csr_array, Mapping[str, int]]:
    """Count the terms of some documents, one a row, and return the column of each term, too.

    Terms that have no column are passed over; by default all are counted, as they come.
    """
    growing: defaultdict[str, int] = defaultdict()
    growing.default_factory = growing.__len__
    known: Mapping[str, int] = growing if column is None else column
    pointers: list[int] = [0]
    columns: list[int] = []
    counts: list[int] = []
    for terms in documents:
        own = Counter(terms if column is None else filter(column.__contains__, terms))
        columns.extend(map(known.__getitem__, own))
        counts.extend(own.values())
        pointers.append(len(columns))
    matrix = sparse.csr_array(
        (
            np.array(counts, dtype=np.float32),
            np.array(columns, dtype=np.int32),
            np.array(pointers, dtype=np.int32),
        ),
        shape=(len(pointers) - 1, len(known)),
    )
    return matrix, dict(growing) if column is None else column


def unit_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix with each row scaled to length 1; rows of zeros stay."""
    squares = np.add.reduceat(
        np.append(matrix.data.astype(np.float64) ** 2, 0.0), matrix.indptr[:-1]
    ) * (np.diff(matrix.indptr) > 0)
    lengths = np.sqrt(np.maximum(squares, 1e-24))
    scaled = copy.copy(matrix)  # it shares all but the data
    scaled.data = (matrix.data / np.repeat(lengths, np.diff(matrix.indptr))).astype(np.float32)
    return scaled


def dense_product(rows: sparse.csr_array, matrix: sparse.csr_array) -> NDArray[Any]:
    """Return ``rows @ matrix`` as a dense array.

    A single row, which is what answering a request is about, adds up the postings of its terms and
    never builds a sparse result.
    """
    if rows.shape[0] == 1:
        return np.asarray(rows.data @ matrix[rows.indices], dtype=np.float32)[None]
    return np.asarray((rows @ matrix).toarray())
