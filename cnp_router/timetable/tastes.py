"""The preferences of a timetable: each a function of the courses and of what a student says.

A course counts by its credits, so that four half courses are not worth more than two whole ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cnp_router.constraints import Preference
from cnp_router.timetable.course import Course
from cnp_router.timetable.interests import closeness, topics_of

__all__ = ["WEIGHTS", "about", "few_courses", "few_fail", "leaning", "of_department"]

WEIGHTS = {
    "interests": 3.0,
    "fields": 1.0,
    "forms": 1.0,
    "assessment": 1.0,
    "department": 0.5,
    "pass_rate": 0.5,
    "few_courses": 0.5,
}
"""How much each kind of preference counts: for each credit, the last one for each course."""

Courses = Sequence[Course]


def about(interests: str, credits: float, courses: Courses, weight: float) -> Iterator[Preference]:
    """Yield each interest, counted up to its part of the credits: the others get theirs.

    One that no course is about gains nothing, which is seen.
    """
    close = {topic: closeness(topic, courses) for topic in topics_of(interests)}
    n_found = sum(map(bool, close.values()))
    size = {course.id: course.credits for course in courses}
    for topic, shares in close.items():
        values = {name: share * size[name] for name, share in shares.items()}
        most = credits / n_found if n_found > 1 else None
        yield Preference(f"about {topic}", f"interested in {topic}", values, weight, at_most=most)


def leaning(
    what: str,
    liked: Sequence[str],
    avoided: Sequence[str],
    courses: Courses,
    share: Callable[[Course, str], float],
    weight: float,
) -> Iterator[Preference]:
    """Yield what is liked and avoided; `share` says in [0, 1] how much of it a course has."""
    for verb, names, sign in (("likes", liked, 1.0), ("avoids", avoided, -1.0)):
        for name in names:
            values = {c.id: sign * share(c, name) * c.credits for c in courses if share(c, name)}
            yield Preference(f"{verb} {name}", f"{verb} {what} {name}", values, weight)


def of_department(department: str, courses: Courses, weight: float) -> Preference:
    """Return what courses of the student's own department gain."""
    own = {course.id: course.credits for course in courses if course.department == department}
    return Preference("own department", f"studies at {department}", own, weight)


def few_courses(courses: Courses, weight: float) -> Preference:
    """Return what each course costs, so that none is there only to fill a gap."""
    return Preference(
        "few courses",
        "no more courses than need be",
        dict.fromkeys((course.id for course in courses), -1.0),
        weight,
    )


def few_fail(courses: Courses, weight: float) -> Preference:
    """Return the credits that are lost on average, because not everyone passes.

    Where a pass rate is not known it is the mean of the others.
    """
    rates = [course.pass_rate for course in courses if course.pass_rate is not None]
    mean = sum(rates) / max(len(rates), 1)
    values = {
        c.id: -round((1 - (mean if c.pass_rate is None else c.pass_rate)) * c.credits, 6)
        for c in courses
    }
    return Preference("pass rate", "few fail", values, weight)
