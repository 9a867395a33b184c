"""What the catalog alone says of each API: its specification as vectors, its name as a pattern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Api, Catalog
from cnp_router.training.text import TfidfEncoder, split_compound, words

__all__ = ["EncodedRequests", "Encoders", "SpecificationIndex", "specification_text"]

# The longest phrase of a request, in words, that is compared with whole names.
MAX_NAME_WORDS = 6


def specification_text(api: Api) -> str:
    """Return the text that stands for an API: its name, also split, description and categories.

    Examples
    --------
    >>> specification_text(Api("w", "getWeather", "Forecasts.", ("Weather",)))
    'getWeather get Weather . Forecasts. . Weather'
    """
    parts = dict.fromkeys((api.name, split_compound(api.name)))
    return f"{' '.join(parts)} . {api.description} . {' , '.join(api.categories)}"


class EncodedRequests:
    """Request texts with their vectors.

    Attributes
    ----------
    texts : list of str
    word : csr_array of shape (n_requests, n_word_terms)
    character : csr_array of shape (n_requests, n_character_terms)
    """

    def __init__(
        self, texts: Sequence[str], word: sparse.csr_array, character: sparse.csr_array
    ) -> None:
        self.texts = list(texts)
        self.word = word
        self.character = character

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: NDArray[Any]) -> EncodedRequests:
        """Return some of the requests."""
        return EncodedRequests([self.texts[i] for i in rows], self.word[rows], self.character[rows])


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
        encoded = EncodedRequests(texts, word.fit_transform(texts), character.fit_transform(texts))
        rank = min(n_components, min(encoded.word.shape) - 1)
        if rank < 1:
            none = np.zeros((encoded.word.shape[1], 0), dtype=np.float32)
            return cls(word, character, none), encoded
        _, _, right = randomized_svd(encoded.word, rank, n_iter=2, random_state=random_state)
        projection = np.ascontiguousarray(right.T.astype(np.float32))
        return cls(word, character, projection), encoded

    def encode(self, texts: Sequence[str]) -> EncodedRequests:
        """Encode requests or specifications."""
        return EncodedRequests(texts, self.word.transform(texts), self.character.transform(texts))

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


class SpecificationIndex:
    """Every API's specification, ready to be compared with requests.

    Parameters
    ----------
    catalog : Catalog
    encoders : Encoders

    Attributes
    ----------
    word_columns : csr_array of shape (n_word_terms, n_apis)
    character_columns : csr_array of shape (n_character_terms, n_apis)
    latent : ndarray of shape (n_apis, n_components), float32, rows of length 1 or 0
    """

    def __init__(
        self,
        catalog: Catalog,
        encoders: Encoders,
        word_columns: sparse.csr_array,
        character_columns: sparse.csr_array,
        latent: NDArray[Any],
    ) -> None:
        self.encoders = encoders
        self.word_columns = word_columns
        self.character_columns = character_columns
        self.latent = latent
        self._index_names(catalog)

    @classmethod
    def build(
        cls, catalog: Catalog, encoders: Encoders, encoded: EncodedRequests | None = None
    ) -> SpecificationIndex:
        """Make the index of a catalog, whose specifications may be encoded already."""
        if encoded is None:
            encoded = encoders.encode([specification_text(api) for api in catalog])
        return cls(
            catalog,
            encoders,
            sparse.csr_array(encoded.word.T),
            sparse.csr_array(encoded.character.T),
            unit_dense(encoded.word @ encoders.projection),
        )

    def extended(self, catalog: Catalog, apis: Sequence[Api]) -> SpecificationIndex:
        """Return the index of `catalog`, which is this one's with `apis` at its end."""
        new = SpecificationIndex.build(Catalog(apis), self.encoders)
        return SpecificationIndex(
            catalog,
            self.encoders,
            sparse.csr_array(sparse.hstack([self.word_columns, new.word_columns], "csr")),
            sparse.csr_array(sparse.hstack([self.character_columns, new.character_columns], "csr")),
            np.vstack([self.latent, new.latent]),
        )

    @property
    def n_apis(self) -> int:
        """Number of APIs."""
        return int(self.word_columns.shape[1])

    def _index_names(self, catalog: Catalog) -> None:
        names = [list(dict.fromkeys(words(split_compound(api.name)))) for api in catalog]
        frequency: dict[str, int] = {}
        for name in names:
            for word in name:
                frequency[word] = frequency.get(word, 0) + 1
        column = {word: i for i, word in enumerate(frequency)}
        # A word that many names share says less, and so does one that is common in requests.
        known = dict(zip(self.encoders.word.terms_, self.encoders.word.idf_, strict=True))
        rare = float(self.encoders.word.idf_.max(initial=1.0))
        weight = np.array(
            [
                min(known.get(word, rare), 1 + np.log((1 + len(names)) / (1 + count)))
                for word, count in frequency.items()
            ],
            dtype=np.float32,
        )
        rows = np.repeat(np.arange(len(names)), [len(name) for name in names])
        columns = np.array([column[word] for name in names for word in name], dtype=np.int64)
        matrix = sparse.csr_array(
            (weight[columns] if len(columns) else np.zeros(0, np.float32), (rows, columns)),
            shape=(len(names), len(column)),
            dtype=np.float32,
        )
        self._name_column = column
        self._name_weight = np.asarray(matrix.sum(axis=1)).ravel()
        self._name_words = sparse.csr_array(matrix.T)
        self._whole: dict[str, list[int]] = {}
        for position, api in enumerate(catalog):
            joined = "".join(words(api.name))
            if len(joined) > 1:
                self._whole.setdefault(joined, []).append(position)

    def name_weight(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the weight of the words of each API's name that are in each text.

        Returns
        -------
        csr_array of shape (n_texts, n_apis), at least 0
        """
        pointers: list[int] = [0]
        columns: list[int] = []
        for text in texts:
            found = {*words(text), *words(split_compound(text))}
            columns.extend(sorted(self._name_column[w] for w in found if w in self._name_column))
            pointers.append(len(columns))
        present = sparse.csr_array(
            (np.ones(len(columns), dtype=np.float32), columns, pointers),
            shape=(len(pointers) - 1, len(self._name_column)),
        )
        return sparse.csr_array(present @ self._name_words)

    def name_shares(self, weight: sparse.csr_array) -> NDArray[Any]:
        """Return each entry of `name_weight` as a share of the whole name's weight.

        Returns
        -------
        ndarray of shape (n_entries,), in [0, 1]
        """
        return np.asarray(weight.data / np.maximum(self._name_weight[weight.indices], 1e-6))

    def name_mention(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the weight of each API's whole name where a text says it, however it is spaced.

        Returns
        -------
        csr_array of shape (n_texts, n_apis), at least 0
        """
        pointers: list[int] = [0]
        columns: list[int] = []
        for text in texts:
            tokens = words(text)
            found: set[int] = set()
            for start in range(len(tokens)):
                joined = ""
                for token in tokens[start : start + MAX_NAME_WORDS]:
                    joined += token
                    found.update(self._whole.get(joined, ()))
            columns.extend(sorted(found))
            pointers.append(len(columns))
        indices = np.array(columns, dtype=np.int32)
        return sparse.csr_array(
            (self._name_weight[indices], indices, np.array(pointers, dtype=np.int32)),
            shape=(len(pointers) - 1, self.n_apis),
        )

    def state(self) -> dict[str, Any]:
        """Return the index as plain data; names are read from the catalog again."""
        return {
            "word_columns": self.word_columns,
            "character_columns": self.character_columns,
            "latent": self.latent,
        }

    @classmethod
    def from_state(
        cls, catalog: Catalog, encoders: Encoders, state: dict[str, Any]
    ) -> SpecificationIndex:
        """Rebuild the index."""
        return cls(
            catalog,
            encoders,
            state["word_columns"],
            state["character_columns"],
            state["latent"],
        )


def unit_dense(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return a dense matrix with rows scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.maximum(lengths, 1e-9), dtype=np.float32)
