"""A dialogue that asks for what a form does not say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cnp_router.exceptions import InputError
from cnp_router.timetable.course import Course
from cnp_router.timetable.form import Form
from cnp_router.timetable.questions import Question
from cnp_router.timetable.wishes import read_wishes

__all__ = ["ask"]

_TRIES = 5


def ask(
    form: Form,
    courses: Sequence[Course],
    answer: Callable[[Question], str],
    complain: Callable[[InputError], None],
) -> Form:
    """Return a form in which nothing is missing.

    Parameters
    ----------
    form : Form
    courses : sequence of Course
        What the answers may name.
    answer : callable
        Gets a question, returns the answer.
    complain : callable
        Gets what is wrong with an answer; the question is then asked again, at most five times. The
        answer on interests may hold any wishes: of these it gets what is not understood, and the
        question is only asked again if that is all.

    Raises
    ------
    InputError
        What is wrong with the fifth answer.

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> said = {"department": "Law", "year": "first", "min_credits": "10", "max_credits": "12",
    ...         "first_period": "no", "gaps": "yes", "free_day": "Friday", "interests": "crime"}
    >>> def correct(problem):
    ...     print(problem)
    ...     said["year"] = "1"
    >>> form = ask(Form(), load_courses(), lambda question: said[question.field], correct)
    year must be a number, got 'first'
    >>> form.year, form.free_day
    (1, 'Fri')
    """
    for question in form.missing():
        for left in reversed(range(_TRIES)):
            try:
                form = _answered(form, question, answer(question), courses, complain)
                break
            except InputError as exc:
                if not left:
                    raise
                complain(exc)
    return form


def _answered(
    form: Form,
    question: Question,
    said: str,
    courses: Sequence[Course],
    complain: Callable[[InputError], None],
) -> Form:
    """Return the form with an answer, or raise what is wrong with it."""
    if question.field == "interests" and said.strip():
        reading = read_wishes(said, replace(form, interests=""), courses).something()
        for problem in reading.not_understood:
            complain(InputError(f"not understood: {problem}"))
        return reading.form
    departments = {course.department for course in courses}
    return replace(form, **{question.field: question.value(said, departments)})
