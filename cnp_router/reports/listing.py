"""`limited`: text of others on a page: without secrets, on one line, and not too long."""

from __future__ import annotations

from cnp_router.llm.redaction import without_secrets
from cnp_router.printing import printable

__all__ = ["limited"]


def limited(text: str, most: int | None = None) -> str:
    """Return at most so many characters of a text, masked first: half a key is none by its shape.

    Examples
    --------
    >>> limited("the key sk-proj-0123456789abcdef of the map", 16)
    'the key *** o...'
    """
    return printable(without_secrets(text), most)
