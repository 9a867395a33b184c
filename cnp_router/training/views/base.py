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
from cnp_router.text.kernels import Rows
from cnp_router.text.sparse_rows import add_product
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus, Specifications
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.parts import GIVEN, Memo, Part
from cnp_router.training.prior import Belief
from cnp_router.training.views.columns import Column, Found, OfIndex, Pairs

__all__ = [
    "Batch",
    "Behind",
    "Candidates",
    "Evidence",
    "Indexes",
    "Products",
    "View",
]

Products = dict[str, dict[str, sparse.csr_array]]
Indexes = dict[str, tuple[str, sparse.csr_array]]


def _none() -> NDArray[np.intp]:
    return np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class Candidates:
    """The APIs that some view puts among its best, for one request; their positions ascend.

    `features` is of shape (n_candidates, n_features), float32. By the text they are
    `Views.feature_names`: for each score its value, the logarithm of one plus its
    rank, and its ratio to the best; then what the views say besides. `likeness` are
    the columns of scores that tell how well each fits. `next_best` are the positions, ascending,
    of APIs that are no candidates, and that some scores put among their next best: so many as
    `n_naming` says.
    """

    positions: NDArray[Any]
    features: NDArray[Any]
    likeness: NDArray[Any] = field(default_factory=_none)
    next_best: NDArray[Any] = field(default_factory=_none)
    n_naming: NDArray[Any] = field(default_factory=_none)


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
    """One product for all matrices that the same vectors are multiplied by: each has its price.

    The terms of the vectors may be said to be `in_order`: the products are the same, and faster.
    """

    def __init__(self, parts: Mapping[str, sparse.csr_array], *, in_order: bool = False) -> None:
        ends = np.cumsum([0, *(part.shape[1] for part in parts.values())]).tolist()
        self._columns = {name: slice(*ends[i : i + 2]) for i, name in enumerate(parts)}
        matrix = sparse.csr_array(sparse.hstack(list(parts.values()), "csr"))
        self._in_order = in_order
        # The last term first, so that what is in order descends.
        self._matrix = sparse.csr_array(matrix[::-1]) if in_order else matrix

    def of(self, vectors: sparse.csr_array) -> dict[str, NDArray[Any]]:
        """Return the product with each part, of shape (n_requests, n_columns), float32."""
        product = self._product(vectors)
        return {name: product[:, columns] for name, columns in self._columns.items()}

    def _product(self, vectors: sparse.csr_array) -> NDArray[Any]:
        if not self._in_order:
            return dense_product(vectors, self._matrix)
        n_terms, width = self._matrix.shape
        lines = n_terms - 1 - vectors.indices
        products = np.zeros((len(vectors.indptr) - 1, width), dtype=np.float32)
        rows = Rows(vectors.data, lines, vectors.indptr, vectors.shape)
        add_product(rows, self._matrix, products)
        return products


class Batch(Memo):
    """Requests that are looked at together: what several views need of them is computed once."""

    def __init__(
        self,
        requests: EncodedRequests,
        fused: Mapping[str, FusedProduct],
        indexes: Mapping[str, tuple[str, sparse.csr_array]],
        absent: Sequence[NDArray[Any]] = (),
    ) -> None:
        self.requests = requests
        # APIs that each request is looked at without, as if the catalog had never had them.
        self.absent = absent
        self._indexes = indexes
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

    def found(self, name: str) -> Found:
        """Return the product with a matrix in `View.products` or an index in `View.indexes`."""

        def found() -> Found:
            if name in self._products:
                return Found(self._products[name])
            encoder, index = self._indexes[name]
            return OfIndex(getattr(self.requests, encoder), index)

        result: Found = self.once(name, found)
        return result


@dataclass(frozen=True)
class Evidence:
    """What the reasons for one request are made of: known APIs and probable categories, too."""

    batch: Batch
    history: History
    known: tuple[int, ...]
    categories: dict[int, tuple[float, str]]  # by number: how probable it is, and its name


@dataclass(frozen=True, eq=False)
class View(Part, ABC):
    """One side from which requests are looked at, fitted on a corpus.

    A subclass is a frozen dataclass; each field but `corpus` is what it learned: an array, which
    is saved, loaded and checked by how it is annotated, or a `Part` of such arrays. It is
    registered in `cnp_router.training.views.together`.
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
    def applies(cls, specifications: Specifications, days: NDArray[Any]) -> bool:
        """Return whether it has anything to say, with a history of such days."""
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

    def indexes(self) -> Indexes:
        """Return the same where only the largest products matter: name to encoder and matrix."""
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

    def features(self, batch: Batch, pairs: Pairs) -> NDArray[np.float32]:
        """Return its `extras` of some pairs, of shape (n_extras, n_pairs)."""
        return np.zeros((0, len(pairs)), dtype=np.float32)

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return what it says of each request as a whole, of shape (n_requests, n_context)."""
        return np.zeros((len(batch), 0), dtype=np.float32)

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return why some APIs are worth asking, where it has a reason."""
        return {}
