"""Laws of what is handed to a router with a request: whom it may ask, and what it says of that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from cnp_router.checks.decisions import STRANGER, Recorder, require_sound, some
from cnp_router.checks.law import law, require, require_raises
from cnp_router.routing import MaxCost, Router, TargetRecall, TopK

__all__: list[str] = []


def _ways(router: Router) -> Iterator[dict[str, Any]]:
    """Yield ways to decide: several rules, below and above the threshold, with each fallback."""
    costs = {name: 1.0 + i % 3 for i, name in enumerate(router.apis)}
    rules = (TargetRecall(0.5), TargetRecall(0.9), TopK(1), TopK(10**6), MaxCost(4.0, costs))
    fallbacks = ("none", "broadcast", Recorder(router.apis[::-1]))
    for select, threshold, fallback in itertools.product(rules, (0.0, 1.0), fallbacks):
        yield {"select": select, "threshold": threshold, "fallback": fallback}


@law
def recommended_are_asked(router: Router, request: str) -> None:
    """Check that what is recommended are the most probable recipients, whoever chose them."""
    for known, how in itertools.product(([], some(router)), _ways(router)):
        routing = router.route(request, known, **how)
        recommended = routing.recommendation
        require(
            len(recommended) >= 1 and recommended == routing.contractors[: len(recommended)],
            f"recommended {recommended[:3]}, and asked {routing.contractors[:3]}",
        )


@law
def restrictions_are_obeyed(router: Router, request: str) -> None:
    """Check that `among` and `exclude` are obeyed by whoever decides, in the order of the scores.

    The same restriction as a list of ids, as a function, and by what it leaves out is one.
    """
    inside, outside = router.apis[::2], router.apis[1::2]
    for how in _ways(router):
        routing = router.route(request, among=inside, **how)
        require_sound(router, routing)
        asked = {*routing.contractors, *routing.recommendation}
        require(asked <= set(inside), "an API outside among was asked or recommended")
        said = routing.n_allowed == len(inside)
        require(said, f"{len(inside)} may be asked, but the routing says {routing.n_allowed}")
    in_order = [name for name, _ in router.score(request).top(len(router.apis)) if name in inside]
    everyone = router.route(request, among=inside, select=TopK(len(router.apis))).contractors
    require(everyone == tuple(in_order), "a restriction changed the order")
    plain = router.route(request, among=inside)
    ways: list[dict[str, Any]] = [
        {"exclude": outside},
        {"among": inside.__contains__},
        {"exclude": outside.__contains__},
        {"among": router.apis, "exclude": outside},
    ]
    for way in ways:
        same = router.route(request, **way) == plain
        require(same, "the same restriction, put differently, was answered differently")
    for way in ({"among": inside}, *ways):
        expected = plain.recommendation if plain.fits else ()
        same = router.recommend(request, **way) == expected
        require(same, "recommend does not obey the restriction")


@law
def restrictions_leave_no_trace(router: Router, request: str) -> None:
    """Check that a restriction is one request's own: later ones are answered as before."""
    scores, before = router.score(request).probabilities.copy(), router.route(request)
    best = before.contractors[0]
    for among in ([best], router.apis[:1], router.apis[::2]):
        router.route(request, among=among)
        router.route(request, exclude=set(router.apis) - set(among))
    require(
        np.array_equal(scores, router.score(request).probabilities, equal_nan=True)
        and router.route(request).to_dict() == before.to_dict(),
        "a restriction changed a later answer",
    )
    decided = router.decide(request, router.score(request), among=[best])
    require(
        decided.to_dict() == router.route(request, among=[best]).to_dict(),
        "deciding on the scores within a restriction is not what route decides",
    )


@law
def strangers_in_restrictions_are_reported(router: Router, request: str) -> None:
    """Check that an id in a restriction that the router never heard of is ignored, and said."""
    inside = router.apis[::2]
    plain = router.route(request, among=inside)
    require(plain.ignored == (), f"reported as ignored: {plain.ignored}")
    strange = router.route(request, [STRANGER], among=[STRANGER, *inside], exclude=["", STRANGER])
    said = strange.ignored == (STRANGER, "")
    require(said, f"ids that were ignored are not reported: {strange.ignored}")
    require(strange.contractors == plain.contractors, "an unknown id changed the answer")


@law
def unusable_restrictions_raise(router: Router, request: str) -> None:
    """Check that a restriction that leaves no one, or is none, raises and is not counted."""
    route: Any = router.route
    best = some(router) or list(router.apis)
    calls = {
        "among without an id": lambda: route(request, among=[]),
        "among with strangers only": lambda: route(request, among=[STRANGER]),
        "among with known APIs only": lambda: route(request, best, among=best),
        "among with excluded APIs only": lambda: route(request, among=best, exclude=best),
        "that every API is excluded": lambda: route(request, exclude=router.apis),
        "a function that lets no one in": lambda: route(request, among=lambda name: False),
        "a function that answers no truth": lambda: route(request, among=lambda name: "yes"),
        "among as one string": lambda: route(request, among=router.apis[0]),
        "exclude as one string": lambda: route(request, exclude=router.apis[0]),
        "exclude as a number": lambda: route(request, exclude=3),
    }
    before = sum(router.source_counts.values())
    for what, call in calls.items():
        require_raises(call, what)
    require_raises(lambda: route(request, among=_fails), "a function that fails", ZeroDivisionError)
    require(sum(router.source_counts.values()) == before, "a routing that failed was counted")


@law
def answerable_is_a_probability(router: Router, request: str) -> None:
    """Check that the probability that anything fits is in [0, 1], and that a verdict says it."""
    for known in ([], some(router)):
        for among in (None, router.apis[::2], router.apis[-1:]):
            if among is not None and set(among) <= set(known):
                continue
            for select in (TopK(1), TargetRecall(0.9)):
                routing = router.route(request, known, among=among, select=select)
                p = routing.answerable
                require(0 <= p <= 1, f"answerable is {p!r}")
                require(routing.n_mashups == router.n_mashups, "n_mashups is not the router's")
                words = routing.verdict
                require(bool(words) and "\n" not in words, f"not a verdict: {words!r}")


def _fails(name: str) -> bool:
    raise ZeroDivisionError
