"""The rules of a timetable, each a function of the courses and of what a student says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from cnp_router.constraints import Rule
from cnp_router.timetable.course import DAYS, PERIODS, SLOTS, Course, slot_in_words, slots_of

__all__ = [
    "at_most_a_day",
    "credits_between",
    "day_is_free",
    "each_course_once",
    "free_day_item",
    "no_gaps",
    "none_of",
    "nothing_at",
    "one_at_a_time",
    "taken",
]

Courses = Sequence[Course]


def none_of(name: str, reason: str, unwanted: Courses) -> Rule:
    """Return the rule that none of these courses is taken."""
    return Rule(name, reason, {course.id: 1.0 for course in unwanted}, at_most=0.0)


def nothing_at(place: str, courses: Courses) -> Rule:
    """Return the rule that nothing is on a day, in a period or in a slot."""
    slots = slots_of("avoid", place)
    words = DAYS.get(place) or (slot_in_words(place) if place in SLOTS else place)
    before = "in" if place.startswith("period") else "on"
    name = f"nothing {before} {words}"
    return none_of(name, name, [course for course in courses if course.slot in slots])


def taken(course: Course) -> Rule:
    """Return the rule that a course is taken in any case."""
    where = slot_in_words(course.slot)
    reason = f"{course.id} is fixed ({course.name}, {where}, {course.credits:g} credits)"
    return Rule(f"{course.id} is fixed", reason, {course.id: 1.0}, at_least=1.0)


def credits_between(least: float, most: float, courses: Courses) -> Iterator[Rule]:
    """Yield the bounds of the sum of credits."""
    credits = {course.id: course.credits for course in courses}
    yield Rule("least credits", f"at least {least:g} credits", credits, at_least=least)
    yield Rule("most credits", f"at most {most:g} credits", credits, at_most=most)


def at_most_a_day(most: int, courses: Courses) -> Iterator[Rule]:
    """Yield the limit of courses of each day."""
    most_courses = f"at most {most} course{'s'[: most != 1]}"
    for day, name in DAYS.items():
        reason = f"{most_courses} on {name}"
        yield Rule(f"{most_courses} a day", reason, _on(day, courses), at_most=float(most))


def free_day_item(day: str) -> str:
    """Return the hidden item that stands for a free day."""
    return f"{DAYS[day]} is free"


def day_is_free(which: str | None, courses: Courses) -> Iterator[Rule]:
    """Yield what makes a day free of courses: this one, or (None) any of the week."""
    if which is not None:
        name = f"{DAYS[which]} is free"
        yield Rule(name, name, _on(which, courses), at_most=0.0)
        return
    room, at_least = float(len(PERIODS)), "at least one day is free"
    for day, name in DAYS.items():
        both = _on(day, courses) | {free_day_item(day): room}
        yield Rule(at_least, f"{name} is free or has courses", both, at_most=room)
    days = {free_day_item(day): 1.0 for day in DAYS}
    yield Rule(at_least, at_least, days, at_least=1.0)


def no_gaps(courses: Courses) -> Iterator[Rule]:
    """Yield what forbids a free period between two courses of a day."""
    for day, name in DAYS.items():
        for first, between, last in itertools.combinations(PERIODS, 3):
            both = {c.id: 1.0 for c in courses if c.slot in (f"{day} {first}", f"{day} {last}")}
            filled = {c.id: -1.0 for c in courses if c.slot == f"{day} {between}"}
            yield Rule("no gaps", f"no gap on {name}", both | filled, at_most=1.0)


def one_at_a_time(courses: Courses) -> Iterator[Rule]:
    """Yield what forbids two courses in one slot."""
    for slot in SLOTS:
        there = {course.id: 1.0 for course in courses if course.slot == slot}
        reason = f"{slot_in_words(slot)} has room for one course"
        yield Rule("one course at a time", reason, there, at_most=1.0)


def each_course_once(courses: Courses) -> Iterator[Rule]:
    """Yield what forbids two courses of a name, which are the same at other times."""
    by_name: dict[str, dict[str, float]] = {}
    for course in courses:
        by_name.setdefault(course.name, {})[course.id] = 1.0
    for name, same in by_name.items():
        if len(same) > 1:
            reason = f"{name!r} counts once"
            yield Rule("each course once", reason, same, at_most=1.0)


def _on(day: str, courses: Courses) -> dict[str, float]:
    return {c.id: 1.0 for c in courses if c.slot is not None and c.slot.startswith(day)}
