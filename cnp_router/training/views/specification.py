"""The view of the specifications: which APIs say of themselves what the request says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing import Reason
from cnp_router.text import clauses, dense_product
from cnp_router.training.views.base import Batch, Dense, Evidence, Products, View

__all__ = ["SpecificationView"]

# A word in more than about one text of ten says nothing: idf is 1 + ln(1 / share).
_TELLING = 3.3
# Unless there are hardly more texts: then one that two of them say is telling, too.
_OF_TWO = float(np.log(3)) + 1e-6  # below the idf of a word that none says


@dataclass(frozen=True, eq=False)
class SpecificationView(View):
    """Similarity of the request to each specification, by words and by runs of characters.

    By the words of the clause that fits it best, too: what serves one of several needs shares few
    words with the others.
    """

    name: ClassVar[str] = "specification"
    telling: ClassVar[int] = 3
    scores: ClassVar[tuple[str, ...]] = ("words", "characters", "clause")
    context: ClassVar[tuple[str, ...]] = ("best words",)

    def products(self) -> Products:
        """Return the specifications."""
        index = self.corpus.specifications
        return {
            "word": {"words": index.word_columns},
            "character": {"characters": index.character_columns},
        }

    def columns(self, batch: Batch) -> tuple[Dense, Dense, Dense]:
        """Return the similarities."""
        words = batch.product("words")
        return Dense(words), Dense(batch.product("characters")), Dense(self._clause(batch, words))

    def _clause(self, batch: Batch, whole: NDArray[Any]) -> NDArray[Any]:
        """Return the similarity of the most similar clause of each request."""
        index = self.corpus.specifications
        parts = [clauses(text) for text in batch.requests.texts]
        several = [i for i, own in enumerate(parts) if len(own) > 1]
        best = whole.copy()
        if several:
            vectors = index.encoders.word.transform([c for i in several for c in parts[i]])
            starts = np.cumsum([0, *(len(parts[i]) for i in several)])[:-1]
            similar = dense_product(vectors, index.word_columns)
            best[several] = np.maximum.reduceat(similar, starts, axis=0)
        return best

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
        least = min(_TELLING, encoder.rare_ - _OF_TWO)
        for column in said[encoder.idf_[said] >= least].tolist():
            term = encoder.terms_[column]
            if " " in term or len(term) < 3:
                continue
            apis = columns.indices[columns.indptr[column] : columns.indptr[column + 1]]
            for position in apis[wanted[apis]].tolist():
                shared.setdefault(position, []).append(f"“{term}”")
        return {
            position: Reason("specification", f"its specification says {_listed(terms[:3])}, too")
            for position, terms in shared.items()
        }


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
