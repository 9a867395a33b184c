"""Messages of the Contract Net: a union with FIPA performatives as tags.

Smith (1980) for the protocol and for directed contracts, FIPA SC00029H (Contract Net Interaction
Protocol) for the acts. The ``performative`` of a message tells its type; `message_from_dict` reads
any of them back.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from cnp_router.agents import ApiEvidence, ProposedApi
from cnp_router.exceptions import TranscriptError
from cnp_router.records import shown
from cnp_router.sources import FailureKind

__all__ = [
    "CATEGORY_MANAGER",
    "MANAGER",
    "PERFORMATIVES",
    "RESULT_TEXT",
    "USER",
    "Award",
    "CallForProposals",
    "Cancel",
    "Failure",
    "FailureReason",
    "InformResult",
    "Message",
    "Proposal",
    "Refusal",
    "Rejection",
    "Report",
    "Request",
    "TaggedMessage",
    "WasDone",
    "message_from_dict",
    "read_record",
]

USER = "user"
MANAGER = "manager"
CATEGORY_MANAGER = "category-manager"
"""The role of a contractor that manages a net of its own."""

RESULT_TEXT = 2_000
"""Characters of a result that a message holds at most."""

WasDone = Literal["no", "unknown"]
"""Whether what failed was done all the same, as far as anybody knows."""

FailureReason = Literal["error", "timeout", "deadline", "unusable", "budget"]
"""Why there is no reply to a call for proposals."""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ResultText = Annotated[str, Field(max_length=RESULT_TEXT)]

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    id: int
    """Number in the round, from 1, in the order of sending."""
    sender: str
    """``"user"``, ``"manager"`` or the id of a contractor."""
    receiver: str
    """The same."""

    # Of the sender, and what a message belongs to, in the ledger.
    _role: ClassVar[str] = "manager"
    _stage: ClassVar[str] = "bidding"
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    @property
    def role(self) -> str:
        """As whom it is sent, in the ledger.

        A contractor that announces and decides is a ``"category-manager"`` there.
        """
        if self._role == "manager" and self.sender != MANAGER:
            return CATEGORY_MANAGER
        return self._role

    @property
    def stage(self) -> str:
        """What the message belongs to, in the ledger."""
        return self._stage

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a JSON object."""
        record: dict[str, Any] = {"performative": ""}
        record |= _ADAPTER.dump_python(self, mode="json")  # type: ignore[arg-type]
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(_Message):
    """The user asks the manager for a composition."""

    _stage: ClassVar[str] = "request"
    _role: ClassVar[str] = "user"
    performative: Literal["request"] = "request"
    text: str
    """The requirement in plain language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForProposals(_Message):
    """The manager announces a task to one contractor, or a category manager to a member."""

    performative: Literal["cfp"] = "cfp"
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
    wave: int = 1
    """Of the calls of an iteration: each wave waits for the replies to the last one."""
    evidence: tuple[ApiEvidence, ...] = ()
    """What the router knows of the contractor's own APIs; no other message has any."""
    in_reply_to: int | None = None
    """Id of the call that its sender passes on to a member of its own net; None of all others."""
    for_members: bool = False
    """Whether its receiver is a category manager, which passes it on to members of its own net."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(_Message):
    """A contractor bids."""

    _role: ClassVar[str] = "contractor"
    performative: Literal["propose"] = "propose"
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

    _role: ClassVar[str] = "contractor"
    performative: Literal["refuse"] = "refuse"
    in_reply_to: int
    """Id of the call for proposals."""
    grounds: str = ""
    """Why."""
    late: bool = False
    """Whether it came after the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(_Message):
    """A contractor gave no usable reply, or did not get done what it was awarded."""

    _role: ClassVar[str] = "contractor"
    performative: Literal["failure"] = "failure"
    in_reply_to: int
    """Id of the call for proposals, or of the award."""
    reason: FailureReason | FailureKind
    """Of a call: ``"error"`` of the model or the way to it; ``"timeout"`` of this contractor;
    ``"deadline"`` of all; ``"unusable"``: an answer that is none; ``"budget"``: asking for one
    would cost more than is left. Of an award: a `FailureKind`."""
    error: str = ""
    """What went wrong, in words."""
    api: str | None = None
    """Id of the awarded API; None in reply to a call."""
    attempts: Count = 0
    """How often the API was called."""
    seconds: Seconds = 0.0
    """How long the calls took, together."""
    n_bytes: Count = 0
    """How much came back, together."""
    was_done: WasDone | None = None
    """Whether the awarded API may have done it; None in reply to a call."""

    @property
    def stage(self) -> str:
        """Bidding, or the execution of an award."""
        return "bidding" if self.api is None else "execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Award(_Message):
    """A manager accepts a proposal or a part of it, or awards without an announcement.

    In a round that is executed each award has one API, and a proposal of several APIs may get
    several awards. Without an announcement it is a directed contract (Smith 1980).
    """

    performative: Literal["accept-proposal"] = "accept-proposal"
    in_reply_to: int
    """Id of the proposal; of a directed contract, that of the request."""
    apis: tuple[str, ...]
    """Ids of the awarded APIs; if there is a proposal, all of them proposed there."""
    instead_of: int | None = None
    """Of a re-award: id of the award that failed."""
    approved: bool = False
    """Of a re-award: whether somebody has approved that it may be done a second time. Needed where
    nobody knows whether what failed was done."""

    @property
    def stage(self) -> str:
        """The selection, or for a re-award the execution."""
        return "API selection" if self.instead_of is None else "execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection(_Message):
    """A manager rejects a proposal."""

    _stage: ClassVar[str] = "API selection"
    performative: Literal["reject-proposal"] = "reject-proposal"
    in_reply_to: int
    """Id of the proposal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformResult(_Message):
    """A contractor has done what it was awarded, and tells what came of it."""

    _role: ClassVar[str] = "contractor"
    _stage: ClassVar[str] = "execution"
    performative: Literal["inform-result"] = "inform-result"
    in_reply_to: int
    """Id of the award."""
    api: str
    """Id of the awarded API."""
    text: ResultText
    """What came back, in at most `RESULT_TEXT` characters; its end says if it was cut."""
    digest: Digest
    """SHA-256 of the whole result, hexadecimal."""
    attempts: Count
    """How often the API was called; 0 where the result was known already."""
    seconds: Seconds
    """How long the calls took, together."""
    n_bytes: Count
    """How much came back, together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(_Message):
    """The manager does not want any more what it awarded."""

    _stage: ClassVar[str] = "execution"
    performative: Literal["cancel"] = "cancel"
    in_reply_to: int
    """Id of the award."""
    why: str = ""
    """In words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(_Message):
    """The manager tells the user the result."""

    _stage: ClassVar[str] = "request"
    performative: Literal["inform"] = "inform"
    in_reply_to: int
    """Id of the request."""
    apis: tuple[str, ...]
    """The recommended APIs; in a round that was executed, those that have a result."""
    results: tuple[int, ...] = ()
    """Ids of the messages with these results."""


Message = (
    Request
    | CallForProposals
    | Proposal
    | Refusal
    | Failure
    | Award
    | Rejection
    | InformResult
    | Cancel
    | Report
)

TaggedMessage = Annotated[Message, Field(discriminator="performative")]
"""The same, for pydantic."""

_ADAPTER: TypeAdapter[Message] = TypeAdapter(TaggedMessage)
PERFORMATIVES: Mapping[str, type[Any]] = {
    str(field.default): kind
    for kind in get_args(Message)
    for field in dataclasses.fields(kind)
    if field.name == "performative"
}
"""Performative to message type."""


def message_from_dict(record: Mapping[str, Any]) -> Message:
    """Read a message back, as `to_dict` of a message makes it.

    Raises
    ------
    TranscriptError
        If it is not a message, or a field is missing, unknown or of another type.

    Examples
    --------
    >>> call = CallForProposals(id=2, sender="manager", receiver="maps", request="a map")
    >>> message_from_dict(call.to_dict()) == call
    True
    """
    performative = record.get("performative")
    if not isinstance(performative, str) or performative not in PERFORMATIVES:
        known = ", ".join(PERFORMATIVES)
        raise TranscriptError(f"unknown performative {shown(performative)} (use one of {known})")
    return read_record(_ADAPTER, record, f"a {performative!r} message")


def read_record(adapter: TypeAdapter[Read], record: Mapping[str, Any], what: str) -> Read:
    """Return what a record says; a TranscriptError calls it `what`, and names the field."""
    try:
        return adapter.validate_json(json.dumps(record), strict=True)
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        tagged = "performative" in record  # in a union, the tag comes before the field
        names = [str(part) for part in error["loc"]][tagged:]
        name = names[0] if names else ""
        if error["type"] == "missing" and len(names) == 1:
            raise TranscriptError(f"{what} needs the field {name!r}") from exc
        if name not in record:
            raise TranscriptError(f"{what} cannot be read: {error['msg']}") from exc
        if error["type"] == "unexpected_keyword_argument" and len(names) == 1:
            raise TranscriptError(f"{what} has no field {name!r}") from exc
        raise TranscriptError(f"field {name!r} of {what} cannot be {shown(record[name])}") from exc
