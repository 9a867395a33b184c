"""The text of a document, JSON or YAML, as JSON values; its size is bounded."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from cnp_router.exceptions import DataFileError, MissingExtraError, shown
from cnp_router.files import value_of

__all__ = [
    "MAX_BYTES",
    "BrokenReferenceError",
    "DocumentError",
    "UnusableError",
    "parse_document",
    "strict_json",
]

MAX_BYTES = 64_000_000
"""How large a document may be."""

_MAX_VALUES = 4_000_000  # with what aliases of YAML repeat
_MAX_DEPTH = 200

_MERGE: Any = object()  # the key << where it is not quoted
_TAG = "tag:yaml.org,2002:"
_SCALARS = {None, "!", *(f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null"))}
_LITERALS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_LITERALS |= {"true": True, "True": True, "TRUE": True}
_LITERALS |= {"false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class DocumentError(Exception):
    """What is wrong with a document; whoever knows where it came from says so."""

    def __init__(self, problem: str, *, line: int | None = None, cure: str | None = None) -> None:
        self.problem = problem
        self.line = line
        self.cure = cure
        super().__init__(problem if cure is None else f"{problem} ({cure})")


class UnusableError(Exception):
    """Why one operation of a document cannot be used; the others can."""


class BrokenReferenceError(DocumentError, UnusableError):
    """A reference that cannot be followed: an operation that needs it cannot be used."""


def parse_document(data: bytes) -> dict[str, Any]:
    r"""Return the JSON object that is written there as JSON or YAML.

    YAML is read by its core schema (version 1.2): ``on`` and a date are strings. Aliases are
    counted as what they stand for, so that a small text cannot become a large document.

    Raises
    ------
    DocumentError
        If it is neither, too large or nested too deep.
    MissingExtraError
        If it is YAML, and PyYAML is not installed.

    Examples
    --------
    >>> parse_document(b"openapi: 3.1.0\ninfo: {title: Tides, version: 1.0}")["info"]
    {'title': 'Tides', 'version': 1.0}
    """
    if len(data) > MAX_BYTES:
        raise DocumentError(f"larger than {MAX_BYTES:,} bytes", cure="import a part of it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise DocumentError("not UTF-8", line=line, cure="save it as UTF-8") from exc
    if not text.strip():
        raise DocumentError("it is empty", cure="give an OpenAPI document")
    value = _json(data) if text.lstrip().startswith("{") else _Yaml().read(text)
    if not isinstance(value, dict):
        problem = f"expected an object, got {shown(value)}"
        raise DocumentError(problem, cure="give an OpenAPI document")
    return value


def strict_json(text: str) -> Any:
    """Return what JSON says; ValueError or RecursionError where it is none that UTF-8 can hold."""
    value = json.loads(text, parse_constant=_refuse)
    if "\\ud" in text or "\\uD" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _json(data: bytes) -> Any:
    try:
        return value_of(data, "document")
    except DataFileError as exc:
        raise DocumentError(exc.problem, line=exc.line, cure=exc.cure) from exc


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


@dataclass
class _Open:
    """A list or mapping that is being read."""

    value: Any
    anchor: str | None
    values_before: int
    key: str | None = None


class _Yaml:
    """Builds values from the events of YAML.

    PyYAML's own composer recurses in C, and a deep text ends the process.
    """

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._n_values = 0
        self._result: Any = None
        self._line = 0

    def read(self, text: str) -> Any:
        try:
            import yaml
        except ImportError as exc:
            purpose = "reading an OpenAPI document in YAML"
            raise MissingExtraError(purpose, package="pyyaml", extra="openapi") from exc
        # The one in C is some ten times faster.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        n_documents = 0
        try:
            for event in yaml.parse(text, Loader=loader):
                mark: Any = event.start_mark
                self._line = mark.line + 1
                n_documents += isinstance(event, yaml.DocumentStartEvent)
                if n_documents > 1:
                    raise self._error("a second document", "give one document a file")
                self._take(event, yaml)
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
            line = None if mark is None else mark.line + 1
            said = getattr(exc, "problem", None) or getattr(exc, "reason", None) or "unreadable"
            problem = f"neither JSON nor YAML: {said}"
            raise DocumentError(problem, line=line, cure="give valid JSON or YAML") from exc
        return self._result

    def _take(self, event: Any, yaml: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._count(1)
            if event.tag not in _SCALARS:
                raise self._error(f"the tag {shown(event.tag)}", "write it without tags")
            as_text = not event.implicit[0] and event.tag in (None, "!", f"{_TAG}str")
            if self._wants_key():
                is_merge = event.implicit[0] and event.value == "<<"
                value: Any = _MERGE if is_merge else event.value
            else:
                value = event.value if as_text else self._scalar(event.value)
            self._remember(event.anchor, value, 1)
            self._put(value)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._error(
                    f"the alias {shown(event.anchor)} inside of what it names, or of nothing"
                )
            value, size = self._anchors[event.anchor]
            self._count(size)
            self._put(value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
                raise self._error(f"the tag {shown(event.tag)}", "write it without tags")
            if len(self._open) >= _MAX_DEPTH:
                raise self._error(f"nested deeper than {_MAX_DEPTH}")
            if self._wants_key():
                raise self._error("a key that is a list or a mapping", "use strings as keys")
            self._count(1)
            new: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._open.append(_Open(new, event.anchor, self._n_values - 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            if isinstance(done.value, dict) and _MERGE in done.value:
                self._merge(done.value)
            self._remember(done.anchor, done.value, self._n_values - done.values_before)
            self._put(done.value)

    def _merge(self, value: dict[str, Any]) -> None:
        others = value.pop(_MERGE)
        for other in others if isinstance(others, list) else [others]:
            if not isinstance(other, dict):
                raise self._error("'<<' with something else than mappings")
            value.update({key: each for key, each in other.items() if key not in value})

    def _wants_key(self) -> bool:
        return (
            bool(self._open)
            and isinstance(self._open[-1].value, dict)
            and self._open[-1].key is None
        )

    def _put(self, value: Any) -> None:
        if not self._open:
            self._result = value
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            if not isinstance(value, str) and value is not _MERGE:
                raise self._error("a key that is not a string", "use strings as keys")
            if value in parent.value:
                name = "<<" if value is _MERGE else value
                raise self._error(f"key {shown(name)} occurs twice in one mapping")
            parent.key = value
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _remember(self, anchor: str | None, value: Any, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)

    def _count(self, size: int) -> None:
        self._n_values += size
        if self._n_values > _MAX_VALUES:
            raise self._error(
                f"more than {_MAX_VALUES:,} values, those of aliases counted each time"
            )

    def _scalar(self, text: str) -> Any:
        if text in _LITERALS:
            return _LITERALS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if math.isinf(number):
                raise self._error(f"the number {text[:20]} is too large")
            return number
        return text

    def _error(self, what: str, cure: str | None = None) -> DocumentError:
        return DocumentError(f"YAML that cannot be used: {what}", line=self._line, cure=cure)
