"""In how many texts each term is: counted in parts that merge."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cnp_router.text.sparse_rows import counted_rows
from cnp_router.text.tokenise import ANALYZERS, grams_of, standing_words

__all__ = [
    "Analyzer",
    "TermCounts",
    "blocks",
    "evenly",
    "first_terms",
    "is_pair",
    "runs_of_words",
    "word_runs",
]

Analyzer = Literal["word", "content", "character"]

BLOCK = 256  # texts
_CACHED_WORDS = 100_000
_LONG = 64  # characters: longer words are not kept


def blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a few texts at a time: no more than the tokeniser remembers."""
    return (texts[i : i + BLOCK] for i in range(0, len(texts), BLOCK))


def is_pair(term: str, analyzer: Analyzer) -> bool:
    """Tell a pair of words from a word, and from a run of characters."""
    return analyzer != "character" and " " in term


def first_terms(
    terms: Sequence[str], counts: Sequence[int] | NDArray[Any], most: int, analyzer: Analyzer
) -> list[int]:
    """Return the places of the terms to keep of too many: words first, then what most texts have.

    Examples
    --------
    >>> first_terms(["map", "map of", "sms"], [2, 3, 1], 2, "word")
    [0, 2]
    """
    order = sorted(range(len(terms)), key=lambda i: (is_pair(terms[i], analyzer), -counts[i]))
    return sorted(order[:most])


def evenly(n: int, most: int) -> range | NDArray[np.intp]:
    """Return the places of at most some of n things, from all over.

    Examples
    --------
    >>> list(evenly(3, 5)), evenly(10, 4).tolist()
    ([0, 1, 2], [0, 2, 5, 7])
    """
    return range(n) if n <= most else np.arange(most) * n // most


def word_runs(numbers: Callable[[str], int | None]) -> Callable[[str], NDArray[Any]]:
    """Return what gives the numbers of the `character_grams` of a word, and remembers them."""

    def runs(word: str) -> NDArray[Any]:
        found = [number for number in map(numbers, grams_of(word)) if number is not None]
        return np.array(found, dtype=np.int32)

    remembered = lru_cache(maxsize=_CACHED_WORDS)(runs)
    return lambda word: remembered(word) if len(word) < _LONG else runs(word)


def runs_of_words(
    texts: Iterable[str], runs: Callable[[str], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the numbers of all `character_grams` of texts, and how many each text has."""
    found = [list(map(runs, standing_words(text))) for text in texts]
    sizes = np.array([sum(map(len, own)) for own in found], dtype=np.int64)
    return np.concatenate([np.zeros(0, np.int32), *chain.from_iterable(found)]), sizes


class _Numbers(dict[str, int]):
    """A number for each term, in the order in which they are met."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class TermCounts:
    """In how many texts each term is. Counts of parts merge to those of the whole, exactly.

    Parameters
    ----------
    analyzer : "word", "content" or "character"
        As of `TfidfEncoder`, which is made of it by `TfidfEncoder.of_counts`.

    Attributes
    ----------
    n_texts : int

    Examples
    --------
    >>> counts, others = TermCounts("content"), TermCounts("content")
    >>> counts.add(["a map", "a song"])
    >>> others.add(["maps of bars"])
    >>> counts.merge(others)
    >>> counts.n_texts, counts.in_texts("map")
    (3, 2)
    """

    def __init__(self, analyzer: Analyzer = "word") -> None:
        self.analyzer: Analyzer = analyzer
        self.n_texts = 0
        self._numbers = _Numbers()
        self._counts = self._room = np.zeros(0, dtype=np.int64)
        self._telling: set[int] = set()
        self._runs: Callable[[str], NDArray[Any]] | None = None

    def add(self, texts: Sequence[str], *, telling: bool = False) -> None:
        """Count more texts, whose terms are to be kept however rare they are if `telling`."""
        for block in blocks(texts):
            numbers = self._distinct(block)
            self._grow()
            np.add.at(self._counts, numbers, 1)
            if telling:
                self._telling.update(numbers.tolist())
        self.n_texts += len(texts)

    def merge(self, other: TermCounts) -> None:
        """Add the counts of other texts."""
        if other.analyzer != self.analyzer:
            raise ValueError(f"counts of {other.analyzer!r} terms, not of {self.analyzer!r} ones")
        theirs = np.fromiter(map(self._numbers.__getitem__, other._numbers), dtype=np.int64)
        self._grow()
        self._counts[theirs] += other._counts
        self._telling.update(theirs[list(other._telling)].tolist())
        self.n_texts += other.n_texts

    def in_texts(self, term: str) -> int:
        """Return in how many texts a term is."""
        number = self._numbers.get(term)
        return 0 if number is None else int(self._counts[number])

    def chosen(
        self, *, min_df: int, max_terms: int, telling_pairs: bool = True
    ) -> tuple[list[str], NDArray[Any], float]:
        """Return terms in alphabetical order, the idf of each, and that of a term of no text.

        Of telling texts rare pairs of words are kept, too, if `telling_pairs`. Of more than
        `max_terms` those are kept that `first_terms` says.
        """
        terms = list(self._numbers)

        is_kept = self._counts >= min_df
        telling = list(self._telling)
        if not telling_pairs:
            telling = [i for i in telling if not is_pair(terms[i], self.analyzer)]
        is_kept[telling] = True
        kept = np.array(sorted(np.flatnonzero(is_kept).tolist(), key=terms.__getitem__), dtype=int)
        names, counts = [terms[i] for i in kept], self._counts[kept]
        if len(names) > max_terms:
            first = first_terms(names, counts, max_terms, self.analyzer)
            names, counts = [names[i] for i in first], counts[first]
        idf = 1 + np.log((1 + self.n_texts) / (1 + counts))
        rare = 1 + math.log(1 + self.n_texts)
        return names, idf.astype(np.float32), rare

    def _distinct(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return the numbers of the terms of texts, each once a text."""
        number = self._numbers.__getitem__
        if self.analyzer == "character":
            if self._runs is None:
                self._runs = word_runs(number)
            found, sizes = runs_of_words(texts, self._runs)
            return counted_rows(found, sizes, len(self._numbers))[0]
        terms = map(ANALYZERS[self.analyzer], texts)
        return np.fromiter(
            chain.from_iterable(set(map(number, own)) for own in terms), dtype=np.int64
        )

    def _grow(self) -> None:
        """Make room for the terms that are new."""
        if len(self._numbers) > len(self._room):
            more = np.zeros(len(self._numbers), dtype=np.int64)  # twice what is needed
            self._room = np.concatenate([self._room, more])
        self._counts = self._room[: len(self._numbers)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_room": self._counts, "_runs": None}

    def __repr__(self) -> str:
        return f"TermCounts({len(self._numbers)} terms of {self.n_texts} texts)"
