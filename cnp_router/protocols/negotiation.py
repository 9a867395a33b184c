"""What the three negotiating protocols have in common: announce, select, award, once or twice."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cnp_router.catalog import Contractor
from cnp_router.exceptions import BudgetExceededError
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.messages import Proposal
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Invitation, Result, Round, as_proposed
from cnp_router.records import one_line

__all__ = ["Invite", "NegotiatedProtocol", "Plan"]

logger = logging.getLogger("cnp_router.protocols")

Invite = Callable[[Contractor, bool], list[Invitation]]


@dataclass(frozen=True)
class Plan:
    """What is announced, after the manager's first steps.

    Parameters
    ----------
    invite : callable
        Given a contractor, and whether the router or the graph chose it, returns what is announced
        to it. A chosen one is called for something.
    functions : tuple of str, default=()
        After decomposition, if the manager has taken that step.
    categories : tuple of str or None, default=None
        After category mapping; None if contractors name them.
    widens : bool, default=False
        Whether contractors that the router did not choose are called too, if a task is for them.
    """

    invite: Invite
    functions: tuple[str, ...] = ()
    categories: tuple[str, ...] | None = None
    widens: bool = False

    __repr__ = one_line

    def invitations(self, audience: Audience) -> list[Invitation]:
        """Return what is announced to an audience."""
        everyone = audience.routing is None or self.widens
        return [
            *self.to(audience.chosen, chosen=True),
            *self.to(audience.others if everyone else (), chosen=False),
        ]

    def to(self, contractors: Iterable[Contractor], *, chosen: bool) -> list[Invitation]:
        """Return what is announced to some contractors."""
        return [each for contractor in contractors for each in self.invite(contractor, chosen)]


class NegotiatedProtocol(Protocol):
    """A protocol whose manager announces by a plan, and selects among the proposals."""

    maps_categories = False  # whether its manager maps categories, so that no fallback has to

    @abstractmethod
    async def plan(self, round_: Round, audience: Audience) -> Plan:
        """Take the manager's first steps."""

    async def run(self, round_: Round) -> Result:
        """Plan, announce, select and award; and announce once more, if that is wanted."""
        audience = await round_.audience(widen=not self.maps_categories)
        plan = await self.plan(round_, audience)
        invitations = plan.invitations(audience)
        proposals = await round_.announce(invitations)
        selected = await round_.select(proposals, plan.functions)
        if selected and round_.settings.iterate:
            more, added = await _again(round_, plan, invitations, proposals, selected)
            proposals, selected = [*proposals, *more], (*selected, *added)
        routing = audience.routing
        if routing is not None and plan.widens:
            routing = replace(routing, source="llm", fallback="llm")
        categories = plan.categories
        if not self.maps_categories:  # contractors have
            categories = tuple(dict.fromkeys(name for p in proposals for name in p.categories))
        return Result(selected, categories, routing=routing)


async def _again(
    round_: Round,
    plan: Plan,
    before: Iterable[Invitation],
    proposals: list[Proposal],
    selected: tuple[str, ...],
) -> tuple[list[Proposal], tuple[str, ...]]:
    """Announce to those who are tied to the selected APIs and were not asked yet."""
    asked = {invitation.contractor.id for invitation in before}
    tied = [c for c in round_.parties.tied_to(selected) if c.id not in asked]
    try:
        more = await round_.announce(plan.to(tied[: round_.settings.iterate], chosen=True))
    except BudgetExceededError as exc:  # what is awarded is not given up
        logger.warning("no second announcement: %s", exc)
        return [], ()
    awarded = tuple(proposed for proposed in as_proposed(proposals) if proposed.api in selected)
    return more, await round_.select(more, plan.functions, awarded)
