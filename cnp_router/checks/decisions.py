"""Laws of the decision: who is asked, how sure it is, and who decided."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from cnp_router.checks.support import (
    REQUESTS,
    STRANGER,
    Recorder,
    answered,
    require,
    require_raises,
    require_sound,
    some,
)
from cnp_router.routing import Budget, Router, Routing, TargetRecall, TopK

__all__ = [
    "check_confidence_is_a_probability",
    "check_deciding_on_scores_is_routing",
    "check_fallback_is_never_silent",
    "check_known_are_not_asked",
    "check_never_more_than_asked",
    "check_recipients_descend",
    "check_threshold_zero_never_falls_back",
    "check_unknown_known_are_reported",
]

_TARGETS = (0.01, 0.5, 0.9, 0.999)


def check_recipients_descend(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that recipients are distinct contractors, most probable first, as scored."""
    half = dict.fromkeys(router.contractors[::2], 2.0)
    for request in requests:
        for select in (TargetRecall(0.5), TargetRecall(0.9), TopK(3), Budget(5.0, half)):
            require_sound(router, router.route(request, select=select))
        # One recipient, since a router is too sure of many to fall back.
        doubtful = functools.partial(router.route, request, select=TopK(1), threshold=1.0)
        worst_first = Recorder([router.contractors[i] for i in router.score(request).order[::-1]])
        for fallback in ("none", "broadcast", worst_first):
            require_sound(router, doubtful(fallback=fallback))


def check_never_more_than_asked(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that there is a recipient, never more than asked; more than exist is fine."""
    n = len(router.contractors)
    for request in requests:
        order = router.score(request).order
        for k in (1, 2, n, n + 10):
            given = router.route(request, select=TopK(k)).contractors
            best = tuple(router.contractors[i] for i in order[:k])
            require(
                given == best,
                request,
                f"asked for the top {k} of {n}, got {len(given)} or not the most probable",
            )
        costs = {name: 1.0 + i % 3 for i, name in enumerate(router.contractors)}
        for limit in (0.5, 4.0, 10.0 * n):
            paid = router.route(request, select=Budget(limit, costs)).contractors
            require(len(paid) >= 1, request, f"no recipient for a budget of {limit}")
            spent = sum(costs[name] for name in paid)
            require(
                spent <= limit or len(paid) == 1, request, f"spent {spent} of a budget of {limit}"
            )
        counts = [len(router.route(request, select=TargetRecall(t)).recipients) for t in _TARGETS]
        require(min(counts) >= 1, request, "no recipient for a target recall")
        require(counts == sorted(counts), request, "a higher target recall has fewer recipients")


def check_known_are_not_asked(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that known APIs have probability 0 and are neither asked nor recommended."""
    for request in requests:
        known = some(router, request)
        scores = dict(router.score(request, known).top(len(router.contractors)))
        require(all(scores[k] == 0 for k in known), request, "a known API has a probability")
        for fallback in ("none", "broadcast", Recorder(router.contractors)):
            for select in (TargetRecall(0.9), TopK(1), TopK(len(router.contractors))):
                routing = router.route(
                    request, known, select=select, threshold=1.0, fallback=fallback
                )
                require_sound(router, routing, known)
                require(
                    not set(known) & {*routing.contractors, *routing.recommendation},
                    request,
                    "a known API is a recipient or recommended",
                )
                require(
                    routing.known == tuple(known), request, f"known {known} became {routing.known}"
                )
        require_raises(
            lambda text=request: router.route(text, router.contractors),  # type: ignore[misc]
            request,
            "every contractor is known, but there was no InputError",
        )


def check_unknown_known_are_reported(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that a known API the router never heard of is ignored, and said to be."""
    for request in requests:
        known = some(router, request)
        plain = answered(router, request, known)
        scores = router.score(request, known).probabilities
        strange = answered(router, request, [STRANGER, *known, STRANGER, ""])
        require(
            strange.ignored == (STRANGER, ""),
            request,
            f"ids that were ignored are not reported: {strange.ignored}",
        )
        require(
            np.array_equal(scores, router.score(request, [STRANGER, *known]).probabilities)
            and strange.contractors == plain.contractors,
            request,
            "an unknown known API changed the answer",
        )
        require(plain.ignored == (), request, f"reported as ignored: {plain.ignored}")


def check_confidence_is_a_probability(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that the confidence is in [0, 1], and rightly held against the threshold."""
    for request in requests:
        for select in (TopK(1), TargetRecall(0.5), TargetRecall(0.9), TopK(10**6)):
            for known in ((), some(router)):
                routing = router.route(request, known, select=select)
                confidence = routing.confidence
                require(0 <= confidence <= 1, request, f"confidence is {confidence!r}")
        for threshold in (0.0, confidence, 1.0):
            routing = router.route(request, some(router), select=TopK(10**6), threshold=threshold)
            require(
                routing.threshold == threshold
                and routing.is_confident == (routing.confidence >= threshold),
                request,
                f"is_confident is {routing.is_confident} at a threshold of {threshold}",
            )


def check_fallback_is_never_silent(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that who decided is in the result and counted, and none means none."""
    for request in requests:
        own = router.route(request, select=TopK(1), threshold=0.0)
        doubtful = _counted(router, request, "none")
        require(
            (doubtful.contractors, doubtful.source, doubtful.fallback)
            == (own.contractors, own.source, "none"),
            request,
            "without a fallback, the threshold changed the answer",
        )
        everyone = _counted(router, request, "broadcast")
        model = Recorder(router.contractors[:2])
        asked = _counted(router, request, model)
        if everyone.is_confident:
            require(
                everyone.contractors == own.contractors and not model.calls,
                request,
                "a fallback was used above the threshold",
            )
            continue
        require(
            (everyone.source, len(everyone.recipients)) == ("broadcast", len(router.contractors)),
            request,
            f"a broadcast fallback reached {len(everyone.recipients)}, source {everyone.source!r}",
        )
        require(
            asked.source == "llm"
            and model.calls == [request]
            and set(asked.contractors) == {*own.contractors, *model.names},
            request,
            f"a fallback was not used as given: source {asked.source!r}, asked {model.calls}",
        )


def check_threshold_zero_never_falls_back(
    router: Router, requests: Sequence[str] = REQUESTS
) -> None:
    """Check that at a threshold of 0 the router decides alone."""
    for request in requests:
        for select in (TopK(1), TargetRecall(0.9)):
            model = Recorder(router.contractors)
            own = router.route(request, select=select, threshold=0.0, fallback="none")
            given = router.route(request, select=select, threshold=0.0, fallback=model)
            require(
                not model.calls
                and (given.contractors, given.source) == (own.contractors, own.source),
                request,
                "a fallback was used at a threshold of 0",
            )


def check_deciding_on_scores_is_routing(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that ``route`` is ``score``, then ``decide``."""
    for request in requests:
        for known in ((), some(router)):
            for select in (TargetRecall(0.8), TopK(2)):
                scores = router.score(request, known)
                decided = router.decide(request, scores, known, select=select)
                routed = router.route(request, known, select=select)
                require(
                    decided.to_dict() == routed.to_dict(),
                    request,
                    "deciding on the scores is not what route decides",
                )


def _counted(router: Router, request: str, fallback: Any) -> Routing:
    """Return a routing of one recipient that has to be sure, once it is seen to be counted."""
    before = router.source_counts.copy()
    routing = router.route(request, select=TopK(1), threshold=1.0, fallback=fallback)
    before[routing.source] += 1
    require(
        router.source_counts == before, request, f"a {routing.source!r} routing was not counted"
    )
    return routing
