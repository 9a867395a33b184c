"""Many requests at once, and requests beside an event loop."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from cnp_router.exceptions import InputError
from cnp_router.records import check_date, check_request, shown

__all__ = ["check_requests", "in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


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
            f"there are {len(days)} dates for {len(asked)} requests (give one for each, or None)"
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


async def in_thread(work: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
    """Return what some work returns, done in a thread: the event loop goes on meanwhile.

    It has the context variables of who waits for it, and so its spans have their parent.
    """
    import asyncio  # not needed by those who wait

    return await asyncio.to_thread(work, *args, **given)
