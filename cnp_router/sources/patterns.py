"""Regular expressions of others, matched in bounded time by the library `regex`."""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache
from typing import Any

__all__ = ["Matcher", "PatternError"]

_LONGEST = 2_000  # characters of a pattern
_LARGEST = 50_000  # parts, after `regex` has written repeats out, as it does while it compiles
_MOST_COMPARED = 100_000_000  # characters: to look for a literal heeds no timeout
_TOKEN = re.compile(
    r"""(?P<kept>\\[pP]\{\w+(?:=\w+)?\} | \\. | \[(?!\^?\])\^?(?:\\.|[^\\\]])*\]
                | \(\?(?:[:=!]|<[=!]))
      | (?P<group>\(\?P?<\w+> | \((?!\?))
      | (?P<odd>\(\? | \[)
      | (?P<end>\$)
      | (?P<brace>\{(?![0-9]+(?:,[0-9]*)?\}))""",
    re.DOTALL | re.VERBOSE,
)


class PatternError(Exception):
    """A pattern that cannot be matched here, for what its message says."""


class Matcher:
    r"""Matches patterns as JSON Schema has it, until all together have taken some seconds.

    Classes such as ``\d`` are those of ASCII, and ``$`` is the very end, as in JavaScript.

    Examples
    --------
    >>> Matcher(0.25).is_found("^[a-z]+$", "ab\n")
    False
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def is_found(self, pattern: str, text: str) -> bool:
        """Return whether a pattern matches anywhere in a text.

        Raises
        ------
        PatternError
            If it cannot be compiled, refers to groups, has flags, or takes too long.
        """
        start = time.perf_counter()
        try:
            if self._left <= 0 or len(pattern) * len(text) > _MOST_COMPARED:
                raise TimeoutError
            return _compiled(pattern).search(text, timeout=self._left) is not None
        except (TimeoutError, MemoryError):
            raise PatternError("it takes too long to match") from None
        finally:
            self._left -= time.perf_counter() - start


@lru_cache(maxsize=32)  # each may take up to some 20 MB
def _compiled(pattern: str) -> Any:
    import regex

    if len(pattern) > _LONGEST:
        raise PatternError(f"it is longer than {_LONGEST:,} characters")
    counts = re.findall(r"(\)?)\{([0-9]{1,9})", pattern)
    parts = len(pattern) + sum(int(count) for group, count in counts if not group)
    if parts * math.prod(max(int(count), 1) for group, count in counts if group) > _LARGEST:
        raise PatternError("its repeats are too many")
    flags = 0 if re.search(r"\\[pP]\{", pattern) else regex.ASCII  # else \p{L} is of ASCII too
    try:
        return regex.compile(_TOKEN.sub(_translated, pattern), flags, cache_pattern=False)
    except regex.error as exc:
        raise PatternError(f"it is not a regular expression of Python: {exc}") from None
    except RecursionError:
        raise PatternError("it is nested too deeply") from None


def _translated(token: re.Match[str]) -> str:
    """Write a piece as `regex` reads it; groups capture nothing, which is dear in repeats."""
    if token.lastgroup == "odd":
        raise PatternError("it has flags in it, or what JavaScript does not know")
    there = {"group": "(?:", "end": r"\Z", "brace": r"\{"}
    return there.get(token.lastgroup or "", token[0])
