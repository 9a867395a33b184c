"""What messages say, for a person: in a line, and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cnp_router.evaluation.table import Table
from cnp_router.protocols.messages import (
    Award,
    CallForProposals,
    Cancel,
    Failure,
    InformResult,
    Message,
    Proposal,
    Refusal,
    Rejection,
    Request,
)
from cnp_router.reports.listing import limited
from cnp_router.reports.shapes import time_text

__all__ = ["message_table", "said_by"]

MOST_ROWS = 300


def said_by(message: Message, most: int = 200) -> str:
    """Return what a message says, for a person, in at most so many characters."""
    return limited(_said(message), most)


def _said(message: Message) -> str:  # noqa: PLR0911 one line a kind of message
    if isinstance(message, Request):
        return message.text
    if isinstance(message, CallForProposals):
        wanted = message.function or message.request or ""
        return f"{wanted} (in {message.category})" if message.category else wanted
    if isinstance(message, Proposal):
        said = (f"{a.api}: {a.grounds}" if a.grounds else a.api for a in message.apis)
        return ("too late: " if message.late else "") + "; ".join(said)
    if isinstance(message, Refusal):
        return ("too late: " if message.late else "") + message.grounds
    if isinstance(message, Failure):
        return f"{message.reason}: {message.error}" if message.error else message.reason
    if isinstance(message, Award):
        again = f" (instead of award {message.instead_of})" if message.instead_of else ""
        return ", ".join(message.apis) + again
    if isinstance(message, InformResult):
        return f"{message.api}, {time_text(message.seconds)}: {message.text}"
    if isinstance(message, Cancel):
        return message.why
    return "" if isinstance(message, Rejection) else ", ".join(message.apis)


def message_table(messages: Sequence[Message]) -> Table:
    """Return the messages; of very many, those that ask and refuse are left out first."""
    told = [m for m in messages if not isinstance(m, CallForProposals | Refusal | Rejection)]
    rest = [m for m in messages if isinstance(m, CallForProposals | Refusal | Rejection)]
    kept = sorted((told + rest)[:MOST_ROWS], key=lambda message: message.id)
    left = Counter(message.performative for message in (told + rest)[MOST_ROWS:])
    kinds = ", ".join(f"{number:,} {name}" for name, number in left.items())
    return Table(
        "",
        ("no.", "message", "from", "to", "what it says"),
        tuple(
            (
                str(m.id),
                m.performative,
                limited(m.sender, 60),
                limited(m.receiver, 60),
                said_by(m),
            )
            for m in kept
        ),
        labels=5,
        notes=(f"Not listed: {kinds}.",) if left else (),
    )
