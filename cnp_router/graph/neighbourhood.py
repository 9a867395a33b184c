"""Which APIs of a transition graph to show: all, the most used, or those around some."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cnp_router.exceptions import InputError
from cnp_router.graph.transitions import TransitionGraph

__all__ = ["neighbourhood"]


def neighbourhood(
    graph: TransitionGraph,
    edges: csr_array,
    around: Iterable[str] | None = None,
    *,
    hops: int = 1,
    max_nodes: int | None = None,
) -> NDArray[np.intp]:
    """Return the positions of the APIs to show, the most important first.

    Parameters
    ----------
    graph : TransitionGraph
        Fitted.
    edges : csr_array of shape (n_apis, n_apis)
        The edges to follow, in either direction.
    around, hops, max_nodes
        As in `cnp_router.graph.to_networkx`.

    Returns
    -------
    ndarray of shape (n_shown,)

    Raises
    ------
    InputError
        If `around` is empty or a single string, `hops` is negative, or `max_nodes` does not even
        hold the APIs in the middle.
    UnknownApiError
        If the graph does not have one of the ids.

    Examples
    --------
    >>> from cnp_router.history import History, Mashup
    >>> graph = TransitionGraph().fit(History([
    ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
    ...     Mashup("m2", "Photos on a map", ("maps", "photos")),
    ...     Mashup("m3", "Rain where you are", ("maps", "weather")),
    ... ]))
    >>> shown = neighbourhood(graph, graph.edges_, ["maps"], max_nodes=2)
    >>> [graph.apis_[position] for position in shown]
    ['maps', 'weather']
    """
    if isinstance(around, str):
        raise InputError(f"around must be a list of API ids, got the string {around!r}")
    if hops < 0:
        raise InputError(f"hops must be at least 0, got {hops!r}")
    middle = None if around is None else [graph.position(api) for api in dict.fromkeys(around)]
    if middle == []:
        raise InputError("around must name at least one API (or leave it out for all)")
    least = 1 if middle is None else len(middle)
    if max_nodes is not None and max_nodes < least:
        raise InputError(f"max_nodes must be at least {least}, got {max_nodes!r}")
    ranks = graph.tie_ranks
    if middle is None:
        return np.argsort(ranks)[:max_nodes]
    both_ways = (edges + edges.T).tocsr() if graph.directed else edges
    shown, frontier = list(middle), list(middle)
    for _ in range(hops):
        strength = np.asarray(both_ways[frontier].sum(axis=0))
        strength[shown] = 0
        reached = np.flatnonzero(strength)
        frontier = reached[np.lexsort((ranks[reached], -strength[reached]))].tolist()
        shown += frontier
        if not frontier or (max_nodes is not None and len(shown) >= max_nodes):
            break
    return np.asarray(shown[:max_nodes], dtype=np.intp)
