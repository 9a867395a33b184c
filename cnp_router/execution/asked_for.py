"""Which awards of a request are acted on: by its words alone, where no model has read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cnp_router.agents.offline_plans import parts
from cnp_router.catalog import Api, Catalog
from cnp_router.printing import printable
from cnp_router.protocols import ContractNet
from cnp_router.protocols.acting import Acting, AwardedApi
from cnp_router.routing import Router
from cnp_router.routing.many import in_thread
from cnp_router.text import content_words, specification_text, without_quotations

__all__ = ["acted_on", "asked_for", "is_by_router", "left_open", "routed_parts"]

_SAME = 0.7  # cosine of specifications from which on two tools do the same
_SHOWN = 60  # characters of a part of a request


def is_by_router(acting: Acting) -> bool:
    """Return whether the router alone has made some awards, and no model."""
    return not (acting.n_called or acting.transcript.calls)


async def acted_on(
    acting: Acting, net: ContractNet
) -> tuple[list[list[AwardedApi]], tuple[str, ...]]:
    """Return the awards to act on, in groups of which one is to act, and what is left out.

    Those that may change something and say the same are one group: the first acts, the others
    come next, since one wish is not fulfilled twice.
    """
    groups = _alike(acting.awards, net)
    if not is_by_router(acting):
        return groups, ()
    router, catalog = net.parties.router, net.catalog
    routed = {} if router is None else await in_thread(routed_parts, acting.request, router)
    firsts = [group[0] for group in groups]
    chosen, why = asked_for(acting.request, firsts, catalog.__getitem__, routed)
    why += left_open(routed, [each.api for each in chosen], catalog)
    return [group for group in groups if group[0] in chosen], tuple(why)


def _alike(awards: Sequence[AwardedApi], net: ContractNet) -> list[list[AwardedApi]]:
    groups: list[list[AwardedApi]] = []
    for award in awards:
        for group in groups:
            one = group[0]
            read = any(net.catalog[each.api].effects == "reads" for each in (one, award))
            if one.task == award.task and not read:
                likeness = net.parties.likeness.of(one.api, [award.api])
                if likeness[award.api] >= _SAME:
                    group.append(award)
                    break
        else:
            groups.append([award])
    return groups


def routed_parts(request: str, router: Router) -> dict[str, str]:
    """Return the API that each part of a request is routed to first, if it has several parts."""
    smallest = parts(request)
    routings = router.route_many(smallest) if len(smallest) > 1 else []
    return {
        part: routing.contractors[0]
        for part, routing in zip(smallest, routings, strict=False)
        if routing.fits
    }


def asked_for(
    request: str,
    awards: Sequence[AwardedApi],
    api: Callable[[str], Api],
    routed: Mapping[str, str] | None = None,
) -> tuple[list[AwardedApi], list[str]]:
    """Return which of some awards to act on, and why not on others.

    What only reads is, and what a part of the request is `routed` to. What else may write must be
    asked for by a word that stands outside quotation marks and belongs to no tool that acts as
    well: a list of appointments, and the tool that cancels one, have *appointments* in common.
    Where the words of a request are those of no tool, as in another language, nothing is held
    against any.

    Examples
    --------
    >>> tools = {"list": Api("list", "List appointments", effects="reads"),
    ...          "cancel": Api("cancel", "Cancel appointments", effects="writes")}
    >>> awards = [AwardedApi(n, name, name, "") for n, name in enumerate(tools)]
    >>> for request in ("Which appointments are there?", "List appointments and cancel number 5"):
    ...     acting, passed_over = asked_for(request, awards, tools.__getitem__)
    ...     print([each.api for each in acting], len(passed_over))
    ['list'] 1
    ['list', 'cancel'] 0
    """
    said = _said(request)
    quoted = set(content_words(request)) - said
    terms = {each.api: _terms(api(each.api)) for each in awards}
    is_known = any(said & own for own in terms.values())
    reading = [each for each in awards if api(each.api).effects == "reads"]
    covered = set[str]().union(*(terms[each.api] for each in reading))
    firsts = set((routed or {}).values())
    acting, why = set(reading), []
    for each in awards:
        own = terms[each.api]
        if each in acting:
            continue
        if quoted & own and not said & own:
            why.append(f"{each.api}: only what is quoted speaks of it")
        elif is_known and acting and not said & own - covered and each.api not in firsts:
            why.append(f"{each.api}: the request asks for it by no word that is not of others, too")
        else:
            acting.add(each)
            covered |= own
    return [each for each in awards if each in acting], why


def left_open(routed: Mapping[str, str], called: Sequence[str], catalog: Catalog) -> Iterator[str]:
    """Yield what is said of parts of a request that ask for a tool which is not called.

    Such a part has words of the tool that it is `routed` to, which no called one has.
    """
    covered = set[str]().union(*(_terms(catalog[name]) for name in called))
    for part, first in routed.items():
        words = _said(part) - covered
        if first not in called and first in catalog and words & _terms(catalog[first]):
            yield f"{printable(part, _SHOWN)!r} asks for {first}, which is not called"


def _said(text: str) -> set[str]:
    """Return the words of a text outside quotation marks."""
    return set(content_words(without_quotations(text, least_words=1)))


def _terms(api: Api) -> set[str]:
    return set(content_words(specification_text(api)))
