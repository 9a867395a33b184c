"""How APIs are organised into contractors: one each, by category, community or size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, get_args

from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import InputError
from cnp_router.graph import TransitionGraph, to_networkx
from cnp_router.records import check_id

__all__ = ["Organisation", "organise"]

Organisation = Literal["api", "category", "community", "size"]

_NO_CATEGORY = "(no category)"


def organise(
    catalog: Catalog,
    by: Organisation = "api",
    *,
    graph: TransitionGraph | None = None,
    max_size: int | None = None,
) -> tuple[Contractor, ...]:
    """Organise a catalog into contractors. Each API is held by exactly one.

    Parameters
    ----------
    catalog : Catalog
    by : {"api", "category", "community", "size"}, default="api"
        ``"api"``: one API each. ``"category"``: by the first category of an API, which is its
        main one. ``"community"``: by communities of co-usage (Louvain, modularity; Blondel et
        al., 2008); APIs that were never used with another are organised by category. ``"size"``:
        APIs sorted by category, `max_size` to a contractor.
    graph : TransitionGraph, optional
        Fitted; needed for communities.
    max_size : int, optional
        The most APIs a contractor may hold; larger groups are split. Needed for ``"size"``.

    Returns
    -------
    tuple of Contractor

    Raises
    ------
    InputError
        If `by` is unknown, or what it needs is missing.

    Examples
    --------
    >>> catalog = Catalog([Api("maps", "Maps", categories=("Mapping",)), Api("sms", "SMS"),
    ...                    Api("places", "Places", categories=("Mapping", "Travel"))])
    >>> [(c.id, [api.id for api in c.apis]) for c in organise(catalog, "category")]
    [('category: Mapping', ['maps', 'places']), ('category: (no category)', ['sms'])]
    """
    if by not in get_args(Organisation):
        choices = ", ".join(map(repr, get_args(Organisation)))
        raise InputError(f"unknown organisation {by!r} (use one of {choices})")
    if max_size is not None and max_size < 1:
        raise InputError(f"max_size must be at least 1, got {max_size!r}")
    if by == "api":
        return tuple(Contractor(api.id, (api,)) for api in catalog)
    if by == "category":
        return _contractors(_by_category(catalog), max_size)
    if by == "size":
        if max_size is None:
            raise InputError("organising by size needs the size (give max_size, or --max-size)")
        everything = [api for apis in _by_category(catalog).values() for api in apis]
        return _contractors({"group": everything}, max_size)
    if graph is None:
        raise InputError("organising by community needs a fitted transition graph (give graph)")
    return _contractors(_by_community(catalog, graph), max_size)


def _by_category(apis: Iterable[Api]) -> dict[str, list[Api]]:
    groups: dict[str, list[Api]] = defaultdict(list)
    for api in apis:
        groups[f"category: {api.categories[0] if api.categories else _NO_CATEGORY}"].append(api)
    return groups


def _by_community(catalog: Catalog, graph: TransitionGraph) -> dict[str, list[Api]]:
    import networkx as nx

    co_usage = nx.Graph()
    network = to_networkx(graph)
    for left, right, weight in network.edges(data="count"):
        if left != right and left in catalog and right in catalog:
            co_usage.add_edge(left, right, weight=weight)
    communities = nx.community.louvain_communities(co_usage, seed=0) if co_usage else []
    ordered = sorted(
        (sorted(members, key=catalog.position) for members in communities),
        key=lambda members: (-len(members), catalog.position(members[0])),
    )
    groups = {
        f"community {number}": [catalog[name] for name in members]
        for number, members in enumerate(ordered, 1)
    }
    return groups | _by_category(api for api in catalog if api.id not in co_usage)


def _contractors(groups: dict[str, list[Api]], max_size: int | None) -> tuple[Contractor, ...]:
    contractors: dict[str, Contractor] = {}
    for place, (title, apis) in enumerate(groups.items(), 1):
        try:  # an id may hold less than the name of a category
            name = check_id("contractor", " ".join(title.split()))
        except InputError:
            name = f"group {place}"
        size = max_size or len(apis)
        parts = [apis[i : i + size] for i in range(0, len(apis), size)]
        for number, part in enumerate(parts, 1):
            own = name if len(parts) == 1 else f"{name} ({number})"
            while own in contractors:  # a category may be called "Mapping (2)"
                own += "'"
            contractors[own] = Contractor(own, tuple(part))
    return tuple(contractors.values())
