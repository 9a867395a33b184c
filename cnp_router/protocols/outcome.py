"""What came of a request: the recommendation, the sets after each stage, and the cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cnp_router.protocols.auto import Choice
from cnp_router.protocols.ledger import Ledger
from cnp_router.protocols.transcript import Transcript
from cnp_router.routing import Routing

__all__ = ["Outcome", "Stages"]


@dataclass(frozen=True, slots=True)
class Stages:
    """The APIs in play after the reasoning steps; None where a protocol has no such step.

    Parameters
    ----------
    mapped : frozenset of str or None
        After category mapping: all APIs of the predicted categories.
    proposed : frozenset of str or None
        After API matching: those that were proposed in time.
    selected : frozenset of str
        After API selection.
    """

    mapped: frozenset[str] | None
    proposed: frozenset[str] | None
    selected: frozenset[str]


@dataclass(frozen=True)
class Outcome:
    """The result of a round.

    Parameters
    ----------
    request, protocol, announcement, organisation : str
        What was asked, and how; `protocol` is the one that was held.
    recommendation : tuple of str
        Ids of the APIs that the request needs.
    recipients : tuple of str
        Contractors that received an announcement.
    n_contractors : int
        How many contractors there are.
    categories : tuple of str or None
        After step 2.
    stages : Stages
    transcript : Transcript
    routing : Routing or None
        What the router decided, if it was asked.
    choice : Choice or None
        Why this protocol, if it was chosen by the request.
    """

    request: str
    protocol: str
    announcement: str
    organisation: str
    recommendation: tuple[str, ...]
    recipients: tuple[str, ...]
    n_contractors: int
    categories: tuple[str, ...] | None
    stages: Stages
    transcript: Transcript = field(repr=False)
    routing: Routing | None = field(default=None, repr=False)
    choice: Choice | None = None

    @property
    def ledger(self) -> Ledger:
        """What it has cost."""
        return self.transcript.ledger

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a JSON object, without the transcript."""
        routing = self.routing
        probabilities = {
            r.contractor: round(r.probability, 6) for r in (routing.recipients if routing else ())
        }
        return {
            "request": self.request,
            "protocol": self.protocol,
            "announce": self.announcement,
            "organise": self.organisation,
            "model": self.transcript.model,
            "recommendation": list(self.recommendation),
            "recipients": [
                {"contractor": name, "probability": probabilities.get(name)}
                for name in self.recipients
            ],
            "n_recipients": len(self.recipients),
            "n_contractors": self.n_contractors,
            "categories": None if self.categories is None else list(self.categories),
            "stages": {
                name: None if ids is None else len(ids)
                for name, ids in (
                    ("category", self.stages.mapped),
                    ("bid", self.stages.proposed),
                    ("final", self.stages.selected),
                )
            },
            "routing": None
            if routing is None
            else {
                "confidence": round(routing.confidence, 6),
                "threshold": routing.threshold,
                "is_confident": routing.is_confident,
                "fallback": routing.fallback,
                "source": routing.source,
            },
            "choice": None if self.choice is None else self.choice.to_dict(),
            "ledger": self.ledger.to_dict(),
        }
