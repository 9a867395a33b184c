"""`OnlineStore`: what was observed, kept so that no crash loses it or counts it twice."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cnp_router.exceptions import DataFileError, InputError, ModelStoreError
from cnp_router.files import as_path
from cnp_router.forgetting import Forgetting, Forgotten
from cnp_router.history import Mashup
from cnp_router.online.database import (
    Contents,
    Database,
    Entry,
    Experience,
    corrupt,
    decode,
    encode,
)
from cnp_router.online.observers import Observer
from cnp_router.records import check_instance, check_number, instances
from cnp_router.trajectories import Trajectory

__all__ = ["OnlineStore", "Receipt"]

_log = logging.getLogger(__name__)
_SHARE = 16


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an observation.

    Parameters
    ----------
    counted : bool
        False if a record of that kind and id was observed before: it was not counted again.
    sequence : int >= 1 or None
        Its number in the store; None if it was not counted.
    changed : bool, default=False
        True if the record of that kind and id that was observed before is not equal to this one,
        which is therefore neither kept nor learned.
    """

    counted: bool
    sequence: int | None
    changed: bool = False


class OnlineStore:
    """Records in a SQLite file, and the observers that learn from them. Thread-safe.

    Parameters
    ----------
    path : str or Path
        The file. It and its folder are made if they are not there, unless `read_only`. Only its
        owner may read a new one (mode 0600), and its log; one that is there keeps its mode.
    observers : sequence of Observer, default=()
        New ones. Each goes on from what it had learned when its last checkpoint was written, and
        learns from all records after that; one that the store does not know learns from all.
    checkpoint_every : int >= 1, default=200
        Records from one checkpoint to the next, or a sixteenth of all where that is more: states
        grow, and what it takes to write them must not grow faster than the records.
    read_only : bool, default=False
        Learn from what is there, make and change no file, and keep none open: what is observed
        later is not learned.

    Attributes
    ----------
    sequence : int
        Number of the last record.
    n_forgettings : int
        How often something was to be forgotten here. Who has learned from the records learns anew
        where it has grown.

    Raises
    ------
    InputError
        If a parameter is not usable, or a checkpoint does not go with the parameters of its
        observer.
    ModelNotFoundError
        If there is nothing to read.
    ModelStoreError
        If somebody else is writing; ModelCorruptError or ModelVersionError if the file was
        altered, is something else, or was written in another format.
    DataFileError
        If the file cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router.trajectories import Step, Trajectory
    >>> class Counter:
    ...     kind, steps = "counter", 0
    ...     def check(self, records): pass
    ...     def apply(self, records):
    ...         self.steps += sum(len(record.steps) for record in records)
    ...     def state(self): return {"steps": self.steps}
    ...     def restore(self, state): self.steps = state["steps"]
    >>> file, rain = Path(tempfile.mkdtemp(), "a.sqlite"), Trajectory("t1", "", (Step("weather"),))
    >>> with OnlineStore(file, [Counter()]) as store:
    ...     store.observe(rain).counted, store.observe(rain).counted
    (True, False)
    >>> counter = Counter()
    >>> OnlineStore(file, [counter], read_only=True).sequence, counter.steps
    (1, 1)
    """

    def __init__(
        self,
        path: str | Path,
        observers: Sequence[Observer] = (),
        *,
        checkpoint_every: int = 200,
        read_only: bool = False,
    ) -> None:
        kinds = [observer.kind for observer in observers]
        if len(set(kinds)) < len(kinds):
            raise InputError(f"observers must have distinct kinds, got {kinds!r}")
        self.path = as_path(path)
        self.observers = tuple(observers)
        self.checkpoint_every = check_number("checkpoint_every", checkpoint_every, 1, whole=True)
        self._read_only = read_only
        self.n_forgettings = 0
        self._trouble: str | None = None
        self._mutex = threading.Lock()
        self._database = None if read_only else Database(self.path)
        try:
            database = self._database
            contents = database.read(kinds) if database else Database.read_only(self.path, kinds)
            self.sequence, self._checkpointed = contents.sequence, contents.after
            for observer in self.observers:
                self._restore(observer, contents)
        except BaseException:
            self._release()
            raise

    @staticmethod
    def records_after(path: str | Path, sequence: int) -> tuple[int, list[Experience]]:
        """Return the number of the last record in a file, and the records after some number.

        For who has learned from the others already. Nothing is made or changed, and somebody may
        be writing. If the number is lower than it was, something was forgotten: the records are
        numbered anew.

        Raises
        ------
        ModelNotFoundError
            If there is no such file.
        ModelStoreError, DataFileError
            As when a store is opened to be read.

        Examples
        --------
        >>> import tempfile
        >>> from cnp_router import Mashup
        >>> file = Path(tempfile.mkdtemp(), "a.sqlite")
        >>> with OnlineStore(file, []) as store:
        ...     for name in ("m1", "m2"):
        ...         _ = store.observe(Mashup(name, "Text me the news.", ("sms",)))
        >>> OnlineStore.records_after(file, 1)
        (2, [Mashup('m2', 'Text me the news.', ('sms',))])
        """
        contents = Database.read_only(as_path(path), (), sequence)
        return contents.sequence, contents.records

    def observe(self, record: Experience) -> Receipt:
        """Keep a record and let the observers learn from it.

        When this returns, the record is on disk. When it raises, it was not counted; it may be
        found all the same when the file is opened again. Observing it again is always safe.

        Raises
        ------
        InputError
            If the record cannot be written as JSON, or an observer cannot learn from it.
        ModelStoreError
            If the store is closed, read-only or failed before, or another file is at its path.
        DataFileError
            If the disk fails.
        """
        return self.observe_many([record])[0]

    def observe_many(self, records: Iterable[Experience]) -> list[Receipt]:
        """Keep records, all of them or none, and let the observers learn from all at once.

        Much faster than one by one: they are on disk together, and a router learns from some
        hundred in little more than the time of one. 200 at a time are a good number: of more, only
        the last 200 move its threshold of target recalls.

        Parameters
        ----------
        records : iterable of Trajectory or Mashup
            Of those with the same kind and id, the first counts. Read before anybody waits.

        Returns
        -------
        list of Receipt
            One for each.

        Raises
        ------
        InputError, ModelStoreError, DataFileError
            As `observe` does. Then none was counted.

        Examples
        --------
        >>> import tempfile
        >>> with OnlineStore(Path(tempfile.mkdtemp(), "a.sqlite")) as store:
        ...     news = [Mashup(f"m{n}", "Text me the news.", ("sms",)) for n in (1, 2, 1)]
        ...     [receipt.sequence for receipt in store.observe_many(news)]
        [1, 2, None]
        """
        given = instances("records", records, Trajectory, Mashup)
        with self._mutex:
            database = self._writable()
            new: dict[tuple[str, str], tuple[Entry, Experience]] = {}
            receipts = []
            for each in given:
                # What is learned is what will be read: once more, from the same bytes.
                entry, record = self._as_read(each)
                name = (entry.kind, entry.id)
                before = new[name][1] if name in new else database.find(entry)
                if before is not None:
                    changed = _content(before) != _content(record)
                    receipts.append(Receipt(False, None, changed))
                    continue
                new[name] = entry, record
                receipts.append(Receipt(True, self.sequence + len(new)))
            if new:
                entries, learned = zip(*new.values(), strict=True)
                for observer in self.observers:
                    observer.check(learned)
                self._add(database, entries, learned)
            return receipts

    def forget(self, what: Forgetting) -> Forgotten:
        """Remove records, users or APIs from the file for good.

        Those that are left are numbered anew. The checkpoints go too, since they hold what was
        learned: observers learn again from what is left, when the store is opened the next time.
        All of it is done or nothing; the bytes are gone from the file and its log when this
        returns. If it is broken off, forget the same once more.

        Parameters
        ----------
        what : Forgetting

        Returns
        -------
        Forgotten
            Nothing, if there was nothing of it.

        Raises
        ------
        InputError
            If the store has observers, which cannot unlearn.
        ModelStoreError
            If the store is closed or read-only, or if somebody reads the file: the records are
            gone then, but the bytes still there.
        DataFileError
            If the disk fails.

        Examples
        --------
        >>> import tempfile
        >>> from cnp_router import Forgetting, Mashup
        >>> file = Path(tempfile.mkdtemp(), "a.sqlite")
        >>> with OnlineStore(file, []) as store:
        ...     _ = store.observe(Mashup("m1", "Text me the news.", ("sms",), user="ann"))
        ...     store.forget(Forgetting(users=("ann",))).mashups, store.sequence
        (['m1'], 0)
        """
        check_instance("what", what, Forgetting)
        if self.observers:
            raise InputError(
                "observers cannot unlearn (open the store without any to forget, and then again)"
            )
        forgotten = Forgotten()

        def left_of(record: Experience) -> Experience | None:
            left = what.left_of(record)
            forgotten.add(record, left)
            return left

        with self._mutex:
            database = self._writable()
            try:
                with self._sticky("forgetting"):
                    self.sequence = self._checkpointed = database.rewrite(left_of)
            finally:
                self.n_forgettings += 1  # broken off, it may be forgotten all the same
        return forgotten

    def checkpoint(self) -> None:
        """Write what was learned now, if there is a record since the last checkpoint."""
        with self._mutex:
            self._write_checkpoint(self._writable())

    def close(self, *, checkpoint: bool = True) -> None:
        """Let others write.

        Parameters
        ----------
        checkpoint : bool, default=True
            Write one first, so that opening is quick. Without, it is as quick if the last one is
            not long ago; who opens it for a record now and then need not write all each time.
        """
        with self._mutex:
            try:
                if checkpoint and self._database and not self._trouble:
                    self._try_to_write_checkpoint(self._database)
            finally:
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        how = ", read-only" if self._read_only else "" if self._database else ", closed"
        return f"OnlineStore({str(self.path)!r}, {self.sequence:,} records{how})"

    def _restore(self, observer: Observer, contents: Contents) -> None:
        last, state = contents.checkpoints.get(observer.kind, (0, None))
        if state is not None:
            try:
                observer.restore(state)
            except InputError:
                raise
            except (AttributeError, LookupError, TypeError, ValueError) as exc:
                problem = f"the checkpoint of {observer.kind!r}: {exc!r}"
                raise corrupt(self.path, problem) from exc
        if last < contents.sequence:
            observer.apply(contents.records[last - contents.after :])

    def _as_read(self, record: Experience) -> tuple[Entry, Experience]:
        """Return a record as it is written, and as it will be read."""
        entry = encode(record)
        try:
            return entry, decode(entry, self.path)
        except (AttributeError, TypeError, ValueError) as exc:
            problem = exc.problem if isinstance(exc, DataFileError) else exc
            raise InputError(f"the record cannot be read again: {problem}") from exc

    def _add(
        self, database: Database, entries: Sequence[Entry], records: Sequence[Experience]
    ) -> None:
        """Write new records, and have the observers learn from them."""
        first, last = self.sequence + 1, self.sequence + len(records)
        which = f"record {first}" if first == last else f"records {first} to {last}"
        with self._sticky(f"writing {which}", but=ModelStoreError):
            database.append(first, entries)
        with self._sticky(f"learning from {which}"):
            for observer in self.observers:
                observer.apply(records)
        self.sequence = last
        if last - self._checkpointed >= max(self.checkpoint_every, last // _SHARE):
            self._try_to_write_checkpoint(database)

    def _write_checkpoint(self, database: Database) -> None:
        if self.sequence > self._checkpointed:
            states = {observer.kind: observer.state() for observer in self.observers}
            database.write_checkpoint(self.sequence, states)
            self._checkpointed = self.sequence

    def _try_to_write_checkpoint(self, database: Database) -> None:
        try:
            self._write_checkpoint(database)
        except (DataFileError, ModelStoreError) as exc:
            # The records themselves are safe.
            _log.warning("%s; what was learned will be learned from the records again", exc)

    @contextmanager
    def _sticky(self, doing: str, *, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        """Refuse all that follows if something breaks off, as file and observers may differ."""
        try:
            yield
        except but:
            raise
        except BaseException as exc:
            self._trouble = f"{doing} was broken off: {exc!r}"
            raise

    def _writable(self) -> Database:
        if self._trouble:
            raise ModelStoreError(f"{self.path}: {self._trouble} (open it again)")
        if self._database is None:
            how = "was opened to be read" if self._read_only else "is closed"
            raise ModelStoreError(f"{self.path}: it {how} (open it to be written)")
        return self._database

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _content(record: Experience) -> str:
    return json.dumps(record.to_dict(), sort_keys=True)
