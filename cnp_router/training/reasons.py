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
    given = views.co_usage[:, list(evidence.known)].toarray()
    answers = {}
    for position in positions:
        found = [
            _name(evidence, position),
            _co_usage(catalog, evidence, given[position]),
            _history(history, served.get(position, ())),
            _specification(shared[position]),
            _category(catalog, likely, position),
            _popularity(views, position),
        ]
        answers[position] = tuple(reason for reason in found if reason)[:MOST_REASONS]
    return answers


def _served_by(views: Views, near: Neighbours) -> dict[int, list[tuple[int, float]]]:
    served: dict[int, list[tuple[int, float]]] = {}
    usage = views.usage
    for row, similarity in zip(near.rows[:10], near.similarity[:10], strict=True):
        for api in usage.indices[usage.indptr[row] : usage.indptr[row + 1]]:
            served.setdefault(int(api), []).append((int(row), float(similarity)))
    return served


def _name(evidence: Evidence, position: int) -> Reason | None:
    if evidence.scores[_NAME, position] <= 0:
        return None
    return Reason("name", "the request names it")


def _co_usage(catalog: Catalog, evidence: Evidence, given: NDArray[Any]) -> Reason | None:
    if not given.any():
        return None
    partner = catalog[int(evidence.known[int(given.argmax())])]
    return Reason(
        "co-usage", f"{given.max():.0%} of past uses of {partner.name} came with it", (partner.id,)
    )


def _history(history: History, served: Sequence[tuple[int, float]]) -> Reason | None:
    if not served:
        return None
    text = history[served[0][0]].description
    many = "a similar past request" if len(served) == 1 else f"{len(served)} similar past requests"
    return Reason(
        "history",
        f"used by {many}, as “{shortened(text)}”",
        tuple(history[row].id for row, _ in served),
    )


def _shared_words(
    views: Views, evidence: Evidence, positions: Sequence[int]
) -> dict[int, list[str]]:
    """Return the words that the request and each specification share, the most telling first."""
    index = views.specifications
    word = evidence.request.word
    terms = [index.encoders.word.terms_[i] for i in word.indices]
    telling = index.encoders.word.idf_[word.indices] > _TELLING
    whole = np.array([" " not in term and len(term) > 2 for term in terms], dtype=bool)
    single = np.flatnonzero(telling & whole)
    columns = index.word_columns[word.indices[single]][:, list(positions)].toarray()
    strength = columns * word.data[single, None]
    order = np.argsort(-strength, axis=0, kind="stable")[:3]
    return {
        position: [terms[single[i]] for i in order[:, place] if strength[i, place] > 0]
        for place, position in enumerate(positions)
    }


def _specification(shared: Sequence[str]) -> Reason | None:
    return Reason("specification", f"its specification says {_listed(shared)}") if shared else None


def _listed(words: Sequence[str]) -> str:
    quoted = [f"“{word}”" for word in words]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _category(catalog: Catalog, likely: dict[str, float], position: int) -> Reason | None:
    shared = [(likely[name], name) for name in catalog[position].categories if name in likely]
    if not shared:
        return None
    p, name = max(shared)
    return Reason("category", f"the request is about {name} ({p:.0%})", (name,))


def _popularity(views: Views, position: int) -> Reason | None:
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
