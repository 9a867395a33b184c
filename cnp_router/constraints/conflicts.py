"""Which rules are in conflict where nothing fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnp_router.constraints.program import Deadline, Program
from cnp_router.constraints.rules import Problem, Rule
from cnp_router.exceptions import InfeasibleError

__all__ = ["Conflict", "conflict_of"]

_STRETCHED = 1e-7
_REASONS = 3  # of one name, in a message
_FEW = 50  # names that are looked at one by one


@dataclass(frozen=True, slots=True)
class Conflict:
    """Rules that cannot hold together.

    Parameters
    ----------
    rules : tuple of Rule
        In the order of the problem. Those of a name are only the ones that are needed.
    is_minimal : bool
        Whether without any one of them the others can hold. False where that is not sure: time was
        up before, or numbers are too far apart for the solver.
    """

    rules: tuple[Rule, ...]
    is_minimal: bool = True

    @property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """The reasons by the name of the rule."""
        found: dict[str, dict[str, None]] = {}
        for rule in self.rules:
            found.setdefault(rule.name, {})[rule.reason] = None
        return {name: tuple(reasons) for name, reasons in found.items()}

    def error(self) -> InfeasibleError:
        """Return (not raise) the error that says so."""
        return InfeasibleError(
            {
                name: reasons
                if len(reasons) <= _REASONS
                else (f"{name} ({len(reasons)} such rules)",)
                for name, reasons in self.reasons.items()
            },
            is_minimal=self.is_minimal,
            conflict=self,
        )


def conflict_of(problem: Problem, *, timeout: float = 10.0) -> Conflict | None:
    """Return a minimal set of rules that cannot hold together, or None if all can, or may.

    Where there are many, all rules are elastic at first, and those that have to be stretched become
    hard until the hard ones alone cannot hold (the elastic filter). Then each of these is left out,
    for good where the others still cannot hold (the deletion filter; both by Chinneck and
    Dravnieks, "Locating minimal infeasible constraint sets in linear programs", 1991). This is done
    for the names first, so that few are blamed, and then for the rules of these names. Rules are
    left out in the order of the problem: where there are several conflicts, it is one of the last.

    Parameters
    ----------
    problem : Problem
    timeout : float, default=10
        Seconds. What is known by then is returned.

    Examples
    --------
    >>> tea = Rule("thirsty", "there has to be tea", {"tea": 1}, at_least=1)
    >>> poor = Rule("budget", "the budget is 3", {"tea": 4, "cake": 7}, at_most=3)
    >>> sweet = Rule("hungry", "at most one cake", {"cake": 1}, at_most=1)
    >>> conflict_of(Problem(["tea", "cake"], [sweet, tea, poor])).reasons
    {'thirsty': ('there has to be tea',), 'budget': ('the budget is 3',)}
    """
    deadline = Deadline(timeout)
    lines = problem.lines
    program = Program(problem.items, lines)
    names = list(dict.fromkeys(line.name for line in lines))
    groups: list[Sequence[int]]
    groups = [[i for i, line in enumerate(lines) if line.name == name] for name in names]
    if program.can_hold(range(len(lines)), deadline) is not False:
        return None
    if len(groups) > _FEW:
        groups = _elastic(program, groups, deadline)
    few, _ = _deleted(program, groups, deadline)
    single = _elastic(program, [[i] for each in few for i in each], deadline)
    rows, is_minimal = _deleted(program, single, deadline)
    found = tuple(lines[i] for i in sorted(i for each in rows for i in each))
    return Conflict(found, is_minimal=is_minimal)


def _elastic(
    program: Program, groups: Sequence[Sequence[int]], deadline: Deadline
) -> list[Sequence[int]]:
    """Return groups of rules that cannot hold together, in their order: all if time is up."""
    hard: set[int] = set()
    while deadline.left and len(hard) < len(groups):
        rows = [i for place in sorted(hard) for i in groups[place]]
        loose = [place for place in range(len(groups)) if place not in hard]
        elastic = [i for place in loose for i in groups[place]]
        found = program.stretched(rows, elastic, deadline)
        if found is None:
            if program.can_hold(rows, deadline) is False:
                return [groups[place] for place in sorted(hard)]
            break  # it was not found in time
        by_row = dict(zip(elastic, found[1], strict=True))
        stretched = [g for g in loose if max(by_row[i] for i in groups[g]) > _STRETCHED]
        if not stretched:  # within the solver's tolerance of each other
            break
        hard.update(stretched)
    return list(groups)


def _deleted(
    program: Program, groups: Sequence[Sequence[int]], deadline: Deadline
) -> tuple[list[Sequence[int]], bool]:
    """Return the groups that are needed for them not to hold together, and whether all surely are.

    A group that may not be needed stays.
    """
    left, is_minimal = list(groups), True
    for group in groups:
        others = [each for each in left if each is not group]
        can_hold = program.can_hold([i for g in others for i in g], deadline)
        if can_hold is False:
            left = others
        is_minimal = is_minimal and can_hold is not None
    return left, is_minimal
