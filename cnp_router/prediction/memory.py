"""`ContextMemory`: what followed in each context, the latest weighing most."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["ContextMemory"]

# What weighs less is forgotten, which bounds the tools of a context.
_FORGOTTEN = 0.01


class ContextMemory:
    """Counts of followers by context key, each observation of a context fading the earlier ones.

    Parameters
    ----------
    kept : float in (0, 1)
        What is left of a context's counts when it is seen again.
    size : int >= 1
        At most so many contexts are kept; the one not seen for longest goes first.

    Examples
    --------
    >>> memory = ContextMemory(0.5, 100)
    >>> for tool in ("sms", "mail"):
    ...     memory.add([7], tool, 1.0)
    >>> memory.get(7)
    {'sms': 0.5, 'mail': 1.0}
    """

    def __init__(self, kept: float, size: int) -> None:
        self.kept = kept
        self.size = size
        self._rows: OrderedDict[int, dict[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: int) -> dict[str, float]:
        """Return what followed in a context; empty if nothing did."""
        return self._rows.get(key, {})

    def add(self, keys: Sequence[int], tool: str, weight: float) -> None:
        """Count that `tool` followed in each of the contexts."""
        kept = self.kept**weight
        for key in keys:
            old = self._rows.pop(key, {})
            row = {t: n * kept for t, n in old.items() if n * kept > _FORGOTTEN}
            row[tool] = row.get(tool, 0.0) + weight
            self._rows[key] = row  # at the end: the rows are in order of last use
        while len(self._rows) > self.size:
            self._rows.popitem(last=False)

    def believe(self, key: int, tool: str, weight: float) -> None:
        """Count a belief held beforehand: it fades nothing."""
        row = self._rows.setdefault(key, {})
        row[tool] = row.get(tool, 0.0) + weight

    def state(self) -> dict[str, Any]:
        """Return the contexts, least recently seen first, as arrays, and their tools' names."""
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
        """Take over what `state` returned.

        Raises
        ------
        KeyError, ValueError, TypeError
            If it is something else.
        """
        tools = [str(tool) for tool in state["tools"]]
        keys, ends = np.asarray(state["keys"]).tolist(), np.asarray(state["ends"]).tolist()
        followers = np.asarray(state["followers"]).tolist()
        counts = np.asarray(state["counts"], dtype=float).tolist()
        if not (len(keys) == len(ends) and (ends or [0])[-1] == len(followers) == len(counts)):
            raise ValueError("the arrays of the contexts do not fit together")
        if sorted(ends) != ends or any(not 0 <= f < len(tools) for f in followers):
            raise ValueError("the arrays of the contexts do not fit together")
        self._rows = OrderedDict(
            (int(key), {tools[f]: n for f, n in zip(followers[a:b], counts[a:b], strict=True)})
            for key, a, b in zip(keys, [0, *ends][: len(ends)], ends, strict=True)
        )
