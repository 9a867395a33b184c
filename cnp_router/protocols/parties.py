"""`Parties`: who takes part in rounds, and what the router knows of them."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from cnp_router.agents import organise
from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import InputError
from cnp_router.graph import TransitionGraph
from cnp_router.protocols.substitutes import Likeness
from cnp_router.records import positions, shown
from cnp_router.routing import Router
from cnp_router.routing.restriction import Restriction, allowed
from cnp_router.training import CategoryClassifier

__all__ = ["Parties", "graph_of"]

_KEPT = 8  # restrictions of the same parties, so that the rounds of one execution share theirs

logger = logging.getLogger("cnp_router.protocols")


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
    allowed: frozenset[str] | None = None  # ids of the only APIs that a request may reach
    whole: Parties | None = field(default=None, compare=False)  # of which these are a restriction

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

    def restricted(self, among: Restriction | None, exclude: Restriction) -> Parties:
        """Return the parties for a request that may reach some APIs only, as in `Router.route`.

        Contractors hold no other API then, and those without any take no part. Parties themselves,
        if nothing is left out; made once for restrictions that list the same ids.

        Examples
        --------
        >>> maps, sms = Api("maps", "Maps"), Api("sms", "SMS")
        >>> parties = Parties(Catalog([maps, sms]), (Contractor("all", (maps, sms)),), None)
        >>> parties.restricted(None, ["sms"]).contractors[0].apis == (maps,)
        True
        """
        if among is None and isinstance(exclude, tuple | list) and not exclude:
            return self
        key = _fixed(among), _fixed(exclude)
        known = next((found for kept, found in tuple(self._kept) if kept == key), None)
        restricted, strangers = known or self._restrict(among, exclude)
        if known is None and all(isinstance(each, tuple | frozenset | None) for each in key):
            self._kept.appendleft((key, (restricted, strangers)))
        for name in strangers:
            logger.warning("the request is restricted by %s, which no API is", shown(name))
        return restricted

    def _restrict(
        self, among: Restriction | None, exclude: Restriction
    ) -> tuple[Parties, tuple[str, ...]]:
        """Return restricted parties, and the ids in the restriction that no API has."""
        mask, unknown = allowed(positions("API", self.catalog.ids), [], among, exclude)
        strangers = tuple(chain.from_iterable(unknown.values()))
        if mask.all():
            return self, strangers
        left = frozenset(name for name, may in zip(self.catalog.ids, mask, strict=True) if may)
        own = [(c, tuple(api for api in c.apis if api.id in left)) for c in self.contractors]
        contractors = tuple(replace(c, apis=apis) for c, apis in own if apis)
        if not contractors:
            raise InputError("among and exclude leave no API that a contractor holds (allow more)")
        return replace(self, contractors=contractors, allowed=left, whole=self), strangers

    @cached_property
    def apis(self) -> tuple[Api, ...]:
        """The APIs that a request may reach, in the order of the catalog."""
        if self.whole is None:
            return tuple(self.catalog)
        return tuple(a for a in self.whole.apis if self.allowed is None or a.id in self.allowed)

    @cached_property
    def among(self) -> tuple[str, ...] | None:
        """The APIs of the router that a request may reach, for the router; None for all."""
        if self.allowed is None:
            return None
        return tuple(name for name in self.needed_router.apis if name in self.allowed)

    @property
    def classifier(self) -> CategoryClassifier | None:
        """The router's category classifier, if it has one."""
        found = getattr(self.router, "categories", None)
        return found if isinstance(found, CategoryClassifier) else None

    def apis_in(self, categories: Iterable[str]) -> tuple[str, ...]:
        """Return the ids of the APIs in some categories, of those that a request may reach."""
        found = self.catalog.ids_in(categories)
        return found if self.allowed is None else tuple(n for n in found if n in self.allowed)

    def holders_of(self, apis: Iterable[str]) -> tuple[Contractor, ...]:
        """Return who holds some APIs, each once."""
        found = {c.id: c for name in apis for c in self._holders.get(name, ())}
        return tuple(found.values())

    def tied_to(self, apis: Iterable[str]) -> tuple[Contractor, ...]:
        """Return who holds the APIs that were used together with some APIs, closest first."""
        graph = graph_of(self.router)
        known = [name for name in apis if name in graph.apis_]
        nearest = graph.predict_next(known, k=len(graph.apis_)) if known else []
        return self.holders_of(next_.api for next_ in nearest if next_.count)

    @cached_property
    def by_category(self) -> dict[str, Contractor]:
        """Who holds each API of the whole catalog where contractors are organised by category."""
        if self.whole is not None:
            return self.whole.by_category
        return {api.id: each for each in organise(self.catalog, "category") for api in each.apis}

    @cached_property
    def likeness(self) -> Likeness:
        """How alike the APIs of the whole catalog are."""
        return Likeness(self.catalog) if self.whole is None else self.whole.likeness

    @cached_property
    def function_likeness(self) -> Likeness:
        """How alike the APIs of the whole catalog are, whatever their servers are called."""
        if self.whole is not None:
            return self.whole.function_likeness
        return Likeness(self.catalog, with_server=False)

    @cached_property
    def _kept(self) -> deque[tuple[Any, tuple[Parties, tuple[str, ...]]]]:
        """Restrictions, and what was made of each."""
        return deque(maxlen=_KEPT)

    @cached_property
    def _holders(self) -> dict[str, list[Contractor]]:
        holders: dict[str, list[Contractor]] = {}
        for contractor in self.contractors:
            for api in contractor.apis:
                holders.setdefault(api.id, []).append(contractor)
        return holders


def _fixed(given: Restriction | None) -> Any:
    """Return a restriction as it stays, where it lists ids; else as it is."""
    if isinstance(given, list):
        return tuple(given)
    return frozenset(given) if isinstance(given, set) else given


def graph_of(router: Router | None) -> TransitionGraph:
    """Return the transition graph of a router; an InputError if it has none."""
    graph = getattr(router, "graph", None)
    if not isinstance(graph, TransitionGraph):
        raise InputError("co-usage needs a router with a transition graph (give a fitted one)")
    return graph
