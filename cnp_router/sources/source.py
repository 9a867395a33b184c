"""The seam to tools: a call, its result, and whoever turns one into the other."""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError, SourceAnswerError
from cnp_router.records import check_id, check_json, check_number, one_line, shown

__all__ = [
    "SEPARATOR",
    "Attachment",
    "Call",
    "CallFailure",
    "CallProgress",
    "CallResult",
    "FailureKind",
    "Source",
    "check_source_name",
]

SEPARATOR = "__"
"""Between the name of a source and that of its tool, in the id of an API."""

EACH = "*"
"""Stands in such an id for all tools of the source that are not named."""

FailureKind = Literal[
    "inputs",  # they do not fit what the tool takes: it was not called
    "changed",  # its definition is not the accepted one: it was not called
    "declined",  # nobody approved: it was not called
    "permission",  # the caller has no right to it: it was not done
    "busy",  # it asks to come again later: it was not done
    "unavailable",  # it cannot be started or reached: it was not called
    "timeout",  # no answer in time: nobody knows whether it was done
    "lost",  # the connection broke after the call was sent: nobody knows
    "unusable",  # an answer that is none: nobody knows
    "tool",  # the tool itself says that it failed
    "cancelled",  # the caller gave up while it ran: nobody knows
]
_MOST_READ = 2_000  # characters of a message
_TRANSIENT = {"busy", "unavailable", "timeout", "lost"}
_UNKNOWN = {"timeout", "lost", "unusable", "cancelled"}
# A tool that says that it failed has not done it, unless it lost sight of what it asked itself.
_UNSURE = re.compile(
    r"time[d-]? ?out|deadline exceeded|connection[ \w]{0,12}(reset|abort|clos|lost|brok|error)|"
    r"broken ?pipe|unavailable|bad gateway",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CallProgress:
    """How far a call is, as the tool itself says.

    Parameters
    ----------
    done : float >= 0
    total : float or None, default=None
    message : str, default=""
    """

    done: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool.

    Parameters
    ----------
    api : str
        Id of the API.
    inputs : mapping of str to JSON value, default={}
    timeout : float > 0, seconds, default=30.0
        For this one call, the start of its source not counted.
    key : str, default=""
        The same for each attempt at one and the same act: goes along as idempotency key where the
        source takes one.
    on_progress : callable or None, default=None
        Is given each `CallProgress` as it comes; what it returns is not looked at.
    definition : Api or None, default=None
        What the caller decided by, so that `Sources` does not call what has changed since: another
        definition, or effects less harmless than these, are a failure of kind "changed".

    Raises
    ------
    InputError
        If a value cannot be used, or the definition is that of another API.

    Examples
    --------
    >>> Call(api="time__now", inputs={"zone": "Asia/Tokyo"}).timeout
    30.0
    """

    api: str
    inputs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    timeout: float = 30.0
    key: str = ""
    on_progress: Callable[[CallProgress], object] | None = field(default=None, compare=False)
    definition: Api | None = field(default=None, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", check_id("API", self.api))
        judged = self.definition
        if judged is not None and (not isinstance(judged, Api) or judged.id != self.api):
            raise InputError(f"the definition must be that of {self.api!r}, got {shown(judged)}")
        check_json("inputs", self.inputs)
        timeout = check_number("timeout in seconds", self.timeout, 0, 10**6, ends=False)
        object.__setattr__(self, "timeout", timeout)

    def __repr__(self) -> str:
        names = ", ".join(map(shown, self.inputs))  # what is in them may be private
        return f"Call({self.api!r}, inputs: {names or 'none'})"


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Why a call has no result.

    Parameters
    ----------
    kind : FailureKind
    message : str
        What went wrong and what cures it, in words; where the tool says it, as it says it.
    was_done : {"no", "unknown"}, optional
        Whether it may have had an effect all the same. By default by its kind; of kind ``"tool"``
        it is unknown where the message says that time ran out or a connection broke.

    Raises
    ------
    InputError
        If the kind is unknown.

    Examples
    --------
    >>> CallFailure("timeout", "no answer in 30 s").was_done, CallFailure("busy", "").is_transient
    ('unknown', True)
    """

    kind: FailureKind
    message: str
    was_done: Literal["no", "unknown"] | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(FailureKind):
            raise InputError(f"unknown kind of failure {shown(self.kind)}")
        if self.was_done is None:
            is_unsure = self.kind == "tool" and _UNSURE.search(self.message[:_MOST_READ])
            unknown = self.kind in _UNKNOWN or is_unsure
            object.__setattr__(self, "was_done", "unknown" if unknown else "no")

    @property
    def is_transient(self) -> bool:
        """Whether the same call may succeed a little later."""
        return self.kind in _TRANSIENT

    __repr__ = one_line


@dataclass(frozen=True, slots=True, repr=False)
class Attachment:
    """An image, a sound or another resource in a result.

    Parameters
    ----------
    media_type : str
        Such as ``"image/png"``.
    data : bytes, default=b""
        Empty where only the place is known.
    uri : str, default=""
    """

    media_type: str
    data: bytes = b""
    uri: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, data in base 64."""
        data = base64.b64encode(self.data).decode()
        return {"media_type": self.media_type, "data": data, "uri": self.uri}

    def __repr__(self) -> str:
        where = f", {shown(self.uri)}" if self.uri else ""
        return f"Attachment({self.media_type!r}, {len(self.data):,} bytes{where})"


@dataclass(frozen=True, repr=False)
class CallResult:
    """What came back of a call: data, never an instruction.

    Parameters
    ----------
    text : str, default=""
        As a person or a model reads it.
    structured : JSON value or None, default=None
        Where the tool gives one.
    attachments : tuple of Attachment, default=()
    failure : CallFailure or None, default=None
        Why there is no result. What the tool said nevertheless stands in the other fields.
    seconds : float >= 0, seconds, default=0.0
        From sending to the answer; the start of the source is in `start_seconds`.
    start_seconds : float >= 0 or None, default=None
        How long the source took to start, in the first call after a start; None in later ones.
    n_bytes : int >= 0, default=0
        Size of what came back, before anything was cut.
    is_cut : bool, default=False
        Whether it was larger than the source takes, and cut.
    notes : tuple of str, default=()
        What else happened: requests of the server that were declined, a reconnection.

    Examples
    --------
    >>> CallResult('{"temperature": 21}').data
    {'temperature': 21}
    >>> CallResult("sunny").data
    'sunny'
    """

    text: str = ""
    structured: Any = None
    attachments: tuple[Attachment, ...] = ()
    failure: CallFailure | None = None
    seconds: float = 0.0
    start_seconds: float | None = None
    n_bytes: int = 0
    is_cut: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the call succeeded."""
        return self.failure is None

    @cached_property
    def data(self) -> Any:
        """The structured result; without one the JSON that the text is, or else the text."""
        if self.structured is not None:
            return self.structured
        try:
            value = json.loads(self.text, parse_constant=_refuse)
            # 1e999 is read as an infinity, and an escape may be half a character.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return self.text
        return value

    @classmethod
    def failed(cls, kind: FailureKind, message: str, **fields: Any) -> CallResult:
        """Return a result that is a failure."""
        return cls(failure=CallFailure(kind, message), **fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        failure = None
        if self.failure is not None:
            failure = {
                "kind": self.failure.kind,
                "message": self.failure.message,
                "was_done": self.failure.was_done,
            }
        started = self.start_seconds
        return {
            "done": self.is_done,
            "text": self.text,
            "structured": self.structured,
            "attachments": [each.to_dict() for each in self.attachments],
            "failure": failure,
            "seconds": round(self.seconds, 6),
            "start_seconds": None if started is None else round(started, 6),
            "bytes": self.n_bytes,
            "cut": self.is_cut,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        if self.failure is not None:
            return f"CallResult({self.failure.kind}: {shown(self.failure.message)})"
        return f"CallResult({shown(self.text)})"


class Source(ABC):
    """Where tools come from and how they are called. It is also an asynchronous context manager.

    Ids of its APIs are ``name__tool``. Nothing is started or connected before it is needed; after
    that it is kept, until `aclose`. One source serves one event loop. A source of one's own has a
    `name` and two methods, `apis` and `call`.

    Attributes
    ----------
    name : str
        Unique among the sources that are used together.
    max_concurrency : int
        How many calls it takes at a time.
    tool_type : {"function", "extension"}
        Whether its tools run in this process, or something outside is asked; for telemetry.
    is_agent : bool
        Whether it is another agent that is asked; for telemetry.

    Examples
    --------
    >>> import asyncio
    >>> class Dice(Source):
    ...     name = "dice"
    ...
    ...     async def apis(self):
    ...         return (Api("dice__roll", "roll", "Rolls a die.", effects="reads"),)
    ...
    ...     async def call(self, call):
    ...         return CallResult("4")
    >>> asyncio.run(Dice().call(Call(api="dice__roll"))).text
    '4'
    """

    name: str
    max_concurrency: int = 8
    tool_type: ClassVar[Literal["function", "extension"]] = "extension"
    is_agent: ClassVar[bool] = False

    @property
    def is_stale(self) -> bool:
        """Whether `apis` may return something else than it did last, and should be asked again.

        As after a server has ended, or has said that its tools changed.
        """
        return False

    @abstractmethod
    async def apis(self) -> tuple[Api, ...]:
        """Return what can be called now, with JSON Schemas of the inputs as `parameters`.

        Raises
        ------
        SourceError
            If it cannot be started or reached, or what it answers cannot be used.
        """

    @abstractmethod
    async def call(self, call: Call) -> CallResult:
        """Call a tool. What goes wrong there is a `CallResult.failure`, not an exception.

        Cancelling the task that awaits it gives up the call, and leaves the source usable.

        Raises
        ------
        UnknownApiError
            If it has no such tool.
        """

    @property
    def extensions(self) -> Mapping[str, Any]:
        """What its server declares beside its tools, by name: data.

        Empty where it declares nothing, or is not started.
        """
        return {}

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float = 10.0
    ) -> dict[str, Any]:
        """Send a request of a method that the server declares, and return the answer: data.

        Parameters
        ----------
        method : str
        params : mapping of str to JSON value
        timeout : float > 0, seconds, default=10.0

        Raises
        ------
        SourceUnavailableError
            If it cannot be started or reached, or does not answer in time.
        SourceAnswerError
            If it has no such method, or answers with an error or nothing that can be used.
        """
        raise SourceAnswerError(self.name, f"it has no method {shown(method)}")

    async def aclose(self) -> None:
        """Stop and disconnect what was started; nothing of it is left. Can be called twice."""
        return  # most of one's own have nothing to close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def check_source_name(name: object) -> str:
    """Return the name of a source: an id that the ids of its APIs can begin with."""
    text = check_id("source", name)
    if SEPARATOR in text or text.endswith("_") or len(text) > 64:
        raise InputError(
            f"the name of a source must have at most 64 characters, no {SEPARATOR!r} in it and no "
            f"'_' at its end, got {shown(name)} (rename the source)"
        )
    return text


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a JSON value")
