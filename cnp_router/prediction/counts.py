"""What followed what: counts by tool and by context, quick to read however many there are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["ContextMemory", "Followers"]

# Rows are read this far: what is rarer is not a candidate, but stays in the total.
_SHORTLIST = 32
# Counts that have decayed to this are forgotten. Of a context, that bounds its tools.
_FORGOTTEN = 1e-3
_FORGOTTEN_IN_CONTEXT = 0.01


class Followers:
    """How often each tool followed (`counts`, each above 0), with the most frequent ones at hand.

    `total` is the sum of the counts; given where it is known to the last digit.
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

    def decayed(self, factor: float) -> Followers:
        """Return these with every count multiplied by `factor`, without what is forgotten."""
        rest = ((tool, n * factor) for tool, n in self.counts.items())
        return Followers((tool, n) for tool, n in rest if n > _FORGOTTEN)

    def _place(self, tool: str) -> tuple[float, str]:
        return -self.counts[tool], tool


class ContextMemory:
    """Counts of followers by context; `decay` is left of the earlier ones when it comes again.

    At most `size` contexts are remembered; the one not observed for longest goes first.
    """

    def __init__(self, decay: float, size: int) -> None:
        self.decay = decay
        self.size = size
        self._rows: OrderedDict[int, dict[str, float]] = OrderedDict()

    def get(self, key: int) -> dict[str, float]:
        """Return what followed in a context; empty if nothing did."""
        return self._rows.get(key, {})

    def add(self, keys: Sequence[int], tool: str, weight: float) -> None:
        """Count that `tool` followed in each of the contexts."""
        decay = self.decay**weight
        for key in keys:
            old = self._rows.pop(key, {})
            row = {t: n * decay for t, n in old.items() if n * decay > _FORGOTTEN_IN_CONTEXT}
            row[tool] = row.get(tool, 0.0) + weight
            self._rows[key] = row  # at the end: the rows are in order of last use
        while len(self._rows) > self.size:
            self._rows.popitem(last=False)

    def believe(self, key: int, tool: str, weight: float) -> None:
        """Count what is believed beforehand: nothing decays by it."""
        row = self._rows.setdefault(key, {})
        row[tool] = row.get(tool, 0.0) + weight

    def state(self) -> dict[str, Any]:
        """Return the contexts, the one not observed for longest first, and their tools."""
        tools: dict[str, int] = {}
        names = [tools.setdefault(t, len(tools)) for row in self._rows.values() for t in row]
        return {
            "tools": list(tools),
            "keys": np.fromiter(self._rows, dtype=np.uint64, count=len(self._rows)),
            "ends": np.cumsum([len(row) for row in self._rows.values()], dtype=np.int64),
            "followers": np.array(names, dtype=np.int32),
            "counts": np.array([n for row in self._rows.values() for n in row.values()], float),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned; KeyError, ValueError or TypeError if it is not that."""
        tools = [str(tool) for tool in state["tools"]]
        keys, ends = np.asarray(state["keys"]).tolist(), np.asarray(state["ends"]).tolist()
        followers = np.asarray(state["followers"]).tolist()
        counts = np.asarray(state["counts"], dtype=float).tolist()
        fitting = len(keys) == len(ends) and (ends or [0])[-1] == len(followers) == len(counts)
        if not (fitting and sorted(ends) == ends and all(0 <= f < len(tools) for f in followers)):
            raise ValueError("the arrays of the contexts do not fit together")
        self._rows = OrderedDict(
            (int(key), {tools[f]: n for f, n in zip(followers[a:b], counts[a:b], strict=True)})
            for key, a, b in zip(keys, [0, *ends][: len(ends)], ends, strict=True)
        )
