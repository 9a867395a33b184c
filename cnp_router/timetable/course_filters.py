"""Courses by words and filters, and which filter left nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.records import check_number
from cnp_router.text import content_words
from cnp_router.timetable.course import (
    ASSESSMENTS,
    FORMS,
    SLOTS,
    YEARS,
    Course,
    slot_in_words,
    slots_of,
)
from cnp_router.timetable.course_index import scores
from cnp_router.timetable.form_fields import one_of

__all__ = ["matching", "read_filters", "why_nothing", "without_negated"]

INTENSIVE = "intensive"
_STEM = 4  # letters
_FAINT = 0.4  # less than this share of the best score is a word in passing

_NEGATED = re.compile(
    r"\b(?:without|no|not|except)\s+(?:(?:an?|any|the|final|written|oral)\s+)*"
    r"(?P<what>term[ _-]paper|[\w-]+)",
    re.IGNORECASE,
)

Values = frozenset[Any]
_KEEPS: Mapping[str, Callable[[Course, Values], bool]] = {
    "slot": lambda course, values: (course.slot or INTENSIVE) in values,
    "department": lambda course, values: course.department in values,
    "field": lambda course, values: course.field in values,
    "year": lambda course, values: not values.isdisjoint(course.years),
    "form": lambda course, values: course.form in values,
    "without": lambda course, values: not any(course.assessment.get(each) for each in values),
}


def read_filters(given: Mapping[str, Any], courses: Sequence[Course]) -> dict[str, Values]:
    """Return the values that each filter allows; those that are None or empty filter nothing.

    Raises
    ------
    InputError
        If a value is none that courses have: names a close one.
    """
    lists = {
        name: [value] if isinstance(value, str | int) and value != "" else list(value or ())
        for name, value in given.items()
    }
    return {
        name: frozenset(known for value in values for known in _known(name, value, courses))
        for name, values in lists.items()
        if values
    }


def matching(query: str, filters: Mapping[str, Values], courses: Sequence[Course]) -> list[Course]:
    """Return the courses that pass all filters and have to do with a query, best first.

    Courses that have much less to do with it than the best one of all do not count. A blank query
    leaves the order as it is.
    """
    kept = [all(_KEEPS[name](course, filters[name]) for name in filters) for course in courses]
    if not query.strip():
        return [course for course, keep in zip(courses, kept, strict=True) if keep]
    found = scores(query, courses)
    least = _FAINT * found.max(initial=0.0)
    order = sorted(range(len(courses)), key=lambda place: -found[place])
    return [courses[i] for i in order if kept[i] and found[i] > 0 and found[i] >= least]


def why_nothing(query: str, filters: Mapping[str, Values], courses: Sequence[Course]) -> str:
    """Return what was looked for and not found, and how many there are without one part of it.

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> courses = load_courses()
    >>> filters = read_filters({"field": "Film", "slot": "Mon 2"}, courses)
    >>> print(why_nothing("", filters, courses))
    no course of field Film on Monday 2 (there are 6 without the field, 4 without the slot)
    >>> print(why_nothing("qwertz", {}, courses))
    no course has to do with 'qwertz'
    """
    if query.strip() and not scores(query, courses).any():
        return f"no course has to do with {query.strip()!r}"
    said = " ".join(_IN_WORDS[name](values) for name, values in filters.items())
    about = f" about {query.strip()!r}" if query.strip() else ""
    counts = {
        name: len(matching(query, {n: v for n, v in filters.items() if n != name}, courses))
        for name in filters
    }
    if about:
        counts["query"] = len(matching("", filters, courses))
    parts = [f"{n} without the {name}" for name, n in counts.items() if n and len(counts) > 1]
    others = (
        f" (there {'is' if parts[0][:2] == '1 ' else 'are'} {', '.join(parts)})" if parts else ""
    )
    return f"no course {said}{about}{others}".replace("  ", " ")


def without_negated(query: str) -> tuple[str, tuple[str, ...]]:
    """Return a query without what it does not want, and the parts of the mark among that.

    Examples
    --------
    >>> without_negated("statistics for economics without a final exam")
    ('statistics for economics', ('exam',))
    """
    unwanted = [found["what"].lower() for found in _NEGATED.finditer(query)]
    parts = (part for each in unwanted for part in ASSESSMENTS if _is_meant(part, each))
    words = " ".join(_NEGATED.sub(" ", query).split())
    return words if any(content_words(words)) else "", tuple(dict.fromkeys(parts))


def _is_meant(part: str, said: str) -> bool:
    """Return whether a word is a form of a part of the mark, as "quiz" or "examinations"."""
    stem = re.sub(r"[ -]", "_", said).rstrip("s")
    return len(stem) >= _STEM and (part.startswith(stem) or stem.startswith(part.rstrip("s")))


_IN_WORDS: Mapping[str, Callable[[Values], str]] = {
    "slot": lambda values: f"on {_places(values)}",
    "department": lambda values: f"of {_either(values)}",
    "field": lambda values: f"of field {_either(values)}",
    "year": lambda values: f"for year {_either(values)}",
    "form": lambda values: f"of form {_either(values)}",
    "without": lambda values: f"without {_either(values).replace('_', ' ')}",
}


def _either(values: Iterable[Any]) -> str:
    return " or ".join(map(str, sorted(values)))


def _places(values: Values) -> str:
    week = [slot_in_words(slot) for slot in SLOTS if slot in values]
    few = [*week[:4], f"{len(week) - 4} more slots"] if len(week) > 5 else week
    return " or ".join([*few, *(["no slot"] * (INTENSIVE in values))])


def _known(name: str, value: Any, courses: Sequence[Course]) -> Sequence[Any]:
    """Return what a value of a filter stands for."""
    if name == "year":
        return [check_number("year", value, YEARS[0], YEARS[-1], whole=True)]
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, got {value!r}")
    text = " ".join(value.split())
    if name == "slot":
        return [INTENSIVE] if text.lower() == INTENSIVE else slots_of("slot", text)
    known: Iterable[str] = {"form": FORMS, "without": ASSESSMENTS}.get(name) or dict.fromkeys(
        getattr(course, name) for course in courses
    )
    by_lower = {each.lower().replace("_", " "): each for each in known}
    found = by_lower.get(text.lower().replace("_", " "))
    return [one_of(name, text, list(known)) if found is None else found]
