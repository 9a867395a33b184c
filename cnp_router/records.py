"""Checks on single records: typed access to the fields of one, with errors that say where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from cnp_router.exceptions import DataFileError, InputError

__all__ = ["Record", "check_id", "string_tuple"]

_REQUIRED: Any = object()
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Record:
    """One JSON object of a data file.

    Parameters
    ----------
    fields : mapping
        The decoded object.
    path : str or Path
        Where it came from, for error messages.
    line : int or None
        1-based line number, or None where the file has no lines to speak of.
    entry : int, optional
        1-based place in the file's list of records, to name it by where there is no line.

    Examples
    --------
    >>> Record({"id": 7}, "apis.jsonl", 3).text("id")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.DataFileError: apis.jsonl, line 3: field 'id' must be a string, got 7
    """

    def __init__(
        self,
        fields: Mapping[str, Any],
        path: str | Path,
        line: int | None,
        *,
        entry: int | None = None,
    ) -> None:
        self._fields = fields
        self._path = path
        self._line = line
        self._entry = entry

    def error(self, problem: str, cure: str | None = None) -> DataFileError:
        """Return (not raise) the error of this record."""
        if self._entry is not None:
            problem = f"entry {self._entry}: {problem}"
        return DataFileError(self._path, problem, line=self._line, cure=cure)

    def text(self, key: str, default: str = _REQUIRED) -> str:
        """Return a string field; a null or missing one is the default, if there is one."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.error(f"field {key!r} must be a string, got {_shown(value)}")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string field, or None where it is missing or null."""
        return None if self._fields.get(key) is None else self.text(key)

    def identifier(self, key: str) -> str:
        """Return a non-blank string field."""
        value = self.text(key)
        if not value.strip():
            raise self.error(f"field {key!r} must not be blank, got {value!r}")
        return value

    def strings(self, key: str, default: tuple[str, ...] = _REQUIRED) -> tuple[str, ...]:
        """Return a field that is a list of strings, as a tuple."""
        value = self._get(key, default)
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise self.error(f"field {key!r} must be a list of strings, got {_shown(value)}")
        return tuple(value)

    def mapping(self, key: str) -> dict[str, Any] | None:
        """Return an optional object field."""
        value = self._get(key, None)
        if value is not None and not isinstance(value, dict):
            raise self.error(f"field {key!r} must be an object, got {_shown(value)}")
        return value

    def flag(self, key: str) -> bool:
        """Return an optional boolean field, false by default."""
        value = self._get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"field {key!r} must be true or false, got {_shown(value)}")
        return value

    def day(self, key: str) -> date | None:
        """Return an optional ``YYYY-MM-DD`` field."""
        value = self._get(key, None)
        if value is None:
            return None
        # date.fromisoformat alone would take "20240131" and "2024-W05-3" as well.
        problem = f"field {key!r} must be YYYY-MM-DD, got {_shown(value)}"
        if not isinstance(value, str) or not _DAY.fullmatch(value):
            raise self.error(problem)
        try:
            return date.fromisoformat(value)
        except ValueError as exc:
            raise self.error(problem) from exc

    def _get(self, key: str, default: Any) -> Any:
        value = self._fields.get(key)
        if value is not None:
            return value
        if default is _REQUIRED and key in self._fields:
            raise self.error(f"field {key!r} is null", cure="give it a value")
        if default is _REQUIRED:
            raise self.error(f"missing field {key!r}", cure=f"it has {_keys(self._fields)}")
        return default


def check_id(kind: str, value: object) -> None:
    """Raise InputError unless `value` is a non-blank string.

    Examples
    --------
    >>> check_id("API", " ")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.InputError: an id must be a non-blank string, got ' ' (API)
    """
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"an id must be a non-blank string, got {_shown(value)} ({kind})")


def string_tuple(name: str, value: Iterable[str]) -> tuple[str, ...]:
    """Return `value` as a tuple, unless it is one bare string: its letters are never meant.

    Examples
    --------
    >>> string_tuple("apis", ["sms", "maps"])
    ('sms', 'maps')
    >>> string_tuple("apis", "sms")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.InputError: apis must be several strings, got 'sms' (write ('sms',))
    """
    if isinstance(value, str):
        raise InputError(f"{name} must be several strings, got {value!r} (write ({value!r},))")
    return tuple(value)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _keys(fields: Mapping[str, Any]) -> str:
    return ", ".join(repr(key) for key in list(fields)[:6]) or "no fields"
