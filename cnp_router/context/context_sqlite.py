"""`SqliteContextStore`: context in a file, for the processes of one machine."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cnp_router.context.context_entry import ContextEntry
from cnp_router.context.context_store import ContextStore, check_whose
from cnp_router.exceptions import ContextStoreError, InputError
from cnp_router.files import as_path, reason
from cnp_router.records import check_number

__all__ = ["SqliteContextStore"]

T = TypeVar("T")

_APPLICATION = int.from_bytes(b"cnpc", "big")
_VERSION = 1
_SCHEMA = (
    "CREATE TABLE entries (id TEXT PRIMARY KEY, user TEXT NOT NULL, execution TEXT NOT NULL, "
    "time REAL NOT NULL, expires REAL NOT NULL, size INTEGER NOT NULL, content BLOB NOT NULL)"
)
_PUT = "REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_OLDEST = "DELETE FROM entries WHERE id = (SELECT id FROM entries ORDER BY time, id LIMIT 1)"
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
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._work(self._open)

    async def put(self, entry: ContextEntry) -> None:
        """Keep an entry; it is on disk when this returns."""
        await self._in_thread(lambda connection: self._put(connection, entry))

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

        return await self._in_thread(remove) if entry_ids else 0

    async def erase(self, *, execution: str | None = None, user: str | None = None) -> int:
        """Remove what is from an execution or of a user, what has expired too."""
        check_whose(execution, user)

        def remove(connection: sqlite3.Connection) -> int:
            query = "DELETE FROM entries WHERE ? IN ('', execution) AND ? IN ('', user)"
            gone = connection.execute(query, (execution or "", user or "")).rowcount
            connection.execute("DELETE FROM entries WHERE expires <= ?", (self._clock(),))
            return gone

        gone = await self._in_thread(remove)
        await self._in_thread(_truncate_log)
        return gone

    async def aclose(self) -> None:
        """Close the file. Can be called twice."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __repr__(self) -> str:
        return f"SqliteContextStore({str(self.path)!r})"

    async def _entries(self, query: str, *values: object) -> tuple[ContextEntry, ...]:
        rows = await self._in_thread(lambda c: c.execute(query, values).fetchall())
        try:
            return tuple(ContextEntry.from_json(row[0], str(self.path)) for row in rows)
        except InputError as exc:
            raise self._error(str(exc), cure=_CURE) from None

    def _put(self, connection: sqlite3.Connection, entry: ContextEntry) -> None:
        content = entry.to_json()
        whose = (entry.id, entry.user, entry.execution)
        connection.execute("BEGIN IMMEDIATE")
        try:
            if len(content) > self.max_bytes:
                connection.execute("DELETE FROM entries WHERE id = ?", (entry.id,))
            else:
                row = (*whose, entry.time, entry.expires, len(content), content)
                connection.execute(_PUT, row)
            connection.execute("DELETE FROM entries WHERE expires <= ?", (self._clock(),))
            while self._is_full(connection):
                connection.execute(_OLDEST)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _is_full(self, connection: sqlite3.Connection) -> bool:
        query = "SELECT count(*), coalesce(sum(size), 0) FROM entries"
        count, size = connection.execute(query).fetchone()
        return bool(count > self.max_entries or size > self.max_bytes)

    async def _in_thread(self, use: Callable[[sqlite3.Connection], T]) -> T:
        def work() -> T:
            with self._lock:
                if self._connection is None:
                    raise self._error("it is closed", cure="open it again")
                self._check_there()
                return use(self._connection)

        return await asyncio.to_thread(self._work, work)

    def _work(self, use: Callable[[], T]) -> T:
        """Do something with the file; what SQLite and the system raise is one kind of error."""
        try:
            return use()
        except sqlite3.Error as exc:
            cure = _CURE
            if (getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF == sqlite3.SQLITE_BUSY:
                cure = "others write for longer than that: try again"
            raise self._error(str(exc), cure=cure) from exc
        except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
            cure = "name a file in a folder that exists"
            raise self._error(f"cannot be used: {reason(exc)}", cure=cure) from exc

    def _open(self) -> None:
        if self.path.is_dir():
            raise IsADirectoryError(None, "is a folder")
        # SQLite gives its log the mode of the file.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path, timeout=self.busy, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        status = self.path.stat()
        self._place = status.st_dev, status.st_ino
        self._connection = connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")  # two processes may make it at once
        is_new = connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if is_new:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute(_SCHEMA)
        connection.execute("COMMIT")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall()
        if (application, version) != (_APPLICATION, _VERSION) or tables != [(_SCHEMA,)]:
            raise self._error("it is something else", cure="name another file")

    def _check_there(self) -> None:
        """Raise if the file is gone or another one: what is written would be seen by nobody."""
        try:
            status = self.path.stat()
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._place:
            raise self._error("the file was moved away or removed", cure="open it again")

    def _error(self, problem: str, *, cure: str) -> ContextStoreError:
        return ContextStoreError(str(self.path), problem, cure=cure)


def _truncate_log(connection: sqlite3.Connection) -> None:
    """Have what was erased gone from the log too, unless somebody reads it just now."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
