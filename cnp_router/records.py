"""Checks on what callers and files give: each returns the value to keep, or says what is wrong.

Constructors and readers of files use the same ones, so that what was accepted once can be saved,
and what was saved can be read.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cnp_router.closest import closest
from cnp_router.data_files import data_files, is_parquet, pass_over, read_parquet
from cnp_router.exceptions import DataFileError, EmptyFileError, InputError, shown
from cnp_router.files import JSON_VALUES, read_jsonl, reason

__all__ = [
    "RESERVED_IDS",
    "Record",
    "check_date",
    "check_flag",
    "check_id",
    "check_instance",
    "check_json",
    "check_number",
    "check_request",
    "check_text",
    "check_user",
    "instances",
    "json_object",
    "one_line",
    "parse_date",
    "positions",
    "read_records",
    "shown",
    "string_tuple",
]

RESERVED_IDS = ("manager", "user")
"""Who else speaks in a round: no API and no contractor may be called so."""

T = TypeVar("T")
_REQUIRED: Any = object()
_LINE_BITS = 40  # a place is one number, of which there may be millions: file and line
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Printable by Unicode's categories, and yet nothing is seen.
_BLANKS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def check_id(kind: str, value: object) -> str:
    """Return an id in Unicode's normal form C, so that one typed and one read are the same.

    It is not blank, and has no space at either end and no control or invisible character (nor
    another space than the usual one). Those of the kinds ``"API"`` and ``"contractor"`` cannot be
    in `RESERVED_IDS`.
    """
    if not isinstance(value, str) or not value.strip():
        cure = ", write it as text" if type(value) is int else ""
        raise InputError(f"an id must be a non-blank string, got {shown(value)} ({kind}{cure})")
    name = value if value.isascii() else unicodedata.normalize("NFC", value)
    if name != name.strip():
        problem = f"an id must not begin or end with a space, got {shown(value)}"
    elif not name.isprintable() or _BLANKS.search(name):
        problem = f"an id must not hold control or invisible characters, got {ascii(value)[:60]}"
    elif name in RESERVED_IDS and kind in ("API", "contractor"):
        problem = f"the id {name!r} is reserved for a role in rounds"
    else:
        return name
    raise InputError(f"{problem} ({kind})")


def check_text(name: str, value: object, *, any_: bool = False) -> str:
    """Return a string that UTF-8 can hold (one without halves of surrogate pairs), or any."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, got {shown(value)}")
    if not any_ and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise InputError(
                f"{name} holds half of a surrogate pair, {value[exc.start]!a} "
                "(replace it; UTF-8 cannot hold it)"
            ) from None
    return value


def check_user(value: object) -> str:
    """Return the name of a user."""
    name = check_text("user", value)
    if not name.strip():
        raise InputError(f"user must be a name, got {shown(value)}")
    return name


def check_request(value: object) -> str:
    """Return a request, which is a string that says something."""
    if not isinstance(value, str):
        raise InputError(f"a request must be a string, got {shown(value)}")
    if not value.strip():
        raise InputError(f"a request must not be blank, got {shown(value)} (say what is needed)")
    return value


def string_tuple(name: str, value: Iterable[str]) -> tuple[str, ...]:
    """Return several strings as a tuple. One bare string is refused: nobody means its letters."""
    each = _each(value, str, bytes, Mapping)
    if each is None:
        cure = ""
        if isinstance(value, str):
            is_a_list = value.lstrip().startswith("[")  # as some programs write one into a table
            cure = " (it is text: give the list)" if is_a_list else f" (give [{shown(value)}])"
        raise InputError(f"{name} must be a list of strings, got {shown(value)}{cure}")
    items = tuple(each)
    try:
        "".join(items).encode()
    except TypeError:
        raise InputError(f"{name} must be a list of strings, got {shown(list(items))}") from None
    except UnicodeEncodeError:
        for item in items:
            check_text(name, item)
    return items


def _each(value: Iterable[T], *single: type[Any]) -> Iterator[T] | None:
    """Return an iterator; None where there is none, or the value is a single one."""
    try:  # an array of no dimension is an Iterable, and cannot be iterated
        return None if isinstance(value, single) else iter(value)
    except TypeError:
        return None


def instances(name: str, value: Iterable[T], *kinds: type[T]) -> tuple[T, ...]:
    """Return several objects of some types as a tuple."""
    each = _each(value, str, *kinds)
    items = () if each is None else tuple(each)
    wrong = [value] if each is None else [item for item in items if not isinstance(item, kinds)]
    if wrong:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(f"{name} must be several {names} objects, got {shown(wrong[0])}")
    return items


def positions(kind: str, ids: Iterable[str]) -> dict[str, int]:
    """Return the place of each id; none may come twice."""
    places: dict[str, int] = {}
    for place, name in enumerate(ids):
        if places.setdefault(name, place) != place:
            raise InputError(f"duplicate {kind} id {name!r} (ids must be unique)")
    return places


def check_instance(name: str, value: T, *kinds: type[Any]) -> T:
    """Return a value of one of some types."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        is_read = isinstance(value, str | Path) and hasattr(kinds[0], "read")
        cure = f" ({kinds[0].__name__}.read reads a file)" if is_read else ""
        raise InputError(f"{name} must be of type {names}, got {shown(value)}{cure}")
    return value


def check_flag(name: str, value: object) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {shown(value)}")
    return value


def check_date(name: str, value: object) -> datetime.date | None:
    """Return a date, or None. A datetime is refused: it is a date to Python, but not a day."""
    if value is None or type(value) is datetime.date:
        return value
    day = " (its .date() is the day)" if isinstance(value, datetime.datetime) else ""
    raise InputError(f"{name} must be a datetime.date, got {shown(value)}{day}")


def parse_date(name: str, value: object) -> datetime.date:
    """Return the day that a text of the form YYYY-MM-DD names."""
    # date.fromisoformat alone would take "20240131" and "2024-W05-3" as well.
    if isinstance(value, str) and _DAY.fullmatch(value):
        with suppress(ValueError):
            return datetime.date.fromisoformat(value)
    says_more = isinstance(value, str) and len(value) > len("YYYY-MM-DD") and _DAY.match(value)
    cure = " (write the day alone)" if says_more else ""
    raise InputError(f"{name} must be YYYY-MM-DD, got {shown(value)}{cure}")


def check_number(
    name: str,
    value: object,
    low: float,
    high: float = math.inf,
    *,
    whole: bool = False,
    ends: bool = True,
) -> Any:
    """Return a number as a float, or as an int where it has to be whole.

    Scalars of numpy are numbers; bools and NaN are not. `ends` says whether `low` and `high`
    themselves are allowed.
    """
    if isinstance(value, Integral if whole else Real) and not isinstance(value, bool):
        given: Any = value
        try:
            number = int(given) if whole else float(given)
        except OverflowError:
            number = math.nan
        if low < number < high or (ends and number in (low, high)):
            return number
    most = "10^12" if high == 10**12 else high
    span = f"from {low} to {most}" if ends else f"between {low} and {most}"
    if high == math.inf:
        span = f"of at least {low}" if ends else f"above {low}"
    kind = "a whole number" if whole else "a number"
    raise InputError(f"{name} must be {kind} {span}, got {shown(value)}")


def check_json(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object that JSON in UTF-8 can hold."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{name} must be an object with string keys, got {shown(value)}")
    try:
        json.dumps(dict(value), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        said = ascii(reason(exc))[1:-1]
        raise InputError(f"{name} cannot be written as JSON: {said} ({JSON_VALUES})") from exc
    return value


def one_line(record: Any) -> str:
    """Return the repr of a dataclass as one line, with the beginning of each value.

    A class whose values may be long has it as its ``__repr__``.
    """
    values = ((field.name, getattr(record, field.name)) for field in dataclasses.fields(record))
    shares = (f"{name}={shown(value)}" for name, value in values)
    return f"{type(record).__name__}({', '.join(shares)})"


def json_object(item: Any, **changed: Any) -> dict[str, Any]:
    """Return the JSON object of a dataclass: its fields, some of them changed, without None."""
    values = {part.name: getattr(item, part.name) for part in dataclasses.fields(item)} | changed
    kept = {name: value for name, value in values.items() if value is not None}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in kept.items()}


@dataclasses.dataclass(frozen=True)
class Record:
    """One JSON object of a data file; its errors say where it is.

    `line` is None where the file has no lines to speak of; `entry` is then its place among the
    records of the file, or among those of its line. Both count from 1; `unit` is what an entry is
    called.
    """

    fields: Mapping[str, Any]
    path: str | Path
    line: int | None
    entry: int | None = None
    unit: str = "entry"

    def error(self, problem: str, cure: str | None = None) -> DataFileError:
        """Return (not raise) the error of this record."""
        if self.entry is not None:
            problem = f"{self.unit} {self.entry}: {problem}"
        return DataFileError(self.path, problem, line=self.line, cure=cure)

    def get(
        self, key: str, check: Callable[[str, Any], Any] = check_text, *, default: Any = _REQUIRED
    ) -> Any:
        """Return a checked field; a null or missing one is the default, if there is one."""
        value = self._get(key, default)
        return value if value is default else self.checked(check, f"field {key!r}", value)

    def make(self, kind: Callable[..., T], **convert: Callable[[Any], Any]) -> T:
        """Return a dataclass made of the fields of the same names, some of them converted.

        Fields that are missing or null have their default, if there is one; others are ignored.
        """
        values: dict[str, Any] = {}
        for name, default in _defaults(kind):
            value = self._get(name, default)
            if value is not None:
                values[name] = convert[name](value) if name in convert else value
        return self.checked(kind, **values)

    def check_keys(self, kind: Any) -> None:
        """Raise the error of this record where it has a key that is no field of a dataclass."""
        known = [part.name for part in dataclasses.fields(kind)]
        unknown = [key for key in self.fields if key not in known]
        if unknown:
            close = closest(unknown[0], known)
            cure = f"did you mean {close[0]!r}?" if close else f"use {', '.join(map(repr, known))}"
            of = self.fields.get("id")
            who = "" if of is None else f"{kind.__name__.lower()} {shown(of)}: "
            raise self.error(f"{who}unknown key {shown(unknown[0])}", cure=cure)

    def checked(self, check: Callable[..., T], *args: Any, **values: Any) -> T:
        """Return what a check or constructor returns; its InputError becomes one of this record."""
        try:
            return check(*args, **values)
        except InputError as exc:
            name, _, problem = str(exc).partition(" ")
            text = f"field {name!r} {problem}" if name in values else str(exc)
            raise self.error(text) from None

    def _get(self, key: str, default: Any) -> Any:
        value = self.fields.get(key)
        if value is not None:
            return value
        if default is _REQUIRED and key in self.fields:
            raise self.error(f"field {key!r} is null", cure="give it a value")
        if default is _REQUIRED:
            there = ", ".join(repr(name) for name in list(self.fields)[:6]) or "no fields"
            raise self.error(f"missing field {key!r}", cure=f"it has {there}")
        return default


@functools.cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass: those without default as required, others as None."""
    bare = (dataclasses.MISSING, dataclasses.MISSING)
    return tuple(
        (part.name, _REQUIRED if (part.default, part.default_factory) == bare else None)
        for part in dataclasses.fields(kind)
    )


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


Identified = TypeVar("Identified", bound=_Identified)


def read_records(
    path: str | Path | Iterable[str | Path],
    kind: str,
    make: Callable[[Record], Identified],
    *,
    columns: Collection[str] | None = None,
) -> Iterator[tuple[Record, Identified]]:
    """Yield each record of one or more files, and what is made of it, with its own id.

    Files are JSON Lines, packed by gzip or not, or Parquet, of which only some `columns` are read;
    a pattern stands for all files that match it (`data_files`). Of several files, those that hold
    nothing are passed over with a warning (`pass_over`). One record at a time is held.
    """
    seen: dict[str, int] = {}
    empty: list[EmptyFileError] = []
    given: Any = path
    files = data_files(_each(given, str, bytes, Path) or [given])
    for number, file in enumerate(files):
        is_table = is_parquet(file)
        rows = read_parquet(file, columns) if is_table else read_jsonl(file)
        try:
            for line, fields in rows:
                place: tuple[Any, ...] = (None, line, "row") if is_table else (line,)
                record = Record(fields, file, *place)
                item = make(record)
                if item.id in seen:
                    first = _where(files, number, seen[item.id])
                    problem = f"duplicate {kind} id {item.id!r}, first {first}"
                    raise record.error(problem, cure="ids must be unique")
                seen[item.id] = number << _LINE_BITS | line
                yield record, item
        except EmptyFileError as exc:
            empty.append(exc)
    pass_over(empty, len(files))


def _where(files: Sequence[str | Path], now: int, seen: int) -> str:
    """Return where a record was, for who is in the file of number `now`."""
    number, line = seen >> _LINE_BITS, seen & (1 << _LINE_BITS) - 1
    unit = "row" if is_parquet(files[number]) else "line"
    there = files[number]
    return f"on {unit} {line}" if there == files[now] else f"in {there}, {unit} {line}"
