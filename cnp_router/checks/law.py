"""What a law is, the requests it is tried on, and running the laws one by one or all.

Here are also the laws of a router's other states: saved and loaded, and not yet fitted.
"""

from __future__ import annotations

import datetime
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnp_router.exceptions import InputError, NotFittedError
from cnp_router.records import shown
from cnp_router.routing import Router

__all__ = [
    "DAYS",
    "LAWS",
    "ODD_REQUESTS",
    "REQUESTS",
    "Loader",
    "check_router",
    "check_saved_answers_the_same",
    "check_unfitted_raises",
    "law",
    "laws",
    "require",
    "require_raises",
]

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

DAYS = (datetime.date.min, datetime.date(2012, 2, 29), datetime.date.max)
"""Days a request may come from: before any history, in the middle of one, and after it."""

Loader = Callable[[Path], Router]
"""What loads a saved router."""

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


def require_raises(
    call: Callable[[], object], what: str, error: type[Exception] = InputError
) -> None:
    """Raise an AssertionError unless the call raises the right error."""
    came = ""
    try:
        call()
    except error:
        return
    except Exception as other:
        came = f", but {other!r}"
    raise AssertionError(f"{what} did not raise {error.__name__}{came}")


def check_saved_answers_the_same(router: Any, load: Loader, requests: Sequence[str]) -> None:
    """Check that a router that was saved and loaded answers as before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        router.save(path)
        loaded = load(path)
        for request in requests:
            for known in ((), router.apis[: len(router.apis) // 2]):
                before, after = (r.score(request, known).probabilities for r in (router, loaded))
                same = router.route(request, known) == loaded.route(request, known)
                differs = "the loaded router answers differently"
                require(same and np.array_equal(before, after), differs)


def check_unfitted_raises(unfitted: Callable[[], Any]) -> None:
    """Check that a router that was not fitted raises a NotFittedError when it is asked."""
    for method in ("score", "route"):
        ask = functools.partial(getattr(unfitted(), method), "a map")
        require_raises(ask, f"{method} of an unfitted router", NotFittedError)


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
    """Yield each law that `check_router` checks: its name, and a call that checks it."""
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
