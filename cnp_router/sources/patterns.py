"""Regular expressions of others, matched in bounded time: no backtracking, and steps are counted.

Python's own matcher can take years on a text of 40 characters and a hostile pattern. This one
keeps the set of all places that a match can have reached, which takes the length of the pattern
times that of the text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _constants as ops  # type: ignore[attr-defined]  # what `re` itself is made of
from re import _parser  # type: ignore[attr-defined]
from typing import Any

__all__ = ["Budget", "PatternError", "is_found"]

_LONGEST = 2_000  # characters of a pattern
_NAMED = re.compile(r"\(\?<(?=[A-Za-z_])")  # JavaScript's spelling of (?P<


class PatternError(Exception):
    """A pattern that cannot be matched here, for what its message says."""


class Budget:
    """How many steps may still be taken."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def spend(self, steps: int) -> None:
        """Take some steps; PatternError if they are too many."""
        self.steps -= steps
        if self.steps < 0:
            raise PatternError("it takes too long to match")


def is_found(pattern: str, text: str, budget: Budget) -> bool:
    r"""Return whether a pattern matches anywhere in a text, as JSON Schema has it.

    Classes such as ``\d`` are those of ASCII, and ``$`` is the very end, as in JavaScript.

    Raises
    ------
    PatternError
        If it is no regular expression of Python, needs backtracking (references to groups,
        possessive repeats), or takes too long.

    Examples
    --------
    >>> is_found("^(a+)+$", "a" * 40 + "!", Budget(10_000))
    False
    """
    try:
        parts = _parsed(pattern)
        starts = {0} if parts[:1] == ((ops.AT, ops.AT_BEGINNING),) else set(range(len(text) + 1))
        return bool(_Search(text, budget).ends(parts, starts))
    except RecursionError:
        raise PatternError("it is nested too deeply") from None


@lru_cache(maxsize=512)
def _parsed(pattern: str) -> tuple[Any, ...]:
    if len(pattern) > _LONGEST:
        raise PatternError(f"it is longer than {_LONGEST:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what may change in a later Python
            parsed = _parser.parse(_NAMED.sub("(?P<", pattern))
    except (re.error, OverflowError) as exc:
        raise PatternError(f"it is not a regular expression of Python: {exc}") from None
    if parsed.state.flags & ~re.UNICODE:
        raise PatternError("it has flags in it")
    return tuple(parsed)


class _Search:
    def __init__(self, text: str, budget: Budget) -> None:
        self.text, self.budget = text, budget

    def ends(self, parts: Iterable[Any], starts: set[int]) -> set[int]:
        """Return where some parts, one after the other, can end that begin at some places."""
        for op, argument in parts:
            self.budget.spend(len(starts) + 1)
            if not starts:
                break
            starts = self._one(op, argument, starts)
        return starts

    def _one(self, op: Any, argument: Any, starts: set[int]) -> set[int]:
        if op in (ops.IN, *_CHARACTERS):
            items = argument if op is ops.IN else [(op, argument)]
            self.budget.spend(len(starts) * len(items))
            text = self.text
            return {at + 1 for at in starts if at < len(text) and _is_in(text[at], items)}
        if op is ops.AT:
            return {at for at in starts if self._is_at(argument, at)}
        if op is ops.BRANCH:
            return {at for branch in argument[1] for at in self.ends(branch, starts)}
        if op is ops.SUBPATTERN and not (argument[1] or argument[2]):
            return self.ends(argument[3], starts)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            return self._repeated(argument, starts)
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            return self._looked(op is ops.ASSERT, argument, starts)
        raise PatternError("it needs backtracking, or has flags in it")

    def _repeated(self, argument: Any, starts: set[int]) -> set[int]:
        low, high, inner = argument
        for _ in range(low):
            before, starts = starts, self.ends(inner, starts)
            if starts == before:
                break
        found, new, left = set(starts), starts, high - low
        while new and left:
            new = self.ends(inner, new) - found
            found |= new
            left -= 1
        return found

    def _looked(self, wanted: bool, argument: Any, starts: set[int]) -> set[int]:
        """Keep the places before or behind which something stands, or does not."""
        direction, inner = argument
        if direction > 0:
            return {at for at in starts if bool(self.ends(inner, {at})) is wanted}
        low, high = inner.getwidth()
        if low != high:
            raise PatternError("it looks behind by no fixed width")
        return {at for at in starts if (at >= low and at in self.ends(inner, {at - low})) is wanted}

    def _is_at(self, where: Any, at: int) -> bool:
        if where in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
            return at == 0
        if where in (ops.AT_END, ops.AT_END_STRING):
            return at == len(self.text)
        before, after = self.text[at - 1 : at] if at else "", self.text[at : at + 1]
        return (_is_word(before) != _is_word(after)) is (where is ops.AT_BOUNDARY)


def _is_in(character: str, items: Any) -> bool:
    negated = items[0][0] is ops.NEGATE
    return negated is not any(_takes(op, argument, character) for op, argument in items)


def _takes(op: Any, argument: Any, character: str) -> bool:
    return op is not ops.NEGATE and _CHARACTERS[op](argument, character)


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


_CLASSES: dict[str, Callable[[str], bool]] = {
    "DIGIT": lambda c: "0" <= c <= "9",
    "SPACE": str.isspace,
    "WORD": _is_word,
}


def _is_of_class(name: Any, character: str) -> bool:
    """Return whether a character is in a class, such as CATEGORY_NOT_DIGIT."""
    *_, negation, kind = str(name).split("_")
    return _CLASSES[kind](character) is not (negation == "NOT")


_CHARACTERS: dict[Any, Callable[[Any, str], bool]] = {
    ops.LITERAL: lambda code, c: ord(c) == code,
    ops.NOT_LITERAL: lambda code, c: ord(c) != code,
    ops.RANGE: lambda ends, c: bool(ends[0] <= ord(c) <= ends[1]),
    ops.CATEGORY: _is_of_class,
    ops.ANY: lambda _, c: c != "\n",
}
