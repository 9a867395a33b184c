"""The size and shape of a transition graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["GraphStatistics", "statistics"]


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """The size and shape of a transition graph.

    Parameters
    ----------
    n_apis : int
        All APIs the graph knows of.
    n_used : int
        Those in at least one mashup. The rest are cold.
    n_edges : int
        Edges between two APIs; a pair counts once if undirected, once each way if directed.
    n_loops : int
        APIs that follow themselves (directed only).
    density : float in [0, 1]
        `n_edges` out of the edges possible among the used APIs.
    isolated : int
        Used APIs without an edge to another.
    mean_degree : float
        Edges per used API (in and out together if directed).
    components : int
        Connected parts (weakly, if directed) among the used APIs; an isolated one is a part.
    largest_component : int
        How many APIs the largest part has.
    """

    n_apis: int
    n_used: int
    n_edges: int
    n_loops: int
    density: float
    isolated: int
    mean_degree: float
    components: int
    largest_component: int


def statistics(usage: NDArray[Any], edges: csr_array, *, directed: bool) -> GraphStatistics:
    """Describe a graph of counts.

    Parameters
    ----------
    usage : ndarray of shape (n,), int
    edges : csr_array of shape (n, n), symmetric if not `directed`
    directed : bool

    Examples
    --------
    >>> from cnp_router.graph import TransitionGraph
    >>> from cnp_router.history import History, Mashup
    >>> history = History([
    ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
    ...     Mashup("m2", "Photos on a map", ("maps", "photos")),
    ...     Mashup("m3", "Rain where you are, by text", ("maps", "weather", "sms")),
    ...     Mashup("m4", "Say it aloud", ("speech",)),
    ... ])
    >>> found = TransitionGraph().fit(history).statistics()
    >>> found.n_edges, found.isolated, found.components, found.largest_component
    (4, 1, 2, 4)
    """
    from scipy.sparse.csgraph import connected_components  # routing, which comes here, needs none

    entries = edges.tocoo()
    apart = entries.row != entries.col
    between = int(apart.sum())
    loops = len(entries.data) - between
    used = np.flatnonzero(usage > 0)
    pairs = len(used) * (len(used) - 1)
    linked = np.union1d(entries.row[apart], entries.col[apart])
    components, labels = connected_components(edges[used][:, used], directed=directed)
    return GraphStatistics(
        n_apis=len(usage),
        n_used=len(used),
        n_edges=between if directed else between // 2,
        n_loops=loops,
        density=between / pairs if pairs else 0.0,
        isolated=len(used) - len(linked),
        mean_degree=(2 * between if directed else between) / max(len(used), 1),
        components=int(components),
        largest_component=int(np.bincount(labels).max(initial=0)),
    )
