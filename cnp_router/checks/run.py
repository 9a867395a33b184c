"""Running the laws, one by one or all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cnp_router.checks.conduct import (
    Loader,
    check_bad_arguments_raise,
    check_inputs_untouched,
    check_odd_requests_are_answered,
    check_same_request_same_answer,
    check_saved_answers_the_same,
    check_scores_are_probabilities,
    check_unfitted_raises,
)
from cnp_router.checks.decisions import (
    check_confidence_is_a_probability,
    check_deciding_on_scores_is_routing,
    check_fallback_is_never_silent,
    check_known_are_not_asked,
    check_never_more_than_asked,
    check_recipients_descend,
    check_threshold_zero_never_falls_back,
    check_unknown_known_are_reported,
)
from cnp_router.checks.support import REQUESTS
from cnp_router.routing import Router

__all__ = ["LAWS", "check_router", "laws"]

LAWS: tuple[Any, ...] = (
    check_inputs_untouched,
    check_scores_are_probabilities,
    check_recipients_descend,
    check_never_more_than_asked,
    check_known_are_not_asked,
    check_unknown_known_are_reported,
    check_same_request_same_answer,
    check_odd_requests_are_answered,
    check_confidence_is_a_probability,
    check_fallback_is_never_silent,
    check_threshold_zero_never_falls_back,
    check_deciding_on_scores_is_routing,
    check_bad_arguments_raise,
)
"""The laws that need nothing but a router and requests: ``law(router, requests)``."""


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
    for law in LAWS:
        name = law.__name__.removeprefix("check_")
        yield name, functools.partial(law, router, requests)
    if load is not None:
        yield "saved_answers_the_same", lambda: check_saved_answers_the_same(router, load, requests)
    if unfitted is not None:
        yield "unfitted_raises", lambda: check_unfitted_raises(unfitted)
