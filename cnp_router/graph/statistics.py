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
    """The size and shape of a transition graph."""

    n_apis: int  # all that the graph knows of
    n_used: int  # those in at least one mashup; the rest are cold
    n_edges: int  # between two APIs; a pair counts once if undirected, once each way if directed
    n_loops: int  # APIs that follow themselves (directed only)
    density: float  # n_edges out of the edges possible among the used APIs, in [0, 1]
    isolated: int  # used APIs without an edge to another
    mean_degree: float  # edges per used API (in and out together if directed)
    components: int  # (weakly) connected parts among the used APIs; an isolated one is a part
    largest_component: int  # how many APIs the largest part has


def statistics(usage: NDArray[Any], edges: csr_array, *, directed: bool) -> GraphStatistics:
    """Describe a graph of counts; `edges` are symmetric if it is not directed."""
    from scipy.sparse.csgraph import connected_components  # routing, which comes here, needs none

    rows, columns = edges.nonzero()
    apart = rows != columns
    between = int(apart.sum())
    used = np.flatnonzero(usage > 0)
    pairs = len(used) * (len(used) - 1)
    components, labels = connected_components(edges[used][:, used], directed=directed)
    return GraphStatistics(
        n_apis=len(usage),
        n_used=len(used),
        n_edges=between if directed else between // 2,
        n_loops=len(rows) - between,
        density=between / pairs if pairs else 0.0,
        isolated=len(used) - len(np.union1d(rows[apart], columns[apart])),
        mean_degree=(2 * between if directed else between) / max(len(used), 1),
        components=int(components),
        largest_component=int(np.bincount(labels).max(initial=0)),
    )
