"""`Forgetting`: what is to be forgotten, and what is then left of a record."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import overload

from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.records import check_id, check_user, string_tuple
from cnp_router.trajectories import Trajectory

__all__ = ["Forgetting", "Forgotten"]

_CONTINUED = re.compile(r"(?P<execution>execution-.+)-[0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What is to be forgotten: mashups, all records of users, APIs.

    Parameters
    ----------
    mashups : tuple of str, default=()
        Ids. The trajectory of the same id, which is what was done for it, goes with it; of an
        execution, whose id begins with ``execution-``, also those of its continuations, whose ids
        end with a number more (``execution-a1-2``).
    users : tuple of str, default=()
        As in `Mashup.user` and `Trajectory.user`.
    apis : tuple of str, default=()
        Ids. A mashup or trajectory that used others too stays, without them.

    Raises
    ------
    InputError
        If a value cannot be used, or nothing is to be forgotten.

    Examples
    --------
    >>> what = Forgetting(users=("ann",), apis=("sms",))
    >>> what.left_of(Mashup("m1", "Text me when it rains.", ("rain", "sms"))).apis
    ('rain',)
    >>> what.left_of(Mashup("m2", "A map of bars.", ("maps",), user="ann")) is None
    True
    """

    mashups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, kind in (("mashups", "mashup"), ("apis", "used API")):
            ids = (check_id(kind, each) for each in string_tuple(name, getattr(self, name)))
            object.__setattr__(self, name, tuple(dict.fromkeys(ids)))
        users = (check_user(user) for user in string_tuple("users", self.users))
        object.__setattr__(self, "users", tuple(dict.fromkeys(users)))
        if not (self.mashups or self.users or self.apis):
            raise InputError("nothing is to be forgotten (name a mashup, a user or an API)")

    @overload
    def left_of(self, record: Mashup) -> Mashup | None: ...
    @overload
    def left_of(self, record: Mashup | Trajectory) -> Mashup | Trajectory | None: ...
    def left_of(self, record: Mashup | Trajectory) -> Mashup | Trajectory | None:
        """Return a record as it is afterwards; None if nothing is left of it."""
        if record.id in self.mashups or (record.user is not None and record.user in self.users):
            return None
        if isinstance(record, Trajectory):
            continued = _CONTINUED.fullmatch(record.id)
            if continued and continued["execution"] in self.mashups:
                return None
        if isinstance(record, Mashup):
            if not any(api in self.apis for api in record.apis):
                return record
            mashup = record.without(self.apis)
            return mashup if mashup.apis else None
        steps = tuple(step for step in record.steps if step.tool not in self.apis)
        if len(steps) == len(record.steps):
            return record
        return replace(record, steps=steps) if steps else None


@dataclass(slots=True)
class Forgotten:
    """What was forgotten in some records.

    Attributes
    ----------
    mashups, trajectories : list of str
        Ids of those that are gone.
    n_changed : int
        Records that are there without an API that they used.
    n_steps : int
        Steps that these have lost.
    """

    mashups: list[str] = field(default_factory=list)
    trajectories: list[str] = field(default_factory=list)
    n_changed: int = 0
    n_steps: int = 0

    def add(self, record: Mashup | Trajectory, left: Mashup | Trajectory | None) -> None:
        """Count a record and what is left of it."""
        if left is None:
            gone = self.mashups if isinstance(record, Mashup) else self.trajectories
            gone.append(record.id)
        elif left is not record:
            self.n_changed += 1
            if isinstance(record, Trajectory) and isinstance(left, Trajectory):
                self.n_steps += len(record.steps) - len(left.steps)

    def __bool__(self) -> bool:
        return bool(self.mashups or self.trajectories or self.n_changed)
