"""`shortlist`: the few tools that a model is shown for a request."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from cnp_router.exceptions import InputError
from cnp_router.records import check_number, shown, string_tuple
from cnp_router.routing.restriction import Restriction
from cnp_router.routing.result import Routing
from cnp_router.routing.router import Router

__all__ = ["Shortlist", "shortlist"]


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Which APIs to show a model, and the decision behind it.

    Parameters
    ----------
    apis : tuple of str
        At most `k` ids: first those that are always shown, then the recipients, most probable
        first. Where nothing fits, only those that are always shown.
    routing : Routing
    """

    apis: tuple[str, ...]
    routing: Routing

    def __repr__(self) -> str:
        return f"Shortlist({', '.join(map(shown, self.apis)) or 'nothing'})"


def shortlist(
    router: Router,
    request: str,
    *,
    k: int = 8,
    always: Iterable[str] = (),
    known: Iterable[str] = (),
    among: Restriction | None = None,
    exclude: Restriction = (),
    threshold: float = 0.6,
    date: datetime.date | None = None,
) -> Shortlist:
    """Choose at most `k` APIs to show a model for a request.

    Parameters
    ----------
    router : Router
    request : str
        The requirement in plain language; not blank.
    k : int >= 1, default=8
        The most that is shown, those of `always` included.
    always : iterable of str, default=()
        Ids shown whatever the request is, such as those of tools that every run needs. They need
        not be known to the router.
    known, among, exclude, threshold, date
        As in `Router.route`.

    Returns
    -------
    Shortlist

    Raises
    ------
    InputError
        If more than `k` are always shown, or as `Router.route`.

    Examples
    --------
    >>> from cnp_router import Api, Catalog, SpecificationRouter
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places on a map."),
    ...                    Api("atlas", "Atlas", "An old map."), Api("sms", "SMS")])
    >>> shortlist(SpecificationRouter(catalog), "places on a map", k=2, always=["sms"])
    Shortlist('sms', 'maps')
    """
    most = check_number("k", k, 1, 10**6, whole=True)
    kept = tuple(dict.fromkeys(string_tuple("always", always)))
    if len(kept) > most:
        raise InputError(f"{len(kept)} APIs are always shown, and k is {most} (raise k)")
    routing = router.route(
        request, known, among=among, exclude=exclude, threshold=threshold, date=date
    )
    found = routing.contractors if routing.fits else ()
    more = [api for api in found if api not in kept]
    return Shortlist((*kept, *more[: most - len(kept)]), routing)
