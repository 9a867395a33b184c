"""The protocol by request: how vague it is, how uncertain the router, how widely it spreads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing import Routing

__all__ = ["Choice", "choose_protocol"]

WIDE = 3.0  # effective categories, from which on naming a category or two leaves too much out
VAGUE = 8  # words: as many as a short sentence has


@dataclass(frozen=True, slots=True)
class Choice:
    """A protocol, and why.

    Parameters
    ----------
    protocol : str
    reason : str
        One sentence.
    confidence : float in [0, 1]
        Of the routing.
    spread : float or None
        Effective number of categories that the request may call for; None without categories.
    words : int
        Of the request.
    """

    protocol: str
    reason: str
    confidence: float
    spread: float | None
    words: int

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as a JSON object."""
        return {
            "protocol": self.protocol,
            "reason": self.reason,
            "confidence": round(self.confidence, 6),
            "spread": None if self.spread is None else round(self.spread, 6),
            "words": self.words,
        }


def choose_protocol(
    request: str, routing: Routing, category_probabilities: NDArray[np.floating[Any]] | None
) -> Choice:
    """Choose the protocol for a request.

    A confident router needs no negotiation. Otherwise the thesis's discussion (5.2) is followed:
    where the categories are clear, top-down is the cheapest and the most exact; where they are not,
    contractors have to say themselves what they could do: for a request that is told at length, of
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
        protocol = "learned"
        reason = f"{sure}, which reaches the threshold of {routing.threshold:.2f}"
    elif spread is not None and spread < WIDE:
        protocol = "manager-led"
        reason = f"{sure}, but the request points to {spread:.1f} categories"
    elif words <= VAGUE:
        protocol = "contractor-led"
        reason = f"{sure}, its categories are unclear, and {words} words are too few to take apart"
    else:
        protocol = "collaborative"
        reason = f"{sure}, its categories are unclear, and {words} words can be taken apart"
    return Choice(protocol, reason + ".", routing.confidence, spread, words)


def _effective(probabilities: NDArray[np.floating[Any]]) -> float:
    """Return the exponential of the entropy of the probabilities, scaled to sum to 1."""
    total = float(probabilities.sum())
    if total <= 0:
        return float(len(probabilities))
    shares = probabilities[probabilities > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))
