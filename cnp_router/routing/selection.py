"""How many receive the announcement: by target recall, by number, or by budget.

Every rule takes probabilities sorted in descending order and answers how many of the first to
keep, so a rule can neither reorder nor skip; `Budget` alone may skip what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError

__all__ = [
    "Budget",
    "RecallControl",
    "Selection",
    "TargetRecall",
    "TopK",
    "expected_f1_size",
    "mass_positions",
    "selected",
]


@dataclass(frozen=True, slots=True)
class TargetRecall:
    """The smallest set whose expected recall meets a target.

    Parameters
    ----------
    target : float in (0, 1), default=0.9
        Share of the APIs a request needs that should be among the recipients, on average.
    """

    target: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise InputError(f"target recall must be between 0 and 1, got {self.target!r}")


@dataclass(frozen=True, slots=True)
class TopK:
    """The `k` most probable.

    Parameters
    ----------
    k : int, at least 1
    """

    k: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, Integral) or self.k < 1:
            raise InputError(f"top-k must be a whole number of at least 1, got {self.k!r}")


@dataclass(frozen=True, slots=True)
class Budget:
    """As many as can be paid for, the most probable per unit of cost first.

    Greedy, as for the fractional knapsack (Dantzig, 1957): an affordable set, not always the best.
    At least one contractor is announced to, even where it costs more than the limit: a round
    without recipients is no round.

    Parameters
    ----------
    limit : float, positive
        What the announcement may cost, in the unit of `costs`.
    costs : mapping of contractor id to positive float, optional
        Cost of announcing to each; a contractor that is not named costs 1.
    """

    limit: float
    costs: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise InputError(f"a budget must be positive, got {self.limit!r}")
        for name, cost in (self.costs or {}).items():
            if not cost > 0:
                raise InputError(f"the cost of {name!r} must be positive, got {cost!r}")


# Needs whose number is taken exactly when a set is chosen.
_EXACT = 30

Selection = TargetRecall | TopK | Budget


@dataclass(frozen=True, eq=False)  # == of arrays has no truth value
class RecallControl:
    """The cut for a target recall, chosen on held-out requests by conformal risk control.

    A request's recipients are its most probable contractors until they hold the share ``tau`` of
    the request's probability mass. The loss, one minus recall, cannot grow as ``tau`` grows, so
    the smallest ``tau`` with ``(n * mean loss + 1) / (n + 1) <= 1 - target`` keeps the expected
    recall of a new exchangeable request at or above the target, for any sample size `n`
    (Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal Risk Control", 2022).

    Parameters
    ----------
    needed : ndarray of shape (n_uses,), in [0, inf]
        For each API that a held-out request used, the smallest ``tau`` that includes it;
        ``inf`` where no share does.
    weights : ndarray of shape (n_uses,), in (0, 1]
        One over the number of APIs that its request used.
    n_requests : int
        Number of held-out requests `n`.

    Examples
    --------
    >>> control = RecallControl(np.array([0.2, 0.4, 0.9]), np.ones(3), 3)
    >>> control.mass_share(0.5)
    0.4
    >>> control.mass_share(0.99)  # three requests cannot promise that: everyone is asked
    inf
    """

    needed: NDArray[Any]
    weights: NDArray[Any]
    n_requests: int

    def mass_share(self, target: float) -> float:
        """Return the smallest ``tau`` that keeps the promise, ``inf`` if none does."""
        needed, risk = self._risks
        enough = np.flatnonzero((risk <= 1 - target + 1e-12) & np.isfinite(needed))
        # Ties: a share includes every API that needs no more than it.
        return float(needed[enough[0]]) if len(enough) else float("inf")

    @cached_property
    def _risks(self) -> tuple[NDArray[Any], NDArray[Any]]:
        order = np.argsort(self.needed, kind="stable")
        covered = np.cumsum(self.weights[order])
        return self.needed[order], (self.n_requests - covered + 1) / (self.n_requests + 1)

    @classmethod
    def measured(
        cls, probabilities: Iterable[NDArray[Any]], used: Iterable[Sequence[int] | NDArray[Any]]
    ) -> RecallControl:
        """Measure on held-out requests.

        Parameters
        ----------
        probabilities : iterable of ndarray of shape (n_contractors,), in [0, 1]
            What the router gives to each request, without having learned from it.
        used : iterable of sequence of int
            Distinct positions of the contractors that each request turned out to need, at least
            one.

        Examples
        --------
        >>> probabilities = np.array([0.5, 0.3, 0.2])
        >>> control = RecallControl.measured([probabilities] * 9, [[0], [1, 2], [0]] * 3)
        >>> control.mass_share(0.8)
        0.8
        """
        needed, weights, n_requests = [np.empty(0)], [np.empty(0)], 0
        for row, positions in zip(probabilities, used, strict=True):
            order = np.argsort(-row, kind="stable")
            share = np.empty(len(row))
            share[order] = mass_positions(row[order])
            needed.append(share[list(positions)])
            weights.append(np.full(len(positions), 1 / len(positions)))
            n_requests += 1
        return cls(np.concatenate(needed), np.concatenate(weights), n_requests)


def mass_positions(sorted_probabilities: NDArray[Any]) -> NDArray[Any]:
    """Return for each position the smallest share of the mass that includes it.

    Parameters
    ----------
    sorted_probabilities : ndarray of shape (n,), descending

    Returns
    -------
    ndarray of shape (n,), in [0, 1]
        Mass before each position over the whole mass; ``inf`` for contractors of probability 0,
        which no share includes. Where all are 0, the first is included all the same.

    Examples
    --------
    >>> mass_positions(np.array([0.5, 0.3, 0.2, 0.0])).tolist()
    [0.0, 0.5, 0.8, inf]
    """
    total = sorted_probabilities.sum()
    if total <= 0:
        return np.where(np.arange(len(sorted_probabilities)) == 0, 0.0, np.inf)
    before = np.concatenate([[0.0], np.cumsum(sorted_probabilities)[:-1]]) / total
    return np.where(sorted_probabilities > 0, np.minimum(before, 1.0), np.inf)


def selected(
    selection: Selection,
    contractors: tuple[str, ...],
    probabilities: NDArray[Any],
    order: NDArray[np.intp],
    control: RecallControl | None,
) -> NDArray[np.intp]:
    """Return the positions of the recipients, most probable first.

    Parameters
    ----------
    selection : TargetRecall, TopK or Budget
    contractors : tuple of str
    probabilities : ndarray of shape (n_contractors,), in [0, 1]
    order : ndarray of int
        Positions that may be chosen, most probable first; at least one.
    control : RecallControl or None
        Without one, a target recall is taken as the share of the mass itself.
    """
    descending = probabilities[order]
    if isinstance(selection, TopK):
        return order[: selection.k]
    if isinstance(selection, TargetRecall):
        share = control.mass_share(selection.target) if control else selection.target
        if np.isinf(share):
            return order
        count = int(np.count_nonzero(mass_positions(descending) <= share + 1e-12))
        return order[: max(count, 1)]
    costs = np.array([(selection.costs or {}).get(contractors[i], 1.0) for i in order])
    by_value = np.argsort(-descending / costs, kind="stable")
    spent, kept = 0.0, []
    for place in by_value:
        if spent + costs[place] <= selection.limit:
            spent += costs[place]
            kept.append(place)
    return order[np.sort(kept)] if kept else order[:1]


def expected_f1_size(descending: NDArray[Any]) -> int:
    """Return how many of the most probable to recommend so that the expected F1 is highest.

    Needs are taken as independent. With ``H`` needs among the first ``k`` and ``R`` among the
    others, the F1 is ``2 H / (k + H + R)``; its expectation takes the distributions of both counts
    (Poisson-binomial; Ye, Chai, Lee and Chieu, "Optimizing F-measure", 2012). They are exact over
    the first 30, and the rest adds its mean to ``R``.

    Parameters
    ----------
    descending : ndarray of shape (n,), in [0, 1], descending

    Returns
    -------
    int, at least 1 (0 for no candidates)

    Examples
    --------
    >>> expected_f1_size(np.array([0.9, 0.8, 0.1, 0.05]))
    2
    """
    if not len(descending):
        return 0
    head, rest = descending[:_EXACT], float(descending[_EXACT:].sum())
    others = [np.ones(1)]
    for p in head[::-1]:
        others.append(_with_one_more(others[-1], p))
    hits = others[0]
    best, size = -1.0, 1
    for k, p in enumerate(head, start=1):
        hits = _with_one_more(hits, p)
        left = others[len(head) - k]
        h = np.arange(k + 1)[:, None]
        expected = float(hits @ (2 * h / (k + h + np.arange(len(left)) + rest)) @ left)
        if expected > best:
            best, size = expected, k
        elif p < best / 4:
            # What is needed with less than half the best F1 no longer raises it.
            break
    return size


def _with_one_more(distribution: NDArray[Any], p: float) -> NDArray[Any]:
    """Return the distribution of a count that one more need of probability `p` joins."""
    longer = np.zeros(len(distribution) + 1)
    longer[:-1] = distribution * (1 - p)
    longer[1:] += distribution * p
    return longer
