"""`Audience`: whom an announcement reaches, by the router or as a broadcast."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from cnp_router.agents import CategoryMapping, MapCategories
from cnp_router.catalog import Contractor
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.settings import RoundSettings
from cnp_router.routing import Routing, Scores
from cnp_router.routing.result import Source

__all__ = ["Audience", "broadcast", "look_ahead", "routed"]

logger = logging.getLogger("cnp_router.protocols")


@dataclass(frozen=True, repr=False)
class Audience:
    """Whom an announcement may reach.

    Parameters
    ----------
    chosen : tuple of Contractor
        Those that the router chose; none in a broadcast.
    others : tuple of Contractor
        All others.
    routing : Routing or None
        What the router decided; None in a broadcast.
    """

    chosen: tuple[Contractor, ...]
    others: tuple[Contractor, ...]
    routing: Routing | None = None

    def __repr__(self) -> str:
        return f"Audience({len(self.chosen):,} chosen, {len(self.others):,} others)"

    @property
    def contractors(self) -> tuple[Contractor, ...]:
        """Those to announce to: the chosen ones, or in a broadcast everyone."""
        return self.others if self.routing is None else self.chosen


def broadcast(parties: Parties) -> Audience:
    """Return the audience of a broadcast: everyone."""
    return Audience((), parties.contractors)


async def routed(
    request: str,
    parties: Parties,
    settings: RoundSettings,
    ask: Callable[[MapCategories], Awaitable[CategoryMapping]] | None,
) -> Audience:
    """Return the audience that the router chooses, widened where it is not confident.

    `ask` asks the manager's model which categories to widen to; None where the protocol does that.
    """
    router = parties.needed_router
    scores = router.score(request)
    categories = parties.catalog.categories

    def decide(fallback: str | _Fallback) -> Routing:
        return router.decide(
            request,
            scores,
            select=settings.select,
            threshold=settings.threshold,
            fallback=fallback,  # type: ignore[arg-type]  # a string is one of the names
        )

    if settings.fallback != "llm":
        routing = decide(settings.fallback)
    elif ask is None or not categories:
        routing = decide("none")
        if ask is not None and not routing.is_confident:
            logger.warning(
                "confidence %.2f is below %.2f, and the catalog has no categories to widen to",
                routing.confidence,
                settings.threshold,
            )
    else:
        try:
            routing = decide(_Fallback(None))
        except _NotConfidentError:
            mapping = await ask(MapCategories(request, (request,), categories))
            routing = decide(_Fallback(parties.apis_in(mapping.all_categories)))
    chosen = parties.holders_of(routing.contractors)
    ids = {contractor.id for contractor in chosen}
    return Audience(chosen, tuple(c for c in parties.contractors if c.id not in ids), routing)


def look_ahead(request: str, parties: Parties, settings: RoundSettings) -> Routing:
    """Return what the router would decide, without its being counted as a routing."""
    router = copy.copy(parties.needed_router)
    router.source_counts = Counter()
    return router.route(request, select=settings.select, threshold=settings.threshold)


class _NotConfidentError(Exception):
    """The router needs its fallback, and the model has not been asked yet."""


class _Fallback:
    """The fallback of a routing: APIs that are known by now, or a break to ask for them."""

    source: Source = "llm"

    def __init__(self, apis: Sequence[str] | None) -> None:
        self.apis = apis

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        if self.apis is None:
            raise _NotConfidentError
        known = set(scores.apis)
        return [name for name in self.apis if name in known]
