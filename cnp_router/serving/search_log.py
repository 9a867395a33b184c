"""`SearchLog`: searches and what was called after them, of all workers, in one SQLite file."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from cnp_router.context.sqlite_file import SqliteFile
from cnp_router.exceptions import DataFileError, UnknownSearchError
from cnp_router.forgetting import Forgetting
from cnp_router.records import check_number
from cnp_router.serving.logged import Accuracy, Begun, Finished, LoggedCall, LoggedSearch
from cnp_router.serving.search_rows import COLUMNS, SCHEMA, call_of, row_of, search_of

__all__ = ["SearchLog"]

_LONGEST = 16_000  # characters of inputs
_LATEST = 20  # calls by which the next is predicted
_MOST_CALLS = 200  # that are noted of a search
_OWN = "FROM searches WHERE id = ? AND client = ? AND time >= ?"


class SearchLog:
    """Searches and calls, so that what was found and what came of it belong together.

    Several processes may use one file at once; nobody but its owner may read it. Where another
    folder takes the place of its own, it goes on in that which was moved away, until the other one
    has such a file, too: the searches of before are not known then. It holds queries,
    inputs and results until something was learned from them and the search cannot be used any more,
    then only what was shown, chosen and called. Where nothing is learned, inputs and results never
    come into it; what is confidential never does. Of a search, the first 200 calls are noted.

    Parameters
    ----------
    path : str or Path, optional
        Made if it does not exist; its folder must. Without one, it is in memory.
    max_searches : int >= 1, default=20000
        The oldest go first.
    clock : callable, default=time.time
        Seconds since 1970.

    Raises
    ------
    DataFileError
        If the file cannot be used, or is something else.

    Examples
    --------
    >>> from cnp_router.serving.logged import LoggedCall, LoggedSearch
    >>> log = SearchLog()
    >>> log.add(LoggedSearch("a1", "anyone", 0.0, "Rain?", ("weather",), ("weather",), 0.9, True,
    ...                      True))
    >>> begun = log.begin("a1", "anyone", "weather", {"city": "Kyoto"}, since=0.0)
    >>> log.end(begun, LoggedCall("weather", {"city": "Kyoto"}, "no", True, True))
    >>> log.accuracy()["acted"]
    Accuracy(n_called=1, n_correct=1)
    >>> log.close()
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        max_searches: int = 20_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_searches = check_number("max_searches", max_searches, 1, whole=True)
        self.clock = clock
        self.worker = secrets.token_hex(4)
        self._file = SqliteFile(
            path,
            application="cnpl",
            schema=SCHEMA,
            log=path is not None,
            cure="name another file, or remove this one",
            error=_error,
            moved=_take_keys,
        )

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        return self._file.path

    def add(self, search: LoggedSearch) -> None:
        """Note a search."""
        values = row_of(search, self.worker)
        marks = ", ".join("?" * len(values))

        def add(connection: sqlite3.Connection) -> None:
            done = connection.execute(f"INSERT INTO searches VALUES (NULL, {marks})", values)
            assert done.lastrowid is not None
            oldest = (done.lastrowid - self.max_searches,)
            old = "SELECT id FROM searches WHERE number <= ?"
            connection.execute(f"DELETE FROM calls WHERE search IN ({old})", oldest)
            connection.execute("DELETE FROM searches WHERE number <= ?", oldest)

        self._file.use(add)

    def begin(
        self,
        search_id: str,
        client: str,
        api: str,
        inputs: Mapping[str, Any] | None,
        *,
        since: float,
        within: float = 600.0,
        counts: bool = True,
        teaches: bool = True,
    ) -> Begun:
        """Note that an API is called for a search.

        Parameters
        ----------
        search_id, client, api : str
        inputs : mapping of str to JSON value or None
            None where they are confidential. Those of more than 16,000 characters are not kept.
        since : float, seconds since 1970
            Searches from before it cannot be used any more.
        within : float, seconds, default=600.0
            The call takes no longer. Until it has ended, its search is not over, unless so much
            time goes by: who called was killed then.
        counts : bool, default=True
            Whether the call says something about what was found: not where the API is always
            there.
        teaches : bool, default=True
            Whether something is to be learned from the call. If not, it is only noted that the API
            was called.

        Raises
        ------
        UnknownSearchError
            If there is no such search, it is too old, or another client's.
        """

        def begin(connection: sqlite3.Connection) -> Begun | None:
            now, own = self.clock(), (search_id, client, since)
            row = connection.execute(
                f"SELECT query, chosen, called, n_calls {_OWN}", own
            ).fetchone()
            if row is None:
                return None
            query, chosen, called, n_calls = row
            if n_calls >= _MOST_CALLS:
                return Begun(search_id, None, query, None, ())
            connection.execute(
                "UPDATE searches SET n_calls = n_calls + 1 WHERE id = ?", (search_id,)
            )
            known, is_correct = json.loads(called), None
            if counts and api not in known:
                is_correct = api in json.loads(chosen)
                connection.execute(
                    "UPDATE searches SET called = ?, n_called = n_called + 1, "
                    "n_correct = n_correct + ? WHERE id = ?",
                    (json.dumps([*known, api]), is_correct, search_id),
                )
            if not teaches:
                return Begun(search_id, None, query, is_correct, ())
            earlier = connection.execute(
                "SELECT api, inputs, observation, success, served FROM calls WHERE search = ? "
                "ORDER BY number DESC LIMIT ?",
                (search_id, _LATEST),
            ).fetchall()
            connection.execute(
                "UPDATE searches SET last = ?, is_over = 0 WHERE id = ?", (now, search_id)
            )
            content = None if inputs is None else json.dumps(dict(inputs), ensure_ascii=False)
            if content is not None and len(content) > _LONGEST:
                content = None
            number = connection.execute(
                "INSERT INTO calls VALUES (NULL, ?, NULL, ?, ?, ?, '', NULL, 0, ?)",
                (search_id, now, api, content, now + within),
            ).lastrowid
            steps = tuple(call_of(row).step for row in reversed(earlier))
            return Begun(search_id, number, query, is_correct, steps)

        begun = self._file.use(begin)
        if begun is None:
            raise UnknownSearchError(search_id)
        return begun

    def end(self, begun: Begun, call: LoggedCall | None) -> None:
        """Note what came of a call that was begun; None: nothing was called after all."""
        if begun.number is None:
            return
        own = begun.number, begun.search  # in another file, the number is that of another call

        def end(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE searches SET last = ? WHERE id = "
                "(SELECT search FROM calls WHERE number = ? AND search = ?)",
                (self.clock(), *own),
            )
            if call is None:
                connection.execute("DELETE FROM calls WHERE number = ? AND search = ?", own)
                return
            connection.execute(
                "UPDATE calls SET observation = ?, success = ?, served = ?, open_until = 0 "
                "WHERE number = ? AND search = ?",
                (call.observation, call.success, call.served, *own),
            )

        self._file.use(end)

    def rate(self, search_id: str, client: str, rating: int, *, since: float) -> None:
        """Note how good a client says that a search was, which is over by that.

        Raises
        ------
        UnknownSearchError
            As in `begin`.
        """

        def rate(connection: sqlite3.Connection) -> int:
            query = f"UPDATE searches SET rating = ?, is_over = 1 WHERE id IN (SELECT id {_OWN})"
            return connection.execute(query, (rating, search_id, client, since)).rowcount

        if not self._file.use(rate):
            raise UnknownSearchError(search_id)

    def claim_key(self, key: str) -> bool:
        """Take a key of one act; False where somebody has taken it before."""

        def claim(connection: sqlite3.Connection) -> bool:
            values = (key, self.clock())
            done = connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", values)
            return done.rowcount == 1

        return self._file.use(claim)

    def release_key(self, key: str) -> None:
        """Give a key back: its act was not done."""
        self._file.use(
            lambda connection: connection.execute("DELETE FROM keys WHERE key = ?", (key,))
        )

    def finish_own(self) -> None:
        """Take all searches of this worker as over."""
        self._file.use(
            lambda connection: connection.execute(
                "UPDATE searches SET is_over = 1 WHERE worker = ?", (self.worker,)
            )
        )

    def finished(
        self, *, idle: float, most: int = 1000, most_calls: int = 5000
    ) -> tuple[Finished, ...]:
        """Return what is over and was not taught yet, the oldest first.

        What it returns belongs together from then on: whoever asks next, after this process was
        killed perhaps, gets the same once more, until it `was_taught`.

        Parameters
        ----------
        idle : float, seconds
            A search for which nothing was called for so long is over. None is while a call runs
            for it.
        most : int, default=1000
            Of searches, at a time.
        most_calls : int, default=5000
            No more searches are returned from so many calls on.
        """

        def finished(connection: sqlite3.Connection) -> tuple[Finished, ...]:
            now = self.clock()
            names = connection.execute(
                "SELECT id FROM searches JOIN calls ON search = id "
                "WHERE part IS NULL AND (is_over OR last <= ?) GROUP BY id "
                "HAVING max(open_until) <= ? ORDER BY searches.number LIMIT ?",
                (now - idle, now, most),
            ).fetchall()
            for (name,) in names:
                connection.execute("UPDATE searches SET parts = parts + 1 WHERE id = ?", (name,))
                connection.execute(
                    "UPDATE calls SET part = (SELECT parts FROM searches WHERE id = ?) "
                    "WHERE search = ? AND part IS NULL",
                    (name, name),
                )
            parts = connection.execute(
                "SELECT search, part, client, query, rating FROM calls JOIN searches "
                "ON search = id WHERE part IS NOT NULL GROUP BY search, part "
                "ORDER BY min(calls.number)"
            ).fetchall()
            over, n_calls = list[Finished](), 0
            for search, part, client, query, rating in parts:
                rows = connection.execute(
                    "SELECT api, inputs, observation, success, served FROM calls "
                    "WHERE search = ? AND part = ? ORDER BY number",
                    (search, part),
                ).fetchall()
                calls = tuple(call_of(row) for row in rows)
                over.append(Finished(search, part, client, query, rating, calls))
                n_calls += len(rows)
                if n_calls >= most_calls:
                    break
            return tuple(over)

        return self._file.use(finished)

    def was_taught(self, finished: Finished) -> None:
        """Remove the calls of what was taught."""
        values = (finished.search, finished.part)
        self._file.use(
            lambda connection: connection.execute(
                "DELETE FROM calls WHERE search = ? AND part = ?", values
            )
        )

    def tidy(self, *, since: float, teaches: bool = True) -> None:
        """Remove query and client of searches that cannot be used any more and were taught.

        Parameters
        ----------
        since : float, seconds since 1970
            Searches from before it cannot be used any more.
        teaches : bool, default=True
            Whether anybody learns. If not, their calls are removed too, which wait for it.
        """

        def tidy(connection: sqlite3.Connection) -> None:
            if not teaches:
                old = "SELECT id FROM searches WHERE last < ?"
                connection.execute(f"DELETE FROM calls WHERE search IN ({old})", (since,))
            connection.execute(
                "UPDATE searches SET query = '', client = '' WHERE time < ? AND client != '' "
                "AND NOT EXISTS (SELECT 1 FROM calls WHERE search = id)",
                (since,),
            )
            connection.execute("DELETE FROM keys WHERE time < ?", (since,))

        self._file.use(tidy)
        if self.path is not None:
            self._file.empty_log()

    def forget(self, what: Forgetting) -> int:
        """Remove the searches of users, and the calls of APIs; return how many that were.

        As `OnlineStore.forget` does with what was learned from others. What is gone is gone from
        the bytes of the file too.

        Examples
        --------
        >>> from cnp_router.serving.logged import LoggedSearch
        >>> with SearchLog() as log:
        ...     log.add(LoggedSearch("a1", "ann", 0.0, "Rain?", (), (), 0.9, True, True))
        ...     log.count(Forgetting(users=("ann",))), log.forget(Forgetting(users=("ann",)))
        ...     log.searches()
        (1, 1)
        ()
        """

        def forget(connection: sqlite3.Connection) -> int:
            n_gone = _found(connection, what)
            for user in what.users:
                own = "SELECT id FROM searches WHERE client = ?"
                connection.execute(f"DELETE FROM calls WHERE search IN ({own})", (user,))
                connection.execute("DELETE FROM searches WHERE client = ?", (user,))
            connection.executemany("DELETE FROM calls WHERE api = ?", [(a,) for a in what.apis])
            return n_gone

        n_gone = self._file.use(forget)
        if self.path is not None:
            self._file.empty_log()
        return n_gone

    def count(self, what: Forgetting) -> int:
        """Return how many searches and calls `forget` would remove."""
        return self._file.use(lambda connection: _found(connection, what))

    def searches(self, most: int = 100) -> tuple[LoggedSearch, ...]:
        """Return the newest searches, the newest first."""
        most = check_number("most", most, 1, whole=True)
        query = f"SELECT {COLUMNS} FROM searches ORDER BY number DESC LIMIT ?"
        rows = self._file.rows(query, most)
        return tuple(search_of(row) for row in rows)

    def accuracy(self) -> dict[str, Accuracy]:
        """Return how often what was called was among what the router chose.

        Returns
        -------
        dict of str to Accuracy
            ``"shadow"``: of searches that were not acted on, which is a fair estimate, since the
            clients saw all; ``"acted"``: of the others, whose clients could hardly call anything
            else; ``"all"``. A search after which nothing was called does not count.
        """
        query = "SELECT acted, total(n_called), total(n_correct) FROM searches GROUP BY acted"
        rows = self._file.rows(query)
        found = {bool(acted): (int(n), int(correct)) for acted, n, correct in rows}
        shadow, acted = found.get(False, (0, 0)), found.get(True, (0, 0))
        both = (shadow[0] + acted[0], shadow[1] + acted[1])
        return {
            name: Accuracy(*each)
            for name, each in (("shadow", shadow), ("acted", acted), ("all", both))
        }

    def close(self) -> None:
        """Close the file. Can be called twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SearchLog({'in memory' if self.path is None else repr(str(self.path))})"


def _take_keys(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Take over which acts were done: they are not to be done again."""
    keys = old.execute("SELECT * FROM keys").fetchall()
    new.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", keys)


def _error(where: str, problem: str, *, cure: str | None = None) -> DataFileError:
    return DataFileError(where, f"the log of searches: {problem}", cure=cure)


def _found(connection: sqlite3.Connection, what: Forgetting) -> int:
    """Count the searches of users, and the calls of APIs by others."""
    n_found = 0
    for user in what.users:
        query = "SELECT count(*) FROM searches WHERE client = ?"
        n_found += connection.execute(query, (user,)).fetchone()[0]
    for api in what.apis:
        rows = connection.execute(
            "SELECT client FROM calls JOIN searches ON search = id WHERE api = ?", (api,)
        )
        n_found += sum(client not in what.users for (client,) in rows)
    return n_found
