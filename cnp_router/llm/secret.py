"""An API key that cannot be printed, copied to disk or left in a message by accident."""

from __future__ import annotations

import re
from typing import Any, NoReturn

__all__ = ["Secret"]

_TELLING = 8  # characters of a key that say something about it
_LONG = 16
_PIECE, _STEP = 12, 4  # each part of 15 characters has such a piece in it
_MASK = re.compile(r"(?:[*•…]|\.{2,})+([\w-]*)")


class Secret:
    """A key, shown as ``***``; an empty one if there is none.

    Examples
    --------
    >>> key = Secret("sk-12345-67890-abcd")
    >>> key, key.redacted("wrong key sk-12345-67890-abcd, sk-12345-678 or sk-12***abcd")
    (Secret('***'), 'wrong key ***, *** or ***')
    """

    __slots__ = ("_heads", "_pieces", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        heads = [re.escape(value[:_TELLING])]
        if len(value) >= _LONG:  # servers show "sk-ab***": even less of it, and a mask
            heads += [rf"{re.escape(value[:n])}(?=[*•…]|\.\.)" for n in range(7, 2, -1)]
        places = range(_STEP, len(value) - _PIECE + 1, _STEP) if len(value) >= _LONG else ()
        self._pieces = [value[at : at + _PIECE] for at in places]
        self._heads = re.compile("|".join(heads))

    @property
    def is_a_word(self) -> bool:
        """Whether it may well stand in an answer: local servers are given keys like ``ollama``."""
        letters = self._value.replace("-", "").replace("_", "")
        return len(self._value) < _LONG and letters.isalpha()

    def reveal(self) -> str:
        """Return the key itself, for the client that sends it."""
        return self._value

    def redacted(self, text: str) -> str:
        """Return a text without the key.

        Beginnings of 8 characters and more, other parts of 15 and more, and what servers show of
        it (``sk-ab***yz``), go too.
        """
        key, parts, done, telling = self._value, [], 0, self._heads
        if pieces := [re.escape(piece) for piece in self._pieces if piece in text]:
            telling = re.compile("|".join([telling.pattern, *pieces]))
        while key and (found := telling.search(text, done)):
            start, at = found.start(), key.find(found[0])
            while at and start > done and text[start - 1] == key[at - 1]:
                start, at = start - 1, at - 1
            shown = text[start : start + len(key) - at]
            same = next((n for n, c in enumerate(shown) if c != key[at + n]), len(shown))
            end = start + same
            mask = _MASK.match(text, end)
            if mask is not None:
                end = mask.end() if key.endswith(mask[1]) else mask.start(1)
            parts += [text[done:start], "***"]
            done = end
        return "".join([*parts, text[done:]])

    def __repr__(self) -> str:
        return "Secret('***')" if self._value else "Secret('')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled (build the model anew where it is needed)")

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self
