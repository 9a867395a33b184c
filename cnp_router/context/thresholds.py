"""From which similarity on context is offered: fixed, by a quantile, or by category and load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable

from cnp_router.records import check_number

__all__ = ["AdaptiveThreshold", "FixedThreshold", "QuantileThreshold", "Threshold"]

DENSE = 0.7
_LEAST = 0.05  # below it nothing is alike, whatever the background
_MOST_SEEN = 2_000


class Threshold(ABC):
    """The least similarity of what is offered.

    It may learn from the background: similarities of texts that have nothing to do with each
    other.
    """

    @abstractmethod
    def value(self, *, category: str | None = None, load: int = 0) -> float:
        """Return the threshold for an API of a category, among so many entries."""

    def learn(self, background: Iterable[float]) -> None:
        """Take the similarities of pairs of different texts, in place of those before."""
        return

    def observe(self, similarities: Iterable[float], *, category: str | None = None) -> None:
        """Take the similarities of one text to all entries, few of which it has to do with."""
        return


class FixedThreshold(Threshold):
    """Always the same.

    Parameters
    ----------
    threshold : float in [0, 1], default=0.7
        The default is for dense vectors (Li and Liu, 2025).

    Examples
    --------
    >>> FixedThreshold(0.7).value(category="Weather", load=12)
    0.7
    """

    def __init__(self, threshold: float = DENSE) -> None:
        self.threshold = check_number("threshold", threshold, 0, 1)

    def value(self, *, category: str | None = None, load: int = 0) -> float:
        """Return it."""
        return float(self.threshold)

    def __repr__(self) -> str:
        return f"FixedThreshold({self.threshold})"


class QuantileThreshold(Threshold):
    """A quantile of the background: what is above it is more alike than chance.

    Parameters
    ----------
    quantile : float in [0, 1], default=0.99
    otherwise : float in [0, 1], default=0.3
        As long as fewer than 20 similarities are known.

    Examples
    --------
    >>> threshold = QuantileThreshold(0.9)
    >>> threshold.learn(n / 100 for n in range(100))
    >>> threshold.value()
    0.9
    """

    def __init__(self, quantile: float = 0.99, *, otherwise: float = 0.3) -> None:
        self.quantile = check_number("quantile", quantile, 0, 1)
        self.otherwise = check_number("otherwise", otherwise, 0, 1)
        self._background: list[float] = []

    def learn(self, background: Iterable[float]) -> None:
        """Take the background."""
        self._background = sorted(background)

    def value(self, *, category: str | None = None, load: int = 0) -> float:
        """Return the quantile."""
        return _at(self._background, self.quantile, self.otherwise)

    def __repr__(self) -> str:
        return f"QuantileThreshold({self.quantile}, {len(self._background):,} pairs)"


class AdaptiveThreshold(Threshold):
    """A quantile that rises with the load, of what was seen in the category of the API.

    Among n entries, the quantile is 1 - `most` / n: about so many would be offered by chance,
    however many there are. A category counts by itself as soon as 20 similarities are known in it,
    weighed against the background as `weight` similarities.

    Parameters
    ----------
    most : float > 0, default=1.0
        Entries that may be offered by chance.
    least : float in [0, 1], default=0.9
        The lowest quantile, where there are few entries.
    weight : float >= 0, default=50.0
    otherwise : float in [0, 1], default=0.3

    Examples
    --------
    >>> threshold = AdaptiveThreshold(most=1)
    >>> threshold.learn(n / 1000 for n in range(1000))
    >>> threshold.value(load=10), threshold.value(load=100)
    (0.9, 0.99)
    >>> threshold.observe([0.5] * 150, category="Weather")
    >>> threshold.value(category="Weather", load=100)
    0.6225
    """

    def __init__(
        self,
        *,
        most: float = 1.0,
        least: float = 0.9,
        weight: float = 50.0,
        otherwise: float = 0.3,
    ) -> None:
        self.most = check_number("most", most, 0, ends=False)
        self.least = check_number("least", least, 0, 1)
        self.weight = check_number("weight", weight, 0)
        self.otherwise = check_number("otherwise", otherwise, 0, 1)
        self._background: list[float] = []
        self._seen: dict[str, _Seen] = {}

    def learn(self, background: Iterable[float]) -> None:
        """Take the background."""
        self._background = sorted(background)

    def observe(self, similarities: Iterable[float], *, category: str | None = None) -> None:
        """Take what was seen in a category; its last 2,000 count."""
        if category is not None:
            seen = self._seen.setdefault(category, _Seen())
            for each in similarities:
                seen.add(each)

    def value(self, *, category: str | None = None, load: int = 0) -> float:
        """Return the quantile for the load, of category and background."""
        quantile = max(self.least, 1 - self.most / max(load, 1))
        usual = _at(self._background, quantile, self.otherwise)
        seen = self._seen.get(category or "")
        if seen is None or len(seen.ranked) < _FEWEST:
            return usual
        n = len(seen.ranked)
        own = _at(seen.ranked, quantile, usual)
        return float((n * own + self.weight * usual) / (n + self.weight))

    def __repr__(self) -> str:
        return f"AdaptiveThreshold(most={self.most}, {len(self._seen)} categories)"


_FEWEST = 20


class _Seen:
    """The last similarities of a category, in order of coming and of size."""

    def __init__(self) -> None:
        self.last: deque[float] = deque()
        self.ranked: list[float] = []

    def add(self, similarity: float) -> None:
        self.last.append(similarity)
        insort(self.ranked, similarity)
        if len(self.last) > _MOST_SEEN:
            del self.ranked[bisect_left(self.ranked, self.last.popleft())]


def _at(ranked: list[float], quantile: float, otherwise: float) -> float:
    """Return a quantile of ascending numbers; something else where there are too few."""
    if len(ranked) < _FEWEST:
        return otherwise
    place = min(round(quantile * len(ranked)), len(ranked) - 1)
    return float(max(ranked[place], _LEAST))
