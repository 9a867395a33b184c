"""`Audience`: whom an announcement reaches, by the router or as a broadcast."""

from __future__ import annotations

import copy
import datetime
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cnp_router import telemetry
from cnp_router.agents import CategoryMapping, MapCategories
from cnp_router.catalog import Contractor
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.settings import RoundSettings
from cnp_router.routing import Router, Routing, Scores
from cnp_router.routing.many import in_thread
from cnp_router.routing.result import Source
from cnp_router.routing.routing_telemetry import watched_routing

__all__ = ["Audience", "look_ahead", "routed"]

logger = logging.getLogger("cnp_router.protocols")


@dataclass(frozen=True, repr=False)
class Audience:
    """Whom an announcement may reach."""

    chosen: tuple[Contractor, ...]  # by the router; none in a broadcast
    everyone: tuple[Contractor, ...]
    routing: Routing | None = None  # None in a broadcast

    def __repr__(self) -> str:
        return f"Audience({len(self.chosen):,} chosen of {len(self.everyone):,})"

    @cached_property
    def others(self) -> tuple[Contractor, ...]:
        """Those that were not chosen."""
        chosen = {contractor.id for contractor in self.chosen}
        return tuple(c for c in self.everyone if c.id not in chosen) if chosen else self.everyone

    @property
    def contractors(self) -> tuple[Contractor, ...]:
        """Those to announce to: the chosen ones, or in a broadcast everyone."""
        return self.everyone if self.routing is None else self.chosen


async def routed(
    request: str,
    parties: Parties,
    settings: RoundSettings,
    ask: Callable[[MapCategories], Awaitable[CategoryMapping]] | None,
    date: datetime.date | None = None,
) -> Audience:
    """Return the audience that the router chooses, widened where it is not confident.

    `ask` asks the manager's model which categories to widen to; None where the protocol does that.
    `date` is the day of the request.
    """
    with telemetry.span("route") as span:
        routing = watched_routing(await _routing(request, parties, settings, ask, date), span)
    return Audience(parties.holders_of(routing.contractors), parties.contractors, routing)


async def _routing(
    request: str,
    parties: Parties,
    settings: RoundSettings,
    ask: Callable[[MapCategories], Awaitable[CategoryMapping]] | None,
    date: datetime.date | None,
) -> Routing:
    """Return what the router decides, and where it is not confident the manager's model too."""
    router, categories = parties.needed_router, parties.catalog.categories
    scores = await in_thread(router.score, request, date=date)
    fallback: Any = settings.fallback
    how: Any = {
        "select": settings.select,
        "threshold": settings.threshold,
        "among": parties.among,
    }
    if fallback == "llm" and (ask is None or not categories):
        fallback = "none"
    elif fallback == "llm" and ask is not None:
        named: tuple[str, ...] = ()
        sure = (await in_thread(_uncounted(router).decide, request, scores, **how)).is_confident
        if not sure:
            named = (await ask(MapCategories(request, (request,), categories))).all_categories
        fallback = _Widened(parties.apis_in(named))
    routing = await in_thread(router.decide, request, scores, fallback=fallback, **how)
    if ask is not None and settings.fallback == "llm" and not (routing.is_confident or categories):
        logger.warning(
            "the fallback llm does nothing: confidence %.2f is below %.2f, and no API has a "
            "category to ask more of",
            *(routing.confidence, settings.threshold),
        )
    return routing


def look_ahead(
    request: str, parties: Parties, settings: RoundSettings, date: datetime.date | None = None
) -> Routing:
    """Return what the router would decide, without its being counted as a routing."""
    router = _uncounted(parties.needed_router)
    how: Any = {
        "select": settings.select,
        "threshold": settings.threshold,
        "among": parties.among,
        "date": date,
    }
    return router.route(request, **how)


def _uncounted(router: Router) -> Router:
    router = copy.copy(router)
    router.is_counted = False
    return router


@dataclass(frozen=True)
class _Widened:
    """The fallback of a routing: APIs that the model has named by their categories."""

    apis: Sequence[str]
    source: Source = "llm"

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        known = set(scores.apis)
        return [name for name in self.apis if name in known]
