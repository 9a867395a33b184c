"""The SQLite file of an `OnlineStore`: what is in it, how it is opened, and what can be wrong.

``records`` holds every record that was observed, numbered from 1 without gaps, each kind and id
once. ``checkpoints`` holds for each observer what it had learned up to a record; it only saves
time, since all can be learned from the records again. Each row has a digest of itself.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from cnp_router.exceptions import (
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelStoreError,
    ModelVersionError,
)
from cnp_router.files import lock, place_of
from cnp_router.history import Mashup, check_used, parse_mashup
from cnp_router.kept_files import identity
from cnp_router.records import Record
from cnp_router.storage import state_from_bytes, state_to_bytes
from cnp_router.trajectories import Trajectory, parse_trajectory

__all__ = ["Contents", "Database", "Entry", "Experience", "corrupt", "decode", "encode"]

Experience: TypeAlias = Trajectory | Mashup
"""What is kept in a store."""

_APPLICATION = int.from_bytes(b"cnpr", "big")
_VERSION = 1
_SCHEMA = [
    "CREATE TABLE records (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, "
    "content BLOB NOT NULL, digest BLOB NOT NULL, UNIQUE (kind, id))",
    "CREATE TABLE checkpoints (kind TEXT PRIMARY KEY, sequence INTEGER NOT NULL, "
    "state BLOB NOT NULL, digest BLOB NOT NULL)",
]
_RECORDS = "SELECT sequence, kind, id, content, digest FROM records"
_ATTEMPTS = 5
_LET = "let this user read and write it and its folder"
_AT_ONCE = 1_000  # records in memory
_BUSY_SECONDS = 1.0
# What the readers of JSON, zip and arrays raise on content that nobody wrote.
_UNREADABLE = (
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
)

_log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A record as it is written: what it is, and its JSON."""

    kind: str
    id: str
    content: bytes


class Contents(NamedTuple):
    """What was read: the states of observers, each with the last record that it includes.

    All records after number `after` are in `records`; the last of all has number `sequence`.
    """

    sequence: int
    checkpoints: dict[str, tuple[int, dict[str, Any]]]
    after: int
    records: list[Experience]


class Database:
    """An open file of a store, for one writer; made if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._absolute = path.absolute()  # wherever the process goes
        with _clear_errors(path), ExitStack() as opened:
            if path.is_dir():
                raise IsADirectoryError(None, "is a folder (name a file in it)")
            path.parent.mkdir(parents=True, exist_ok=True)
            opened.enter_context(_locked(path))
            if not path.exists():
                _create(path)
            before = self._places()
            self._connection = opened.enter_context(closing(_connect(path, "mode=rw")))
            _check_format(path, self._connection)
            if self._connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise DataFileError(path, "cannot be written safely (use a local disk)")
            self._connection.execute("PRAGMA synchronous = FULL")
            _check_soundness(path, self._connection)
            # The connection keeps its file alive, so nobody else gets this inode.
            self._own = self._places()
            if self._own[0] != before[0]:
                raise ModelStoreError(f"{path}: was replaced while it was opened (open again)")
            self._opened = opened.pop_all()

    def read(self, kinds: Collection[str]) -> Contents:
        """Return what observers of these kinds need."""
        with _clear_errors(self.path):
            return _read(self.path, self._connection, kinds)

    @staticmethod
    def read_only(path: Path, kinds: Collection[str], after: int | None = None) -> Contents:
        """Return the same of a file that somebody may be writing to; make and change none.

        With `after`: only the records after that number.
        """
        if not path.exists():
            raise ModelNotFoundError(f"{path}: nothing was observed there (observe first)")
        with _clear_errors(path):
            for attempt in range(_ATTEMPTS):
                before = _version(path)
                try:
                    with _reading(path) as connection:
                        _check_format(path, connection)
                        contents = _read(path, connection, kinds, after)
                except (OSError, sqlite3.Error, ModelStoreError):
                    # A writer may have changed the file meanwhile, which is not damage.
                    if attempt == _ATTEMPTS - 1 or _version(path) == before:
                        raise
                    continue
                if before[1] or _version(path) == before:  # with a log, SQLite reads one state
                    return contents
        raise ModelStoreError(f"{path}: it changes all the time (read it again later)")

    def find(self, entry: Entry) -> Experience | None:
        """Return the record of that kind and id, if there is one."""
        query, names = f"{_RECORDS} WHERE kind = ? AND id = ?", (entry.kind, entry.id)
        with _clear_errors(self.path):
            row = self._connection.execute(query, names).fetchone()
            return None if row is None else _record(self.path, row)

    def append(self, first: int, entries: Sequence[Entry]) -> None:
        """Add records, numbered from `first`; all are on disk when this returns, or none is."""
        with _clear_errors(self.path), self._transaction():
            self._insert(first, entries)

    def write_checkpoint(self, sequence: int, states: Mapping[str, dict[str, Any]]) -> None:
        """Replace the states of observers by what they have learned up to a record."""
        packed = {kind: state_to_bytes(state) for kind, state in states.items()}
        rows = [(k, sequence, s, _digest(sequence, k, "", s)) for k, s in packed.items()]
        with _clear_errors(self.path), self._transaction():
            self._connection.executemany("REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", rows)

    def rewrite(self, left_of: Callable[[Experience], Experience | None]) -> int:
        """Replace each record by what is left of it, and return how many are left.

        They are numbered anew without gaps, all of it or nothing. Where anything changes, the
        checkpoints go: they hold what was learned. What is gone is gone from the bytes of the
        file and of its log too, which is done even if nothing changes: another time may have been
        broken off before it.
        """
        with _clear_errors(self.path):
            self._connection.execute("PRAGMA secure_delete = ON")
            with self._transaction():
                n_left, is_changed = self._renumber(left_of)
                if is_changed:
                    self._connection.execute("DELETE FROM checkpoints")
            self._connection.execute("VACUUM")
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise ModelStoreError(
                f"{self.path}: forgotten, but in the file as long as somebody reads it "
                "(forget it once more when they are done)"
            )
        return n_left

    def close(self) -> None:
        """Let others write: the connection is closed, then the lock file."""
        # SQLite itself leaves the log of a store alone that took the place of this one.
        self._opened.close()

    def _renumber(self, left_of: Callable[[Experience], Experience | None]) -> tuple[int, bool]:
        """Rewrite the records; return how many are left, and whether any is not as it was."""
        n_left, last, is_changed = 0, 0, False
        query = f"{_RECORDS} WHERE sequence > ? ORDER BY sequence LIMIT {_AT_ONCE}"
        while rows := self._connection.execute(query, (last,)).fetchall():
            kept = []
            for row in rows:
                record = _record(self.path, row)
                left = left_of(record)
                is_changed |= left is not record
                if left is not None:
                    kept.append(Entry(*row[1:-1]) if left is record else encode(left))
            first, last = rows[0][0], rows[-1][0]
            if is_changed:  # the new numbers are never above the old ones
                between = "DELETE FROM records WHERE sequence BETWEEN ? AND ?"
                self._connection.execute(between, (first, last))
                self._insert(n_left + 1, kept)
            n_left += len(kept)
        return n_left, is_changed

    def _insert(self, first: int, entries: Sequence[Entry]) -> None:
        """Write records, numbered from `first`, with their digests."""
        rows = [(n, *entry, _digest(n, *entry)) for n, entry in enumerate(entries, first)]
        self._connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            if self._places() != self._own:
                raise ModelStoreError(
                    f"{self.path}: the file was moved away, removed or replaced while it was open "
                    "(nothing was written; open the store again, where it is now)"
                )
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    def _places(self) -> list[tuple[int, int] | None]:
        """Return device and inode of the file and of its log, as they are at the path."""
        return [place_of(self._absolute), place_of(_beside(self._absolute, "wal"))]


def encode(record: Experience) -> Entry:
    """Return a record as it is written; InputError if it cannot be written as JSON in UTF-8."""
    if not isinstance(record, Trajectory | Mashup):
        raise InputError(f"a Trajectory or a Mashup was expected, got {record!r}")
    if isinstance(record, Mashup):
        check_used([record])
    kind = type(record).__name__.lower()
    try:
        content = json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False).encode()
    except (AttributeError, TypeError, ValueError, RecursionError) as exc:
        raise InputError(
            f"{kind} {record.id!r} cannot be written as JSON: {exc} "
            "(use strings, finite numbers, true, false, null, lists and objects)"
        ) from exc
    return Entry(kind, str(record.id), content)


def decode(entry: Entry, path: Path) -> Experience:
    """Return the record that was written; ValueError, KeyError or another if it is none."""
    fields = json.loads(entry.content)
    if entry.kind not in ("trajectory", "mashup"):
        raise ValueError(f"kind must be 'trajectory' or 'mashup', got {entry.kind!r}")
    parse = parse_mashup if entry.kind == "mashup" else parse_trajectory
    record: Experience = parse(Record(fields, path, None))
    if record.id != entry.id:
        raise ValueError(f"the id is {record.id!r}, and stands as {entry.id!r}")
    return record


def corrupt(path: Path, problem: str) -> ModelCorruptError:
    """Return (not raise) the error of an altered file."""
    cure = "restore it from a backup, or remove the file and observe again"
    return ModelCorruptError(f"{path}: altered: {problem} ({cure})")


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection for which SQLite makes no files, as it does for most readers."""
    with tempfile.TemporaryDirectory() as folder:
        if not _version(path)[1]:
            place, how = path, "immutable=1"
        elif _beside(path, "shm").exists():
            place, how = path, "mode=ro"
        else:  # copied without it
            place, how = Path(folder, path.name), "mode=ro"
            for what in ("", "-wal"):
                shutil.copyfile(f"{path}{what}", f"{place}{what}")
        with closing(_connect(place, how)) as connection:
            connection.execute("BEGIN")
            yield connection


def _read(
    path: Path,
    connection: sqlite3.Connection,
    kinds: Collection[str],
    after: int | None = None,
) -> Contents:
    query = "SELECT count(*), coalesce(max(sequence), 0) FROM records"
    count, sequence = connection.execute(query).fetchone()
    if count != sequence:
        raise corrupt(path, f"{sequence} records were observed, and {count} are there")
    checkpoints = {}
    for kind, last, state, digest in connection.execute("SELECT * FROM checkpoints"):
        if kind not in kinds:
            continue
        if digest != _digest(last, kind, "", state):
            _log.warning("%s: the checkpoint of %r is altered; learning again", path, kind)
            continue
        if last > sequence:
            raise corrupt(path, f"record {last} was observed, and {sequence} are there")
        try:
            checkpoints[kind] = last, state_from_bytes(state)
        except _UNREADABLE as exc:
            raise corrupt(path, f"the checkpoint of {kind!r}: {exc!r}") from exc
    if after is None:
        learned = (checkpoints[k][0] if k in checkpoints else 0 for k in kinds)
        after = min(learned, default=sequence)
    rows = connection.execute(f"{_RECORDS} WHERE sequence > ? ORDER BY sequence", (after,))
    records = [_record(path, row) for row in rows]
    if len(records) != max(sequence - after, 0):
        raise corrupt(path, f"records after {after} are missing")
    return Contents(sequence, checkpoints, after, records)


def _record(path: Path, row: Sequence[Any]) -> Experience:
    sequence, *fields, digest = row
    if digest != _digest(sequence, *fields):
        raise corrupt(path, f"record {sequence}: its digest differs")
    try:
        return decode(Entry(*fields), path)
    except _UNREADABLE as exc:
        problem = exc.problem if isinstance(exc, DataFileError) else repr(exc)
        raise corrupt(path, f"record {sequence}: {problem}") from exc


def _digest(sequence: Any, kind: Any, identifier: Any, content: Any) -> bytes:
    name = repr((sequence, kind, identifier)).encode("utf-8", "backslashreplace")
    body = content if isinstance(content, bytes) else repr(content).encode()
    return hashlib.blake2b(name + body, digest_size=32).digest()


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    names = ("application_id", "user_version", "page_size")
    settings = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    application, version, page = settings
    if application != _APPLICATION:
        raise corrupt(path, "it is a database of something else")
    if version != _VERSION:
        raise ModelVersionError(
            f"{path}: written in another format ({version!r}, this version reads {_VERSION}) "
            "(upgrade cnp-router, or observe again in a new file)"
        )
    tables = connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid")
    if [sql for (sql,) in tables] != _SCHEMA:
        raise corrupt(path, "its tables are not those of a store")
    if path.stat().st_size % page and not _version(path)[1]:
        raise corrupt(path, "its end is missing")


def _check_soundness(path: Path, connection: sqlite3.Connection) -> None:
    """Check all there is: with a damaged index, a record could be counted twice."""
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise corrupt(path, found)
    for *fields, digest in connection.execute(_RECORDS):
        if digest != _digest(*fields):
            raise corrupt(path, f"record {fields[0]}: its digest differs")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _create(path: Path) -> None:
    """Make an empty file that only its owner may read: it is there whole, or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    # Records hold inputs and results of tools. SQLite gives its log the mode of the file.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    numbers = (f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_VERSION}")
    try:
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            # Without a journal nothing else is left behind by a process that is killed.
            for statement in ("PRAGMA journal_mode = OFF", "BEGIN", *numbers, *_SCHEMA, "COMMIT"):
                connection.execute(statement).fetchall()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if sys.platform != "win32":  # folders cannot be opened there
        for folder in (path.parent, path.parent.parent):
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def _locked(path: Path) -> IO[bytes]:
    """Return an open lock file. The system lets go of it when the process ends."""
    file = _beside(path, "lock").open("ab")
    try:
        lock(file)
    except OSError as exc:
        file.close()
        raise ModelStoreError(
            f"{path}: another process or object is writing there (close it first)"
        ) from exc
    return file


def _version(path: Path) -> tuple[tuple[int, ...], int]:
    """Return what changes with the file, and the bytes of its log (0 without)."""
    file, log = identity(path.stat()), 0
    with suppress(FileNotFoundError):
        log = _beside(path, "wal").stat().st_size
    return file, log


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}-{what}")


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system raise into errors of this library."""
    try:
        yield
    except sqlite3.Error as exc:
        code = getattr(exc, "sqlite_errorcode", None) or 0
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            problem = f"{path}: another process is writing there (close it first)"
            raise ModelStoreError(problem) from exc
        of_the_place = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
        if not os.access(path, os.W_OK):
            of_the_place |= {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
        # SQLite calls a full disk an error of input and output, too.
        no_room = code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
        cure = "make room, if the disk is full" if no_room else _LET
        if code & 0xFF in of_the_place and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            raise DataFileError(path, f"cannot be used: {exc}", cure=cure) from exc
        raise corrupt(path, str(exc)) from exc
    except UnicodeDecodeError as exc:
        raise corrupt(path, str(exc)) from exc
    except OSError as exc:
        let = _LET if isinstance(exc, PermissionError) else None
        raise DataFileError(path, f"cannot be used: {exc.strerror or exc}", cure=let) from exc
