"""`Teaching`: what is over becomes experience; what others have taught is taken over."""

from __future__ import annotations

import copy
import datetime
import logging
import time
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cnp_router.exceptions import (
    CnpRouterError,
    DataFileError,
    InputError,
    ModelStoreError,
)
from cnp_router.files import as_path
from cnp_router.history import Mashup
from cnp_router.kept_files import identity
from cnp_router.online import Observer, OnlineStore, Reputation, RouterObserver
from cnp_router.prediction import Candidate, NextToolRouter
from cnp_router.prediction.predictor import Context
from cnp_router.records import check_number
from cnp_router.routing import Router
from cnp_router.serving.logged import Finished
from cnp_router.serving.search_log import SearchLog
from cnp_router.trajectories import Step, Trajectory

__all__ = ["Teaching", "mashup_of_search", "trajectory_of_search"]

Experience: TypeAlias = Trajectory | Mashup
InTurn: TypeAlias = Callable[[Callable[[], object]], object]
"""Does some work while nobody else routes or learns."""

_log = logging.getLogger(__name__)

_AT_ONCE = 200  # searches in a turn: nobody holds the store for long
_CALLS_AT_ONCE = 1_000  # which are in memory together
_GOOD = 4  # of 5
_BAD = 2


class Teaching:
    """Lets a router, next-tool prediction and reputation learn from searches that are over.

    What is learned is kept by an `OnlineStore`, which several workers share: one writes at a time,
    and who does not get the file tries again later. Each takes over what the others have taught as
    the file grows. A worker that is killed loses nothing: what it had begun to teach is taught
    by the next one, and counted once.

    Parameters
    ----------
    path : str or Path
        The file of the store. Made when there is something to teach; its folder too, unless it was
        there at first: another folder may be about to take its place, with a store of its own.
    router : Router, optional
        Learns where it can, as a `LearnedRouter` does.
    idle : float > 0, seconds, default=300.0
        A search for which nothing was called for so long is over; one that was rated is at once.
        Longer than any call takes.
    every : float > 0, seconds, default=5.0
        From one turn to the next.
    next_tool : NextToolRouter, optional
        Default: a new one.
    reputation : Reputation, optional
        Default: a new one.
    clock : callable, default=time.time
        Seconds since 1970: gives the date of what was learned.

    Attributes
    ----------
    sequence : int
        Number of the last record of the store that it has learned from.
    problem : str
        Why it cannot learn at present; ``""`` if it can.
    is_behind : bool
        Whether the last turn has left something to be taught.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router.serving import LoggedSearch
    >>> from cnp_router.serving.logged import LoggedCall
    >>> log, teaching = SearchLog(), Teaching(Path(tempfile.mkdtemp(), "online.sqlite"))
    >>> log.add(LoggedSearch("a1", "ann", 0.0, "Rain?", ("weather",), ("weather",), 0.9, True,
    ...                      True))
    >>> begun = log.begin("a1", "ann", "weather", {}, since=0.0)
    >>> log.end(begun, LoggedCall("weather", {}, "no", True, True))
    >>> log.finish_own()
    >>> teaching.turn(log), teaching.sequence, round(teaching.reputation.rate("weather"), 2)
    (1, 2, 0.67)
    >>> log.close()
    """

    def __init__(
        self,
        path: str | Path,
        router: Router | None = None,
        *,
        idle: float = 300.0,
        every: float = 5.0,
        next_tool: NextToolRouter | None = None,
        reputation: Reputation | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = as_path(path)
        self.idle = check_number("idle in seconds", idle, 0, 10**9, ends=False)
        self.every = check_number("every in seconds", every, 0, 10**6, ends=False)
        self.next_tool = NextToolRouter() if next_tool is None else next_tool
        self.reputation = Reputation() if reputation is None else reputation
        self.sequence = 0
        self.problem = ""
        self.is_behind = False
        self._at_first = copy.deepcopy((self.next_tool.state(), self.reputation.state()))
        self._router: Any = router if _learns(router) else None
        self._observers = self._made()
        self._clock = clock
        self._last: Experience | None = None
        self._has_begun = False
        self._seen: tuple[int, ...] = ()
        self._has_folder = self.path.parent.is_dir()

    def turn(self, log: SearchLog, in_turn: InTurn = lambda work: work()) -> int:
        """Take over what others have taught, then teach what is over.

        Reads nothing of the store where nothing is new, and opens it to write only where there is
        something to teach. Call it from one thread.

        Parameters
        ----------
        log : SearchLog
        in_turn : callable, optional
            Is given each piece of learning, to be done while nobody routes. Default: at once.

        Returns
        -------
        int
            How many parts of searches were taught, at most about 200.
        """
        try:
            self.take_over(in_turn)
            finished = log.finished(idle=self.idle, most=_AT_ONCE, most_calls=_CALLS_AT_ONCE)
            n_taught = self._teach(finished, log, in_turn)
            is_full = len(finished) >= _AT_ONCE or _n_calls(finished) >= _CALLS_AT_ONCE
            self.is_behind = n_taught < len(finished) or is_full
        except CnpRouterError as exc:
            self.is_behind = True
            if not self.problem:
                _log.warning("nothing is learned at present: %s", exc)
            self.problem = str(exc)
            return 0
        self.problem = ""
        return n_taught

    def take_over(self, in_turn: InTurn = lambda work: work()) -> int:
        """Learn from what others have observed since; return how many records that were."""
        if not self.path.exists():
            return 0
        seen = _state_of(self.path)
        if seen == self._seen:
            return 0
        before = self.sequence
        if not self._has_begun:
            self._begin(in_turn)
        else:
            self._follow(in_turn)
        self._seen = seen
        return max(self.sequence - before, 0)

    def renew(self, router: Router, in_turn: InTurn = lambda work: work()) -> None:
        """Have another router learn in the place of the one until now.

        It has learned all that the old one had when this returns; nobody routes by it before. What
        was forgotten in the store, it never learns.

        Raises
        ------
        ModelStoreError, DataFileError
            If the store cannot be read. Then the old one goes on.
        """
        if self._router is None or not _learns(router):
            return
        self.take_over(in_turn)
        observer = RouterObserver(router)  # type: ignore[arg-type]  # as it learns, it is one
        # Another folder may have none. Of later records, all learn in the next turn.
        if self.sequence and self.path.exists():
            observer.apply(OnlineStore.records_after(self.path, 0)[1][: self.sequence])
        self._router = router
        self._observers = [self.next_tool, self.reputation, observer]

    def next(
        self, query: str, steps: Sequence[Step], may_call: Callable[[str], bool]
    ) -> tuple[Candidate, ...]:
        """Return the tools that are likely to be called next; none where that is not sure.

        Parameters
        ----------
        query : str
            Of the search.
        steps : sequence of Step
            What was called for it until now.
        may_call : callable
            From the id of an API to whether it is there for who asks.
        """
        if self.next_tool.n_trajectories < self.next_tool.policy.ask_first:
            return ()
        decided = self.next_tool.predict_next(steps, Context(query), may_ask=False)
        if decided.unsure is not None:
            return ()
        return tuple(each for each in decided.candidates[:3] if may_call(each.tool))

    def _begin(self, in_turn: InTurn) -> None:
        """Learn all there is, from checkpoints where they are."""

        def learn() -> None:
            store = OnlineStore(self.path, self._observers, read_only=True)
            self._has_begun = True
            self._note(store.sequence)

        in_turn(learn)

    def _follow(self, in_turn: InTurn) -> None:
        """Learn what is new since."""
        number, new = OnlineStore.records_after(self.path, max(self.sequence - 1, 0))
        if self._last is not None:
            first = new.pop(0) if new else None
            if first != self._last:  # forgotten, and what is left was numbered anew
                in_turn(self._begin_again)
                number, new = OnlineStore.records_after(self.path, 0)
        if new:
            in_turn(lambda: self._learn(new))
        self._note(number, new)

    def _begin_again(self) -> None:
        """Unlearn all; a router cannot, as long as this process runs."""
        _log.warning(
            "%s: something was forgotten there; the router of this process forgets it when it is "
            "started again",
            self.path,
        )
        next_tool, reputation = copy.deepcopy(self._at_first)
        self.next_tool.restore(next_tool)
        self.reputation.restore(reputation)
        self._observers = self._made()

    def _note(self, sequence: int, new: Sequence[Experience] = ()) -> None:
        """Note up to where all was learned, and the record there."""
        if sequence and not new:  # others may have written more by now
            new = OnlineStore.records_after(self.path, sequence - 1)[1][:1]
        self.sequence, self._last = sequence, new[-1] if new else None

    def _learn(self, records: Sequence[Experience]) -> None:
        for observer in self._observers:
            observer.apply(records)

    def _made(self) -> list[Observer]:
        """Return those that learn; what is to be forgotten is in no state of theirs."""
        made: list[Observer] = [self.next_tool, self.reputation]
        return made if self._router is None else [*made, RouterObserver(self._router)]

    def _teach(self, finished: Sequence[Finished], log: SearchLog, in_turn: InTurn) -> int:
        """Have the store observe what is over; return how many parts that were."""
        if not finished:
            return 0
        if self._has_folder and not self.path.parent.is_dir():
            raise ModelStoreError(
                f"{self.path.parent}: it was moved away or removed (put it back, or another one)"
            )
        try:
            followers = [_Follower(each.kind, in_turn) for each in self._observers]
            store = OnlineStore(self.path, followers)
        except ModelStoreError as exc:
            if type(exc) is not ModelStoreError:
                raise
            _log.debug("taught later: %s", exc)  # somebody else writes
            return 0
        try:
            if not self._has_begun:
                self._begin(in_turn)
            self._follow(in_turn)
            for follower, observer in zip(followers, self._observers, strict=True):
                follower.observer = observer
            records = [record for each in finished for record in self._records(each)]
            self._observe(store, records)
            for each in finished:
                log.was_taught(each)
        finally:
            store.close(checkpoint=False)  # which are written as records come
        return len(finished)

    def _observe(self, store: OnlineStore, records: Sequence[Experience]) -> None:
        """Have a store observe all that can be learned from."""
        before = store.sequence
        try:
            store.observe_many(records)
        except DataFileError:  # of the disk: later
            raise
        except InputError as exc:  # of one of them
            if len(records) == 1:  # as JSON cannot hold it: it never can
                _log.warning("%s is not learned: %s", records[0].id, exc)
                return
            half = len(records) // 2
            for some in (records[:half], records[half:]):
                self._observe(store, some)
        finally:
            if store.sequence > before:  # they are learned, whatever was raised since
                self._note(store.sequence)

    def _records(self, finished: Finished) -> list[Experience]:
        known = None if self._router is None else self._router.catalog
        mashup = mashup_of_search(finished, known, self._clock())
        trajectory = trajectory_of_search(finished)
        return [trajectory] if mashup is None else [trajectory, mashup]

    def __repr__(self) -> str:
        return f"Teaching({str(self.path)!r}, {self.sequence:,} records)"


def trajectory_of_search(finished: Finished) -> Trajectory:
    """Return what was called for a search as a trajectory.

    It was a success if a client says so (4 or 5), and a failure if one says that (1 or 2) or every
    call failed.
    """
    success = None
    if finished.rating is not None and finished.rating >= _GOOD:
        success = True
    elif _is_bad(finished) or all(call.success is False for call in finished.calls):
        success = False
    steps = tuple(call.step for call in finished.calls)
    return Trajectory(_name(finished), finished.query, steps, success, finished.client)


def mashup_of_search(
    finished: Finished, known: Container[str] | None, when: float
) -> Mashup | None:
    """Return what served a search; None where nothing did, or a client says so (1 or 2).

    `known` are the APIs that can be in it, None for all; `when` is in seconds since 1970.
    """
    served = (call.api for call in finished.calls if call.served)
    apis = tuple(dict.fromkeys(api for api in served if known is None or api in known))
    if not apis or _is_bad(finished):
        return None
    day = datetime.datetime.fromtimestamp(when, datetime.UTC).date()
    return Mashup(_name(finished), finished.query, apis, date=day, user=finished.client)


def _n_calls(finished: Sequence[Finished]) -> int:
    return sum(len(each.calls) for each in finished)


def _is_bad(finished: Finished) -> bool:
    return finished.rating is not None and finished.rating <= _BAD


def _name(finished: Finished) -> str:
    return f"search-{finished.search}" + (f"-{finished.part}" if finished.part > 1 else "")


def _learns(router: Router | None) -> bool:
    return hasattr(router, "observe") and hasattr(router, "catalog")


def _state_of(path: Path) -> tuple[int, ...]:
    """Return what changes when a store grows."""
    found: list[int] = []
    for name in (path, path.with_name(f"{path.name}-wal")):
        try:
            found += identity(name.stat())
        except FileNotFoundError:
            continue
    return tuple(found)


class _Follower:
    """Stands in a store for an observer that has learned by itself what was there before."""

    def __init__(self, kind: str, in_turn: InTurn) -> None:
        self.kind = kind
        self.observer: Observer | None = None
        self._in_turn = in_turn

    def check(self, records: Sequence[Experience]) -> None:
        if self.observer is not None:
            self.observer.check(records)

    def apply(self, records: Sequence[Experience]) -> None:
        """Have the observer learn, while nobody routes."""
        observer = self.observer
        if observer is not None:
            self._in_turn(lambda: observer.apply(records))

    def state(self) -> dict[str, Any]:
        assert self.observer is not None
        return self.observer.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Take nothing over: the observer itself does."""
