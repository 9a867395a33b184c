"""What the views are fitted on: the catalog and the history, as sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History
from cnp_router.training.encoders import EncodedRequests, Encoders, Memo, specification_text

__all__ = ["Corpus", "Specifications", "category_membership", "check_array", "usage_matrix"]


class Specifications(Memo):
    """What the catalog alone says of each API.

    Attributes
    ----------
    catalog : Catalog
    encoders : Encoders
    word_columns : csr_array of shape (n_word_terms, n_apis)
    character_columns : csr_array of shape (n_character_terms, n_apis)
    latent : ndarray of shape (n_apis, n_components), float32, rows of length 1 or 0
    """

    def __init__(
        self,
        catalog: Catalog,
        encoders: Encoders,
        *,
        word_columns: sparse.csr_array,
        character_columns: sparse.csr_array,
        latent: NDArray[Any],
    ) -> None:
        super().__init__()
        self.catalog = catalog
        self.encoders = encoders
        self.word_columns = word_columns
        self.character_columns = character_columns
        self.latent = latent

    @classmethod
    def build(
        cls, catalog: Catalog, encoders: Encoders, encoded: EncodedRequests | None = None
    ) -> Specifications:
        """Make those of a catalog, whose specifications may be encoded already."""
        if encoded is None:
            encoded = encoders.encode([specification_text(api) for api in catalog])
        latent = encoded.word @ encoders.projection
        lengths = np.linalg.norm(latent, axis=1, keepdims=True)
        return cls(
            catalog,
            encoders,
            word_columns=sparse.csr_array(encoded.word.T),
            character_columns=sparse.csr_array(encoded.character.T),
            latent=np.asarray(latent / np.maximum(lengths, 1e-9), dtype=np.float32),
        )

    def extended(self, catalog: Catalog, apis: Sequence[Api]) -> Specifications:
        """Return those of `catalog`, which is this one's with `apis` at its end."""
        new = Specifications.build(Catalog(apis), self.encoders)
        return Specifications(
            catalog,
            self.encoders,
            word_columns=beside(self.word_columns, new.word_columns),
            character_columns=beside(self.character_columns, new.character_columns),
            latent=np.vstack([self.latent, new.latent]),
        )

    def state(self) -> dict[str, Any]:
        """Return all but the catalog and the encoders as plain data."""
        return {
            "word_columns": self.word_columns,
            "character_columns": self.character_columns,
            "latent": self.latent,
        }


@dataclass(frozen=True, eq=False)
class Corpus:
    """Catalog and history together.

    Attributes
    ----------
    specifications : Specifications
    usage : csr_array of shape (n_mashups, n_apis), of ones
        Which API each past request used. A hidden API has an empty column.
    membership : csr_array of shape (n_apis, n_categories), of ones
    history_words : csr_array of shape (n_word_terms, n_mashups)
    history_characters : csr_array of shape (n_character_terms, n_mashups)
        The past requests.
    """

    specifications: Specifications
    usage: sparse.csr_array
    membership: sparse.csr_array
    history_words: sparse.csr_array
    history_characters: sparse.csr_array

    @classmethod
    def of(
        cls,
        specifications: Specifications,
        requests: EncodedRequests,
        usage: sparse.csr_array,
        membership: sparse.csr_array,
    ) -> Corpus:
        """Return the corpus of some past requests."""
        return cls(
            specifications,
            usage,
            membership,
            sparse.csr_array(requests.word.T),
            sparse.csr_array(requests.character.T),
        )

    @cached_property
    def counts(self) -> NDArray[Any]:
        """Mashups that used each API: ndarray of shape (n_apis,), float32."""
        return np.bincount(self.usage.indices, minlength=self.n_apis).astype(np.float32)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The APIs with history: ndarray of shape (n_labels,), ascending."""
        return np.flatnonzero(self.counts)

    @cached_property
    def mean_membership(self) -> sparse.csr_array:
        """`membership` with rows that sum to 1 or 0."""
        sizes = np.asarray(self.membership.sum(axis=1)).ravel()
        scale = sparse.diags_array((1 / np.maximum(sizes, 1)).astype(np.float32))
        return sparse.csr_array(scale @ self.membership)

    @property
    def n_apis(self) -> int:
        """Number of APIs."""
        return int(self.usage.shape[1])

    def called_for(self, usage: sparse.csr_array) -> sparse.csr_array:
        """Return the categories of what was used.

        Returns
        -------
        csr_array of shape (n_mashups, n_categories), of ones
        """
        categories = sparse.csr_array(usage @ self.membership)
        categories.data = np.ones_like(categories.data)
        return categories

    def extended(self, specifications: Specifications, membership: sparse.csr_array) -> Corpus:
        """Return the corpus of a catalog with more APIs at its end, all of them cold."""
        usage = widened(self.usage, self.usage.shape[0], len(specifications.catalog))
        return replace(self, specifications=specifications, usage=usage, membership=membership)

    def observed(self, requests: EncodedRequests, usage: sparse.csr_array) -> Corpus:
        """Return the corpus with more past requests at its end."""
        return replace(
            self,
            usage=sparse.csr_array(sparse.vstack([self.usage, usage], "csr")),
            history_words=beside(self.history_words, requests.word.T),
            history_characters=beside(self.history_characters, requests.character.T),
        )

    def state(self) -> dict[str, Any]:
        """Return all but the specifications as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "specifications"}

    def check(self, *, n_mashups: int) -> None:
        """Raise ValueError where the arrays do not fit the catalog, the encoders or each other."""
        index = self.specifications
        n_words = len(index.encoders.word.terms_)
        n_characters = len(index.encoders.character.terms_)
        n_apis, n_components = len(index.catalog), index.encoders.projection.shape[-1]
        check_array("projection", index.encoders.projection, [n_words, n_components])
        check_array("latent", index.latent, [n_apis, n_components])
        check_array("word_columns", index.word_columns, (n_words, n_apis))
        check_array("character_columns", index.character_columns, (n_characters, n_apis))
        check_array("history_words", self.history_words, (n_words, n_mashups))
        check_array("history_characters", self.history_characters, (n_characters, n_mashups))
        check_array("usage", self.usage, (n_mashups, n_apis), ones=True)
        check_array("membership", self.membership, (n_apis, self.membership.shape[-1]), ones=True)


def beside(matrix: sparse.csr_array, more: sparse.sparray) -> sparse.csr_array:
    """Return two matrices side by side."""
    return sparse.csr_array(sparse.hstack([matrix, more], "csr"))


def widened(matrix: sparse.sparray, rows: int, columns: int) -> sparse.csr_array:
    """Return the matrix with empty rows and columns at its end."""
    wider = sparse.csr_array(matrix, copy=True)
    wider.resize((rows, columns))
    return wider


def check_array(
    name: str, values: Any, shape: tuple[int, ...] | list[int], *, ones: bool = False
) -> None:
    """Raise ValueError unless the values have a shape: a tuple if sparse, a list if not."""
    kind = sparse.sparray if isinstance(shape, tuple) else np.ndarray
    if not isinstance(values, kind) or list(values.shape) != list(shape):
        raise ValueError(f"{name} is {np.shape(values) or type(values)}, not {shape}")
    if ones and np.any(values.data != 1):
        raise ValueError(f"{name} holds other numbers than 1")


def usage_matrix(catalog: Catalog, history: History) -> sparse.csr_array:
    """Return which API each mashup used.

    Returns
    -------
    csr_array of shape (n_mashups, n_apis), of ones

    Raises
    ------
    UnknownApiError
        If a mashup names an API that the catalog does not have.
    """
    return matrix_of_ones(
        [[catalog.position(api) for api in m.apis] for m in history], len(catalog)
    )


def category_membership(catalog: Catalog, classes: Sequence[str]) -> sparse.csr_array:
    """Return which API is filed under which category.

    Returns
    -------
    csr_array of shape (n_apis, n_classes), of ones
    """
    column = {name: i for i, name in enumerate(classes)}
    return matrix_of_ones(
        [[column[c] for c in api.categories if c in column] for api in catalog], len(column)
    )


def matrix_of_ones(rows: Sequence[Sequence[int]], width: int) -> sparse.csr_array:
    """Return a csr_array of shape (n_rows, width) with a 1 in the given columns of each row."""
    columns = [sorted(set(row)) for row in rows]
    pointers = np.cumsum([0, *map(len, columns)]).astype(np.int32)
    indices = np.array([i for row in columns for i in row], dtype=np.int32)
    return sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices, pointers), shape=(len(rows), width)
    )
