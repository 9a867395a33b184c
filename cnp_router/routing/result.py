"""What a router answers: `Scores`, and the decision made from them, a `Routing`.

What is ranked are APIs. A contractor is who holds them: by default each API has one of its own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cnp_router.catalog import ROWS_SHOWN, html_table
from cnp_router.records import one_line, shown

__all__ = ["Reason", "Recipient", "Routing", "Scores", "Source"]

Source = Literal["learned", "llm", "broadcast"]


@dataclass(frozen=True, eq=False, repr=False)  # == of arrays has no truth value
class Scores:
    """The probability of each API that a request needs it.

    Parameters
    ----------
    apis : tuple of str
        All API ids.
    probabilities : ndarray of shape (n_apis,), in [0, 1]
        How far they can be taken as frequencies depends on the router; the learned router's are
        calibrated.
    evidence : object, default=None
        What the router that gave the scores makes its reasons of.

    Examples
    --------
    >>> Scores(("maps", "sms"), np.array([0.2, 0.9])).top(1)
    (('sms', 0.9),)
    """

    apis: tuple[str, ...]
    probabilities: NDArray[Any]
    evidence: Any = None

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Positions by descending probability; equal ones in the order of `apis`."""
        return np.argsort(-self.probabilities, kind="stable")

    def top(self, k: int) -> tuple[tuple[str, float], ...]:
        """Return the `k` most probable APIs, or all if there are fewer."""
        return tuple((self.apis[i], float(self.probabilities[i])) for i in self.order[: max(k, 0)])

    def __repr__(self) -> str:
        best = ", ".join(f"{shown(name)} {p:.2f}" for name, p in self.top(3))
        return f"Scores({len(self.apis)} APIs, best {best})"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an API is worth asking for, for a person to read.

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

    __repr__ = one_line


@dataclass(frozen=True, slots=True, repr=False)
class Recipient:
    """A contractor that receives the announcement.

    Parameters
    ----------
    contractor : str
        By the id of its API: the router ranks APIs, and knows no other contractors than one for
        each API.
    probability : float in [0, 1]
        That the request needs the API.
    reasons : tuple of Reason, default=()
        Strongest first.
    """

    contractor: str
    probability: float
    reasons: tuple[Reason, ...] = ()

    def __repr__(self) -> str:
        why = f", {shown(self.reasons[0].text)}" if self.reasons else ""
        return f"Recipient({shown(self.contractor)}, {self.probability:.2f}{why})"


@dataclass(frozen=True, repr=False)
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
    n_apis : int
        How many APIs there are: what a broadcast would reach.
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
    >>> routing
    Routing('a map', 1 of 40 APIs: 'maps' 0.90, confidence 0.80, learned)
    >>> routing.contractors, routing.is_confident
    (('maps',), True)
    """

    request: str
    recipients: tuple[Recipient, ...]
    recommendation: tuple[str, ...]
    confidence: float
    source: Source
    n_apis: int
    threshold: float
    fallback: str
    known: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def contractors(self) -> tuple[str, ...]:
        """Ids of the recipients, which are those of their APIs, most probable first."""
        return tuple(recipient.contractor for recipient in self.recipients)

    @property
    def is_confident(self) -> bool:
        """Whether the confidence reaches the threshold."""
        return self.confidence >= self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Return the routing as a JSON object.

        Its numbers of contractors and messages are those of one contractor for each API.
        """
        return {
            "request": self.request,
            "known": list(self.known),
            "ignored": list(self.ignored),
            "recommendation": list(self.recommendation),
            "recipients": [
                {
                    "contractor": r.contractor,
                    "probability": round(r.probability, 6),
                    "reasons": [{**asdict(x), "references": list(x.references)} for x in r.reasons],
                }
                for r in self.recipients
            ],
            "n_recipients": len(self.recipients),
            "n_contractors": self.n_apis,
            "messages_saved": self.n_apis - len(self.recipients),
            "confidence": round(self.confidence, 6),
            "threshold": self.threshold,
            "is_confident": self.is_confident,
            "fallback": self.fallback,
            "source": self.source,
        }

    def __repr__(self) -> str:
        best = ", ".join(f"{shown(r.contractor)} {r.probability:.2f}" for r in self.recipients[:3])
        more = ", ..." if len(self.recipients) > 3 else ""
        return (
            f"Routing({shown(self.request)}, {len(self.recipients)} of {self.n_apis} APIs: "
            f"{best}{more}, confidence {self.confidence:.2f}, {self.source})"
        )

    def _repr_html_(self) -> str:
        rows = [
            (r.contractor, f"{r.probability:.2f}", "; ".join(reason.text for reason in r.reasons))
            for r in self.recipients[:ROWS_SHOWN]
        ]
        return html_table(repr(self), ("API", "probability", "why"), rows, len(self.recipients))
