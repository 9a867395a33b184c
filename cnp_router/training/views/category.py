"""The view of the categories: which APIs are filed under what such requests call for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.linear import ridge_weights, updated_weights
from cnp_router.training.views.base import Batch, Dense, Evidence, Products, View

__all__ = ["CategoryView"]


@dataclass(frozen=True, eq=False)
class CategoryView(View):
    """Agreement of each API's categories with those that a linear model of the words expects."""

    name: ClassVar[str] = "category"
    telling: ClassVar[int] = 4
    scores: ClassVar[tuple[str, ...]] = ("category",)

    weights: Annotated[sparse.csr_array, "words", "categories"]

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Fit the linear model."""
        return cls(corpus, ridge_weights(requests.word, corpus.called_for(corpus.usage)))

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view with one more step of the linear model."""
        words = self.corpus.history_words
        called_for = corpus.called_for(usage)
        return type(self)(corpus, updated_weights(self.weights, words, requests.word, called_for))

    def products(self) -> Products:
        """Return the linear model."""
        return {"word": {"categories": self.weights}}

    def columns(self, batch: Batch) -> tuple[Dense]:
        """Return the mean score of each API's categories."""
        return (Dense((self.corpus.mean_membership @ batch.product("categories").T).T),)

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the most probable category of each API."""
        catalog, likely = self.corpus.specifications.catalog, evidence.categories
        reasons = {
            (p, name): Reason("category", f"the request is about {name} ({p:.0%})", (name,))
            for name, p in likely.items()
        }
        found = {}
        for position in positions:
            shared = [(likely[c], c) for c in catalog[position].categories if c in likely]
            if shared:
                found[position] = reasons[max(shared)]
        return found
