"""What a text changes in a timetable: what is kept, dropped and added, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cnp_router.constraints import (
    Preference,
    Problem,
    Rule,
    Solution,
    broken,
    conflict_of,
    solve,
)
from cnp_router.constraints.program import Deadline
from cnp_router.exceptions import InfeasibleError
from cnp_router.printing import printable
from cnp_router.timetable.course import Course, slot_in_words
from cnp_router.timetable.wish_phrases import WORKS
from cnp_router.timetable.wish_reading import Reading

__all__ = ["Revision", "revised"]

_STEPS = (0.5, 0.01)  # by how much of the best course there is to be more; the next if need be
_FEW = 3  # courses that are named as a reason
_THE_KEPT = "the courses that are kept"


@dataclass(frozen=True, slots=True)
class Revision:
    """What a text changed.

    Parameters
    ----------
    changes : tuple of str
        Of the form.
    kept : tuple of str
        Ids of courses.
    added : mapping of str to str
        Ids of courses, and which rule or wish would not hold without each.
    dropped : mapping of str to str
        Ids of courses, and why each could not be kept.
    not_possible : tuple of str
        Of what the text wants more, and why there is not more.
    not_understood : tuple of str
        Parts of the text, and why.
    as_before : tuple of str
        What the text asks for and was so already.
    """

    changes: tuple[str, ...]
    kept: tuple[str, ...]
    added: Mapping[str, str] = field(hash=False)
    dropped: Mapping[str, str] = field(hash=False)
    not_possible: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()
    as_before: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON object."""
        values = asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    def lines(self, courses: Sequence[Course]) -> Iterator[str]:
        """Yield it as lines of text."""
        by_id = {course.id: course for course in courses}
        for change in self.changes:
            yield f"Changed  {printable(change)}"
        for same in self.as_before:
            yield f"Nothing had to change ({printable(same)})"
        yield f"Kept     {', '.join(map(printable, self.kept)) or 'nothing'}"
        for name, why in self.dropped.items():
            yield f"Dropped  {_named(by_id[name])}: {printable(why)}"
        for name, why in self.added.items():
            yield f"Added    {_named(by_id[name])}: {printable(why)}"
        for problem in self.not_possible:
            yield f"Not possible: {printable(problem)}"
        for problem in self.not_understood:
            yield f"Not understood: {printable(problem)}"
        if self.not_understood:
            yield f"Words that work: {WORKS}"


def revised(
    problem: Problem, before: Problem, chosen: Sequence[str], reading: Reading, *, timeout: float
) -> tuple[Solution, Revision]:
    """Return the solution that keeps most of what was chosen, and what it changes.

    Of those that do, it adds as few courses as the rules and what is wanted more need. `before` is
    the problem without the changes.

    Raises
    ------
    InfeasibleError
        If nothing fits.
    """
    solution = solve(problem, keep=chosen, timeout=timeout)
    steps = {name: list(_STEPS) for name in reading.wanted}
    asked, not_possible = problem, []
    while wanted := list(_more_than(problem, solution.kept, steps)):
        asked = replace(problem, rules=(*problem.rules, *wanted))
        try:
            solve(asked, keep=chosen, timeout=timeout)
            break
        except InfeasibleError as exc:
            # A preference never binds: what stands against it is said, and it is weighed only.
            blamed = next(rule for rule in wanted if rule.name in exc.reasons)
            asked = problem
            steps[blamed.name].pop(0)
            if not steps[blamed.name]:
                others = [said for name, said in exc.reasons.items() if name != blamed.name]
                against = "; ".join(each for said in others for each in said)
                not_possible.append(f"{blamed.reason}: {against}")
    solution = solve(_fewest_added(asked, chosen, timeout), keep=chosen, timeout=timeout)
    old = {(rule.name, rule.reason) for rule in before.rules}
    deadline = Deadline(timeout)  # of all reasons together
    dropped = {name: _why(asked, old, name, solution.kept, deadline) for name in solution.given_up}
    added = {
        item: _what_needs(asked, item, solution)
        for item in solution.items
        if item not in set(chosen)
    }
    return solution, Revision(
        reading.changes,
        solution.kept,
        added,
        dropped,
        tuple(not_possible),
        reading.not_understood,
        reading.as_before,
    )


def _fewest_added(problem: Problem, chosen: Sequence[str], timeout: float) -> Problem:
    """Return the problem in which no more is added to what was chosen than need be."""
    old = {*chosen, *problem.hidden}
    new = [item for item in problem.items if item not in old]
    few = Preference("few added", "what nobody asked for stays out", dict.fromkeys(new, -1.0))
    least = solve(replace(problem, preferences=(few,)), keep=chosen, timeout=timeout)
    most = sum(item not in old for item in least.items)
    reason = "as few courses are added as need be"
    rule = Rule("few added", reason, dict.fromkeys(new, 1.0), at_most=most)
    return replace(problem, rules=(*problem.rules, rule))


def _what_needs(problem: Problem, item: str, solution: Solution) -> str:
    """Return the rules that would be broken without an item that was added."""
    others = [each for each in solution.items if each != item]
    reasons = dict.fromkeys(each.rule.reason for each in broken(problem, others))
    return "; ".join(reasons) or "it goes with what is kept"


def _more_than(
    problem: Problem, kept: Sequence[str], steps: Mapping[str, Sequence[float]]
) -> Iterator[Rule]:
    """Yield a rule for each of some preferences: by its next step more than what is kept."""
    for each in problem.preferences:
        most = sum(value for value in each.values.values() if value > 0)
        now = each.total(kept)
        if steps.get(each.name) and now < most:
            step = steps[each.name][0] * max(map(abs, each.values.values()))
            bound = min(now + step, most)
            yield Rule(each.name, _in_words(each.name), each.values, at_least=bound)


def _in_words(name: str) -> str:
    """Return what is wanted where more of a preference is wanted."""
    verb, _, what = name.partition(" ")
    said = {"likes": f"more {what}", "avoids": f"less {what}"}.get(verb, f"more {name}")
    return f"{said.replace('_', ' ')} than before"


def _why(
    problem: Problem,
    old: Set[tuple[str, str]],
    item: str,
    kept: Sequence[str],
    deadline: Deadline,
) -> str:
    """Return why an item cannot be kept beside the others: new rules, if they say it."""
    alone = [
        rule.reason
        for rule in problem.rules
        if rule.at_most is not None and rule.coefficients.get(item, 0.0) > rule.at_most + rule.slip
    ]
    if alone:
        return "; ".join(alone)
    if not deadline.left:
        return "it does not fit beside the others"
    conflict = conflict_of(replace(problem, fixed=(*kept, item)), timeout=deadline.left)
    if conflict is None:  # the time was up before
        return "it does not fit beside the others"
    names = {f"{each} is fixed": each for each in (*kept, item)}
    rules = [rule for rule in conflict.rules if rule.name not in names]
    new = [rule for rule in rules if (rule.name, rule.reason) not in old] or rules
    text = "; ".join(dict.fromkeys(rule.reason for rule in new))
    beside = [names[name] for name in conflict.reasons if names.get(name, item) != item]
    if not beside:
        return text
    return f"{text} (beside {', '.join(beside) if len(beside) <= _FEW else _THE_KEPT})"


def _named(course: Course) -> str:
    return printable(
        f"{course.id} {course.name} ({slot_in_words(course.slot)}, {course.credits:g})"
    )
