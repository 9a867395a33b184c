"""Other libraries that rank APIs for a request, each in one file and registered here.

They are measured where they are installed: ``pip install --group peers``. `PEERS` says which file
needs which package.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from benchmarks.peers.peer import FittedPeer, Peer, PeerFigures

__all__ = ["PEERS", "Entry", "FittedPeer", "Peer", "PeerFigures", "absence", "build"]


@dataclass(frozen=True)
class Entry:
    """Where a peer is: its class, and the package that it needs."""

    module: str
    name: str
    package: str
    needs_vectors: bool = False


PEERS: dict[str, Entry] = {
    "PECOS XR-Linear": Entry("benchmarks.peers.pecos", "XRLinear", "pecos"),
    "semantic-router": Entry(
        "benchmarks.peers.semantic_routes", "SemanticRoutes", "semantic_router", needs_vectors=True
    ),
    "bm25s": Entry("benchmarks.peers.bm25", "Bm25s", "bm25s"),
    "scikit-learn kNN": Entry("benchmarks.peers.neighbours", "Neighbours", "sklearn"),
}


def absence(name: str, *, has_vectors: bool) -> str | None:
    """Return why a peer cannot be measured here; None if it can."""
    entry = PEERS[name]
    if importlib.util.find_spec(entry.package) is None:
        return "not installed"
    return "needs --vectors" if entry.needs_vectors and not has_vectors else None


def build(name: str, vectors: Mapping[str, NDArray[Any]] | None) -> Peer:
    """Return a peer that has not learned anything yet; its package must be installed."""
    entry = PEERS[name]
    kind = getattr(importlib.import_module(entry.module), entry.name)
    peer: Peer = kind(vectors) if entry.needs_vectors else kind()
    return peer
