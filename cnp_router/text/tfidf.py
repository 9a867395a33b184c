"""TF-IDF: texts to sparse unit vectors.

scikit-learn's vectorizers do the same; they are not used because importing scikit-learn costs more
than answering a request, and a saved model has to answer from a cold start.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.kernels import Rows
from cnp_router.text.sparse_rows import (
    GrowingRows,
    counted_rows,
    one_row,
    unit_data,
)
from cnp_router.text.term_counts import (
    Analyzer,
    TermCounts,
    blocks,
    first_terms,
    is_pair,
    runs_of_words,
    word_runs,
)
from cnp_router.text.tokenise import ANALYZERS

__all__ = ["TfidfEncoder", "count_terms"]


class TfidfEncoder:
    """Text to unit vectors of sublinear term frequency times inverse document frequency.

    Weights are ``(1 + ln tf) * (1 + ln((1 + n) / (1 + df)))`` (Salton and Buckley, 1988, with the
    smoothing of scikit-learn), then each row is scaled to length 1.

    Terms are those of an analyzer of `cnp_router.text.tokenise`: words and pairs of them, words
    that carry meaning, or runs of characters. A term in fewer than `min_df` documents is dropped;
    of more than `max_terms` words come before pairs, then what most documents have. `rare_` is what
    the idf of an unknown term would be.

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
        return self._learn(texts)

    def fit_transform(self, texts: Sequence[str], *, n_telling: int = 0) -> sparse.csr_array:
        """Learn the terms, and encode the same texts.

        The terms of the last `n_telling` texts are kept however rare they are.
        """
        self._learn(texts, n_telling)
        rows = self.new_rows()
        for block in blocks(texts):
            self.add_rows(rows, block, in_order=True)
        return rows.matrix()

    def _learn(self, texts: Sequence[str], n_telling: int = 0) -> TfidfEncoder:
        counts = TermCounts(self.analyzer)
        n_others = max(len(texts) - n_telling, 0)
        counts.add(texts[:n_others])
        counts.add(texts[n_others:], telling=True)
        return self._set(*counts.chosen(min_df=self.min_df, max_terms=self.max_terms))

    @classmethod
    def of_counts(
        cls,
        counts: TermCounts,
        *,
        min_df: int = 2,
        max_terms: int = 100_000,
        telling_pairs: bool = True,
    ) -> TfidfEncoder:
        """Return the encoder that is fitted on the texts that were counted.

        `telling_pairs` is that of `TermCounts.chosen`.

        Examples
        --------
        >>> counts = TermCounts("word")
        >>> counts.add(["a map", "a song"])
        >>> TfidfEncoder.of_counts(counts, min_df=1).terms_
        ['map', 'song']
        """
        made = cls(counts.analyzer, min_df=min_df, max_terms=max_terms)
        chosen = counts.chosen(min_df=min_df, max_terms=max_terms, telling_pairs=telling_pairs)
        return made._set(*chosen)

    def _set(
        self,
        terms: list[str],
        idf: NDArray[Any],
        rare: float,
        before: TfidfEncoder | None = None,
    ) -> TfidfEncoder:
        """Set what was learned; the terms begin with those of the encoder that was `before`."""
        self.terms_ = terms
        self.idf_ = np.asarray(idf)  # of a file that is mapped, each look at it is slow
        self.rare_ = rare
        self._column: dict[str, int] = {} if before is None else before._column.copy()
        start = len(self._column)
        self._column.update(zip(terms[start:], range(start, len(terms)), strict=True))
        self._runs = word_runs(self._column.get)
        self._blank = sparse.csr_array((1, len(terms)), dtype=np.float32)
        return self

    def __getstate__(self) -> dict[str, Any]:
        made = ("_column", "_runs", "_blank")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "terms_" in state:
            self._set(self.terms_, self.idf_, self.rare_)

    @property
    def n_texts(self) -> int:
        """How many texts it was fitted on."""
        return round(math.exp(self.rare_ - 1)) - 1

    def grown(self, texts: Iterable[str], *, pairs: bool = True) -> TfidfEncoder:
        """Return an encoder that has the terms of more texts, too, at the end of its terms.

        Each counts as if one text had it; what the other terms count stays as it is. Pairs of words
        come in only if `pairs`. Where not all find room below `max_terms`, single words do first,
        then what most of these texts have.

        Examples
        --------
        >>> TfidfEncoder(min_df=1).fit(["a map", "a song"]).grown(["a map of bars"]).terms_
        ['map', 'song', 'bar', 'map bar']
        """
        counts = self._counted_texts(texts)
        unknown = (term for term in counts if term not in self._column)
        new = sorted(term for term in unknown if pairs or not is_pair(term, self.analyzer))
        room = max(self.max_terms - len(self.terms_), 0)
        if len(new) > room:
            first = first_terms(new, [counts[term] for term in new], room, self.analyzer)
            new = [new[i] for i in first]
        if not new:
            return self
        once = np.full(len(new), self.rare_ - math.log(2), dtype=np.float32)
        other = TfidfEncoder(self.analyzer, min_df=self.min_df, max_terms=self.max_terms)
        idf = np.concatenate([self.idf_, once])
        return other._set([*self.terms_, *new], idf, self.rare_, before=self)

    def _counted_texts(self, texts: Iterable[str]) -> Counter[str]:
        """Return in how many of some texts each of their terms is."""
        return Counter(chain.from_iterable(map(set, map(ANALYZERS[self.analyzer], texts))))

    def observed(self, texts: Sequence[str]) -> TfidfEncoder:
        """Return an encoder that has counted more texts, too, with their words behind its terms.

        All weigh what they would if it had been fitted on these texts, too, but that one which it
        had dropped as too rare counts from now on. Pairs of words that are new stay unknown.

        Examples
        --------
        >>> encoder = TfidfEncoder(min_df=1).fit(["a map", "a song"]).observed(["map of bars"])
        >>> encoder.terms_, encoder.n_texts
        (['map', 'song', 'bar'], 3)
        """
        counts = self._counted_texts(texts)
        unknown = (term for term in counts if term not in self._column)
        new = sorted(term for term in unknown if not is_pair(term, self.analyzer))
        other = TfidfEncoder(self.analyzer, min_df=self.min_df, max_terms=self.max_terms)
        rare = math.log(math.exp(self.rare_) + math.e * len(texts))
        unseen = np.full(len(new), self.rare_, dtype=np.float32)
        idf = np.concatenate([self.idf_, unseen]) + np.float32(rare - self.rare_)
        other._set([*self.terms_, *new], idf, rare, before=self)
        said = [term for term in counts if term in other._column]
        more = np.fromiter(map(counts.__getitem__, said), dtype=float, count=len(said))
        columns = np.fromiter(map(other._column.__getitem__, said), dtype=np.intp, count=len(said))
        # One more than the texts that have a term are (1 + n) / exp(idf - 1).
        other.idf_[columns] -= np.log1p(more / np.exp(rare - idf[columns].astype(float)))
        return other

    def transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Encode texts as rows of length 1, or 0 where a text has no known term; float32."""
        if len(texts) == 1:
            columns, counts = self._counted(texts[0])
            weights = (1 + np.log(counts)) * self.idf_[columns]
            return one_row(self._blank, weights, columns)
        return self.rows(texts).matrix()

    def rows(self, texts: Sequence[str]) -> Rows:
        """Return what `transform` returns without what a matrix checks."""
        rows = self.new_rows()
        for block in blocks(texts):
            self.add_rows(rows, block)
        return rows.rows()

    def new_rows(self) -> GrowingRows:
        """Return a matrix without rows, to which `add_rows` adds."""
        return GrowingRows(len(self.terms_))

    def add_rows(self, rows: GrowingRows, texts: Sequence[str], *, in_order: bool = False) -> None:
        """Add the rows that `transform` returns, those of a few texts at a time.

        The words of a row stand as the text says them, or in the order of the terms.
        """
        if in_order or self.analyzer == "character":
            found, sizes = self._columns_of(texts)
            columns, counts, sizes = counted_rows(found, sizes, len(self.terms_))
        else:
            said = list(map(self._said, texts))
            columns = np.array(list(chain.from_iterable(said)), dtype=np.int32)
            counts = np.array([n for own in said for n in own.values()], dtype=np.float32)
            sizes = np.array(list(map(len, said)), dtype=np.int64)
        weights = (1 + np.log(counts)) * self.idf_[columns]
        rows.add(unit_data(weights, np.concatenate([[0], np.cumsum(sizes)])), columns, sizes)

    def _said(self, text: str) -> Counter[int]:
        """Return the columns of the known words of a text, and how often each is there."""
        said: Counter[Any] = Counter(map(self._column.get, ANALYZERS[self.analyzer](text)))
        said.pop(None, None)
        return said

    def _known(self, text: str) -> list[int]:
        """Return the column of each known word of a text, as often as it is there."""
        found = map(self._column.get, ANALYZERS[self.analyzer](text))
        return [column for column in found if column is not None]

    def _columns_of(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the columns of the known terms of texts, and how many each text has."""
        if self.analyzer == "character":
            return runs_of_words(texts, self._runs)
        found = list(map(self._known, texts))
        columns = np.array(list(chain.from_iterable(found)), dtype=np.int32)
        return columns, np.array(list(map(len, found)), dtype=np.int64)

    def _counted(self, text: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the distinct columns of a text, and how often each is there.

        Those of characters are in order, those of words as the text says them.
        """
        if self.analyzer == "character":
            columns, counts, _ = counted_rows(*self._columns_of([text]), len(self.terms_))
            return columns, counts
        found = self._said(text)
        columns = np.fromiter(found, dtype=np.int32, count=len(found))
        return columns, np.fromiter(found.values(), dtype=np.float32, count=len(found))

    def linear(self, texts: Sequence[str], weights: NDArray[Any]) -> NDArray[np.float64]:
        """Return the product of the vector of each text and some weights.

        That is ``transform(texts) @ weights``, without a matrix: several times faster.
        """
        columns, sizes = self._columns_of(texts)
        columns, counts, sizes = counted_rows(columns, sizes, len(self.terms_))
        products = np.zeros(len(sizes))
        (some,) = sizes.nonzero()
        if len(some):
            starts = (sizes.cumsum() - sizes)[some]
            vectors = (1 + np.log(counts.astype(float))) * self.idf_[columns]
            squares = np.add.reduceat(vectors * vectors, starts)
            products[some] = np.add.reduceat(vectors * weights[columns], starts) / np.sqrt(squares)
        return products

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
        return None if column is None else self.idf_.item(column)

    def idf_of(self, terms: Sequence[str]) -> NDArray[np.float64]:
        """Return the inverse document frequency of each term; `rare_` where it is unknown."""
        columns = [-1 if column is None else column for column in map(self._column.get, terms)]
        found = np.full(len(columns), self.rare_)
        if len(self.terms_):
            place = np.array(columns, dtype=np.intp)
            np.copyto(found, self.idf_.take(place, mode="clip"), where=place >= 0)
        return found

    def __repr__(self) -> str:
        terms = getattr(self, "terms_", None)
        state = "not fitted" if terms is None else f"{len(terms)} terms"
        return f"TfidfEncoder({self.analyzer!r}, {state})"

    def state(self) -> dict[str, Any]:
        """Return all that was learned, as plain data."""
        learned = {"terms": self.terms_, "idf": self.idf_, "rare": self.rare_}
        sizes = {"min_df": self.min_df, "max_terms": self.max_terms}
        return {"analyzer": self.analyzer, **sizes, **learned}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TfidfEncoder:
        """Rebuild a fitted encoder; raises KeyError, TypeError or ValueError if it was none."""
        terms, idf = list(state["terms"]), state["idf"]
        if not set(map(type, terms)) <= {str}:
            raise ValueError("expected terms")
        if idf.shape != (len(terms),):
            raise ValueError("expected a weight for each term")
        if state["analyzer"] not in ANALYZERS:
            raise ValueError(f"expected one of {sorted(ANALYZERS)}, got {state['analyzer']!r}")
        bounds = {name: state[name] for name in ("min_df", "max_terms")}
        if any(type(bound) is not int or bound < 0 for bound in bounds.values()):
            raise ValueError("expected whole numbers as bounds")
        made = cls(state["analyzer"], **bounds)
        made._set(terms, idf, float(state["rare"]))
        if len(made._column) < len(terms):
            raise ValueError("expected distinct terms")
        return made


def count_terms(documents: Iterable[Iterable[str]]) -> tuple[sparse.csr_array, dict[str, int]]:
    """Count the terms of some documents, one a row, and return the column of each term, too."""
    known: defaultdict[str, int] = defaultdict()
    known.default_factory = known.__len__
    pointers, columns, counts = array("q", [0]), array("i"), array("f")
    for terms in documents:
        own = Counter(terms)
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
    return matrix, dict(known)
