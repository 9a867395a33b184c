"""What others keep in the folder of a model, beside it: databases of what was observed."""

from __future__ import annotations

from typing import Final

__all__ = ["MEMORY_FILE", "ONLINE_FILE", "SEARCHES_FILE", "is_kept_beside"]

ONLINE_FILE: Final = "online.sqlite"
MEMORY_FILE: Final = "memory.sqlite"
SEARCHES_FILE: Final = "searches.sqlite"


def is_kept_beside(name: str) -> bool:
    """Return whether a file is one of them, its lock, or what a killed writer left of it.

    Examples
    --------
    >>> is_kept_beside("online.sqlite-lock"), is_kept_beside("letter.txt")
    (True, False)
    """
    return any(own in name for own in (ONLINE_FILE, MEMORY_FILE, SEARCHES_FILE))
