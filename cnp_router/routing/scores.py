"""What a router answers to a request: `Scores`, and `HeadScores` where there are many APIs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from cnp_router.records import shown
from cnp_router.routing.head import Head, is_in

__all__ = ["HeadScores", "Scores", "zeroed"]

_NONE = np.empty(0, dtype=np.intp)
_MOST_LEVELS = np.iinfo(np.uint16).max


@dataclass(frozen=True, eq=False, repr=False)  # == of arrays has no truth value
class Scores:
    """The probability of each API that a request needs it.

    Parameters
    ----------
    apis : tuple of str
        All API ids.
    probabilities : ndarray of shape (n_apis,), in [0, 1]
        How far they can be taken as frequencies depends on the router; the learned router's are
        calibrated.
    evidence : object, default=None
        What the router that gave the scores makes its reasons of.
    n_needs : int, at least 1, default=1
        How many things the request seems to ask for at once, as far as the router parts them.
    months : float, default=0.0
        When the request is asked, in months after the end of the router's history.
    has_known_words : bool, default=True
        Whether the router knows any word of the request, as far as it can tell.

    Examples
    --------
    >>> Scores(("maps", "sms"), np.array([0.2, 0.9])).top(1)
    (('sms', 0.9),)
    """

    apis: tuple[str, ...]
    probabilities: NDArray[Any]
    evidence: Any = None
    n_needs: int = 1
    months: float = 0.0
    has_known_words: bool = True

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Positions by descending probability; equal ones in the order of `apis`."""
        return np.argsort(-self.probabilities, kind="stable")

    def top(self, k: int) -> tuple[tuple[str, float], ...]:
        """Return the `k` most probable APIs, or all if there are fewer."""
        positions = self.first(max(k, 0))
        given = self.at(positions).tolist()
        return tuple((self.apis[i], p) for i, p in zip(positions.tolist(), given, strict=True))

    def first(self, k: int) -> NDArray[np.intp]:
        """Return the positions of the `k` most probable APIs, or all if there are fewer."""
        first = self.head.first(min(k, self.n_apis))
        return self.order[:k] if first is None else first

    def at(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        """Return the probabilities of the APIs at some positions."""
        return np.asarray(self.probabilities[positions])

    @property
    def n_apis(self) -> int:
        """How many APIs the scores are of."""
        return len(self.probabilities)

    @cached_property
    def head(self) -> Head:
        """The most probable APIs, and what is behind them."""
        return Head.of(np.asarray(self.probabilities))

    def zeroed(self, positions: NDArray[np.intp]) -> Scores:
        """Return the scores with a probability of 0 at some ascending positions."""
        probabilities = self.probabilities.copy()
        probabilities[positions] = 0.0
        return replace(self, probabilities=probabilities)

    def head_without(self, positions: NDArray[np.intp]) -> Head:
        """Return the head of what is not at some positions."""
        left = np.ones(self.n_apis, dtype=bool)
        left[positions] = False
        return Head.of(self.probabilities[left], np.flatnonzero(left))

    def __repr__(self) -> str:
        best = ", ".join(f"{shown(name)} {p:.2f}" for name, p in self.top(3))
        return f"Scores({len(self.apis)} APIs, best {best})"


@dataclass(frozen=True, eq=False, repr=False)
class HeadScores(Scores):
    """Scores of many APIs: a few hundred by name, and all others by group.

    `probabilities` and `order` are made when they are first read. A decision needs them only where
    it reaches behind what is named.

    Parameters
    ----------
    positions : ndarray of shape (n_named,), ascending
        Of the APIs that are named: the head.
    named : ndarray of shape (n_named,), in [0, 1]
        Their probabilities.
    behind, sizes : ndarray of shape (n_groups,)
        The probability of each API in a group, and how many of them are not named.
    group_of : callable from ndarray of positions to ndarray of groups
        In which group the APIs at some positions are; any group for those that are named.
    at_zero : ndarray of positions, ascending
        APIs whose probability is 0 whatever the others say; not in `positions`, and not counted in
        `sizes`.

    Examples
    --------
    >>> apis = tuple("abcdef")
    >>> scores = HeadScores(
    ...     apis, positions=np.array([1, 4]), named=np.array([0.2, 0.9]),
    ...     behind=np.array([0.1, 0.0]), sizes=np.array([3, 1]),
    ...     group_of=lambda positions: (positions == 5).astype(int),
    ... )
    >>> scores.top(2), "probabilities" in vars(scores)
    ((('e', 0.9), ('b', 0.2)), False)
    >>> scores.probabilities
    array([0.1, 0.2, 0.1, 0.1, 0.9, 0. ])
    """

    probabilities: NDArray[Any] = field(init=False)
    positions: NDArray[np.intp] = field(kw_only=True)
    named: NDArray[Any] = field(kw_only=True)
    behind: NDArray[Any] = field(kw_only=True)
    sizes: NDArray[Any] = field(kw_only=True)
    group_of: Callable[[NDArray[np.intp]], NDArray[np.intp]] = field(kw_only=True)
    at_zero: NDArray[np.intp] = field(default_factory=_NONE.copy, kw_only=True)

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            if name != "probabilities":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made = self._made()
            object.__setattr__(self, name, made)
            return made

    def _made(self) -> NDArray[Any]:
        made = np.append(self.behind, 0.0)[self.group_of(np.arange(len(self.apis)))]
        made[self.positions] = self.named
        made[self.at_zero] = 0.0
        return made

    @property
    def n_apis(self) -> int:
        """How many APIs the scores are of."""
        return len(self.apis)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Positions by descending probability; equal ones in the order of `apis`.

        There are few different probabilities: their ranks are put in order, which is faster.
        """
        behind = np.append(self.behind, 0.0)
        levels, rank = np.unique(-np.concatenate([behind, self.named]), return_inverse=True)
        if len(levels) > _MOST_LEVELS:
            return super().order
        rank = rank.astype(np.uint16)
        each = rank[: len(behind)][self.group_of(np.arange(len(self.apis)))]
        each[self.positions] = rank[len(behind) :]
        each[self.at_zero] = rank[len(behind) - 1]
        return each.argsort(kind="stable")

    @cached_property
    def head(self) -> Head:
        """The most probable APIs, and what is behind them."""
        if not len(self.at_zero):
            return Head(self.positions, self.named, self.behind, self.sizes)
        behind, sizes = np.append(self.behind, 0.0), np.append(self.sizes, len(self.at_zero))
        return Head(self.positions, self.named, behind, sizes)

    def at(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        """Return the probabilities of the APIs at some positions."""
        if "probabilities" in self.__dict__:
            return np.asarray(self.probabilities[positions])
        places = self.head.places(positions)
        if places is not None:
            return self.named[places]
        given = self.head.behind[self._groups(positions)]
        named, places = self._named_among(positions)
        given[named] = self.named[places]
        return given

    def _named_among(self, positions: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return which of some positions are named, and their places in the head."""
        named = is_in(positions, self.positions)
        return named, self.positions.searchsorted(positions[named])

    def _groups(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the groups in `head` that some positions are in; anything for the named."""
        groups = np.array(self.group_of(positions))
        if len(self.at_zero):
            groups[is_in(positions, self.at_zero)] = len(self.behind)
        return groups

    def zeroed(self, positions: NDArray[np.intp]) -> Self:
        """Return the scores with a probability of 0 at some ascending positions."""
        positions = np.setdiff1d(positions, self.at_zero)
        left, sizes = self._left(positions, self.sizes, self.group_of)
        return replace(
            self,
            positions=self.positions[left],
            named=self.named[left],
            sizes=sizes,
            at_zero=np.union1d(self.at_zero, positions),
        )

    def head_without(self, positions: NDArray[np.intp]) -> Head:
        """Return the head of what is not at some positions."""
        head = self.head
        left, sizes = self._left(positions, head.sizes, self._groups)
        return Head(head.positions[left], head.probabilities[left], head.behind, sizes)

    def _left(
        self,
        positions: NDArray[np.intp],
        sizes: NDArray[np.intp],
        group_of: Callable[[NDArray[np.intp]], NDArray[np.intp]],
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Return which of the named are left without some APIs, and how many of each group."""
        named, places = self._named_among(positions)
        left = np.ones(len(self.positions), dtype=bool)
        left[places] = False
        if named.all():
            return left, sizes
        return left, sizes - np.bincount(group_of(positions[~named]), minlength=len(sizes))

    def __getstate__(self) -> dict[str, Any]:
        groups = self.group_of(np.arange(len(self.apis)))  # a function may not be what can be kept
        return {**self.__dict__, "group_of": groups.take}


def zeroed(scores: Scores, known: Sequence[int]) -> Scores:
    """Return scores in which APIs that are known have a probability of 0."""
    if not known:
        return scores
    places = np.unique(np.array(known, dtype=np.intp))
    return scores.zeroed(places) if scores.at(places).any() else scores
