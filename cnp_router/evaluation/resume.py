"""`ResumeFile`: what is measured is on disk, record by record, so that a run can be continued."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter, ValidationError

from cnp_router.catalog import Catalog
from cnp_router.evaluation.comparison import RoundResult
from cnp_router.exceptions import DataFileError
from cnp_router.history import History
from cnp_router.line_file import LineFile
from cnp_router.llm import AgentRole, ChatModel, unwrapped
from cnp_router.protocols import RoundSettings
from cnp_router.routing import Router
from cnp_router.version import __version__

__all__ = ["FORMAT_VERSION", "ResumeFile", "fingerprint"]

FORMAT_VERSION = 4

_CHANGES_NO_FIGURE = ("budget", "max_concurrency")
_NEW_FILE = "name another file, or one that does not exist"
_RECORD = TypeAdapter(RoundResult)


class _Head(BaseModel):
    record: Literal["comparison"]
    format: Any = None
    settings: dict[str, Any]


class ResumeFile:
    """A JSON Lines file that only grows: the settings first, then a line for each round.

    A line is on disk when `add` returns. The end of a line that was cut off by a kill is dropped
    when the next one is added. While it is open, nobody else can open it.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist; its folder must.
    settings : mapping of str to JSON value
        What the records depend on. A file with other settings is refused.

    Attributes
    ----------
    records : list of RoundResult
        Those that were there.

    Raises
    ------
    DataFileError
        If the file is not a resume file, belongs to other settings (it says which), is damaged, is
        being written by another comparison, or cannot be written. It is left as it is.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any]) -> None:
        self._file = LineFile(path, "comparison")
        self.path = self._file.path
        try:
            self.records = self._begin(json.loads(json.dumps(settings)))
        except BaseException:
            self._file.close()
            raise

    def add(self, record: RoundResult) -> None:
        """Append a record, and return when it is on disk; DataFileError if it cannot be."""
        self._put(_RECORD.dump_json(record))

    def __repr__(self) -> str:
        return f"ResumeFile({str(self.path)!r}, {len(self.records)} records)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _begin(self, settings: dict[str, Any]) -> list[RoundResult]:
        begin = {"record": "comparison", "format": FORMAT_VERSION, "settings": settings}
        first = json.dumps(begin).encode()
        lines, torn = self._file.lines, self._file.torn
        if lines or not first.startswith(torn):
            self._check_head(lines[0] if lines else b"", settings)
        records = [self._record(line, number) for number, line in enumerate(lines[1:], 2)]
        if not lines:
            self._put(first)
        lines.clear()
        return records

    def _record(self, line: bytes, number: int) -> RoundResult:
        try:
            return _RECORD.validate_json(line, strict=True)
        except ValidationError as exc:
            found = exc.errors(include_url=False)[0]
            where = ".".join(map(str, found["loc"])) or "the line"
            problem, cure = f"{where}: {found['msg']}", "was it altered? " + _NEW_FILE
            raise DataFileError(self.path, problem, line=number, cure=cure) from exc

    def _check_head(self, line: bytes, here: dict[str, Any]) -> None:
        try:
            head = _Head.model_validate_json(line)
        except ValidationError:
            problem = "is not the file of a comparison"
            raise DataFileError(self.path, problem, cure=_NEW_FILE) from None
        if head.format != FORMAT_VERSION:
            problem = f"written in format {head.format!r}, this version has {FORMAT_VERSION}"
            raise DataFileError(self.path, problem, cure=_NEW_FILE)
        there = head.settings
        differing = [
            f"{name} was {there.get(name)!r} and is {here.get(name)!r}"
            for name in dict.fromkeys((*there, *here))
            if there.get(name) != here.get(name)
        ]
        if differing:
            problem = f"belongs to another comparison: {'; '.join(differing)}"
            raise DataFileError(
                self.path, problem, cure="continue with the same, or name another file"
            )

    def _put(self, line: bytes) -> None:
        self._file.append(line)
        self._file.sync()


def fingerprint(
    catalog: Catalog,
    history: History,
    model: ChatModel,
    router: Router | None,
    settings: RoundSettings,
    max_size: int | None,
    *,
    dated: bool,
) -> dict[str, Any]:
    """Return all that the figures of a request depend on, besides its method, as a JSON object.

    Data are there by their digests. A budget is not among it: it ends a comparison, and changes no
    figure.
    """
    return {
        "cnp-router": __version__,
        "catalog": _digest(api.to_dict() for api in catalog),
        "history": _digest(mashup.to_dict() for mashup in history),
        "model": model.name,
        "server": _servers(model),
        "router": None if router is None else _router_digest(router),
        "max_size": max_size,
        "dated": dated,
        **{
            field.name: _plain(getattr(settings, field.name))
            for field in fields(settings)
            if field.name not in _CHANGES_NO_FIGURE
        },
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, NoneType)):
        return value
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def _servers(model: ChatModel) -> str | dict[str, str | None] | None:
    """Return the address of the server that answers; by role where there are several."""
    by_role = {role: _server(unwrapped(model, role)) for role in get_args(AgentRole)}
    one, *others = dict.fromkeys(by_role.values())
    return by_role if others else one


def _server(model: ChatModel) -> str | None:
    """Return the address of the server that answers, without credentials; None if none does."""
    server = getattr(model, "server", None)
    if not isinstance(server, str):
        return None
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _router_digest(router: Router) -> str:
    """Return what tells routers apart: kind, APIs, and for a fitted one what it learned."""
    history = getattr(router, "history", None)
    summary = getattr(router, "summary", None)
    parts: list[Any] = [type(router).__qualname__, list(router.apis)]
    if isinstance(history, History):
        parts.extend(mashup.to_dict() for mashup in history)
    if isinstance(summary, dict):
        parts.append({name: value for name, value in summary.items() if name != "fit_seconds"})
    return _digest(parts)


def _digest(records: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for record in records:
        text = json.dumps(record, sort_keys=True, ensure_ascii=True, default=str)
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()[:16]
