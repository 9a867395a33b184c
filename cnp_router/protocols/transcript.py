"""The transcript of a round: written, read back, and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from cnp_router.exceptions import DataFileError, TranscriptError
from cnp_router.files import read_jsonl, write_jsonl
from cnp_router.protocols.ledger import Ledger, ModelCall, Stage
from cnp_router.protocols.messages import Message, message_from_dict

__all__ = ["FORMAT_VERSION", "Transcript"]

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Transcript:
    """All that was said in a round, and what models were asked for it.

    Parameters
    ----------
    request : str
    protocol, announcement, model : str
    messages : tuple of Message
        In the order of sending.
    calls : tuple of ModelCall
        In the order of answers.
    categories : tuple of str or None
        After step 2; None where the protocol has no such step.
    candidates : tuple of str or None
        API ids after step 3 of a single agent, which sends no proposals; None elsewhere.
    seconds : float, seconds
        Of wall time.

    Examples
    --------
    >>> from cnp_router.protocols.messages import Report, Request
    >>> transcript = Transcript("a map", "single-agent", "broadcast", "tiny", (
    ...     Request(id=1, sender="user", receiver="manager", text="a map"),
    ...     Report(id=2, sender="manager", receiver="user", in_reply_to=1, apis=("maps",))))
    >>> [message.performative for message in transcript.messages], transcript.ledger.n_messages
    (['request', 'inform'], 2)
    """

    request: str
    protocol: str
    announcement: str
    model: str
    messages: tuple[Message, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    categories: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None
    seconds: float = field(default=0.0, compare=False)

    @cached_property
    def ledger(self) -> Ledger:
        """What the round has cost."""
        return Ledger.of(self.messages, self.calls, seconds=self.seconds)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the transcript as JSON objects: the round, its messages, its model calls."""
        yield {
            "record": "round",
            "format": FORMAT_VERSION,
            "request": self.request,
            "protocol": self.protocol,
            "announcement": self.announcement,
            "model": self.model,
            "categories": None if self.categories is None else list(self.categories),
            "candidates": None if self.candidates is None else list(self.candidates),
            "seconds": round(self.seconds, 6),
        }
        for message in self.messages:
            yield {"record": "message", **message.to_dict()}
        for call in self.calls:
            yield {"record": "call", **call.to_dict()}

    def write(self, path: str | Path) -> None:
        """Write the transcript as JSON Lines, atomically.

        Raises
        ------
        DataFileError
            If the place cannot be written.
        """
        write_jsonl(path, self.records())

    @classmethod
    def read(cls, path: str | Path) -> Transcript:
        """Read a transcript, as `write` makes it.

        Raises
        ------
        DataFileError
            If it cannot be read or is none; with the line.
        """
        head: dict[str, Any] | None = None
        messages: list[Message] = []
        calls: list[ModelCall] = []
        for line, record in read_jsonl(path):
            kind = record.pop("record", None)
            try:
                if (kind == "round") != (head is None):
                    raise TranscriptError("the first record, and no other, must be the round")
                if kind == "round":
                    head = _head(record)
                elif kind == "message":
                    messages.append(message_from_dict(record))
                elif kind == "call":
                    calls.append(_call(record))
                else:
                    raise TranscriptError(f"unknown record {kind!r} (round, message or call)")
            except TranscriptError as exc:
                raise DataFileError(path, str(exc), line=line, cure="was it altered?") from exc
        if head is None:
            raise DataFileError(path, "no transcript", cure="name a file that was written as one")
        return cls(**head, messages=tuple(messages), calls=tuple(calls))


def _head(record: Mapping[str, Any]) -> dict[str, Any]:
    if record.get("format") != FORMAT_VERSION:
        raise TranscriptError(
            f"format {record.get('format')!r}, and this version reads {FORMAT_VERSION}"
        )
    texts = {name: record.get(name) for name in ("request", "protocol", "announcement", "model")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise TranscriptError(f"field {name!r} of a round must be a string, got {value!r}")
    lists = {name: record.get(name) for name in ("categories", "candidates")}
    for name, value in lists.items():
        if value is not None and not _are_strings(value):
            raise TranscriptError(f"{name} must be a list of strings, got {value!r}")
    seconds = record.get("seconds", 0.0)
    if not _is_number(seconds):
        raise TranscriptError(f"seconds must be a number, got {seconds!r}")
    return {
        **texts,
        **{name: None if value is None else tuple(value) for name, value in lists.items()},
        "seconds": float(seconds),
    }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_CALL_FIELDS: Mapping[str, Any] = {
    "agent": lambda v: isinstance(v, str),
    "role": lambda v: v in ("manager", "contractor", "single-agent"),
    "stage": lambda v: v in get_args(Stage),
    "steps": lambda v: isinstance(v, list) and all(_is_count(step) for step in v),
    "tokens_in": _is_count,
    "tokens_out": _is_count,
    "tokens_are": lambda v: v in ("server", "estimated"),
    "seconds": _is_number,
    "calls": _is_count,
    "cached": lambda v: isinstance(v, bool),
    "cfp": lambda v: v is None or _is_count(v),
    "hallucinated": _are_strings,
}


def _call(record: Mapping[str, Any]) -> ModelCall:
    if set(record) != set(_CALL_FIELDS):
        raise TranscriptError(f"a call has the fields {', '.join(_CALL_FIELDS)}")
    for name, check in _CALL_FIELDS.items():
        if not check(record[name]):
            raise TranscriptError(f"field {name!r} of a call cannot be {json.dumps(record[name])}")
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
    }
    return ModelCall(**fields)
