"""Looks: requests of which is known whether the catalog serves them, as views see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.text import specification_text
from cnp_router.text.entries import entries
from cnp_router.training.co_occurrence import CoOccurrence
from cnp_router.training.corpus import TWINS, Specifications
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.keyed import scattered
from cnp_router.training.views import Candidates, CoUsageView, Views

__all__ = ["Kind", "Look", "described", "looks"]

Kind = Literal[
    "whole", "known", "shortened", "without", "without category", "written", "joined", "described"
]

SHORT = 7  # words
MAX_DESCRIBED = 1_000


@dataclass(frozen=True, eq=False)
class Look:
    """A request as views see it to whom it is new, unless its kind is known.

    `used` holds the positions of what serves it, none if nothing does. `seen` says whether the
    encoders have seen its text; `fold` tells the views apart. It `is_cold` if the history of all
    that serves it was hidden from them, as much of that as new requests will meet.
    """

    kind: Kind
    text: str
    candidates: Candidates
    co_usage: CoOccurrence
    used: NDArray[Any]
    seen: bool
    fold: int
    is_cold: bool = False


def looks(
    views: Views,
    requests: EncodedRequests,
    used: Sequence[NDArray[Any]],
    written: Sequence[str],
    *,
    seed: int,
    seen: bool = True,
) -> Iterator[Look]:
    """Yield requests shortened and as if nothing served them, and the texts of nothing.

    The views do not know the requests, of which each used something; `seen` says whether the
    encoders do.
    """
    index = views.corpus.specifications
    rng = np.random.default_rng(seed)
    none = np.zeros(0, dtype=np.intp)
    twins = [_with_twins(index, needed) for needed in used]
    wider = [_with_category(index, *pair) for pair in zip(used, twins, strict=True)]
    absent: tuple[tuple[Kind, Any], ...] = (("without", twins), ("without category", wider))
    for kind, gone in absent:
        batch = views.batch(requests, gone)
        yield from _seen(views, batch, kind, [none] * len(requests), seen, seed)
    parts = [cut for text in requests.texts for cut in (_first(text), _span(text, rng))]
    needed = [own for own in used for _ in range(2)]
    joined = _joined(written, rng)
    # All are asked on the days of the requests: their dates must not tell them apart.
    of_two = np.repeat(requests.day, 2)
    of_some = np.resize(requests.day, len(written)) if len(requests) else None
    for kind, texts, serving, is_seen, day in (
        ("shortened", parts, needed, seen, of_two),
        ("written", list(written), [none] * len(written), False, of_some),
        ("joined", joined, [none] * len(joined), False, of_some if joined else None),
    ):
        batch = views.batch(index.encoders.encode(texts, day))
        yield from _seen(views, batch, kind, serving, is_seen, seed)


def _seen(
    views: Views, batch: Any, kind: Any, used: Sequence[NDArray[Any]], seen: bool, fold: int
) -> Iterator[Look]:
    co_usage = views[CoUsageView].pairs
    found = views.candidates(batch) if len(batch) else []
    for text, own, serving in zip(batch.requests.texts, found, used, strict=True):
        yield Look(kind, text, own, co_usage, serving, seen, fold)


def _with_twins(index: Specifications, needed: NDArray[Any]) -> NDArray[Any]:
    """Return the needed APIs, and all whose specifications can stand in for theirs."""
    rows, columns = index.word_columns, index.once("words by api", lambda: _by_api(index))
    twins = [needed]
    for position in needed:
        own = entries(columns, np.array([position]))
        if not len(own.index):
            continue
        # Who shares none of the words that weigh most, cannot be so alike by all others: these
        # leave too little of the length (the inequality of Cauchy and Schwarz).
        order = np.argsort(-own.data, kind="stable")
        left = np.square(own.data[order], dtype=np.float64)[::-1].cumsum()[::-1]
        telling = own.index[order[left > TWINS**2]]
        others = np.unique(entries(rows, telling).index)
        found = entries(columns, others)
        products = scattered(own.index, own.data, found.index, columns.shape[0]) * found.data
        alike = np.bincount(np.repeat(np.arange(len(others)), found.sizes), products, len(others))
        twins.append(others[alike > TWINS])
    return np.unique(np.concatenate(twins))


def _by_api(index: Specifications) -> sparse.csc_array:
    return sparse.csc_array(index.word_columns)


def _with_category(index: Specifications, needed: NDArray[Any], also: NDArray[Any]) -> NDArray[Any]:
    """Return who is absent, and all whose main category, the first, is one of the needed."""
    by_category = index.once("by main category", lambda: _by_main_category(index))
    main = {name for i in needed for name in index.catalog[int(i)].categories[:1]}
    return np.unique(np.concatenate([also, *(by_category[name] for name in sorted(main))]))


def _by_main_category(index: Specifications) -> dict[str, NDArray[Any]]:
    found: dict[str, list[int]] = {}
    for i, api in enumerate(index.catalog):
        for name in api.categories[:1]:
            found.setdefault(name, []).append(i)
    return {name: np.array(own, dtype=np.intp) for name, own in found.items()}


def _first(text: str) -> str:
    return " ".join(text.split()[:SHORT])


def _span(text: str, rng: np.random.Generator) -> str:
    words = text.split()
    size = min(int(rng.integers(3, 13)), len(words))
    start = int(rng.integers(0, len(words) - size + 1))
    return " ".join(words[start : start + size])


def _joined(texts: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return as many texts again, each of two to four joined, so that length tells nothing."""
    if len(texts) < 2:
        return []
    sizes = np.minimum(rng.integers(2, 5, len(texts)), len(texts))
    return [". ".join(texts[i] for i in rng.choice(len(texts), n, replace=False)) for n in sizes]


def described(catalog: Catalog, like: Look) -> list[Look]:
    """Return parts of the specifications of some APIs, as requests for them.

    They tell how a request may be said that is unlike the past ones, not how well anything fits it:
    there are no candidates but those of another look.
    """
    rng = np.random.default_rng(like.fold)
    some = rng.permutation(len(catalog))[:MAX_DESCRIBED]
    texts = [_span(specification_text(catalog[int(i)]), rng) for i in some]
    return [
        Look("described", text, like.candidates, like.co_usage, np.array([i]), True, number)
        for number, (i, text) in enumerate(zip(some, texts, strict=True))
    ]
