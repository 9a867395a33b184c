"""Requests and specifications as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text import TfidfEncoder
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
    """

    texts: list[str]
    word: sparse.csr_array
    character: sparse.csr_array
    day: NDArray[Any]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: NDArray[Any]) -> EncodedRequests:
        """Return some of the requests."""
        names = [field.name for field in fields(self) if field.name != "texts"]
        taken = {name: getattr(self, name)[rows] for name in names}
        return EncodedRequests([self.texts[i] for i in rows], **taken)


@dataclass(frozen=True, eq=False)
class Encoders(Part):
    """The word and the character encoder, and the latent semantic space of the words.

    The columns of `projection` are right singular vectors of all texts (Deerwester et al., 1990).
    """

    word: TfidfEncoder
    character: TfidfEncoder
    projection: Annotated[NDArray[Any], "words", "components"]

    @classmethod
    def fit(
        cls,
        requests: Sequence[str],
        specifications: Sequence[str],
        *,
        n_components: int,
        random_state: int,
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
        )
        rank = min(n_components, min(encoded.word.shape) - 1)
        if rank < 1:
            none = np.zeros((encoded.word.shape[1], 0), dtype=np.float32)
            return cls(word, character, none), encoded
        _, _, right = randomized_svd(encoded.word, rank, n_iter=2, random_state=random_state)
        projection = np.ascontiguousarray(right.T.astype(np.float32))
        return cls(word, character, projection), encoded

    def encode(self, texts: Sequence[str], days: NDArray[Any] | None = None) -> EncodedRequests:
        """Encode requests, whose days may be known, or specifications."""
        if days is None:
            days = np.full(len(texts), UNKNOWN)
        return EncodedRequests(
            list(texts),
            self.word.transform(texts),
            self.character.transform(texts),
            days.astype(np.float32),
        )
