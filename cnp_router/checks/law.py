"""What a law is, the requests it is tried on, and running the laws one by one or all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cnp_router.checks.states import Loader, check_saved_answers_the_same, check_unfitted_raises
from cnp_router.exceptions import InputError
from cnp_router.records import shown
from cnp_router.routing import Router

__all__ = ["LAWS", "ODD_REQUESTS", "REQUESTS", "check_router", "law", "laws", "require"]

REQUESTS: tuple[str, ...] = (
    "Show the weather of my next trip on a map, and text me when it rains.",
    "photos",
    "xyzzy",
)
"""The requests that the laws are tried on where none are given."""

ODD_REQUESTS: tuple[str, ...] = (
    "?!... --- ;",
    "the of and",
    "1234567890",
    "weather map photo " * 3000,
    "x" * 50_000,
    "Zeig mir das Wetter für Zürich; où est la gare ? Где погода",
    "地図に天気を表示する",
    "\N{RIGHT-TO-LEFT OVERRIDE}map\N{ZERO WIDTH JOINER}\N{COMBINING ACUTE ACCENT}",
    "\N{EARTH GLOBE EUROPE-AFRICA}\N{PARTY POPPER}",
    "map\0weather\x1b[31m",
    "a lone surrogate: \ud800",
    "{0} %s ${HOME} <b> \\",
)
"""Requests that a person or a program may send one day."""

Law = Callable[[Router, str], None]
LAWS: dict[str, Law] = {}
"""The laws that need nothing but a router and a request, by name: ``law(router, request)``."""


_ALSO: dict[str, Sequence[str]] = {}


def law(check: Law, also: Sequence[str] = ()) -> Law:
    """Register a law under the name of its function; it is also tried on some more requests."""
    LAWS[check.__name__] = check
    _ALSO[check.__name__] = also
    return check


def require(condition: bool, problem: str) -> None:
    """Raise an AssertionError with the problem if the condition is false."""
    # Not the assert statement: "python -O" would leave the laws out.
    if not condition:
        raise AssertionError(problem)


def require_refused(call: Callable[[], object], what: str) -> None:
    """Raise an AssertionError unless the call raises an InputError."""
    try:
        call()
    except InputError:
        return
    except Exception as error:
        raise AssertionError(f"{what} did not raise an InputError, but {error!r}") from error
    raise AssertionError(f"{what} did not raise an InputError")


def check_router(
    router: Router,
    *,
    requests: Sequence[str] = REQUESTS,
    load: Loader | None = None,
    unfitted: Callable[[], Any] | None = None,
) -> None:
    """Check that a router obeys every law.

    Parameters
    ----------
    router : Router
        Ready to route. The laws leave it as it is, but for its ``source_counts``.
    requests : sequence of str, default=REQUESTS
        At least one.
    load : callable from Path to Router, optional
        Loads what ``router.save(path)`` has saved.
    unfitted : callable to an object, optional
        Makes an unfitted router, where the router has such a state.

    Raises
    ------
    AssertionError
        At the first law that is broken.
    """
    for _, check in laws(router, requests=requests, load=load, unfitted=unfitted):
        check()


def laws(
    router: Router,
    *,
    requests: Sequence[str] = REQUESTS,
    load: Loader | None = None,
    unfitted: Callable[[], Any] | None = None,
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield each law that applies: its name, and a call that checks it.

    Parameters
    ----------
    router, requests, load, unfitted
        As in `check_router`.

    Yields
    ------
    name : str
    check : callable
        Takes nothing; raises an AssertionError if the law is broken.
    """
    for name, check in LAWS.items():
        yield name, functools.partial(_run, check, router, (*requests, *_ALSO[name]))
    if load is not None:
        saved = functools.partial(check_saved_answers_the_same, router, load)
        yield "saved_answers_the_same", lambda: _run(lambda _, r: saved([r]), router, requests)
    if unfitted is not None:
        yield "unfitted_raises", lambda: check_unfitted_raises(unfitted)


def _run(check: Law, router: Router, requests: Sequence[str]) -> None:
    for request in requests:
        try:
            check(router, request)
        except Exception as error:
            said = str(error) if isinstance(error, AssertionError) else f"crashed with {error!r}"
            raise AssertionError(f"{said} (request {shown(request)})") from error
