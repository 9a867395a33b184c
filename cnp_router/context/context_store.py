"""`ContextStore`: where entries are kept as long as they hold; and the one in memory."""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar, Self

from cnp_router import telemetry
from cnp_router.context.context_entry import ContextEntry
from cnp_router.exceptions import ContextStoreError, InputError
from cnp_router.records import check_number

__all__ = ["ContextStore", "MemoryContextStore", "check_whose", "is_whose"]

_LOGGER = logging.getLogger(__name__)
_PAUSE = 10.0  # seconds, at least, between two looks at how full it is
_LONG_PAUSE = 60.0  # where it could not say


class ContextStore(ABC):
    """Where entries of context are kept as long as they hold.

    It may be used from any thread and any event loop. It is also an asynchronous context manager.
    Whatever makes it unusable is a `ContextStoreError`.

    Attributes
    ----------
    kind : str
        What metrics call it.
    """

    kind: ClassVar[str] = "other"
    _next_look = -math.inf
    _is_mute = False

    @abstractmethod
    async def put(self, entry: ContextEntry) -> None:
        """Keep an entry, in the place of one with its id. It is gone when it expires."""

    @abstractmethod
    async def get(self, entry_id: str) -> ContextEntry | None:
        """Return an entry; None if there is none, or it has expired."""

    @abstractmethod
    async def live(self) -> tuple[ContextEntry, ...]:
        """Return all entries that have not expired, oldest first."""

    @abstractmethod
    async def delete(self, *entry_ids: str) -> int:
        """Remove entries, and return how many were there."""

    async def erase(self, *, execution: str | None = None, user: str | None = None) -> int:
        """Remove what is from an execution or of a user, and return how many entries that were.

        Raises
        ------
        InputError
            If neither is named.
        """
        check_whose(execution, user)
        of_them = (e.id for e in await self.live() if is_whose(e, execution, user))
        return await self.delete(*of_them)

    async def usage(self) -> float | None:
        """Return how full it is: 1 is its limit. None where it has none, or does not know."""
        return None

    async def watched(self) -> None:
        """Say now and then how full it is, where anybody wants to know (`telemetry`)."""
        if not telemetry.is_on() or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _PAUSE
        try:
            usage = await self.usage()
        except ContextStoreError as exc:  # it may keep entries, and not say how many
            self._next_look = time.monotonic() + _LONG_PAUSE
            level = logging.DEBUG if self._is_mute else logging.WARNING
            _LOGGER.log(level, "how full the store is cannot be known now: %s", exc)
            self._is_mute = True
            return
        self._is_mute = False
        if usage is not None:
            telemetry.gauge("cnp_router.context.store.usage", usage, {"store": self.kind})

    async def aclose(self) -> None:
        """Let go of what is open. Can be called twice."""
        return  # memory has nothing to close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class MemoryContextStore(ContextStore):
    """Keeps entries in the memory of this process; the oldest go first.

    Parameters
    ----------
    max_entries : int >= 1, default=2,000
    max_bytes : int >= 1, default=67,108,864
        Of all entries as JSON.
    clock : callable, default=time.time
        Seconds since 1970.

    Examples
    --------
    >>> import asyncio
    >>> store = MemoryContextStore(clock=lambda: 1000.0)
    >>> entry = ContextEntry(id="ctx_1", source="weather__today", data="sunny", time=900.0)
    >>> asyncio.run(store.put(entry))
    >>> asyncio.run(store.get("ctx_1"))
    ContextEntry('ctx_1', 'weather__today', private)
    """

    kind = "memory"

    def __init__(
        self,
        *,
        max_entries: int = 2_000,
        max_bytes: int = 67_108_864,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_entries = check_number("max_entries", max_entries, 1, whole=True)
        self.max_bytes = check_number("max_bytes", max_bytes, 1, whole=True)
        self._clock = clock
        self._kept: OrderedDict[str, tuple[ContextEntry, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    async def put(self, entry: ContextEntry) -> None:
        """Keep an entry."""
        size = len(entry.to_json())
        with self._lock:
            self._remove(entry.id)
            if size <= self.max_bytes:
                self._kept[entry.id] = entry, size
                self._size += size
            self._expire()
            while len(self._kept) > self.max_entries or self._size > self.max_bytes:
                self._remove(next(iter(self._kept)))

    async def get(self, entry_id: str) -> ContextEntry | None:
        """Return an entry that has not expired."""
        with self._lock:
            entry, _ = self._kept.get(entry_id, (None, 0))
        return entry if entry is not None and entry.is_live(self._clock()) else None

    async def live(self) -> tuple[ContextEntry, ...]:
        """Return all entries that have not expired."""
        with self._lock:
            self._expire()
            return tuple(entry for entry, _ in self._kept.values())

    async def delete(self, *entry_ids: str) -> int:
        """Remove entries."""
        with self._lock:
            return sum(self._remove(each) for each in entry_ids)

    async def usage(self) -> float:
        """Return the larger of its entries and its bytes, by their limits; none has expired."""
        with self._lock:
            self._expire()
            return float(max(len(self._kept) / self.max_entries, self._size / self.max_bytes))

    def _expire(self) -> None:
        now = self._clock()
        for name in [name for name, (entry, _) in self._kept.items() if not entry.is_live(now)]:
            self._remove(name)

    def _remove(self, entry_id: str) -> bool:
        found = self._kept.pop(entry_id, None)
        self._size -= 0 if found is None else found[1]
        return found is not None

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"MemoryContextStore({len(self._kept):,} entries)"


def check_whose(execution: str | None, user: str | None) -> None:
    """Raise InputError where nobody is named: not everything is meant."""
    if not execution and not user:
        raise InputError("say whose context is to be erased: execution= or user=")


def is_whose(entry: ContextEntry, execution: str | None, user: str | None) -> bool:
    """Whether an entry is from an execution, of a user, or both where both are named."""
    return execution in (None, "", entry.execution) and user in (None, "", entry.user)
