"""`shown_apis`: the tools that a planner or an agent is shown."""

from __future__ import annotations

from collections.abc import Iterable

from cnp_router.catalog import Api
from cnp_router.execution import Executor
from cnp_router.records import check_request, instances
from cnp_router.sources.source import SEPARATOR
from cnp_router.text.clauses import clauses

__all__ = ["FEW", "shown_apis", "there"]

FEW = 20
"""So many tools are shown as they are: nobody has to choose among them."""


def there(executor: Executor) -> tuple[Api, ...]:
    """Return the tools of the catalog that a source has."""
    sources = getattr(executor.sources, "names", None)
    return tuple(
        api
        for api in executor.net.catalog
        if sources is None or api.id.partition(SEPARATOR)[0] in sources
    )


def shown_apis(executor: Executor, text: str, apis: Iterable[Api] | None = None) -> tuple[Api, ...]:
    """Return the tools for a request or a job: those given, or whom the router chooses.

    The router is asked for the whole text and for each of its parts. Few tools, or those of a net
    without a router, are all shown.
    """
    check_request(text)
    if apis is not None:
        return instances("apis", apis, Api)
    known = there(executor)
    router = executor.net.router
    if router is None or len(known) <= FEW:
        return known
    among = [api.id for api in known]
    chosen: dict[str, None] = {}
    for routing in router.route_many(
        dict.fromkeys([text, *clauses(text, cut_quotations=False)]), among=among
    ):
        chosen |= dict.fromkeys(routing.contractors)
    return tuple(executor.net.catalog[name] for name in chosen)
