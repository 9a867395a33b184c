"""Vectors of texts, by which context is compared: sparse ones, or those of an encoder."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from cnp_router import telemetry
from cnp_router.context.context_entry import Vector
from cnp_router.exceptions import ChatAnswerError, CnpRouterError, InputError
from cnp_router.llm.cache import CacheStats
from cnp_router.records import check_number
from cnp_router.text import TfidfEncoder

__all__ = ["ContextVectors", "DenseVectors", "SparseVectors", "cosine"]

_MOST_TEXTS = 2_000  # that term frequencies are learned from
_MOST_PAIRS = 5_000
_SAME = 0.7


class ContextVectors(ABC):
    """Texts to vectors, each text once: they are cached by text, the oldest go first.

    Parameters
    ----------
    size : int >= 1, default=10,000
        Texts that are cached.

    Attributes
    ----------
    is_dense : bool
        Whether a cosine is high for what is alike, as with sentence embeddings. That of sparse
        vectors is low even then.
    stats : CacheStats
        How many texts were found in the cache, and how many were encoded.
    """

    is_dense: ClassVar[bool]

    def __init__(self, *, size: int = 10_000) -> None:
        self.size = check_number("size", size, 1, whole=True)
        self.stats = CacheStats()
        self._cache: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    async def of(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vector of each text.

        Raises
        ------
        LanguageModelError
            If an encoder raises an error, or gives something else than finite vectors, one a text.
        """
        found: dict[str, Vector] = {}
        with self._lock:
            for text in texts:
                if text in self._cache:
                    self._cache.move_to_end(text)
                    found[text] = self._cache[text]
            self.stats.hits += len(texts)
        wanted = [text for text in dict.fromkeys(texts) if text not in found]
        if wanted:
            found.update(zip(wanted, await self.encode(wanted), strict=True))
        with self._lock:
            missed = sum(text in wanted for text in texts)
            self.stats.hits -= missed
            self.stats.misses += missed
            self._cache.update((text, found[text]) for text in wanted)
            while len(self._cache) > self.size:
                self._cache.popitem(last=False)
        return [found[text] for text in texts]

    @abstractmethod
    async def encode(self, texts: Sequence[str]) -> list[Vector]:
        """Return vectors of length 1, or of no terms, of texts that are not cached."""

    def learn(self, texts: Collection[str]) -> list[float]:
        """Learn from texts about different things, and return cosines of pairs of them.

        Such pairs are the background, from which what is alike stands out. Dense vectors have
        nothing to learn, and give none.
        """
        return []

    def clear(self) -> None:
        """Forget all cached vectors, with their texts."""
        with self._lock:
            self._cache.clear()


class SparseVectors(ContextVectors):
    """TF-IDF of words, with what is known of their frequency; unknown words count as rare.

    Examples
    --------
    >>> vectors = SparseVectors()
    >>> _ = vectors.learn(["Weather forecast of a city", "Sends a text message", "Shows a map"])
    >>> rain, city = asyncio.run(vectors.of(["rain in a city", "a city"]))
    >>> round(cosine(rain, city), 2)
    0.58
    """

    is_dense = False

    def __init__(self, *, size: int = 10_000) -> None:
        super().__init__(size=size)
        self._encoder = TfidfEncoder("content", min_df=1).fit([])

    async def encode(self, texts: Sequence[str]) -> list[Vector]:
        """Return weights by term."""
        return [self._weights(text) for text in texts]

    def learn(self, texts: Collection[str]) -> list[float]:
        """Learn how rare words are; returned are cosines of at most 5,000 pairs of the texts.

        Pairs that say nearly the same, with a cosine of 0.7 or more, are no background.
        """
        chance = random.Random(0)
        some = sorted(set(texts))
        some = chance.sample(some, _MOST_TEXTS) if len(some) > _MOST_TEXTS else some
        self._encoder = TfidfEncoder("content", min_df=1).fit(some)
        self.clear()  # as terms count otherwise now
        vectors = [self._weights(text) for text in some]
        n_pairs = len(some) * (len(some) - 1) // 2
        if n_pairs <= _MOST_PAIRS:
            pairs: Iterable[tuple[Vector, Vector]] = itertools.combinations(vectors, 2)
        else:
            drawn = (chance.sample(vectors, 2) for _ in range(_MOST_PAIRS))
            pairs = ((one, other) for one, other in drawn)
        cosines = (cosine(one, other) for one, other in pairs)
        return [each for each in cosines if each < _SAME]

    def _weights(self, text: str) -> dict[str, float]:
        return self._encoder.weights(text)


class DenseVectors(ContextVectors):
    """Vectors of a user's encoder, such as `OpenAIEncoder`.

    Parameters
    ----------
    encoder : callable
        From a list of texts to an array of shape (n_texts, n_dimensions), as for `fit_router`. It
        is called in a thread of its own, once at a time.
    size : int >= 1, default=10,000

    Examples
    --------
    >>> vectors = DenseVectors(lambda texts: [[3.0, 4.0] for _ in texts])
    >>> asyncio.run(vectors.of(["rain", "rain"])), vectors.stats.misses
    ([(0.6, 0.8), (0.6, 0.8)], 2)
    """

    is_dense = True

    def __init__(self, encoder: Callable[[list[str]], Any], *, size: int = 10_000) -> None:
        super().__init__(size=size)
        if not callable(encoder):
            raise InputError(f"an encoder is a callable of texts, got {encoder!r:.60}")
        self.encoder = encoder
        self._one = threading.Lock()

    async def encode(self, texts: Sequence[str]) -> list[Vector]:
        """Return dense vectors."""
        return await asyncio.to_thread(self._encoded, list(texts))

    def _encoded(self, texts: list[str]) -> list[Vector]:
        import numpy as np

        try:
            purpose = {"purpose": "context"}
            with self._one, telemetry.timed("cnp_router.embedding.duration", purpose):
                given = self.encoder(texts)
        except CnpRouterError:
            raise
        except Exception as exc:  # of somebody else's function
            raise ChatAnswerError(f"the encoder raised {type(exc).__name__}: {exc}") from exc
        cure = "it must give one vector of finite numbers a text"
        try:
            array = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            raise ChatAnswerError(
                "the encoder gave something else than numbers", cure=cure
            ) from None
        if array.ndim != 2 or len(array) != len(texts) or not np.isfinite(array).all():
            said = f"the encoder gave an array of shape {array.shape} for {len(texts)} texts"
            raise ChatAnswerError(said, cure=cure)
        lengths = np.linalg.norm(array, axis=1, keepdims=True)
        return [tuple(row) for row in (array / np.where(lengths > 0, lengths, 1)).tolist()]


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of length 1; 0 for vectors of different kinds.

    Examples
    --------
    >>> cosine({"rain": 0.6, "city": 0.8}, {"city": 1.0}), cosine((1.0, 0.0), (0.6, 0.8))
    (0.8, 0.6)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if len(other) < len(one):
            one, other = other, one
        return math.fsum(weight * other.get(term, 0.0) for term, weight in one.items())
    if isinstance(one, Mapping) or isinstance(other, Mapping) or len(one) != len(other):
        return 0.0
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
