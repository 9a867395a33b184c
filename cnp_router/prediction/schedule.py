"""`Schedule`: from which confidence on a prediction is acted upon, as history accumulates."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from cnp_router.exceptions import InputError

__all__ = ["Coverage", "Schedule"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The cold start, and the threshold θ after it.

    Until `ask_first` trajectories have been observed, the model is always asked. From then on the
    threshold is ``first - (first - last) * min(coverage / full, 1)``: it falls in a straight line
    from `first` to `last` as `Coverage` grows to `full`.

    Parameters
    ----------
    ask_first : int >= 0, default=100
        Trajectories.
    first : float in [0, 1], default=0.9
    last : float in [0, first], default=0.6
    full : float in (0, 1], default=0.85
        The coverage that AutoTool reports after 100 trajectories.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Jia and Li, "AutoTool: Efficient Tool Selection for Large Language Model Agents", AAAI 2026.

    Examples
    --------
    >>> schedule = Schedule()
    >>> [round(schedule.threshold(coverage), 2) for coverage in (0.0, 0.425, 0.85, 1.0)]
    [0.9, 0.75, 0.6, 0.6]
    >>> schedule.is_cold(99), schedule.is_cold(100)
    (True, False)
    """

    ask_first: int = 100
    first: float = 0.9
    last: float = 0.6
    full: float = 0.85

    def __post_init__(self) -> None:
        if self.ask_first < 0:
            raise InputError(f"ask_first must be at least 0, got {self.ask_first!r}")
        if not 0 <= self.last <= self.first <= 1:
            raise InputError(
                f"thresholds must be 0 <= last <= first <= 1, got last {self.last!r} and first "
                f"{self.first!r}"
            )
        if not 0 < self.full <= 1:
            raise InputError(f"full must be in (0, 1], got {self.full!r}")

    @classmethod
    def fixed(cls, threshold: float, *, ask_first: int = 0) -> Self:
        """Return a schedule whose threshold never changes.

        Examples
        --------
        >>> Schedule.fixed(0.7).threshold(0.2)
        0.7
        """
        return cls(ask_first=ask_first, first=threshold, last=threshold)

    def is_cold(self, n_trajectories: int) -> bool:
        """Return whether so few trajectories have been observed that the model is asked anyway."""
        return n_trajectories < self.ask_first

    def threshold(self, coverage: float) -> float:
        """Return the threshold at a coverage."""
        return self.first - (self.first - self.last) * min(coverage / self.full, 1.0)


class Coverage:
    """Which share of the recent steps could have been foretold: had confidence `last` or more.

    Each step counts with the confidence of the prediction made just before it was learned. It is
    compared with the lowest threshold of the schedule, not with the present one, so that a
    falling threshold does not make itself fall further.

    Parameters
    ----------
    window : int >= 1, default=500
        The latest so many steps measured.

    Examples
    --------
    >>> coverage = Coverage(window=4)
    >>> coverage.share
    0.0
    >>> for foretold in (False, False, True, True, True):
    ...     coverage.add(foretold)
    >>> coverage.share
    0.75
    """

    def __init__(self, window: int = 500) -> None:
        if window < 1:
            raise InputError(f"window must be at least 1, got {window!r}")
        self.window = window
        self._recent: deque[bool] = deque()
        self._foretold = 0

    @property
    def share(self) -> float:
        """The coverage, in [0, 1]; 0 before the first step."""
        return self._foretold / len(self._recent) if self._recent else 0.0

    def add(self, foretold: bool) -> None:
        """Count one more step."""
        self._recent.append(foretold)
        self._foretold += foretold
        if len(self._recent) > self.window:
            self._foretold -= self._recent.popleft()

    def state(self) -> dict[str, Any]:
        """Return the window and the steps in it, oldest first, as 0 and 1."""
        return {"window": self.window, "recent": [int(foretold) for foretold in self._recent]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Coverage:
        """Return the coverage whose `state` this is.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is something else.
        """
        coverage, recent = cls(state["window"]), state["recent"]
        if len(recent) > coverage.window or not {0, 1}.issuperset(recent):
            raise ValueError("the recent steps of a coverage are at most a window of 0 and 1")
        for foretold in recent:
            coverage.add(bool(foretold))
        return coverage
