"""`Protocol`: who takes which step, what is announced to whom, and how a round is run."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, get_args

from cnp_router.exceptions import InputError
from cnp_router.protocols.outcome import Choice
from cnp_router.protocols.parties import Parties, graph_of
from cnp_router.protocols.round import Result, Round
from cnp_router.protocols.settings import RoundSettings

__all__ = ["Announcement", "Protocol"]

Announcement = Literal["routed", "broadcast"]


class Protocol(ABC):
    """A way to answer a request, with all that it needs.

    A protocol of one's own has a name and a `run`, and is given to `ContractNet.run`; an instance
    in `PROTOCOLS` is known by its name everywhere.

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
    reaches : str
        To whom a broadcast goes; empty if there is none.
    needs_router : bool
        Whether there must be a router, whatever the announcement.
    needs_categories : bool
        Whether the catalog must have categories for a broadcast.
    announcements : tuple of {"broadcast", "routed"}
        In which ways it can be announced.
    has_contractors : bool
        Whether it announces to contractors, so that their organisation matters.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    manager: ClassVar[str] = ""
    contractors: ClassVar[str] = ""
    carries: ClassVar[str] = ""
    reaches: ClassVar[str] = ""
    needs_router: ClassVar[bool] = False
    needs_categories: ClassVar[bool] = False
    announcements: ClassVar[tuple[Announcement, ...]] = ("broadcast", "routed")
    has_contractors: ClassVar[bool] = True

    @abstractmethod
    async def run(self, round_: Round) -> Result:
        """Take the steps that lead from the request to the APIs.

        The round has the request, the parties and the settings; it asks, announces and decides.
        """

    def prepare(
        self,
        request: str,
        parties: Parties,
        settings: RoundSettings,
        announcement: str,
        date: datetime.date | None = None,
    ) -> tuple[Protocol, Choice | None]:
        """Check that a round can be run, and return the protocol that runs it.

        That is itself, unless it chooses another one; then with the reason. An InputError says
        what is missing.
        """
        if announcement not in get_args(Announcement):
            raise InputError(f"unknown announcement {announcement!r} (use 'routed' or 'broadcast')")
        if self.needs_router or announcement == "routed":
            parties.needed_router  # noqa: B018  # it raises
        if self.has_contractors and settings.iterate:
            graph_of(parties.router)
        if self.has_contractors and announcement == "broadcast" and settings.evidence != "none":
            raise InputError(
                f"evidence={settings.evidence!r} is what the router knows of its recipients, and a "
                "broadcast has none (announce to the routed ones, or leave evidence out)"
            )
        return self, None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
