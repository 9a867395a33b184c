"""`Announcing`: calls wave by wave, and calls once more who refuses, if the plan has more."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cnp_router.catalog import Contractor
from cnp_router.exceptions import BudgetExceededError
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.messages import CallForProposals, Proposal, Refusal
from cnp_router.protocols.plan import AnnouncementPlan
from cnp_router.protocols.round import Invitation, Round
from cnp_router.protocols.waves import Waves

__all__ = ["Announcing", "certainly_called"]

logger = logging.getLogger("cnp_router.protocols")


@dataclass
class Announcing:
    """An announcement by a plan: whom it has called, and what they have proposed in time."""

    round_: Round
    plan: AnnouncementPlan
    called: set[str] = field(default_factory=set)  # contractors
    proposals: list[Proposal] = field(default_factory=list)
    wave: int = 0

    async def to(self, audience: Audience) -> None:
        """Announce to an audience: in waves, if that is wanted and the router is sure enough."""
        waves = None if self.plan.widens else _waves(self.round_, audience)
        if waves is None:
            await self.send(self.plan.invitations(audience))
            return
        p, order = _probabilities(audience), audience.chosen
        chances = _chances(audience)
        n, more = 0, waves.first(chances)
        for _ in range(waves.most):
            if not (more and await self.send(self.plan.to(order[n : n + more], chosen=True))):
                break
            n += more
            held = {api.id for contractor in order[:n] for api in contractor.apis}
            proposed = {each.api for proposal in self.proposals for each in proposal.apis}
            more = waves.following(
                chances,
                n,
                proposed=sum(p.get(name, 0.0) for name in proposed),
                left=sum(chance for name, chance in p.items() if name not in held),
            )

    async def send(self, invitations: Sequence[Invitation]) -> bool:
        """Send calls, wait for the replies, and call once more those who refuse.

        Returns whether the budget took it. One that takes nothing at all raises
        BudgetExceededError; later, what is proposed and paid is not given up for it.
        """
        before = len(self.round_.messages)
        if not await self._announce(invitations):
            return False
        if self.plan.again is None:
            return True
        contractors = {each.contractor.id: each.contractor for each in invitations}
        again = [
            invitation
            for name, functions in _refused(self.round_, before).items()
            for invitation in self.plan.again(contractors[name], functions)
        ]
        return not again or await self._announce(again)

    async def _announce(self, invitations: Sequence[Invitation]) -> bool:
        try:
            self.proposals += await self.round_.announce(invitations, wave=self.wave + 1)
        except BudgetExceededError as exc:
            if not self.wave:
                raise
            logger.warning("no further wave: %s", exc)
            return False
        self.wave += 1
        self.called.update(each.contractor.id for each in invitations)
        return True


def certainly_called(round_: Round, audience: Audience) -> tuple[Contractor, ...]:
    """Return who of an audience is called in any case: all, or in waves those of the first one."""
    waves = _waves(round_, audience)
    if waves is None:
        return audience.contractors
    return audience.chosen[: waves.first(_chances(audience))]


def _waves(round_: Round, audience: Audience) -> Waves | None:
    """Return how an audience is called in waves; None where it is called at once.

    Where the fallback has chosen, the router's probabilities were not trusted.
    """
    routing = audience.routing
    if routing is None or routing.source == routing.fallback:
        return None
    return round_.settings.waves


def _probabilities(audience: Audience) -> Mapping[str, float]:
    recipients = audience.routing.recipients if audience.routing else ()
    return {each.contractor: each.probability for each in recipients}


def _chances(audience: Audience) -> list[float]:
    """Return of each chosen contractor the highest probability of its APIs."""
    p = _probabilities(audience)
    return [max(p.get(api.id, 0.0) for api in c.apis) for c in audience.chosen]


def _refused(round_: Round, before: int) -> dict[str, list[str]]:
    """Return the functions that contractors have refused in time since so many messages."""
    refused: dict[str, list[str]] = {}
    for message in round_.messages[before:]:
        if isinstance(message, Refusal) and not message.late:
            call = round_.messages[message.in_reply_to - 1]
            if isinstance(call, CallForProposals) and call.function is not None:
                refused.setdefault(message.sender, []).append(call.function)
    return refused
