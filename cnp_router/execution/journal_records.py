"""The lines of a journal: how they are written and what is read of them."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt

from cnp_router.catalog import Effects
from cnp_router.sources.source import Attachment, CallFailure, CallResult, FailureKind

__all__ = [
    "FORMAT_VERSION",
    "Ended",
    "Finished",
    "Head",
    "Lost",
    "Revised",
    "Started",
    "Taken",
    "kept",
    "parse",
]

FORMAT_VERSION = 3

_MOST = 1_000_000  # characters of a text and of a structured result as JSON
_MOST_SAID = 10_000  # characters of a note, and of what a failure says
_MOST_NOTES = 100


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Head(_Line):
    """The first line."""

    record: Literal["execution"]
    format: int
    id: str
    by_router: bool
    passed_over: list[str]
    plan: dict[str, Any]


class Started(_Line):
    """A call begins."""

    record: Literal["started"]
    call: int
    job: str
    api: str
    inputs: dict[str, Any]
    key: str
    effects: Effects
    same: str


class _Failure(_Line):
    kind: FailureKind
    message: str
    was_done: Literal["no", "unknown"]


class _Attachment(_Line):
    media_type: str
    uri: str
    bytes: NonNegativeInt
    sha256: str


class _Result(_Line):
    text: str
    structured: Any
    attachments: list[_Attachment]
    failure: _Failure | None
    seconds: NonNegativeFloat
    start_seconds: NonNegativeFloat | None
    bytes: NonNegativeInt
    cut: bool
    notes: list[str]

    def call_result(self) -> CallResult:
        """Return what is known of it; attachments have no data any more."""
        line, failed = self, self.failure
        return CallResult(
            text=line.text,
            structured=line.structured,
            attachments=tuple(Attachment(a.media_type, uri=a.uri) for a in line.attachments),
            failure=CallFailure(**failed.model_dump()) if failed else None,
            seconds=line.seconds,
            start_seconds=line.start_seconds,
            n_bytes=line.bytes,
            is_cut=line.cut,
            notes=tuple(line.notes),
        )


class Finished(_Line):
    """A call is over."""

    record: Literal["finished"]
    call: int
    result: _Result


class Taken(_Line):
    """A job has a result without a call: it was known already."""

    record: Literal["taken"]
    job: str
    api: str
    inputs: dict[str, Any]
    effects: Effects
    result: _Result


class Lost(_Line):
    """A job was called without manager or coordinator."""

    record: Literal["lost"]
    job: str
    why: str


class Revised(_Line):
    """From here on another plan is followed; what is done stays done."""

    record: Literal["revised"]
    plan: dict[str, Any]


class Ended(_Line):
    """A job has ended."""

    record: Literal["job-ended"]
    job: str
    state: Literal["done", "failed", "skipped"]
    because: str | None


Line = Started | Finished | Taken | Lost | Revised | Ended

_KINDS: dict[str, type[Line]] = {
    "started": Started,
    "finished": Finished,
    "taken": Taken,
    "lost": Lost,
    "revised": Revised,
    "job-ended": Ended,
}


def parse(line: bytes) -> Line:
    """Return what a line after the first says; ValueError if it is not one of a journal."""
    record = json.loads(line.decode())
    kind = _KINDS.get(str(record.get("record"))) if isinstance(record, dict) else None
    if kind is None:
        raise ValueError("is not a line of a journal")
    return kind.model_validate(record)


def kept(result: CallResult) -> dict[str, Any]:
    """Return what is kept of a result, as a JSON object of bounded size that says what is not."""
    notes = [note[:_MOST_SAID] for note in result.notes[:_MOST_NOTES]]
    text, structured = result.text[:_MOST], result.structured
    if len(text) < len(result.text):
        notes.append(f"of {len(result.text):,} characters of text the first {_MOST:,} were kept")
    try:
        size = len(json.dumps(structured, allow_nan=False))
        trouble = f"has {size:,} characters as JSON" if size > _MOST else ""
    except (TypeError, ValueError, RecursionError):
        trouble = "cannot be written as JSON"
    if trouble:
        structured = None
        notes.append(f"the structured result was not kept: it {trouble}")
    fields = {
        **result.to_dict(),
        "text": text,
        "structured": structured,
        "cut": result.is_cut or len(notes) > len(result.notes),
        "notes": notes,
        "attachments": [
            {
                "media_type": each.media_type,
                "uri": each.uri,
                "bytes": len(each.data),
                "sha256": hashlib.sha256(each.data).hexdigest(),
            }
            for each in result.attachments
        ],
    }
    del fields["done"]
    if fields["failure"] is not None:
        fields["failure"]["message"] = fields["failure"]["message"][:_MOST_SAID]
    return fields
