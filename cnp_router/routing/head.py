"""`Head`: the most probable of many APIs, and what a decision needs to know of all the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TOLERANCE", "Head", "is_in"]

# So many APIs are put in order as they are; of more, only the most probable ones.
_WHOLE, _LIKELY = 512, 256
_MANY = 4_096
_NOTHING: NDArray[Any] = np.empty(0)
TOLERANCE = 1e-12  # of sums of floats
_LEAST_LEFT = 1e-12  # of the probability that an API is not needed


def is_in(positions: NDArray[np.intp], few: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which positions are among a few: as `numpy.isin`, and faster.

    Examples
    --------
    >>> is_in(np.array([4, 1, 7]), np.array([7, 2, 4])).tolist()
    [True, False, True]
    """
    if not len(few) or not len(positions):
        return np.zeros(len(positions), dtype=bool)
    if (
        max(len(few), len(positions)) > _MANY
    ):  # a table of all positions is made faster than they are put in order
        is_there = np.zeros(1 + max(int(few.max()), int(positions.max())), dtype=bool)
        is_there[few] = True
        return is_there[positions]
    ordered = np.sort(few)
    return np.asarray(ordered.take(ordered.searchsorted(positions), mode="clip") == positions)


@dataclass(frozen=True, eq=False)
class Head:
    """The most probable of some APIs, and the probabilities of those behind them, by group.

    `positions` ascend, and `probabilities` are theirs. `behind` and `sizes` say how many others
    have which probability. What is in the head, and more probable than all of those, is `sure`:
    its place in the order is known.
    """

    positions: NDArray[np.intp]
    probabilities: NDArray[Any]
    behind: NDArray[Any] = field(default_factory=_NOTHING.copy)
    sizes: NDArray[Any] = field(default_factory=_NOTHING.copy)

    @classmethod
    def of(cls, probabilities: NDArray[Any], positions: NDArray[np.intp] | None = None) -> Head:
        """Return the head of some APIs, at ascending positions; None: of all."""
        n = len(probabilities)
        if positions is None:
            positions = np.arange(n)
        if n <= _WHOLE:
            return cls(positions, probabilities)
        least = np.partition(probabilities, n - _LIKELY)[n - _LIKELY]
        likely = probabilities > least
        behind = probabilities[~likely]
        ones = np.broadcast_to(np.intp(1), len(behind))
        return cls(positions[likely], probabilities[likely], behind, ones)

    def __len__(self) -> int:
        return len(self.positions) + int(self.sizes.sum())

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Places of the head by descending probability; equal ones by their positions."""
        return np.argsort(-self.probabilities, kind="stable")

    @cached_property
    def descending(self) -> NDArray[Any]:
        """The probabilities of the head, from the highest."""
        return self.probabilities[self.order]

    @cached_property
    def ranked(self) -> NDArray[np.intp]:
        """The positions that are sure, most probable first."""
        ranked = self.positions[self.order]
        if not len(self.behind):
            return ranked
        return ranked[: np.count_nonzero(self.probabilities > self.highest_behind)]

    @cached_property
    def highest_behind(self) -> float:
        """The highest probability of what is behind the head; -1 where nothing is."""
        if not len(self.behind):
            return -1.0
        return float(self.behind.max(initial=-1.0, where=self.sizes > 0))

    def first(self, n: int) -> NDArray[np.intp] | None:
        """Return the positions of the `n` most probable, in order; None if not all are sure."""
        if n > len(self.positions):
            return None
        if not 0 < n < len(self.positions) or "ranked" in self.__dict__:
            return self._at(self.order[:n]) if n <= len(self.ranked) else None
        # Only those are put in order, which are often few.
        least = np.partition(self.probabilities, -n)[-n]
        if least <= self.highest_behind:
            return None
        (likely,) = (self.probabilities >= least).nonzero()
        order = np.argsort(-self.probabilities[likely], kind="stable")
        return self._at(likely[order[:n]])

    def _at(self, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the positions at some places, which `places` need not look for then."""
        positions = self.positions[places]
        self.__dict__["_last"] = positions, places
        return positions

    def reached_by(self, n: int) -> float | None:
        """Return the probability that just `n` reach; None where others have that of the last."""
        is_likely = self.probabilities > self.highest_behind
        others = self.probabilities[~is_likely]
        values = np.concatenate([others, self.behind])
        sizes = np.concatenate([np.ones(len(others)), self.sizes])
        order = np.argsort(-values)
        reached = np.cumsum(sizes[order]) + np.count_nonzero(is_likely)
        least = float(values[order[np.searchsorted(reached, n)]])
        return least if self.n_at_least(least) == n else None

    def n_at_least(self, least: float) -> int:
        """Return how many have at least some probability."""
        n = int(np.count_nonzero(self.probabilities >= least))
        if self.highest_behind < least:
            return n
        return n + int(self.sizes[self.behind >= least].sum())

    @cached_property
    def mass(self) -> float:
        """The sum of all probabilities."""
        return float(self.probabilities.sum()) + self._behind_mass

    @cached_property
    def log_none(self) -> float:
        """The logarithm of the probability that none is needed, by independent needs."""
        return float(self._log_unneeded.sum()) + self._behind_log_none

    @cached_property
    def _behind_mass(self) -> float:
        return _of_all(self.behind, self.sizes) if len(self.behind) else 0.0

    @cached_property
    def _log_unneeded(self) -> NDArray[Any]:
        return np.asarray(np.log1p(-np.minimum(self.probabilities, 1 - _LEAST_LEFT)))

    @cached_property
    def _behind_log_none(self) -> float:
        return self._log_none_behind(self.behind, self.sizes)

    def log_none_from(self, least: float) -> float:
        """Return `log_none` of those that have at least some probability."""
        behind = self.behind >= least
        inside = float(self._log_unneeded[self.probabilities >= least].sum())
        return inside + self._log_none_behind(self.behind[behind], self.sizes[behind])

    @staticmethod
    def _log_none_behind(behind: NDArray[Any], sizes: NDArray[Any]) -> float:
        return _of_all(np.log1p(-np.minimum(behind, 1 - _LEAST_LEFT)), sizes)

    def places(self, positions: NDArray[np.intp]) -> NDArray[np.intp] | None:
        """Return where some positions stand in the head; None if one of them is not in it."""
        last: tuple[Any, NDArray[np.intp]] | None = self.__dict__.get("_last")
        if last is not None and last[0] is positions:
            return last[1]
        if not 0 < len(positions) <= len(self.positions):
            return None
        found: NDArray[np.intp] = self.positions.searchsorted(positions)
        there = self.positions.take(found, mode="clip") == positions
        return found if there.all() else None

    def log_none_without(self, places: NDArray[np.intp]) -> float:
        """Return `log_none` of what is left without some places of the head."""
        return float(self._log_unneeded[self.left(places)].sum()) + self._behind_log_none

    def left_without(self, places: NDArray[np.intp], n: int) -> tuple[NDArray[Any], float]:
        """Return the `n` highest probabilities without some places of the head, and the other sum.

        That is the sum of all others that are left.
        """
        left = self.left(places)
        mass = float(self.probabilities[left].sum()) + self._behind_mass
        if n <= 0:
            return _NOTHING, mass
        highest = np.sort(self.probabilities[left])[::-1][:n]
        if len(self.behind) and (len(highest) < n or highest[-1] < self.highest_behind):
            highest = np.sort(np.concatenate([highest, self._highest_behind(n)]))[::-1][:n]
        return highest, mass - float(highest.sum())

    def left(self, places: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of the head are left without some places of it."""
        left = np.ones(len(self.positions), dtype=bool)
        left[places] = False
        return left

    def _highest_behind(self, n: int) -> NDArray[Any]:
        """Return the `n` highest probabilities behind the head, or all."""
        order = np.argsort(-self.behind, kind="stable")
        sizes = np.minimum(self.sizes[order], n).astype(np.intp)
        last = int(np.searchsorted(np.cumsum(sizes), n)) + 1
        return np.repeat(self.behind[order[:last]], sizes[:last])

    def n_in_mass(self, share: float) -> int | None:
        """Return how many begin within some share of the mass; None where what is sure ends.

        Where all probabilities are 0, the first one does.
        """
        if self.mass <= 0:
            return 1
        sure = self.descending[: len(self.ranked)]
        within = (np.cumsum(sure) - sure) / self.mass <= share + TOLERANCE
        n = int(np.count_nonzero(within & (sure > 0)))
        return n if n < len(sure) or not len(self.behind) else None


def _of_all(values: NDArray[Any], sizes: NDArray[Any]) -> float:
    """Return the sum of values, of which there are so many each.

    Without the linear algebra library, whose last digits depend on how many threads it has.
    """
    return float(np.einsum("i,i->", values, sizes))
