"""The names of a catalog, to be found in texts: whole ones by hashes, parts by their words."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text import (
    STOP_WORDS,
    TfidfEncoder,
    pieces,
    singular,
    split_identifier,
    words,
)
from cnp_router.text.entries import entries
from cnp_router.text.remembered import Remembered
from cnp_router.training.corpus import Specifications, matrix_of_ones
from cnp_router.training.keyed import distinct, summed
from cnp_router.training.parts import Part
from cnp_router.training.postings import EXACT, MOST, champions
from cnp_router.training.views.columns import Pairs, Sparse

__all__ = ["NameIndex"]

# The longest phrase of a request that is compared with whole names, in pieces: characters in
# scripts that write no spaces, words in others.
_MOST_PIECES = 60
_BEGIN = 4  # characters by which it is given up where no name begins so
_NOTHING = frozenset({-1})
_CARET = crc32(b"^")  # in no name
_MOST_LENGTH = 255  # characters of a name: as many, or more
_PLACES = 16  # in the filter, for each name: so many phrases of a text need no hash


@dataclass(frozen=True, eq=False)
class NameIndex(Part):
    """Names and their words; `weight` is that of all telling words of an API's name.

    `telling` says how much each of `words` tells, `by_word` which APIs have it in their name: of a
    large catalog, those of which it is most. `hashes` ascend, and are of the whole names of the
    APIs `named`; `filter` has a 0 where no name is, nor how one begins (Bloom, 1970), and elsewhere
    how many characters, 255 at most, the longest of those names has.
    """

    words: list[str]
    telling: NDArray[Any]
    by_word: sparse.csr_array
    weight: Annotated[NDArray[Any], "apis"]
    hashes: NDArray[Any]
    named: NDArray[Any]
    filter: NDArray[Any]

    @classmethod
    def of(cls, specifications: Specifications) -> Self:
        """Look at the names of a catalog."""
        names = _Names.of(api.name for api in specifications.catalog)
        none = np.zeros(0, dtype=np.float32)
        blank = cls(
            words=[],
            telling=none,
            by_word=sparse.csr_array((0, 0), dtype=np.float32),
            weight=none,
            hashes=np.zeros(0, dtype=np.uint64),
            named=np.zeros(0, dtype=np.int32),
            filter=np.zeros(_size_of_filter(len(names.whole)), dtype=np.uint8),
        )
        return blank._with(names, specifications.encoders.word)

    def grown(self, specifications: Specifications) -> Self:
        """Return the index of a catalog with more APIs at its end.

        As if made of all, but that what the known words tell stays as it is. Where the filter would
        be too small, all names are looked at.
        """
        if len(self.weight) == len(specifications.catalog):
            return self
        names = _Names.of(api.name for api in specifications.catalog[len(self.weight) :])
        if _size_of_filter(len(self.named) + len(names.whole)) != len(self.filter):
            return self.of(specifications)
        return self._with(names, specifications.encoders.word)

    def _with(self, names: _Names, encoder: TfidfEncoder) -> Self:
        """Return the index with more names behind those that are there."""
        n_before, n_new = len(self.weight), len(names.told)
        n_apis = n_before + n_new
        frequency = Counter(word for name in names.told for word in name)
        # A word that many names share says less, and so does one that is common in requests.
        rare = float(encoder.idf_.max(initial=1.0))
        telling = {
            word: min(
                rare if (idf := encoder.idf(word)) is None else idf,
                1 + np.log((1 + n_apis) / (1 + count)),
            )
            for word, count in sorted(frequency.items())
            if word not in self._column
        }
        words = [*self.words, *telling]
        column = {word: i for i, word in enumerate(words)}
        rows = [[column[word] for word in name] for name in names.told]
        by_api = matrix_of_ones(rows, len(words))
        values = np.concatenate([self.telling, np.array(list(telling.values()), dtype=np.float32)])
        weight = np.bincount(
            np.repeat(np.arange(n_new), np.diff(by_api.indptr)), values[by_api.indices], n_new
        ).astype(np.float32)
        share = sparse.diags_array(1 / np.maximum(weight, np.float32(1e-9)))
        more = sparse.csr_array((share @ by_api).T).astype(np.float32)
        wider = sparse.csr_array((len(telling), n_before), dtype=np.float32)
        by_word = sparse.csr_array(
            sparse.hstack([sparse.vstack([self.by_word, wider], "csr"), more], "csr")
        )
        if n_apis > EXACT:
            by_word = champions(by_word, MOST)
        hashes = np.concatenate([self.hashes, names.hashes])
        named = np.concatenate([self.named, names.named + np.int32(n_before)])
        order = np.argsort(hashes, kind="stable")
        longest = self.filter.copy()
        names.add_to(longest)
        return type(self)(
            words,
            values,
            by_word,
            np.concatenate([self.weight, weight]),
            hashes[order],
            named[order],
            longest,
        )

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where the parts do not fit each other."""
        super().check(sizes)
        n_words, n_named, n_places = len(self.words), len(self.named), len(self.filter)
        shapes = [self.telling.shape, self.by_word.shape, self.hashes.shape, self.filter.shape]
        if shapes != [(n_words,), (n_words, sizes["apis"]), (n_named,), (n_places,)]:
            raise ValueError(f"names whose parts have the shapes {shapes}")
        if n_places & (n_places - 1) or not n_places or self.named.ndim != 1:
            raise ValueError(f"names with a filter of {n_places} places")
        if self.filter.dtype != np.uint8:
            raise ValueError(f"names with a filter of {self.filter.dtype}")
        if self.hashes.dtype != np.uint64 or self.named.dtype.kind != "i":
            raise ValueError(f"names with hashes of {self.hashes.dtype}")
        steps = self.hashes[1:] - self.hashes[:-1]
        n_different = int(np.count_nonzero(steps)) + bool(n_named)
        # A place in the filter is that of a name or of its beginning; many have the same.
        ascend = bool((self.hashes[1:] >= self.hashes[:-1]).all())
        if not ascend or 2 * n_different < int(np.count_nonzero(self.filter)):
            raise ValueError("names whose hashes do not ascend, or are not theirs")
        if n_named and not 0 <= int(self.named.min()) <= int(self.named.max()) < sizes["apis"]:
            raise ValueError("names of APIs that are not in the catalog")

    def partly(self, texts: Sequence[str]) -> Sparse:
        """Return the APIs with a word of their name in each text, and the weight of these words."""
        asked = [set(map(self._column_said.__getitem__, words(text))) - _NOTHING for text in texts]
        columns = np.array([each for own in asked for each in sorted(own)], dtype=np.intp)
        own = entries(self.by_word, columns)
        rows = np.arange(len(texts)).repeat([len(own) for own in asked])
        keys = (rows * len(self.weight)).repeat(own.sizes) + own.index
        weights = self.telling[columns].repeat(own.sizes)
        keys, weight = summed(keys, weights, len(texts) * len(self.weight))
        pairs = Pairs.of(keys, len(self.weight), len(texts))
        return Sparse(pairs.starts, pairs.positions, weight.astype(np.float32))

    def wholly(self, texts: Sequence[str]) -> Sparse:
        """Return the APIs whose whole name is in each text, however spaced, and its weight."""
        found = [self._names_in(pieces(text)) for text in texts]
        asked = np.array([_hash(name) for own in found for name in own], dtype=np.uint64)
        first = self.hashes.searchsorted(asked)
        sizes = self.hashes.searchsorted(asked, side="right") - first
        where = np.arange(sizes.sum()) + (first - sizes.cumsum() + sizes).repeat(sizes)
        n_apis = len(self.weight)
        rows = np.arange(len(texts)).repeat([len(own) for own in found]).repeat(sizes)
        pairs = Pairs.of(distinct(rows * n_apis + self.named[where]), n_apis, len(texts))
        return Sparse(pairs.starts, pairs.positions, self.weight[pairs.positions])

    def _names_in(self, tokens: Sequence[str]) -> set[str]:
        """Return what may be the whole name of an API, made of some pieces one after another."""
        whole = "".join(tokens)
        longest, longest_from, mask = self._longest, self._longest_from, len(self.filter) - 1
        found: set[str] = set()
        begins = list(accumulate(map(len, tokens), initial=0))
        lengths = [longest_from[whole[begin : begin + _BEGIN]] for begin in begins]
        for start in filter(lengths.__getitem__, range(len(tokens))):  # most begin as no name does
            begin, most = begins[start], lengths[start]
            latest = begin + most if most != _MOST_LENGTH else len(whole)
            checksum = 0
            for i in range(start, min(start + _MOST_PIECES, len(tokens))):
                end = begins[i + 1]
                if end > latest:
                    break
                checksum = crc32(tokens[i].encode(), checksum)
                if longest[checksum & mask]:
                    found.add(whole[begin:end])
        return found

    @cached_property
    def _column(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def _column_said(self) -> Mapping[str, int]:
        return Remembered(self._column_of)

    def _column_of(self, said: str) -> int:
        """Return the column of a word as texts say it, -1 where no name has it."""
        return self._column.get(singular(said), -1)

    @cached_property
    def _longest_from(self) -> Mapping[str, int]:
        return Remembered(self._longest_of)

    def _longest_of(self, beginning: str) -> int:
        """Return how many characters the longest name has that begins so, or is that short."""
        longest, mask = self._longest, len(self.filter) - 1
        short = (crc32(beginning[:n].encode()) for n in range(2, _BEGIN))
        return max(longest[own & mask] for own in (_beginning(beginning), *short))

    @cached_property
    def _longest(self) -> bytes:
        return self.filter.tobytes()


@dataclass(frozen=True)
class _Names:
    """The telling words of some names, and all of those `named`, which are not too short."""

    told: list[list[str]]
    whole: list[str]
    named: NDArray[np.int32]

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        told, whole, named = [], [], []
        for place, name in enumerate(names):
            told.append(_telling_words(name))
            joined = "".join(pieces(name))
            if len(joined) > 1:
                whole.append(joined)
                named.append(place)
        return cls(told, whole, np.array(named, dtype=np.int32))

    @property
    def hashes(self) -> NDArray[np.uint64]:
        return np.array([_hash(name) for name in self.whole], dtype=np.uint64)

    def add_to(self, longest: NDArray[np.uint8]) -> None:
        """Put into a filter how long they are."""
        lengths = np.minimum([len(name) for name in self.whole], _MOST_LENGTH).astype(np.uint8)
        for hashed in (lambda name: crc32(name.encode()), _beginning):
            places = np.array([hashed(name) for name in self.whole], dtype=np.int64) % len(longest)
            np.maximum.at(longest, places, lengths)


def _size_of_filter(n_names: int) -> int:
    return 1 << max(10, (_PLACES * n_names).bit_length())


def _beginning(name: str) -> int:
    """Return the checksum of how a name begins, other than that of a name that is as short."""
    return crc32(name[:_BEGIN].encode(), _CARET)


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _telling_words(name: str) -> list[str]:
    """Return the distinct words of a name; stop words only where there are no others."""
    said = words(split_identifier(name))
    telling = [word for word in said if word not in STOP_WORDS] or said
    return list(dict.fromkeys(map(singular, telling)))
