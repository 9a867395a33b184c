"""The view of co-usage: which APIs were used together with those that the request seems to need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.views.base import Batch, Dense, Evidence, View

__all__ = ["CoUsageView"]

_DOUBT = 2.0  # mashups of doubt in the denominator


@dataclass(frozen=True, eq=False)
class CoUsageView(View):
    """Used together with what the linear model of the history expects.

    ``conditional[i, j]`` is ``P(i | j)``.
    """

    name: ClassVar[str] = "co_usage"
    telling: ClassVar[int] = 1
    scores: ClassVar[tuple[str, ...]] = ("co-usage",)

    conditional: Annotated[sparse.csc_array, "apis", "apis"]

    def __post_init__(self) -> None:
        # By columns, since the known APIs are looked up there.
        object.__setattr__(self, "conditional", sparse.csc_array(self.conditional))

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Count what was used together."""
        return cls(corpus, _shares(corpus, _together(corpus.usage)))

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view with all counted again, which takes next to no time."""
        return type(self)(corpus, _shares(corpus, _together(corpus.usage)))

    def observed(self, corpus: Corpus, requests: EncodedRequests, usage: sparse.csr_array) -> Self:
        """Return the view with the new mashups counted."""
        before = self.conditional @ sparse.diags_array(self.corpus.counts + _DOUBT)
        total = sparse.csc_array(before + _together(usage))
        total.data = np.rint(total.data)
        return type(self)(corpus, _shares(corpus, total).astype(np.float32))

    def columns(self, batch: Batch) -> tuple[Dense]:
        """Return the co-usage with all APIs, as much as each is expected."""
        likely = np.zeros((len(batch), self.corpus.n_apis), dtype=np.float32)
        likely[:, self.corpus.labels] = np.clip(batch.product("ridge"), 0, 1)
        return (Dense((self.conditional @ likely.T).T),)

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the known API that each one was most used with."""
        if not evidence.known:
            return {}
        catalog = self.corpus.specifications.catalog
        given = self.conditional[:, list(evidence.known)].toarray()
        found = {}
        for position in positions:
            share = given[position]
            if share.any():
                partner = catalog[evidence.known[int(share.argmax())]]
                text = f"{share.max():.0%} of past uses of {partner.name} came with it"
                found[position] = Reason("co-usage", text, (partner.id,))
        return found


def _together(usage: sparse.csr_array) -> sparse.csr_array:
    """Return how many mashups used each two APIs."""
    together = sparse.csr_array(usage.T @ usage)
    together -= sparse.csr_array(sparse.diags_array(together.diagonal()))
    together.eliminate_zeros()
    return together


def _shares(corpus: Corpus, together: sparse.sparray) -> sparse.csc_array:
    """Return the share of each column's mashups, with some doubt."""
    scale = sparse.diags_array((1 / (corpus.counts + _DOUBT)).astype(np.float32))
    return sparse.csc_array(together @ scale)
