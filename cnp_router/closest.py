"""`closest`: what somebody may have meant who wrote a name that is not there."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Collection

__all__ = ["closest"]

_MANY = 1_000  # names
_COMPARED = 20  # of many, letter by letter, which takes long
_LONGEST = 200  # characters of a name that is compared


def closest(name: str, known: Collection[str]) -> list[str]:
    """Return the most similar of some names, or none if all are unlike it (`difflib`).

    Of many names, those are compared that share the most pairs of characters with it: of 100,000
    the answer takes a tenth of a second.

    Examples
    --------
    >>> closest("maps__serach", ["mail__send", "maps__search"])
    ['maps__search']
    >>> closest("sms", ["mail__send", "maps__search"])
    []
    """
    if len(name) > _LONGEST:
        return []
    if len(known) > _MANY:
        pairs = {name[i : i + 2] for i in range(len(name) - 1)}

        def shared(each: str) -> tuple[int, int]:
            return sum([pair in each for pair in pairs]), -abs(len(each) - len(name))

        known = heapq.nlargest(_COMPARED, known, key=shared)
    return difflib.get_close_matches(name, known, n=1)
