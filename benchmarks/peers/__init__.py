"""Other libraries that rank APIs for a request, each in one file and registered here.

They are measured where they are installed: ``pip install --group peers``. `PEERS` says which file
needs which package.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from benchmarks.peers.peer import FittedPeer, Peer
from cnp_router.catalog import Catalog
from cnp_router.history import History

__all__ = [
    "PEERS",
    "Entry",
    "FittedPeer",
    "Peer",
    "absence",
    "build",
    "fitted",
    "measurable",
    "usual",
]


@dataclass(frozen=True)
class Entry:
    """Where a peer is, a class in a module, and what it needs."""

    module: str
    name: str
    packages: tuple[str, ...]
    needs_vectors: bool = False
    needs_history: bool = True
    slow: bool = False  # measured only where it is asked for by name


PEERS: dict[str, Entry] = {
    "PECOS XR-Linear": Entry("benchmarks.peers.pecos", "XRLinear", ("pecos",)),
    "semantic-router": Entry(
        "benchmarks.peers.semantic_routes",
        "SemanticRoutes",
        ("semantic_router",),
        needs_vectors=True,
        needs_history=False,
    ),
    "bm25s": Entry("benchmarks.peers.bm25", "Bm25s", ("bm25s", "Stemmer"), needs_history=False),
    "scikit-learn kNN": Entry("benchmarks.peers.neighbours", "Neighbours", ("sklearn",)),
    "embedding search": Entry(
        "benchmarks.peers.embeddings",
        "EmbeddingSearch",
        ("numpy",),
        needs_vectors=True,
        needs_history=False,
    ),
    "langgraph-bigtool": Entry(
        "benchmarks.peers.tool_store",
        "ToolStore",
        ("langgraph_bigtool",),
        needs_vectors=True,
        needs_history=False,
    ),
    "toolrank": Entry(
        "benchmarks.peers.tool_rank", "Toolrank", ("toolrank", "Stemmer"), needs_history=False
    ),
    "toolrank with vectors": Entry(
        "benchmarks.peers.tool_rank",
        "Toolrank",
        ("toolrank", "Stemmer"),
        needs_vectors=True,
        needs_history=False,
    ),
    "graph-tool-call": Entry(
        "benchmarks.peers.tool_graph",
        "GraphToolCall",
        ("graph_tool_call",),
        needs_history=False,
        slow=True,
    ),
    "graph-tool-call with vectors": Entry(
        "benchmarks.peers.tool_graph",
        "GraphToolCall",
        ("graph_tool_call",),
        needs_vectors=True,
        needs_history=False,
        slow=True,
    ),
}


def usual() -> list[str]:
    """Return the peers that are measured where none is named, and print which are too slow."""
    for name in (name for name, entry in PEERS.items() if entry.slow):
        print(f"{name}: slow, so measured by `quality --only` alone.")
    return [name for name, entry in PEERS.items() if not entry.slow]


def measurable(names: Iterable[str], *, has_vectors: bool) -> list[str]:
    """Return those of the peers that can be measured here, and print why others cannot."""
    absent = {name: absence(name, has_vectors=has_vectors) for name in names}
    for name, why in absent.items():
        if why:
            print(f"{name}: {why}.")
    return [name for name, why in absent.items() if not why]


def absence(name: str, *, has_vectors: bool) -> str | None:
    """Return why a peer cannot be measured here; None if it can."""
    entry = PEERS[name]
    if not all(map(importlib.util.find_spec, entry.packages)):
        return "not installed (pip install --group peers)"
    return "needs --vectors" if entry.needs_vectors and not has_vectors else None


def build(name: str, vectors: Mapping[str, NDArray[Any]] | None) -> Peer:
    """Return a peer that has not learned anything yet; its package must be installed."""
    entry = PEERS[name]
    kind = getattr(importlib.import_module(entry.module), entry.name)
    peer: Peer = kind(vectors) if entry.needs_vectors else kind()
    return peer


def fitted(
    name: str, catalog: Catalog, history: History, vectors: Mapping[str, NDArray[Any]] | None
) -> tuple[FittedPeer, float]:
    """Return a peer that has learned a history, and the seconds that its own fit took."""
    peer = build(name, vectors)
    start = time.perf_counter()
    peer.fit(catalog, history)
    seconds = time.perf_counter() - start
    return FittedPeer(peer, lambda: build(name, vectors), catalog, history), seconds
