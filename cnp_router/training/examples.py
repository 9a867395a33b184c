"""Examples to learn from: past requests, looked at through views that do not know them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    history_days,
    usage_matrix,
)
from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.encoders import UNKNOWN, EncodedRequests, Encoders
from cnp_router.training.ranker import Example
from cnp_router.training.splits import Split
from cnp_router.training.views import (
    Behind,
    Candidates,
    CoUsageView,
    HistoryView,
    View,
    Views,
    applying,
)

__all__ = ["Fold", "Past", "looked_at"]

N_COMPONENTS = 200
MAX_PROBED = 60  # requests a fold
GROUPED_EVERY = 16  # requests
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
    def of(
        cls,
        catalog: Catalog,
        history: History,
        *,
        random_state: int,
        dense: DenseEncoder | None = None,
    ) -> Past:
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
            dense=dense,
        )
        n = len(history)
        return cls(
            encoders,
            Specifications.build(catalog, encoders, encoded.take(np.arange(n, len(encoded)))),
            replace(encoded.take(np.arange(n)), day=history_days(history)),
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
        split: Split,
        seed: int,
        written: Sequence[str] = (),
    ) -> Fold:
        """Fit the views on one part of the history and look through them at the other.

        Where the parts are alike, it looks at some of the requests as if nothing served them, and
        at the texts of nothing that are `written` for that.
        """
        usage = self.usage[split.train]
        if split.hidden:
            rng = np.random.default_rng(seed)
            visible = (rng.random(usage.shape[1]) >= split.hidden).astype(np.float32)
            usage = sparse.csr_array(usage @ sparse.diags_array(visible))
            usage.eliminate_zeros()
        asked = split.asked
        views = self.views(split.train, usage)
        requests = self.requests.take(asked)
        day = np.where(np.isin(asked, split.undated), np.float32(UNKNOWN), requests.day)
        requests = replace(requests, day=day)
        found = list(looked_at(views, requests, asked, self._used(asked), split.hidden > 0))
        n_probed = min(len(asked), MAX_PROBED) * split.is_random
        probed = asked[np.linspace(0, len(asked), n_probed, False).astype(int)]
        around = looks(views, self.requests.take(probed), self._used(probed), written, seed=seed)
        texts = self.requests.texts
        whole = [
            Look("whole", texts[e.request], e.candidates, e.past.co_usage, e.used, True, seed)
            for e, _ in found
        ]
        return Fold(found, whole, list(around))

    def _used(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        return [entries(self.usage, np.array([row])).index for row in rows]


@dataclass(frozen=True)
class Fold:
    """Past requests as examples, with the scores of the categories, and as looks; other looks."""

    found: list[tuple[Example, NDArray[Any]]]
    whole: list[Look]
    others: list[Look]


def looked_at(
    views: Views,
    requests: EncodedRequests,
    numbers: NDArray[Any],
    used: list[NDArray[Any]],
    hidden: bool = False,
) -> Iterator[tuple[Example, NDArray[Any]]]:
    """Yield requests that some views do not know as examples, and the scores of the categories.

    The same `numbers` are of the same request.
    """
    co_usage = CoUsageFeatures(views.corpus, views[CoUsageView].conditional)
    size = max(1, _BATCH_CELLS // views.corpus.n_apis // 12)
    for start in range(0, len(requests), size):
        rows = np.arange(start, min(start + size, len(requests)))
        batch = views.batch(requests.take(rows))
        near, candidates = views[HistoryView].neighbours(batch), views.candidates(batch)
        categories = batch.product("categories").copy()  # not all products of the batch
        for row, own, around, scores in zip(rows, candidates, near, categories, strict=True):
            months = views.corpus.months_after(float(requests.day[row]))
            number, serving = int(numbers[row]), used[int(row)]
            behind = _behind(own, serving, views.corpus.counts, number % GROUPED_EVERY == 0)
            slim = replace(own, n_naming=own.n_naming[:0])  # of no more use, and large
            yield Example(co_usage, around, slim, serving, hidden, number, months, behind), scores


def _behind(
    found: Candidates, used: NDArray[Any], counts: NDArray[Any], is_grouped: bool
) -> Behind:
    """Return what a request used behind its candidates, and if wanted the groups of all there."""
    n_naming = found.n_naming
    left = np.ones(len(counts), dtype=bool)
    left[found.positions] = False
    missed = used[left[used]]
    width = int(n_naming.max(initial=0)) + 1
    behind = np.flatnonzero(left) if is_grouped else missed[:0]
    keys = counts[behind].astype(np.intp) * width + n_naming[behind]
    groups, sizes = np.unique(keys, return_counts=True)
    return Behind(
        np.stack([n_naming[missed], counts[missed]]),
        np.stack([groups % width, groups // width]),
        sizes * float(GROUPED_EVERY),
    )
