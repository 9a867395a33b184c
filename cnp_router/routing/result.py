"""What a router answers: `Scores`, and the decision made from them, a `Routing`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reason", "Recipient", "Routing", "Scores", "Source"]

Source = Literal["learned", "llm", "broadcast"]


@dataclass(frozen=True, eq=False)  # == of arrays has no truth value
class Scores:
    """The probability of each contractor that a request needs it.

    Parameters
    ----------
    contractors : tuple of str
        All contractor ids.
    probabilities : ndarray of shape (n_contractors,), in [0, 1]
        How far they can be taken as frequencies depends on the router; the learned router's are
        calibrated.

    Examples
    --------
    >>> Scores(("maps", "sms"), np.array([0.2, 0.9])).top(1)
    (('sms', 0.9),)
    """

    contractors: tuple[str, ...]
    probabilities: NDArray[Any]

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Positions by descending probability; equal ones in contractor order."""
        return np.argsort(-self.probabilities, kind="stable")

    def top(self, k: int) -> tuple[tuple[str, float], ...]:
        """Return the `k` most probable contractors, or all if there are fewer."""
        return tuple(
            (self.contractors[i], float(self.probabilities[i])) for i in self.order[: max(k, 0)]
        )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a contractor is worth asking, for a person to read.

    Parameters
    ----------
    kind : str
        The evidence: ``"name"``, ``"history"``, ``"specification"``, ``"co-usage"``,
        ``"category"`` or ``"popularity"``.
    text : str
        One phrase.
    references : tuple of str, default=()
        Ids of the mashups or APIs, or names of the categories, that the phrase is about.
    """

    kind: str
    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipient:
    """A contractor that receives the announcement.

    Parameters
    ----------
    contractor : str
    probability : float in [0, 1]
        That the request needs it.
    reasons : tuple of Reason, default=()
        Strongest first.
    """

    contractor: str
    probability: float
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Routing:
    """The decision: who receives the announcement of a request.

    Parameters
    ----------
    request : str
    recipients : tuple of Recipient
        Most probable first; never empty.
    recommendation : tuple of str
        The APIs that the router itself would use: the set of the highest expected F1.
    confidence : float in [0, 1]
        Probability that the recipients the router chose cover all that the request needs.
    source : {"learned", "llm", "broadcast"}
        Who chose the recipients: the router itself, or a fallback.
    n_contractors : int
        How many contractors there are: what a broadcast would reach.
    threshold : float in [0, 1]
        Below this confidence the fallback decides.
    fallback : str
        Name of the fallback that was allowed.
    known : tuple of str, default=()
        APIs already in use; never among the recipients.
    ignored : tuple of str, default=()
        Ids given as known that the router has never heard of.

    Examples
    --------
    >>> routing = Routing("a map", (Recipient("maps", 0.9),), ("maps",), 0.8, "learned", 40, 0.6,
    ...                   "none")
    >>> routing.contractors, routing.messages_saved, routing.is_confident
    (('maps',), 39, True)
    """

    request: str
    recipients: tuple[Recipient, ...]
    recommendation: tuple[str, ...]
    confidence: float
    source: Source
    n_contractors: int
    threshold: float
    fallback: str
    known: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def contractors(self) -> tuple[str, ...]:
        """Ids of the recipients, most probable first."""
        return tuple(recipient.contractor for recipient in self.recipients)

    @property
    def messages_saved(self) -> int:
        """Announcements that a broadcast would send and this routing does not."""
        return self.n_contractors - len(self.recipients)

    @property
    def is_confident(self) -> bool:
        """Whether the confidence reaches the threshold."""
        return self.confidence >= self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Return the routing as a JSON object."""
        return {
            "request": self.request,
            "known": list(self.known),
            "ignored": list(self.ignored),
            "recommendation": list(self.recommendation),
            "recipients": [
                {
                    "contractor": r.contractor,
                    "probability": round(r.probability, 6),
                    "reasons": [
                        {"kind": x.kind, "text": x.text, "references": list(x.references)}
                        for x in r.reasons
                    ],
                }
                for r in self.recipients
            ],
            "n_recipients": len(self.recipients),
            "n_contractors": self.n_contractors,
            "messages_saved": self.messages_saved,
            "confidence": round(self.confidence, 6),
            "threshold": self.threshold,
            "is_confident": self.is_confident,
            "fallback": self.fallback,
            "source": self.source,
        }
