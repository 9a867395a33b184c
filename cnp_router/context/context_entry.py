"""`ContextEntry`: something that a call gave, as long as it may be relied on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cnp_router.catalog import DataClass
from cnp_router.context.data_classes import check_class, contractor_of
from cnp_router.exceptions import InputError
from cnp_router.files import JSON_VALUES, reason
from cnp_router.records import Record, check_flag, check_id, check_number, check_text, string_tuple
from cnp_router.sources.source import CallResult

__all__ = ["LONGEST", "SHORTEST", "TTL", "ContextEntry", "Vector"]

TTL, SHORTEST, LONGEST = 300.0, 60.0, 600.0
"""For how many seconds an entry holds: by default, at least and at most."""

Vector: TypeAlias = tuple[float, ...] | Mapping[str, float]
"""Of a text: dense numbers, or weights by term."""

_KEYS = {"data_class": "class"}  # in JSON, where this is no keyword


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ContextEntry:
    """Something that a call gave: data, never an instruction.

    Parameters
    ----------
    id : str
    source : str
        The API that gave it.
    data : JSON value
    said : str, default=""
        The text of the result, where it is not the data itself.
    structured : bool, default=False
        Whether the data was given beside the text, not as the text.
    text : str, default=""
        What it is about: what similarity is judged by. Nothing of the data stands in it.
    vector : tuple of float, mapping of str to float, or None, default=None
        Of the text: dense, or weights by term. None for what is never offered.
    time : float, seconds since 1970
        When it was given.
    ttl : float, 60 to 600 seconds, default=300.0
        How long it may be relied on.
    data_class : {"public", "private", "confidential"}, default="private"
        In JSON its key is ``"class"``.
    dependencies : tuple of str, default=()
        Ids of the entries that it was made from.
    reads : bool, default=False
        Whether the call changed nothing. Only then the same call gives it again.
    as_of : str, default=""
        Which write of its contractor came last before it was asked.
    user, execution : str, default=""
        Whose it is, and from which execution, so that it can be erased.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> entry = ContextEntry(id="ctx_1", source="weather__today", data={"rain": 0.4}, time=1000.0)
    >>> entry.is_live(1299.9), entry.is_live(1300.0), entry.result.data
    (True, False, {'rain': 0.4})
    """

    id: str
    source: str
    data: Any
    said: str = ""
    structured: bool = False
    text: str = ""
    vector: Vector | None = field(default=None, hash=False)
    time: float
    ttl: float = TTL
    data_class: DataClass = "private"
    dependencies: tuple[str, ...] = ()
    reads: bool = False
    as_of: str = ""
    user: str = ""
    execution: str = ""

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        keep("id", check_id("context", self.id))
        keep("source", check_id("API", self.source))
        for name in ("said", "text", "as_of", "user", "execution"):
            check_text(name, getattr(self, name))
        try:
            json.dumps(self.data, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as exc:
            said = ascii(reason(exc))[1:-1]
            raise InputError(f"data cannot be written as JSON: {said} ({JSON_VALUES})") from None
        keep("vector", _vector(self.vector))
        keep("time", check_number("time in seconds", self.time, 0, 10**12))
        keep("ttl", check_number("ttl in seconds", self.ttl, SHORTEST, LONGEST))
        check_class("class", self.data_class)
        keep("dependencies", string_tuple("dependencies", self.dependencies))
        for each in self.dependencies:
            check_id("context", each)
        if self.id in self.dependencies:
            raise InputError(f"entry {self.id!r} cannot depend on itself (leave it out)")
        check_flag("reads", self.reads)
        check_flag("structured", self.structured)

    @property
    def contractor(self) -> str:
        """The source of the API that gave it."""
        return contractor_of(self.source)

    @property
    def expires(self) -> float:
        """Seconds since 1970 until which it may be relied on."""
        return self.time + self.ttl

    @property
    def result(self) -> CallResult:
        """What the call gave."""
        if self.structured:
            return CallResult(self.said, self.data)
        if isinstance(self.data, str):
            return CallResult(self.said or self.data)
        plain = CallResult(self.said)
        if self.said and plain.data == self.data:
            return plain
        return CallResult(self.said or json.dumps(self.data, ensure_ascii=False), self.data)

    def is_live(self, now: float) -> bool:
        """Whether it may be relied on at a time."""
        return now < self.expires

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        vector = self.vector
        return {
            "id": self.id,
            "source": self.source,
            "data": self.data,
            "said": self.said,
            "structured": self.structured,
            "text": self.text,
            "vector": dict(vector) if isinstance(vector, Mapping) else vector and list(vector),
            "time": self.time,
            "ttl": self.ttl,
            "class": self.data_class,
            "dependencies": list(self.dependencies),
            "reads": self.reads,
            "as_of": self.as_of,
            "user": self.user,
            "execution": self.execution,
        }

    def to_json(self) -> bytes:
        """Return it as stores keep it."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False).encode()

    @classmethod
    def from_json(cls, content: bytes | str, where: str) -> ContextEntry:
        """Return what a store has kept; InputError, naming where it stands, if it is none."""
        try:
            fields = json.loads(content)
        except (ValueError, RecursionError) as exc:
            raise InputError(f"{where}: an entry is not JSON: {reason(exc)}") from None
        names = {_KEYS.get(name, name) for name in cls.__dataclass_fields__}
        if not isinstance(fields, dict) or {*fields, "structured"} != names:  # older ones lack it
            raise InputError(f"{where}: an entry has not the fields of one")
        fields["data_class"] = fields.pop("class")
        record = Record({**fields, "data": 0}, where, None)
        made = record.make(cls)
        object.__setattr__(made, "data", fields["data"])  # which may be null
        return made

    def __repr__(self) -> str:  # the data may be what no log should hold
        return f"ContextEntry({self.id!r}, {self.source!r}, {self.data_class})"


def _vector(value: Any) -> Vector | None:
    """Return a vector of finite numbers, checked."""
    if value is None:
        return None
    numbers = value.values() if isinstance(value, Mapping) else value
    try:
        sound = all(math.isfinite(number) for number in numbers)
    except TypeError:
        sound = False
    if not sound or isinstance(value, str):
        raise InputError("a vector must be finite numbers, or finite weights by term")
    if isinstance(value, Mapping):
        return {check_text("a term", term): float(weight) for term, weight in value.items()}
    return tuple(map(float, value))
