"""`Proposal`: a finished timetable, kept in a file, that a text can change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cnp_router.constraints import Broken, Problem, broken, solve
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import atomic_write, read_json
from cnp_router.printing import printable
from cnp_router.records import Record, check_instance, check_text, positions, shown, string_tuple
from cnp_router.timetable import plain_text
from cnp_router.timetable.course import Course, load_courses, read_courses
from cnp_router.timetable.form import Form
from cnp_router.timetable.form_fields import one_of
from cnp_router.timetable.revision import Revision, revised
from cnp_router.timetable.wishes import read_wishes

__all__ = ["Proposal", "propose"]

KIND = "timetable"
_METHODS = ("solver", "plan", "react")
_WIDTH = 100
_KEYS = ("kind", "method", "form", "chosen", "courses_file")


@dataclass(frozen=True, repr=False)
class Proposal:
    """A timetable that was made of a form.

    Parameters
    ----------
    form : Form
    chosen : tuple of str
        Ids of the courses.
    method : {"solver", "plan", "react"}, default="solver"
        Who chose them: the last two are by language models.
    courses_file : str or None, default=None
        Where the courses are; None: they are the bundled ones.
    courses : tuple of Course, optional
        What could be chosen; default: what `courses_file` has.
    revision : Revision or None, default=None
        What was changed last. It does not go into the file.
    is_optimal : bool, default=True
        False if time was up before it was sure that nothing is better.

    Raises
    ------
    InputError
        If a course is not there, or chosen twice, or nothing chooses by the method.

    Examples
    --------
    >>> form = Form(department="Computer Science", year=2, min_credits=10, max_credits=14,
    ...             first_period=False, gaps=True, free_day="Wed", interests="networks, databases")
    >>> proposal = propose(form)
    >>> 10 <= proposal.credits <= 14, proposal.broken
    (True, ())
    >>> revised = proposal.revise("no Friday")
    >>> revised.revision.changes
    ('avoid: Fri',)
    """

    form: Form
    chosen: tuple[str, ...]
    method: str = "solver"
    courses_file: str | None = None
    courses: tuple[Course, ...] = ()
    revision: Revision | None = None
    is_optimal: bool = True

    def __post_init__(self) -> None:
        check_instance("form", self.form, Form)
        one_of("method", check_text("method", self.method), _METHODS)
        if not self.courses:
            own = self.courses_file
            courses = (
                load_courses() if own is None else read_courses(check_text("courses_file", own))
            )
            object.__setattr__(self, "courses", courses)
        chosen = string_tuple("chosen", self.chosen)
        positions("course", chosen)
        for each in chosen:
            one_of("course", each, {course.id for course in self.courses})
        object.__setattr__(self, "chosen", chosen)

    @cached_property
    def problem(self) -> Problem:
        """The rules and preferences of the form."""
        return self.form.rules(self.courses)

    @cached_property
    def timetable(self) -> tuple[Course, ...]:
        """The chosen courses, in the order of the week."""
        chosen = set(self.chosen)
        return tuple(plain_text.in_order([c for c in self.courses if c.id in chosen]))

    @property
    def credits(self) -> float:
        """The sum of the credits."""
        return sum(course.credits for course in self.timetable)

    @cached_property
    def broken(self) -> tuple[Broken, ...]:
        """The rules that it breaks: none if the solver made it."""
        return broken(self.problem, self.chosen)

    @property
    def rules(self) -> dict[str, str]:
        """Each rule in words, and how it is broken; ``""`` if it holds."""
        wrong: dict[str, list[str]] = {}
        for each in self.broken:
            wrong.setdefault(each.name, []).append(str(each))
        reasons: dict[str, list[str]] = {}
        for rule in self.problem.rules:
            reasons.setdefault(rule.name, []).append(rule.reason)
        return {
            each[0] if len(each) == 1 else name: "; ".join(wrong.get(name, []))
            for name, each in reasons.items()
        }

    @property
    def gains(self) -> dict[str, float]:
        """What is gained by each preference."""
        return {each.name: each.gain(self.chosen) for each in self.problem.preferences}

    def revise(self, text: str, *, timeout: float = 10.0) -> Proposal:
        """Return a proposal changed as a text says, with all the rest kept that can be.

        Rules come first, then as many of the courses as possible, then the preferences. Where the
        text wants more of something, there is more of it than before if the rules allow it.

        Parameters
        ----------
        text : str
            Such as ``"no Friday, more statistics"``: see `cnp_router.timetable.wishes`.
        timeout : float, default=10
            Seconds for the solver.

        Raises
        ------
        InfeasibleError
            If nothing fits: names the rules in conflict.
        InputError
            If nothing of the text is understood, or it contradicts itself.
        """
        reading = read_wishes(text, self.form, self.courses).something()
        problem = reading.form.rules(self.courses)
        solution, revision = revised(problem, self.problem, self.chosen, reading, timeout=timeout)
        return replace(
            self,
            form=reading.form,
            chosen=solution.items,
            method="solver",
            revision=revision,
            is_optimal=solution.is_optimal,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the file."""
        return {
            "kind": KIND,
            "method": self.method,
            "form": self.form.to_dict(),
            "chosen": list(self.chosen),
            "courses_file": self.courses_file,
        }

    def report(self) -> dict[str, Any]:
        """Return all that can be said of it, as a JSON object."""
        return {
            "method": self.method,
            "credits": self.credits,
            "courses": [
                {"slot": c.slot, "credits": c.credits, "form": c.form} | c.brief
                for c in self.timetable
            ],
            "rules": [
                {"rule": rule, "holds": not how, "problem": how or None}
                for rule, how in self.rules.items()
            ],
            "preferences": {name: round(gain, 4) for name, gain in self.gains.items()},
            "value": round(sum(self.gains.values()), 4),
            "is_optimal": self.is_optimal,
            "revision": None if self.revision is None else self.revision.to_dict(),
            "form": self.form.to_dict(),
        }

    def draw(self, width: int = _WIDTH) -> str:
        """Return it as plain text that steers no terminal: changes, table, courses, rules."""
        lines = [] if self.revision is None else [*self.revision.lines(self.courses), ""]
        lines += [*plain_text.table_of(self.timetable, width), ""]
        lines += [*plain_text.list_of(self.timetable, width), ""]
        lines.append(f"{self.credits:g} credits, {len(self.timetable)} courses, by {self.method}")
        if not self.is_optimal:
            lines.append("Time was up before it was sure that nothing is better.")
        lines += ["", "Rules"]
        for rule, how in self.rules.items():
            lines.append(f"  {'NO' if how else 'yes':4}{printable(how or rule)}")
        gains = {n: g for n, g in self.gains.items() if abs(g) > 0.005 or n.startswith("about ")}
        lines += ["", "Preferences, and what they gain"] if gains else []
        lines += [f"  {gain:6.2f}  {printable(name)}" for name, gain in gains.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Proposal({len(self.chosen)} courses, {self.credits:g} credits, by {self.method})"

    @classmethod
    def read(cls, path: str | Path) -> Proposal:
        """Read a proposal from a JSON document.

        Raises
        ------
        DataFileError
            What is wrong, and the cure. An unknown key is wrong, too.
        """
        document = read_json(path)
        if not isinstance(document, dict) or document.get("kind") != KIND:
            problem = f"expected the JSON object of a timetable, got {shown(document)}"
            raise DataFileError(path, problem, cure="write one with cnp-router timetable --output")
        record = Record(document, path, None)
        unknown = [key for key in document if key not in _KEYS]
        if unknown:
            raise record.error(f"unknown key {shown(unknown[0])}", cure=f"use {', '.join(_KEYS)}")
        own = record.get("courses_file", default=None)
        courses = load_courses() if own is None else record.checked(read_courses, own)
        form = Form.parse(Record(record.get("form", _object), path, None), courses)
        chosen = record.get("chosen", _list)
        method = record.get("method")
        return record.checked(cls, form, tuple(chosen), method, courses_file=own, courses=courses)

    def write(self, path: str | Path) -> None:
        """Write it as a JSON document, atomically; DataFileError if it cannot be."""
        with atomic_write(path) as out:
            out.write(json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")


def propose(
    form: Form,
    *,
    method: str = "solver",
    courses: Sequence[Course] | None = None,
    courses_file: str | Path | None = None,
    timeout: float = 10.0,
) -> Proposal:
    """Return the timetable that keeps the rules of a form and gains most by its preferences.

    Parameters
    ----------
    form : Form
        Nothing may be missing in it.
    method : {"solver"}, default="solver"
    courses : sequence of Course, optional
        What can be chosen; default: what `courses_file` has.
    courses_file : str or Path, optional
        Where the courses are, so that the proposal can be read again. Default: the bundled ones.
    timeout : float, default=10
        Seconds for the solver.

    Raises
    ------
    InfeasibleError
        If nothing fits: names the rules in conflict.
    InputError
        If something is missing in the form, or does not fit the courses.

    Examples
    --------
    >>> form = Form(department="Computer Science", year=2, min_credits=4, max_credits=8,
    ...             first_period=True, gaps=False, free_day=True, interests="databases")
    >>> propose(form).gains["about databases"] > 0
    True
    """
    check_instance("form", form, Form)
    if method != "solver":
        raise InputError(f"method must be 'solver', got {shown(method)}")
    file = None if courses_file is None else str(Path(courses_file).resolve())
    if courses is None:
        courses = load_courses() if file is None else read_courses(file)
    solution = solve(form.rules(courses), timeout=timeout)
    return Proposal(
        form,
        solution.items,
        courses_file=file,
        courses=tuple(courses),
        is_optimal=solution.is_optimal,
    )


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object, got {shown(value)}")
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, got {shown(value)}")
    return value
