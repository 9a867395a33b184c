"""`printable`: text that others wrote (files, servers, arguments), safe to be shown."""

from __future__ import annotations

import re

__all__ = ["is_harmless", "printable"]

_NOT_ASCII = re.compile(r"[^ -~]")
_JOINERS = "\u200c\u200d"  # within words of some scripts, and within emoji


def printable(text: str, most: int | None = None) -> str:
    r"""Return a text as one line that says what it says and does nothing to a terminal.

    White space becomes spaces. Control characters, halves of surrogate pairs, and what reorders
    or hides text become escapes. With `most`, runs of white space become one space each, and no
    more than so many characters are shown.

    Examples
    --------
    >>> print(printable("Maps\n\x1b[31m of the \u202edlrow"))
    Maps \x1b[31m of the \u202edlrow
    >>> print(printable("  a very\nlong  line", 12))
    a very lo...
    """
    if most is not None:
        text = " ".join(text[: 10 * most].split())
    shown = _NOT_ASCII.sub(lambda match: _visible(match[0]), text)
    return shown if most is None or len(shown) <= most else f"{shown[: most - 3]}..."


def is_harmless(character: str) -> bool:
    """Return whether a character can be shown as it is."""
    return character.isprintable() or character in _JOINERS


def _visible(character: str) -> str:
    if is_harmless(character):
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode()
