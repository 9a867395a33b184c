"""`find`: the tools for a request, of those that a client may see, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cnp_router.catalog import Api
from cnp_router.history import History
from cnp_router.online import Reputation
from cnp_router.routing import Reason, Router, Routing, shortlist
from cnp_router.routing.result import used_by
from cnp_router.serving.search_answers import FoundTool

__all__ = ["find"]

_THRESHOLD = 0.6


def find(
    router: Router,
    query: str,
    k: int,
    seen: Mapping[str, Api],
    reputation: Reputation | None,
    client: str,
) -> tuple[Routing, tuple[FoundTool, ...]]:
    """Return the decision of a router, and the tools found.

    Of what the router knows, only what there is for the client counts in the decision.

    Parameters
    ----------
    router : Router
    query : str
    k : int
        The most tools.
    seen : mapping of str to Api
        What there is for the client.
    reputation : Reputation or None
        Tools that failed more often than not come behind the others, and it is said of them.
    client : str
        No reason quotes the request of another one.

    Examples
    --------
    >>> from cnp_router.catalog import Catalog
    >>> from cnp_router.routing import SpecificationRouter
    >>> maps, sms = Api("maps", "Maps", "Shows places on a map."), Api("sms", "SMS", "Sends texts.")
    >>> router = SpecificationRouter(Catalog([maps, sms]))
    >>> find(router, "places on a map", 1, {"maps": maps, "sms": sms}, None, "ann")[1]
    (FoundTool('maps', 0.83),)
    """
    routed = router.apis
    known = [name for name in routed if name in seen]
    if not known:
        return _nothing(query, router), ()
    among = None if len(known) == len(routed) else seen.__contains__
    chosen = shortlist(router, query, k=k, among=among, threshold=_THRESHOLD)
    routing = _for(client, router, replace(chosen.routing, n_apis=len(known)))
    by_id = {each.contractor: each for each in routing.recipients}
    tools = [
        FoundTool(seen[name], by_id[name].probability, by_id[name].reasons) for name in chosen.apis
    ]
    if reputation is not None:
        judged = [_judged(tool, reputation) for tool in tools]
        tools = sorted(judged, key=lambda tool: tool.often_fails)
    return routing, tuple(tools)


def _judged(tool: FoundTool, reputation: Reputation) -> FoundTool:
    """Say of a tool that it failed more often than not."""
    done, failed = reputation.counts(tool.api.id)
    if failed <= done:
        return tool
    said = f"failed more often than not: {failed:.0f} of {done + failed:.0f} calls"
    return replace(tool, reasons=(*tool.reasons, Reason("reputation", said)), often_fails=True)


def _for(client: str, router: Router, routing: Routing) -> Routing:
    """Return a decision whose reasons quote no request of another client."""
    reasons = [reason for each in routing.recipients for reason in each.reasons]
    cited = {name for r in reasons if r.kind == "history" for name in r.references}
    history: History | None = getattr(router, "history", None)
    if not cited or history is None:
        return routing
    # The others are not looked at: they may be many, in a file.
    places = ((name, history.find(name)) for name in cited)
    foreign = {
        name
        for name, place in places
        if place is not None and history[place].user not in (None, client)
    }
    if not foreign:
        return routing
    recipients = (
        replace(each, reasons=tuple(_unquoted(reason, foreign) for reason in each.reasons))
        for each in routing.recipients
    )
    return replace(routing, recipients=tuple(recipients))


def _unquoted(reason: Reason, foreign: set[str]) -> Reason:
    """Return a reason that quotes nobody else's request."""
    if reason.kind != "history" or not foreign.intersection(reason.references):
        return reason
    left = tuple(name for name in reason.references if name not in foreign)
    return Reason("history", used_by(len(reason.references)), left)


def _nothing(query: str, router: Router) -> Routing:
    """Return the decision where there is nothing for a client that the router knows."""
    return Routing(
        request=query,
        recipients=(),
        recommendation=(),
        confidence=0.0,
        source="learned",
        n_apis=0,
        threshold=_THRESHOLD,
        fallback="none",
        n_allowed=0,
        answerable=0.0,
        n_mashups=router.n_mashups,
    )
