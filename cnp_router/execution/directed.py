"""Directed contracts (Smith 1980): the manager knows whom it wants, and announces nothing."""

from __future__ import annotations

import datetime
from dataclasses import replace

from cnp_router.protocols import Protocol
from cnp_router.protocols.learned import Learned
from cnp_router.protocols.outcome import Choice
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.round import Result, Round
from cnp_router.protocols.settings import RoundSettings

__all__ = ["Direct", "Directed"]


class Directed(Protocol):
    """The job goes to one API without an announcement.

    Parameters
    ----------
    api : str
    substitutes : bool, default=True
        Whether it may go to another one that the router knows, should this one fail.
    """

    name = "directed"
    summary = "The manager awards the job without an announcement; no model is asked."
    manager = "none: the API is named"
    contractors = "none"
    announcements = ("routed",)
    has_contractors = False

    def __init__(self, api: str, *, substitutes: bool = True) -> None:
        self.api = api
        self.substitutes = substitutes

    def prepare(
        self,
        request: str,
        parties: Parties,
        settings: RoundSettings,
        announcement: str,
        date: datetime.date | None = None,
    ) -> tuple[Protocol, Choice | None]:
        """Return itself; the API must be in the catalog, and a router is not needed."""
        parties.catalog.position(self.api)
        return self, None

    async def run(self, round_: Round) -> Result:
        """Return the API, and what the router thinks of the others."""
        router = round_.parties.router
        if router is None or not self.substitutes:
            return Result((self.api,))
        among, date = round_.parties.among, round_.date
        routing = await router.aroute(round_.request, among=among, date=date)
        return Result((self.api,), routing=routing)


class Direct(Learned):
    """The router's recommendation is called without a manager, which was lost; and it says so."""

    name = "direct"
    summary = "The manager is lost: what the router recommends is called; no model is asked."
    manager = "none: it is lost"

    async def run(self, round_: Round) -> Result:
        """Return the recommendation of the router, marked."""
        result = await super().run(round_)
        assert result.routing is not None
        return replace(result, routing=replace(result.routing, source="direct"))
