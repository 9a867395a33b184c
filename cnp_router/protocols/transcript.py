"""`Transcript`: all that was said in a round, written and read back."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from cnp_router.catalog import ROWS_SHOWN, html_table
from cnp_router.exceptions import DataFileError, TranscriptError
from cnp_router.files import read_jsonl, write_jsonl
from cnp_router.protocols.ledger import Ledger, ModelCall
from cnp_router.protocols.messages import (
    Failure,
    Message,
    TaggedMessage,
    message_from_dict,
    read_record,
)
from cnp_router.protocols.settings import EvidenceFor

__all__ = ["FORMAT_VERSION", "Transcript"]

FORMAT_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The first record of a transcript. All but the last two fields are in its digest."""

    request: str
    protocol: str
    announcement: str
    model: str
    categories: tuple[str, ...] | None
    candidates: tuple[str, ...] | None
    evidence: EvidenceFor
    executed: bool
    seconds: Annotated[float, Field(ge=0)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)


_HEAD = TypeAdapter(_Head)
_CALL = TypeAdapter(ModelCall)
_CALLS = TypeAdapter(tuple[ModelCall, ...])
_MESSAGES = TypeAdapter(tuple[TaggedMessage, ...])


@dataclass(frozen=True, repr=False)
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
        After category mapping; None where the protocol has no such step.
    candidates : tuple of str or None
        API ids after the matching of a single agent, which sends no proposals; None elsewhere.
    seconds : float, seconds
        Of wall time.
    evidence : {"none", "manager", "everyone"}, default="none"
        Who saw what the router knows of the APIs, in a routed announcement.
    executed : bool, default=False
        Whether what was awarded was then done (`ContractNet.run` with an actor).
    digest : str, optional
        SHA-256 of all of it but `seconds`; by default computed. `validate` compares it, so that
        a change of any field is noticed. It is not a signature: who changes the digest too is not
        found out.

    Examples
    --------
    >>> from cnp_router.protocols.messages import Report, Request
    >>> transcript = Transcript("a map", "single-agent", "broadcast", "tiny", (
    ...     Request(id=1, sender="user", receiver="manager", text="a map"),
    ...     Report(id=2, sender="manager", receiver="user", in_reply_to=1, apis=("maps",))))
    >>> [message.performative for message in transcript.messages], transcript
    (['request', 'inform'], Transcript(single-agent, broadcast: 2 messages, 0 model calls))
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
    evidence: EvidenceFor = "none"
    executed: bool = False
    digest: str = ""

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", self.computed_digest())

    @cached_property
    def ledger(self) -> Ledger:
        """What the round has cost."""
        return Ledger.of(self.messages, self.calls, seconds=self.seconds)

    @property
    def failure(self) -> str | None:
        """Why nothing came of the round, if every call for proposals failed, or every award.

        None otherwise.
        """
        said = self.ledger.messages
        failures = [m for m in self.messages if isinstance(m, Failure)]
        for what, of_awards, n in (
            ("call for proposals", False, said.get("cfp", 0)),
            ("award", True, said.get("accept-proposal", 0) if self.executed else 0),
        ):
            own = [each for each in failures if (each.api is not None) == of_awards]
            if own and len(own) == n:
                kinds = Counter(each.reason for each in own)
                counts = ", ".join(f"{count} by {name}" for name, count in kinds.items())
                first = next((each.error for each in own if each.error), "no reason is given")
                return f"every {what} failed ({counts}), the first with: {first}"
        return None

    def computed_digest(self) -> str:
        """Return the SHA-256 of all that the transcript says now, but for the wall time."""
        digest = hashlib.sha256(json.dumps(self._head()).encode())
        digest.update(_MESSAGES.dump_json(self.messages))
        digest.update(_CALLS.dump_json(self.calls))
        return digest.hexdigest()

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the transcript as JSON objects: the round, its messages, its model calls."""
        yield {**self._head(), "seconds": round(self.seconds, 6), "digest": self.digest}
        for message in self.messages:
            yield {"record": "message", **message.to_dict()}
        for call in self.calls:
            yield {"record": "call", **call.to_dict()}

    def _head(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in _Head.__slots__[:-2]}
        return {"record": "round", "format": FORMAT_VERSION, **said}

    def write(self, path: str | Path) -> None:
        """Write the transcript as JSON Lines, atomically; a DataFileError if it cannot be."""
        write_jsonl(path, self.records())

    @classmethod
    def read(cls, path: str | Path) -> Transcript:
        """Read a transcript, as `write` makes it. Whether it was altered, `validate` says.

        Raises
        ------
        DataFileError
            If it cannot be read or is not a transcript; with the line.
        """
        head: _Head | None = None
        messages: list[Message] = []
        calls: list[ModelCall] = []
        for line, record in read_jsonl(path):
            kind = record.pop("record", None)
            try:
                if (kind == "round") != (head is None):
                    raise TranscriptError("the first record, and no other, must be the round")
                if kind == "round":
                    version = record.pop("format", None)
                    if version != FORMAT_VERSION:
                        raise TranscriptError(
                            f"format {version!r}, and this version reads {FORMAT_VERSION}"
                        )
                    head = read_record(_HEAD, record, "a round")
                elif kind == "message":
                    messages.append(message_from_dict(record))
                elif kind == "call":
                    calls.append(read_record(_CALL, record, "a call"))
                else:
                    raise TranscriptError(f"unknown record {kind!r} (round, message or call)")
            except TranscriptError as exc:
                raise DataFileError(path, str(exc), line=line, cure="was it altered?") from exc
        if head is None:
            raise DataFileError(path, "no transcript", cure="name a file that was written as one")
        fields = {name: getattr(head, name) for name in _Head.__slots__}
        return cls(**fields, messages=tuple(messages), calls=tuple(calls))

    def __repr__(self) -> str:
        calls = sum(call.calls for call in self.calls)
        return (
            f"Transcript({self.protocol}, {self.announcement}: {len(self.messages):,} messages, "
            f"{calls:,} model calls)"
        )

    def _repr_html_(self) -> str:
        head = ("", "message", "from", "to", "content")
        rows = [
            (m.id, m.performative, m.sender, m.receiver, _content(m))
            for m in self.messages[:ROWS_SHOWN]
        ]
        return html_table(f"{self!r}: {self.request}", head, rows, len(self.messages))


_SAID = ("api", "text", "request", "function", "category", "grounds", "error", "why")


def _content(message: Message) -> str:
    """Return what a message says, for a person."""
    said = message.to_dict()
    names = [
        f"{api['api']}: {api['grounds']}" if isinstance(api, dict) else api
        for api in said.get("apis", ())
    ]
    texts = [said.get(key) for key in _SAID]
    return ", ".join([*names, *(text for text in texts if text)])
