"""The size and shape of a transition graph, and how much of a history it foretells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup

if TYPE_CHECKING:
    from cnp_router.graph.transitions import TransitionGraph

__all__ = ["Coverage", "GraphStatistics", "coverage", "statistics"]


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


@dataclass(frozen=True, slots=True)
class Coverage:
    """The share of composition steps that a graph foretells.

    Parameters
    ----------
    ks : tuple of int
        The list lengths asked for, ascending.
    shares : tuple of float in [0, 1]
        For each of `ks`, `foretold` out of `steps` (0 without steps).
    foretold : tuple of int
        For each of `ks`, the steps whose API was among the first so many.
    steps : int
        Every step asked about.
    mashups : int
        The mashups they come from.
    unknown : int
        Steps whose API the graph does not know. They count as missed.

    Examples
    --------
    >>> Coverage((1, 5), (0.25, 0.5), (1, 2), steps=4, mashups=2, unknown=1).at(5)
    0.5
    """

    ks: tuple[int, ...]
    shares: tuple[float, ...]
    foretold: tuple[int, ...]
    steps: int
    mashups: int
    unknown: int

    def at(self, k: int) -> float:
        """Return the share for one of `ks`.

        Raises
        ------
        InputError
            If coverage was not measured at `k`.
        """
        if k not in self.ks:
            raise InputError(f"coverage was measured at k in {self.ks}, not at {k!r}")
        return self.shares[self.ks.index(k)]


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
    >>> from cnp_router.history import Mashup
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


def coverage(
    graph: TransitionGraph, history: History, *, k: int | Sequence[int] = (1, 3, 5, 10)
) -> Coverage:
    """Measure how often the graph foretells the API that was in fact used.

    Undirected: of each mashup with at least two APIs, each API is left out in turn and looked for
    among the first `k` given the others. Directed: of each ordered mashup, each API after the
    first is looked for among the first `k` given the ones before it. Known APIs that the graph
    does not know are passed over; an unknown API that is looked for counts as missed.

    Parameters
    ----------
    graph : TransitionGraph
        Fitted, on other mashups: on its own history it flatters itself.
    history : History
        Held out.
    k : int or sequence of int, default=(1, 3, 5, 10)

    Returns
    -------
    Coverage

    Raises
    ------
    InputError
        If a `k` is below 1, or there is none.

    Examples
    --------
    >>> from cnp_router.graph import TransitionGraph
    >>> past = History([
    ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
    ...     Mashup("m2", "Photos on a map", ("maps", "photos")),
    ...     Mashup("m3", "Rain where you are", ("maps", "weather")),
    ... ])
    >>> held_out = History([Mashup("m4", "Snow on a map", ("maps", "weather"))])
    >>> coverage(TransitionGraph().fit(past), held_out, k=1)
    Coverage(ks=(1,), shares=(1.0,), foretold=(2,), steps=2, mashups=1, unknown=0)
    """
    ks = tuple(sorted({k} if isinstance(k, int) else set(k)))
    if not ks or ks[0] < 1:
        raise InputError(f"k must be at least 1, got {k!r}")
    positions = {api: position for position, api in enumerate(graph.apis_)}
    foretold = np.zeros(len(ks), dtype=np.int64)
    steps = mashups = unknown = 0
    for mashup in history:
        before = steps
        for known, wanted in _steps(mashup, directed=graph.directed):
            steps += 1
            if wanted not in positions:
                unknown += 1
                continue
            evidence = [positions[api] for api in known if api in positions]
            first = graph.ranked(graph.scores(evidence))[: ks[-1]]
            rank = np.flatnonzero(first == positions[wanted])
            if rank.size:
                foretold += np.asarray(ks) > rank[0]
        mashups += steps > before
    return Coverage(
        ks=ks,
        shares=tuple(float(hits) / max(steps, 1) for hits in foretold),
        foretold=tuple(int(hits) for hits in foretold),
        steps=steps,
        mashups=mashups,
        unknown=unknown,
    )


def _steps(mashup: Mashup, *, directed: bool) -> Iterator[tuple[Sequence[str], str]]:
    if not directed:
        apis = sorted(set(mashup.apis))
        for position, wanted in enumerate(apis if len(apis) > 1 else ()):
            yield apis[:position] + apis[position + 1 :], wanted
    elif mashup.ordered:
        for position in range(1, len(mashup.apis)):
            yield mashup.apis[:position], mashup.apis[position]
