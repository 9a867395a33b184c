"""``--why-not``: why an API is not recommended."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cnp_router.cli.restriction import Restriction

if TYPE_CHECKING:
    from cnp_router.routing import Reason, Routing
    from cnp_router.training import LearnedRouter

__all__ = ["explained", "facts"]


def explained(
    router: LearnedRouter,
    routing: Routing,
    within: Restriction,
    wanted: str,
    how: str,
    *,
    date: datetime.date | None,
) -> dict[str, Any]:
    """Return, as a JSON object, what speaks for an API, and what keeps it from being recommended.

    `how` says how the recipients were chosen, and `date` as of which day. An UnknownApiError says
    that the catalog does not have it.
    """
    from cnp_router.routing import TopK

    place = router.catalog.position(wanted)
    api = router.apis[place]
    scores = router.score(routing.request, routing.known, date=date)
    reasons: tuple[Reason, ...] = ()
    if api not in routing.known:
        only = router.route(routing.request, routing.known, among=[api], select=TopK(1), date=date)
        reasons = only.recipients[0].reasons
    probabilities = {r.contractor: r.probability for r in routing.recipients}
    return {
        "api": api,
        "because": _because(routing, within.keeping_out(router.catalog, api), api, how),
        "rank": scores.order.tolist().index(place) + 1,
        "n_apis": routing.n_apis,
        "probability": round(float(scores.probabilities[place]), 6),
        "least_recommended": round(min(probabilities[x] for x in routing.recommendation), 6),
        "least_recipient": round(min(probabilities.values()), 6),
        "reasons": [reason.text for reason in reasons],
    }


def _because(routing: Routing, option: str | None, api: str, how: str) -> str:
    if api in routing.known:
        return "it is in use already (--known)"
    if option is not None:
        return f"{option} keeps it out"
    if api in routing.recommendation:
        best = "it is among the most probable, and yet probably nothing fits"
        return "it is recommended" if routing.fits else best
    if api in routing.contractors:
        return "it is asked, but the recommended set is expected to fit better without it"
    return f"it is not among the {routing.n_recipients} recipients ({how})"


def facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is said of it: labels and texts."""
    yield "Why not", f"{found['api']}: {found['because']}"
    least = f"least recommended: {found['least_recommended']:.2f}"
    least += f", least asked: {found['least_recipient']:.2f}"
    yield "Its probability", f"{found['probability']:.2f} ({least})"
    yield "Its rank", f"{found['rank']} of {found['n_apis']}"
    yield "In its favour", "; ".join(found["reasons"]) or "nothing known"
