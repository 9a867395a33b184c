"""`SqliteContextStore`: context in a file, for the processes of one machine."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from cnp_router.context.context_entry import ContextEntry
from cnp_router.context.context_store import ContextStore, check_whose
from cnp_router.context.sqlite_file import SqliteFile
from cnp_router.exceptions import InputError
from cnp_router.files import as_path
from cnp_router.records import check_number

__all__ = ["SqliteContextStore"]

_SCHEMA = (
    "CREATE TABLE entries (id TEXT PRIMARY KEY, user TEXT NOT NULL, execution TEXT NOT NULL, "
    "time REAL NOT NULL, expires REAL NOT NULL, size INTEGER NOT NULL, content BLOB NOT NULL)",
)
_PUT = "REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_OLDEST = "DELETE FROM entries WHERE id = (SELECT id FROM entries ORDER BY time, id LIMIT 1)"
_TAKEN = "SELECT count(*), coalesce(sum(size), 0) FROM entries WHERE expires > ?"
_CURE = "name another file, or remove this one: context can be found out again"


class SqliteContextStore(ContextStore):
    """Keeps entries in a file that only its owner may read; the oldest go first.

    Several threads and processes of one machine may use it at once. What is erased is gone from
    the bytes of the file.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist; its folder must.
    max_entries : int >= 1, default=2,000
    max_bytes : int >= 1, default=67,108,864
        Of all entries as JSON.
    busy : float, seconds, default=5.0
        How long to wait for another process that writes.
    clock : callable, default=time.time
        Seconds since 1970.

    Raises
    ------
    ContextStoreError
        If the file cannot be used, or is something else.

    Examples
    --------
    >>> import tempfile
    >>> async def main(folder):
    ...     entry = ContextEntry(id="ctx_1", source="weather__today", data="sunny", time=1000.0)
    ...     async with SqliteContextStore(f"{folder}/context.db", clock=lambda: 1000.0) as store:
    ...         await store.put(entry)
    ...         print(await store.live())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(main(folder))
    (ContextEntry('ctx_1', 'weather__today', private),)
    """

    kind = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        max_entries: int = 2_000,
        max_bytes: int = 67_108_864,
        busy: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = as_path(path)
        self.max_entries = check_number("max_entries", max_entries, 1, whole=True)
        self.max_bytes = check_number("max_bytes", max_bytes, 1, whole=True)
        self.busy = check_number("busy in seconds", busy, 0, 3_600)
        self._clock = clock
        self._file = SqliteFile(
            path, application="cnpc", schema=_SCHEMA, busy=self.busy, log=True, cure=_CURE
        )

    async def put(self, entry: ContextEntry) -> None:
        """Keep an entry; it is on disk when this returns."""
        await asyncio.to_thread(self._file.use, lambda connection: self._put(connection, entry))

    async def get(self, entry_id: str) -> ContextEntry | None:
        """Return an entry that has not expired."""
        query = "SELECT content FROM entries WHERE id = ? AND expires > ?"
        found = await self._entries(query, entry_id, self._clock())
        return found[0] if found else None

    async def live(self) -> tuple[ContextEntry, ...]:
        """Return all entries that have not expired."""
        query = "SELECT content FROM entries WHERE expires > ? ORDER BY time, id"
        return await self._entries(query, self._clock())

    async def delete(self, *entry_ids: str) -> int:
        """Remove entries."""

        def remove(connection: sqlite3.Connection) -> int:
            query = "DELETE FROM entries WHERE id = ?"
            return sum(connection.execute(query, (each,)).rowcount for each in entry_ids)

        return await asyncio.to_thread(self._file.use, remove) if entry_ids else 0

    async def erase(self, *, execution: str | None = None, user: str | None = None) -> int:
        """Remove what is from an execution or of a user, what has expired too."""
        check_whose(execution, user)

        def remove(connection: sqlite3.Connection) -> int:
            query = "DELETE FROM entries WHERE ? IN ('', execution) AND ? IN ('', user)"
            gone = connection.execute(query, (execution or "", user or "")).rowcount
            connection.execute("DELETE FROM entries WHERE expires <= ?", (self._clock(),))
            return gone

        gone = await asyncio.to_thread(self._file.use, remove)
        await asyncio.to_thread(self._file.empty_log)
        return gone

    async def usage(self) -> float:
        """Return the larger of its entries and its bytes, by their limits; none has expired."""
        [taken] = await asyncio.to_thread(self._file.rows, _TAKEN, self._clock())
        return self._share(*taken)

    async def aclose(self) -> None:
        """Close the file. Can be called twice."""
        self._file.close()

    def __repr__(self) -> str:
        return f"SqliteContextStore({str(self.path)!r})"

    async def _entries(self, query: str, *values: object) -> tuple[ContextEntry, ...]:
        rows = await asyncio.to_thread(self._file.rows, query, *values)
        try:
            return tuple(ContextEntry.from_json(row[0], str(self.path)) for row in rows)
        except InputError as exc:
            raise self._file.error(str(exc)) from None

    def _put(self, connection: sqlite3.Connection, entry: ContextEntry) -> None:
        content = entry.to_json()
        whose = (entry.id, entry.user, entry.execution)
        if len(content) > self.max_bytes:
            connection.execute("DELETE FROM entries WHERE id = ?", (entry.id,))
        else:
            row = (*whose, entry.time, entry.expires, len(content), content)
            connection.execute(_PUT, row)
        connection.execute("DELETE FROM entries WHERE expires <= ?", (self._clock(),))
        while self._is_full(connection):
            connection.execute(_OLDEST)

    def _is_full(self, connection: sqlite3.Connection) -> bool:
        taken = connection.execute(_TAKEN, (self._clock(),)).fetchone()
        return self._share(*taken) > 1

    def _share(self, count: int, size: int) -> float:
        return float(max(count / self.max_entries, size / self.max_bytes))
