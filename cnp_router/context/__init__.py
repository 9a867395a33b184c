"""What was found out already: shared between jobs, executions and processes, within its class."""

from cnp_router.context.canonical import canonical
from cnp_router.context.context_entry import ContextEntry
from cnp_router.context.context_redis import RedisContextStore
from cnp_router.context.context_sqlite import SqliteContextStore
from cnp_router.context.context_store import ContextStore, MemoryContextStore
from cnp_router.context.context_vectors import ContextVectors, DenseVectors, SparseVectors
from cnp_router.context.data_classes import DataClasses
from cnp_router.context.memory import Memory, MemoryItem
from cnp_router.context.shared_context import Found, SharedContext
from cnp_router.context.store_places import store_at
from cnp_router.context.thresholds import (
    AdaptiveThreshold,
    FixedThreshold,
    QuantileThreshold,
    Threshold,
)
from cnp_router.context.turns import Compressed, Turn, compress, cut, selective

__all__ = [
    "AdaptiveThreshold",
    "Compressed",
    "ContextEntry",
    "ContextStore",
    "ContextVectors",
    "DataClasses",
    "DenseVectors",
    "FixedThreshold",
    "Found",
    "Memory",
    "MemoryContextStore",
    "MemoryItem",
    "QuantileThreshold",
    "RedisContextStore",
    "SharedContext",
    "SparseVectors",
    "SqliteContextStore",
    "Threshold",
    "Turn",
    "canonical",
    "compress",
    "cut",
    "selective",
    "store_at",
]
