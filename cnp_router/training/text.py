"""From text to sparse vectors: word and character TF-IDF.

scikit-learn's vectorizers do the same; they are not used because importing scikit-learn costs more
than answering a request, and a saved model has to answer from a cold start.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = [
    "TfidfEncoder",
    "character_grams",
    "dense_product",
    "split_compound",
    "unit_rows",
    "word_grams",
    "words",
]

_WORD = re.compile(r"[^\W_]+")
_COMPOUND = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Za-z])(?=[0-9])")

# A longer text says nothing new about what it is for, and would cost memory and time.
MAX_CHARACTERS = 2_000


@lru_cache(maxsize=64)
def words(text: str) -> tuple[str, ...]:
    """Return the lower-case words of a text: runs of letters and digits of any script.

    Examples
    --------
    >>> words("Send SMS via Last.fm")
    ('send', 'sms', 'via', 'last', 'fm')
    """
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text[:MAX_CHARACTERS]).lower()))


def split_compound(text: str) -> str:
    """Put spaces inside compound identifiers.

    Examples
    --------
    >>> split_compound("getWeatherAlerts")
    'get Weather Alerts'
    """
    return _COMPOUND.sub(" ", text)


def singular(word: str) -> str:
    """Return a word without its plural or third-person ``s``: English, harmless elsewhere.

    Harman's S-stemmer ("How effective is suffixing?", 1991).

    Examples
    --------
    >>> [singular(word) for word in ("maps", "cities", "bus", "less", "boxes")]
    ['map', 'city', 'bus', 'less', 'boxe']
    """
    if len(word) > 3 and word.endswith("s"):
        if word.endswith("ies") and word[-4] not in "ae":
            return word[:-3] + "y"
        if word.endswith("es") and word[-3] not in "aeo":
            return word[:-1]
        if word[-2] not in "us":
            return word[:-1]
    return word


def word_grams(text: str) -> Iterator[str]:
    """Yield the words of a text without their plural, and each two that stand together.

    Examples
    --------
    >>> list(word_grams("photos on maps"))
    ['photo', 'on', 'map', 'photo on', 'on map']
    """
    tokens = [singular(word) for word in words(text)]
    yield from tokens
    yield from (f"{a} {b}" for a, b in itertools.pairwise(tokens))


def character_grams(text: str) -> Iterator[str]:
    """Yield the runs of 3 to 5 characters inside each word, its ends marked by blanks.

    Examples
    --------
    >>> list(character_grams("maps"))
    [' ma', 'map', 'aps', 'ps ', ' map', 'maps', 'aps ', ' maps', 'maps ']
    """
    for word in words(text):
        yield from _grams(word)


@lru_cache(maxsize=50_000)
def _grams(word: str) -> tuple[str, ...]:
    padded = f" {word} "
    return tuple(padded[i : i + n] for n in (3, 4, 5) for i in range(len(padded) - n + 1))


_ANALYZERS: dict[str, Callable[[str], Iterator[str]]] = {
    "word": word_grams,
    "character": character_grams,
}


class TfidfEncoder:
    """Text to unit vectors of sublinear term frequency times inverse document frequency.

    Weights are ``(1 + ln tf) * (1 + ln((1 + n) / (1 + df)))`` (Salton and Buckley, 1988, with the
    smoothing of scikit-learn), then each row is scaled to length 1.

    Parameters
    ----------
    analyzer : {"word", "character"}, default="word"
    min_df : int, default=2
        A term in fewer documents is dropped.
    max_terms : int, default=100_000
        The most frequent terms that are kept.

    Attributes
    ----------
    terms_ : list of str
    idf_ : ndarray of shape (n_terms,), at least 1

    Examples
    --------
    >>> encoder = TfidfEncoder(min_df=1).fit(["a map", "a song"])
    >>> encoder.transform(["map map"]).toarray().round(1)
    array([[0., 0., 0., 1., 0.]], dtype=float32)
    """

    def __init__(
        self,
        analyzer: Literal["word", "character"] = "word",
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

    def fit_transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Learn the terms, and encode the same texts, in one pass.

        Returns
        -------
        csr_array of shape (n_texts, n_terms), float32
        """
        column = _growing()
        if self.analyzer == "character":
            # A history says the same words all the time: their runs are counted once a word.
            vocabulary = _growing()
            said = _counted((words(text) for text in texts), vocabulary)
            counts = sparse.csr_array(said @ _counted(map(_grams, vocabulary), column))
        else:
            counts = _counted((_ANALYZERS[self.analyzer](text) for text in texts), column)
        frequency = np.bincount(counts.indices, minlength=len(column))
        seen = np.array(list(column), dtype=object)
        kept = sorted(np.flatnonzero(frequency >= self.min_df), key=lambda i: seen[i])
        if len(kept) > self.max_terms:
            most = sorted(kept, key=lambda i: -frequency[i])[: self.max_terms]
            kept = sorted(most, key=lambda i: seen[i])
        chosen = np.array(kept, dtype=np.int64)
        idf = 1 + np.log((1 + len(texts)) / (1 + frequency[chosen]))
        self._set(list(seen[chosen]), idf.astype(np.float32))
        return self._weighted(sparse.csr_array(sparse.csc_array(counts)[:, chosen]))

    def _set(self, terms: list[str], idf: NDArray[Any]) -> TfidfEncoder:
        self.terms_ = terms
        self.idf_ = idf
        self._column = {term: i for i, term in enumerate(terms)}
        return self

    def transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Encode texts.

        Returns
        -------
        csr_array of shape (n_texts, n_terms), float32
            Rows of length 1, or 0 where a text has no known term.
        """
        analyze = _ANALYZERS[self.analyzer]
        return self._weighted(_counted((analyze(text) for text in texts), self._column))

    def _weighted(self, counts: sparse.csr_array) -> sparse.csr_array:
        counts.data = (1 + np.log(counts.data)) * self.idf_[counts.indices]
        return unit_rows(counts)

    def state(self) -> dict[str, Any]:
        """Return all that was learned, as plain data."""
        return {"terms": self.terms_, "idf": self.idf_}

    @classmethod
    def from_state(
        cls, analyzer: Literal["word", "character"], state: dict[str, Any]
    ) -> TfidfEncoder:
        """Rebuild a fitted encoder."""
        return cls(analyzer)._set(list(state["terms"]), state["idf"])


def _growing() -> defaultdict[str, int]:
    """Return a mapping that gives each new term the next number."""
    column: defaultdict[str, int] = defaultdict()
    column.default_factory = column.__len__
    return column


def _counted(documents: Iterable[Iterable[str]], column: dict[str, int]) -> sparse.csr_array:
    """Count the terms of each document; a growing `column` learns all it sees, others skip it."""
    learns = isinstance(column, defaultdict)
    pointers: list[int] = [0]
    columns: list[int] = []
    counts: list[int] = []
    for terms in documents:
        for term, count in Counter(terms).items():
            if learns or term in column:
                columns.append(column[term])
                counts.append(count)
        pointers.append(len(columns))
    return sparse.csr_array(
        (
            np.array(counts, dtype=np.float32),
            np.array(columns, dtype=np.int32),
            np.array(pointers, dtype=np.int32),
        ),
        shape=(len(pointers) - 1, len(column)),
    )


def unit_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix with each row scaled to length 1; rows of zeros stay."""
    squares = np.add.reduceat(
        np.append(matrix.data.astype(np.float64) ** 2, 0.0), matrix.indptr[:-1]
    ) * (np.diff(matrix.indptr) > 0)
    lengths = np.sqrt(np.maximum(squares, 1e-24))
    scaled = matrix.copy()
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
