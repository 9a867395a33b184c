"""What followed what: counts that are quick to read however many tools there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Followers"]

# Rows are read this far: what is rarer is no candidate, but stays in the total.
_SHORTLIST = 32
# A count that has faded to this is forgotten.
_FORGOTTEN = 1e-3


class _Place(NamedTuple):
    less: float
    tool: str


class Followers:
    """How often each tool followed, with the most frequent ones at hand.

    Parameters
    ----------
    counts : iterable of (tool, count), default=()
    total : float, optional
        Their sum, where it is known to the last digit.

    Attributes
    ----------
    counts : dict of str to float > 0
    total : float
        Sum of `counts`.

    Examples
    --------
    >>> followers = Followers([("sms", 2.0)])
    >>> followers.add("mail", 1.0)
    >>> followers.total, followers.shortlist()
    (3.0, [('sms', 2.0), ('mail', 1.0)])
    """

    __slots__ = ("_top", "counts", "total")

    def __init__(
        self, counts: Iterable[tuple[str, float]] = (), total: float | None = None
    ) -> None:
        self.counts = dict(counts)
        self.total = sum(self.counts.values()) if total is None else total
        self._top = sorted(self.counts, key=self._place)[:_SHORTLIST]

    def add(self, tool: str, weight: float) -> None:
        """Count one more."""
        self.counts[tool] = self.counts.get(tool, 0.0) + weight
        self.total += weight
        top = self._top
        if tool in top:
            place = top.index(tool)
        elif len(top) < _SHORTLIST:
            top.append(tool)
            place = len(top) - 1
        elif self._place(tool) < self._place(top[-1]):
            place = len(top) - 1
            top[place] = tool
        else:
            return
        while place and self._place(tool) < self._place(top[place - 1]):
            top[place - 1], top[place] = tool, top[place - 1]
            place -= 1

    def shortlist(self) -> list[tuple[str, float]]:
        """Return the most frequent tools with their counts, at most 32, ties by id."""
        return [(tool, self.counts[tool]) for tool in self._top]

    def faded(self, factor: float) -> Followers:
        """Return these with every count multiplied by `factor`, without what is forgotten."""
        rest = ((tool, n * factor) for tool, n in self.counts.items())
        return Followers((tool, n) for tool, n in rest if n > _FORGOTTEN)

    def _place(self, tool: str) -> _Place:
        return _Place(-self.counts[tool], tool)
