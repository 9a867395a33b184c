"""`broken`: which rules a choice breaks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cnp_router.constraints.program import Deadline, Program
from cnp_router.constraints.rules import Problem, Rule, known
from cnp_router.exceptions import InputError
from cnp_router.records import instances, string_tuple

__all__ = ["Broken", "broken"]

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a choice breaks.

    Parameters
    ----------
    rule : Rule
    how : str
        As ``"18 instead of at most 16"``.
    """

    rule: Rule
    how: str

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.rule.name

    def __str__(self) -> str:
        return f"{self.rule.reason} ({self.how})"


def broken(rules: Problem | Iterable[Rule], items: Collection[str]) -> tuple[Broken, ...]:
    """Return which rules a choice breaks.

    Parameters
    ----------
    rules : Problem or several Rule
        Hidden items of a problem are chosen as they suit the rules best, unless they are given.
    items : collection of str
        What is chosen.

    Raises
    ------
    InputError
        If the problem does not have an item.

    Examples
    --------
    >>> budget = Rule("budget", "the budget is 10", {"tea": 4, "cake": 7}, at_most=10)
    >>> [str(each) for each in broken([budget], ["tea", "cake"])]
    ['the budget is 10 (11 instead of at most 10)']
    """
    chosen = set(string_tuple("items", items))
    if isinstance(rules, Problem):
        known("the choice", chosen, set(rules.items))
        lines = rules.lines
        chosen |= _suiting(rules, chosen)
    else:
        lines = instances("rules", rules, Rule)
    found = ((line, line.breach(line.total(chosen))) for line in lines)
    return tuple(Broken(line, how) for line, how in found if how)


def _suiting(problem: Problem, chosen: set[str]) -> set[str]:
    """Return the hidden items with which the rules are broken least."""
    hidden = set(problem.hidden)
    lines = [line for line in problem.lines if not hidden.isdisjoint(line.coefficients)]
    if not lines or hidden & chosen:
        return set()
    shown = {item: int(item in chosen) for item in problem.items if item not in hidden}
    program = Program(problem.items, lines)
    found = program.stretched((), range(len(lines)), Deadline(_SECONDS), shown)
    if found is None:
        raise InputError(f"what stands for {sorted(hidden)[0]!r} was not found within {_SECONDS} s")
    return {item for item, place in program.places.items() if item in hidden and found[0][place]}
