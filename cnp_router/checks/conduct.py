"""Laws of conduct: what a router does with what it is given, whatever it decides."""

from __future__ import annotations

import copy
import datetime
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from cnp_router.checks.decisions import STRANGER, require_sound, some
from cnp_router.checks.law import DAYS, ODD_REQUESTS, law, require, require_raises
from cnp_router.routing import MaxCost, Router, Scores

__all__: list[str] = []


@law
def inputs_untouched(router: Router, request: str) -> None:
    """Check that neither arguments nor answers given earlier are changed."""
    known = [*some(router), STRANGER]
    select = MaxCost(3.0, dict.fromkeys(router.apis, 2.0))
    before_known, before_costs, apis = list(known), dict(select.costs or {}), tuple(router.apis)
    scores = router.score(request, known)
    before = scores.probabilities.copy()
    router.decide(request, scores, known, select=select)
    router.route(request, known, select=select)
    router.score("something else")
    require(known == before_known, "the list of known APIs was changed")
    require(select.costs == before_costs, "the costs of a rule were changed")
    require(
        np.array_equal(scores.probabilities, before, equal_nan=True),
        "scores that had been given were changed later",
    )
    require(router.apis == apis, "the APIs of the router were changed")


@law
def scores_are_probabilities(router: Router, request: str) -> None:
    """Check that each API has a probability in [0, 1], ordered from the highest, on any day."""
    for date in (None, *DAYS):
        _require_probabilities(router, router.score(request, date=date))


def _require_probabilities(router: Router, scores: Scores) -> None:
    require(scores.apis == router.apis, "scores of other APIs")
    p = np.asarray(scores.probabilities)
    n = len(router.apis)
    require(p.shape == (n,), f"{n} APIs, but scores of shape {p.shape}")
    outside = p[~((p >= 0) & (p <= 1))]
    require(not len(outside), f"a probability outside [0, 1]: {outside[:1]}")
    complete = sorted(scores.order.tolist()) == list(range(n))
    require(complete, "the order leaves APIs out or names one twice")
    require(bool((np.diff(p[scores.order]) <= 0).all()), "the order is not from high to low")


@law
def same_request_same_answer(router: Router, request: str) -> None:
    """Check that a request is answered the same, whatever came between, and by a copy."""
    first_scores, first = router.score(request).probabilities.copy(), router.route(request)
    router.route("something else entirely", some(router))
    for again in (router, copy.deepcopy(router)):
        require(
            np.array_equal(first_scores, again.score(request).probabilities, equal_nan=True)
            and again.route(request).to_dict() == first.to_dict(),
            "the same request was answered differently",
        )


@law
def dates_are_passed_on(router: Router, request: str) -> None:
    """Check that `route` and `recommend` use the date as `score` does, for that request only."""
    known = some(router)
    before = router.route(request, known)
    for date in DAYS:
        decided = router.decide(request, router.score(request, known, date=date), known)
        routed = router.route(request, known, date=date)
        require(routed.to_dict() == decided.to_dict(), f"route and score differ on {date}")
        best = router.recommend(request, known, date=date)
        expected = routed.recommendation if routed.fits else ()
        require(best == expected, f"route and recommend differ on {date}")
    again = router.route(request, known)
    require(again.to_dict() == before.to_dict(), "a date changed the answer without one")


@functools.partial(law, also=ODD_REQUESTS)
def odd_requests_are_answered(router: Router, request: str) -> None:
    """Check that very long and strange requests (`ODD_REQUESTS`) are answered as any other."""
    for known in ([], some(router)):
        require_sound(router, router.route(request, known), known)


@law
def bad_arguments_raise(router: Router, request: str) -> None:
    """Check that what cannot be used raises an InputError, before anything is counted."""
    route: Callable[..., Any] = router.route
    calls: dict[str, Callable[[], object]] = {
        "a blank request": lambda: route(" \t\n"),
        "a request that is not a string": lambda: route(None),
        "a request in bytes": lambda: router.score(b"map"),  # type: ignore[arg-type]
        "a date as a string": lambda: route(request, date="2012-02-29"),
        "a date and time": lambda: route(request, date=datetime.datetime(2012, 2, 29)),
        "a year to score by": lambda: router.score(request, date=2012),  # type: ignore[arg-type]
        "known as one string": lambda: route(request, "maps"),
        "known as numbers": lambda: route(request, [1]),
        "a threshold above 1": lambda: route(request, threshold=1.5),
        "a threshold that is not a number": lambda: route(request, threshold=float("nan")),
        "a threshold of another type": lambda: route(request, threshold=object()),
        "an unknown fallback": lambda: route(request, fallback="nobody"),
        "an unknown selection": lambda: route(request, select=5),
    }
    before = sum(router.source_counts.values())
    for what, call in calls.items():
        require_raises(call, what)
    require(sum(router.source_counts.values()) == before, "a routing that failed was counted")
