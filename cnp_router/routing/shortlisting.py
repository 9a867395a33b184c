"""`shortlist`: the few tools that a model is shown for a request."""

from __future__ import annotations

import copy
import datetime
import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from unicodedata import normalize

from cnp_router.exceptions import InputError
from cnp_router.records import check_number, shown, string_tuple
from cnp_router.routing.restriction import Restriction
from cnp_router.routing.result import Reason, Recipient, Routing
from cnp_router.routing.router import Router
from cnp_router.text import quarters

__all__ = ["Shortlist", "of_parts", "shortlist"]

_LONGEST = 60  # characters of a part that are quoted


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Which APIs to show a model, and the decision behind it.

    Parameters
    ----------
    apis : tuple of str
        At most `k` ids: first those that are always shown, then the recipients, most probable
        first. Where nothing fits, only those that are always shown.
    routing : Routing
        Also what the parts of the request ask for is among its recipients (`of_parts`).
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

    Where places are free, the parts of a request that may ask for several things are asked too.

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
    kept = tuple(dict.fromkeys(normalize("NFC", api) for api in string_tuple("always", always)))
    if len(kept) > most:
        raise InputError(f"{len(kept)} APIs are always shown, and k is {most} (raise k)")
    routing = router.route(
        request, known, among=among, exclude=exclude, threshold=threshold, date=date
    )
    found = routing.contractors if routing.fits else ()
    free = most - len({*kept, *found})
    if found and free > 0:
        added, confidence = of_parts(
            router,
            request,
            free,
            taken={*kept, *routing.recommendation},
            known=routing.known,
            among=among,
            exclude=exclude,
            date=date,
        )
        named = {each.contractor: each for each in routing.recipients}
        best = routing.recipients[0].probability
        for part in added:
            sure = part.probability
            if part.contractor in named:  # no surer than the whole is of its best
                sure = min(max(named[part.contractor].probability, sure), best)
            named[part.contractor] = replace(part, probability=sure)
        recipients = sorted(named.values(), key=lambda each: -each.probability)
        confidence = min(confidence, routing.confidence)
        routing = replace(routing, recipients=tuple(recipients), confidence=confidence)
        found = routing.contractors
    more = [api for api in found if api not in kept]
    return Shortlist((*kept, *more[: most - len(kept)]), routing)


def of_parts(
    router: Router,
    request: str,
    places: int,
    *,
    taken: Collection[str] = (),
    known: Iterable[str] = (),
    among: Restriction | None = None,
    exclude: Restriction = (),
    date: datetime.date | None = None,
) -> tuple[tuple[Recipient, ...], float]:
    """Return what the parts of a request ask for besides what the whole does.

    A request for two things may be sure of one and say nothing of the other. So each part that
    something fits brings what the router would use for it, the best of each part first.

    Parameters
    ----------
    router : Router
        Is asked once for each of the `quarters`, which does not count as a routing.
    request : str
    places : int
        The most that is returned.
    taken : collection of str, default=()
        Ids that are there already.
    known, among, exclude, date
        As in `Router.route`.

    Returns
    -------
    tuple of Recipient, float
        And the confidence of the least sure part that brought something, 1 where none did.

    Examples
    --------
    >>> from cnp_router import Api, Catalog, fit_router
    >>> catalog = Catalog([Api("refund", "Refund payment", "Pays money back."),
    ...                    Api("email", "Send e-mail", "Sends an e-mail to a person."),
    ...                    Api("timer", "Set timer", "Rings after some minutes.")])
    >>> of_parts(fit_router(catalog), "Refund payment p-3. Send Bea an e-mail.", 2)[0]
    (Recipient('refund', 0.65, 'asked for in “Refund payment p-3.”'), \
Recipient('email', 0.65, 'asked for in “Send Bea an e-mail.”'))
    """
    texts = quarters(request)
    if not texts:
        return (), 1.0
    uncounted = copy.copy(router)
    uncounted.is_counted = False
    brought: list[list[Recipient]] = []
    confidence = 1.0
    known = tuple(known)
    for text in texts:
        scores = uncounted.score(text, known, date=date)
        part = uncounted.decide(text, scores, known, among=among, exclude=exclude)
        used = part.recipients[: len(part.recommendation)] if part.fits else ()
        new = [_asked_in(text, each) for each in used if each.contractor not in taken]
        if new:
            brought.append(new)
            confidence = min(confidence, part.confidence)
    added: dict[str, Recipient] = {}
    for each in itertools.chain.from_iterable(itertools.zip_longest(*brought)):
        if each is not None and len(added) < places:
            added.setdefault(each.contractor, each)
    return tuple(added.values()), confidence


def _asked_in(text: str, recipient: Recipient) -> Recipient:
    """Return a recipient, saying first which part of the request asks for it."""
    line = " ".join(text.split())
    quoted = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rstrip()}…"
    reason = Reason("clause", f"asked for in “{quoted}”", (text,))
    return replace(recipient, reasons=(reason, *recipient.reasons))
