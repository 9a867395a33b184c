"""Requests and specifications as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text import TfidfEncoder, content_words
from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.parts import Part

__all__ = ["UNKNOWN", "EncodedRequests", "Encoders"]


# Among fewer texts, a term that only one specification has is what tells it from the others.
FEW_TEXTS = 5_000
FEW_REQUESTS = 250
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
        """Return some of the requests."""
        names = [field.name for field in fields(self) if field.name != "texts"]
        taken = {name: getattr(self, name)[rows] for name in names}
        return EncodedRequests([self.texts[i] for i in rows], **taken)


@dataclass(frozen=True, eq=False)
class Encoders(Part):
    """The word and the character encoder, the latent semantic space of the words, and the user's.

    The columns of `projection` are right singular vectors of all texts (Deerwester et al., 1990).
    """

    word: TfidfEncoder
    character: TfidfEncoder
    projection: Annotated[NDArray[Any], "words", "components"]
    dense: DenseEncoder | None = None

    def know(self, request: str) -> bool:
        """Return whether any word is known, if it has one, or a dense encoder reads it."""
        said = set(content_words(request))
        known = any(self.word.idf(word) is not None for word in said)
        return known or not said or self.dense is not None

    @classmethod
    def fit(
        cls,
        requests: Sequence[str],
        specifications: Sequence[str],
        *,
        n_components: int,
        random_state: int,
        dense: DenseEncoder | None = None,
    ) -> tuple[Encoders, EncodedRequests]:
        """Learn from requests and specifications, and return them encoded, in this order.

        No label is looked at.
        """
        from sklearn.utils.extmath import randomized_svd

        texts = [*requests, *specifications]
        # A rare word of a request is of no use to others, and new requests have unknown ones, too.
        n_telling = len(specifications) if len(texts) < FEW_TEXTS else 0
        if len(requests) <= FEW_REQUESTS:  # but it is what a repeat of the request is known by
            n_telling = len(texts)
        word = TfidfEncoder("word", min_df=2)
        character = TfidfEncoder("character", min_df=3, max_terms=50_000)
        encoded = EncodedRequests(
            texts,
            word.fit_transform(texts, n_telling=n_telling),
            character.fit_transform(texts, n_telling=n_telling),
            np.full(len(texts), UNKNOWN, dtype=np.float32),
            _vectors(dense, texts),
        )
        rank = min(n_components, min(encoded.word.shape) - 1)
        if rank < 1:
            none = np.zeros((encoded.word.shape[1], 0), dtype=np.float32)
            return cls(word, character, none, dense), encoded
        _, _, right = randomized_svd(encoded.word, rank, n_iter=2, random_state=random_state)
        projection = np.ascontiguousarray(right.T.astype(np.float32))
        return cls(word, character, projection, dense), encoded

    def grown(self, texts: Sequence[str]) -> Encoders:
        """Return encoders that know the terms of new specifications, where `fit` keeps them all.

        Of the latent space they are no part.
        """
        if self.word.n_texts >= FEW_TEXTS:
            return self
        word, character = self.word.grown(texts), self.character.grown(texts)
        projection = np.zeros((len(word.terms_), self.projection.shape[1]), dtype=np.float32)
        projection[: len(self.projection)] = self.projection
        return replace(self, word=word, character=character, projection=projection)

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
        return EncodedRequests(
            list(texts),
            self.word.transform(texts),
            self.character.transform(texts),
            days.astype(np.float32),
            _vectors(self.dense, texts),
        )


def _vectors(dense: DenseEncoder | None, texts: Sequence[str]) -> NDArray[Any]:
    return np.zeros((len(texts), 0), dtype=np.float32) if dense is None else dense.encode(texts)
