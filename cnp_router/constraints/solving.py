"""`solve`: the choice that keeps every rule and gains most by the preferences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cnp_router.constraints.broken import broken
from cnp_router.constraints.conflicts import conflict_of
from cnp_router.constraints.program import Deadline, Program
from cnp_router.constraints.rules import Preference, Problem, Rule, known
from cnp_router.exceptions import InputError
from cnp_router.records import check_instance, check_number, string_tuple

__all__ = ["Solution", "solve"]

_KEEP = "what was chosen before"


@dataclass(frozen=True, slots=True)
class Solution:
    """What was chosen.

    Parameters
    ----------
    items : tuple of str
        In the order of the problem, without hidden ones.
    value : float
        What is gained by all preferences.
    gains : dict of str to float
        What is gained by each.
    kept, given_up : tuple of str
        Those of an earlier solution that are chosen again, and those that are not.
    is_optimal : bool
        Whether it is sure that nothing gains more. False where time was up before.
    """

    items: tuple[str, ...]
    value: float
    gains: Mapping[str, float] = field(hash=False)
    kept: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    is_optimal: bool = True


def solve(
    problem: Problem,
    *,
    keep: Collection[str] = (),
    keep_weight: float | None = None,
    timeout: float = 10.0,
) -> Solution:
    """Return the choice that keeps every rule and gains most by the preferences.

    It is exact, by `scipy.optimize.milp`, and the same problem has the same solution.

    Parameters
    ----------
    problem : Problem
    keep : collection of str, optional
        Items of an earlier solution, to be chosen again if possible.
    keep_weight : float, optional
        What is gained by each that is kept, from 0. None: as many as possible are kept, whatever
        the preferences.
    timeout : float, default=10
        Seconds.

    Raises
    ------
    InfeasibleError
        If no choice keeps every rule: names the rules in conflict.
    InputError
        If time was up before any choice was found, or the problem does not have what is kept.

    Examples
    --------
    >>> budget = Rule("budget", "the budget is 10", {"tea": 4, "cake": 7, "pie": 6}, at_most=10)
    >>> taste = Preference("taste", "likes cake best", {"tea": 1, "cake": 5, "pie": 3})
    >>> problem = Problem(["tea", "cake", "pie"], [budget], [taste])
    >>> solve(problem).items
    ('cake',)
    >>> again = solve(problem, keep=["pie"])
    >>> again.items, again.kept, again.value
    (('tea', 'pie'), ('pie',), 4.0)
    """
    check_instance("problem", problem, Problem)
    earlier = tuple(dict.fromkeys(string_tuple("keep", keep)))
    known("what is kept", earlier, set(problem.items))
    deadline = Deadline(check_number("timeout", timeout, 0, 1e6, ends=False))
    lines, preferences = problem.lines, tuple(problem.preferences)
    there = dict.fromkeys(earlier, 1.0)
    sure = True
    if there and keep_weight is not None:
        weight = check_number("keep_weight", keep_weight, 0, 1e9)
        preferences += (Preference(_KEEP, _KEEP, there, weight),)
    elif there:
        most, sure = _best(problem, lines, [Preference(_KEEP, _KEEP, there)], deadline)
        bound = sum(there.get(item, 0.0) for item in most)
        lines += (Rule(_KEEP, _KEEP, there, at_least=bound),)
    chosen, surely = _best(problem, lines, preferences, deadline)
    wrong = broken(lines, list(chosen))
    if wrong:
        raise InputError(
            f"rule {wrong[0].name!r} has numbers too far apart to be kept exactly: {wrong[0]} "
            "(use numbers of a similar size)"
        )
    gains = {each.name: each.gain(chosen) for each in problem.preferences}
    return Solution(
        tuple(item for item in chosen if item not in problem.hidden),
        sum(gains.values()),
        gains,
        tuple(item for item in earlier if item in chosen),
        tuple(item for item in earlier if item not in chosen),
        sure and surely,
    )


def _best(
    problem: Problem,
    lines: tuple[Rule, ...],
    preferences: Sequence[Preference],
    deadline: Deadline,
) -> tuple[dict[str, None], bool]:
    """Return the best choice, and whether it is sure to be; or raise."""
    program = Program(problem.items, lines)
    x, sure = program.best(preferences, deadline)
    if x is not None:
        return {item: None for item, place in program.places.items() if x[place]}, sure
    conflict = conflict_of(problem, timeout=deadline.seconds) if sure else None
    if conflict is None:
        raise InputError(f"no choice was found within {deadline.seconds:g} s (allow more time)")
    raise conflict.error()
