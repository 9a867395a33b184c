"""What a text changes in a timetable: what is kept, dropped and added, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cnp_router.constraints import Problem, Rule, Solution, conflict_of, solve
from cnp_router.exceptions import InfeasibleError
from cnp_router.printing import printable
from cnp_router.timetable.course import Course, slot_in_words
from cnp_router.timetable.wishes import Reading

__all__ = ["Revision", "revised"]

_FEW = 3  # courses that are named as a reason


@dataclass(frozen=True, slots=True)
class Revision:
    """What a text changed.

    Parameters
    ----------
    changes : tuple of str
        Of the form.
    kept, added : tuple of str
        Ids of courses.
    dropped : mapping of str to str
        Ids of courses, and why each could not be kept.
    not_possible : tuple of str
        Of what the text wants more, and why there is not more.
    not_understood : tuple of str
        Parts of the text, and why.
    """

    changes: tuple[str, ...]
    kept: tuple[str, ...]
    added: tuple[str, ...]
    dropped: Mapping[str, str] = field(hash=False)
    not_possible: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON object."""
        values = asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    def lines(self, courses: Sequence[Course]) -> Iterator[str]:
        """Yield it as lines of text."""
        by_id = {course.id: course for course in courses}
        for change in self.changes:
            yield f"Changed  {printable(change)}"
        yield f"Kept     {', '.join(map(printable, self.kept)) or 'nothing'}"
        for name, why in self.dropped.items():
            yield f"Dropped  {_named(by_id[name])}: {printable(why)}"
        for name in self.added:
            yield f"Added    {_named(by_id[name])}"
        for problem in self.not_possible:
            yield f"Not possible: {printable(problem)}"
        for problem in self.not_understood:
            yield f"Not understood: {printable(problem)}"


def revised(
    problem: Problem, chosen: Sequence[str], reading: Reading, *, timeout: float
) -> tuple[Solution, Revision]:
    """Return the solution that keeps most of what was chosen, and what it changes.

    Raises
    ------
    InfeasibleError
        If nothing fits.
    """
    wanted = list(_more_than_before(problem, chosen, reading.wanted))
    not_possible = []
    while True:
        asked = replace(problem, rules=(*problem.rules, *wanted))
        try:
            solution = solve(asked, keep=chosen, timeout=timeout)
            break
        except InfeasibleError as exc:
            names = {rule.name for rule in exc.conflict.rules}
            blamed = [rule for rule in wanted if rule.name in names]
            if not blamed:
                raise
            # A preference never binds: what stands against it is said, and it is weighed only.
            wanted.remove(blamed[0])
            others = {name: said for name, said in exc.reasons.items() if name != blamed[0].name}
            against = "; ".join(each for said in others.values() for each in said)
            not_possible.append(f"{blamed[0].reason}: {against}")
    dropped = {
        name: _why(asked, name, solution.kept, timeout=timeout) for name in solution.given_up
    }
    added = tuple(item for item in solution.items if item not in set(chosen))
    return solution, Revision(
        reading.changes, solution.kept, added, dropped, tuple(not_possible), reading.not_understood
    )


def _more_than_before(
    problem: Problem, chosen: Sequence[str], names: Sequence[str]
) -> Iterator[Rule]:
    """Yield rules that there is more of some preferences, by about half a course, than before."""
    for each in problem.preferences:
        if each.name in names and each.values:
            step = max(map(abs, each.values.values())) / 2
            positive = sum(value for value in each.values.values() if value > 0)
            before = each.total(chosen)
            if before < positive:
                bound = min(before + step, positive)
                reason = f"more of what {each.reason.replace('interested in', 'is about')}"
                yield Rule(f"more: {each.name}", reason, each.values, at_least=bound)


def _why(problem: Problem, item: str, kept: Sequence[str], *, timeout: float) -> str:
    """Return why an item cannot be kept beside the others."""
    alone = [
        rule.reason
        for rule in problem.rules
        if rule.at_most is not None and rule.coefficients.get(item, 0.0) > rule.at_most + rule.slip
    ]
    if alone:
        return "; ".join(alone)
    conflict = conflict_of(replace(problem, fixed=(*kept, item)), timeout=timeout)
    if conflict is None:
        return "others gain more"
    beside = [each for each in kept if f"{each} is fixed" in conflict.reasons]
    own = {f"{each} is fixed" for each in (*beside, item)}
    rules = [
        name if len(said) > 1 else said[0]
        for name, said in conflict.reasons.items()
        if name not in own
    ]
    text = "; ".join(rules)
    if not beside:
        return text
    with_ = ", ".join(beside) if len(beside) <= _FEW else "the courses that are kept"
    return f"{text} (beside {with_})"


def _named(course: Course) -> str:
    return printable(
        f"{course.id} {course.name} ({slot_in_words(course.slot)}, {course.credits:g})"
    )
