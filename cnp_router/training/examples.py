"""Examples to learn from: past requests, looked at through views that do not know them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.pool import ALONE, Pool
from cnp_router.routing.head import is_in
from cnp_router.text import Boilerplate, specification_text
from cnp_router.text.entries import entries
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.corpus import (
    Corpus,
    Specifications,
    category_membership,
    history_days,
    usage_matrix,
)
from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.encoders import UNKNOWN, EncodedRequests, Encoders
from cnp_router.training.linear import MOST_PRODUCTS
from cnp_router.training.looks import Kind, Look, described, looks
from cnp_router.training.postings import EXACT
from cnp_router.training.ranker import Example
from cnp_router.training.splits import Split, by_train, hiding
from cnp_router.training.vector_index import VectorIndex
from cnp_router.training.views import (
    Behind,
    Candidates,
    CategoryView,
    CoUsageView,
    HistoryView,
    View,
    Views,
    applying,
)

__all__ = ["FittedViews", "Fold", "Past", "all_looks", "behind_of", "looked_at", "whole_views"]

N_COMPONENTS = 200
MAX_PROBED = 60  # requests a fold
GROUPED_EVERY = 16  # requests
_BATCH_CELLS = 2_000_000
MOST_AT_ONCE = 128  # requests
_BATCHES = 2  # of requests in a piece of work
_ALL_READ = Boilerplate()


@dataclass(frozen=True)
class Past:
    """All that views are fitted on, of which each fold takes a part."""

    encoders: Encoders
    specifications: Specifications
    requests: EncodedRequests
    usage: sparse.csr_array
    membership: sparse.csr_array
    classes: tuple[str, ...]
    vector_index: VectorIndex

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        history: History,
        *,
        random_state: int,
        n_records: int | None = None,
        read: Sequence[str] | None = None,
        boilerplate: Boilerplate = _ALL_READ,
        dense: DenseEncoder | None = None,
        pool: Pool = ALONE,
    ) -> Past:
        """Encode a catalog and a history, which may be empty.

        `n_records` says how many of the mashups are not the same; by default all. What is
        `read` of each request is by default all; other requests are read without the `boilerplate`.
        """
        usage = usage_matrix(catalog, history)
        # Of no other category does the history give anything to learn about, and a single mashup
        # cannot be left out.
        n_records = len(history) if n_records is None else n_records
        several = usage.indices if n_records > 1 else usage.indices[:0]
        used = (catalog[int(i)] for i in np.unique(several))
        classes = tuple(sorted({name for api in used for name in api.categories}))
        encoders, encoded = Encoders.fit(
            history.texts if read is None else read,
            [specification_text(api) for api in catalog],
            n_components=N_COMPONENTS,
            random_state=random_state,
            dense=dense,
            pool=pool,
        )
        encoders = replace(encoders, boilerplate=boilerplate)
        n = len(history)
        requests = replace(encoded.take(np.arange(n)), day=history_days(history))
        return cls(
            encoders,
            Specifications.build(catalog, encoders, encoded.take(np.arange(n, len(encoded)))),
            requests,
            usage,
            category_membership(catalog, classes),
            classes,
            VectorIndex.of(requests.dense),
        )

    def views(self, rows: NDArray[Any], usage: sparse.csr_array) -> Views:
        """Fit the views on some past requests."""
        requests = self.requests.take(rows)
        corpus = Corpus.of(
            self.specifications,
            requests,
            usage,
            self.membership,
            self.low_rank,
            self.vector_index.taken(rows),
        )
        return Views.fit(corpus, requests, self.kinds)

    @cached_property
    def kinds(self) -> tuple[type[View], ...]:
        """The views that apply to the whole history, and so to each part of it."""
        return applying(self.specifications, self.requests.day)

    @cached_property
    def low_rank(self) -> bool:
        """Whether the whole history is long, and so each part of it."""
        n_labels = len(np.unique(self.usage.indices))
        return bool(self.requests.word.nnz * n_labels > MOST_PRODUCTS)

    def folds(
        self,
        splits: Sequence[Split],
        seeds: Sequence[int],
        written: Sequence[Sequence[str]],
        pool: Pool = ALONE,
        shared: Any = None,
    ) -> Iterator[list[Fold]]:
        """Yield what each split asks, looked at through views that are fitted on what it knows.

        Splits that know the same rows share their views, and are yielded together. Where the parts
        of a history are alike, some of the requests are looked at as if nothing served them, and
        so are the texts of nothing that are `written` for that. `shared` is what the pool has made
        of this past.
        """
        groups = []
        for places in by_train(splits):
            asked = tuple(_Asked(splits[i], seeds[i], written[i]) for i in places)
            groups.append((asked, [p for i, own in enumerate(asked) for p in self._pieces(i, own)]))
        parts = pool.grouped(_fitted, _looked, groups, self if shared is None else shared)
        for (asked, pieces), found in zip(groups, parts, strict=True):
            yield [
                self._fold(own, [f for p, f in zip(pieces, found, strict=True) if p.number == i])
                for i, own in enumerate(asked)
            ]

    def _pieces(self, number: int, asked: _Asked) -> Iterator[_Piece]:
        """Yield the pieces of a split; requests are cut where `looked_at` cuts them anyway."""
        yield _Piece(number, "past")
        yield _Piece(number, "around")
        n, size = len(asked.split.asked), _BATCHES * _batch_size(self.usage.shape[1])
        for start in range(0, n, size):
            yield _Piece(number, (start, min(start + size, n)))

    def _fold(self, asked: _Asked, found: list[Any]) -> Fold:
        """Put the pieces of what a split asked together."""
        past, around, *pieces = found
        past.specifications = self.specifications.latent  # they were left out on the way
        seen = [(replace(e, past=past), scores) for own in pieces for e, scores in own]
        texts, hidden = self.requests.texts, asked.split.hidden
        kind: Kind = "known" if asked.split.is_known else "whole"
        whole = [
            Look(
                *(kind, texts[e.request], e.candidates, past.co_usage, e.used, True, asked.seed),
                is_cold=e.is_natural and 0 < len(e.used) == np.count_nonzero(is_in(e.used, hidden)),
            )
            for e, _ in seen
        ]
        return Fold(seen, whole, [replace(look, co_usage=past.co_usage) for look in around])

    def looked(self, views: Views, asked: _Asked, start: int, stop: int) -> list[Any]:
        """Return some of the requests of a split as examples, without their past."""
        split, rows = asked.split, asked.split.asked[start:stop]
        requests = self.requests.take(rows)
        day = np.where(np.isin(rows, split.undated), np.float32(UNKNOWN), requests.day)
        requests = replace(requests, day=day)
        used = self._used(rows)
        none: Any = None
        said = split.said[start:stop]
        found = looked_at(views, requests, said, used, split.is_natural)
        return [(replace(example, past=none), scores) for example, scores in found]

    def around(self, views: Views, asked: _Asked) -> list[Look]:
        """Return looks at some requests of a split as if nothing served them, without the pairs."""
        split = asked.split
        n_probed = min(len(split.asked), MAX_PROBED) * split.is_random
        probed = split.asked[np.linspace(0, len(split.asked), n_probed, False).astype(int)]
        requests, used = self.requests.take(probed), self._used(probed)
        none: Any = None
        found = looks(views, requests, used, asked.written, seed=asked.seed)
        return [replace(look, co_usage=none) for look in found]

    def _used(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        return [entries(self.usage, np.array([row])).index for row in rows]


@dataclass(frozen=True, eq=False)
class _Asked:
    """A split, its seed, and the texts of nothing that are looked at with it."""

    split: Split
    seed: int
    written: Sequence[str]


@dataclass(frozen=True)
class _Piece:
    """A piece of what the split of a number in its group asks: some requests, or what is around."""

    number: int
    part: Literal["past", "around"] | tuple[int, int]


class FittedViews:
    """The views of a group, each split with its own; other processes are sent what they learned.

    They have all else that views are made of: the past is there already.
    """

    def __init__(self, views: Views, asked: Sequence[_Asked] = ()) -> None:
        self.asked = asked
        self._views: Views | None = views
        self._state: dict[str, Any] = {}
        self._seen: dict[int, Views] = {}
        self._lock = threading.Lock()

    def of(self, past: Past, number: int | None = None) -> Views:
        """Return the views, or those of the split of a number."""
        with self._lock:
            if self._views is None:
                self._views = Views.from_state(past.specifications, self._state)
                self._state = {}
            if number is None:
                return self._views
            if number not in self._seen:  # the pieces of a split come one after the other
                self._seen = {number: self._without_hidden(past, self._views, self.asked[number])}
            return self._seen[number]

    def _without_hidden(self, past: Past, views: Views, asked: _Asked) -> Views:
        if len(self.asked) == 1 or not len(asked.split.hidden):
            return views
        # What is hidden has no part in what is known of the others.
        seen = hiding(past.usage[asked.split.train], asked.split.hidden)
        catalog = past.specifications.catalog
        change = CatalogChange.between(catalog, catalog).forgetting(asked.split.hidden)
        hiding_them = views.synced(catalog, seen, past.membership, change)
        return hiding_them.fitted_anew(CategoryView, past.requests.take(asked.split.train))

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = self._state if self._views is None else self._views.state()
        return {"asked": self.asked, "_state": state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _views=None, _seen={}, _lock=threading.Lock())

    def __sizeof__(self) -> int:
        """Return about how many bytes it takes to send it, which the scheduler asks."""
        return _n_bytes(self._state if self._views is None else self._views.state())


def _n_bytes(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_n_bytes, value.values()))
    if sparse.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    return int(getattr(value, "nbytes", 64))


def _fitted(past: Past, asked: Sequence[_Asked]) -> FittedViews:
    """Fit the views of a group of splits, as a piece of work."""
    split = asked[0].split
    usage = past.usage[split.train]
    if len(asked) == 1 and len(split.hidden):
        usage = hiding(usage, split.hidden)
    return FittedViews(past.views(split.train, usage), asked)


def whole_views(past: Past, _: Any) -> FittedViews:
    """Fit the views on the whole history, as a piece of work."""
    return FittedViews(past.views(np.arange(past.usage.shape[0]), past.usage))


def _looked(past: Past, fitted: FittedViews, piece: _Piece) -> Any:
    """Look at a piece of what is asked, as a piece of work."""
    asked = fitted.asked[piece.number]
    views = fitted.of(past, piece.number)
    if piece.part == "past":
        known = CoUsageFeatures(views.corpus, views[CoUsageView].pairs)
        known.specifications = known.specifications[:0]
        return known
    if piece.part == "around":
        return past.around(views, asked)
    return past.looked(views, asked, *piece.part)


@dataclass(frozen=True)
class Fold:
    """Past requests as examples, with the scores of the categories, and as looks; other looks."""

    found: list[tuple[Example, NDArray[Any]]]
    whole: list[Look]
    others: list[Look]


def all_looks(folds: Sequence[Fold], catalog: Catalog) -> list[Look]:
    """Return the looks of all folds, those at whole requests first, and parts of specifications."""
    whole = [look for fold in folds for look in fold.whole]
    others = [look for fold in folds for look in fold.others]
    return [*whole, *others, *(described(catalog, whole[0]) if whole else ())]


def looked_at(
    views: Views,
    requests: EncodedRequests,
    numbers: NDArray[Any],
    used: list[NDArray[Any]],
    is_natural: bool = True,
) -> Iterator[tuple[Example, NDArray[Any]]]:
    """Yield requests that some views do not know as examples, and the scores of the categories.

    The same `numbers` are of the same request.
    """
    co_usage = CoUsageFeatures(views.corpus, views[CoUsageView].pairs)
    size = _batch_size(views.corpus.n_apis)
    for start in range(0, len(requests), size):
        rows = np.arange(start, min(start + size, len(requests)))
        batch = views.batch(requests.take(rows))
        near, candidates = views[HistoryView].neighbours(batch), views.candidates(batch)
        categories = batch.product("categories").copy()  # not all products of the batch
        for row, own, around, scores in zip(rows, candidates, near, categories, strict=True):
            months = views.corpus.months_after(float(requests.day[row]))
            number, serving = int(numbers[row]), used[int(row)]
            behind = _behind(own, serving, views.corpus, number % GROUPED_EVERY == 0)
            yield (
                Example(co_usage, around, own, serving, is_natural, number, months, behind),
                scores,
            )


def _batch_size(n_apis: int) -> int:
    return max(1, min(_BATCH_CELLS // min(n_apis, EXACT) // 12, MOST_AT_ONCE))


def _behind(found: Candidates, used: NDArray[Any], corpus: Corpus, is_grouped: bool) -> Behind:
    """Return what a request used behind its candidates, and if wanted the groups of all there."""
    groups, sizes = _groups(found, corpus) if is_grouped else (np.zeros((2, 0)), np.zeros(0))
    return Behind(behind_of(found, used, corpus), groups, sizes * float(GROUPED_EVERY))


def behind_of(found: Candidates, used: NDArray[Any], corpus: Corpus) -> NDArray[Any]:
    """Return how many scores name what a request used behind its candidates, and its counts."""
    missed = used[~is_in(used, found.positions)]
    place = np.searchsorted(found.next_best, missed)
    n_naming = np.append(found.n_naming, 0)
    is_next = np.append(found.next_best, -1)[place] == missed
    naming = np.where(is_next, n_naming[place], 0)
    return np.stack([naming, corpus.counts[missed]])


def _groups(found: Candidates, corpus: Corpus) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the groups of all APIs behind the candidates, and their sizes."""
    looked_at = np.concatenate([found.positions, found.next_best])
    total = corpus.n_by_count.copy()
    np.subtract.at(total, corpus.counts[looked_at].astype(np.intp), 1)
    count = np.flatnonzero(total)
    pairs = np.stack([found.n_naming, corpus.counts[found.next_best]])
    named, sizes = np.unique(pairs, axis=1, return_counts=True)
    unnamed = np.stack([np.zeros(len(count)), count])
    return np.hstack([unnamed, named]), np.concatenate([total[count], sizes])
