"""Learned: what the router itself recommends, with no model."""

from __future__ import annotations

from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Result, Round

__all__ = ["Learned"]


class Learned(Protocol):
    """The router recommends; no model is asked and nothing is announced."""

    name = "learned"
    summary = "The router recommends by itself; no model is asked."
    manager = "none: the router recommends, no model is asked"
    contractors = "none"
    needs_router = True
    announcements = ("routed",)
    has_contractors = False

    async def run(self, round_: Round) -> Result:
        """Return the recommendation of the router."""
        parties, settings = round_.parties, round_.settings
        routing = parties.needed_router.route(
            round_.request,
            select=settings.select,
            threshold=settings.threshold,
            among=parties.among,
            date=round_.date,
        )
        classifier = parties.classifier
        categories = None if classifier is None else classifier.predict([round_.request])[0]
        return Result(routing.recommendation, categories, routing=routing)
