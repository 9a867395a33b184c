"""What a tool may be called: its name is part of an id, which prompts and questions show."""

from __future__ import annotations

import re

from cnp_router.exceptions import InputError, shown

__all__ = ["LONGEST", "check_tool_name", "is_tool_name", "shown_name"]

LONGEST = 128  # characters, as the Model Context Protocol recommends
_SHOWN = 60
_NAME = re.compile(rf"[A-Za-z0-9_.:/-]{{1,{LONGEST}}}")


def is_tool_name(name: object) -> bool:
    """Whether a tool may have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def shown_name(name: object) -> str:
    """Return what a tool is called, in ASCII and in few characters."""
    return ascii(name)[:_SHOWN] if isinstance(name, str) else shown(name)


def check_tool_name(name: object) -> None:
    """Raise InputError where a tool may not have this name, which the error does not show."""
    if not is_tool_name(name):
        rule = f"1 to {LONGEST} letters of ASCII, digits, '_', '-', '.', ':' or '/'"
        raise InputError(f"its name must be {rule}")
