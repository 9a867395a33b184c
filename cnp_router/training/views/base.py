"""What a view is: one side from which a request is looked at, and what it says of each API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.history import History
from cnp_router.routing import Reason
from cnp_router.text import dense_product
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.parts import GIVEN, Memo, Part
from cnp_router.training.prior import Belief

__all__ = [
    "Batch",
    "Behind",
    "Candidates",
    "Column",
    "Dense",
    "Evidence",
    "Products",
    "Sparse",
    "View",
]

Products = dict[str, dict[str, sparse.csr_array]]


@dataclass(frozen=True)
class Candidates:
    """The APIs that some view puts among its best, for one request; their positions ascend.

    `features` is of shape (n_candidates, n_features), float32. By the text they are
    `Views.feature_names`: for each score its value, the logarithm of one plus its
    rank, and its ratio to the best; then what the views say besides. `likeness` are
    the columns of scores that tell how well each fits. `n_naming`, of shape (n_apis,), says how
    many scores put each API of the catalog among their next best.
    """

    positions: NDArray[Any]
    features: NDArray[Any]
    likeness: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    n_naming: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


@dataclass(frozen=True)
class Behind:
    """The APIs behind the candidates of a past request, in groups.

    The first row of `missed` says of each API that the request used, and that was no candidate,
    how many scores put it among their next best, the second how many mashups used it. `groups` are
    of the same form; each stands for `sizes` APIs.
    """

    missed: NDArray[Any]
    groups: NDArray[Any]
    sizes: NDArray[Any]


class FusedProduct:
    """One product for all matrices that the same vectors are multiplied by: each has its price."""

    def __init__(self, parts: Mapping[str, sparse.csr_array]) -> None:
        ends = np.cumsum([0, *(part.shape[1] for part in parts.values())]).tolist()
        self._columns = {name: slice(*ends[i : i + 2]) for i, name in enumerate(parts)}
        self._matrix = sparse.csr_array(sparse.hstack(list(parts.values()), "csr"))

    def of(self, vectors: sparse.csr_array) -> dict[str, NDArray[Any]]:
        """Return the product with each part, of shape (n_requests, n_columns), float32."""
        product = dense_product(vectors, self._matrix)
        return {name: product[:, columns] for name, columns in self._columns.items()}


class Batch(Memo):
    """Requests that are looked at together: what several views need of them is computed once."""

    def __init__(
        self,
        requests: EncodedRequests,
        fused: Mapping[str, FusedProduct],
        absent: Sequence[NDArray[Any]] = (),
    ) -> None:
        self.requests = requests
        # APIs that each request is looked at without, as if the catalog had never had them.
        self.absent = absent
        self._products = {
            name: part
            for encoder, product in fused.items()
            for name, part in product.of(getattr(requests, encoder)).items()
        }

    def __len__(self) -> int:
        return len(self.requests)

    def product(self, name: str) -> NDArray[Any]:
        """Return the product with a matrix that some view names in `View.products`."""
        return self._products[name]


@dataclass(frozen=True)
class Evidence:
    """What the reasons for one request are made of: known APIs and probable categories, too."""

    batch: Batch
    history: History
    known: tuple[int, ...]
    categories: dict[str, float]


class Dense:
    """Scores of every API: ndarray of shape (n_requests, n_apis)."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values

    def best(self, row: int, sizes: Sequence[int]) -> list[NDArray[np.intp]]:
        """Return the highest positive ones for one request, of equal ones the first.

        So many as each of `sizes` says, which descend.
        """
        values = self.values[row]
        found: list[NDArray[np.intp]] = []
        for k in sizes:
            if not found and k < len(values):  # nothing else looks at all
                floor = max(np.partition(values, -k)[-k], np.finfo(values.dtype).tiny)
                positions = np.flatnonzero(values >= floor)
            elif not found:
                positions = np.flatnonzero(values > 0)
            else:
                positions = found[-1]
            found.append(_best(positions, values, k))
        return found

    def at(self, row: int, positions: NDArray[np.intp]) -> NDArray[Any]:
        """Return the scores of some APIs for one request."""
        return np.asarray(self.values[row, positions])

    def without(self, absent: Sequence[NDArray[Any]]) -> Dense:
        """Return the scores without some APIs of each request."""
        values = self.values.copy()
        for row, positions in zip(values, absent, strict=True):
            row[positions] = 0
        return Dense(values)

    def highest(self) -> NDArray[Any]:
        """Return the best score of each request, at least 0."""
        return np.asarray(self.values.max(axis=1, initial=0))

    def total(self) -> NDArray[Any]:
        """Return the sum of the positive scores of each request."""
        return np.asarray(np.maximum(self.values, 0).sum(axis=1))


class Sparse:
    """Scores of the few APIs that there is anything to say of: ascending positions, and values.

    One such pair a request; the values are positive.
    """

    def __init__(self, rows: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
        self.rows = rows

    def best(self, row: int, sizes: Sequence[int]) -> list[NDArray[np.intp]]:
        """Return the highest for one request, of equal ones the first: so many of each size."""
        positions, values = self.rows[row]
        if len(values) > sizes[-1]:
            positions = positions[np.argsort(-values, kind="stable")]
        return [positions[:k] for k in sizes]

    def at(self, row: int, positions: NDArray[np.intp]) -> NDArray[Any]:
        """Return the scores of some APIs for one request."""
        own, values = self.rows[row]
        found = np.zeros(len(positions), dtype=np.float32)
        if len(own):
            place = np.minimum(np.searchsorted(own, positions), len(own) - 1)
            there = own[place] == positions
            found[there] = values[place[there]]
        return found

    def without(self, absent: Sequence[NDArray[Any]]) -> Sparse:
        """Return the scores without some APIs of each request."""
        kept = [~np.isin(own, out) for (own, _), out in zip(self.rows, absent, strict=True)]
        return Sparse([(p[k], v[k]) for (p, v), k in zip(self.rows, kept, strict=True)])

    def highest(self) -> NDArray[Any]:
        """Return the best score of each request, at least 0."""
        return np.array([values.max(initial=0) for _, values in self.rows], dtype=np.float32)

    def total(self) -> NDArray[Any]:
        """Return the sum of the scores of each request."""
        return np.array([values.sum() for _, values in self.rows], dtype=np.float32)


Column = Dense | Sparse


def _best(positions: NDArray[np.intp], scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the `k` of some positions whose scores are highest; of equal ones the first."""
    if len(positions) <= k:
        return positions
    values = scores[positions]
    # Values are partitioned, not indices: several times faster where many are equal.
    floor = np.partition(values, -k)[-k]
    kept = positions[values >= floor]
    if len(kept) > k:
        tied = np.flatnonzero(scores[kept] == floor)
        kept = np.delete(kept, tied[k - len(kept) :])
    return np.asarray(kept)


@dataclass(frozen=True, eq=False)
class View(Part, ABC):
    """One side from which requests are looked at, fitted on a corpus.

    A subclass is a frozen dataclass; each field but `corpus` is an `array` that it learned, which
    is saved, loaded and checked by what is declared there. It is registered in
    `cnp_router.training.views.together`.
    """

    name: ClassVar[str]
    # Names of what `features` and `request_features` return.
    scores: ClassVar[tuple[str, ...]]
    extras: ClassVar[tuple[str, ...]] = ()
    context: ClassVar[tuple[str, ...]] = ()
    # Of features that the bundled prior, which is fitted without an encoder, does not know.
    beliefs: ClassVar[Mapping[str, Belief]] = {}
    # Whose reason tells most, comes first: the lowest.
    telling: ClassVar[int] = 9
    # Whether its scores tell how well an API fits: what is popular fits nothing.
    tells_fit: ClassVar[bool] = True

    corpus: Annotated[Corpus, GIVEN]

    @classmethod
    def applies(cls, corpus: Corpus) -> bool:
        """Return whether it has anything to say of requests to such a corpus."""
        return True

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit on the past requests of a corpus, which are given encoded too."""
        return cls(corpus)

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view of the same past requests and another catalog.

        Arrays whose shapes name APIs, labels, words or characters are put where those are now;
        what they say of those that had no place in them is 0, until a subclass fills it in.
        """
        by = {
            "apis": change.apis,
            "labels": change.labels(self.corpus.labels, corpus.labels),
            **self.corpus.encoders.widening(corpus.encoders),
        }
        return self.moved(by, corpus=corpus)

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view of a corpus with more past requests at its end, which are given too."""
        return replace(self, corpus=corpus)

    def products(self) -> Products:
        """Return the matrices that requests are multiplied by: by encoder, then by a unique name.

        A view finds the products in the batch.
        """
        return {}

    def forget(self, batch: Batch, row: int, absent: NDArray[Any]) -> None:
        """Take from its products, in place, what it knows for a request of APIs that are absent.

        Its columns need no care: those are without them anyway.
        """

    @abstractmethod
    def columns(self, batch: Batch) -> tuple[Column, ...]:
        """Return a column for each name in `scores`."""

    def scored(self, batch: Batch) -> dict[str, Column]:
        """Return the columns by name, computed once a batch; what is absent scores nothing."""

        def present() -> dict[str, Column]:
            columns: Sequence[Column] = self.columns(batch)
            if batch.absent:
                columns = [column.without(batch.absent) for column in columns]
            return dict(zip(self.scores, columns, strict=True))

        columns: dict[str, Column] = batch.once(self, present)
        return columns

    def candidates(
        self, batch: Batch, row: int, sizes: Sequence[int]
    ) -> list[list[NDArray[np.intp]]]:
        """Return for one request, by score, the best APIs: so many as each of `sizes` says."""
        return [column.best(row, sizes) for column in self.scored(batch).values()]

    def features(self, batch: Batch, candidates: Sequence[NDArray[np.intp]]) -> list[NDArray[Any]]:
        """Return what it says of some candidates of each request.

        Arrays of shape (n_scores + n_extras, n_candidates); a view with extras fills them in.
        """
        columns = self.scored(batch).values()
        n_features = len(self.scores) + len(self.extras)
        found = []
        for row, positions in enumerate(candidates):
            own = np.empty((n_features, len(positions)), dtype=np.float32)
            for place, column in enumerate(columns):
                own[place] = column.at(row, positions)
            found.append(own)
        return found

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return what it says of each request as a whole, of shape (n_requests, n_context)."""
        return np.zeros((len(batch), 0), dtype=np.float32)

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return why some APIs are worth asking, where it has a reason."""
        return {}
