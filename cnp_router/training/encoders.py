"""Requests and specifications as vectors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Api
from cnp_router.text import TfidfEncoder

__all__ = ["EncodedRequests", "Encoders", "Memo", "specification_text"]

T = TypeVar("T")


def specification_text(api: Api) -> str:
    """Return the text that stands for an API: its name, description and categories.

    Examples
    --------
    >>> specification_text(Api("w", "getWeather", "Forecasts.", ("Weather",)))
    'getWeather . Forecasts. . Weather'
    """
    return f"{api.name} . {api.description} . {' , '.join(api.categories)}"


@dataclass(frozen=True, eq=False)
class EncodedRequests:
    """What is known of some requests: one entry, or one row, a request in every field.

    Attributes
    ----------
    texts : list of str
    word : csr_array of shape (n_requests, n_word_terms)
    character : csr_array of shape (n_requests, n_character_terms)
    """

    texts: list[str]
    word: sparse.csr_array
    character: sparse.csr_array

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: NDArray[Any]) -> EncodedRequests:
        """Return some of the requests."""
        values = (getattr(self, field.name) for field in fields(self))
        return EncodedRequests(
            *([v[i] for i in rows] if isinstance(v, list) else v[rows] for v in values)
        )


class Encoders:
    """The word and the character encoder, and the latent semantic space of the words.

    Attributes
    ----------
    word, character : TfidfEncoder
    projection : ndarray of shape (n_word_terms, n_components), float32
        Right singular vectors of all texts (Deerwester et al., 1990).
    """

    def __init__(
        self, word: TfidfEncoder, character: TfidfEncoder, projection: NDArray[Any]
    ) -> None:
        self.word = word
        self.character = character
        self.projection = projection

    @classmethod
    def fit(
        cls, texts: Sequence[str], *, n_components: int, random_state: int
    ) -> tuple[Encoders, EncodedRequests]:
        """Learn from requests and specifications together: no label is looked at.

        Returns
        -------
        encoders : Encoders
        encoded : EncodedRequests
            The same texts, encoded.
        """
        from sklearn.utils.extmath import randomized_svd

        word = TfidfEncoder("word", min_df=2)
        character = TfidfEncoder("character", min_df=3, max_terms=50_000)
        encoded = EncodedRequests(
            list(texts), word.fit_transform(texts), character.fit_transform(texts)
        )
        rank = min(n_components, min(encoded.word.shape) - 1)
        if rank < 1:
            none = np.zeros((encoded.word.shape[1], 0), dtype=np.float32)
            return cls(word, character, none), encoded
        _, _, right = randomized_svd(encoded.word, rank, n_iter=2, random_state=random_state)
        projection = np.ascontiguousarray(right.T.astype(np.float32))
        return cls(word, character, projection), encoded

    def encode(self, texts: Sequence[str]) -> EncodedRequests:
        """Encode requests or specifications."""
        return EncodedRequests(
            list(texts), self.word.transform(texts), self.character.transform(texts)
        )

    def state(self) -> dict[str, Any]:
        """Return the encoders as plain data."""
        return {
            "word": self.word.state(),
            "character": self.character.state(),
            "projection": self.projection,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Encoders:
        """Rebuild the encoders."""
        return cls(
            TfidfEncoder.from_state("word", state["word"]),
            TfidfEncoder.from_state("character", state["character"]),
            state["projection"],
        )


class Memo:
    """What is computed once, by whoever asks first."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned when it was first called for `key`."""
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])
