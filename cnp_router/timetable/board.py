"""`Board`: a timetable under construction, which lets no course in that breaks a rule."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from cnp_router.constraints import Conflict, Problem, Rule, broken, conflict_of
from cnp_router.constraints.program import Deadline, Program
from cnp_router.exceptions import InputError
from cnp_router.planning.workspace import Workspace
from cnp_router.records import check_text, instances, positions, shown
from cnp_router.sources.source import SEPARATOR
from cnp_router.timetable.course import SLOTS, Course, slot_in_words
from cnp_router.timetable.form import Form
from cnp_router.timetable.timetable_rules import each_course_once, one_at_a_time

__all__ = ["SOURCE", "Board"]

SOURCE = "timetable"
"""The name of the source of tools that work on a board."""

_SECONDS = 2.0  # a check that takes longer forbids nothing
_MOST_RECOMMENDED = 12
_MOST_REASONS = 4
_OF_EVERY_TIMETABLE = ("some course", "one course at a time", "each course once")


class Board(Workspace):
    """A timetable under construction.

    A course is only let in if no rule is broken then, and if all rules can still be kept
    afterwards: so every order of adding ends with a timetable that keeps them. The latter is asked
    of the solver, which takes about 10 milliseconds with the bundled courses and is remembered.

    Parameters
    ----------
    courses : sequence of Course
        With distinct ids.
    form : Form, optional
        What the student says; its fixed courses are chosen from the beginning.
    rules : Problem or several Rule, optional
        Further rules over the ids of the courses.

    Raises
    ------
    InfeasibleError
        If no timetable keeps the rules: names those in conflict.
    InputError
        If the form or a rule does not fit the courses.

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> board = Board(load_courses(), rules=[Rule("few", "at most 3 credits",
    ...     {course.id: course.credits for course in load_courses()}, at_most=3)])
    >>> board.add("ST-101")
    Course('ST-101', 'Introduction to Statistics', Monday 2)
    >>> board.credits, len(board.free_slots), board.unmet()
    (2.0, 24, ())
    >>> for course in ("PH-210", "CS-301", "ST-102"):
    ...     print(board.reason_against(course))
    Monday 2 is taken (by ST-101, Introduction to Statistics)
    with CS-301 a rule would be broken: at most 3 credits (4 instead of at most 3)
    there is no course 'ST-102' (did you mean 'ST-210' or 'ST-120'?)
    """

    def __init__(
        self,
        courses: Sequence[Course],
        *,
        form: Form | None = None,
        rules: Problem | Iterable[Rule] = (),
    ) -> None:
        self.courses = instances("courses", courses, Course)
        positions("course", (course.id for course in self.courses))
        self._by_id = {course.id: course for course in self.courses}
        self._problem = _problem(self.courses, form, rules)
        self._ceilings = [rule for rule in self._problem.rules if _only_grows(rule)]
        self._open_ends: dict[frozenset[str], bool] = {}
        self._said: dict[frozenset[str], str] = {}
        self._chosen: dict[str, None] = {}
        self.is_finished = False
        if not self._can_go_on(()):
            every = Conflict(tuple(self._problem.rules), is_minimal=False)
            raise (conflict_of(self._problem) or every).error()
        taken = self._problem.fixed if form is None else (*form.fixed, *self._problem.fixed)
        for each in dict.fromkeys(taken):
            self.add(each)

    @property
    def chosen(self) -> tuple[Course, ...]:
        """The courses that are chosen, as they came."""
        return tuple(self._by_id[each] for each in self._chosen)

    @property
    def credits(self) -> float:
        """The credits of what is chosen."""
        return sum((course.credits for course in self.chosen), 0.0)

    @cached_property
    def avoided_slots(self) -> dict[str, str]:
        """The slots in which a rule allows no course at all, and that rule in words."""
        none = [rule for rule in self._ceilings if rule.at_most == 0]
        avoided = {}
        for slot in SLOTS:
            there = [course.id for course in self.courses if course.slot == slot]
            closing = (r for r in none if all(r.coefficients.get(each, 0) > 0 for each in there))
            if there and (rule := next(closing, None)):
                avoided[slot] = rule.reason
        return avoided

    @property
    def free_slots(self) -> tuple[str, ...]:
        """The slots that a course can still be put into, in the order of the week."""
        closed = self.avoided_slots.keys() | {course.slot for course in self.chosen}
        return tuple(slot for slot in SLOTS if slot not in closed)

    def add(self, course_id: str) -> Course:
        """Put a course into the timetable.

        Raises
        ------
        InputError
            The reason against it; nothing is changed.
        """
        reason = self.reason_against(course_id)
        if reason is not None:
            raise InputError(reason)
        self._chosen[course_id] = None
        return self._by_id[course_id]

    def reason_against(self, course_id: str) -> str | None:
        """Return why a course cannot be added now, in words; None if it can."""
        check_text("a course id", course_id, any_=True)
        if self.is_finished:
            return "the timetable is finished"
        course = self._by_id.get(course_id)
        if course is None:
            return f"there is no course {shown(course_id)} ({self._close(course_id)})"
        found = self._against(course)
        if found is not None:
            return found[1]
        if self._can_go_on((course.id,)):
            return None
        key = frozenset((*self._chosen, course.id))
        if key not in self._said:
            self._said[key] = self._dead_end(course)
        return f"with {course.id} the timetable cannot be completed: {self._said[key]}"

    def obstacle(self, course: Course, *, look_ahead: bool = True) -> str | None:
        """Return what is in the way of a course, without its details; None if it can be added.

        Many courses have the same one, as ``"Monday 2 is taken"``. `look_ahead` says whether to
        ask the solver if the timetable can still be completed.
        """
        found = self._against(course)
        if found is not None:
            return found[0]
        if look_ahead and not self._can_go_on((course.id,)):
            return "the timetable could not be completed"
        return None

    def gain(self, course: Course) -> float:
        """Return what a course gains by the preferences, for each of its credits."""
        gains = (each.gain({course.id}) for each in self._problem.preferences)
        return sum(gains) / course.credits

    def finish(self) -> None:
        """Finish the timetable: nothing is added any more.

        Raises
        ------
        InputError
            If a rule is not met yet: names those.
        """
        reason = self._against_finishing()
        if reason is not None:
            raise InputError(reason)
        self.is_finished = True

    def state(self) -> dict[str, Any]:
        """Return the free slots, those to avoid, the credits so far and what is chosen."""
        return {
            "free_slots": list(self.free_slots),
            "avoided_slots": list(self.avoided_slots),
            "credits": self.credits,
            "chosen": [course.brief | {"slot": course.slot} for course in self.chosen],
            "is_finished": self.is_finished,
        }

    def refusal(self, api: str, inputs: Mapping[str, Any]) -> str | None:
        """Return the rule that forbids adding a course, or finishing; None for all other calls."""
        if api == f"{SOURCE}{SEPARATOR}add" and isinstance(inputs.get("course_id"), str):
            return self.reason_against(inputs["course_id"])
        if api == f"{SOURCE}{SEPARATOR}finish":
            return self._against_finishing()
        return None

    def reads(self, api: str) -> bool:
        """Return whether it is the search, which leaves the timetable as it is."""
        return api == f"{SOURCE}{SEPARATOR}search"

    def unmet(self) -> tuple[str, ...]:
        """Return the rules that the timetable does not keep yet, each with how it misses."""
        return tuple(dict.fromkeys(map(str, broken(self._problem, list(self._chosen)))))

    def hints(self) -> tuple[str, ...]:
        """Return what a planner should know of timetables, and the rules of this one."""
        departments = ", ".join(dict.fromkeys(course.department for course in self.courses))
        fields = ", ".join(sorted({course.field for course in self.courses}))
        rules: dict[str, set[str]] = {}
        for rule in self._problem.rules:
            if rule.name not in _OF_EVERY_TIMETABLE:
                rules.setdefault(rule.name, set()).add(rule.reason)
        said = (min(each) if len(each) == 1 else name for name, each in rules.items())
        return (
            "A slot has room for one course. An intensive course (slot null) takes no slot.",
            "Courses of one name are the same course at other times: one is enough.",
            f"Departments: {departments}.",
            f"Fields: {fields}.",
            *(f"Rule: {each}." for each in said),
        )

    def recommended(self) -> tuple[dict[str, Any], ...]:
        """Return the courses that gain most by the preferences, of those that can be added.

        Without preferences, none.
        """
        best = sorted(self.courses, key=self.gain, reverse=True)
        can_be_added = (c for c in best if self.gain(c) > 0 and self.obstacle(c) is None)
        return tuple(
            course.brief | {"slot": course.slot, "credits": course.credits}
            for course, _ in zip(can_be_added, range(_MOST_RECOMMENDED), strict=False)
        )

    def __repr__(self) -> str:
        return (
            f"Board({len(self._chosen)} of {len(self.courses)} courses, {self.credits:g} credits)"
        )

    def _against(self, course: Course) -> tuple[str, str] | None:
        """Return the rule that a course would break, and the same with what it clashes with."""
        if course.id in self._chosen:
            return "it is chosen already", f"{course.id} is chosen already"
        for other in self.chosen:
            who = f"{other.id}, {other.name}"
            if course.slot is not None and course.slot == other.slot:
                said = f"{slot_in_words(course.slot)} is taken"
                return said, f"{said} (by {who})"
            if course.name == other.name:
                said = f"{course.name!r} is chosen already"
                return said, f"{said} ({other.id}, {slot_in_words(other.slot)})"
        for rule in self._ceilings:
            if course.id not in rule.coefficients:
                continue
            how = rule.breach(rule.total({*self._chosen, course.id}))
            if how and rule.at_most == 0:
                return rule.reason, f"{course.id} is not allowed: {rule.reason}"
            if how:
                said = f"with {course.id} a rule would be broken: {rule.reason} ({how})"
                return rule.reason, said
        return None

    def _against_finishing(self) -> str | None:
        if self.is_finished:
            return "the timetable is finished already"
        unmet = self.unmet()
        return f"it is not finished: {_listed(unmet)}" if unmet else None

    def _with(self, ids: Iterable[str]) -> Problem:
        """Return the problem of what is left to choose."""
        problem = self._problem
        fixed = dict.fromkeys((*problem.fixed, *self._chosen, *ids))
        return Problem(problem.items, problem.rules, fixed=tuple(fixed), hidden=problem.hidden)

    def _can_go_on(self, ids: Iterable[str]) -> bool:
        """Return whether all rules can still be kept with these courses too."""
        key = frozenset((*self._chosen, *ids))
        if key not in self._open_ends:
            problem = self._with(ids)
            program = Program(problem.items, problem.lines)
            rows = range(len(problem.lines))
            self._open_ends[key] = program.can_hold(rows, Deadline(_SECONDS)) is not False
        return self._open_ends[key]

    def _dead_end(self, course: Course) -> str:
        """Return the rules in conflict, without that chosen courses are chosen."""
        conflict = conflict_of(self._with((course.id,)), timeout=_SECONDS)
        rules = () if conflict is None else conflict.rules
        own = {rule.reason for rule in self._problem.rules}
        return _listed([rule.reason for rule in rules if rule.reason in own])

    def _close(self, course_id: str) -> str:
        by_word = {each.lower(): each for each in self._by_id}
        by_word |= {course.name.lower(): course.id for course in self.courses}
        close = difflib.get_close_matches(course_id.lower(), by_word, n=2)
        if not close:
            return "search shows the ids"
        return f"did you mean {' or '.join(repr(by_word[each]) for each in close)}?"


def _problem(
    courses: tuple[Course, ...], form: Form | None, rules: Problem | Iterable[Rule]
) -> Problem:
    """Return all rules, those that hold for every timetable among them."""
    ids = [course.id for course in courses]
    given = rules if isinstance(rules, Problem) else Problem(ids, instances("rules", rules, Rule))
    parts = [given] if form is None else [form.rules(courses), given]
    known = [rule for part in parts for rule in part.rules]
    some = Rule("some course", "at least one course", dict.fromkeys(ids, 1.0), at_least=1.0)
    always = (*one_at_a_time(courses), *each_course_once(courses), some)
    hidden = tuple(dict.fromkeys(item for part in parts for item in part.hidden))
    return Problem(
        [*ids, *hidden],
        [*known, *(rule for rule in always if rule not in known)],
        [each for part in parts for each in part.preferences],
        [item for part in parts for item in part.fixed],
        hidden,
    )


def _only_grows(rule: Rule) -> bool:
    """Return whether a rule that is broken once stays broken whatever is added."""
    return rule.at_most is not None and all(each >= 0 for each in rule.coefficients.values())


def _listed(reasons: Sequence[str]) -> str:
    each = list(dict.fromkeys(reasons))
    more = f"; and {len(each) - _MOST_REASONS} more" if len(each) > _MOST_REASONS else ""
    return "; ".join(each[:_MOST_REASONS]) + more
