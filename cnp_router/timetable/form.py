"""`Form`: what a student says of the timetable that is to be made."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnp_router.constraints import Problem, Rule
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import atomic_write, read_json
from cnp_router.records import Record, shown
from cnp_router.timetable import tastes, timetable_rules
from cnp_router.timetable.course import DAYS, Course, load_courses, slots_of
from cnp_router.timetable.form_fields import CHECKS, Liking, one_of
from cnp_router.timetable.questions import QUESTIONS, Question

__all__ = ["Form", "Liking"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a student says of the timetable that is to be made.

    None means that it is not said yet; `missing` names what is.

    Parameters
    ----------
    department : str or None
        Where the student studies: a department of the courses.
    year : int in [1, 6] or None
        The student's year.
    min_credits, max_credits : float in [0, 100] or None
    first_period : bool or None
        Whether courses may be in the first period.
    gaps : bool or None
        Whether there may be a free period between two courses of a day.
    free_day : bool or str or None
        Whether one day has to be free; or which, such as ``"Wed"``.
    interests : str or None
        In plain words; commas divide them. ``""``: none in particular.
    years : tuple of int, default=()
        Courses for these years are allowed. Empty: for `year`.
    avoid : tuple of str, default=()
        Times without courses: ``"Fri"``, ``"Mon 2"`` or ``"period 5"``.
    max_per_day : int in [1, 5] or None, default=None
        How many courses a day may have; None: as many as it has periods.
    forms, assessment, fields : Liking, optional
        Of forms of teaching, of what the mark is made of, and of fields of study.
    fixed : tuple of str, default=()
        Ids of courses that are taken in any case.
    dropped : tuple of str, default=()
        Ids of courses that are not taken.
    weights : mapping of str to float, optional
        How much preferences count; default: `cnp_router.timetable.tastes.WEIGHTS`.

    Raises
    ------
    InputError
        If a value cannot be used; the message begins with the name of the field.

    Examples
    --------
    >>> form = Form(year=2, avoid=["Friday", "mon 2"], free_day="Wednesday")
    >>> form.avoid, form.free_day
    (('Fri', 'Mon 2'), 'Wed')
    >>> Form(year=7)
    Traceback (most recent call last):
    cnp_router.exceptions.InputError: year must be a whole number from 1 to 6, got 7
    """

    department: str | None = None
    year: int | None = None
    min_credits: float | None = None
    max_credits: float | None = None
    first_period: bool | None = None
    gaps: bool | None = None
    free_day: bool | str | None = None
    interests: str | None = None
    years: tuple[int, ...] = ()
    avoid: tuple[str, ...] = ()
    max_per_day: int | None = None
    forms: Liking = dataclasses.field(default_factory=Liking)
    assessment: Liking = dataclasses.field(default_factory=Liking)
    fields: Liking = dataclasses.field(default_factory=Liking)
    fixed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, value))
        low, high = self.min_credits, self.max_credits
        if low is not None and high is not None and low > high:
            raise InputError(
                f"min_credits must be at most max_credits, got {low:g} and {high:g} "
                "(lower min_credits, or raise max_credits)"
            )
        for both in self.fixed:
            if both in self.dropped:
                raise InputError(f"fixed and dropped both have {both!r} (choose one)")

    def missing(self) -> tuple[Question, ...]:
        """Return what has to be asked, in an order that does not change.

        Examples
        --------
        >>> [question.field for question in Form(year=2, interests="film").missing()][:3]
        ['department', 'min_credits', 'max_credits']
        """
        return tuple(each for each in QUESTIONS if getattr(self, each.field) is None)

    def check(self, courses: Sequence[Course]) -> None:
        """Raise InputError where the form names what the courses do not have, or what clashes.

        Parameters
        ----------
        courses : sequence of Course
        """
        by_id = {course.id: course for course in courses}
        if self.department is not None:
            one_of("department", self.department, {course.department for course in courses})
        fields = {course.field for course in courses}
        for each in (*self.fields.liked, *self.fields.avoided, *self.fields.excluded):
            one_of("field", each, fields)
        for each in (*self.fixed, *self.dropped):
            one_of("course", each, by_id)
        places: dict[str, Course] = {}
        for course in (by_id[each] for each in self.fixed):
            if course.slot is None:
                continue
            for entry in self.avoid:
                if course.slot in slots_of("avoid", entry):
                    raise InputError(
                        f"fixed has {course.id} ({course.name}) on {course.slot}, and avoid has "
                        f"{entry!r} (take one of them out)"
                    )
            other = places.setdefault(course.slot, course)
            if other is not course:
                raise InputError(
                    f"fixed has {other.id} ({other.name}) and {course.id} ({course.name}), both on "
                    f"{course.slot} (take one of them out)"
                )

    def rules(self, courses: Sequence[Course]) -> Problem:
        """Return the rules and preferences of the form, with courses as items.

        Parameters
        ----------
        courses : sequence of Course

        Returns
        -------
        Problem
            Rules of one name belong together, such as "no gaps", a rule for each place of one.

        Raises
        ------
        InputError
            If something is missing, or does not fit the courses.

        Examples
        --------
        >>> form = Form(department="Computer Science", year=2, min_credits=10, max_credits=14,
        ...             first_period=False, gaps=True, free_day=True, interests="networks")
        >>> problem = form.rules(load_courses())
        >>> list(dict.fromkeys(rule.name for rule in problem.rules))[1:5]
        ['at least one day is free', 'no first period', 'year', 'one course at a time']
        """
        if open_ := self.missing():
            raise _missing(open_, courses)
        self.check(courses)
        hidden = [timetable_rules.free_day_item(day) for day in DAYS if self.free_day is True]
        return Problem(
            [*(course.id for course in courses), *hidden],
            tuple(self._rules(courses)),
            tuple(self._preferences(courses)),
            hidden=hidden,
        )

    def _rules(self, courses: Sequence[Course]) -> Iterator[Rule]:
        none_of, by_id = timetable_rules.none_of, {course.id: course for course in courses}
        # Of several conflicts the rules that come last are named: the plainest ones.
        if not self.gaps:
            yield from timetable_rules.no_gaps(courses)
        if self.max_per_day is not None:
            yield from timetable_rules.at_most_a_day(self.max_per_day, courses)
        yield from timetable_rules.each_course_once(courses)
        if self.free_day:
            which = None if self.free_day is True else str(self.free_day)
            yield from timetable_rules.day_is_free(which, courses)
        if not self.first_period:
            name = "no first period"
            yield none_of(name, name, [c for c in courses if (c.slot or "").endswith(" 1")])
        for entry in self.avoid:
            yield timetable_rules.nothing_at(entry, courses)
        for field in self.fields.excluded:
            name = f"nothing of {field}"
            yield none_of(name, name, [c for c in courses if c.field == field])
        for form in self.forms.excluded:
            yield none_of(f"no {form}", f"no {form}", [c for c in courses if c.form == form])
        for part in self.assessment.excluded:
            name = f"no {part.replace('_', ' ')}"
            yield none_of(name, name, [c for c in courses if c.assessment.get(part)])
        years = self.years or (self.year or 0,)
        reason = f"only courses for year {' or '.join(map(str, years))}"
        yield none_of("year", reason, [c for c in courses if not set(years) & set(c.years)])
        yield from timetable_rules.one_at_a_time(courses)
        low, high = self.min_credits or 0.0, self.max_credits or 0.0
        yield from timetable_rules.credits_between(low, high, courses)
        for each in self.dropped:
            yield none_of(f"without {each}", f"without {each}", [by_id[each]])
        for each in self.fixed:
            yield timetable_rules.taken(by_id[each])

    def _preferences(self, courses: Sequence[Course]) -> Iterator[Any]:
        weights = tastes.WEIGHTS | dict(self.weights)
        interests, high = self.interests or "", self.max_credits or 0.0
        yield from tastes.about(interests, high, courses, weights["interests"])
        for what, kind, share in (
            ("the field", "fields", lambda c, name: float(c.field == name)),
            ("the form", "forms", lambda c, name: float(c.form == name)),
            ("marks by", "assessment", lambda c, name: c.assessment.get(name, 0) / 100),
        ):
            said: Liking = getattr(self, kind)
            yield from tastes.leaning(what, said.liked, said.avoided, courses, share, weights[kind])
        yield tastes.of_department(str(self.department), courses, weights["department"])
        yield tastes.few_fail(courses, weights["pass_rate"])
        yield tastes.few_courses(courses, weights["few_courses"])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this form, without what is not said."""
        values: dict[str, Any] = {}
        for part in dataclasses.fields(self):
            value = getattr(self, part.name)
            if isinstance(value, Liking):
                value = value.to_dict()
            if value is not None and value not in ((), {}):
                values[part.name] = list(value) if isinstance(value, tuple) else value
        return values

    @classmethod
    def parse(cls, record: Record, courses: Sequence[Course] | None = None) -> Form:
        """Return the form in a record of a file, checked against the courses.

        Raises
        ------
        DataFileError
        """
        record.check_keys(cls)
        convert = dict.fromkeys(("forms", "assessment", "fields"), lambda v: _liking(record, v))
        form = record.make(cls, **convert)
        record.checked(form.check, load_courses() if courses is None else courses)
        return form

    @classmethod
    def read(cls, path: str | Path, *, courses: Sequence[Course] | None = None) -> Form:
        """Read a form from a JSON document: an object with the fields of this class.

        Parameters
        ----------
        path : str or Path
            An unknown key is an error, so that a slip of the pen is not passed over.
        courses : sequence of Course, optional
            What it may name; default: the bundled ones.

        Raises
        ------
        DataFileError
            Which field is wrong, and the cure.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "form.json")
        >>> Form(year=2, forms=Liking(liked=["seminar"])).write(file)
        >>> Form.read(file).forms.liked
        ('seminar',)
        """
        document = read_json(path)
        if not isinstance(document, dict):
            problem = f"expected the JSON object of a form, got {shown(document)}"
            raise DataFileError(path, problem, cure='write {"year": 2, ...}')
        return cls.parse(Record(document, path, None), courses)

    def write(self, path: str | Path) -> None:
        """Write the form as a JSON document, atomically; DataFileError if it cannot be."""
        with atomic_write(path) as out:
            out.write(json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")


def _missing(questions: Sequence[Question], courses: Sequence[Course]) -> InputError:
    """Return (not raise) the error of what a form does not say, with what to write."""
    examples = {question.field: question.example for question in questions}
    if "department" in examples:
        examples["department"] = min((course.department for course in courses), default="")
    lines = json.dumps(examples, ensure_ascii=False)[1:-1]
    return InputError(
        f"the form does not say {', '.join(examples)} (add to its JSON, with what is true of you: "
        f"{lines})"
    )


def _liking(record: Record, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    inner = Record(value, record.path, record.line, record.entry)
    inner.check_keys(Liking)
    return inner.make(Liking)
