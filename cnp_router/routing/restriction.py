"""Which APIs a request may be announced to: what `among` and `exclude` of a router mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError
from cnp_router.records import shown, string_tuple

__all__ = ["Restriction", "allowed", "lookup"]

Restriction = Iterable[str] | Callable[[str], bool]
"""Ids of APIs, or a function that gets an id and answers True or False."""


def lookup(
    name: str, ids: Iterable[str], places: Mapping[str, int]
) -> tuple[list[int], tuple[str, ...]]:
    """Return the places of some ids, each once, and the ids that have none."""
    wanted = {normalize("NFC", given): given for given in string_tuple(name, ids)}
    strangers = tuple(given for key, given in wanted.items() if key not in places)
    return [places[key] for key in wanted if key in places], strangers


def allowed(
    places: Mapping[str, int], known: Sequence[int], among: Restriction | None, exclude: Restriction
) -> tuple[NDArray[np.bool_], dict[str, tuple[str, ...]]]:
    """Return which APIs may be asked, and the ids in each restriction that no API has.

    Examples
    --------
    >>> mask, strangers = allowed({"a": 0, "b": 1, "c": 2}, [0], ["a", "b", "x"], lambda id: False)
    >>> mask.tolist(), strangers["among"]
    ([False, True, False], ('x',))
    """
    left = {name: np.ones(len(places), dtype=bool) for name in ("known", "among", "exclude")}
    left["known"][known] = False
    strangers: dict[str, tuple[str, ...]] = {}
    if among is not None:
        left["among"], strangers["among"] = _named("among", among, places)
    named, strangers["exclude"] = _named("exclude", exclude, places)
    left["exclude"] = ~named
    mask = np.logical_and.reduce(list(left.values()))
    if not mask.any():
        raise InputError(_nobody(left, strangers.get("among", ())))
    return mask, strangers


def _named(
    name: str, given: Restriction, places: Mapping[str, int]
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return which APIs a restriction names, and the ids in it that no API has."""
    if callable(given):
        return np.array([_answer(name, given(api), api) for api in places], dtype=bool), ()
    named = np.zeros(len(places), dtype=bool)
    found, strangers = lookup(name, given, places)
    named[found] = True
    return named, strangers


def _answer(name: str, answer: object, api: str) -> bool:
    # Permissions: a coroutine or a text would be true, and let everything in.
    if isinstance(answer, (bool, np.bool_)):
        return bool(answer)
    raise InputError(
        f"the function given as {name} must answer True or False, got {shown(answer)} for "
        f"{shown(api)} (wrap the answer in bool)"
    )


def _nobody(left: Mapping[str, NDArray[np.bool_]], strangers: Sequence[str]) -> str:
    """Return what to say where no API may be asked: which restriction it is, and the cure."""
    alone = [name for name, mask in left.items() if not mask.any()]
    if alone[:1] == ["known"]:
        return "every API is already known: there is no one to announce to (name fewer)"
    names = alone[:1] or [name for name, mask in left.items() if not mask.all()]
    unknown = f"; the router has never heard of {shown(strangers[0])}" if strangers else ""
    several = "leave" if names[1:] else "leaves"
    return (
        f"{' and '.join(names)} {several} none of {len(left['known'])} APIs to announce to "
        f"(allow at least one{unknown})"
    )
