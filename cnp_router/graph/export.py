"""A transition graph for other tools: networkx, and files that Gephi and its like read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from cnp_router.exceptions import InputError
from cnp_router.files import atomic_write
from cnp_router.graph.counting import at_least
from cnp_router.graph.transitions import TransitionGraph
from cnp_router.records import check_number

if TYPE_CHECKING:
    import networkx

__all__ = ["export_graph", "to_networkx", "xml_text"]

# https://www.w3.org/TR/xml/#charsets: everything else cannot be in an XML 1.0 document at all.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_networkx(
    graph: TransitionGraph,
    *,
    min_count: int = 1,
    around: Iterable[str] | None = None,
    hops: int = 1,
    max_nodes: int | None = None,
) -> networkx.Graph:
    """Build a networkx graph.

    Parameters
    ----------
    graph : TransitionGraph
        Fitted.
    min_count : int, default=1
        Leave out edges counted fewer times.
    around : iterable of str, optional
        Only these APIs and those within `hops` edges of them. Without it, every API, also those
        without an edge.
    hops : int, default=1
    max_nodes : int, optional
        Only the strongest so many. `around` is always among them; then nearer hops come first, then
        the larger total count of the edges to the hop before, then usage, then id.

    Returns
    -------
    networkx.Graph, or networkx.DiGraph if the graph is directed
        Nodes are API ids, in the order of ``apis_``, with ``name`` and ``usage``, and, where the
        catalog tells, ``categories`` (joined by ``"; "``). Edges have ``count`` and ``weight``:
        the transition probability, or, undirected, the mean of those of both directions. All
        values are plain str, int or float.

    Raises
    ------
    InputError
        If a number is out of its range, `around` is empty or a single string, or `max_nodes` does
        not even hold the APIs in the middle.
    UnknownApiError, NotFittedError

    Examples
    --------
    >>> from cnp_router.history import History, Mashup
    >>> network = to_networkx(TransitionGraph().fit(History([
    ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
    ...     Mashup("m2", "Rain by text", ("sms", "weather")),
    ... ])), around=["maps"])
    >>> list(network.nodes), network.edges["maps", "weather"]["count"]
    (['maps', 'weather'], 1)
    """
    import networkx as nx

    graph.check_fitted()
    check_number("min_count", min_count, 1, whole=True)
    edges = at_least(min_count, graph.edges_)
    shown = sorted(_shown(graph, edges, around, hops, max_nodes))
    ids = [graph.apis_[position] for position in shown]
    network = nx.DiGraph() if graph.directed else nx.Graph()
    for position, api in zip(shown, ids, strict=True):
        network.add_node(api, **_node(graph, api, int(graph.usage_[position])))
    weights = graph.transition_ if graph.directed else (graph.transition_ + graph.transition_.T) / 2
    weight_of = _entries(weights.tocsr()[shown][:, shown])
    for (row, column), count in _entries(edges[shown][:, shown]).items():
        if graph.directed or row < column:
            weight = float(weight_of.get((row, column), 0.0))
            network.add_edge(ids[row], ids[column], count=int(count), weight=weight)
    return network


def export_graph(
    graph: TransitionGraph,
    path: str | Path,
    *,
    format: str | None = None,
    **part: Any,
) -> None:
    """Write the graph to a file, atomically.

    Parameters
    ----------
    graph : TransitionGraph
        Fitted.
    path : str or Path
    format : {"graphml", "gexf", "json"}, optional
        GraphML, GEXF, or networkx's node-link JSON (with the edges under ``"edges"``). Without
        it, the ending of `path` decides.
    **part
        `min_count`, `around`, `hops` and `max_nodes`, as in `to_networkx`.

    Raises
    ------
    InputError
        If the format cannot be told.
    DataFileError
        If the place cannot be written.
    UnknownApiError, NotFittedError

    Notes
    -----
    Attributes are those of `to_networkx`. GraphML and GEXF get the name as ``label`` too, which
    is what Gephi shows. Characters that XML 1.0 does not allow are taken out of texts
    there, and carriage returns become line feeds; JSON keeps every character.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from cnp_router.history import History, Mashup
    >>> graph = TransitionGraph().fit(History([
    ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
    ... ]))
    >>> file = pathlib.Path(tempfile.mkdtemp(), "graph.json")
    >>> export_graph(graph, file)
    >>> json.loads(file.read_text())["edges"]
    [{'source': 'maps', 'target': 'weather', 'count': 1, 'weight': 1.0}]
    """
    names = ", ".join(map(repr, _FORMATS))
    chosen = format or Path(path).suffix.lower().removeprefix(".")
    if chosen not in _FORMATS and format is not None:
        raise InputError(f"unknown format {format!r} (use one of {names})")
    if chosen not in _FORMATS:
        raise InputError(
            f"cannot tell the format of {str(path)!r} from its ending "
            f"(end it in .graphml, .gexf or .json, or give a format: one of {names})"
        )
    network = to_networkx(graph, **part)
    with atomic_write(path, "wb") as out:
        _FORMATS[chosen](network, out)


def xml_text(text: str) -> str:
    r"""Return the text without the characters that XML 1.0 does not allow.

    Examples
    --------
    >>> xml_text("Bell\x07 \ud800Ünï")
    'Bell Ünï'
    """
    return _NOT_XML.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def _shown(
    graph: TransitionGraph,
    edges: csr_array,
    around: Iterable[str] | None,
    hops: int,
    max_nodes: int | None,
) -> list[int]:
    """Return the positions of the APIs to show, the most important first."""
    if isinstance(around, str):
        raise InputError(f"around must be a list of API ids, got the string {around!r}")
    check_number("hops", hops, 0, whole=True)
    middle = None if around is None else [graph.position(api) for api in dict.fromkeys(around)]
    if middle == []:
        raise InputError("around must name at least one API (or leave it out for all)")
    if max_nodes is not None:
        check_number("max_nodes", max_nodes, 1 if middle is None else len(middle), whole=True)
    ranks = graph.tie_ranks
    if middle is None:
        return list(np.argsort(ranks)[:max_nodes])
    both_ways = (edges + edges.T).tocsr() if graph.directed else edges
    shown, frontier = list(middle), middle
    for _ in range(hops):
        strength = np.asarray(both_ways[frontier].sum(axis=0))
        strength[shown] = 0
        reached = np.flatnonzero(strength)
        frontier = reached[np.lexsort((ranks[reached], -strength[reached]))].tolist()
        shown += frontier
        if not frontier or (max_nodes is not None and len(shown) >= max_nodes):
            break
    return shown[:max_nodes]


def _node(graph: TransitionGraph, api: str, usage: int) -> dict[str, str | int]:
    if graph.catalog_ is None:
        return {"name": api, "usage": usage}
    entry = graph.catalog_[api]
    attributes: dict[str, str | int] = {"name": entry.name or api, "usage": usage}
    # GraphML cannot tell an empty text from a missing one, so no format gets an empty one.
    if any(entry.categories):
        attributes["categories"] = "; ".join(entry.categories)
    return attributes


def _entries(matrix: csr_array) -> dict[tuple[int, int], float]:
    entries = matrix.tocoo()
    pairs = zip(entries.row.tolist(), entries.col.tolist(), strict=True)
    return dict(zip(pairs, entries.data.tolist(), strict=True))


def _write_graphml(network: networkx.Graph, out: IO[bytes]) -> None:
    import networkx as nx

    # Not nx.write_graphml: that one writes differently where lxml happens to be installed.
    nx.write_graphml_xml(_for_xml(network), out)


def _write_gexf(network: networkx.Graph, out: IO[bytes]) -> None:
    import networkx as nx

    nx.write_gexf(_for_xml(network), out)


def _write_json(network: networkx.Graph, out: IO[bytes]) -> None:
    # By hand: networkx renamed the key of the edges between the versions we support.
    document = {
        "directed": network.is_directed(),
        "multigraph": False,
        "graph": {},
        "nodes": [{"id": api, **attributes} for api, attributes in network.nodes(data=True)],
        "edges": [{"source": a, "target": b, **data} for a, b, data in network.edges(data=True)],
    }
    out.write((json.dumps(document, indent=1) + "\n").encode())


def _for_xml(network: networkx.Graph) -> networkx.Graph:
    clean = network.copy()
    for _, attributes in clean.nodes(data=True):
        texts = {key: value for key, value in attributes.items() if isinstance(value, str)}
        attributes.update({key: xml_text(text) for key, text in texts.items()})
        attributes["label"] = attributes["name"]
    return clean


_FORMATS: dict[str, Callable[[Any, IO[bytes]], None]] = {
    "graphml": _write_graphml,
    "gexf": _write_gexf,
    "json": _write_json,
}
