"""`Approval`: what the user is asked before anything is called that does not only read."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.records import shown

__all__ = ["Approval", "Approve", "allow_writes", "asked"]

Why = Literal["writes", "unknown", "repeat", "permission"]

_REASONS = {
    "writes": "it changes something",
    "unknown": "nobody that you trust says that it only reads",
    "repeat": "an earlier call for this job may have been done already",
    "permission": "the right to do it is missing",
}


@dataclass(frozen=True, slots=True, repr=False)
class Approval:
    """A question to the user: whether something may be called.

    Parameters
    ----------
    job : str
        Id of the job.
    api : Api
        What is to be called.
    inputs : mapping of str to JSON value
        With what.
    why : {"writes", "unknown", "repeat", "permission"}
        Why it is asked: the API writes; nobody says whether it does; an earlier call for this job
        has an unknown outcome, so that this one may do it twice; the right to do it is missing.

    Examples
    --------
    >>> Approval("text", Api("sms__send", "send"), {"to": "+81 90"}, "unknown").reason
    'nobody that you trust says that it only reads'
    """

    job: str
    api: Api
    inputs: Mapping[str, Any] = field(hash=False)
    why: Why

    @property
    def reason(self) -> str:
        """Why it is asked, in words."""
        return _REASONS[self.why]

    def __repr__(self) -> str:  # the inputs may hold what no log should
        return f"Approval({self.job!r}, {self.api.id!r}, {self.why!r})"


Approve = Callable[[Approval], bool | Awaitable[bool]]
"""Answers an `Approval` with True or False. A plain function holds everything up while it decides;
one that asks a person should be a coroutine function."""


def allow_writes(approval: Approval) -> bool:
    """Approve what writes or may write, but nothing that might be done twice or without right.

    Examples
    --------
    >>> allow_writes(Approval("text", Api("sms__send", "send"), {}, "repeat"))
    False
    """
    return approval.why in ("writes", "unknown")


async def asked(approve: Approve | None, approval: Approval) -> bool:
    """Ask, and return the answer; False where there is nobody to ask.

    Raises
    ------
    InputError
        If the answer is neither True nor False: nothing else is taken for a yes.

    Examples
    --------
    >>> import asyncio
    >>> asyncio.run(asked(allow_writes, Approval("text", Api("sms__send", "send"), {}, "writes")))
    True
    """
    if approve is None:
        return False
    answer: object = approve(approval)
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, bool):
        raise InputError(f"approve must return True or False, got {shown(answer)}")
    return answer


def declined(approve: Approve | None, approval: Approval) -> str:
    """Return why it was not called, and what would change that."""
    if approve is not None and approve is not allow_writes:
        return f"not approved: {approval.reason}"
    if not allow_writes(approval):
        cure = (
            "see whether it was; --allow-write does not approve this: a person at the terminal can"
        )
        return f"nobody was there to approve it: {approval.reason} ({cure})"
    cure = "--allow-write or a callback, approve=, approves"
    if approval.why == "unknown":
        cure += "; --trust NAME, or effects in the file of sources, say that it reads"
    return f"nobody was there to approve it: {approval.reason} ({cure})"
