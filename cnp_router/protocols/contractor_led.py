"""Contractor-led: the manager passes the request on, and only selects."""

from __future__ import annotations

from cnp_router.agents import InterpretRequest
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.negotiation import NegotiatedProtocol
from cnp_router.protocols.plan import AnnouncementPlan
from cnp_router.protocols.round import Invitation, Round

__all__ = ["ContractorLed"]


class ContractorLed(NegotiatedProtocol):
    """Contractors decompose, map and match the whole request; the manager selects."""

    name = "contractor-led"
    summary = "The request is announced itself; contractors interpret it, the manager selects."
    manager = "4"
    contractors = "1, 2, 3"
    carries = "the request"
    reaches = "every contractor"

    async def plan(self, round_: Round, audience: Audience) -> AnnouncementPlan:
        """Return the plan to announce the request."""
        request = round_.request
        return AnnouncementPlan(
            lambda contractor, _: [
                Invitation(contractor, InterpretRequest(contractor.apis, request), request=request)
            ]
        )
