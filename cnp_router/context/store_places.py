"""`store_at`: the store of context that a text names, as an option of a command does."""

from __future__ import annotations

from cnp_router.context.context_redis import RedisContextStore
from cnp_router.context.context_sqlite import SqliteContextStore
from cnp_router.context.context_store import ContextStore, MemoryContextStore
from cnp_router.exceptions import InputError
from cnp_router.records import shown

__all__ = ["store_at"]

_REDIS = ("redis://", "rediss://")


def store_at(place: str) -> ContextStore:
    """Return the store at a place.

    Parameters
    ----------
    place : str
        ``"memory"``; the URL of a Redis server, ``redis://`` or ``rediss://``; or the path of a
        file, which is made if it does not exist.

    Raises
    ------
    InputError, MissingExtraError, ContextStoreError
        If there cannot be one.

    Examples
    --------
    >>> store_at("memory"), store_at("redis://127.0.0.1:6379/0")
    (MemoryContextStore(0 entries), RedisContextStore('redis://127.0.0.1:6379/0'))
    """
    if not isinstance(place, str) or not place.strip():
        raise InputError(f"name a store: memory, redis://... or a file, got {shown(place)}")
    if place == "memory":
        return MemoryContextStore()
    if place.startswith(_REDIS):
        return RedisContextStore(place)
    if "://" in place:
        scheme = place.partition("://")[0]
        raise InputError(
            f"there is no store of kind {shown(scheme)} (use redis://, rediss:// or a file)"
        )
    return SqliteContextStore(place)
