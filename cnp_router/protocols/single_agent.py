"""Single agent: all four steps in one context, without negotiation."""

from __future__ import annotations

from cnp_router.agents import ComposeAlone
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Result, Round

__all__ = ["SingleAgent"]


class SingleAgent(Protocol):
    """One agent takes all steps, with the specifications of all APIs or of the recipients."""

    name = "single-agent"
    summary = "One agent takes all steps in one context; there are no contractors."
    manager = "takes 1 to 4 in one context"
    contractors = "none"
    has_contractors = False

    async def run(self, round_: Round) -> Result:
        """Ask the agent."""
        routing = (await round_.audience()).routing
        parties = round_.parties
        if routing is None:
            apis = parties.apis
        else:
            apis = tuple(parties.catalog[name] for name in routing.contractors)
        said = await round_.ask(ComposeAlone(round_.request, apis))
        return Result(said.apis, said.categories, said.candidates, routing)
