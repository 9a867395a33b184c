"""The view of the names: which APIs the request names, wholly or in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing import Reason
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import Corpus
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.views.base import Batch, Evidence, View
from cnp_router.training.views.columns import Column, Pairs, Sparse
from cnp_router.training.views.name_index import NameIndex

__all__ = ["NamesView"]


@dataclass(frozen=True, eq=False)
class NamesView(View):
    """What the request says of each API's name. Nothing is learned: names are in the catalog."""

    name: ClassVar[str] = "names"
    telling: ClassVar[int] = 0
    scores: ClassVar[tuple[str, ...]] = (
        "name",  # the request says its whole name
        "name words",  # share of its name that the request says
        "name weight",  # how telling the words are that it says of its name
    )
    context: ClassVar[tuple[str, ...]] = ("best name",)

    index: NameIndex

    @classmethod
    def fit(cls, corpus: Corpus, requests: EncodedRequests) -> Self:
        """Look at the names, once a catalog."""
        specifications = corpus.specifications
        index = specifications.once(NameIndex, lambda: NameIndex.of(specifications))
        return cls(corpus, index)

    def synced(self, corpus: Corpus, change: CatalogChange) -> Self:
        """Return the view of the names that there are now."""
        if corpus.specifications is self.corpus.specifications:
            return replace(self, corpus=corpus)
        if change.keeps_names and not corpus.specifications.is_exact:
            return type(self)(corpus, self.index.grown(corpus.specifications))
        return type(self)(corpus, NameIndex.of(corpus.specifications))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where an array is not as it was annotated."""
        self.index.check(sizes)

    def columns(self, batch: Batch) -> tuple[Column, ...]:
        """Return the weight of whole names, and share and weight of parts of names."""
        index, texts = self.index, batch.requests.texts
        said = index.partly(texts)
        share = said.values / index.weight[said.positions]
        return index.wholly(texts), Sparse(said.starts, said.positions, share), said

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return whether any API is named."""
        return self.scored(batch)["name"].highest()[:, None]

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Say so where the request names it."""
        pairs = Pairs.across([np.asarray(positions, dtype=np.intp)])
        said = self.scored(evidence.batch)["name"].at(pairs)
        return {i: Reason("name", "the request names it") for i in pairs.positions[said > 0]}
