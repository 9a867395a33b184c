"""What the fields of a form may hold."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.records import check_flag, check_number, check_text, shown, string_tuple
from cnp_router.timetable import tastes
from cnp_router.timetable.course import ASSESSMENTS, FORMS, PERIODS, YEARS, slots_of

__all__ = ["CHECKS", "Liking", "check_day", "check_entry", "department_of", "one_of"]

_MOST_CREDITS = 100


@dataclass(frozen=True, slots=True)
class Liking:
    """What of a kind is liked, avoided, or excluded.

    Parameters
    ----------
    liked, avoided : tuple of str, optional
        Preferences: weighed.
    excluded : tuple of str, optional
        A rule: no course has it.

    Examples
    --------
    >>> Liking(liked=["seminar"], excluded=["laboratory"]).excluded
    ('laboratory',)
    """

    liked: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for name in ("liked", "avoided", "excluded"):
            each = tuple(dict.fromkeys(string_tuple(name, getattr(self, name))))
            object.__setattr__(self, name, each)
            for said in each:
                if said in seen:
                    raise InputError(f"{said!r} is both {seen[said]} and {name} (choose one)")
                seen[said] = name

    def to_dict(self) -> dict[str, list[str]]:
        """Return the JSON object, without what is empty."""
        lists = dataclasses.asdict(self)
        return {name: list(each) for name, each in lists.items() if each}

    def changed(self, name: str, kind: str | None) -> Liking:
        """Return it with a name liked, avoided or excluded; None: nothing is said of it."""
        rest = {
            each: tuple(said for said in getattr(self, each) if said != name)
            for each in ("liked", "avoided", "excluded")
        }
        return Liking(**rest | ({} if kind is None else {kind: (*rest[kind], name)}))


def one_of(what: str, value: str, known: Any) -> str:
    """Return a value that is known, or raise InputError with a close one."""
    if value in known:
        return value
    by_lower = {each.lower(): each for each in known}
    if value.lower() in by_lower:
        close = [by_lower[value.lower()]]
    else:
        near = difflib.get_close_matches(value.lower(), by_lower, n=3, cutoff=0.5)
        part = [each for each in by_lower if value and value.lower() in each]
        close = [by_lower[each] for each in near or part[:3]]
    few = sorted(known)
    rest = f"use one of {', '.join(few)}" if len(few) <= 20 else f"there are {len(few)}"
    cure = f"did you mean {' or '.join(map(repr, close))}?" if close else rest
    raise InputError(f"{what} {shown(value)} is unknown ({cure})")


def department_of(words: str, departments: Collection[str]) -> str:
    """Return the department that words name: its name in any letters, or a part of it."""
    said = words.strip().lower()
    named = [each for each in departments if said == each.lower()]
    named = named or [each for each in departments if said and said in each.lower()]
    return named[0] if len(named) == 1 else one_of("department", words.strip(), departments)


def _text(name: str, value: object) -> str:
    text = check_text(name, value)
    if name == "department" and not text.strip():
        raise InputError(f"department must not be blank, got {shown(value)}")
    return text.strip()


def _free_day(name: str, value: object) -> bool | str:
    return value if isinstance(value, bool) else check_day(name, value)


def check_day(name: str, value: object) -> str:
    """Return a day as slots call it, ``"Wed"``."""
    slots: tuple[str, ...] = ()
    if isinstance(value, str):
        with suppress(InputError):
            slots = slots_of(name, value)
    if len({slot[:3] for slot in slots}) != 1 or len(slots) == 1:
        days = "a day from Mon to Fri, such as 'Wed'"
        raise InputError(f"{name} must be true, false or {days}, got {shown(value)}")
    return slots[0][:3]


def _avoid(name: str, value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_entry(name, each) for each in string_tuple(name, value)))


def check_entry(name: str, value: str) -> str:
    """Return ``"Fri"``, ``"Mon 2"`` or ``"period 5"`` of any way to say it."""
    slots = slots_of(name, value)
    if len(slots) == 1:
        return slots[0]
    return slots[0][:3] if slots[0][:3] == slots[1][:3] else f"period {slots[0][4:]}"


def _years(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"{name} must be a list of numbers from 1 to 6, got {shown(value)}")
    years = (check_number(name, each, YEARS[0], YEARS[-1], whole=True) for each in value)
    return tuple(sorted(set(years)))


def _liking_of(known: Sequence[str] | None) -> Any:
    def check(name: str, value: object) -> Liking:
        if not isinstance(value, Liking):
            problem = "an object with 'liked', 'avoided' and 'excluded'"
            raise InputError(f"{name} must be {problem}, got {shown(value)}")
        for each in (*value.liked, *value.avoided, *value.excluded):
            if known is not None:
                one_of(name, each, known)
        return value

    return check


def _ids(name: str, value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(string_tuple(name, value)))


def _weights(name: str, value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be an object of numbers, got {shown(value)}")
    for each in value:
        one_of(name, each, tastes.WEIGHTS)
    return {each: check_number(f"{name} of {each}", v, 0, 1000) for each, v in value.items()}


CHECKS: Mapping[str, Any] = {
    "department": _text,
    "year": lambda name, v: check_number(name, v, YEARS[0], YEARS[-1], whole=True),
    "min_credits": lambda name, v: check_number(name, v, 0, _MOST_CREDITS),
    "max_credits": lambda name, v: check_number(name, v, 0, _MOST_CREDITS),
    "first_period": check_flag,
    "gaps": check_flag,
    "free_day": _free_day,
    "interests": _text,
    "years": _years,
    "avoid": _avoid,
    "max_per_day": lambda name, v: check_number(name, v, 1, len(PERIODS), whole=True),
    "forms": _liking_of(FORMS),
    "assessment": _liking_of(ASSESSMENTS),
    "fields": _liking_of(None),
    "fixed": _ids,
    "dropped": _ids,
    "weights": _weights,
}
"""How the value of each field of a form is checked, and converted."""
