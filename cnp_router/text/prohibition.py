"""Whether a text says what is not to be done: comparing words does not tell what is wanted then."""

from __future__ import annotations

import re

__all__ = ["forbids"]

_MOST_READ = 10_000  # characters
_FORBIDS = re.compile(
    r"(?:^|[.,;:!?()]|\b(?:and|but|or|please|so|then|you|we|just))\s*"
    r"(?:do not|don[\u2019']?t|never)\b"
    r"|\b(?:must|shall|should|may)(?: not|n[\u2019']t)\b|\b(?:by no means|under no circumstances)\b"
    r"|\b(?:except|without|other than|apart from|instead of|rather than)\b"
    r"|\b(?:all|every\w*|any\w*|no ?(?:one|body))\b[^.,;!?]*\bbut\b",
    re.IGNORECASE,
)


def forbids(text: str) -> bool:
    """Return whether a text says in English what is not to be done, or with what exception.

    Examples
    --------
    >>> forbids("Do not delete entry 5."), forbids("Delete all entries but number 5.")
    (True, True)
    >>> forbids("The printer does not work: open a ticket.")
    False
    """
    return _FORBIDS.search(text[:_MOST_READ]) is not None
