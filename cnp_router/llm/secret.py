"""An API key that cannot be printed, copied to disk or left in a message by accident."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Secret"]

# Local servers are given keys like "none" or "ollama": such words may well stand in an answer.
_SHORTEST_IN_ANSWERS = 16


class Secret:
    """A key, shown as ``***``.

    Parameters
    ----------
    value : str or None

    Examples
    --------
    >>> key = Secret("sk-12345")
    >>> key, key.redacted("wrong key sk-12345")
    (Secret('***'), 'wrong key ***')
    """

    __slots__ = ("_value",)

    def __init__(self, value: str | None) -> None:
        self._value = value

    def reveal(self) -> str | None:
        """Return the key itself, for the client that sends it."""
        return self._value

    def redacted(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self._value, "***") if self._value else text

    def redacted_answer(self, text: str) -> str:
        """Return what a model said without the key, unless the key is a mere word."""
        return self.redacted(text) if len(self._value or "") >= _SHORTEST_IN_ANSWERS else text

    def __repr__(self) -> str:
        return "Secret('***')" if self._value else "Secret(None)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled (build the model anew where it is needed)")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self
