"""What the views are fitted on: the catalog and the history, as sparse matrices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.text import longer, replaced_rows, rows_below, specification_text
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.encoders import UNKNOWN, EncodedRequests, Encoders
from cnp_router.training.parts import GIVEN, ONES, Memo, Part
from cnp_router.training.postings import EXACT, postings, with_items
from cnp_router.training.vector_index import VectorIndex

__all__ = [
    "MANY",
    "MONTH",
    "TWINS",
    "Corpus",
    "Specifications",
    "category_membership",
    "check_known",
    "filled",
    "has_dates",
    "history_days",
    "matrix_of_ones",
    "synced_membership",
    "usage_matrix",
]

LITTLE, MANY = 30, 500  # mashups
EXACT_PAST = 1_024  # past requests: a new one is compared with all of so many
MOST_SPELT = 128  # specifications a run of characters: a request has many runs
MONTH = 30.0  # days
TWINS = 0.35  # specifications more alike than this can stand in for each other


@dataclass(frozen=True, eq=False)
class Specifications(Part, Memo):
    """What the catalog alone says of each API; rows of `latent` have the length 1 or 0.

    `word_columns` and `character_columns` are indexes of the rows (`postings`), `vector_index` is
    one of the vectors.
    """

    catalog: Annotated[Catalog, GIVEN]
    encoders: Annotated[Encoders, GIVEN]
    word_rows: Annotated[sparse.csr_array, "apis", "words"]
    character_rows: Annotated[sparse.csr_array, "apis", "characters"]
    word_columns: Annotated[sparse.csr_array, "words", "apis"]
    character_columns: Annotated[sparse.csr_array, "characters", "apis"]
    latent: Annotated[NDArray[Any], "apis", "components"]
    vectors: Annotated[NDArray[Any], "apis", "dimensions"]
    vector_index: VectorIndex

    @classmethod
    def build(
        cls, catalog: Catalog, encoders: Encoders, encoded: EncodedRequests | None = None
    ) -> Specifications:
        """Make those of a catalog, whose specifications may be encoded already."""
        if encoded is None:
            encoded = encoders.encode([specification_text(api) for api in catalog])
        exact = len(catalog) <= EXACT
        return cls(
            catalog,
            encoders,
            encoded.word,
            encoded.character,
            *_indexes(encoded.word, encoded.character, exact=exact),
            _latent(encoders, encoded.word),
            encoded.dense,
            VectorIndex.of(encoded.dense),
        )

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where an array is not as it was annotated."""
        super().check(sizes)
        self.vector_index.check({**sizes, "vectors": sizes["apis"]})

    @property
    def is_exact(self) -> bool:
        """Whether the indexes hold all that the specifications say."""
        return len(self.catalog) <= EXACT

    def synced(self, catalog: Catalog, change: CatalogChange) -> Specifications:
        """Return those of another catalog; only what it says anew is encoded."""
        if catalog is self.catalog:
            return self
        new = np.flatnonzero(change.respecified)
        texts = [specification_text(catalog[int(i)]) for i in new]
        encoders = self.encoders.grown(texts)
        wider = self.encoders.widening(encoders)
        if change.only_grows and not self.is_exact:
            return self.knowing(encoders, wider)._grown(catalog, texts)
        kept = self.moved({"apis": change.apis, **wider}, catalog=catalog, encoders=encoders)
        if texts:  # a model that is loaded without its encoder can do without, too
            kept = kept._respecified(new, encoders.encode(texts), change)
        else:
            kept = replace(kept, vector_index=self.vector_index.moved({"vectors": change.apis}))
        if not texts and kept.is_exact == self.is_exact:
            return kept
        by_word, by_character = _indexes(kept.word_rows, kept.character_rows, exact=kept.is_exact)
        return replace(kept, word_columns=by_word, character_columns=by_character)

    def knowing(self, encoders: Encoders, wider: Mapping[str, sparse.csr_array]) -> Specifications:
        """Return them with encoders that know more terms; what is there is not encoded anew.

        `wider` is what `Encoders.widening` returned of these.
        """
        return self.moved(wider, catalog=self.catalog, encoders=encoders)

    def _respecified(
        self, new: NDArray[np.intp], encoded: EncodedRequests, change: CatalogChange
    ) -> Specifications:
        """Return them, with `new` ones in the place of what was there, but for the indexes."""
        same = sparse.diags_array((~change.respecified).astype(np.float32))
        index = self.vector_index.moved({"vectors": sparse.csr_array(change.apis @ same)})
        latent, vectors = self.latent.copy(), self.vectors.copy()
        latent[new] = _latent(self.encoders, encoded.word)
        vectors[new] = encoded.dense
        return replace(
            self,
            word_rows=replaced_rows(self.word_rows, new, encoded.word),
            character_rows=replaced_rows(self.character_rows, new, encoded.character),
            latent=latent,
            vectors=vectors,
            vector_index=index.updated(vectors, new),
        )

    def _grown(self, catalog: Catalog, texts: Sequence[str]) -> Specifications:
        """Return those of a large catalog with some more at its end, in time for these."""
        encoded = self.encoders.encode(texts)
        vectors = longer(self.vectors, encoded.dense)
        new = np.arange(len(self.catalog), len(catalog))
        return replace(
            self,
            catalog=catalog,
            word_rows=rows_below(self.word_rows, encoded.word),
            character_rows=rows_below(self.character_rows, encoded.character),
            word_columns=with_items(self.word_columns, encoded.word),
            character_columns=with_items(self.character_columns, encoded.character, MOST_SPELT),
            latent=longer(self.latent, _latent(self.encoders, encoded.word)),
            vectors=vectors,
            vector_index=self.vector_index.updated(vectors, new),
        )


@dataclass(frozen=True, eq=False)
class Corpus(Part):
    """Catalog and history together: which API each mashup used, what it asked for, and when.

    A hidden API has an empty column of `usage`; `days` are those of `EncodedRequests`. APIs that
    came after the fit are 0 in `fitted`, all others 1; past requests are 1 in `lost` where all that
    served them was removed since.
    `history_words` and `history_characters` are indexes of the rows (`postings`); of a long history
    there is none by characters. `vector_index` is one of `history_vectors`. Linear models of its
    words are `low_rank` where it is long and uses many APIs (`ridge_weights`).
    """

    specifications: Annotated[Specifications, GIVEN]
    usage: Annotated[sparse.csr_array, "mashups", "apis", ONES]
    membership: Annotated[sparse.csr_array, "apis", "categories", ONES]
    fitted: Annotated[NDArray[Any], "apis"]
    lost: Annotated[NDArray[Any], "mashups"]
    word_rows: Annotated[sparse.csr_array, "mashups", "words"]
    character_rows: Annotated[sparse.csr_array, "mashups", "characters"]
    history_words: Annotated[sparse.csr_array, "words", "mashups"]
    history_characters: Annotated[sparse.csr_array, "characters", "mashups"]
    days: Annotated[NDArray[Any], "mashups"]
    history_vectors: Annotated[NDArray[Any], "mashups", "dimensions"]
    vector_index: VectorIndex
    low_rank: bool = False

    @classmethod
    def of(
        cls,
        specifications: Specifications,
        requests: EncodedRequests,
        usage: sparse.csr_array,
        membership: sparse.csr_array,
        low_rank: bool = False,
        vector_index: VectorIndex | None = None,
    ) -> Corpus:
        """Return the corpus of some past requests, whose vectors may have an index already."""
        return cls(
            specifications,
            usage,
            membership,
            np.ones(usage.shape[1], dtype=np.float32),
            np.zeros(usage.shape[0], dtype=np.float32),
            requests.word,
            requests.character,
            *_history_index(requests.word, requests.character),
            requests.day,
            requests.dense,
            VectorIndex.of(requests.dense) if vector_index is None else vector_index,
            low_rank,
        )

    @property
    def encoders(self) -> Encoders:
        """The encoders of requests and specifications."""
        return self.specifications.encoders

    @cached_property
    def sizes(self) -> dict[str, int]:
        """What the names in the shapes of annotated arrays stand for."""
        index, encoders = self.specifications, self.specifications.encoders
        return {
            "apis": len(index.catalog),
            "categories": self.membership.shape[-1],
            "characters": len(encoders.character.terms_),
            "components": encoders.projection.shape[-1],
            "dimensions": 0 if encoders.dense is None else len(encoders.dense.probe),
            "labels": len(self.labels),
            "mashups": self.usage.shape[0],
            "projected words": encoders.n_projected,
            "words": len(encoders.word.terms_),
        }

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where an array is not as it was annotated."""
        super().check(sizes)
        self.vector_index.check({**sizes, "vectors": sizes["mashups"]})

    @cached_property
    def counts(self) -> NDArray[Any]:
        """Mashups that used each API: ndarray of shape (n_apis,), float32."""
        return np.bincount(self.usage.indices, minlength=self.n_apis).astype(np.float32)

    @cached_property
    def n_by_count(self) -> NDArray[np.intp]:
        """How many APIs were used by so many mashups, of shape (highest of `counts` + 1,)."""
        return np.bincount(self.counts.astype(np.intp))

    @cached_property
    def count_groups(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """By how many mashups any API was used, ascending, and by each how many APIs."""
        values = np.flatnonzero(self.n_by_count)
        return values, self.n_by_count[values]

    @cached_property
    def count_group(self) -> NDArray[np.intp]:
        """In which of `count_groups` each API is."""
        return self.count_groups[0].searchsorted(self.counts)

    @cached_property
    def filled_days(self) -> NDArray[Any]:
        """`days`, with the median of those that are known for the others."""
        return filled(self.days)

    @cached_property
    def newest(self) -> float:
        """The newest of the days; `UNKNOWN` where none is known."""
        return float(self.days.max(initial=UNKNOWN))

    def months_after(self, day: float) -> float:
        """Return how long after the newest past request a day is; 0 if either is unknown."""
        return 0.0 if UNKNOWN in (day, self.newest) else (day - self.newest) / MONTH

    @cached_property
    def serves(self) -> NDArray[np.bool_]:
        """Of which past requests something that they used is in the catalog."""
        return np.asarray(np.diff(self.usage.indptr) > 0)

    @cached_property
    def serves_all(self) -> bool:
        """Whether that is so of each."""
        return bool(self.serves.all())

    @cached_property
    def share_lost(self) -> float:
        """Share of the past requests that have lost all that served them."""
        return float(self.lost.mean()) if len(self.lost) else 0.0

    @cached_property
    def uses(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The mashups that used each of `labels`, one after the other, and where each begins."""
        return self.mashups.indices, self.mashups.indptr[self.labels]

    @cached_property
    def n_compound(self) -> int:
        """Mashups that used several APIs."""
        return int(np.count_nonzero(np.diff(self.usage.indptr) > 1))

    @property
    def summary(self) -> dict[str, Any]:
        """What of it stands in the summary of a model."""
        n_mashups, n_apis = self.usage.shape
        found = {"apis": n_apis, "apis_with_history": len(self.labels), "mashups": n_mashups}
        return {**found, "decides": self.decides}

    @property
    def decides(self) -> str:
        """In a line what the history is good for."""
        total = self.counts.sum()
        if not total:
            return "no history: specifications decide, as their worth was learned elsewhere"
        n_mashups = self.usage.shape[0]
        again = float(self.counts[self.counts > 1].sum() / total)
        start = f"{n_mashups:,} mashup{'s' * (n_mashups > 1)}: "
        if n_mashups < LITTLE or again < 1 / 3:
            return f"{start}specifications decide, history breaks ties"
        share = f"{again:.0%} of what they used was used more than once"
        if n_mashups < MANY or again < 2 / 3:
            return f"{start}specifications and history decide together; {share}"
        return f"{start}history decides, and specifications what is new; {share}"

    @property
    def is_exact(self) -> bool:
        """Whether requests are compared with all past ones."""
        return bool(self.usage.shape[0] <= EXACT_PAST)

    @property
    def few_labels(self) -> bool:
        """Whether so few APIs have history that requests are compared with all of these."""
        return len(self.labels) <= EXACT

    @cached_property
    def label_of(self) -> NDArray[np.intp]:
        """The place of each API in `labels`, -1 of those without history."""
        places = np.full(self.n_apis, -1, dtype=np.intp)
        places[self.labels] = np.arange(len(self.labels))
        return places

    @cached_property
    def energy(self) -> NDArray[np.float64]:
        """Sum of the squares of each word in the past requests, of shape (n_words,)."""
        return _energy(self.word_rows)

    @cached_property
    def mashups(self) -> sparse.csc_array:
        """`usage` by its columns: the mashups that used each API."""
        return sparse.csc_array(self.usage)

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
        """Return the categories of what was used: ones, of shape (n_mashups, n_categories)."""
        categories = sparse.csr_array(usage @ self.membership)
        categories.data = np.ones_like(categories.data)
        return categories

    def knowing(self, encoders: Encoders, wider: Mapping[str, sparse.csr_array]) -> Corpus:
        """Return it with encoders that know more terms, as `Specifications.knowing` does."""
        return self.moved(wider, specifications=self.specifications.knowing(encoders, wider))

    def observed(self, requests: EncodedRequests, usage: sparse.csr_array) -> Corpus:
        """Return the corpus with more past requests at its end."""
        words = rows_below(self.word_rows, requests.word)
        characters = rows_below(self.character_rows, requests.character)
        if self.is_exact:
            by_word, by_character = _history_index(words, characters)
        else:
            by_word = with_items(self.history_words, requests.word)
            by_character = sparse.csr_array(characters.shape[::-1], dtype=np.float32)
        vectors = longer(self.history_vectors, requests.dense)
        new = np.arange(len(self.history_vectors), len(vectors))
        observed = replace(
            self,
            usage=rows_below(self.usage, usage),
            lost=longer(self.lost, (np.diff(usage.indptr) == 0).astype(np.float32)),
            word_rows=words,
            character_rows=characters,
            history_words=by_word,
            history_characters=by_character,
            days=longer(self.days, requests.day),
            history_vectors=vectors,
            vector_index=self.vector_index.updated(vectors, new),
        )
        observed.__dict__["energy"] = self.energy + _energy(requests.word)
        return observed


def _indexes(
    words: sparse.csr_array, characters: sparse.csr_array, *, exact: bool
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return the indexes of specifications, by words and by characters."""
    by_character = postings(characters, exact=exact, most=MOST_SPELT)
    return postings(words, exact=exact), by_character


def _history_index(
    words: sparse.csr_array, characters: sparse.csr_array
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return the indexes of some past requests, by words and by characters."""
    exact = words.shape[0] <= EXACT_PAST
    if exact:
        return postings(words, exact=True), postings(characters, exact=True)
    none = sparse.csr_array(characters.shape[::-1], dtype=np.float32)
    return postings(words, exact=False), none


def _energy(rows: sparse.csr_array) -> NDArray[np.float64]:
    sums = np.bincount(rows.indices, np.square(rows.data), rows.shape[1])
    return np.asarray(sums, dtype=np.float64)


def _latent(encoders: Encoders, words: sparse.csr_array) -> NDArray[Any]:
    latent = encoders.latent(words)
    lengths = np.linalg.norm(latent, axis=1, keepdims=True)
    return np.asarray(latent / np.maximum(lengths, 1e-9), dtype=np.float32)


def usage_matrix(
    catalog: Catalog, history: History, removed: Collection[str] = ()
) -> sparse.csr_array:
    """Return which API each mashup used: ones, of shape (n_mashups, n_apis).

    Those that were `removed` from the catalog have no column.

    Raises
    ------
    UnknownApiError
        If a mashup names an API that the catalog never had.
    """
    gone = frozenset(removed)
    return matrix_of_ones(
        [[catalog.position(api) for api in m.apis if api not in gone] for m in history],
        len(catalog),
    )


def check_known(mashups: Iterable[Mashup], catalog: Catalog, removed: Collection[str]) -> None:
    """Raise UnknownApiError if one names an API that the catalog neither has nor had."""
    gone = frozenset(removed)
    for mashup in mashups:
        for api in mashup.apis:
            if api not in gone:
                catalog.position(api)


def history_days(history: History) -> NDArray[Any]:
    """Return the day of each mashup as in `EncodedRequests`: float32 of shape (n_mashups,)."""
    days = [UNKNOWN if m.date is None else m.date.toordinal() for m in history]
    return np.array(days, dtype=np.float32)


def has_dates(days: NDArray[Any]) -> bool:
    """Return whether enough past requests have a date to learn what it is worth."""
    return int(np.count_nonzero(days != UNKNOWN)) >= MANY


def filled(days: NDArray[Any]) -> NDArray[Any]:
    """Return some days with the median of those that are known for the others."""
    known = days[days != UNKNOWN]
    middle = np.median(known) if len(known) else UNKNOWN
    return np.where(days != UNKNOWN, days, np.float32(middle))


def category_membership(apis: Iterable[Api], classes: Sequence[str]) -> sparse.csr_array:
    """Return which API is filed under which category: ones, of shape (n_apis, n_classes)."""
    column = {name: i for i, name in enumerate(classes)}
    return matrix_of_ones(
        [[column[c] for c in api.categories if c in column] for api in apis], len(column)
    )


def synced_membership(
    before: sparse.csr_array, catalog: Catalog, classes: Sequence[str], change: CatalogChange
) -> sparse.csr_array:
    """Return the `category_membership` of a catalog, given that of the one before."""
    if not change.only_grows:
        return category_membership(catalog, classes)
    return rows_below(before, category_membership(catalog[before.shape[0] :], classes))


def matrix_of_ones(rows: Sequence[Sequence[int]], width: int) -> sparse.csr_array:
    """Return a csr_array of shape (n_rows, width) with a 1 in the given columns of each row."""
    columns = [sorted(set(row)) for row in rows]
    pointers = np.cumsum([0, *map(len, columns)]).astype(np.int32)
    indices = np.array([i for row in columns for i in row], dtype=np.int32)
    return sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices, pointers), shape=(len(rows), width)
    )
