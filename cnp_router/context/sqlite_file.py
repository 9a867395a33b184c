"""`SqliteFile`: an SQLite file that only its owner may read, used from any thread and process."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from cnp_router.exceptions import CnpRouterError, ContextStoreError
from cnp_router.files import as_path, place_of, reason

__all__ = ["SqliteFile", "is_refused"]

T = TypeVar("T")

_MODE = 0o600
_CURES = {
    sqlite3.SQLITE_BUSY: "others write for longer than that: try again",
    sqlite3.SQLITE_FULL: "make room, and try again",
}
_LET = "let this user read and write it and its folder, or name another file"


def is_refused(exc: BaseException | None) -> bool:
    """Return whether it was the system that does not let this user use a file or its folder.

    Examples
    --------
    >>> is_refused(PermissionError(errno.EACCES, "Permission denied")), is_refused(ValueError())
    (True, False)
    """
    if isinstance(exc, sqlite3.Error):
        refusals = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)
        return (getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF in refusals
    return isinstance(exc, OSError) and exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


class SqliteFile:
    """A file of one schema; without a path, it is in memory.

    What is deleted is overwritten in it. `application` is four letters that say what it is of, and
    `cure` what to do about one that cannot be used. With a `log`, SQLite writes changes beside the
    file first: it is read while somebody writes. All errors are what `error` makes of a place and
    a problem.

    A file that is moved away, removed or replaced is an error: what is written would be seen by
    nobody. With `moved`, it may go with its folder, as where another folder takes the place of that
    one: it goes on there, until there is a file in the other folder, too. That one is opened then,
    and `moved` is given the connections to both.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        application: str,
        schema: Sequence[str],
        busy: float = 5.0,
        log: bool = False,
        cure: str,
        error: Callable[..., CnpRouterError] = ContextStoreError,
        moved: Callable[[sqlite3.Connection, sqlite3.Connection], object] | None = None,
    ) -> None:
        self.path = None if path is None else as_path(path)
        self._numbers = (int.from_bytes(application.encode(), "big"), 1)
        self._schema = tuple(schema)
        self._busy = busy
        self._has_log = log
        self._cure = cure
        self._error = error
        self._moved = moved
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        with self._clear_errors():
            self._open()

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what some work with the file returns; all of it is done, or nothing."""
        with self._there() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                done = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return done

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return what a query finds."""
        with self._there() as connection:
            return connection.execute(query, values).fetchall()

    def empty_log(self) -> None:
        """Have what was deleted gone from the log too, unless somebody reads it just now."""
        with self._there() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close it. Can be called twice."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def error(self, problem: str, *, cure: str | None = None) -> CnpRouterError:
        """Return (not raise) the error of this file."""
        where = "in memory" if self.path is None else str(self.path)
        return self._error(where, problem, cure=cure or self._cure)

    @contextmanager
    def _there(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._clear_errors():
            if self._connection is None:
                raise self.error("it is closed", cure="open it again")
            self._check_there(self._connection)
            yield self._connection

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except CnpRouterError:  # it says what is wrong already, and may be a ValueError
            raise
        except sqlite3.Error as exc:
            cure = _CURES.get((getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF)
            if is_refused(exc):
                cure = _LET
            raise self.error(str(exc), cure=cure) from exc
        except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
            cure = "name a file in a folder that exists"
            if is_refused(exc):
                cure = _LET
            raise self.error(f"cannot be used: {reason(exc)}", cure=cure) from exc

    def _open(self, before: sqlite3.Connection | None = None) -> None:
        """Open what is at the path; `before` is what it takes the place of."""
        if self.path is not None:
            if self.path.is_dir():
                raise IsADirectoryError(None, "is a folder")
            # SQLite gives what it writes beside the file the mode of the file.
            handle = os.open(self.path, os.O_CREAT | os.O_RDWR, _MODE)
            try:
                if os.name == "posix" and os.fstat(handle).st_mode & 0o077:
                    os.fchmod(handle, _MODE)
            finally:
                os.close(handle)
        connection = sqlite3.connect(
            ":memory:" if self.path is None else self.path,
            timeout=self._busy,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._prepare(connection)
            if before is not None and self._moved is not None:
                self._moved(before, connection)
        except BaseException:
            connection.close()
            raise
        if self.path is not None:
            self._place, self._folder = place_of(self.path), place_of(self.path.parent)
        self._connection = connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        pragmas = ["trusted_schema = OFF", "secure_delete = ON", "cell_size_check = ON"]
        pragmas += ["journal_mode = WAL", "synchronous = NORMAL"] if self._has_log else []
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN IMMEDIATE")  # two processes may make it at once
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            for name, number in zip(("application_id", "user_version"), self._numbers, strict=True):
                connection.execute(f"PRAGMA {name} = {number}")
            for statement in self._schema:
                connection.execute(statement)
        connection.execute("COMMIT")
        numbers = tuple(
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        made = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        if numbers != self._numbers or {row[0] for row in made} != set(self._schema):
            raise self.error("it is something else", cure="name another file")

    def _check_there(self, connection: sqlite3.Connection) -> None:
        """Raise if the file is gone or another one, and did not go with its folder."""
        if self.path is None:
            return
        there = place_of(self.path)
        if there is not None and there == self._place:
            return
        if self._moved is None or place_of(self.path.parent) == self._folder:
            raise self.error("the file was moved away or removed", cure="open it again")
        if there is not None:
            self._open(connection)
            connection.close()
