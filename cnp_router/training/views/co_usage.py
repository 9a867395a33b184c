"""The view of co-usage: which APIs were used together with those that the request seems to need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.co_occurrence import DOUBT, CoOccurrence
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.views.base import Batch, Evidence, View
from cnp_router.training.views.columns import Column, Dense, Sparse

__all__ = ["CoUsageView"]

# Of many APIs with history: how many of those that the linear model expects most are looked at.
N_LIKELIEST = 64


@dataclass(frozen=True, eq=False)
class CoUsageView(View):
    """Used together with what the linear model of the history expects."""

    name: ClassVar[str] = "co_usage"
    telling: ClassVar[int] = 1
    scores: ClassVar[tuple[str, ...]] = ("co-usage",)

    pairs: CoOccurrence

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Count what was used together."""
        return cls(corpus, CoOccurrence.of(corpus.usage))

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view with what is counted where it is now, and the added APIs counted."""
        return type(self)(corpus, self.pairs.synced(change, corpus.usage))

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view with the new mashups counted."""
        return replace(self, corpus=corpus, pairs=self.pairs.merged(CoOccurrence.of(usage)))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where an array is not as it was annotated."""
        super().check(sizes)
        self.pairs.check(sizes)

    @cached_property
    def conditional(self) -> sparse.csr_array:
        """``P(i | j)`` of all pairs, of shape (n_apis, n_apis)."""
        return self.pairs.conditional()

    def columns(self, batch: Batch) -> tuple[Column]:
        """Return the co-usage with all APIs, as much as each is expected."""
        corpus = self.corpus
        if corpus.few_labels:
            likely = np.clip(batch.product("ridge"), 0, 1)
            return (Dense((self._of_labels @ likely.T).T, corpus.labels, corpus.label_of),)
        starts, labels, likely = batch.found("ridge").best(N_LIKELIEST)
        found = self.pairs.called_for(corpus.labels[labels], starts, np.minimum(likely, 1))
        return (Sparse(*found),)

    @cached_property
    def _of_labels(self) -> sparse.csr_array:
        """The shares among the APIs with history."""
        labels = self.corpus.labels
        return sparse.csr_array(self.conditional[:, labels])[labels]

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the known API that each one was most used with."""
        if not evidence.known:
            return {}
        given = self.pairs.given(np.array(evidence.known))
        known = np.repeat(np.arange(len(given.sizes)), given.sizes)
        asked = np.flatnonzero(np.isin(given.index, positions))
        # The first of the highest comes last, and stays.
        order = asked[np.lexsort((-known[asked], given.data[asked]))]
        best = {int(given.index[i]): i for i in order.tolist()}
        catalog = self.corpus.specifications.catalog
        found = {}
        for position in positions:
            if position in best:
                used_with = evidence.known[int(known[best[position]])]
                n_used = self.pairs.counts[used_with]
                share = given.data[best[position]] * (1 + DOUBT / n_used)  # without doubt
                partner = catalog[used_with]
                text = f"{share:.0%} of past uses of {partner.name} came with it"
                found[position] = Reason("co-usage", text, (partner.id,))
        return found
