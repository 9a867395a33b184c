"""The protocol by request: how vague it is, how uncertain the router, how widely it spreads."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.protocols.audience import look_ahead
from cnp_router.protocols.collaborative import Collaborative
from cnp_router.protocols.contractor_led import ContractorLed
from cnp_router.protocols.learned import Learned
from cnp_router.protocols.manager_led import ManagerLed
from cnp_router.protocols.outcome import Choice
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Result, Round
from cnp_router.protocols.settings import RoundSettings
from cnp_router.routing import Routing

__all__ = ["Auto", "choose_protocol"]

WIDE = 3.0  # effective categories, from which on naming a category or two leaves too much out
VAGUE = 8  # words: as many as a short sentence has


_CHOICES = {each.name: each for each in (Learned(), ManagerLed(), ContractorLed(), Collaborative())}


class Auto(Protocol):
    """Another protocol, chosen by the request (`choose_protocol`)."""

    name = "auto"
    summary = "One of the others, by the router's confidence and by how vague the request is."
    manager = "as in the protocol that is chosen by the request"
    contractors = "as there"
    needs_router = True
    announcements = ("routed",)

    def prepare(
        self,
        request: str,
        parties: Parties,
        settings: RoundSettings,
        announcement: str,
        date: datetime.date | None = None,
    ) -> tuple[Protocol, Choice | None]:
        """Choose the protocol, and have it check what it needs."""
        super().prepare(request, parties, settings, announcement, date)
        classifier = parties.classifier
        choice = choose_protocol(
            request,
            look_ahead(request, parties, settings, date),
            None if classifier is None else classifier.predict_proba([request])[0],
        )
        inner = _CHOICES[choice.protocol]
        chosen, _ = inner.prepare(request, parties, settings, announcement, date)
        return chosen, choice

    async def run(self, round_: Round) -> Result:
        """Not run by itself: `prepare` returns the protocol that is."""
        raise NotImplementedError("the protocol that is chosen runs the round")


def choose_protocol(
    request: str, routing: Routing, category_probabilities: NDArray[np.floating[Any]] | None
) -> Choice:
    """Choose the protocol for a request.

    A confident router needs no negotiation. Otherwise the thesis's discussion (5.2) is followed:
    where the categories are clear, top-down is the cheapest and the most exact; where they are not,
    contractors have to say themselves what they could do: for a request that says much, of
    its functions one by one; for one too short to be taken apart, of the request as it stands.

    Parameters
    ----------
    request : str
    routing : Routing
        With its confidence and threshold.
    category_probabilities : ndarray of shape (n_categories,), in [0, 1], or None
        Of the request, from the router's classifier.

    Returns
    -------
    Choice

    Examples
    --------
    >>> from cnp_router.routing import Recipient
    >>> unsure = Routing(request="", recipients=(Recipient("maps", 0.3),), recommendation=(),
    ...                  confidence=0.4, source="learned", n_apis=9, threshold=0.6,
    ...                  fallback="none")
    >>> choose_protocol("Photos on a map", unsure, np.array([0.9, 0.02, 0.01])).protocol
    'manager-led'
    >>> choose_protocol("Something useful", unsure, np.full(10, 0.1)).protocol
    'contractor-led'
    """
    spread = None if category_probabilities is None else _effective(category_probabilities)
    words = len(request.split())
    sure = f"the router's confidence is {routing.confidence:.2f}"
    if routing.is_confident:
        protocol: type[Protocol] = Learned
        reason = f"{sure}, which reaches the threshold of {routing.threshold:.2f}"
    elif spread is not None and spread < WIDE:
        protocol = ManagerLed
        reason = f"{sure}, but the request points to {spread:.1f} categories"
    elif words <= VAGUE:
        protocol = ContractorLed
        reason = f"{sure}, its categories are unclear, and {words} words are too few to take apart"
    else:
        protocol = Collaborative
        reason = f"{sure}, its categories are unclear, and {words} words can be taken apart"
    return Choice(protocol.name, reason + ".", routing.confidence, spread, words)


def _effective(probabilities: NDArray[np.floating[Any]]) -> float:
    """Return the exponential of the entropy of the probabilities, scaled to sum to 1."""
    total = float(probabilities.sum())
    if total <= 0:
        return float(len(probabilities))
    shares = probabilities[probabilities > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))
