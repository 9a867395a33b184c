"""`Comparison`: methods side by side, and what is kept of each round."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt

from cnp_router.evaluation.metrics import SetScores, means, rounded, set_scores
from cnp_router.evaluation.table import Table, count, share
from cnp_router.evaluation.uncertainty import PairedDifference, standard_error
from cnp_router.history import Mashup
from cnp_router.llm import Bill, Prices, Usage
from cnp_router.llm.prices import Paid, usages
from cnp_router.protocols import Outcome
from cnp_router.protocols.settings import EvidenceFor

__all__ = [
    "STAGES",
    "Comparison",
    "ComparisonRow",
    "Method",
    "RoundFigures",
    "RoundResult",
    "Stage",
    "StageCost",
    "TokensAre",
    "TokensOf",
]

Stage = Literal["category", "bid", "final"]
STAGES: Mapping[Stage, str] = {
    "category": "named categories",
    "bid": "after bidding",
    "final": "final set",
}
"""After which the APIs in play are measured, and what tables and plots call that."""

TokensAre = Literal["server", "estimated"]

_MEANS = (
    *("tokens_in", "tokens_out", "messages", "model_calls", "recipients", "waves", "mean_apis"),
    "seconds",
)
_UNCERTAIN: Mapping[str, Callable[[RoundFigures], float | None]] = {
    "tokens": lambda f: f.tokens_in + f.tokens_out,
    "recall": lambda f: f.final.recall if f.final else None,
    "f1": lambda f: f.final.f1 if f.final else None,
}
"""Of which figures a comparison says how sure they are; the scores are of the final set."""

_TOTALS = ("cfps", "late", "failed", "hallucinated")


@dataclass(frozen=True, slots=True)
class Method:
    """How requests are answered: what a row of a comparison is about."""

    protocol: str
    announcement: str
    organisation: str

    def __str__(self) -> str:
        return f"{self.protocol} {self.announcement} by {self.organisation}"

    def to_dict(self) -> dict[str, str]:
        """Return the method as a JSON object: ``protocol announce organise``."""
        return dict(zip(("protocol", "announce", "organise"), asdict(self).values(), strict=True))


@dataclass(frozen=True, slots=True)
class TokensOf:
    """The tokens that a model took in a role: of one round, or of many."""

    role: str
    model: str
    tokens_in: NonNegativeInt
    tokens_out: NonNegativeInt
    tokens_are: TokensAre
    tokens_cached: NonNegativeInt

    @property
    def usage(self) -> Usage:
        """The same as a `Usage`."""
        return Usage(self.tokens_in, self.tokens_out, self.tokens_are, self.tokens_cached)

    @classmethod
    def each(cls, calls: Iterable[Paid]) -> tuple[TokensOf, ...]:
        """Return the sums of some calls: one a role and model."""
        return tuple(cls(*key, *astuple(usage)) for key, usage in usages(calls).items())


_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage of a protocol costs: in one round, or on average."""

    messages: _Amount = 0.0
    model_calls: _Amount = 0.0
    tokens_in: _Amount = 0.0
    tokens_out: _Amount = 0.0

    @property
    def tokens(self) -> float:
        """Tokens in and out."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFigures:
    """What one method has done with one request. Small, so that a transcript need not be kept.

    Fields are as in `ComparisonRow`, whose means and totals they become; `mean_apis` is the number
    of recommended APIs, and `tokens_are` is None where no model was asked. pydantic checks them
    where they are read from a file.
    """

    tokens_in: NonNegativeInt
    tokens_out: NonNegativeInt
    messages: NonNegativeInt
    model_calls: NonNegativeInt
    recipients: NonNegativeInt
    waves: NonNegativeInt
    mean_apis: NonNegativeInt
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    tokens_are: TokensAre | None
    stages: dict[Stage, SetScores | None]
    cfps: NonNegativeInt
    late: NonNegativeInt
    failed: NonNegativeInt
    hallucinated: NonNegativeInt
    paid: tuple[TokensOf, ...]
    by_stage: dict[str, StageCost]

    @property
    def final(self) -> SetScores | None:
        """The scores of the final set."""
        return self.stages["final"]

    @classmethod
    def of(cls, mashup: Mashup, outcome: Outcome) -> RoundFigures:
        """Return the figures of an outcome, measured by the APIs that the mashup used."""
        ledger, stages = outcome.ledger, outcome.stages
        sets = (stages.mapped, stages.proposed, stages.selected)
        return cls(
            tokens_in=ledger.usage.tokens_in,
            tokens_out=ledger.usage.tokens_out,
            messages=ledger.n_messages,
            model_calls=ledger.model_calls,
            recipients=len(outcome.recipients),
            waves=ledger.waves,
            mean_apis=len(outcome.recommendation),
            seconds=ledger.seconds,
            tokens_are=ledger.usage.source if ledger.model_calls else None,
            stages={
                name: None if found is None else set_scores(found, mashup.apis)
                for name, found in zip(STAGES, sets, strict=True)
            },
            cfps=ledger.messages.get("cfp", 0),
            late=ledger.late,
            failed=sum(ledger.failures.values()),
            hallucinated=ledger.hallucinated,
            paid=TokensOf.each(outcome.transcript.calls),
            by_stage={
                name: StageCost(*map(float, (c.messages, c.model_calls, c.tokens_in, c.tokens_out)))
                for name, c in ledger.by_stage.items()
            },
        )


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The figures of one round, or why it failed.

    `request` is the id of the mashup; `figures` are None if it failed because of its request, and
    `error` says why.
    """

    method: Method
    request: str
    figures: RoundFigures | None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComparisonRow:
    """A method's figures, each a mean over the requests whose round did not fail.

    Parameters
    ----------
    method : Method
    rounds : int
        How many that are. All means are None if it is 0.
    stages : mapping of str to SetScores or None
        Of `STAGES`, averaged over the rounds that had the stage (for ``"auto"`` not all have); None
        where none had.
    tokens_in, tokens_out, messages, model_calls, recipients, waves, mean_apis, seconds : float or \
None
        `recipients` counts contractors that received an announcement, `waves` those of calls for
        proposals; `mean_apis` is the size of the recommendation.
    failures : mapping of str to int
        Why rounds failed, and how many for that reason, the most frequent first; reasons that
        differ in numbers only are one. Neither the cost nor the result of these rounds is in any
        other figure.
    with_bids : int
        How many rounds had the stage ``bid``.
    cfps, late, failed, hallucinated : int
        In all rounds together: calls for proposals, replies after the deadline, calls for proposals
        without a usable reply, names that a model made up.
    paid : tuple of TokensOf
        The tokens of all rounds together, by role and model.
    by_stage : mapping of str to StageCost
        What a round costs at each stage of the protocol, those of `Ledger.by_stage`: means over all
        rounds, also those without the stage.
    standard_errors : mapping of str to float or None
        Of the means ``tokens recall f1``, the last two of the final set; see `standard_error`.
    uncalled : int
        In how many rounds no contractor received an announcement.
    against_broadcast : mapping of str to PairedDifference
        Of the same figures: a routed round's less those of the broadcast for the same request, over
        the requests where neither failed. Empty where the protocol was not broadcast, too.
    """

    method: Method
    rounds: int
    stages: Mapping[Stage, SetScores | None]
    tokens_in: float | None = None
    tokens_out: float | None = None
    messages: float | None = None
    model_calls: float | None = None
    recipients: float | None = None
    waves: float | None = None
    mean_apis: float | None = None
    seconds: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    with_bids: int = 0
    cfps: int = 0
    late: int = 0
    failed: int = 0
    hallucinated: int = 0
    paid: tuple[TokensOf, ...] = ()
    by_stage: Mapping[str, StageCost] = field(default_factory=dict)
    standard_errors: Mapping[str, float | None] = field(default_factory=dict)
    against_broadcast: Mapping[str, PairedDifference] = field(default_factory=dict)
    uncalled: int = 0

    @classmethod
    def of(
        cls,
        method: Method,
        results: Sequence[RoundResult],
        broadcast: Sequence[RoundResult] = (),
    ) -> ComparisonRow:
        """Return the means of a method's rounds, and how they differ from those of a broadcast."""
        figures = [result.figures for result in results if result.figures is not None]
        stages = {
            name: [scores.to_dict() for f in figures if (scores := f.stages[name]) is not None]
            for name in STAGES
        }
        averages: dict[str, Any] = means([{n: getattr(f, n) for n in _MEANS} for f in figures])
        return cls(
            method=method,
            rounds=len(figures),
            stages={n: SetScores(**means(each)) if each else None for n, each in stages.items()},
            **averages,
            failures=_most_frequent([r.error for r in results if r.figures is None]),
            with_bids=len(stages["bid"]),
            **{name: sum(getattr(f, name) for f in figures) for name in _TOTALS},
            paid=TokensOf.each(each for f in figures for each in f.paid),
            by_stage={
                name: StageCost(
                    **means([asdict(f.by_stage.get(name, StageCost())) for f in figures])
                )
                for name in dict.fromkeys(name for f in figures for name in f.by_stage)
            },
            standard_errors={
                name: standard_error([v for f in figures if (v := of(f)) is not None])
                for name, of in _UNCERTAIN.items()
            },
            against_broadcast=_differences(results, broadcast),
            uncalled=sum(f.recipients == 0 for f in figures),
        )

    def __repr__(self) -> str:
        return (
            f"ComparisonRow({self.method}, {self.rounds:,} rounds, {self.failed_rounds:,} failed)"
        )

    @property
    def failed_rounds(self) -> int:
        """How many rounds failed."""
        return sum(self.failures.values())

    @property
    def reason(self) -> str | None:
        """Why most of the failed rounds failed; None if none did."""
        return next(iter(self.failures), None)

    @property
    def tokens(self) -> float | None:
        """Tokens in and out."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        return self.tokens_in + self.tokens_out

    def price(self, prices: Prices) -> Bill | None:
        """Return what a round has cost on average; None if all failed."""
        return prices.bill(self.paid).divided(self.rounds) if self.rounds else None

    def score(self, stage: Stage, metric: str) -> float | None:
        """Return a field of `SetScores` at a stage; None where no round had it."""
        return getattr(self.stages[stage], metric, None)

    def is_whole_at(self, stage: Stage) -> bool:
        """Whether all rounds had the stage, or none: else its scores are of some requests only."""
        return stage != "bid" or self.with_bids in (0, self.rounds)

    @property
    def by_role(self) -> dict[str, float]:
        """Tokens of a round by who was asked, in and out: means."""
        tokens: dict[str, float] = {}
        for each in self.paid:
            spent = (each.tokens_in + each.tokens_out) / self.rounds
            tokens[each.role] = tokens.get(each.role, 0.0) + spent
        return tokens

    @property
    def trouble(self) -> dict[str, Any]:
        """What went wrong: ``failed_rounds failed late invented reason``; empty if nothing did."""
        counts = {
            "failed_rounds": self.failed_rounds,
            "failed": self.failed,
            "late": self.late,
            "invented": self.hallucinated,
        }
        return {**counts, "reason": self.reason} if any(counts.values()) else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object; floats are rounded to six digits."""
        return {
            **self.method.to_dict(),
            **rounded({name: getattr(self, name) for name in _MEANS}),
            "stages": {
                name: None if scores is None else rounded(scores.to_dict())
                for name, scores in self.stages.items()
            },
            "by_stage": {name: rounded(asdict(cost)) for name, cost in self.by_stage.items()},
            "uncalled": self.uncalled,
            "standard_errors": rounded(self.standard_errors),
            "routed_less_broadcast": {
                name: rounded(asdict(found)) for name, found in self.against_broadcast.items()
            },
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Methods side by side, on the same requests.

    Parameters
    ----------
    requests : int
        How many were asked.
    skipped : int
        Mashups left out: they name an API that the catalog does not have, or describe nothing.
    contractors : mapping of str to int
        Their number, by organisation.
    model : str
        Who answered.
    is_offline : bool
        Whether that is the offline model, which does not measure a language model's quality.
    tokens_are : {"server", "estimated"}
        ``"server"`` only if all of them are.
    evidence : {"none", "manager", "everyone"}, default="none"
        Who saw the router's evidence in the routed rounds.
    rows : tuple of ComparisonRow
        Protocols without contractors are asked once, and stand with the organisation ``"api"``.
    prices : Prices or None, default=None
        With them, tables and `to_dict` say what a round costs.
    learned_from : int or None, default=None
        How many of the requests are among those the router learned from; see `Evaluation`.
    run : mapping of str to JSON value
        What was run: version, date, sizes and digests of the data, model, and all settings.
    """

    requests: int
    skipped: int
    contractors: Mapping[str, int]
    model: str
    is_offline: bool
    tokens_are: TokensAre
    rows: tuple[ComparisonRow, ...]
    evidence: EvidenceFor = "none"
    prices: Prices | None = None
    learned_from: int | None = None
    run: Mapping[str, Any] = field(default_factory=dict)

    def row(
        self, protocol: str, announcement: str, organisation: str = "api"
    ) -> ComparisonRow | None:
        """Return the row of a method, or None if it was not compared."""
        method = Method(protocol, announcement, organisation)
        return next((row for row in self.rows if row.method == method), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON object.

        ``contractors`` is the number in the organisation that was compared first. ``trouble``
        has an object for each row in which something failed, came late or was made up; its
        ``reason`` is why most of the failed rounds failed.
        """
        troubled = [row for row in self.rows if row.trouble]
        return {
            "requests": self.requests,
            "skipped": self.skipped,
            "learned_from": self.learned_from,
            "contractors": next(iter(self.contractors.values())),
            "model": self.model,
            "tokens_are": self.tokens_are,
            "evidence": self.evidence,
            "run": dict(self.run),
            "rows": [{**row.to_dict(), **self._price(row)} for row in self.rows],
            "trouble": [{**row.method.to_dict(), **row.trouble} for row in troubled],
        }

    def _price(self, row: ComparisonRow) -> dict[str, Any]:
        if self.prices is None:
            return {}
        bill = row.price(self.prices)
        if bill is None:
            return {"price": None}
        source = {} if row.paid else {"tokens_are": self.tokens_are}  # there are none to count
        return {"price": bill.to_dict() | source}

    def by_method(self) -> dict[tuple[str, str], dict[str, ComparisonRow]]:
        """Return the rows of each protocol and organisation, by announcement."""
        methods: dict[tuple[str, str], dict[str, ComparisonRow]] = {}
        for row in self.rows:
            key = row.method.protocol, row.method.organisation
            methods.setdefault(key, {})[row.method.announcement] = row
        return methods

    def __repr__(self) -> str:
        return (
            f"Comparison({len(self.rows)} methods, {self.requests:,} requests, "
            f"answered by {self.model!r})"
        )

    def _repr_html_(self) -> str:
        title = f"Means over {self.requests:,} requests, answered by {self.model!r}"
        notes = [f"{row.method}: {row.reason}" for row in self.rows if row.reason]
        return Table.of(title, _COLUMNS, self.rows, notes=notes)._repr_html_()


_COLUMNS: Mapping[str, Callable[[ComparisonRow], str]] = {
    "method": lambda row: str(row.method),
    "tokens": lambda row: count(row.tokens),
    "messages": lambda row: count(row.messages),
    "contractors asked": lambda row: count(row.recipients),
    "recall after bidding": lambda row: share(row.score("bid", "recall")),
    "F1 of the final set": lambda row: share(row.score("final", "f1")),
    "failed rounds": lambda row: count(row.failed_rounds),
}


def _differences(
    results: Sequence[RoundResult], broadcast: Sequence[RoundResult]
) -> dict[str, PairedDifference]:
    """Return how results differ from a broadcast's, request by request."""
    before = {result.request: result.figures for result in broadcast if result.figures}
    found = {}
    for name, of in _UNCERTAIN.items():
        pairs = [
            (mine, theirs)
            for result in results
            if result.figures and result.request in before
            if (mine := of(result.figures)) is not None
            and (theirs := of(before[result.request])) is not None
        ]
        if difference := PairedDifference.of([a for a, _ in pairs], [b for _, b in pairs]):
            found[name] = difference
    return found


def _most_frequent(reasons: Sequence[str]) -> dict[str, int]:
    """Return each kind of reason, in the words of its first, and how often it came."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        alike.setdefault(re.sub(r"\d[\d,.]*", "0", reason), []).append(reason)
    return dict(Counter({same[0]: len(same) for same in alike.values()}).most_common())
