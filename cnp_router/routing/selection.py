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
from cnp_router.records import check_id, check_instance, check_number, shown
from cnp_router.routing.expected_f1 import expected_f1_size
from cnp_router.routing.head import TOLERANCE
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

    def __len__(self) -> int:
        return len(self.probabilities)

    def n_at_least(self, least: float) -> int:
        """Return how many have at least some probability."""
        return int(np.count_nonzero(self.probabilities >= least))

    def n_in_mass(self, share: float) -> int:
        """Return how many begin within some share of the sum of all probabilities."""
        return int(np.count_nonzero(mass_positions(self.probabilities) <= share + TOLERANCE))

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
        return np.asarray(self.ranks(ranked), dtype=np.intp)

    def ranks(self, ranked: Ranked) -> range | NDArray[np.intp]:
        """Return `places`, where they are the first so many as a range: there may be a million."""
        answer = self.choose(ranked)
        n = len(ranked)
        if isinstance(answer, range) and 0 < len(answer) <= n and answer == range(len(answer)):
            return answer
        try:
            found = np.asarray(answer if isinstance(answer, np.ndarray) else list(answer))
        except (TypeError, ValueError):  # not a list, or one of lists of several lengths
            found = np.array(["?"])
        if not found.size:
            return np.zeros(1, dtype=np.intp)
        if found.dtype.kind not in "iu" or found.ndim != 1 or found.min() < 0 or found.max() >= n:
            raise InputError(
                f"{type(self).__name__}.choose must return places from 0 to {n - 1}, "
                f"got {shown(answer)}"
            )
        return np.unique(found).astype(np.intp)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


# How often each one more that is asked for one of several needs is the wrong one again; of what
# is less probable than that, none is asked on top.
_MISSED, _HARDLY = 0.3, 0.01


@dataclass(frozen=True, slots=True)
class TargetRecall(SelectionRule):
    """The smallest set whose expected recall meets a target.

    Parameters
    ----------
    target : float in (0, 1), default=0.9
        Share of the APIs a request needs that should be among the recipients, on average. A
        router with a `RecallControl` promises it; otherwise it is taken as the share of the
        probability mass. Where the request asks for several things at once, and the threshold was
        measured on requests for one, there are some for each, of a probability of .01 or more: at
        .9 at least two.
    """

    target: float = 0.9

    def __post_init__(self) -> None:
        target = check_number("target recall", self.target, 0, 1, ends=False)
        object.__setattr__(self, "target", target)

    def choose(self, ranked: Ranked) -> Iterable[int]:
        """Return those whose probability reaches the threshold."""
        control = ranked.recall_control
        if control is None:
            size = ranked.n_in_mass(self.target)
        else:
            size = ranked.n_at_least(control.threshold(self.target, ranked.months) - TOLERANCE)
        if ranked.n_needs > 1:
            each = math.ceil(math.log(1 - self.target) / math.log(_MISSED))
            size = max(size, min(each * ranked.n_needs, ranked.n_at_least(_HARDLY)))
        return range(size)


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
        return range(min(self.k, len(ranked)))


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
        kept = {
            check_id("API", name): check_number(f"the cost of {shown(name)}", cost, 0, ends=False)
            for name, cost in costs.items()
        }
        object.__setattr__(self, "costs", kept)

    def choose(self, ranked: Ranked) -> Iterable[int]:
        """Return what fits, the best per unit of cost first."""
        assert self.costs is not None  # since it was made
        costs = np.array([self.costs.get(api, 1.0) for api in ranked.apis])
        spent, chosen = 0.0, []
        for place in np.argsort(-ranked.probabilities / costs, kind="stable"):
            if spent + costs[place] <= self.limit:
                spent += costs[place]
                chosen.append(int(place))
        return chosen


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
