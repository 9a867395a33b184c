"""Collaborative: the manager decomposes, contractors serve functions, the manager integrates."""

from __future__ import annotations

from cnp_router.agents import Decompose, ServeFunction
from cnp_router.catalog import Contractor
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.negotiation import NegotiatedProtocol, Plan
from cnp_router.protocols.round import Invitation, Round

__all__ = ["Collaborative"]


class Collaborative(NegotiatedProtocol):
    """The manager decomposes; contractors map, match and choose for each function."""

    name = "collaborative"
    summary = "Each function is announced to all; contractors serve it, the manager integrates."
    manager = "1, integration"
    contractors = "2, 3, 4"
    carries = "a function, one call each"
    reaches = "every contractor"

    async def plan(self, round_: Round, audience: Audience) -> Plan:
        """Decompose the request, and return the plan to announce its functions."""
        step = Decompose(round_.request)
        single = _serving((round_.request,))
        round_.check_announcement(
            "a collaborative round, if there is a single function,",
            single.to(audience.contractors, chosen=True),
            step,
        )
        return _serving((await round_.ask(step)).functions)


def _serving(functions: tuple[str, ...]) -> Plan:
    def invite(contractor: Contractor, chosen: bool) -> list[Invitation]:
        return [
            Invitation(contractor, ServeFunction(contractor.apis, function), function=function)
            for function in functions
        ]

    return Plan(invite, functions)
