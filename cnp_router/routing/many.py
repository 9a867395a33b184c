"""Many requests at once, and requests beside an event loop."""

from __future__ import annotations

import copy
import datetime
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError, ModelStoreError
from cnp_router.pool import LocalPool, spans
from cnp_router.records import check_date, check_request, shown
from cnp_router.routing.deciding import Decision, How
from cnp_router.routing.eligible import Eligible
from cnp_router.routing.recipient import Reason
from cnp_router.routing.result import Routing
from cnp_router.routing.scores import Scores, zeroed

__all__ = [
    "Piece",
    "batches",
    "check_requests",
    "in_pieces",
    "in_thread",
    "routed_elsewhere",
    "scored_elsewhere",
]

# Requests that a process is given at once: at the end some wait for those who have one left.
_LEAST, _MOST = 512, 256

# Whether who waits for work in a thread was cancelled.
_UNWANTED: ContextVar[threading.Event | None] = ContextVar("unwanted", default=None)

P = ParamSpec("P")
T = TypeVar("T")
Piece = tuple[Sequence[str], Sequence[datetime.date | None]]


def check_requests(
    requests: Iterable[str], dates: Iterable[datetime.date | None] | None
) -> tuple[tuple[str, ...], tuple[datetime.date | None, ...]]:
    """Return requests and their days; an InputError says which one cannot be used.

    Examples
    --------
    >>> check_requests(["a map", "a text"], None)
    (('a map', 'a text'), (None, None))
    """
    asked = _several("requests", "requests", requests, check_request)
    if dates is None:
        return asked, (None,) * len(asked)
    days = _several("dates", "dates", dates, lambda day: check_date("date", day))
    if len(days) != len(asked):
        raise InputError(
            f"dates must be as many as requests, got {len(days)} for {len(asked)} (or give None)"
        )
    return asked, days


def _several(
    name: str, what: str, given: Iterable[object], check: Callable[[object], T]
) -> tuple[T, ...]:
    cure = f" (give [{shown(given)}])" if isinstance(given, str) else ""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError(f"{name} must be a list of {what}, got {shown(given)}{cure}")
    checked = []
    for place, each in enumerate(given):
        try:
            checked.append(check(each))
        except InputError as exc:
            raise InputError(f"{name}[{place}]: {exc}") from None
    return tuple(checked)


def in_pieces(
    requests: Sequence[str], dates: Sequence[datetime.date | None], n_jobs: int | None
) -> list[Piece]:
    """Return requests and their days in pieces for so many processes: one if that is as fast.

    Examples
    --------
    >>> len(in_pieces(["a map"] * 5_000, [None] * 5_000, 2))
    20
    """
    if n_jobs == 1 or len(requests) < 2 * _LEAST:
        return [(requests, dates)]
    n_workers = LocalPool(n_jobs).n_workers
    if n_workers == 1:
        return [(requests, dates)]
    least = min(2 * n_workers, len(requests) // _LEAST)
    pieces = spans(len(requests), _MOST, least)
    return [(requests[begin:end], dates[begin:end]) for begin, end in pieces]


def batches(n: int, at_once: int) -> Iterator[slice]:
    """Yield slices of n requests, so many at once, as long as anybody waits for them (`in_thread`).

    Examples
    --------
    >>> list(batches(5, 3))
    [slice(0, 3, None), slice(3, 6, None)]
    """
    for begin in range(0, n, at_once):
        _check_wanted()
        yield slice(begin, begin + at_once)


def scored_elsewhere(
    router: Any, pieces: Sequence[Piece], known: Sequence[int], n_jobs: int | None
) -> Iterator[Scores]:
    """Yield the scores of all requests, of which other processes score each piece."""
    now = copy.copy(router)  # others may observe meanwhile
    packed = _elsewhere(router, now, _packed_piece, pieces, (known,), n_jobs)
    asked = _one_by_one(pieces)
    for (text, day), scores in zip(asked, packed, strict=True):
        yield now._unpacked(scores, text, day)


def _elsewhere(
    router: Any,
    now: Any,
    work: Callable[[Any, Piece], Any],
    pieces: Sequence[Piece],
    shared: tuple[Any, ...],
    n_jobs: int | None,
) -> Iterator[Any]:
    """Yield what other processes make of each request, by a router as it is `now`."""
    there, kept = router._handed_over(now)
    done = 0
    while done < len(pieces):
        try:
            for own in LocalPool(n_jobs).each(work, pieces[done:], (there, *shared)):
                _check_wanted()
                done += 1
                yield from _by_request(own)
        except ModelStoreError:  # it was replaced before all had opened it
            gone = kept
            there, kept = router._handed_over(now)
            if kept == gone:
                raise
    del kept  # it was needed until here


def _one_by_one(pieces: Iterable[Piece]) -> Iterator[tuple[str, datetime.date | None]]:
    return ((text, day) for texts, days in pieces for text, day in zip(texts, days, strict=True))


def _packed_piece(
    shared: tuple[Callable[[], Any], Sequence[int]], piece: Piece
) -> list[Any] | dict[str, Any]:
    """Score some requests, as a piece of work."""
    there, known = shared
    router = there()
    return _by_name([router._packed(scores) for scores in router._in_batches(known, *piece)])


def routed_elsewhere(
    router: Any, pieces: Sequence[Piece], known: Sequence[int], how: How, n_jobs: int | None
) -> Iterator[Routing]:
    """Yield the routings of all requests, of which other processes decide each piece.

    A request is scored here, too, where a fallback is asked, or reasons are read that were not
    wanted at once.
    """
    before = copy.copy(router)  # others may observe meanwhile
    alone = replace(how, other=None)  # what a fallback holds may not be what can be sent
    decided = _elsewhere(router, before, _decided_piece, pieces, (known, alone), n_jobs)
    for (text, day), own in zip(_one_by_one(pieces), decided, strict=True):
        again = _Again(before, text, known, day, how, Decision(**own))
        yield router._routing(text, again.decision, how, again.reasons, again.scores)


class _Again:
    """A request on which another process decided: scored here where something of it is read."""

    __slots__ = ("_day", "_found", "_how", "_known", "_request", "_router", "decision")

    def __init__(
        self,
        router: Any,
        request: str,
        known: Sequence[int],
        day: datetime.date | None,
        how: How,
        decision: Decision,
    ) -> None:
        self._router, self._request, self._known = router, request, known
        self._day, self._how = day, how
        self._found: Scores | None = None
        self.decision = decision.of(self.eligible)

    def scores(self) -> Scores:
        """Return its scores, which are made once."""
        if self._found is None:
            scores = self._router._scores(self._request, self._known, self._day)
            self._found = zeroed(scores, self._known)
        return self._found

    def eligible(self) -> Eligible:
        """Return the APIs that it may be announced to."""
        return Eligible(self.scores(), self._how.whom)

    def reasons(self, some: NDArray[np.intp]) -> dict[str, tuple[Reason, ...]]:
        """Return the reasons for some of the chosen."""
        reasons: dict[str, tuple[Reason, ...]] = self._router._explaining(self.scores())(some)
        return reasons


def _decided_piece(
    shared: tuple[Callable[[], Any], Sequence[int], How], piece: Piece
) -> list[Any] | dict[str, Any]:
    """Decide on some requests, as a piece of work."""
    there, known, how = shared
    router = there()
    scored = router._in_batches(known, *piece)
    return _by_name([vars(router._decision(scores, how)) for scores in scored])


def _by_name(packed: list[Any]) -> list[Any] | dict[str, Any]:
    """Return what was packed as dictionaries by name: few arrays are sent faster than many.

    Examples
    --------
    >>> packed = [{"p": np.array([0.5]), "n": 1}, {"p": np.array([0.1, 0.2]), "n": 2}]
    >>> list(_by_request(_by_name(packed)))
    [{'p': array([0.5]), 'n': 1}, {'p': array([0.1, 0.2]), 'n': 2}]
    """
    if not all(isinstance(own, dict) for own in packed):
        return packed
    names = packed[0].keys() if packed else ()
    columns = {name: [own[name] for own in packed] for name in names}
    return {name: _joined(values) for name, values in columns.items()}


def _joined(values: list[Any]) -> list[Any] | _Arrays:
    if not all(isinstance(value, np.ndarray) and value.ndim == 1 for value in values):
        return values
    return _Arrays(np.concatenate(values), [len(value) for value in values])


@dataclass(frozen=True, eq=False)
class _Arrays:
    """Arrays one after the other, and how long each is."""

    values: NDArray[Any]
    sizes: list[int]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        ends = itertools.accumulate(self.sizes, initial=0)
        # Copies: who keeps one keeps not all of them.
        return (self.values[begin:end].copy() for begin, end in itertools.pairwise(ends))


def _by_request(packed: list[Any] | dict[str, Any]) -> Iterable[Any]:
    """Return what `_by_name` was given."""
    if not isinstance(packed, dict):
        return packed
    return (dict(zip(packed, own, strict=True)) for own in zip(*packed.values(), strict=True))


async def in_thread(work: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
    """Return what some work returns, done in a thread: the event loop goes on meanwhile.

    It has the context variables of who waits for it, and so its spans have their parent. Where that
    is cancelled, work in batches ends with the one at hand.
    """
    import asyncio  # not needed by those who wait

    unwanted = threading.Event()
    before = _UNWANTED.set(unwanted)
    try:
        return await asyncio.to_thread(work, *args, **given)
    except asyncio.CancelledError:
        unwanted.set()
        raise
    finally:
        _UNWANTED.reset(before)


def _check_wanted() -> None:
    """Raise CancelledError where nobody waits for this work any more."""
    unwanted = _UNWANTED.get()
    if unwanted is not None and unwanted.is_set():
        raise CancelledError
