"""The matrices of a problem, and the one call of the solver."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from cnp_router.constraints.rules import Preference, Rule

__all__ = ["Deadline", "Program"]

_OPTIMAL, _INFEASIBLE, _FAILED = 0, 2, 4

Found = tuple[NDArray[Any] | None, bool]
"""What was found, or None for nothing; and whether that is sure, or time was up before."""


class Deadline:
    """How long is left of some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._end - time.monotonic())


class Program:
    """Rules over items as a sparse matrix, each row scaled to a largest coefficient of 1."""

    def __init__(self, items: Sequence[str], lines: Sequence[Rule]) -> None:
        self.places = {item: place for place, item in enumerate(items)}
        self.lines = lines
        scales = [line.scale for line in lines]
        self.matrix = self._rows([line.coefficients for line in lines], scales)
        self.low = np.array(
            [
                -np.inf if line.at_least is None else line.at_least / scale
                for line, scale in zip(lines, scales, strict=True)
            ]
        )
        self.high = np.array(
            [
                np.inf if line.at_most is None else line.at_most / scale
                for line, scale in zip(lines, scales, strict=True)
            ]
        )

    def best(self, preferences: Sequence[Preference], deadline: Deadline) -> Found:
        """Return the choice that keeps every rule and gains most by the preferences."""
        n = len(self.places)
        limited = [each for each in preferences if each.at_most is not None]
        gains = np.zeros(n + len(limited))
        for each in preferences:
            if each.at_most is None:
                for item, value in each.values.items():
                    gains[self.places[item]] += each.weight * value
        gains[n:] = [each.weight for each in limited]
        # What a limited preference gains is a number of its own: at most its limit and its sum.
        sums = [-self._rows([each.values for each in limited]), sparse.eye_array(len(limited))]
        constraints: list[tuple[Any, Any, Any]] = [
            (_wider(self.matrix, len(limited)), self.low, self.high)
        ]
        if limited:
            constraints.append((sparse.hstack(sums), -np.inf, 0))
        low, high = np.zeros(len(gains)), np.ones(len(gains))
        low[n:] = -np.inf
        high[n:] = [each.at_most for each in limited]
        return self._run(-gains, constraints, (low, high), n, deadline)

    def can_hold(self, rows: Sequence[int], deadline: Deadline) -> bool | None:
        """Return whether some choice keeps these rules; None where that is not sure.

        What the solver found counts only if it keeps the rules when rounded: a 100 times a choice
        of .003 is within its tolerance.
        """
        if not deadline.left:
            return None
        n, picked = len(self.places), list(rows)
        chosen = [(self.matrix[picked], self.low[picked], self.high[picked])]
        x, sure = self._run(np.zeros(n), chosen, (0.0, 1.0), n, deadline)
        if x is None:
            return False if sure else None
        there = {item for item, place in self.places.items() if x[place]}
        return True if all(self.lines[row].holds(there) for row in picked) else None

    def stretched(
        self,
        hard: Sequence[int],
        elastic: Sequence[int],
        deadline: Deadline,
        fixed: Mapping[str, int] | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the choice that misses the elastic rules by least, and by how much each.

        `fixed` says 0 or 1 of items that are not to be decided. None where no choice keeps the
        hard rules, or time was up.
        """
        n, m = len(self.places), len(elastic)
        hard, elastic = list(hard), list(elastic)
        slack = sparse.hstack([sparse.eye_array(m), -sparse.eye_array(m)])
        loose = sparse.hstack([self.matrix[elastic], slack])
        constraints = [(loose, self.low[elastic], self.high[elastic])]
        if hard:
            kept = _wider(self.matrix[hard], 2 * m)
            constraints.append((kept, self.low[hard], self.high[hard]))
        low, high = np.zeros(n + 2 * m), np.full(n + 2 * m, np.inf)
        high[:n] = 1
        for item, value in (fixed or {}).items():
            low[self.places[item]] = high[self.places[item]] = value
        cost = np.concatenate([np.zeros(n), np.ones(2 * m)])
        x, _ = self._run(cost, constraints, (low, high), n, deadline)
        return None if x is None else (x[:n], x[n : n + m] + x[n + m :])

    def _rows(
        self, sums: Sequence[Mapping[str, float]], scales: Sequence[float] | None = None
    ) -> sparse.csr_array:
        values, columns, ends = [], [], [0]
        for row, each in enumerate(sums):
            scale = 1.0 if scales is None else scales[row]
            columns += [self.places[item] for item in each]
            values += [value / scale for value in each.values()]
            ends.append(len(columns))
        shape = (len(sums), len(self.places))
        return sparse.csr_array((values, np.array(columns, dtype=np.int32), ends), shape=shape)

    def _run(
        self,
        cost: NDArray[Any],
        constraints: Sequence[tuple[Any, Any, Any]],
        bounds: tuple[Any, Any],
        n_whole: int,
        deadline: Deadline,
    ) -> Found:
        """Call the solver; the first `n_whole` variables are 0 or 1."""
        for presolve in (True, False):
            found = milp(
                cost / (float(np.abs(cost).max()) or 1.0),
                integrality=(np.arange(len(cost)) < n_whole).astype(int),
                bounds=Bounds(*bounds),
                constraints=[LinearConstraint(*each) for each in constraints],
                options={
                    "time_limit": max(deadline.left, 1e-3),
                    "mip_rel_gap": 0.0,
                    "presolve": presolve,
                },
            )
            if found.status != _FAILED:  # as its presolve does where it rounds to nothing
                break
        if found.x is None:
            return None, found.status == _INFEASIBLE
        x = np.asarray(found.x, dtype=np.float64)
        x[:n_whole] = np.round(x[:n_whole])
        return x, found.status == _OPTIMAL


def _wider(matrix: Any, columns: int) -> Any:
    """Return a matrix with so many empty columns more."""
    return sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], columns))])
