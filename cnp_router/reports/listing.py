"""Text of others on a page, without secrets and not too long; and what a table has left out."""

from __future__ import annotations

from collections.abc import Iterable

from cnp_router.llm.redaction import without_secrets
from cnp_router.printing import printable

__all__ = ["limited", "not_listed", "paragraphs"]

_PARAGRAPH = 1_000  # characters


def limited(text: str, most: int | None = None) -> str:
    """Return at most so many characters of a text, masked first: half a key is none by its shape.

    Examples
    --------
    >>> limited("the key sk-proj-0123456789abcdef of the map", 16)
    'the key *** o...'
    """
    return printable(without_secrets(text), most)


def paragraphs(texts: Iterable[str]) -> tuple[str, ...]:
    """Return texts that are a paragraph each."""
    return tuple(limited(each, _PARAGRAPH) for each in texts)


def not_listed(n: int, most: int, what: str = "more") -> tuple[str, ...]:
    """Return the note of a table that has at most so many of its rows.

    Examples
    --------
    >>> not_listed(1_345, 300, "more jobs"), not_listed(300, 300)
    (('1,045 more jobs are not listed.',), ())
    """
    return (f"{n - most:,} {what} are not listed.",) if n > most else ()
