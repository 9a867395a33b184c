"""The view of the names: which APIs the request names, wholly or in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing import Reason
from cnp_router.text import STOP_WORDS, pieces, singular, split_identifier, words
from cnp_router.training.corpus import Specifications, entries, matrix_of_ones
from cnp_router.training.views.base import Batch, Evidence, Sparse, View

__all__ = ["NamesView"]

# The longest phrase of a request, in pieces, that is compared with whole names.
MAX_NAME_PIECES = 12
_BEGIN = 4  # characters by which it is given up where no name begins so


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

    @property
    def index(self) -> NameIndex:
        """The names, looked at once a catalog."""
        specifications = self.corpus.specifications
        index: NameIndex = specifications.once(NameIndex, lambda: NameIndex(specifications))
        return index

    def __post_init__(self) -> None:
        _ = self.index  # the first request does not wait for it

    def columns(self, batch: Batch) -> tuple[Sparse, Sparse, Sparse]:
        """Return the weight of whole names, and share and weight of parts of names."""
        index, texts = self.index, batch.requests.texts
        weighed = [index.partly(text) for text in texts]
        return (
            Sparse([index.wholly(text) for text in texts]),
            Sparse([(apis, weight / index.weight[apis]) for apis, weight in weighed]),
            Sparse(weighed),
        )

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return whether any API is named."""
        return self.scored(batch)["name"].highest()[:, None]

    def reasons(self, evidence: Evidence, positions: Sequence[int]) -> dict[int, Reason]:
        """Say so where the request names it."""
        said = self.scored(evidence.batch)["name"].at(0, np.asarray(positions, dtype=np.intp))
        return {i: Reason("name", "the request names it") for i in np.asarray(positions)[said > 0]}


class NameIndex:
    """The names of a catalog, and their words, to be found in texts; `weight` is of each API."""

    def __init__(self, specifications: Specifications) -> None:
        catalog, encoder = specifications.catalog, specifications.encoders.word
        names = [_telling_words(api.name) for api in catalog]
        frequency = Counter(word for name in names for word in name)
        # A word that many names share says less, and so does one that is common in requests.
        known = dict(zip(encoder.terms_, encoder.idf_, strict=True))
        rare = float(encoder.idf_.max(initial=1.0))
        telling = {
            word: min(known.get(word, rare), 1 + np.log((1 + len(names)) / (1 + count)))
            for word, count in frequency.items()
        }
        self._column = {word: i for i, word in enumerate(telling)}
        self._telling = np.array(list(telling.values()), dtype=np.float32)
        columns = [[self._column[word] for word in name] for name in names]
        by_api = matrix_of_ones(columns, len(telling))
        by_api.data = self._telling[by_api.indices]
        self.weight = np.asarray(by_api.sum(axis=1)).ravel()
        self._apis = sparse.csr_array(by_api.T)
        self._whole: dict[str, list[int]] = {}
        self._longest = 0
        for position, api in enumerate(catalog):
            name = pieces(api.name)
            joined = "".join(name)
            if len(joined) > 1:
                self._whole.setdefault(joined, []).append(position)
                self._longest = max(self._longest, len(joined))
        self._begins = {name[:_BEGIN] for name in self._whole}

    def partly(self, text: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the APIs with a word of their name in the text, and the weight of these words."""
        said = map(singular, words(text))
        found = {self._column[word] for word in said if word in self._column}
        columns = np.array(sorted(found), dtype=np.intp)
        named = entries(self._apis, columns)
        weight = np.zeros(len(self.weight), dtype=np.float32)
        np.add.at(weight, named.index, np.repeat(self._telling[columns], named.sizes))
        apis = np.flatnonzero(weight)
        return apis, weight[apis]

    def wholly(self, text: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the APIs whose whole name is in the text, however it is spaced, and its weight."""
        tokens = pieces(text)
        found: set[int] = set()
        for start in range(len(tokens)):
            joined = ""
            for token in tokens[start : start + MAX_NAME_PIECES]:
                joined += token
                if len(joined) > self._longest:
                    break
                if len(joined) >= _BEGIN and joined[:_BEGIN] not in self._begins:
                    break
                if joined in self._whole:
                    found.update(self._whole[joined])
        apis = np.array(sorted(found), dtype=np.intp)
        return apis, self.weight[apis]


def _telling_words(name: str) -> list[str]:
    """Return the distinct words of a name; stop words only where there are no others."""
    said = words(split_identifier(name))
    telling = [word for word in said if word not in STOP_WORDS] or said
    return list(dict.fromkeys(map(singular, telling)))
