"""An API key that cannot be printed, copied to disk or left in a message by accident."""

from __future__ import annotations

import re
from typing import Any, NoReturn

__all__ = ["Secret"]

_TELLING = 8  # characters of a key that say something about it
_LONG = 16
_MASK = re.compile(r"(?:[*•…]|\.{2,})+([\w-]*)")


class Secret:
    """A key, shown as ``***``.

    Parameters
    ----------
    value : str or None

    Examples
    --------
    >>> key = Secret("sk-12345-67890-abcd")
    >>> key, key.redacted("wrong key sk-12345-67890-abcd, sk-12345-678 or sk-12***abcd")
    (Secret('***'), 'wrong key ***, *** or ***')
    """

    __slots__ = ("_heads", "_value")

    def __init__(self, value: str | None) -> None:
        self._value = value
        heads = [re.escape((value or "")[:_TELLING])]
        if len(value or "") >= _LONG:  # servers show "sk-ab***": even less of it, and a mask
            heads += [rf"{re.escape((value or '')[:n])}(?=[*•…]|\.\.)" for n in range(7, 2, -1)]
        self._heads = re.compile("|".join(heads))

    @property
    def is_a_word(self) -> bool:
        """Whether it may well stand in an answer: local servers are given keys like ``ollama``."""
        key = self._value or ""
        return len(key) < _LONG and key.replace("-", "").replace("_", "").isalpha()

    def reveal(self) -> str | None:
        """Return the key itself, for the client that sends it."""
        return self._value

    def redacted(self, text: str) -> str:
        """Return a text without the key.

        Beginnings of 8 characters and more, and what servers show of it (``sk-ab***yz``), go too.
        """
        if not self._value:
            return text
        parts, done = [], 0
        while found := self._heads.search(text, done):
            start = found.start()
            shown = text[start : start + len(self._value)]
            end = start + _length_in_common(self._value, shown)
            mask = _MASK.match(text, end)
            if mask is not None:
                end = mask.end() if self._value.endswith(mask[1]) else mask.start(1)
            parts += [text[done:start], "***"]
            done = end
        return "".join([*parts, text[done:]])

    def __repr__(self) -> str:
        return "Secret('***')" if self._value else "Secret(None)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled (build the model anew where it is needed)")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self


def _length_in_common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
