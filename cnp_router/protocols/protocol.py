"""`Protocol`: who takes which step, what is announced to whom, and how a round is held."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Literal

__all__ = ["Announcement", "Protocol"]

Announcement = Literal["routed", "broadcast"]


class Protocol(ABC):
    """A way to answer a request, with what it needs.

    Attributes
    ----------
    name : str
        What it is called in options, tables and transcripts.
    summary : str
        One line that says what it does.
    manager, contractors : str
        Which steps they take; empty if none.
    carries : str
        What a call for proposals carries; empty if there is none.
    broadcast : str
        To whom a broadcast goes; empty if there is none.
    needs_router : bool
        Whether there must be a router, whatever the announcement.
    announcements : tuple of {"broadcast", "routed"}
        In which ways it can be announced.
    has_contractors : bool
        Whether it announces to contractors, so that their organisation matters.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    manager: ClassVar[str] = ""
    contractors: ClassVar[str] = ""
    carries: ClassVar[str] = ""
    broadcast: ClassVar[str] = ""
    needs_router: ClassVar[bool] = False
    announcements: ClassVar[tuple[Announcement, ...]] = ("broadcast", "routed")
    has_contractors: ClassVar[bool] = True
