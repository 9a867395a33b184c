"""The view of the specifications: which APIs say of themselves what the request says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing import Reason
from cnp_router.training.views.base import Batch, Dense, Evidence, Products, View

__all__ = ["SpecificationView"]

# A word in more than about one text of ten says nothing: idf is 1 + ln(1 / share).
_TELLING = 3.3


@dataclass(frozen=True, eq=False)
class SpecificationView(View):
    """Similarity of the request to each specification, by words and by runs of characters."""

    name: ClassVar[str] = "specification"
    telling: ClassVar[int] = 3
    scores: ClassVar[tuple[str, ...]] = ("words", "characters")
    context: ClassVar[tuple[str, ...]] = ("best words",)

    def products(self) -> Products:
        """Return the specifications."""
        index = self.corpus.specifications
        return {
            "word": {"words": index.word_columns},
            "character": {"characters": index.character_columns},
        }

    def columns(self, batch: Batch) -> tuple[Dense, Dense]:
        """Return both similarities."""
        return Dense(batch.product("words")), Dense(batch.product("characters"))

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return how well the best specification fits."""
        return self.scored(batch)["words"].highest()[:, None]

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Return the words that the request and each specification share, most telling first."""
        index, word = self.corpus.specifications, evidence.batch.requests.word
        encoder, columns = index.encoders.word, index.word_columns
        wanted = np.zeros(self.corpus.n_apis, dtype=bool)
        wanted[list(positions)] = True
        shared: dict[int, list[str]] = {}
        said = word.indices[np.argsort(-word.data, kind="stable")]
        for column in said[encoder.idf_[said] >= _TELLING].tolist():
            term = encoder.terms_[column]
            if " " in term or len(term) < 3:
                continue
            apis = columns.indices[columns.indptr[column] : columns.indptr[column + 1]]
            for position in apis[wanted[apis]].tolist():
                shared.setdefault(position, []).append(f"“{term}”")
        return {
            position: Reason("specification", f"its specification says {_listed(terms[:3])}")
            for position, terms in shared.items()
        }


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
