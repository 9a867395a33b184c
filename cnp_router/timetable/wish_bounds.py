"""Bounds of a form that wishes move: of the credits, and of the times to avoid."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cnp_router.exceptions import InputError
from cnp_router.timetable.course import DAYS, PERIODS, slots_of
from cnp_router.timetable.form import Form

__all__ = ["check_bounds", "without_slots"]

_BOUNDS = ("min_credits", "max_credits")


def check_bounds(form: Form, said: Mapping[str, float]) -> None:
    """Raise InputError where the least credits are above the most: in the words of a text.

    `said` has the bounds that the text moves, by the name of the field.
    """
    low, high = (said.get(name, getattr(form, name)) for name in _BOUNDS)
    if not said or low is None or high is None or low <= high:
        return
    when = {name: "said now" if name in said else "said before" for name in _BOUNDS}
    near = (low, low + 2) if "min_credits" in said else (max(high - 2, 0), high)
    raise InputError(
        f"at least {low:g} credits ({when['min_credits']}) and at most {high:g} credits "
        f"({when['max_credits']}) do not go together (say both, such as 'between {near[0]:g} and "
        f"{near[1]:g} credits')"
    )


def without_slots(entry: str, slots: Collection[str]) -> tuple[str, ...]:
    """Return an entry of `Form.avoid`, or what is left of a day without some of its slots.

    Examples
    --------
    >>> without_slots("Fri", ["Fri 1", "Fri 2"])
    ('Fri 3', 'Fri 4', 'Fri 5')
    """
    left = tuple(slot for slot in slots_of("avoid", entry) if slot not in slots)
    return left if entry in DAYS and len(left) < len(PERIODS) else (entry,)
