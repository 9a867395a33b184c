"""Which APIs a request may be announced to: what `among` and `exclude` of a router mean."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError
from cnp_router.records import shown, string_tuple

__all__ = ["LimitCache", "Limits", "Restriction", "allowed", "limits", "lookup"]

_FEW = 1000  # so many that are left out are taken away one by one
_KEPT = 32  # long restrictions
_LASTING = (tuple, frozenset)
_NONE = np.empty(0, dtype=np.intp)

Restriction = Iterable[str] | Callable[[str], bool]
"""Ids of APIs, or a function that gets an id and answers True or False."""


def lookup(
    name: str, ids: Iterable[str], places: Mapping[str, int]
) -> tuple[list[int], tuple[str, ...]]:
    """Return the places of some ids, each once, and the ids that have none."""
    if isinstance(ids, tuple) and not ids:  # most often
        return [], ()
    wanted = {normalize("NFC", given): given for given in string_tuple(name, ids)}
    strangers = tuple(given for key, given in wanted.items() if key not in places)
    return [places[key] for key in wanted if key in places], strangers


@dataclass(frozen=True, eq=False)
class Limits:
    """Whom a request may be announced to, of all APIs.

    Parameters
    ----------
    n : int
        How many they are.
    among : ndarray of positions, ascending, or None
        All of them; None where it is shorter to say who is left out.
    without : ndarray of positions, ascending
        Who is left out, where `among` is None.
    strangers : mapping of str to tuple of str
        By the name of each restriction the ids in it that no API has.
    """

    n: int
    among: NDArray[np.intp] | None
    without: NDArray[np.intp]
    strangers: Mapping[str, tuple[str, ...]]


def limits(
    places: Mapping[str, int], known: Sequence[int], among: Restriction | None, exclude: Restriction
) -> Limits:
    """Return who may be asked.

    Examples
    --------
    >>> found = limits({"a": 0, "b": 1, "c": 2}, [0], ["a", "b", "x"], lambda id: False)
    >>> found.n, found.without.tolist(), found.strangers["among"]
    (1, [0, 2], ('x',))
    """
    n = len(places)
    if among is None and not known and isinstance(exclude, tuple) and not exclude:  # most often
        return Limits(n, None, _NONE, {})
    named: dict[str, NDArray[np.intp]] = {"known": np.array(known, dtype=np.intp)}
    strangers: dict[str, tuple[str, ...]] = {}
    if among is not None:
        named["among"], strangers["among"] = _named("among", among, places)
    named["exclude"], strangers["exclude"] = _named("exclude", exclude, places)
    without = _NONE
    if len(named["known"]) or len(named["exclude"]):
        without = np.unique(np.concatenate([named["known"], named["exclude"]]))
    left = n - len(without)
    only: NDArray[np.intp] | None = None
    if among is not None:
        only = np.setdiff1d(named["among"], without)
        left = len(only)
    elif n - left > _FEW:
        only = np.setdiff1d(np.arange(n), without)
    if not left:
        masks = {name: np.zeros(n, dtype=bool) for name in ("known", "among", "exclude")}
        for name, found in named.items():
            masks[name][found] = True
        masks["among"] ^= among is None
        masks["known"], masks["exclude"] = ~masks["known"], ~masks["exclude"]
        raise InputError(_nobody(masks, strangers.get("among", ())))
    # The same APIs are always said in the same way, so that sums over them are the same.
    if only is not None and n - left <= _FEW:
        without = np.setdiff1d(np.arange(n), only)
        only = None
    return Limits(left, only, without, strangers)


class LimitCache:
    """The limits of the last long restrictions: many requests are restricted by the same object.

    Only tuples and frozensets are known again, as they stay what they are. Thread-safe.
    """

    def __init__(self) -> None:
        # With what the ids are of: as long as it is here, no other object has them.
        self._kept: OrderedDict[tuple[int, ...], tuple[tuple[Any, ...], Limits]] = OrderedDict()
        self._lock = threading.Lock()

    def limits(
        self,
        places: Mapping[str, int],
        known: Sequence[int],
        among: Restriction | None,
        exclude: Restriction,
    ) -> Limits:
        """Return who may be asked, as `limits` does."""
        named: tuple[Any, ...] = (exclude,) if among is None else (among, exclude)
        is_lasting = all(type(each) in _LASTING for each in named)
        if known or not is_lasting or max(map(len, named)) <= _FEW:
            return limits(places, known, among, exclude)
        given = (among, exclude)
        key = tuple(map(id, given))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        found = limits(places, known, among, exclude)
        with self._lock:
            self._kept[key] = given, found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return LimitCache, ()  # elsewhere the objects are others


def allowed(
    places: Mapping[str, int], known: Sequence[int], among: Restriction | None, exclude: Restriction
) -> tuple[NDArray[np.bool_], Mapping[str, tuple[str, ...]]]:
    """Return which APIs may be asked, and the ids in each restriction that no API has.

    Examples
    --------
    >>> mask, strangers = allowed({"a": 0, "b": 1, "c": 2}, [0], ["a", "b", "x"], lambda id: False)
    >>> mask.tolist(), strangers["among"]
    ([False, True, False], ('x',))
    """
    found = limits(places, known, among, exclude)
    mask = np.full(len(places), found.among is None)
    mask[found.without if found.among is None else found.among] ^= True
    return mask, found.strangers


def _named(
    name: str, given: Restriction, places: Mapping[str, int]
) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Return the APIs that a restriction names, and the ids in it that no API has."""
    if callable(given):
        named = [_answer(name, given(api), api) for api in places]
        return np.flatnonzero(np.array(named, dtype=bool)), ()
    found, strangers = lookup(name, given, places)
    return np.array(found, dtype=np.intp), strangers


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
