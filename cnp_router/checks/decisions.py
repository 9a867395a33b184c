"""Laws of the decision: who is asked, how sure it is, and who decided."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from cnp_router.checks.law import DAYS, REQUESTS, law, require, require_raises
from cnp_router.routing import MaxCost, Router, Routing, Scores, TargetRecall, TopK
from cnp_router.routing.result import Source

__all__ = ["STRANGER", "require_sound", "some"]

STRANGER = "an API that no router knows"
_TARGETS = (0.01, 0.5, 0.9, 0.999)
_SAME = 1e-9


class Recorder:
    """A fallback that always names the same APIs, and remembers who asked."""

    source: Source = "llm"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.calls: list[str] = []

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return the names, and remember the request."""
        self.calls.append(request)
        return self.names


def some(router: Router, request: str = REQUESTS[0]) -> list[str]:
    """Return the one or two most probable APIs, but never all of them."""
    return [name for name, _ in router.score(request).top(min(2, len(router.apis) - 1))]


def require_sound(router: Router, routing: Routing, known: Sequence[str] = ()) -> None:
    """Raise an AssertionError unless recipients and recommendation are what a routing promises."""
    names, recommended = routing.contractors, routing.recommendation
    require(len(names) >= 1, "there is no recipient")
    require(len(recommended) >= 1, "nothing is recommended")
    once = len(set(names)) == len(names) and len(set(recommended)) == len(recommended)
    require(once, "a recipient or a recommended API comes twice")
    known_ids = {*names, *recommended} <= set(router.apis)
    require(known_ids, "a recipient or a recommended API is not one of the router's")
    given = [recipient.probability for recipient in routing.recipients]
    require(given == sorted(given, reverse=True), "recipients are not from high to low")
    scores = router.score(routing.request, known)
    scored = dict(zip(scores.apis, scores.probabilities, strict=True))
    same = given == [float(scored[name]) for name in names]
    require(same, "a recipient's probability is not its score")
    n = len(router.apis)
    require(routing.n_apis == n, f"{n} APIs, but the routing says {routing.n_apis}")


@law
def recipients_descend(router: Router, request: str) -> None:
    """Check that recipients are distinct, most probable first, as scored."""
    half = dict.fromkeys(router.apis[::2], 2.0)
    for select in (TargetRecall(0.5), TargetRecall(0.9), TopK(3), MaxCost(5.0, half)):
        require_sound(router, router.route(request, select=select))
    # One recipient, since a router is too sure of many to fall back.
    doubtful = functools.partial(router.route, request, select=TopK(1), threshold=1.0)
    worst_first = Recorder([router.apis[i] for i in router.score(request).order[::-1]])
    for fallback in ("none", "broadcast", worst_first):
        require_sound(router, doubtful(fallback=fallback))


@law
def never_more_than_asked(router: Router, request: str) -> None:
    """Check that there is a recipient, never more than asked; more than exist is fine."""
    n = len(router.apis)
    order = router.score(request).order
    for k in (1, 2, n, n + 10):
        given = router.route(request, select=TopK(k)).contractors
        best = tuple(router.apis[i] for i in order[:k])
        require(given == best, f"asked for the top {k} of {n}, got {len(given)} or not the best")
    costs = {name: 1.0 + i % 3 for i, name in enumerate(router.apis)}
    for limit in (0.5, 4.0, 10.0 * n):
        paid = router.route(request, select=MaxCost(limit, costs)).contractors
        spent = sum(costs[name] for name in paid)
        require(len(paid) >= 1, f"no recipient for a cost of at most {limit}")
        require(spent <= limit or len(paid) == 1, f"spent {spent} where {limit} was the most")
    counts = [len(router.route(request, select=TargetRecall(t)).recipients) for t in _TARGETS]
    require(min(counts) >= 1, "no recipient for a target recall")
    require(counts == sorted(counts), "a higher target recall has fewer recipients")


@law
def known_are_not_asked(router: Router, request: str) -> None:
    """Check that known APIs have probability 0 and are neither asked for nor recommended."""
    known = some(router, request)
    scores = dict(router.score(request, known).top(len(router.apis)))
    require(all(scores[k] == 0 for k in known), "a known API has a probability")
    for fallback in ("none", "broadcast", Recorder(router.apis)):
        for select in (TargetRecall(0.9), TopK(1), TopK(len(router.apis))):
            routing = router.route(request, known, select=select, threshold=1.0, fallback=fallback)
            require_sound(router, routing, known)
            asked = {*routing.contractors, *routing.recommendation}
            require(not set(known) & asked, "a known API is a recipient or recommended")
            require(routing.known == tuple(known), f"known {known} became {routing.known}")
    require_raises(lambda: router.route(request, router.apis), "that every API is known")


@law
def unknown_known_are_reported(router: Router, request: str) -> None:
    """Check that a known API the router never heard of is ignored, and said to be."""
    known = some(router, request)
    plain = router.route(request, known)
    scores = router.score(request, known).probabilities
    strange = router.route(request, [STRANGER, *known, STRANGER, ""])
    said = strange.ignored == (STRANGER, "")
    require(said, f"ids that were ignored are not reported: {strange.ignored}")
    require(
        np.array_equal(scores, router.score(request, [STRANGER, *known]).probabilities)
        and strange.contractors == plain.contractors,
        "an unknown known API changed the answer",
    )
    require(plain.ignored == (), f"reported as ignored: {plain.ignored}")


@law
def confidence_is_a_probability(router: Router, request: str) -> None:
    """Check that the confidence is in [0, 1], and rightly compared with the threshold."""
    for select in (TopK(1), TargetRecall(0.5), TargetRecall(0.9), TopK(10**6)):
        for known in ([], some(router)):
            confidence = router.route(request, known, select=select).confidence
            require(0 <= confidence <= 1, f"confidence is {confidence!r}")
    for threshold in (0.0, confidence, 1.0):
        routing = router.route(request, some(router), select=TopK(10**6), threshold=threshold)
        require(
            routing.threshold == threshold
            and routing.is_confident == (routing.confidence >= threshold),
            f"is_confident is {routing.is_confident} at a threshold of {threshold}",
        )


@law
def fallback_is_never_silent(router: Router, request: str) -> None:
    """Check that who decided is in the result and counted, and none means none."""
    own = router.route(request, select=TopK(1), threshold=0.0)
    doubtful = _counted(router, request, "none")
    require(
        (doubtful.contractors, doubtful.source, doubtful.fallback)
        == (own.contractors, own.source, "none"),
        "without a fallback, the threshold changed the answer",
    )
    everyone = _counted(router, request, "broadcast")
    model = Recorder(router.apis[:2])
    asked = _counted(router, request, model)
    if everyone.is_confident:
        alone = everyone.contractors == own.contractors and not model.calls
        require(alone, "a fallback was used above the threshold")
        return
    require(
        (everyone.source, len(everyone.recipients)) == ("broadcast", len(router.apis)),
        f"a broadcast fallback reached {len(everyone.recipients)}, source {everyone.source!r}",
    )
    require(
        asked.source == "llm"
        and model.calls == [request]
        and set(asked.contractors) == {*own.contractors, *model.names},
        f"a fallback was not used as given: source {asked.source!r}, asked {model.calls}",
    )


@law
def threshold_zero_never_falls_back(router: Router, request: str) -> None:
    """Check that at a threshold of 0 the router decides alone."""
    for select in (TopK(1), TargetRecall(0.9)):
        model = Recorder(router.apis)
        own = router.route(request, select=select, threshold=0.0)
        given = router.route(request, select=select, threshold=0.0, fallback=model)
        same = (given.contractors, given.source) == (own.contractors, own.source)
        require(same and not model.calls, "a fallback was used at a threshold of 0")


@law
def deciding_on_scores_is_routing(router: Router, request: str) -> None:
    """Check that ``route`` is ``score``, then ``decide``."""
    for known in ([], some(router)):
        for select in (TargetRecall(0.8), TopK(2)):
            scores = router.score(request, known)
            decided = router.decide(request, scores, known, select=select)
            routed = router.route(request, known, select=select)
            require(
                decided.to_dict() == routed.to_dict(),
                "deciding on the scores is not what route decides",
            )


@law
def many_are_routed_as_one_by_one(router: Router, request: str) -> None:
    """Check that many requests at once, with their days, are answered as each of them alone."""
    requests = [request, "something else"]
    known, days = some(router), [None, DAYS[0]]
    ways: list[dict[str, Any]] = [{}, {"select": TopK(1), "fallback": "broadcast"}]
    if not {*router.apis[:1], *known} >= set(router.apis):
        ways.append({"exclude": router.apis[:1]})
    for how in ways:
        given = {"threshold": 1.0, **how}
        one_by_one = [
            router.route(each, known, date=date, **given)
            for each, date in zip(requests, days, strict=True)
        ]
        before = sum(router.source_counts.values())
        many = router.route_many(iter(requests), known, dates=days, **given)
        counted = sum(router.source_counts.values()) - before
        require(counted == len(requests) or not router.is_counted, "not every request was counted")
        require(len(many) == len(requests), f"{len(requests)} requests, {len(many)} answers")
        alike = all(map(_are_alike, many, one_by_one))
        require(alike, "many requests at once were answered differently")
    scored = router.score_many(requests, known, dates=days)
    for each, date, scores in zip(requests, days, scored, strict=True):
        alone = router.score(each, known, date=date).probabilities
        same = np.allclose(scores.probabilities, alone, rtol=0, atol=_SAME, equal_nan=True)
        require(same, "many requests at once were scored differently")


def _are_alike(one: Routing, other: Routing) -> bool:
    """Return whether two routings are the same, but for the rounding of sums."""
    numbers, others = (
        [each.confidence, each.answerable, *(r.probability for r in each.recipients)]
        for each in (one, other)
    )
    texts, other_texts = (
        (each.request, each.contractors, each.recommendation, each.source, each.known)
        for each in (one, other)
    )
    return texts == other_texts and np.allclose(numbers, others, rtol=0, atol=_SAME, equal_nan=True)


def _counted(router: Router, request: str, fallback: Any) -> Routing:
    """Return a routing of one recipient that has to be sure, once it is seen to be counted."""
    before = router.source_counts.copy()
    routing = router.route(request, select=TopK(1), threshold=1.0, fallback=fallback)
    before[routing.source] += 1
    require(router.source_counts == before, f"a {routing.source!r} routing was not counted")
    return routing
