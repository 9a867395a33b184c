"""`Rule`, `Preference`, `Problem`: what may be chosen together, and what is liked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cnp_router.closest import closest
from cnp_router.exceptions import InputError
from cnp_router.records import (
    check_id,
    check_number,
    check_text,
    instances,
    positions,
    shown,
    string_tuple,
)

__all__ = ["TOLERANCE", "Preference", "Problem", "Rule"]

TOLERANCE = 1e-9
"""By how much a sum may miss its bound, as a share of the largest coefficient of the rule."""

_LARGEST = 1e9  # beyond it, sums of floats lose what the small coefficients say


@dataclass(frozen=True, slots=True)
class Rule:
    """A hard rule: the sum of the coefficients of what is chosen has bounds.

    Parameters
    ----------
    name : str
        Rules of one name belong together, such as "one course at a time", which is a sum for each
        hour. They are blamed together for a conflict.
    reason : str
        Why it is so, in words that stand in errors and reports.
    coefficients : mapping of str to float
        By item id; from -1e9 to 1e9. Other items count 0.
    at_least, at_most : float, optional
        Bounds of the sum, at least one of them.

    Raises
    ------
    InputError
        If a value cannot be used, or the rule contradicts itself: `at_least` is above `at_most`,
        or no choice reaches a bound.

    Examples
    --------
    >>> Rule("budget", "the budget is 10", {"tea": 4, "cake": 7}, at_most=10).total({"tea"})
    4.0
    >>> Rule("budget", "the budget is 10", {"tea": 4}, at_least=10)
    Traceback (most recent call last):
    cnp_router.exceptions.InputError: rule 'budget' can never hold: all together give 4, and it \
asks for at least 10 (the budget is 10)
    """

    name: str
    reason: str
    coefficients: Mapping[str, float] = field(hash=False)
    at_least: float | None = field(default=None, kw_only=True)
    at_most: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        where = _named("rule", self.name, self.reason)
        object.__setattr__(self, "coefficients", _numbers(where, self.coefficients))
        for name in ("at_least", "at_most"):
            value = getattr(self, name)
            if value is not None:
                bound = check_number(f"{name} of {where}", value, -1e12, 1e12)
                object.__setattr__(self, name, bound)
        self._check_bounds(where)

    def _check_bounds(self, where: str) -> None:
        low, high = self.at_least, self.at_most
        if low is None and high is None:
            raise InputError(f"{where} binds nothing (give at_least or at_most)")
        if low is not None and high is not None and low > high:
            raise InputError(
                f"{where} contradicts itself: at least {low:g} and at most {high:g} ({self.reason})"
            )
        most = sum(value for value in self.coefficients.values() if value > 0)
        least = sum(value for value in self.coefficients.values() if value < 0)
        if low is not None and low - most > self.slip:
            raise InputError(
                f"{where} can never hold: all together give {most:g}, and it asks for at least "
                f"{low:g} ({self.reason})"
            )
        if high is not None and least - high > self.slip:
            raise InputError(
                f"{where} can never hold: nothing gives less than {least:g}, and it allows at most "
                f"{high:g} ({self.reason})"
            )

    @property
    def scale(self) -> float:
        """The largest coefficient without its sign; 1 if there is none."""
        return max(map(abs, self.coefficients.values()), default=0.0) or 1.0

    @property
    def slip(self) -> float:
        """By how much the sum may miss a bound and still count as within it: for rounding."""
        return TOLERANCE * self.scale

    def total(self, chosen: Collection[str]) -> float:
        """Return the sum of what is chosen."""
        return float(sum(value for item, value in self.coefficients.items() if item in chosen))

    def holds(self, chosen: Collection[str]) -> bool:
        """Return whether the sum of what is chosen is within the bounds."""
        return self.breach(self.total(chosen)) == ""

    def breach(self, total: float) -> str:
        """Return how a sum misses the bounds, as ``"18 instead of at most 16"``; else ``""``."""
        if self.at_least is not None and self.at_least - total > self.slip:
            return f"{total:g} instead of at least {self.at_least:g}"
        if self.at_most is not None and total - self.at_most > self.slip:
            return f"{total:g} instead of at most {self.at_most:g}"
        return ""


@dataclass(frozen=True, slots=True)
class Preference:
    """What is liked or disliked: weighed against other preferences, and never binding.

    Parameters
    ----------
    name : str
        Unique in a problem.
    reason : str
        In words.
    values : mapping of str to float
        What each item gains, by id; negative for what is disliked. Other items gain 0.
    weight : float, default=1
        From 0. The gains are multiplied by it.
    at_most : float, optional
        More than this is not gained together, before the weight: enough is enough.

    Examples
    --------
    >>> sweets = Preference("sweets", "likes sweets", {"cake": 2, "ice": 2}, 0.5, at_most=3)
    >>> sweets.gain({"cake"}), sweets.gain({"cake", "ice", "tea"})
    (1.0, 1.5)
    """

    name: str
    reason: str
    values: Mapping[str, float] = field(hash=False)
    weight: float = 1.0
    at_most: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        where = _named("preference", self.name, self.reason)
        object.__setattr__(self, "values", _numbers(where, self.values))
        weight = check_number(f"the weight of {where}", self.weight, 0, _LARGEST)
        object.__setattr__(self, "weight", weight)
        if self.at_most is not None:
            most = check_number(f"at_most of {where}", self.at_most, 0, 1e12)
            object.__setattr__(self, "at_most", most)

    def total(self, chosen: Collection[str]) -> float:
        """Return the sum of the values of what is chosen, without weight and limit."""
        return float(sum(value for item, value in self.values.items() if item in chosen))

    def gain(self, chosen: Collection[str]) -> float:
        """Return what is gained by what is chosen."""
        total = self.total(chosen)
        return self.weight * (total if self.at_most is None else min(total, self.at_most))


@dataclass(frozen=True, slots=True)
class Problem:
    """Which of some items to choose.

    Parameters
    ----------
    items : sequence of str
        Ids, unique, at least one.
    rules : sequence of Rule
        Each holds for every solution.
    preferences : sequence of Preference, optional
        The solution gains most by them.
    fixed : collection of str, optional
        Items that are chosen in any case.
    hidden : collection of str, optional
        Items that are not shown in a solution: they stand for something, such as "Friday is free".

    Raises
    ------
    InputError
        If there is no item, a rule or preference names one that is not there, or two preferences,
        or two items, have the same name.

    Examples
    --------
    >>> Problem(["tea", "cake"], [Rule("budget", "10", {"pie": 4}, at_most=10)])
    Traceback (most recent call last):
    cnp_router.exceptions.InputError: rule 'budget' names the item 'pie', which is not there (use \
an id of the items)
    """

    items: Sequence[str]
    rules: Sequence[Rule]
    preferences: Sequence[Preference] = ()
    fixed: Collection[str] = ()
    hidden: Collection[str] = ()

    def __post_init__(self) -> None:
        items = tuple(check_id("item", item) for item in string_tuple("items", self.items))
        places = positions("item", items)
        if not items:
            raise InputError("a problem needs at least one item (got none)")
        rules = instances("rules", self.rules, Rule)
        preferences = instances("preferences", self.preferences, Preference)
        positions("preference", (each.name for each in preferences))
        for rule in rules:
            known(f"rule {rule.name!r}", rule.coefficients, places)
        for each in preferences:
            known(f"preference {each.name!r}", each.values, places)
        for name in ("fixed", "hidden"):
            ids = string_tuple(name, getattr(self, name))
            known(f"'{name}'", ids, places)
            object.__setattr__(self, name, tuple(dict.fromkeys(ids)))
        for name, value in (("items", items), ("rules", rules), ("preferences", preferences)):
            object.__setattr__(self, name, value)

    @property
    def lines(self) -> tuple[Rule, ...]:
        """The rules, and one more for each fixed item."""
        fixed = (
            Rule(f"{item} is fixed", f"{item} is fixed", {item: 1.0}, at_least=1.0)
            for item in self.fixed
        )
        return (*self.rules, *fixed)

    def __repr__(self) -> str:
        return (
            f"Problem({len(self.items)} items, {len(self.rules)} rules, "
            f"{len(self.preferences)} preferences)"
        )


def known(who: str, ids: Iterable[str], places: Collection[str]) -> None:
    """Raise InputError where an id is not among those of the items."""
    for item in ids:
        if item not in places:
            close = closest(item, places)
            cure = f"did you mean {close[0]!r}?" if close else "use an id of the items"
            raise InputError(f"{who} names the item {shown(item)}, which is not there ({cure})")


def _named(kind: str, name: object, reason: object) -> str:
    """Return what to call a rule in errors; both its texts must say something."""
    for what, text in ((f"the name of a {kind}", name), (f"the reason of {kind} {name!r}", reason)):
        if not check_text(what, text).strip():
            raise InputError(f"{what} must not be blank, got {shown(text)}")
    return f"{kind} {name!r}"


def _numbers(where: str, values: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(values, Mapping):
        raise InputError(f"{where} needs a number by item id, got {shown(values)}")
    return {
        check_id("item", item): check_number(
            f"the number of {item!r} in {where}", value, -_LARGEST, _LARGEST
        )
        for item, value in values.items()
    }
