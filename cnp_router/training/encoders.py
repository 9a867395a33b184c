"""Requests and specifications as vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.pool import ALONE, Pool, spans
from cnp_router.text import (
    Boilerplate,
    GrowingRows,
    TermCounts,
    TfidfEncoder,
    blocks,
    content_words,
    evenly,
    mask_links,
    rows_between,
)
from cnp_router.text.kernels import dense_times, first_columns
from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.parts import Part

__all__ = [
    "MAX_SAMPLED",
    "MAX_SAMPLED_SPECIFICATIONS",
    "UNKNOWN",
    "EncodedRequests",
    "Encoders",
    "as_learned",
    "encode_chunk",
]

# Of more requests and specifications than this, some tell the terms and what they weigh.
MAX_SAMPLED, MAX_SAMPLED_SPECIFICATIONS = 50_000, 100_000

# Among fewer texts, a pair of words that only one specification has tells it from the others.
FEW_TEXTS = 5_000
FEW_REQUESTS = 250
# Of a piece of work; and how many pieces there are for each worker, at least.
_MOST_TEXTS, _MOST_CHARACTERS, _PIECES = 10_000, 4_000_000, 2
UNKNOWN = 0.0  # in the place of a day


@dataclass(frozen=True, eq=False)
class EncodedRequests:
    """What is known of some requests: one entry, or one row, a request in every field.

    Attributes
    ----------
    texts : list of str
    word : csr_array of shape (n_requests, n_word_terms)
    character : csr_array of shape (n_requests, n_character_terms)
    day : ndarray of shape (n_requests,), float32
        When each is asked, as the proleptic ordinal of the date; `UNKNOWN` where nobody knows.
    dense : ndarray of shape (n_requests, n_dimensions), float32
        Vectors of the user's encoder, of length 1 or 0; without one, of no dimension.
    """

    texts: list[str]
    word: sparse.csr_array
    character: sparse.csr_array
    day: NDArray[Any]
    dense: NDArray[Any]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: NDArray[Any]) -> EncodedRequests:
        """Return some of the requests; most of them together share the memory of all."""
        names = [each.name for each in fields(self) if each.name != "texts"]
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and np.all(np.diff(rows) == 1):
            start, stop = int(rows[0]), int(rows[-1]) + 1
            taken = {name: _between(getattr(self, name), start, stop) for name in names}
            return EncodedRequests(self.texts[start:stop], **taken)
        taken = {name: getattr(self, name)[rows] for name in names}
        return EncodedRequests([self.texts[i] for i in rows], **taken)

    @classmethod
    def concatenated(cls, parts: Iterable[EncodedRequests]) -> EncodedRequests:
        """Return the requests of some parts, of which there is one at least, as if encoded in one.

        What yields the parts may forget each when it yields the next.
        """
        texts: list[str] = []
        matrices: dict[str, GrowingRows] = {}
        arrays: dict[str, list[NDArray[Any]]] = {"day": [], "dense": []}
        for part in parts:
            texts += part.texts
            for name in ("word", "character"):
                own = getattr(part, name)
                rows = matrices.setdefault(name, GrowingRows(own.shape[1]))
                rows.add(own.data, own.indices, np.diff(own.indptr))
            for name, found in arrays.items():
                found.append(getattr(part, name))
        made = {name: rows.matrix() for name, rows in matrices.items()}
        return cls(texts, **made, **{name: np.concatenate(own) for name, own in arrays.items()})


@dataclass(frozen=True, eq=False)
class Encoders(Part):
    """The word and the character encoder, the latent semantic space of the words, and the user's.

    The columns of `projection` are right singular vectors of all texts (Deerwester et al., 1990).
    They are of the first `n_projected` words: those that came later are no part of the space.
    Requests are read without the `boilerplate`, past ones without links (`as_learned`).
    """

    word: TfidfEncoder
    character: TfidfEncoder
    projection: Annotated[NDArray[Any], "projected words", "components"]
    n_projected: int
    dense: DenseEncoder | None = None
    boilerplate: Boilerplate = field(default_factory=Boilerplate)

    def know(self, request: str) -> bool:
        """Return whether any word is known, if it has one, or a dense encoder reads it."""
        if self.dense is not None:
            return True
        said = list(content_words(request))
        return not said or any(self.word.idf(word) is not None for word in said)

    def read(self, request: str) -> bool:
        """Return whether anything that a request says is known."""
        return any(content_words(request)) and self.know(request)

    @classmethod
    def fit(
        cls,
        requests: Sequence[str],
        specifications: Sequence[str],
        *,
        n_components: int,
        random_state: int,
        dense: DenseEncoder | None = None,
        pool: Pool = ALONE,
    ) -> tuple[Encoders, EncodedRequests]:
        """Learn from requests and specifications, and return them encoded, in this order.

        No label is looked at. Of many, those learn that stand `evenly` among them.
        """
        texts = [*requests, *specifications]
        sampled = [requests[i] for i in evenly(len(requests), MAX_SAMPLED)]
        described = evenly(len(specifications), MAX_SAMPLED_SPECIFICATIONS)
        encoders, words, characters = cls._learned(
            sampled,
            [specifications[i] for i in described],
            n_components,
            random_state,
            dense,
            pool,
        )
        if words.shape[0] < len(texts):
            return encoders, encoders.encoded_by(pool, texts)
        days = np.full(len(texts), UNKNOWN, dtype=np.float32)
        found = _below(characters)
        return encoders, EncodedRequests(texts, words, found, days, _vectors(dense, texts))

    @classmethod
    def _learned(
        cls,
        requests: Sequence[str],
        specifications: Sequence[str],
        n_components: int,
        random_state: int,
        dense: DenseEncoder | None,
        pool: Pool,
    ) -> tuple[Encoders, sparse.csr_array, Iterator[sparse.csr_array]]:
        """Learn from all of some texts; return the words of each, and yield the characters."""
        from sklearn.utils.extmath import randomized_svd

        texts = [*requests, *specifications]
        # A rare word of a request is of no use to others, and new requests have unknown ones, too.
        # One of a specification tells it from the others, however often others are said.
        n_telling, telling_pairs = len(specifications), len(texts) < FEW_TEXTS
        if len(requests) <= FEW_REQUESTS:  # but it is what a repeat of the request is known by
            n_telling, telling_pairs = len(texts), True
        if not pool.is_remote:
            pool = ALONE
        words, characters = _counted(texts, len(texts) - n_telling, pool)
        word = TfidfEncoder.of_counts(words, min_df=2, telling_pairs=telling_pairs)
        character = TfidfEncoder.of_counts(characters, min_df=3, max_terms=50_000)
        chunks = _chunks(texts, pool)
        rows = pool.each(_rows_of, chunks, pool.share(word))
        # Who has others to do it, lets them while the words are looked at here.
        characters_of = pool.each(_rows_of, chunks, pool.share(character))
        encoded = _below(rows)
        rank = min(n_components, min(encoded.shape) - 1)
        if rank < 1:
            none = np.zeros((encoded.shape[1], 0), dtype=np.float32)
            return cls(word, character, none, len(none), dense), encoded, characters_of
        _, _, right = randomized_svd(encoded, rank, n_iter=2, random_state=random_state)
        projection = np.ascontiguousarray(right.T.astype(np.float32))
        return cls(word, character, projection, len(projection), dense), encoded, characters_of

    def grown(self, texts: Sequence[str]) -> Encoders:
        """Return encoders that know the terms of new specifications that `fit` would keep."""
        word = self.word.grown(texts, pairs=self.n_fitted < FEW_TEXTS)
        character = self.character.grown(texts)
        return replace(self, word=word, character=character)

    def observed(self, texts: Sequence[str]) -> Encoders:
        """Return encoders that also know the words of new requests, as long as texts are few.

        Pairs of words and runs of characters stay as they are.
        """
        some = texts[: max(FEW_TEXTS - self.word.n_texts, 0)]
        return replace(self, word=self.word.observed(some)) if some else self

    @property
    def n_fitted(self) -> int:
        """How many texts they were fitted on."""
        return self.character.n_texts  # those of words count what was observed, too

    def latent(self, words: sparse.csr_array) -> NDArray[Any]:
        """Return where texts are in the latent space: of shape (n_texts, n_components)."""
        return dense_times(first_columns(words, self.n_projected), self.projection)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where an array is not as it was annotated."""
        super().check(sizes)
        if self.n_projected > sizes["words"]:
            raise ValueError(f"{self.n_projected} words of {sizes['words']} are projected")

    def widening(self, now: Encoders) -> dict[str, sparse.csr_array]:
        """Return what `Part.moved` needs to make arrays as wide as those of grown encoders."""
        both = ("words", self.word, now.word), ("characters", self.character, now.character)
        return {
            name: sparse.csr_array(sparse.eye_array(len(a.terms_), len(b.terms_), dtype=np.float32))
            for name, a, b in both
            if a is not b
        }

    def encode(self, texts: Sequence[str], days: NDArray[Any] | None = None) -> EncodedRequests:
        """Encode requests, whose days may be known, or specifications."""
        if days is None:
            days = np.full(len(texts), UNKNOWN)
        word, character = encode_chunk(self, texts)
        vectors = _vectors(self.dense, texts)
        return EncodedRequests(list(texts), word, character, days.astype(np.float32), vectors)

    def reworded(self, requests: EncodedRequests) -> EncodedRequests:
        """Return requests that were encoded before these knew their words."""
        return replace(requests, word=self.word.transform(requests.texts))

    def encoded_by(self, pool: Pool, texts: Sequence[str]) -> EncodedRequests:
        """Return what `encode` returns, by others where there are some."""
        if not pool.is_remote:
            return self.encode(texts)
        chunks = _chunks(texts, pool)
        pairs = pool.each(encode_chunk, chunks, pool.share(self.for_chunks))
        none = np.zeros((0, 0), dtype=np.float32)
        parts = (
            EncodedRequests(chunk, *pair, np.full(len(chunk), UNKNOWN, dtype=np.float32), none)
            for chunk, pair in zip(chunks, pairs, strict=True)
        )
        return replace(EncodedRequests.concatenated(parts), dense=_vectors(self.dense, texts))

    @property
    def for_chunks(self) -> Encoders:
        """What `encode_chunk` needs of them: less to send to another process."""
        return replace(self, projection=self.projection[:, :0].copy(), dense=None)


def as_learned(requests: Iterable[str], boilerplate: Boilerplate) -> list[str]:
    """Return what is read of past requests: neither boilerplate nor where links lead to."""
    return [mask_links(boilerplate.without(request)) for request in requests]


def encode_chunk(
    encoders: Encoders, texts: Sequence[str]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return the words and the characters of texts as `EncodedRequests` has them."""
    if len(texts) == 1:
        return encoders.word.transform(texts), encoders.character.transform(texts)
    word, character = encoders.word.new_rows(), encoders.character.new_rows()
    for block in blocks(texts):
        encoders.word.add_rows(word, block)
        encoders.character.add_rows(character, block)
    return word.matrix(), character.matrix()


def _chunks(texts: Sequence[str], pool: Pool) -> list[list[str]]:
    """Return texts in pieces that the workers of a pool share evenly: alone, in one."""
    if not pool.is_remote:
        return [list(texts)]
    cuts = spans(len(texts), _most_of(texts), _PIECES * pool.n_workers)
    return [list(texts[start:stop]) for start, stop in cuts]


def _most_of(texts: Sequence[str]) -> int:
    """Return how many texts may be sent together: their bytes count, too."""
    some = [texts[i] for i in evenly(len(texts), 1_000)]
    mean = sum(map(len, some)) / max(len(some), 1)
    return max(min(_MOST_TEXTS, int(_MOST_CHARACTERS / max(mean, 1))), 1)


def _counted(texts: Sequence[str], n_others: int, pool: Pool) -> tuple[TermCounts, TermCounts]:
    """Count the words and the characters of texts, of which those behind the others are telling."""
    words, characters = TermCounts("word"), TermCounts("character")
    # Counts are long: the fewer there are to merge, the better.
    most, pieces = (_most_of(texts), pool.n_workers) if pool.is_remote else (len(texts), 1)
    cuts = spans(n_others, most, pieces)
    cuts += [(i + n_others, j + n_others) for i, j in spans(len(texts) - n_others, most, pieces)]
    chunks = [(texts[i:j], i >= n_others) for i, j in cuts]
    for own in pool.each(_counts_of, chunks):
        if not words.n_texts:
            words, characters = own
            continue
        words.merge(own[0])
        characters.merge(own[1])
    return words, characters


def _counts_of(_: Any, chunk: tuple[Sequence[str], bool]) -> tuple[TermCounts, TermCounts]:
    words, characters = TermCounts("word"), TermCounts("character")
    texts, telling = chunk
    for block in blocks(texts):
        words.add(block, telling=telling)
        characters.add(block, telling=telling)
    return words, characters


def _rows_of(encoder: TfidfEncoder, texts: Sequence[str]) -> sparse.csr_array:
    rows = encoder.new_rows()
    for block in blocks(texts):
        encoder.add_rows(rows, block, in_order=True)
    return rows.matrix()


def _below(parts: Iterable[sparse.csr_array]) -> sparse.csr_array:
    """Return matrices, of which there is one at least, one below the other."""
    whole = None
    for part in parts:
        rows = GrowingRows(part.shape[1]) if whole is None else whole
        rows.add(part.data, part.indices, np.diff(part.indptr))
        whole = rows
    assert whole is not None
    return whole.matrix()


def _between(rows: Any, start: int, stop: int) -> Any:
    return rows_between(rows, start, stop) if sparse.issparse(rows) else rows[start:stop]


def _vectors(dense: DenseEncoder | None, texts: Sequence[str]) -> NDArray[Any]:
    return np.zeros((len(texts), 0), dtype=np.float32) if dense is None else dense.encode(texts)
