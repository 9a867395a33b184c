"""What the three negotiating protocols have in common: announce, select, award, once or twice."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import replace

from cnp_router.exceptions import BudgetExceededError
from cnp_router.protocols.announcing import Announcing
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.messages import Proposal
from cnp_router.protocols.plan import AnnouncementPlan
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Result, Round, as_proposed

__all__ = ["NegotiatedProtocol", "announce_again"]

logger = logging.getLogger("cnp_router.protocols")


class NegotiatedProtocol(Protocol):
    """A protocol whose manager announces by a plan, and selects among the proposals."""

    maps_categories = False  # whether its manager maps categories, so that no fallback has to

    @abstractmethod
    async def plan(self, round_: Round, audience: Audience) -> AnnouncementPlan:
        """Take the manager's first steps."""

    async def run(self, round_: Round) -> Result:
        """Plan, announce, select and award; and announce once more, if that is wanted."""
        audience = await round_.audience(widen=not self.maps_categories)
        plan = await self.plan(round_, audience)
        announcing = Announcing(round_, plan)
        await announcing.to(audience)
        proposals = announcing.proposals
        selected = await round_.select(proposals, plan.functions)
        if selected and round_.settings.iterate:
            more, added = await announce_again(round_, plan, announcing, selected)
            proposals, selected = [*proposals, *more], (*selected, *added)
        routing = audience.routing
        if routing is not None and plan.widens:
            routing = replace(routing, source="llm", fallback="llm")
        categories = plan.categories
        if not self.maps_categories:  # contractors have
            categories = tuple(dict.fromkeys(name for p in proposals for name in p.categories))
        return Result(selected, categories, routing=routing)


async def announce_again(
    round_: Round, plan: AnnouncementPlan, before: Announcing, selected: tuple[str, ...]
) -> tuple[list[Proposal], tuple[str, ...]]:
    """Announce to those who are tied to the selected APIs and were not called yet."""
    tied = [c for c in round_.parties.tied_to(selected) if c.id not in before.called]
    announcing = Announcing(round_, plan)
    try:
        await announcing.send(plan.to(tied[: round_.settings.iterate], chosen=True))
    except BudgetExceededError as exc:  # what is awarded is not given up
        logger.warning("no second announcement: %s", exc)
        return [], ()
    awarded = tuple(each for each in as_proposed(before.proposals) if each.api in selected)
    more = announcing.proposals
    return more, await round_.select(more, plan.functions, awarded)
