"""`Course`: what a timetable is made of, the slots of a week, and the bundled courses."""

from __future__ import annotations

import dataclasses
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import as_path
from cnp_router.records import (
    Record,
    check_id,
    check_number,
    check_text,
    read_records,
    shown,
    string_tuple,
)

__all__ = [
    "ASSESSMENTS",
    "DAYS",
    "FORMS",
    "PERIODS",
    "SLOTS",
    "SUMMARY",
    "YEARS",
    "Course",
    "check_slot",
    "load_courses",
    "read_courses",
    "slot_in_words",
    "slots_of",
]

DAYS = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Fri": "Friday",
}
"""The days of a week of courses: how slots call them, and their names."""

PERIODS = (1, 2, 3, 4, 5)
SLOTS = tuple(f"{day} {period}" for day in DAYS for period in PERIODS)
"""The 25 slots of a week, in its order: ``"Mon 1"`` to ``"Fri 5"``."""

YEARS = (1, 2, 3, 4, 5, 6)
FORMS = ("lecture", "seminar", "exercise", "laboratory", "online")
ASSESSMENTS = (
    "participation",
    "assignments",
    "presentation",
    "discussion",
    "reports",
    "quizzes",
    "term_paper",
    "exam",
)
SUMMARY = ("topic", "aims", "topics", "skills", "style", "prerequisites")
"""The parts of a structured summary, in its order."""

_DAY = r"(?P<day>mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri)(?:day)?\.?s?"
_PERIOD = r"(?:periods?\s*)?(?P<period>[1-5])"
_SLOT = re.compile(rf"{_DAY}[\s,-]*{_PERIOD}", re.IGNORECASE)
_WHOLE_DAY = re.compile(_DAY, re.IGNORECASE)
_WHOLE_PERIOD = re.compile(r"period\s*(?P<period>[1-5])", re.IGNORECASE)
_A_SLOT = "a day and a period from 1 to 5, such as 'Mon 2'"
_LARGEST_FILE = 50_000_000  # bytes


def check_slot(name: str, value: object) -> str:
    """Return a slot as `SLOTS` has it, of ``"Mon 2"``, ``"Monday 2"`` or ``"mon, period 2"``.

    Raises
    ------
    InputError
        If it is not a slot; `name` is the beginning of the message.

    Examples
    --------
    >>> check_slot("slot", "Monday 2")
    'Mon 2'
    """
    found = _SLOT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise InputError(f"{name} must be {_A_SLOT}, got {shown(value)}")
    return f"{_short(found['day'])} {found['period']}"


def slots_of(name: str, value: object) -> tuple[str, ...]:
    """Return the slots that a text names: one slot, a whole day or a whole period.

    Raises
    ------
    InputError
        If it names none; `name` is the beginning of the message.

    Examples
    --------
    >>> slots_of("avoid", "Friday")
    ('Fri 1', 'Fri 2', 'Fri 3', 'Fri 4', 'Fri 5')
    >>> slots_of("avoid", "period 1")
    ('Mon 1', 'Tue 1', 'Wed 1', 'Thu 1', 'Fri 1')
    """
    text = value.strip() if isinstance(value, str) else ""
    if day := _WHOLE_DAY.fullmatch(text):
        return tuple(f"{_short(day['day'])} {period}" for period in PERIODS)
    if period := _WHOLE_PERIOD.fullmatch(text):
        return tuple(f"{each} {period['period']}" for each in DAYS)
    if _SLOT.fullmatch(text):
        return (check_slot(name, text),)
    others = "a day such as 'Fri', or a period such as 'period 1'"
    raise InputError(f"{name} must be {_A_SLOT}, {others}, got {shown(value)}")


def slot_in_words(slot: str | None) -> str:
    """Return a slot as people say it: ``"Monday 2"``, or ``"no slot"`` of an intensive course.

    Examples
    --------
    >>> slot_in_words("Mon 2")
    'Monday 2'
    """
    return "no slot" if slot is None else f"{DAYS[slot[:3]]} {slot[4:]}"


def _short(day: str) -> str:
    return day[:3].capitalize()


@dataclass(frozen=True, kw_only=True, repr=False)
class Course:
    """One course of a university.

    Parameters
    ----------
    id : str
        Unique among the courses, short.
    name : str
        Two courses of the same name are the same course at another time: one is enough.
    slot : str or None, default=None
        One of `SLOTS`, other ways to say it are converted; None is an intensive course, which
        takes no slot of the week.
    credits : float > 0
        Halves exist.
    department, field : str
        Who teaches it, and the field of study it is filed under.
    years : tuple of int in [1, 6]
        The years of study whose students may take it, at least one.
    form : str
        One of `FORMS`.
    assessment : mapping of str to int
        Shares of the mark in percent by one of `ASSESSMENTS`; the sum is 100.
    pass_rate : float in [0, 1] or None, default=None
        The share of its students who pass; None where it is not known.
    text : str
        What the course teaches.
    summary : mapping of str to str
        The text in parts, for comparing courses: each of `SUMMARY`.
    keywords : tuple of str
        Of a course that is chosen already, this is enough.

    Raises
    ------
    InputError
        If a value cannot be used; the message begins with the name of the field.

    Examples
    --------
    >>> course = load_courses()[0]
    >>> course.id, course.slot, course.credits
    ('MA-101', 'Mon 1', 2.0)
    """

    id: str
    name: str
    slot: str | None = None
    credits: float
    department: str
    field: str
    years: tuple[int, ...]
    form: str
    assessment: Mapping[str, int] = dataclasses.field(hash=False)
    pass_rate: float | None = None
    text: str
    summary: Mapping[str, str] = dataclasses.field(hash=False)
    keywords: tuple[str, ...]

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "id", check_id("course", self.id))
        for name in ("name", "department", "field", "text"):
            _said(name, getattr(self, name))
        if self.slot is not None:
            keep(self, "slot", check_slot("slot", self.slot))
        keep(self, "credits", check_number("credits", self.credits, 0, ends=False))
        keep(self, "years", _years(self.years))
        _one_of("form", self.form, FORMS)
        keep(self, "assessment", _assessment(self.assessment))
        if self.pass_rate is not None:
            keep(self, "pass_rate", check_number("pass_rate", self.pass_rate, 0, 1))
        keep(self, "summary", _summary(self.summary))
        keep(self, "keywords", string_tuple("keywords", self.keywords))
        if not self.keywords:
            raise InputError("keywords must have at least one")
        for each in self.keywords:
            _said("keywords", each)

    @property
    def summary_text(self) -> str:
        """The summary, one line a part."""
        return "\n".join(f"{part}: {said}" for part, said in self.summary.items())

    @property
    def brief(self) -> dict[str, Any]:
        """Id, name and keywords: enough of a course that is chosen."""
        return {"id": self.id, "name": self.name, "keywords": list(self.keywords)}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this course, as in a file of courses."""
        values = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        lists = {"years": list(self.years), "keywords": list(self.keywords)}
        return values | lists | {"assessment": dict(self.assessment), "summary": dict(self.summary)}

    def __repr__(self) -> str:
        return f"Course({self.id!r}, {shown(self.name)}, {slot_in_words(self.slot)})"


def load_courses() -> tuple[Course, ...]:
    """Return the bundled courses of an invented university, written for cnp-router.

    Returns
    -------
    tuple of Course
        At least 160, in every slot of the week; some are intensive.

    Examples
    --------
    >>> courses = load_courses()
    >>> {course.slot for course in courses} >= set(SLOTS)
    True
    """
    return _bundled()


@lru_cache(maxsize=1)
def _bundled() -> tuple[Course, ...]:
    file = resources.files("cnp_router.timetable") / "courses.jsonl"
    with resources.as_file(file) as path:
        return read_courses(path)


def read_courses(path: str | Path) -> tuple[Course, ...]:
    """Read courses from JSON Lines.

    Parameters
    ----------
    path : str or Path
        Of a regular file of at most 50 MB. Each line is an object with the fields of `Course`;
        ``slot`` must be there: null is an intensive course. An unknown key is an error, so that a
        slip of the pen is not passed over.

    Returns
    -------
    tuple of Course
        At least one.

    Raises
    ------
    DataFileError
        With the line number and the cure.
    """
    _check_file(path)
    return tuple(course for _, course in read_records(path, "course", _made))


def _check_file(path: str | Path) -> None:
    """Raise DataFileError for a device, a pipe or a large file: a proposal may name any path."""
    try:
        found = as_path(path).stat()
    except (OSError, ValueError):
        return  # whoever reads it says why
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise DataFileError(path, "is not a regular file", cure="name a file of JSON Lines")
    if found.st_size > _LARGEST_FILE:
        problem = f"has {found.st_size:,} bytes, and {_LARGEST_FILE:,} are read"
        raise DataFileError(path, problem, cure="name a file of courses")


def _made(record: Record) -> Course:
    if "slot" not in record.fields:
        raise record.error("missing field 'slot'", cure="null is an intensive course")
    record.check_keys(Course)
    return record.make(Course)


def _said(name: str, value: object) -> None:
    if not check_text(name, value).strip():
        raise InputError(f"{name} must not be blank, got {shown(value)}")


def _one_of(name: str, value: object, known: Iterable[str]) -> None:
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{name} must be one of {', '.join(names)}, got {shown(value)}")


def _years(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"years must be a list of numbers from 1 to 6, got {shown(value)}")
    years = (check_number("years", each, YEARS[0], YEARS[-1], whole=True) for each in value)
    return tuple(sorted(set(years)))


def _assessment(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"assessment must be an object of shares in percent, got {shown(value)}")
    for name in value:
        _one_of("assessment", name, ASSESSMENTS)
    shares = {
        name: check_number(f"assessment of {name}", share, 0, 100, whole=True)
        for name, share in value.items()
    }
    if sum(shares.values()) != 100:
        raise InputError(f"assessment must add up to 100, got {sum(shares.values())}")
    return shares


def _summary(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or set(value) != set(SUMMARY):
        raise InputError(f"summary must be an object with {', '.join(SUMMARY)}, got {shown(value)}")
    for part in SUMMARY:
        _said(f"summary {part}", value[part])
    return {part: value[part] for part in SUMMARY}
