"""Random walk with restart: how near each API is to some seeds, over all paths of the graph."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cnp_router.catalog import ROWS_SHOWN, html_table
from cnp_router.exceptions import InputError
from cnp_router.records import check_number

__all__ = ["RandomWalk", "ReachedApi", "random_walk_with_restart"]


@dataclass(frozen=True, slots=True)
class ReachedApi:
    """One API that a random walk visits, and the share of time it spends there, in [0, 1]."""

    api: str
    probability: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RandomWalk:
    """The stationary distribution of a walk over a transition graph.

    Examples
    --------
    >>> walk = RandomWalk(("maps", "sms"), np.array([0.75, 0.25]), 9, 1e-9, True)
    >>> walk.top(1, exclude={"maps"})
    (ReachedApi(api='sms', probability=0.25),)
    >>> walk
    RandomWalk(2 APIs, converged after 9 iterations, nearest 'maps')
    """

    apis: tuple[str, ...]  # in the order of the probabilities
    probabilities: NDArray[np.float64]  # of shape (n_apis,), sums to 1, read-only
    iterations: int  # steps taken
    residual: float  # L1 change in the last step
    converged: bool  # whether the residual is within the tolerance asked for

    def __repr__(self) -> str:
        how = f"{'converged' if self.converged else 'stopped'} after {self.iterations} iterations"
        nearest = "".join(f", nearest {first.api!r}" for first in self.top(1))
        return f"RandomWalk({len(self.apis)} APIs, {how}{nearest})"

    def _repr_html_(self) -> str:
        rows = [(reached.api, f"{reached.probability:.3f}") for reached in self.top(ROWS_SHOWN)]
        reached = int(np.count_nonzero(self.probabilities))
        return html_table(repr(self), ("API", "probability"), rows, reached)

    def top(self, k: int = 10, *, exclude: Collection[str] = ()) -> tuple[ReachedApi, ...]:
        """Return the `k` most visited APIs, descending, ties broken by id.

        Parameters
        ----------
        k : int, default=10
            At least 1. Asking for more than were reached is fine.
        exclude : collection of str, default=()
            Ids to leave out; the seeds, say.

        Raises
        ------
        InputError
            If `k` is below 1.
        """
        check_number("k", k, 1, whole=True)
        reached = np.flatnonzero(self.probabilities)
        kept = [p for p in reached.tolist() if self.apis[p] not in exclude]
        # Sums of the same numbers in another order differ in the last digits: no tie-breaker.
        rounded = np.round(self.probabilities, 12)
        kept.sort(key=lambda p: (-rounded[p], self.apis[p]))
        return tuple(ReachedApi(self.apis[p], float(self.probabilities[p])) for p in kept[:k])


def random_walk_with_restart(
    apis: tuple[str, ...],
    transition: csr_array,
    seeds: NDArray[np.float64],
    restart: float,
    tolerance: float,
    max_iter: int,
) -> RandomWalk:
    """Return the stationary distribution; `TransitionGraph.random_walk` says of what.

    Power iteration of ``x <- restart * s + (1 - restart) * (x T + dangling(x) * s)``.

    Examples
    --------
    >>> transition = csr_array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    >>> walk = random_walk_with_restart(("a", "b", "c"), transition, np.eye(3)[0], 0.15, 1e-8, 200)
    >>> walk.probabilities.round(3)
    array([0.452, 0.384, 0.163])
    """
    if not (np.isfinite(seeds).all() and (seeds >= 0).all() and seeds.sum() > 0):
        raise InputError("seed weights must be finite and non-negative, at least one positive")
    if check_number("restart", restart, 0, 1) == 0:
        raise InputError("restart must be above 0, or the walker never comes back")
    check_number("tolerance", tolerance, 0, ends=False)
    check_number("max_iter", max_iter, 1, whole=True)
    home = seeds / seeds.sum()
    backwards = transition.T.tocsr()
    dangling = np.asarray(transition.sum(axis=1)) == 0
    now, residual, iterations = home, np.inf, 0
    while residual > tolerance and iterations < max_iter:
        arrived = backwards @ now + now[dangling].sum() * home
        then = restart * home + (1 - restart) * arrived
        then /= then.sum()
        residual = float(np.abs(then - now).sum())
        now = then
        iterations += 1
    now.setflags(write=False)
    return RandomWalk(apis, now, iterations, residual, residual <= tolerance)
