"""Laws of conduct: what a router does with what it is given, whatever it decides."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnp_router.checks.support import (
    ODD_REQUESTS,
    REQUESTS,
    STRANGER,
    answered,
    require,
    require_raises,
    require_sound,
    some,
)
from cnp_router.exceptions import NotFittedError
from cnp_router.routing import Budget, Router

__all__ = [
    "Loader",
    "check_bad_arguments_raise",
    "check_inputs_untouched",
    "check_odd_requests_are_answered",
    "check_same_request_same_answer",
    "check_saved_answers_the_same",
    "check_scores_are_probabilities",
    "check_unfitted_raises",
]

Loader = Callable[[Path], Router]
"""What loads a saved router."""


def check_inputs_untouched(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that neither arguments nor answers given earlier are changed."""
    for request in requests:
        known = [*some(router), STRANGER]
        costs = dict.fromkeys(router.contractors, 2.0)
        kept_known, kept_costs, contractors = list(known), dict(costs), tuple(router.contractors)
        scores = router.score(request, known)
        kept_scores = scores.probabilities.copy()
        router.decide(request, scores, known, select=Budget(3.0, costs))
        router.route(request, known, select=Budget(3.0, costs))
        router.score("something else")
        require(known == kept_known, request, "the list of known APIs was changed")
        require(costs == kept_costs, request, "the costs of the budget were changed")
        require(
            np.array_equal(scores.probabilities, kept_scores, equal_nan=True),
            request,
            "scores that had been given were changed later",
        )
        require(router.contractors == contractors, request, "the contractors were changed")


def check_scores_are_probabilities(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that each contractor has a probability in [0, 1], ordered from the highest."""
    for request in requests:
        scores = router.score(request)
        require(scores.contractors == router.contractors, request, "scores of other contractors")
        probabilities = np.asarray(scores.probabilities)
        require(
            probabilities.shape == (len(router.contractors),),
            request,
            f"{len(router.contractors)} contractors, but scores of shape {probabilities.shape}",
        )
        outside = probabilities[~((probabilities >= 0) & (probabilities <= 1))]
        require(not len(outside), request, f"a probability outside [0, 1]: {outside[:1]}")
        require(
            sorted(scores.order.tolist()) == list(range(len(probabilities))),
            request,
            "the order leaves contractors out or names one twice",
        )
        require(
            bool((np.diff(probabilities[scores.order]) <= 0).all()),
            request,
            "the order is not from high to low",
        )


def check_same_request_same_answer(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that a request is answered the same, whatever came between, and by a copy."""
    for request in requests:
        first_scores, first = router.score(request).probabilities.copy(), router.route(request)
        router.route("something else entirely", some(router))
        for again in (router, copy.deepcopy(router)):
            require(
                np.array_equal(first_scores, again.score(request).probabilities, equal_nan=True)
                and again.route(request).to_dict() == first.to_dict(),
                request,
                "the same request was answered differently",
            )


def check_odd_requests_are_answered(router: Router, requests: Sequence[str] = ODD_REQUESTS) -> None:
    """Check that empty, very long and strange requests are answered as any other.

    `ODD_REQUESTS` are always tried, besides those that are given.
    """
    for request in dict.fromkeys((*ODD_REQUESTS, *requests)):
        require_sound(router, answered(router, request, ()))
        require_sound(router, answered(router, request, some(router)), some(router))


def check_bad_arguments_raise(router: Router, requests: Sequence[str] = REQUESTS) -> None:
    """Check that what cannot be used raises an InputError, before anything is counted."""
    request: Any = requests[0]
    calls: dict[str, Callable[[], object]] = {
        "a request that is no string": lambda: router.route(None),  # type: ignore[arg-type]
        "a request in bytes": lambda: router.score(b"map"),  # type: ignore[arg-type]
        "known as one string": lambda: router.route(request, "maps"),
        "a threshold above 1": lambda: router.route(request, threshold=1.5),
        "a threshold that is no number": lambda: router.route(request, threshold=float("nan")),
        "an unknown fallback": lambda: router.route(request, fallback="nobody"),  # type: ignore[arg-type]
        "an unknown selection": lambda: router.route(request, select=5),  # type: ignore[arg-type]
    }
    before = sum(router.source_counts.values())
    for what, call in calls.items():
        require_raises(call, request, f"{what} did not raise an InputError")
    require(
        sum(router.source_counts.values()) == before, request, "a routing that failed was counted"
    )


def check_saved_answers_the_same(
    router: Any, load: Loader, requests: Sequence[str] = REQUESTS
) -> None:
    """Check that a router that was saved and loaded answers as before.

    Parameters
    ----------
    router : Router with ``save(path)``
    load : callable from Path to Router
    requests : sequence of str, default=REQUESTS
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        router.save(path)
        loaded = load(path)
        for request in requests:
            for known in ((), some(router)):
                require(
                    np.array_equal(
                        router.score(request, known).probabilities,
                        loaded.score(request, known).probabilities,
                    )
                    and loaded.route(request, known).to_dict()
                    == router.route(request, known).to_dict(),
                    request,
                    "the loaded router answers differently",
                )


def check_unfitted_raises(unfitted: Callable[[], Any]) -> None:
    """Check that a router that was not fitted raises a NotFittedError when it is asked.

    Parameters
    ----------
    unfitted : callable to an object
        Makes a router that was not fitted.
    """
    for method in ("score", "route"):
        router = unfitted()
        try:
            getattr(router, method)(REQUESTS[0])
        except NotFittedError:
            continue
        except Exception as error:
            raise AssertionError(
                f"{method} of an unfitted router raised {error!r}, not a NotFittedError"
            ) from error
        raise AssertionError(f"{method} of an unfitted router answered")
