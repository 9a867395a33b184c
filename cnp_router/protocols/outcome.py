"""What came of a request: the recommendation, the sets after each stage, and the cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cnp_router.catalog import html_table
from cnp_router.protocols.ledger import Ledger
from cnp_router.protocols.messages import InformResult, Proposal
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.round import Result
from cnp_router.protocols.transcript import Transcript
from cnp_router.protocols.validation import conclude
from cnp_router.records import one_line
from cnp_router.routing import Routing

__all__ = ["Choice", "Outcome", "Stages"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A protocol, and why."""

    protocol: str
    reason: str  # one sentence
    confidence: float  # of the routing, in [0, 1]
    spread: float | None  # effective number of categories of the request; None without categories
    words: int  # of the request

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as a JSON object."""
        fields = asdict(self)
        return {n: round(v, 6) if isinstance(v, float) else v for n, v in fields.items()}


@dataclass(frozen=True, slots=True)
class Stages:
    """The APIs in play after the reasoning steps; None where a protocol has no such step."""

    mapped: frozenset[str] | None  # all APIs of the predicted categories
    proposed: frozenset[str] | None  # those that were proposed in time
    selected: frozenset[str]

    __repr__ = one_line


@dataclass(frozen=True, repr=False)
class Outcome:
    """The result of a round.

    Parameters
    ----------
    request, protocol, announcement, organisation : str
        What was asked, and how; `protocol` is the one that was run.
    recommendation : tuple of str
        Ids of the APIs that the request needs; if they were acted on, of those with a result.
    recipients : tuple of str
        Contractors that received an announcement; category managers, which pass it on, are none.
    n_contractors : int
        How many contractors there are, that the request may reach.
    categories : tuple of str or None
        After category mapping.
    stages : Stages
    transcript : Transcript
    probabilities : mapping of str to float
        Of each recipient that the router chose: the highest of its APIs.
    routing : Routing or None
        What the router decided, if it was asked.
    choice : Choice or None
        Why this protocol, if it was chosen by the request.
    results : tuple of InformResult
        What came of the awards, if they were acted on; in the order of the awards.
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
    transcript: Transcript
    probabilities: Mapping[str, float] = field(default_factory=dict)
    routing: Routing | None = None
    choice: Choice | None = None
    results: tuple[InformResult, ...] = ()

    @classmethod
    def of(
        cls,
        result: Result,
        transcript: Transcript,
        parties: Parties,
        *,
        organisation: str,
        matched: bool,
        choice: Choice | None,
    ) -> Outcome:
        """Return what a round comes to; `matched` says whether API matching is a step of it."""
        said = conclude(transcript)
        mapped = None if result.categories is None else parties.apis_in(result.categories)
        probabilities: dict[str, float] = {}
        for recipient in result.routing.recipients if result.routing else ():
            for holder in parties.holders_of([recipient.contractor]):
                highest = max(recipient.probability, probabilities.get(holder.id, 0.0))
                probabilities[holder.id] = highest
        return cls(
            request=transcript.request,
            protocol=transcript.protocol,
            announcement=transcript.announcement,
            organisation=organisation,
            recommendation=said.recommendation,
            recipients=said.recipients,
            n_contractors=len(parties.contractors),
            categories=result.categories,
            stages=Stages(
                None if mapped is None else frozenset(mapped),
                frozenset(said.proposed) if matched else None,
                frozenset(result.apis),
            ),
            transcript=transcript,
            probabilities=probabilities,
            routing=result.routing,
            choice=choice,
            results=said.results,
        )

    @property
    def executed(self) -> bool:
        """Whether what was awarded was then acted on."""
        return self.transcript.executed

    @property
    def ledger(self) -> Ledger:
        """What it has cost."""
        return self.transcript.ledger

    @property
    def failure(self) -> str | None:
        """Why nothing came of it, if every call for proposals or every award failed; else None.

        It names the kinds of failure and the first one's words. A round where it is not None has
        an outcome all the same: an empty one. A caller to whom that is an error raises it.
        """
        return self.transcript.failure

    def grounds(self) -> dict[str, str]:
        """Return why each API was proposed, or what the router has to say of it."""
        recipients = self.routing.recipients if self.routing else ()
        learned = {r.contractor: "; ".join(x.text for x in r.reasons[:2]) for r in recipients}
        return learned | {
            proposed.api: proposed.grounds
            for message in self.transcript.messages
            if isinstance(message, Proposal) and not message.late
            for proposed in message.apis
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a JSON object, without the transcript."""
        stages, routing = self.stages, self.routing
        probabilities = {name: round(p, 6) for name, p in self.probabilities.items()}
        sizes = {"category": stages.mapped, "bid": stages.proposed, "final": stages.selected}
        decided = {} if routing is None else routing.to_dict()
        shown = ("answerable", "confidence", "threshold", "is_confident", "fallback", "source")
        return {
            "request": self.request,
            "protocol": self.protocol,
            "announce": self.announcement,
            "organise": self.organisation,
            "evidence": self.transcript.evidence,
            "model": self.transcript.model,
            "recommendation": list(self.recommendation),
            "executed": self.executed,
            "results": [each.to_dict() for each in self.results],
            "recipients": [
                {"contractor": name, "probability": probabilities.get(name)}
                for name in self.recipients
            ],
            "n_recipients": len(self.recipients),
            "n_contractors": self.n_contractors,
            "categories": None if self.categories is None else list(self.categories),
            "stages": {name: None if ids is None else len(ids) for name, ids in sizes.items()},
            "routing": {name: decided[name] for name in shown} if decided else None,
            "choice": None if self.choice is None else self.choice.to_dict(),
            "ledger": self.ledger.to_dict(),
        }

    def __repr__(self) -> str:
        return (
            f"Outcome({self.protocol}, {self.announcement}: {len(self.recommendation)} APIs, "
            f"{len(self.recipients):,} of {self.n_contractors:,} contractors asked, "
            f"{self.ledger.n_messages:,} messages, {self.ledger.tokens:,} tokens)"
        )

    def _repr_html_(self) -> str:
        grounds = self.grounds()
        rows = [(name, grounds.get(name, "")) for name in self.recommendation]
        return html_table(f"{self!r}: {self.request}", ("API", "grounds"), rows, len(rows))
