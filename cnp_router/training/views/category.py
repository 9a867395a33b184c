"""The view of the categories: which APIs are filed under what such requests call for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.text.entries import entries
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.keyed import distinct
from cnp_router.training.linear import ridge_weights, updated_weights
from cnp_router.training.postings import champions, row_products
from cnp_router.training.views.base import Batch, Evidence, Products, View
from cnp_router.training.views.columns import Column, Dense, Pairs, Sparse

__all__ = ["CategoryView"]

# Of a large catalog: the likeliest categories of a request, and the APIs of each.
_LOOKED_AT, _MEMBERS = 8, 100


@dataclass(frozen=True, eq=False)
class CategoryView(View):
    """Agreement of each API's categories with those that a linear model of the words expects."""

    name: ClassVar[str] = "category"
    telling: ClassVar[int] = 4
    scores: ClassVar[tuple[str, ...]] = ("category",)

    weights: Annotated[sparse.csr_array, "words", "categories"]

    @property
    def sizes(self) -> NDArray[Any]:
        """How many APIs each category has."""
        n_categories = self.corpus.membership.shape[1]
        return np.bincount(self.corpus.membership.indices, minlength=n_categories)

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the linear model."""
        called_for = corpus.called_for(corpus.usage)
        return cls(corpus, ridge_weights(requests.word, called_for, low_rank=corpus.low_rank))

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view with one more step of the linear model."""
        called_for, energy = corpus.called_for(usage), self.corpus.energy
        return type(self)(corpus, updated_weights(self.weights, energy, requests.word, called_for))

    def products(self) -> Products:
        """Return the linear model."""
        return {"word": {"categories": self.weights}}

    def forget(self, batch: Batch, row: int, absent: NDArray[Any]) -> None:
        """Take away the categories of which no API is left."""
        gone = np.bincount(entries(self.corpus.membership, absent).index, minlength=len(self.sizes))
        batch.product("categories")[row, gone == self.sizes] = 0

    def columns(self, batch: Batch) -> tuple[Column]:
        """Return the mean score of each API's categories."""
        likely, mean = batch.product("categories"), self.corpus.mean_membership
        if self.corpus.specifications.is_exact:
            return (Dense((mean @ likely.T).T),)

        def exact(pairs: Pairs) -> NDArray[np.float32]:
            return row_products(likely, mean, pairs.positions, pairs.starts)

        best = np.argsort(-likely, axis=1, kind="stable")[:, :_LOOKED_AT]
        members = [
            distinct(entries(self._members, own[row[own] > 0]).index)
            for own, row in zip(best, likely, strict=True)
        ]
        pairs = Pairs.across([own.astype(np.intp) for own in members])
        return (Sparse.positive(pairs, exact),)

    @cached_property
    def _members(self) -> sparse.csr_array:
        """The APIs of each category that most mashups used."""
        used = sparse.diags_array(self.corpus.counts + 1)
        return champions(sparse.csr_array((used @ self.corpus.membership).T), _MEMBERS)

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the most probable category of each API."""
        membership, likely = self.corpus.membership, evidence.categories
        text = "the request is about its category, {} ({:.0%} sure)"
        reasons = {
            number: Reason("category", text.format(name, p), (name,))
            for number, (p, name) in likely.items()
        }
        found = {}
        for position in positions:
            own = membership.indices[slice(*membership.indptr[position : position + 2])]
            shared = [number for number in own.tolist() if number in likely]
            if shared:
                found[position] = reasons[max(shared, key=likely.__getitem__)]
        return found
