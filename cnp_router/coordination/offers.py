"""`Negotiation`: what those who could do a job were judged by, and what they said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cnp_router.records import one_line

__all__ = ["Negotiation", "Offer"]


@dataclass(frozen=True, slots=True)
class Offer:
    """What one who could do a job was judged by, and whether it takes it.

    Parameters
    ----------
    api : str
    score : float
        ``0.5 * match + 0.3 / load + 0.2 * past``, or with the weights of the negotiator.
    match : float in [0, 1]
        How well it fits, by the router.
    load : int >= 1
        Acts of its source, this one counted.
    past : float in [0, 1]
        How often it succeeds, or a draw of that.
    is_accepted : bool, default=True
    reason : str, default=""
        Why it was declined: words of a server are data.
    said_by : {"coordinator", "server"}, default="coordinator"
        Who spoke for it.
    """

    api: str
    score: float
    match: float
    load: int
    past: float
    is_accepted: bool = True
    reason: str = ""
    said_by: Literal["coordinator", "server"] = "coordinator"

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class Negotiation:
    """What came of a negotiation: the offers, best first.

    Examples
    --------
    >>> offers = (Offer("a__rain", 0.9, 0.8, 1, 1.0, False, "under repair", "server"),
    ...           Offer("b__rain", 0.7, 0.8, 3, 1.0))
    >>> Negotiation(offers).order, Negotiation(offers).declined
    (('b__rain',), {'a__rain': 'under repair'})
    """

    offers: tuple[Offer, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """Who may do it, best first."""
        return tuple(each.api for each in self.offers if each.is_accepted)

    @property
    def declined(self) -> dict[str, str]:
        """Why, by who declined."""
        return {each.api: each.reason for each in self.offers if not each.is_accepted}

    __repr__ = one_line
