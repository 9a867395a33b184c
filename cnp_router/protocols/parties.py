"""`Parties`: who takes part in rounds, and what the router knows of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from cnp_router.catalog import Catalog, Contractor
from cnp_router.exceptions import InputError
from cnp_router.graph import TransitionGraph
from cnp_router.routing import Router
from cnp_router.training import CategoryClassifier

__all__ = ["Parties", "graph_of"]


@dataclass(frozen=True, repr=False)
class Parties:
    """The contractors of a contract net (with distinct ids), and who may choose among them.

    An InputError says what does not fit together.

    Examples
    --------
    >>> from cnp_router.catalog import Api
    >>> maps, sms = Api("maps", "Maps"), Api("sms", "SMS")
    >>> parties = Parties(Catalog([maps, sms]), (Contractor("all", (maps, sms)),), None)
    >>> [contractor.id for contractor in parties.holders_of(["sms", "maps"])]
    ['all']
    """

    catalog: Catalog
    contractors: tuple[Contractor, ...]
    router: Router | None

    def __post_init__(self) -> None:
        if not self.contractors:
            raise InputError("a contract net needs at least one contractor (got none)")
        name, count = Counter(c.id for c in self.contractors).most_common(1)[0]
        if count > 1:
            raise InputError(f"duplicate contractor id {name!r} (ids must be unique)")
        for contractor in self.contractors:
            for api in contractor.apis:
                if api not in self.catalog:
                    raise InputError(
                        f"contractor {contractor.id!r} holds {api.id!r}, which the catalog does "
                        "not have"
                    )
        if self.router is not None:
            for name in self.router.apis:
                if name not in self.catalog:
                    raise InputError(
                        f"the router routes to {name!r}, which the catalog does not have "
                        "(give the catalog it was fitted on)"
                    )

    def __repr__(self) -> str:
        router = "no router" if self.router is None else type(self.router).__name__
        return (
            f"Parties({len(self.catalog):,} APIs, {len(self.contractors):,} contractors, {router})"
        )

    @property
    def needed_router(self) -> Router:
        """The router; an InputError if there is none."""
        if self.router is None:
            raise InputError("there is no router to ask (give one, or announcement='broadcast')")
        return self.router

    @property
    def classifier(self) -> CategoryClassifier | None:
        """The router's category classifier, if it has one."""
        found = getattr(self.router, "categories", None)
        return found if isinstance(found, CategoryClassifier) else None

    def apis_in(self, categories: Iterable[str]) -> tuple[str, ...]:
        """Return the ids of the APIs in some categories."""
        return tuple(api.id for api in self.catalog.in_categories(categories))

    def holders_of(self, apis: Iterable[str]) -> tuple[Contractor, ...]:
        """Return who holds some APIs, each once."""
        return tuple(dict.fromkeys(c for name in apis for c in self._holders.get(name, ())))

    def tied_to(self, apis: Iterable[str]) -> tuple[Contractor, ...]:
        """Return who holds the APIs that were used together with some APIs, closest first."""
        graph = graph_of(self.router)
        known = [name for name in apis if name in graph.apis_]
        nearest = graph.predict_next(known, k=len(graph.apis_)) if known else []
        return self.holders_of(next_.api for next_ in nearest if next_.count)

    @cached_property
    def _holders(self) -> dict[str, list[Contractor]]:
        holders: dict[str, list[Contractor]] = {}
        for contractor in self.contractors:
            for api in contractor.apis:
                holders.setdefault(api.id, []).append(contractor)
        return holders


def graph_of(router: Router | None) -> TransitionGraph:
    """Return the transition graph of a router; an InputError if it has none."""
    graph = getattr(router, "graph", None)
    if not isinstance(graph, TransitionGraph):
        raise InputError("co-usage needs a router with a transition graph (give a fitted one)")
    return graph
