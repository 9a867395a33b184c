"""Who is asked: the selection rules.

A rule sees the probabilities in descending order and answers which places to keep; it is never
asked to reorder. `SelectionRule` is what one of one's own derives from.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError
from cnp_router.records import check_instance, check_number, shown
from cnp_router.routing.recall import RecallControl

__all__ = [
    "MaxCost",
    "Ranked",
    "SelectionRule",
    "TargetRecall",
    "TopK",
    "expected_f1_size",
    "mass_positions",
]


@dataclass(frozen=True, eq=False)
class Ranked:
    """What a selection rule chooses from: the APIs that may be asked, most probable first.

    Parameters
    ----------
    ids : sequence of str
        Of all APIs, in any order.
    probabilities : ndarray of shape (n,), in [0, 1], descending
        At least one.
    recall_control : RecallControl or None, default=None
        What the router knows of its own recall on held-out requests.
    order : ndarray of shape (n,), default=None
        Which of `ids` the probabilities are of; None if they are in the same order.
    n_needs : int, at least 1, default=1
        How many things the request seems to ask for at once.
    months : float, default=0.0
        When the request is asked, in months after the end of the router's history.

    Examples
    --------
    >>> Ranked(("mail", "maps", "sms"), np.array([0.9, 0.5]), order=np.array([2, 1])).apis
    ('sms', 'maps')
    """

    ids: Sequence[str]
    probabilities: NDArray[Any]
    recall_control: RecallControl | None = None
    order: NDArray[np.intp] | None = None
    n_needs: int = 1
    months: float = 0.0

    def __repr__(self) -> str:
        best = zip(self.apis[:3], self.probabilities, strict=False)
        shares = ", ".join(f"{shown(api)} {p:.2f}" for api, p in best)
        return f"Ranked({len(self.probabilities)} APIs, best {shares})"

    @cached_property
    def apis(self) -> tuple[str, ...]:
        """The ids of the APIs that may be asked, most probable first."""
        if self.order is None:
            return tuple(self.ids)
        return tuple(self.ids[i] for i in self.order.tolist())


class SelectionRule(ABC):
    """How many, and which, of the most probable APIs are asked.

    Whatever takes a rule takes one of your own: derive it, and define `choose`.

    Examples
    --------
    >>> class AtLeast(SelectionRule):
    ...     def __init__(self, limit):
    ...         self.limit = limit
    ...     def choose(self, ranked):
    ...         return np.flatnonzero(ranked.probabilities >= self.limit)
    >>> AtLeast(0.5).places(Ranked(("sms", "maps", "mail"), np.array([0.9, 0.5, 0.1])))
    array([0, 1])
    """

    @abstractmethod
    def choose(self, ranked: Ranked) -> Iterable[int]:
        """Return the places in `ranked` to keep, in any order.

        Where it returns none, the most probable API is kept: an announcement needs a recipient.
        """

    def places(self, ranked: Ranked) -> NDArray[np.intp]:
        """Return what `choose` answers, in order, at least one place; else raise InputError."""
        answer = self.choose(ranked)
        try:
            found = np.asarray(answer if isinstance(answer, np.ndarray) else list(answer))
        except (TypeError, ValueError):  # not a list, or one of lists of several lengths
            found = np.array(["?"])
        if not found.size:
            return np.zeros(1, dtype=np.intp)
        n = len(ranked.probabilities)
        if found.dtype.kind not in "iu" or found.ndim != 1 or found.min() < 0 or found.max() >= n:
            raise InputError(
                f"{type(self).__name__}.choose must return places from 0 to {n - 1}, "
                f"got {shown(answer)}"
            )
        return np.unique(found).astype(np.intp)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


# How often each one more that is asked for one of several needs is the wrong one again.
_MISSED = 0.3


@dataclass(frozen=True, slots=True)
class TargetRecall(SelectionRule):
    """The smallest set whose expected recall meets a target.

    Parameters
    ----------
    target : float in (0, 1), default=0.9
        Share of the APIs a request needs that should be among the recipients, on average. A
        router with a `RecallControl` promises it; otherwise it is taken as the share of the
        probability mass. Where the request asks for several things at once, and the threshold was
        measured on requests for one, there are some for each: at .9 at least two.
    """

    target: float = 0.9

    def __post_init__(self) -> None:
        target = check_number("target recall", self.target, 0, 1, ends=False)
        object.__setattr__(self, "target", target)

    def choose(self, ranked: Ranked) -> Iterable[int]:
        """Return those whose probability reaches the threshold."""
        control, p = ranked.recall_control, ranked.probabilities
        if control is None:
            size = int(np.count_nonzero(mass_positions(p) <= self.target + 1e-12))
        else:
            size = int(np.count_nonzero(p >= control.threshold(self.target, ranked.months) - 1e-12))
        if ranked.n_needs > 1:
            each = math.ceil(math.log(1 - self.target) / math.log(_MISSED))
            size = min(max(size, each * ranked.n_needs), len(ranked.probabilities))
        return np.arange(size)


@dataclass(frozen=True, slots=True)
class TopK(SelectionRule):
    """The `k` most probable.

    Parameters
    ----------
    k : int, at least 1, default=10
    """

    k: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_number("top-k", self.k, 1, whole=True))

    def choose(self, ranked: Ranked) -> Iterable[int]:
        """Return the first `k`."""
        return np.arange(min(self.k, len(ranked.probabilities)))


@dataclass(frozen=True, slots=True)
class MaxCost(SelectionRule):
    """As many as can be paid for, the most probable per unit of cost first.

    Greedy, as for the fractional knapsack (Dantzig, 1957): an affordable set, not always the best.
    At least one is asked, even where it costs more than the limit.

    Parameters
    ----------
    limit : float, above 0
        What the announcement may cost, in the unit of `costs`.
    costs : mapping of API id to float above 0, optional
        Cost of announcing to the contractor of each; an API that is not named costs 1.
    """

    limit: float
    costs: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        limit = check_number("the limit of a MaxCost", self.limit, 0, ends=False)
        object.__setattr__(self, "limit", limit)
        costs = {} if self.costs is None else check_instance("costs", self.costs, Mapping)
        for name, cost in costs.items():
            check_number(f"the cost of {shown(name)}", cost, 0, ends=False)

    def choose(self, ranked: Ranked) -> Iterable[int]:
        """Return what fits, the best per unit of cost first."""
        given = self.costs or {}
        costs = np.array([float(given.get(api, 1.0)) for api in ranked.apis])
        spent, chosen = 0.0, []
        for place in np.argsort(-ranked.probabilities / costs, kind="stable"):
            if spent + costs[place] <= self.limit:
                spent += costs[place]
                chosen.append(int(place))
        return chosen


# Needs whose number is taken exactly when a set is chosen.
_EXACT = 30


def mass_positions(descending: NDArray[Any]) -> NDArray[Any]:
    """Return for each of descending probabilities the smallest share of the mass that includes it.

    ``inf`` for those of probability 0, which no share includes. Where all are 0, the first is
    included all the same: ``[0.5, 0.3, 0.2, 0.0]`` gives ``[0.0, 0.5, 0.8, inf]``.
    """
    total = descending.sum()
    if total <= 0:
        return np.where(np.arange(len(descending)) == 0, 0.0, np.inf)
    before = np.concatenate([[0.0], np.cumsum(descending)[:-1]]) / total
    return np.where(descending > 0, np.minimum(before, 1.0), np.inf)


def expected_f1_size(descending: NDArray[Any], outside: NDArray[Any] | None = None) -> int:
    """Return how many of the most probable to recommend so that the expected F1 is highest.

    Needs are taken as independent. With ``H`` needs among the first ``k`` and ``R`` among the
    others, the F1 is ``2 H / (k + H + R)``; its expectation takes the distributions of both counts
    (Poisson-binomial; Ye, Chai, Lee and Chieu, "Optimizing F-measure", 2012). They are exact over
    the first 30, and the rest adds its mean to ``R``. At least 1; 0 for no candidates.

    `outside` are the probabilities of what cannot be recommended, in descending order too: such
    needs are misses.

    Examples
    --------
    >>> expected_f1_size(np.array([0.9, 0.8, 0.1, 0.05]))
    2
    """
    if not len(descending):
        return 0
    outside = np.empty(0) if outside is None else outside
    head = descending[:_EXACT]
    misses = outside[: _EXACT - len(head)]
    rest = float(descending[_EXACT:].sum() + outside[len(misses) :].sum())
    others = [np.ones(1)]
    for p in misses:
        others = [_with_one_more(others[0], p)]
    for p in head[::-1]:
        others.append(_with_one_more(others[-1], p))
    hits = np.ones(1)
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
