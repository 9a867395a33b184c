"""`OnlineStore`: what was observed, kept so that no crash loses it or counts it twice.

A folder with an append-only log and checkpoints::

    lock                          held by the one who writes
    checkpoint-000000000200/      all that was learned up to record 200
    log-000000000201.log          the records after it

`observe` returns when the record is on disk. A checkpoint is renamed into place when it is whole,
and only then is the log before it removed; the last two checkpoints are kept. Opening takes the
latest one that is sound, and observes the records after it again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from cnp_router.exceptions import (
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelStoreError,
)
from cnp_router.history import Mashup
from cnp_router.prediction import disk
from cnp_router.prediction.checkpoints import SEEN_BYTES, Checkpoint, write_checkpoint
from cnp_router.prediction.log import Entry, entry_line, parse_line
from cnp_router.prediction.recovery import (
    CHECKPOINT,
    LOG,
    number_of,
    numbered,
    read_folder,
    read_patiently,
)
from cnp_router.trajectories import Trajectory

__all__ = ["Observer", "OnlineStore", "Receipt"]

_TEMPORARY = ".new-"
_DIGEST = SEEN_BYTES // 2
_NONE_SEEN = np.zeros((0, SEEN_BYTES), np.uint8)

_log = logging.getLogger(__name__)


class Observer(Protocol):
    """What learns from the records of a store.

    Attributes
    ----------
    kind : str
        Names its state; distinct in a store, and the same each time it is opened.
    """

    kind: str

    def check(self, record: Trajectory | Mashup) -> None:
        """Raise InputError for a record that cannot be learned from. Changes nothing."""

    def apply(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Learn from records: one as it is observed, many when a store is opened.

        They were checked, and the same records give the same state.
        """

    def state(self) -> dict[str, Any]:
        """Return all it has learned: JSON values, and numpy arrays at any depth of the dicts."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; InputError if it is none."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an observation.

    Parameters
    ----------
    counted : bool
        False if a record of that kind and id was observed before: it was not counted again.
    sequence : int >= 1 or None
        Its number in the log; None if it was not counted.
    changed : bool, default=False
        True if the record of that kind and id that was observed before is not equal to this one,
        which is therefore neither kept nor learned.
    """

    counted: bool
    sequence: int | None
    changed: bool = False


class OnlineStore:
    """Records on disk, and the observers that learn from them. Thread-safe.

    Parameters
    ----------
    folder : str or Path
        Made if it is not there, unless `read_only`.
    observers : sequence of Observer
        New ones; their state is restored. A writer has to give all that the folder has.
    every : int >= 1, default=200
        Records from one checkpoint to the next.
    read_only : bool, default=False
        Take no lock and change nothing: what is observed later is not seen.

    Attributes
    ----------
    sequence : int
        Number of the last record.

    Raises
    ------
    InputError
        If a parameter is not usable.
    ModelNotFoundError
        If there is nothing to read.
    ModelStoreError
        If somebody else is writing; ModelCorruptError if the folder was altered.
    DataFileError
        If the folder cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router.prediction import NextToolRouter
    >>> from cnp_router.trajectories import Step
    >>> folder, rain = tempfile.mkdtemp(), Trajectory("t1", "Rain?", (Step("weather"),))
    >>> with OnlineStore(folder, [NextToolRouter()]) as store:
    ...     store.observe(rain).counted, store.observe(rain).counted
    (True, False)
    >>> router = NextToolRouter()
    >>> with OnlineStore(folder, [router], read_only=True) as store:
    ...     router.predict_next([]).tool
    'weather'
    """

    def __init__(
        self,
        folder: str | Path,
        observers: Sequence[Observer],
        *,
        every: int = 200,
        read_only: bool = False,
    ) -> None:
        kinds = [observer.kind for observer in observers]
        if len(set(kinds)) < len(kinds):
            raise InputError(f"observers must have distinct kinds, got {kinds!r}")
        if every < 1:
            raise InputError(f"every must be at least 1, got {every!r}")
        self.folder = Path(folder)
        self.observers = tuple(observers)
        self.every = every
        self.sequence = 0
        self._read_only = read_only
        self._seen: dict[bytes, bytes] = {}  # checksum of kind and id: that of the content
        self._checkpointed = 0
        self._segment: Path | None = None
        self._trouble: str | None = None
        self._mutex = threading.Lock()
        self._lock: disk.Lock | None = None
        try:
            self._open()
        except OSError as exc:
            self._release()
            raise DataFileError(self.folder, f"cannot be opened: {exc.strerror or exc}") from exc
        except BaseException:
            self._release()
            raise

    def observe(self, record: Trajectory | Mashup) -> Receipt:
        """Keep a record and let the observers learn from it.

        When this returns, the record is on disk. When it raises, it was not counted; it may be
        found all the same when the folder is opened again. Observing it again is always safe.

        Parameters
        ----------
        record : Trajectory or Mashup

        Returns
        -------
        Receipt

        Raises
        ------
        InputError
            If the record cannot be written as JSON, or an observer cannot learn from it.
        ModelStoreError
            If the store is closed or read-only, or the disk failed before.
        DataFileError
            If the disk fails.
        """
        with self._mutex:
            self._check_writable()
            # What is learned is what will be read: once more, from the same bytes.
            line = entry_line(self.sequence + 1, record)
            entry = _parsed(line, self._log_path(self.sequence + 1))
            identity, content = _identity(entry.record), _content(entry.record)
            if identity in self._seen:
                return Receipt(False, None, changed=self._seen[identity] != content)
            for observer in self.observers:
                observer.check(entry.record)
            self._append(line)
            self._learn([entry.record], entry.sequence)
            self._checkpoint_if_due()
            return Receipt(True, entry.sequence)

    def checkpoint(self) -> None:
        """Write a checkpoint now, if there is a record since the last one."""
        with self._mutex:
            self._check_writable()
            if self.sequence > self._checkpointed:
                self._write_checkpoint()

    def close(self) -> None:
        """Write a checkpoint, so that opening is quick, and let others write."""
        with self._mutex:
            try:
                if self._lock and not self._trouble and self.sequence > self._checkpointed:
                    self._write_checkpoint()
            finally:
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OnlineStore({str(self.folder)!r}, {self.sequence} records)"

    def _open(self) -> None:
        if self._read_only:
            found = read_patiently(self.folder)
            if found.checkpoint is None and not found.segments:
                raise ModelNotFoundError(f"{self.folder}: nothing was observed there (observe it)")
        else:
            disk.create_folder(self.folder)
            self._lock = disk.Lock(self.folder / "lock")
            for left in self.folder.glob(f"{_TEMPORARY}*"):
                disk.remove(left)
            disk.sync_folder(self.folder)
            found = read_folder(self.folder)
        self._restore(found.checkpoint or Checkpoint(0, {"observers": {}, "seen": _NONE_SEEN}))
        if found.entries:
            self._learn([entry.record for entry in found.entries], found.entries[-1].sequence)
        if found.segments and not self._read_only:
            self._segment = found.segments[-1]
            if found.torn:
                _log.warning("%s: cut off a torn record of %d bytes", self._segment, found.torn)
                disk.cut(self._segment, found.whole)

    def _restore(self, checkpoint: Checkpoint) -> None:
        states, seen = checkpoint.state["observers"], checkpoint.state["seen"]
        missing = states.keys() - {observer.kind for observer in self.observers}
        if missing and not self._read_only:
            raise InputError(
                f"{self.folder} has a state of {sorted(missing)!r}, and no such observer was "
                "given (give all that learn there)"
            )
        for observer in self.observers:
            if observer.kind in states:
                observer.restore(states[observer.kind])
            elif checkpoint.sequence:
                place = (self.folder, observer.kind, checkpoint.sequence)
                _log.warning("%s: %r learns from what comes after record %d only", *place)
        rows = [row.tobytes() for row in seen]
        self._seen = {row[:_DIGEST]: row[_DIGEST:] for row in rows}
        self.sequence = self._checkpointed = checkpoint.sequence

    def _learn(self, records: Sequence[Trajectory | Mashup], sequence: int) -> None:
        try:
            for observer in self.observers:
                observer.apply(records)
        except BaseException as exc:
            self._trouble = f"learning from record {sequence} was broken off: {exc!r}"
            raise
        self._seen.update((_identity(record), _content(record)) for record in records)
        self.sequence = sequence

    def _append(self, line: bytes) -> None:
        path = self._segment or self._log_path(self.sequence + 1)
        size = path.stat().st_size if path.exists() else 0
        try:
            disk.append(path, line)
        except OSError as exc:
            self._trouble = f"the disk failed: {exc.strerror or exc}"
            raise DataFileError(path, f"cannot be written: {exc.strerror or exc}") from exc
        except BaseException:
            self._trouble = "writing a record was broken off"
            raise
        finally:
            if self._trouble:
                _cut_back(path, size)
        self._segment = path

    def _write_checkpoint(self) -> None:
        target = self.folder / f"{CHECKPOINT}{self.sequence:012d}"
        temporary = self.folder / f"{_TEMPORARY}{target.name}"
        seen = b"".join(identity + content for identity, content in sorted(self._seen.items()))
        state = {
            "observers": {observer.kind: observer.state() for observer in self.observers},
            "seen": np.frombuffer(seen, np.uint8).reshape(-1, SEEN_BYTES),
        }
        try:
            write_checkpoint(temporary, Checkpoint(self.sequence, state))
            if target.exists():  # a damaged one that the log has made up for
                self._remove(target)
            disk.put(temporary, target)
            disk.sync_folder(self.folder)
            self._checkpointed, self._segment = self.sequence, None
            self._remove_old()
        except OSError as exc:
            raise DataFileError(target, f"cannot be written: {exc.strerror or exc}") from exc

    def _checkpoint_if_due(self) -> None:
        if self.sequence - self._checkpointed < self.every:
            return
        try:
            self._write_checkpoint()
        except DataFileError as exc:
            # The record itself is safe in the log, and the next one tries again.
            _log.warning("%s; the log is kept until there is a checkpoint", exc)

    def _remove(self, folder: Path) -> None:
        away = self.folder / f"{_TEMPORARY}old-{folder.name}"
        disk.put(folder, away)  # whole or not at all, for those who read
        disk.remove(away)

    def _remove_old(self) -> None:
        """Remove what neither the latest checkpoint nor the one before it needs."""
        checkpoints = numbered(self.folder, CHECKPOINT)
        for folder in checkpoints[:-2]:
            self._remove(folder)
        if len(checkpoints) < 2:
            return
        needed = number_of(checkpoints[-2]) + 1
        segments = numbered(self.folder, LOG)
        for path, next_ in pairwise(segments):
            if number_of(next_) <= needed:
                disk.remove(path)

    def _log_path(self, sequence: int) -> Path:
        return self.folder / f"{LOG}{sequence:012d}.log"

    def _check_writable(self) -> None:
        if self._trouble:
            raise ModelStoreError(f"{self.folder}: {self._trouble} (open it again)")
        if self._lock is None:
            how = "was opened to be read" if self._read_only else "is closed"
            raise ModelStoreError(f"{self.folder}: it {how} (open it to be written)")

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _parsed(line: bytes, path: Path) -> Entry:
    try:
        return parse_line(line[:-1], path, 1)
    except ModelCorruptError as exc:
        problem = exc.__cause__.problem if isinstance(exc.__cause__, DataFileError) else exc
        raise InputError(f"the record cannot be read again: {problem}") from exc


def _cut_back(path: Path, size: int) -> None:
    """Take back what was written of a record, if it can be; opening again does it otherwise."""
    try:
        if path.exists():
            disk.cut(path, size)
    except OSError as exc:
        _log.warning("%s: cannot be cut to %d bytes: %s", path, size, exc)


def _identity(record: Trajectory | Mashup) -> bytes:
    return _digest(f"{type(record).__name__}\0{record.id}")


def _content(record: Trajectory | Mashup) -> bytes:
    return _digest(json.dumps(record.to_dict(), sort_keys=True))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest()
