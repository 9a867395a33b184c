"""A timetable as plain text."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

from cnp_router.printing import printable
from cnp_router.timetable.course import DAYS, PERIODS, SLOTS, Course

__all__ = ["in_order", "list_of", "table_of"]

_MARGIN = 3
_LEAST = 9  # columns of a day


def in_order(courses: Sequence[Course]) -> list[Course]:
    """Return courses in the order of the week, intensive ones last."""
    places = {slot: place for place, slot in enumerate(SLOTS)}
    return sorted(courses, key=lambda c: (places.get(c.slot or "", len(SLOTS)), c.id))


def table_of(courses: Sequence[Course], width: int) -> Iterator[str]:
    """Yield the lines of a table by day and period.

    All that share a slot stand in it, so that a double booking is seen.
    """
    each = max(_LEAST, (width - _MARGIN) // len(DAYS))
    yield _line("", list(DAYS.values()), each)
    for period in PERIODS:
        cells = [
            [line for c in courses if c.slot == f"{day} {period}" for line in _cell(c, each - 1)]
            for day in DAYS
        ]
        rows = itertools.zip_longest(*cells, fillvalue="")
        for number, row in enumerate(list(rows) or [("",) * len(DAYS)]):
            yield _line(str(period) if number == 0 else "", row, each)


def list_of(courses: Sequence[Course], width: int) -> Iterator[str]:
    """Yield a line for each course, and one of its keywords."""
    widest = max((len(printable(course.id)) for course in courses), default=0)
    for course in in_order(courses):
        slot = course.slot or "-"
        start = (
            f"{printable(course.id):{widest}}  {slot:5}  {course.credits:>4g}  {course.form:10}  "
        )
        yield start + printable(course.name, max(width - len(start), 20))
        indent = " " * (widest + 2)
        keywords = printable(", ".join(course.keywords), 300)
        yield from textwrap.wrap(
            keywords, max(width, 40), initial_indent=indent, subsequent_indent=indent
        )


def _cell(course: Course, width: int) -> list[str]:
    """Return the id, and the name in at most two lines."""
    name = textwrap.wrap(printable(course.name, 200), width) or [""]
    short = name[:2] if len(name) <= 2 else [name[0], printable(f"{name[1]} ...", width)]
    return [printable(course.id, width), *short]


def _line(margin: str, cells: Sequence[str], each: int) -> str:
    return (f"{margin:{_MARGIN}}" + "".join(f"{cell:{each}}" for cell in cells)).rstrip()
