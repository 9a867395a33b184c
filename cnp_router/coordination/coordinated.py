"""Coordinated: those that can do the request negotiate; no model is asked."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Mapping

from cnp_router import telemetry
from cnp_router.coordination.capabilities import SAME
from cnp_router.coordination.negotiator import Negotiator
from cnp_router.exceptions import RoundFailedError
from cnp_router.protocols.outcome import Choice
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Result, Round
from cnp_router.protocols.settings import RoundSettings
from cnp_router.routing import Routing
from cnp_router.routing.many import in_thread
from cnp_router.routing.routing_telemetry import watched_routing

__all__ = ["Coordinated", "fits"]

_LOGGER = logging.getLogger(__name__)


class Coordinated(Protocol):
    """Discover, match, negotiate, award.

    The router says which APIs the request needs; each of them and its equivalents are negotiated
    with, and the best by score is awarded. The others come next, in the order of their scores, if
    it fails. Who declines is passed over; if all do, the round fails and says why.

    Parameters
    ----------
    negotiator : Negotiator, optional
        By default one that asks no server and knows nothing of the past.
    api : str, optional
        Instead of what the router recommends: this one and its equivalents.
    may : callable, optional
        Whether an equivalent may take its place. The others come next only if it fails.
    substitutes : bool, default=True
        Whether those that the router chose come behind the equivalents, should these fail.
    """

    name = "coordinated"
    summary = "Equivalents negotiate by match, load and past success; no model is asked."
    manager = "none: the router recommends, the coordinator negotiates"
    contractors = "accept or decline, where their server declares it"
    needs_router = True
    announcements = ("routed",)
    has_contractors = False

    def __init__(
        self,
        negotiator: Negotiator | None = None,
        *,
        api: str | None = None,
        may: Callable[[str], bool] | None = None,
        substitutes: bool = True,
    ) -> None:
        self.negotiator = negotiator
        self.api = api
        self.may = may
        self.substitutes = substitutes or api is None

    def prepare(
        self,
        request: str,
        parties: Parties,
        settings: RoundSettings,
        announcement: str,
        date: datetime.date | None = None,
    ) -> tuple[Protocol, Choice | None]:
        """Return itself; an API that is named must be in the catalog, and needs no router."""
        if self.api is None:
            return super().prepare(request, parties, settings, announcement, date)
        parties.catalog.position(self.api)
        return self, None

    async def run(self, round_: Round) -> Result:
        """Negotiate each API that is needed; return those that are awarded, and who comes next."""
        parties = round_.parties
        negotiator = self.negotiator or Negotiator()
        capabilities = negotiator.capabilities(parties)
        match, routing = await in_thread(self._matched, round_)
        classifier = parties.classifier
        categories = None if classifier is None else classifier.predict([round_.request])[0]
        if self.api is not None:
            wanted: tuple[str, ...] = (self.api,)
        elif routing is not None and (routing.fits or round_.actor is None):
            wanted = routing.recommendation
        else:
            wanted = ()
        awarded, others, declined = list[str](), list[str](), dict[str, str]()
        covered = set[str]()
        for api in wanted:
            if api in covered:
                continue
            like = capabilities.likeness_of(api)
            able = (api, *(name for name in like if self._may(api, name, like[name], parties)))
            covered.update(able)
            found = await negotiator.negotiate(
                round_.request,
                able,
                match=fits(api, able[1:], like, match),
                category=categories[0] if categories else None,
            )
            order = found.order
            awarded += [name for name in order[:1] if name not in awarded]
            others += [*order[1:], *like]  # also who fits too little to be awarded at first
            declined |= found.declined
            if not order:
                _LOGGER.warning("%s", _said(found.declined))
        if wanted and not awarded:
            raise RoundFailedError(_said(declined))
        if routing is not None and self.substitutes:
            others += routing.contractors
        rest = tuple(
            name for name in dict.fromkeys(others) if name not in awarded and name not in declined
        )
        return Result(tuple(awarded), categories, routing=routing, substitutes=rest)

    def _matched(self, round_: Round) -> tuple[dict[str, float], Routing | None]:
        """Return how well each API fits, and what the router recommends, if there is one."""
        parties, settings = round_.parties, round_.settings
        if parties.router is None:
            return {}, None
        with telemetry.span("route") as span:
            scores = parties.router.score(round_.request, date=round_.date)
            match = dict(zip(scores.apis, scores.probabilities.tolist(), strict=True))
            if not self.substitutes:
                return match, None
            routing = parties.router.decide(
                round_.request,
                scores,
                among=parties.among,
                select=settings.select,
                threshold=settings.threshold,
            )
            return match, watched_routing(routing, span)

    def _may(self, api: str, other: str, like: float, parties: Parties) -> bool:
        """Return whether an equivalent may take the place of an API.

        What only reads never goes to what may write, and what may write to the same function only:
        what creates may be most like what deletes.
        """
        if parties.allowed is not None and other not in parties.allowed:
            return False
        effects = parties.catalog[api].effects
        if parties.catalog[other].effects != effects or (effects != "reads" and like < SAME):
            return False
        return bool(parties.holders_of([other])) and (self.may is None or self.may(other))


def fits(
    api: str, others: Iterable[str], like: Mapping[str, float], match: Mapping[str, float]
) -> dict[str, float]:
    """Return how well an API that was chosen fits, and others that may do its work.

    The one that was chosen fits at least as well as any other. What the router knows of it holds
    for those that are the same function; without a router, likeness is all there is.

    Parameters
    ----------
    api : str
    others : iterable of str
    like : mapping of str to float in [0, 1]
        How alike the others are to it.
    match : mapping of str to float in [0, 1]
        The router's probabilities.

    Examples
    --------
    >>> fits("a", ["b", "c"], {"b": 0.95, "c": 0.3}, {"a": 0.8, "b": 0.1, "c": 0.7})
    {'a': 0.8, 'b': 0.8, 'c': 0.7}
    >>> fits("a", ["b", "c"], {"b": 0.95, "c": 0.3}, {})
    {'a': 1.0, 'b': 0.95, 'c': 0.3}
    """
    names = list(others)
    if not match:
        return {api: 1.0} | {name: min(like.get(name, 0.0), 1.0) for name in names}
    own = max(match.get(name, 0.0) for name in (api, *names))
    found = {api: own}
    for name in names:
        is_same = like.get(name, 0.0) >= SAME
        found[name] = max(match.get(name, 0.0), match.get(api, 0.0) if is_same else 0.0)
    return found


def _said(declined: Mapping[str, str]) -> str:
    """Return who declined, in words."""
    each = [f"{name!r}: {reason or 'no reason given'}" for name, reason in declined.items()]
    return f"all that could do it declined ({'; '.join(each)})"
