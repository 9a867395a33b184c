"""The index of vectors beside comparing with all of them, on synthetic vectors in topics."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.linear import times_vector
from cnp_router.training.vector_index import VectorIndex, unit_vectors
from cnp_router.training.views.columns import Found

__all__ = ["vectors"]

_TOPICS = 2_000
_SPREAD = 1.0  # of the vectors around their topic, which has the length 1
_NEAREST = 40
_AT_ONCE = 10_000


def vectors(n: int, dimensions: int, seed: int, asked: int) -> dict[str, Any]:
    """Make the index of so many vectors, and look for those nearest to requests like them."""
    rng = np.random.default_rng(seed)
    topics = unit_vectors(rng.normal(size=(_TOPICS, dimensions)))
    known = np.empty((n, dimensions), dtype=np.float32)
    for begin in range(0, n, _AT_ONCE):
        known[begin : begin + _AT_ONCE] = _drawn(topics, min(_AT_ONCE, n - begin), rng)
    requests = _drawn(topics, asked, rng)
    began = time.perf_counter()
    index = VectorIndex.of(known)
    making = time.perf_counter() - began
    every, few, found = [], [], []
    for request in requests:
        began = time.perf_counter()
        all_ = times_vector(known, request)
        nearest = np.argpartition(all_, -_NEAREST)[-_NEAREST:]
        between = time.perf_counter()
        _, rows, _ = Found(index.products(request[None], known)).best(_NEAREST)
        few.append(time.perf_counter() - between)
        every.append(between - began)
        found.append(len(np.intersect1d(nearest, rows)) / _NEAREST)
    return {
        "vectors": n,
        "dimensions": dimensions,
        "making_seconds": making,
        "all_ms": 1000 * float(np.median(every)),
        "index_ms": 1000 * float(np.median(few)),
        "recall@40": float(np.mean(found)),
    }


def _drawn(topics: NDArray[np.float32], n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return vectors of length 1 around topics that are used by Zipf's law."""
    share = 1 / np.arange(1, len(topics) + 1)
    chosen = rng.choice(len(topics), n, p=share / share.sum())
    noise = rng.normal(scale=_SPREAD / np.sqrt(topics.shape[1]), size=(n, topics.shape[1]))
    return unit_vectors(topics[chosen] + noise)
