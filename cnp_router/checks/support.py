"""What the laws are made of: requests to try, and ways to say what was broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cnp_router.exceptions import InputError
from cnp_router.routing import Router, Routing, Scores
from cnp_router.routing.result import Source

__all__ = [
    "ODD_REQUESTS",
    "REQUESTS",
    "STRANGER",
    "Recorder",
    "answered",
    "require",
    "require_raises",
    "require_sound",
    "some",
]

REQUESTS: tuple[str, ...] = (
    "Show the weather of my next trip on a map, and text me when it rains.",
    "photos",
    "",
)
"""The requests that the laws are tried on where none are given."""

ODD_REQUESTS: tuple[str, ...] = (
    "",
    " \t\n",
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

STRANGER = "an API that no router knows"


class Recorder:
    """A fallback that always names the same contractors, and remembers who asked."""

    source: Source = "llm"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.calls: list[str] = []

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return the names, and remember the request."""
        self.calls.append(request)
        return self.names


def require(condition: bool, request: str, problem: str) -> None:
    """Raise an AssertionError with the problem and the request if the condition is false."""
    # Not the assert statement: "python -O" would leave the laws out.
    if not condition:
        shown = request if len(request) <= 60 else f"{request[:57]}..."
        raise AssertionError(f"{problem} (request {shown!r})")


def require_raises(call: Callable[[], object], request: str, problem: str) -> None:
    """Raise an AssertionError unless the call raises an InputError."""
    try:
        call()
    except InputError:
        return
    except Exception as error:
        raise AssertionError(f"{problem}, but {error!r} (request {request!r})") from error
    raise AssertionError(f"{problem} (request {request!r})")


def answered(router: Router, request: str, known: Sequence[str]) -> Routing:
    """Return the routing; a crash becomes an AssertionError."""
    try:
        return router.route(request, known)
    except Exception as error:
        raise AssertionError(f"crashed with {error!r} (request {request[:60]!r})") from error


def require_sound(router: Router, routing: Routing, known: Sequence[str] = ()) -> None:
    """Raise an AssertionError unless recipients and recommendation are what a routing promises."""
    request = routing.request
    names, recommended = routing.contractors, routing.recommendation
    require(len(names) >= 1, request, "there is no recipient")
    require(len(recommended) >= 1, request, "nothing is recommended")
    require(
        len(set(names)) == len(names) and len(set(recommended)) == len(recommended),
        request,
        "a recipient or a recommended API comes twice",
    )
    require(
        {*names, *recommended} <= set(router.contractors),
        request,
        "a recipient or a recommended API is no contractor",
    )
    given = [recipient.probability for recipient in routing.recipients]
    require(given == sorted(given, reverse=True), request, "recipients are not from high to low")
    scores = router.score(request, known)
    scored = dict(zip(scores.contractors, scores.probabilities, strict=True))
    require(
        given == [float(scored[name]) for name in names],
        request,
        "a recipient's probability is not its score",
    )
    require(
        routing.n_contractors == len(router.contractors),
        request,
        f"{len(router.contractors)} contractors, but the routing says {routing.n_contractors}",
    )


def some(router: Router, request: str = REQUESTS[0]) -> list[str]:
    """Return the one or two most probable contractors, but never all of them."""
    best = router.score(request).top(min(2, len(router.contractors) - 1))
    return [name for name, _ in best]
