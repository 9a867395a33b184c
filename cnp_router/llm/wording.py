"""`one_line`: what somebody else wrote, as a message can show it."""

from __future__ import annotations

__all__ = ["one_line"]


def one_line(text: str, most: int = 300) -> str:
    r"""Return a text in one short line that a terminal can be shown.

    Examples
    --------
    >>> one_line("busy\n\x1b[2J now")
    'busy \\x1b[2J now'
    """
    flat = " ".join(text[: 10 * most].split())
    flat = "".join(c if c.isprintable() else repr(c)[1:-1] for c in flat)
    return flat if len(flat) <= most else flat[: most - 3] + "..."
