"""Why the learned router thinks of each API that a request needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cnp_router.history import History
from cnp_router.routing import Reason
from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.compound import Compound, clause_reasons
from cnp_router.training.views import Batch, Evidence, Views
from cnp_router.training.views.together import MOST_REASONS

__all__ = ["explained"]


def explained(
    positions: Sequence[int],
    views: Views,
    looked_at: Callable[[], Batch],
    known: tuple[int, ...],
    compound: Compound | None,
    history: History,
    classifier: CategoryClassifier | None,
) -> dict[int, tuple[Reason, ...]]:
    """Return the reasons for the APIs at some positions, strongest first.

    `looked_at` gives the request as `views` look at it.
    """
    categories, batch = {}, looked_at()
    if classifier is not None:
        (linear,) = batch.product("categories")
        categories = classifier.likely(linear)
    reasons = views.reasons(Evidence(batch, history, known, categories), positions)
    if compound is not None:
        for i, reason in clause_reasons(compound, positions).items():
            reasons[i] = (reason, *reasons[i])[:MOST_REASONS]
    return reasons
