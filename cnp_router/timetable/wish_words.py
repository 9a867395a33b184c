"""What the words of a wish name: times, courses, forms, ways of assessment, fields of study."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from cnp_router.exceptions import InputError
from cnp_router.text import singular
from cnp_router.timetable.course import DAYS, PERIODS, Course
from cnp_router.timetable.form_fields import check_entry

__all__ = ["HOURS", "Thing", "hour_of", "periods_outside", "thing_of"]

Kind = Literal["time", "gaps", "free day", "forms", "assessment", "course", "fields"]

HOURS = {1: (8.75, 10.25), 2: (10.5, 12.0), 3: (13.25, 14.75), 4: (15.0, 16.5), 5: (16.75, 18.25)}
"""When each period begins and ends: 8:45 to 10:15, and so on to 16:45 to 18:15."""

_SAID_OF_FORMS = {
    "lecture": "lecture",
    "seminar": "seminar",
    "discussion class": "seminar",
    "exercise": "exercise",
    "practical": "laboratory",
    "lab": "laboratory",
    "laboratory": "laboratory",
    "experiment": "laboratory",
    "online": "online",
    "remote": "online",
}
_SAID_OF_ASSESSMENT = {
    "exam": "exam",
    "examination": "exam",
    "final": "exam",
    "final exam": "exam",
    "test": "exam",
    "quiz": "quizzes",
    "quizze": "quizzes",
    "presentation": "presentation",
    "talk": "presentation",
    "discussion": "discussion",
    "report": "reports",
    "assignment": "assignments",
    "homework": "assignments",
    "problem sheet": "assignments",
    "term paper": "term_paper",
    "essay": "term_paper",
    "paper": "term_paper",
    "participation": "participation",
    "attendance": "participation",
}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": PERIODS[-1]}
_ORDINAL = re.compile(
    r"(?P<word>first|second|third|fourth|fifth|last|[1-5](?:st|nd|rd|th)) periods?"
)
_PART = re.compile(r"(?:(?P<day>[a-z]+?)s? )?(?P<part>morning|afternoon|evening)s?")
_PARTS = {"morning": (1, 2), "afternoon": (3, 4, 5), "evening": (5,)}
_LITTLE = re.compile(
    r"^(?:(?:the|any|a|an|my|all|everything|anything|on|in|at|of|for|to|be|have|about"
    r"|courses?|class|classes)\s+)+"
)
_AFTER = re.compile(r"\s+(?:courses?|class(?:es)?|lessons?|please|at all|any ?more)$")

_MORNING = 8  # "before 4" is in the afternoon
_GAPS = re.compile(r"gaps?|holes?|free (?:periods?|hours?|slots?)|breaks?")
_FREE_DAY = re.compile(r"free days?|days? off|days? free")


@dataclass(frozen=True, slots=True)
class Thing:
    """What some words name: its kind, and the values that a form has for it."""

    kind: Kind
    values: tuple[str, ...]


def thing_of(words: str, courses: Sequence[Course]) -> Thing | None:
    """Return what some words name, or None.

    Examples
    --------
    >>> thing_of("Friday afternoons", ()).values
    ('Fri 3', 'Fri 4', 'Fri 5')
    >>> thing_of("final exams", ())
    Thing(kind='assessment', values=('exam',))
    """
    bare = _AFTER.sub("", _LITTLE.sub("", words.strip().lower()))
    one = " ".join(singular(word) for word in bare.split())
    fields = {course.field for course in courses}
    kinds: tuple[tuple[Kind, Sequence[str]], ...] = (
        ("time", _times(bare)),
        ("forms", _in(_SAID_OF_FORMS, one)),
        ("assessment", _in(_SAID_OF_ASSESSMENT, one)),
        ("course", [c.id for c in courses if bare in (c.id.lower(), c.name.lower())]),
        ("fields", sorted(each for each in fields if bare in (each.lower(), _initials(each)))),
    )
    for kind, values in kinds:
        if values:
            return Thing(kind, tuple(values))
    if _GAPS.fullmatch(bare):
        return Thing("gaps", ())
    return Thing("free day", ()) if _FREE_DAY.fullmatch(bare) else None


def periods_outside(*, before: float | None = None, after: float | None = None) -> list[int]:
    """Return the periods that begin before an hour, or end after one.

    Examples
    --------
    >>> periods_outside(before=10), periods_outside(after=16.5)
    ([1], [5])
    """
    return [
        period
        for period, (begin, end) in HOURS.items()
        if (before is not None and begin < before) or (after is not None and end > after)
    ]


def hour_of(which: str, hour: str, minute: str | None, half: str | None) -> float | None:
    """Return the hour of the day that is meant by "before 10" or "after 4 pm"; None if none is.

    Where neither am nor pm is said, what is before 8 is in the afternoon, and so is what would
    leave no period otherwise: nobody wants nothing after 8 in the morning.

    Examples
    --------
    >>> hour_of("before", "10", "30", None), hour_of("after", "8", None, None)
    (10.5, 20.0)
    >>> hour_of("before", "6", None, None), hour_of("before", "6", None, "pm")
    (6.0, 18.0)
    """
    time = (12 if hour == "noon" else int(hour)) + int(minute or 0) / 60
    if not 0 <= time <= (24 if half is None else 13):
        return None
    if half is not None:
        return time % 12 + 12 * (half == "pm")
    other = time + 12 if time < 12 else time
    likely = (other, time) if time < _MORNING else (time, other)
    left = (each for each in likely if len(periods_outside(**{which: each})) < len(PERIODS))
    return next(left, likely[0])


def _times(words: str) -> tuple[str, ...]:
    """Return the entries of a form's `avoid` that some words name, none if they name no time."""
    if found := _ORDINAL.fullmatch(words):
        number = _ORDINALS.get(found["word"]) or int(found["word"][0])
        return (f"period {number}",)
    if found := _PART.fullmatch(words):
        day, periods = found["day"], _PARTS[found["part"]]
        if day is None:
            return tuple(f"period {period}" for period in periods)
        short = [each for each, name in DAYS.items() if day in (name.lower(), each.lower())]
        return tuple(f"{each} {period}" for each in short for period in periods)
    with suppress(InputError):
        return (check_entry("time", words),)
    return ()


def _in(said: dict[str, str], words: str) -> list[str]:
    return [said[words]] if words in said else []


def _initials(name: str) -> str:
    words = name.lower().split()
    return "".join(word[0] for word in words) if len(words) > 1 else name.lower()
