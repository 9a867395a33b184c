"""Why a contractor is worth asking, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.routing import Reason
from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.specifications import EncodedRequests
from cnp_router.training.views import VIEWS, Neighbours, Views

__all__ = ["Evidence", "explain"]

MOST_REASONS = 3
_LIKELY_CATEGORY = 0.2
# A word in more than about one text of ten says nothing: idf is 1 + ln(1 / share).
_TELLING = 3.3
# How many past requests are looked at, and how similar, in [0, 1], one must be to be cited.
_CITED = 10
_SIMILAR = 0.1
_NAME = VIEWS.index("name")


@dataclass(frozen=True)
class Evidence:
    """What the views said of one request.

    Attributes
    ----------
    request : EncodedRequests, one request
    scores : ndarray of shape (n_views, n_apis)
    categories : ndarray of shape (n_categories,)
        Scores of the linear model.
    neighbours : Neighbours
    known : tuple of int
    """

    request: EncodedRequests
    scores: NDArray[Any]
    categories: NDArray[Any]
    neighbours: Neighbours
    known: tuple[int, ...]


def explain(
    catalog: Catalog,
    history: History,
    views: Views,
    categories: CategoryClassifier | None,
    evidence: Evidence,
    positions: Sequence[int],
) -> dict[int, tuple[Reason, ...]]:
    """Return up to three reasons for each contractor, the most telling kind first.

    Parameters
    ----------
    catalog : Catalog
    history : History
        What the views were fitted on.
    views : Views
    categories : CategoryClassifier or None
    evidence : Evidence
    positions : sequence of int
        The contractors to explain.
    """
    likely: dict[str, float] = {}
    if categories is not None:
        p = categories.calibrated(evidence.categories)
        likely = {categories.classes_[i]: float(p[i]) for i in np.flatnonzero(p > _LIKELY_CATEGORY)}
    served = _served_by(views, evidence.neighbours)
    shared = _shared_words(views, evidence, positions)
    given = views.co_usage[:, list(evidence.known)].toarray() if evidence.known else None
    answers = {}
    for position in positions:
        found: list[Reason] = []
        if evidence.scores[_NAME, position] > 0:
            found.append(Reason("name", "the request names it"))
        if given is not None and given[position].any():
            found.append(_co_usage(catalog, evidence, given[position]))
        if position in served:
            found.append(_history(history, served[position]))
        if position in shared:
            found.append(_specification(shared[position]))
        if len(found) < MOST_REASONS:
            found.extend(_category(catalog, likely, position))
        if len(found) < MOST_REASONS:
            found.append(_popularity(views, position))
        answers[position] = tuple(found[:MOST_REASONS])
    return answers


def _served_by(views: Views, near: Neighbours) -> dict[int, list[int]]:
    """Return for each API the most similar past requests that used it."""
    served: dict[int, list[int]] = {}
    usage = views.usage
    for row in near.rows[:_CITED][near.similarity[:_CITED] >= _SIMILAR].tolist():
        for api in usage.indices[usage.indptr[row] : usage.indptr[row + 1]].tolist():
            served.setdefault(api, []).append(row)
    return served


def _co_usage(catalog: Catalog, evidence: Evidence, given: NDArray[Any]) -> Reason:
    partner = catalog[int(evidence.known[int(given.argmax())])]
    return Reason(
        "co-usage", f"{given.max():.0%} of past uses of {partner.name} came with it", (partner.id,)
    )


def _history(history: History, rows: Sequence[int]) -> Reason:
    many = "a similar past request" if len(rows) == 1 else f"{len(rows)} similar past requests"
    return Reason(
        "history",
        f"used by {many}, as “{shortened(history[rows[0]].description)}”",
        tuple(history[row].id for row in rows),
    )


def _shared_words(
    views: Views, evidence: Evidence, positions: Sequence[int]
) -> dict[int, list[str]]:
    """Return the words that the request and each specification share, the most telling first."""
    index, word = views.specifications, evidence.request.word
    wanted = np.zeros(index.n_apis, dtype=bool)
    wanted[list(positions)] = True
    columns = index.word_columns
    shared: dict[int, list[str]] = {}
    for place in np.argsort(-word.data, kind="stable"):
        column = word.indices[place]
        term = index.encoders.word.terms_[column]
        if " " in term or len(term) < 3 or index.encoders.word.idf_[column] < _TELLING:
            continue
        apis = columns.indices[columns.indptr[column] : columns.indptr[column + 1]]
        for position in apis[wanted[apis]]:
            shared.setdefault(int(position), []).append(term)
    return shared


def _specification(shared: Sequence[str]) -> Reason:
    quoted = [f"“{word}”" for word in shared[:3]]
    listed = " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
    return Reason("specification", f"its specification says {listed}")


def _category(catalog: Catalog, likely: dict[str, float], position: int) -> list[Reason]:
    shared = [(likely[name], name) for name in catalog[position].categories if name in likely]
    return [
        Reason("category", f"the request is about {n} ({p:.0%})", (n,))
        for p, n in sorted(shared)[-1:]
    ]


def _popularity(views: Views, position: int) -> Reason:
    count = int(views.counts[position])
    if not count:
        return Reason("specification", "new: only its specification is known")
    return Reason("popularity", f"used by {count} past mashup{'s' if count > 1 else ''}")


def shortened(text: str, limit: int = 60) -> str:
    r"""Return the beginning of a text on one line.

    Examples
    --------
    >>> shortened("a  map of\nall bars", 8)
    'a map of…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rstrip() + "…"
