"""Priors: transitions believed in before anything is observed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.records import check_id

__all__ = ["Priors", "agreed_priors", "checked_priors", "transitions"]

Priors = Mapping[str, Mapping[str, float]]
"""Tool, then tool that follows it, to how many observations the belief is worth."""


def checked_priors(priors: Priors | None) -> dict[str, dict[str, float]]:
    """Return a copy of the priors, without tools that nothing follows.

    Raises
    ------
    InputError
        If an id is blank, or a weight is not finite and above 0.

    Examples
    --------
    >>> checked_priors({"weather": {"sms": 3}, "mail": {}})
    {'weather': {'sms': 3.0}}
    """
    checked: dict[str, dict[str, float]] = {}
    for tool, followers in (priors or {}).items():
        check_id("tool", tool)
        for follower, weight in followers.items():
            check_id("tool", follower)
            if not (math.isfinite(weight) and weight > 0):
                raise InputError(
                    f"a prior must be finite and above 0, got {weight!r} ({tool!r} to {follower!r})"
                )
            checked.setdefault(tool, {})[follower] = float(weight)
    return checked


def transitions(priors: Priors) -> Iterator[tuple[str, str, float]]:
    """Yield tool, follower and weight of each prior."""
    for tool, followers in priors.items():
        for follower, weight in followers.items():
            yield tool, follower, weight


def agreed_priors(given: Priors, state: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the priors that the counts of a state hold already, so that none counts twice.

    Parameters
    ----------
    given : mapping
        Of the predictor that takes the state over; none agree with any.
    state : mapping

    Raises
    ------
    InputError
        If others are given: they cannot be told apart from what was observed any more.

    Examples
    --------
    >>> agreed_priors({}, {"priors": {"weather": {"sms": 3.0}}})
    {'weather': {'sms': 3.0}}
    """
    stored = checked_priors(state["priors"])
    if given and given != stored:
        raise InputError(
            f"what was learned began with the priors {_shown(stored)}, got {_shown(given)} "
            "(give the same ones or none, or observe again in a new folder)"
        )
    return stored


def _shown(priors: Priors) -> str:
    text = repr(priors) if priors else "none"
    return text if len(text) <= 60 else text[:57] + "..."
