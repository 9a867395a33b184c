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
        """Return the recommendation of the router; to be acted on, none where nothing fits."""
        parties, settings = round_.parties, round_.settings
        routing = await parties.needed_router.aroute(
            round_.request,
            select=settings.select,
            threshold=settings.threshold,
            among=parties.among,
            date=round_.date,
        )
        classifier = parties.classifier
        categories = None if classifier is None else classifier.predict([round_.request])[0]
        apis = routing.recommendation if routing.fits or round_.actor is None else ()
        return Result(apis, categories, routing=routing)
