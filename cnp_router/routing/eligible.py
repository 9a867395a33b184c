"""`Eligible`: the APIs that a request may be announced to, and what a decision asks of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing.expected_f1 import EXACT, expected_f1_size
from cnp_router.routing.head import Head, is_in
from cnp_router.routing.recall import RecallControl
from cnp_router.routing.restriction import Limits
from cnp_router.routing.scores import Scores
from cnp_router.routing.selection import Ranked

__all__ = ["Chosen", "Eligible", "First", "RankedEligible", "best_of", "none_of", "none_outside"]


_NONE = np.empty(0, dtype=np.intp)


class _Ordered(ABC):
    """Positions of APIs: an array to numpy and to whoever indexes or iterates it, made then."""

    @property
    @abstractmethod
    def order(self) -> NDArray[np.intp]:
        """All of them, most probable first."""

    def __getitem__(self, places: Any) -> Any:
        return self.order[places]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.order)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.order, dtype=dtype)


class Eligible(_Ordered):
    """Positions of the APIs that may be asked, most probable first."""

    def __init__(self, scores: Scores, limits: Limits) -> None:
        self.scores = scores
        self.limits = limits

    @cached_property
    def head(self) -> Head:
        """The most probable of them."""
        if self.limits.among is not None:
            return Head.of(self.scores.at(self.limits.among), self.limits.among)
        if len(self.limits.without):
            return self.scores.head_without(self.limits.without)
        return self.scores.head

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """All of them, most probable first."""
        among = self.limits.among
        if among is not None:
            return among[np.argsort(-self.scores.at(among), kind="stable")]
        order = self.scores.order
        if not len(self.limits.without):
            return order
        left = np.ones(len(order), dtype=bool)
        left[self.limits.without] = False
        return order[left[order]]

    @cached_property
    def probabilities(self) -> NDArray[Any]:
        """Theirs, from the highest."""
        return self.scores.at(self.order)

    def at(self, places: range | NDArray[np.intp]) -> Chosen:
        """Return those at some ascending places, of which there is one."""
        n = int(places[-1]) + 1
        first = self.head.first(n)
        if first is not None:
            return first if n == len(places) else first[places]
        # Of fewer, what is behind them counts when some are recommended.
        least = self.head.reached_by(n) if n == len(places) and n >= EXACT else None
        return self.order[places] if least is None else First(n, least, lambda: self)

    def holds(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which APIs are among them."""
        if self.limits.among is not None:
            return is_in(positions, self.limits.among)
        return ~is_in(positions, self.limits.without)

    def __len__(self) -> int:
        return self.limits.n


@dataclass(frozen=True, eq=False)
class First(_Ordered):
    """The first `n` of what may be asked, at least `EXACT`: those that are at least so probable.

    What they are of stays here when it goes to another process.
    """

    n: int
    least: float
    of: Callable[[], Eligible] | None = None

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """All of them, most probable first."""
        return self._of().order[: self.n]

    def holds(self, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which APIs are among them."""
        eligible = self._of()
        reach = eligible.scores.at(positions) >= self.least
        return np.asarray(reach & eligible.holds(positions))

    @property
    def log_none(self) -> float:
        """The logarithm of the probability that none is needed, by independent needs."""
        return self._of().head.log_none_from(self.least)

    def best(self) -> NDArray[np.intp]:
        """Return the positions of those to recommend."""
        eligible = self._of()
        given, _ = eligible.head.left_without(_NONE, EXACT)
        rest = eligible.scores.head.mass - float(given.sum())
        size = expected_f1_size(given, rest=max(rest, 0.0))
        first = eligible.head.first(size)
        return self.order[:size] if first is None else first

    def _of(self) -> Eligible:
        assert self.of is not None
        return self.of()

    def __len__(self) -> int:
        return self.n

    def __getstate__(self) -> dict[str, Any]:
        return {"n": self.n, "least": self.least, "of": None}


Chosen: TypeAlias = NDArray[np.intp] | First
"""Positions of recipients, most probable first."""


class RankedEligible(Ranked):
    """What a selection rule sees of them: arrays are made when it reads them."""

    def __init__(
        self,
        ids: Sequence[str],
        eligible: Eligible,
        recall_control: RecallControl | None,
        n_needs: int,
        months: float,
    ) -> None:
        self.__dict__.update(
            ids=ids,
            recall_control=recall_control,
            n_needs=n_needs,
            months=months,
            _eligible=eligible,
        )

    _eligible: Eligible

    @cached_property
    def probabilities(self) -> NDArray[Any]:
        """Of those that may be asked, from the highest."""
        return self._eligible.probabilities

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Which of `ids` the probabilities are of."""
        return self._eligible.order

    def __len__(self) -> int:
        return len(self._eligible)

    def n_at_least(self, least: float) -> int:
        """Return how many have at least some probability."""
        return self._eligible.head.n_at_least(least)

    def n_in_mass(self, share: float) -> int:
        """Return how many begin within some share of the sum of all probabilities."""
        n = self._eligible.head.n_in_mass(share)
        return super().n_in_mass(share) if n is None else n


def none_of(scores: Scores, positions: NDArray[np.intp] | Eligible) -> float:
    """Return the probability that none of some APIs is needed, by independent needs."""
    if isinstance(positions, Eligible):
        return math.exp(positions.head.log_none)
    return math.exp(Head(positions, scores.at(positions)).log_none)


def none_outside(scores: Scores, chosen: Chosen) -> float:
    """Return the probability that no API but the chosen is needed, by independent needs."""
    if isinstance(chosen, First):
        return math.exp(min(scores.head.log_none - chosen.log_none, 0.0))
    places = scores.head.places(chosen)
    if places is None:
        return math.exp(scores.head_without(chosen).log_none)
    return math.exp(scores.head.log_none_without(places))


def best_of(scores: Scores, chosen: Chosen) -> tuple[NDArray[Any] | None, NDArray[np.intp]]:
    """Return the probabilities of the chosen, None of a `First`, and those to recommend.

    That is the set of the highest expected F1.
    """
    if isinstance(chosen, First):
        return None, chosen.best()
    n, head = EXACT - len(chosen), scores.head
    places = head.places(chosen)
    if places is None:
        given = scores.at(chosen)
        outside, rest = scores.head_without(chosen).left_without(_NONE, n)
    else:
        given = head.probabilities[places]
        outside, rest = head.left_without(places, n)
    return given, chosen[: expected_f1_size(given, outside, rest)]
