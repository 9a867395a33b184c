"""What a function of one argument answered before: a dictionary, with a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Remembered"]

K = TypeVar("K")
V = TypeVar("V")

_MOST = 100_000


class Remembered(dict[K, V]):
    """The answers of a function, each found once: `functools.lru_cache` for a few thousand calls.

    Looked up as a dictionary is, in a quarter of the time. At some number of answers it forgets
    all of them.

    Examples
    --------
    >>> lengths = Remembered(len)
    >>> lengths["maps"], dict(lengths)
    (4, {'maps': 4})
    """

    def __init__(self, function: Callable[[K], V]) -> None:
        self._function = function

    def __reduce__(self) -> tuple[Any, ...]:
        return Remembered, (self._function,)  # what is remembered is found again

    def __missing__(self, key: K) -> V:
        if len(self) >= _MOST:
            self.clear()
        found = self[key] = self._function(key)
        return found
