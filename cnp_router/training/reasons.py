"""Why an API is worth asking for, in words."""

from __future__ import annotations

from collections.abc import Sequence

from cnp_router.routing import Reason
from cnp_router.training.views import Evidence, Views

__all__ = ["explain"]

MOST_REASONS = 3


def explain(
    views: Views, evidence: Evidence, positions: Sequence[int]
) -> dict[int, tuple[Reason, ...]]:
    """Return up to three reasons for each API, the most telling kind first.

    Parameters
    ----------
    views : Views
    evidence : Evidence
    positions : sequence of int
        The APIs to explain.
    """
    given = [view.reasons(evidence, positions) for view in views]
    answers = {}
    for position in positions:
        found = [reasons[position] for reasons in given if position in reasons]
        popularity = _popularity(int(views.corpus.counts[position]))
        answers[position] = tuple([*found, popularity][:MOST_REASONS])
    return answers


def _popularity(count: int) -> Reason:
    if not count:
        return Reason("specification", "new: only its specification is known")
    return Reason("popularity", f"used by {count} past mashup{'s' if count > 1 else ''}")
