"""`Recipient`: who receives an announcement; its reasons are made when they are first read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from cnp_router.records import one_line, shown

__all__ = ["Reason", "Recipient", "recipients_of", "used_by"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an API is worth asking for, for a person to read.

    Parameters
    ----------
    kind : str
        The evidence: ``"clause"``, ``"name"``, ``"history"``, ``"specification"``,
        ``"co-usage"``, ``"category"`` or ``"popularity"``.
    text : str
        One phrase.
    references : tuple of str, default=()
        Ids of the mashups or APIs, names of the categories, or the part of the request, that the
        phrase is about.
    """

    kind: str
    text: str
    references: tuple[str, ...] = ()

    __repr__ = one_line


def used_by(n: int) -> str:
    """Return the reason that so many similar past requests used an API."""
    return f"used by {'a similar past request' if n == 1 else f'{n} similar past requests'}"


_TOGETHER = 128  # recipients whose reasons are made together: most routings have fewer

Explain = Callable[[slice], Mapping[str, tuple[Reason, ...]]]
"""Return the reasons of some of the recipients, given by their places, by the ids of their APIs."""


class Reasons:
    """The reasons of some recipients: made together, when the first of them is asked for."""

    __slots__ = ("_found", "_lock", "_make")

    def __init__(self, make: Callable[[], Mapping[str, tuple[Reason, ...]]]) -> None:
        self._make: Callable[[], Mapping[str, tuple[Reason, ...]]] | None = make
        self._found: Mapping[str, tuple[Reason, ...]] | None = None
        self._lock = threading.Lock()

    def of(self, contractor: str) -> tuple[Reason, ...]:
        """Return the reasons of one of the recipients."""
        with self._lock:
            if self._make is not None:
                self._found = self._make()
                self._make = None  # what they were made of is needed no more
        assert self._found is not None
        return self._found.get(contractor, ())


class _Explained:
    """What reasons that have not been read yet come from; beside the fields of a recipient."""

    __slots__ = ("_unread",)

    _unread: Reasons


@dataclass(frozen=True, slots=True, repr=False)
class Recipient(_Explained):
    """A contractor that receives the announcement.

    Parameters
    ----------
    contractor : str
        By the id of its API: the router ranks APIs, and knows no other contractors than one for
        each API.
    probability : float in [0, 1]
        That the request needs the API.
    reasons : tuple of Reason, default=()
        Strongest first. Those of a routing are made when they are first read, of what the router
        knew when it decided.

    Examples
    --------
    >>> Recipient("maps", 0.9, (Reason("name", "the request names it"),))
    Recipient('maps', 0.90, 'the request names it')
    """

    contractor: str
    probability: float
    reasons: tuple[Reason, ...] = ()

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Return the reasons, where they have not been read yet."""
            if name != "reasons":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            reasons = self._unread.of(self.contractor)
            object.__setattr__(self, name, reasons)
            return reasons

    def __repr__(self) -> str:
        why = f", {shown(self.reasons[0].text)}" if self.reasons else ""
        return f"Recipient({shown(self.contractor)}, {self.probability:.2f}{why})"


# A broadcast makes one for each API: no call of `__init__` and of `object.__setattr__` for those.
_set_contractor = Recipient.__dict__["contractor"].__set__
_set_probability = Recipient.__dict__["probability"].__set__
_set_unread = _Explained.__dict__["_unread"].__set__


def recipients_of(
    contractors: Sequence[str], probabilities: Sequence[float], explain: Explain
) -> tuple[Recipient, ...]:
    """Return recipients whose reasons are made when they are read, with those of some others."""
    made: list[Recipient] = []
    pairs = zip(contractors, probabilities, strict=True)
    while some := tuple(islice(pairs, _TOGETHER)):
        where = slice(len(made), len(made) + len(some))
        reasons = Reasons(partial(explain, where))
        for contractor, probability in some:
            recipient = object.__new__(Recipient)
            _set_contractor(recipient, contractor)
            _set_probability(recipient, probability)
            _set_unread(recipient, reasons)
            made.append(recipient)
    return tuple(made)
