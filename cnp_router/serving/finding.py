"""`find`: the tools for a request, of those that a client may see, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cnp_router.history import History
from cnp_router.online import Reputation
from cnp_router.routing import Reason, Router, Routing, shortlist
from cnp_router.routing.recipient import recipients_of, used_by
from cnp_router.serving.open_tools import Visible
from cnp_router.serving.search_answers import FoundTool

__all__ = ["find"]

_THRESHOLD = 0.6


def find(
    router: Router,
    query: str,
    k: int,
    seen: Visible,
    reputation: Reputation | None,
    client: str,
    explain: bool = False,
) -> tuple[Routing, tuple[FoundTool, ...]]:
    """Return the decision of a router, and the tools found.

    Of what the router knows, only what there is for the client counts in the decision.

    Parameters
    ----------
    router : Router
    query : str
    k : int
        The most tools.
    seen : Visible
        What there is for the client.
    reputation : Reputation or None
        Tools that failed more often than not come behind the others, and it is said of them.
    client : str
        No reason quotes the request of another one.
    explain : bool, default=False
        Make all reasons of the decision here; else those of who is not shown when they are read.

    Examples
    --------
    >>> from cnp_router.catalog import Api, Catalog
    >>> from cnp_router.routing import SpecificationRouter
    >>> maps, sms = Api("maps", "Maps", "Shows places on a map."), Api("sms", "SMS", "Sends texts.")
    >>> router = SpecificationRouter(Catalog([maps, sms]))
    >>> seen = Visible({"maps": maps, "sms": sms})
    >>> find(router, "places on a map", 1, seen, None, "ann")[1]
    (FoundTool('maps', 0.83),)
    """
    known = seen.known_to(router.apis)
    if not known:
        return _nothing(query, router), ()
    among = None if known is router.apis else known
    chosen = shortlist(router, query, k=k, among=among, threshold=_THRESHOLD)
    routing = _for(client, router, replace(chosen.routing, n_apis=len(known)))
    if explain:
        for each in routing.recipients:
            each.reasons  # noqa: B018  (made when it is read)
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
    """Return a decision whose reasons, when they are read, quote no request of another client."""
    history: History | None = getattr(router, "history", None)
    recipients = routing.recipients
    if history is None:
        return routing

    def explain(where: slice) -> dict[str, tuple[Reason, ...]]:
        some = recipients[where]
        foreign = _foreign(client, history, (reason for each in some for reason in each.reasons))
        return {
            each.contractor: tuple(_unquoted(reason, foreign) for reason in each.reasons)
            for each in some
        }

    probabilities = [each.probability for each in recipients]
    unquoted = recipients_of(routing.contractors, probabilities, explain)
    return replace(routing, recipients=unquoted)


def _foreign(client: str, history: History, reasons: Iterable[Reason]) -> set[str]:
    """Return the past requests of other clients that some reasons quote."""
    cited = {name for r in reasons if r.kind == "history" for name in r.references}
    # The others are not looked at: they may be many, in a file.
    places = ((name, history.find(name)) for name in cited)
    return {
        name
        for name, place in places
        if place is not None and history[place].user not in (None, client)
    }


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
