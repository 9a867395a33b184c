"""`Memory`: what is worth remembering of a session, a thread and a user, until it expires."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from cnp_router.context.sqlite_file import SqliteFile
from cnp_router.exceptions import InputError
from cnp_router.llm.redaction import without_secrets
from cnp_router.llm.tokens import estimate_tokens
from cnp_router.records import check_id, check_json, check_number, check_user, shown

__all__ = ["Memory", "MemoryItem", "MemoryLevel"]

MemoryLevel = Literal["session", "thread", "user"]
"""How long something is remembered, and where it is recalled."""

_SCHEMA = (
    "CREATE TABLE items (number INTEGER PRIMARY KEY, level TEXT NOT NULL, user TEXT NOT NULL, "
    "session TEXT NOT NULL, thread TEXT NOT NULL, time REAL NOT NULL, expires REAL NOT NULL, "
    "data TEXT NOT NULL)",
    "CREATE INDEX by_user ON items (user, level)",
)
_COLUMNS = "level, user, session, thread, time, expires, data"
# Each item is its user's alone: what is nobody's is recalled where no user is named.
_RECALLED = (
    f"SELECT {_COLUMNS} FROM items WHERE user = :user AND expires > :now AND ("
    "(level = 'session' AND session = :session AND session != '') OR "
    "(level = 'thread' AND thread = :thread AND thread != '') OR "
    "(level = 'user' AND user != '')) ORDER BY time, number"
)
_ERASED = (
    "FROM items WHERE :user IN ('', user) AND :session IN ('', session) AND :thread IN ('', thread)"
)
_OLDEST = (
    "DELETE FROM items WHERE number IN (SELECT number FROM items WHERE user = ? AND level = ? "
    "ORDER BY time DESC, number DESC LIMIT -1 OFFSET ?)"
)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryItem:
    """Something that is remembered.

    Parameters
    ----------
    level : {"session", "thread", "user"}
    data : str or JSON value
        Without secrets.
    time, expires : float, seconds since 1970
    user, session, thread : str or None
        Whose it is, and of what.
    """

    level: MemoryLevel
    data: Any
    time: float
    expires: float
    user: str | None = None
    session: str | None = None
    thread: str | None = None

    def __repr__(self) -> str:  # the data may hold what no log should
        return f"MemoryItem({self.level}, of {self.user or 'nobody'})"


class Memory:
    """Remembers by session, by thread and by user, each as long as it is worth it.

    Everything is kept by its user, and recalled, counted or erased for nobody else. Secrets are
    removed before anything is written (`cnp_router.llm.redaction`). What has expired is not
    recalled, and is deleted when the memory is next used. A file can be read by its owner only, and
    several threads and processes of one machine may use it at once.

    Parameters
    ----------
    path : str or Path, optional
        Made if it does not exist; its folder must. Without one, it is in memory.
    session_ttl : float, seconds, default=1800
    thread_ttl : float, seconds, default=604800
    user_ttl : float, seconds, default=7776000
        How long each level is remembered: 30 minutes, 7 days and 90 days.
    max_items : int >= 1, default=1000
        Of each user and level; the oldest go first.
    max_bytes : int >= 1, default=65536
        Of one item as JSON.
    clock : callable, default=time.time
        Seconds since 1970.

    Raises
    ------
    ContextStoreError
        If the file cannot be used, or is something else.

    Examples
    --------
    >>> memory = Memory()
    >>> memory.remember("user", "prefers mornings", user="ann")
    MemoryItem(user, of ann)
    >>> memory.remember("session", {"found": "C101", "api_key": "k-1"}, user="ann", session="s1")
    MemoryItem(session, of ann)
    >>> [item.data for item in memory.recall(user="ann", session="s1")]
    ['prefers mornings', {'found': 'C101', 'api_key': '***'}]
    >>> memory.recall(user="eve", session="s1"), memory.erase(user="ann")
    ((), 2)
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        session_ttl: float = 1_800.0,
        thread_ttl: float = 604_800.0,
        user_ttl: float = 7_776_000.0,
        max_items: int = 1_000,
        max_bytes: int = 65_536,
        clock: Callable[[], float] = time.time,
    ) -> None:
        ttls = {"session": session_ttl, "thread": thread_ttl, "user": user_ttl}
        self.ttls: dict[str, float] = {}
        for level, ttl in ttls.items():
            name = f"{level}_ttl in seconds"
            self.ttls[level] = check_number(name, ttl, 0, 10**12, ends=False)
        self.max_items = check_number("max_items", max_items, 1, whole=True)
        self.max_bytes = check_number("max_bytes", max_bytes, 1, whole=True)
        self._clock = clock
        cure = "name another file, or remove this one: it is then forgotten"
        self._file = SqliteFile(path, application="cnpm", schema=_SCHEMA, cure=cure)

    @property
    def path(self) -> Path | None:
        """Where it is kept; None in memory."""
        return self._file.path

    def remember(
        self,
        level: MemoryLevel,
        data: Any,
        *,
        user: str | None = None,
        session: str | None = None,
        thread: str | None = None,
    ) -> MemoryItem:
        """Keep something, and return it as it is kept; it is on disk then.

        Parameters
        ----------
        level : {"session", "thread", "user"}
        data : str or JSON value
        user : str, optional
            Whose it is. Without one, it is recalled where no user is named.
        session, thread : str, optional
            That of the level must be given; the other one is for `erase`.

        Raises
        ------
        InputError
            If the level has no session, thread or user, or the data cannot be written.
        """
        if level not in get_args(MemoryLevel):
            raise InputError(f"level must be session, thread or user, got {shown(level)}")
        whose = _whose(user, session, thread)
        if not whose[level]:
            raise InputError(f"what is remembered by {level} needs one (give {level}=...)")
        check_json("what is remembered", {"data": data})
        self._written(data)  # before it is looked through, which takes long for long texts
        kept = without_secrets(data)
        text = self._written(kept)
        now = self._clock()
        expires = now + self.ttls[level]
        row = (level, whose["user"], whose["session"], whose["thread"], now, expires, text)

        def write(connection: sqlite3.Connection) -> None:
            _expire(connection, now)
            connection.execute(
                f"INSERT INTO items ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            connection.execute(_OLDEST, (whose["user"], level, self.max_items))

        self._file.use(write)
        return MemoryItem(level, kept, now, expires, user, session, thread)

    def _written(self, data: Any) -> str:
        """Return data as JSON, or raise if that is too long."""
        text = json.dumps(data, ensure_ascii=False)
        if (size := len(text.encode())) > self.max_bytes:
            raise InputError(
                f"what is remembered has {size:,} bytes, and {self.max_bytes:,} are allowed "
                "(remember a summary)"
            )
        return text

    def recall(
        self,
        *,
        user: str | None = None,
        session: str | None = None,
        thread: str | None = None,
        levels: Collection[MemoryLevel] = get_args(MemoryLevel),
    ) -> tuple[MemoryItem, ...]:
        """Return what is remembered of a user: of this session, of this thread, and in general.

        Oldest first. Without a user, it is what is nobody's.
        """
        now = self._clock()
        values = {**_whose(user, session, thread), "now": now}

        def read(connection: sqlite3.Connection) -> list[Any]:
            _expire(connection, now)
            return connection.execute(_RECALLED, values).fetchall()

        items = (self._item(row) for row in self._file.use(read))
        return tuple(item for item in items if item.level in levels)

    def for_prompt(
        self,
        tokens: int,
        *,
        user: str | None = None,
        session: str | None = None,
        thread: str | None = None,
    ) -> tuple[dict[str, Any], ...]:
        """Return what fits into so many tokens, for the prompt of a planner or an agent.

        What is of the session comes before what is of the thread, and that before what is of the
        user; within each, the newest first. What does not fit is left out.

        Parameters
        ----------
        tokens : int >= 1
            Estimated, of all that is returned as JSON.

        Returns
        -------
        tuple of dict
            ``{"remembered": level, "data": ...}``: data for a prompt, never an instruction.

        Examples
        --------
        >>> memory = Memory()
        >>> for n in range(100):
        ...     _ = memory.remember("session", f"call {n} found nothing", session="s1")
        >>> shown = memory.for_prompt(50, session="s1")
        >>> shown[0], len(shown)
        ({'remembered': 'session', 'data': 'call 99 found nothing'}, 3)
        """
        check_number("tokens", tokens, 1, whole=True)
        found = self.recall(user=user, session=session, thread=thread)
        chosen, left = [], tokens
        for level in get_args(MemoryLevel):
            for item in reversed([each for each in found if each.level == level]):
                entry = {"remembered": level, "data": item.data}
                cost = estimate_tokens(json.dumps(entry, ensure_ascii=False)) + 1  # and a comma
                if cost <= left:
                    chosen.append(entry)
                    left -= cost
        return tuple(chosen)

    def count(
        self, *, user: str | None = None, session: str | None = None, thread: str | None = None
    ) -> int:
        """Return how many items `erase` would remove."""
        values = _named(user, session, thread)
        query = f"SELECT count(*) {_ERASED}"
        return int(self._file.use(lambda c: c.execute(query, values).fetchone()[0]))

    def erase(
        self, *, user: str | None = None, session: str | None = None, thread: str | None = None
    ) -> int:
        """Remove all of a user, a session or a thread (of what is named, all at once).

        It is then gone from the bytes of the file too. Returns how many items that were.

        Raises
        ------
        InputError
            If nothing is named.
        """
        values, now = _named(user, session, thread), self._clock()

        def remove(connection: sqlite3.Connection) -> int:
            gone = connection.execute(f"DELETE {_ERASED}", values).rowcount
            _expire(connection, now)
            return gone

        return self._file.use(remove)

    def close(self) -> None:
        """Close the file. Can be called twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory({'' if self.path is None else repr(str(self.path))})"

    def _item(self, row: tuple[Any, ...]) -> MemoryItem:
        level, user, session, thread, at, expires, text = row
        try:
            data = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            raise self._file.error("an item in it is damaged") from None
        return MemoryItem(level, data, at, expires, user or None, session or None, thread or None)


def _whose(user: str | None, session: str | None, thread: str | None) -> dict[str, str]:
    return {
        "user": "" if user is None else check_user(user),
        "session": "" if session is None else check_id("session", session),
        "thread": "" if thread is None else check_id("thread", thread),
    }


def _named(user: str | None, session: str | None, thread: str | None) -> dict[str, str]:
    values = _whose(user, session, thread)
    if not any(values.values()):
        raise InputError("say whose memory is meant: user=, session= or thread=")
    return values


def _expire(connection: sqlite3.Connection, now: float) -> None:
    connection.execute("DELETE FROM items WHERE expires <= ?", (now,))
