"""Messages of the Contract Net: a tagged union with FIPA performatives.

Smith (1980) for the protocol, FIPA SC00029H (Contract Net Interaction Protocol) for the acts. The
``performative`` of a message tells its type; `message_from_dict` reads any of them back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cnp_router.agents import ProposedApi
from cnp_router.exceptions import TranscriptError

__all__ = [
    "MANAGER",
    "PERFORMATIVES",
    "USER",
    "Award",
    "CallForProposals",
    "Failure",
    "FailureReason",
    "Message",
    "Proposal",
    "Refusal",
    "Rejection",
    "Report",
    "Request",
    "message_from_dict",
]

USER = "user"
MANAGER = "manager"

FailureReason = Literal["error", "timeout", "deadline", "unusable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    id: int
    """Number in the round, from 1, in the order of sending."""
    sender: str
    """``"user"``, ``"manager"`` or the id of a contractor."""
    receiver: str
    """The same."""

    performative: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a JSON object."""
        fields = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"performative": self.performative, **fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(_Message):
    """The user asks the manager for a composition."""

    performative: ClassVar[str] = "request"
    text: str
    """The requirement in plain language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForProposals(_Message):
    """The manager announces a task to one contractor."""

    performative: ClassVar[str] = "cfp"
    request: str | None = None
    """The whole request (contractor-led)."""
    function: str | None = None
    """One function of it (manager-led, collaborative)."""
    category: str | None = None
    """The category it was mapped to (manager-led)."""
    reply_by: float | None = None
    """Bidding deadline, in seconds after the announcement."""
    iteration: int = 1
    """1, or 2 in an iterated announcement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(_Message):
    """A contractor bids."""

    performative: ClassVar[str] = "propose"
    in_reply_to: int
    """Id of the call for proposals."""
    apis: tuple[ProposedApi, ...]
    """What it proposes, with grounds; at least one."""
    functions: tuple[str, ...] = ()
    """Step 1, where the contractor takes it."""
    categories: tuple[str, ...] = ()
    """Step 2, where the contractor takes it; categories of the catalog."""
    late: bool = False
    """Whether it came after the deadline, and was ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(_Message):
    """A contractor does not bid."""

    performative: ClassVar[str] = "refuse"
    in_reply_to: int
    """Id of the call for proposals."""
    grounds: str = ""
    """Why."""
    late: bool = False
    """Whether it came after the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(_Message):
    """A contractor gave no usable reply."""

    performative: ClassVar[str] = "failure"
    in_reply_to: int
    """Id of the call for proposals."""
    reason: FailureReason
    """``"error"`` of the model or the way to it; ``"timeout"`` of this contractor;
    ``"deadline"`` of all; ``"unusable"``: an answer that is none."""
    error: str = ""
    """What went wrong, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Award(_Message):
    """The manager accepts a proposal, or a part of it."""

    performative: ClassVar[str] = "accept-proposal"
    in_reply_to: int
    """Id of the proposal."""
    apis: tuple[str, ...]
    """Ids of the awarded APIs, all of them proposed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection(_Message):
    """The manager rejects a proposal."""

    performative: ClassVar[str] = "reject-proposal"
    in_reply_to: int
    """Id of the proposal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(_Message):
    """The manager tells the user the result."""

    performative: ClassVar[str] = "inform"
    in_reply_to: int
    """Id of the request."""
    apis: tuple[str, ...]
    """The recommended APIs."""


Message = Request | CallForProposals | Proposal | Refusal | Failure | Award | Rejection | Report

_TYPES: tuple[type[Any], ...] = (
    Request,
    CallForProposals,
    Proposal,
    Refusal,
    Failure,
    Award,
    Rejection,
    Report,
)
PERFORMATIVES: Mapping[str, type[Any]] = {kind.performative: kind for kind in _TYPES}
"""Performative to message type."""


def message_from_dict(record: Mapping[str, Any]) -> Message:
    """Read a message back.

    Parameters
    ----------
    record : mapping
        As `to_dict` of a message makes it.

    Returns
    -------
    Message

    Raises
    ------
    TranscriptError
        If it is no message, or a field is missing, unknown or of another type.

    Examples
    --------
    >>> call = CallForProposals(id=2, sender="manager", receiver="maps", request="a map")
    >>> message_from_dict(call.to_dict()) == call
    True
    """
    fields = dict(record)
    performative = fields.pop("performative", None)
    kind = PERFORMATIVES.get(performative) if isinstance(performative, str) else None
    if kind is None:
        known = ", ".join(PERFORMATIVES)
        raise TranscriptError(f"unknown performative {performative!r} (use one of {known})")
    wanted = {f.name: f for f in dataclasses.fields(kind)}
    for name in fields:
        if name not in wanted:
            raise TranscriptError(f"a {performative!r} message has no field {name!r}")
    for name, field in wanted.items():
        if name not in fields and field.default is dataclasses.MISSING:
            raise TranscriptError(f"a {performative!r} message needs the field {name!r}")
    read: Message = kind(
        **{name: _read(performative, name, wanted[name].type, v) for name, v in fields.items()}
    )
    return read


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, ProposedApi) else value


def _read(performative: str, name: str, kind: Any, value: Any) -> Any:
    """Return a field's value, if it is of the annotated type."""
    if _CHECKS[kind](value):
        if kind == "tuple[ProposedApi, ...]":
            return tuple(ProposedApi(item["api"], item["grounds"]) for item in value)
        return tuple(value) if isinstance(value, list) else value
    raise TranscriptError(f"field {name!r} of a {performative!r} message cannot be {value!r}")


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_proposed(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict)
        and set(item) == {"api", "grounds"}
        and all(isinstance(text, str) for text in item.values())
        for item in value
    )


_CHECKS: Mapping[str, Any] = {
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "bool": lambda v: isinstance(v, bool),
    "str | None": lambda v: v is None or isinstance(v, str),
    "float | None": lambda v: (
        v is None or (isinstance(v, (int, float)) and not isinstance(v, bool))
    ),
    "tuple[str, ...]": _is_strings,
    "tuple[ProposedApi, ...]": _is_proposed,
    "FailureReason": lambda v: v in ("error", "timeout", "deadline", "unusable"),
}
