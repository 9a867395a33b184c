"""Examples to learn from: past requests, looked at through views that do not know them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.text import specification_text
from cnp_router.training.answerable import Look, looks
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.corpus import (
    Corpus,
    Specifications,
    category_membership,
    entries,
    usage_matrix,
)
from cnp_router.training.encoders import EncodedRequests, Encoders
from cnp_router.training.ranker import Example
from cnp_router.training.views import CoUsageView, HistoryView, View, Views, applying

__all__ = ["Fold", "Past", "looked_at"]

N_COMPONENTS = 200
MAX_PROBED = 60  # requests a fold
_BATCH_CELLS = 2_000_000


@dataclass(frozen=True)
class Past:
    """All that views are fitted on, of which each fold takes a part."""

    encoders: Encoders
    specifications: Specifications
    requests: EncodedRequests
    usage: sparse.csr_array
    membership: sparse.csr_array
    classes: tuple[str, ...]

    @classmethod
    def of(cls, catalog: Catalog, history: History, *, random_state: int) -> Past:
        """Encode a catalog and a history, which may be empty."""
        usage = usage_matrix(catalog, history)
        # Of no other category does the history give anything to learn about, and a single mashup
        # cannot be left out.
        several = usage.indices if len(history) > 1 else usage.indices[:0]
        used = (catalog[int(i)] for i in np.unique(several))
        classes = tuple(sorted({name for api in used for name in api.categories}))
        encoders, encoded = Encoders.fit(
            history.texts,
            [specification_text(api) for api in catalog],
            n_components=N_COMPONENTS,
            random_state=random_state,
        )
        n = len(history)
        return cls(
            encoders,
            Specifications.build(catalog, encoders, encoded.take(np.arange(n, len(encoded)))),
            encoded.take(np.arange(n)),
            usage,
            category_membership(catalog, classes),
            classes,
        )

    def views(self, rows: NDArray[Any], usage: sparse.csr_array) -> Views:
        """Fit the views on some past requests."""
        requests = self.requests.take(rows)
        return Views.fit(self._corpus(requests, usage), requests, self.kinds)

    @cached_property
    def kinds(self) -> tuple[type[View], ...]:
        """The views that apply to the whole history, and so to each part of it."""
        return applying(self._corpus(self.requests, self.usage))

    def _corpus(self, requests: EncodedRequests, usage: sparse.csr_array) -> Corpus:
        return Corpus.of(self.specifications, requests, usage, self.membership)

    def fold(
        self,
        train: NDArray[Any],
        test: NDArray[Any],
        hidden_share: float,
        seed: int,
        written: Sequence[str] = (),
    ) -> Fold:
        """Fit the views on one part of the history and look through them at the other.

        The history of a share of the APIs is hidden. At some of the requests it looks as if nothing
        served them, and at the texts of nothing that are `written` for that.
        """
        usage = self.usage[train]
        if hidden_share:
            rng = np.random.default_rng(seed)
            visible = (rng.random(usage.shape[1]) >= hidden_share).astype(np.float32)
            usage = sparse.csr_array(usage @ sparse.diags_array(visible))
            usage.eliminate_zeros()
        used: list[NDArray[Any]] = [entries(self.usage, np.array([row])).index for row in test]
        views = self.views(train, usage)
        found = list(looked_at(views, self.requests.take(test), used, hidden_share > 0))
        n_probed = min(len(test), MAX_PROBED)
        probed: list[int] = np.linspace(0, len(test), n_probed, False).astype(int).tolist()
        requests = self.requests.take(test[probed])
        around = looks(views, requests, [used[i] for i in probed], written, seed=seed)
        whole = [
            Look("whole", self.requests.texts[i], e.candidates, e.past.co_usage, e.used, True, seed)
            for i, (e, _) in zip(test, found, strict=True)
        ]
        return Fold(found, whole, list(around))


@dataclass(frozen=True)
class Fold:
    """Past requests as examples, with the scores of the categories, and as looks; other looks."""

    found: list[tuple[Example, NDArray[Any]]]
    whole: list[Look]
    others: list[Look]


def looked_at(
    views: Views, requests: EncodedRequests, used: list[NDArray[Any]], hidden: bool = False
) -> Iterator[tuple[Example, NDArray[Any]]]:
    """Yield requests that some views do not know as examples, and the scores of the categories."""
    co_usage = CoUsageFeatures(views.corpus, views[CoUsageView].conditional)
    size = max(1, _BATCH_CELLS // views.corpus.n_apis // 12)
    for start in range(0, len(requests), size):
        rows = np.arange(start, min(start + size, len(requests)))
        batch = views.batch(requests.take(rows))
        near, candidates = views[HistoryView].neighbours(batch), views.candidates(batch)
        categories = batch.product("categories").copy()  # not all products of the batch
        for row, own, around, scores in zip(rows, candidates, near, categories, strict=True):
            yield Example(co_usage, around, own, used[int(row)], hidden), scores
