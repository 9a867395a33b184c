"""What a comparison of protocols comes to: figures of each request, and their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cnp_router.evaluation.metrics import SetScores, mean, set_scores
from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.protocols import Outcome

__all__ = ["STAGES", "Comparison", "ComparisonRow", "Method", "RequestFigures"]

STAGES = ("category", "bid", "final")
"""After the thesis's steps 2, 3 and 4."""

TokensAre = Literal["server", "estimated"]
StageScores = Mapping[str, SetScores | None]


@dataclass(frozen=True, slots=True)
class Method:
    """One row of a comparison: how requests are answered.

    Parameters
    ----------
    protocol : str
    announce : {"routed", "broadcast"}
    organise : str
    """

    protocol: str
    announce: str
    organise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFigures:
    """What one method has done with one request. Small, so that a transcript need not be kept.

    Parameters
    ----------
    method : Method
    request : str
        Id of the mashup.
    held : str
        The protocol that was held; another one than the method's for ``"auto"``.
    tokens_in, tokens_out, messages, model_calls, recipients, apis : int
        `apis` is the number of recommended APIs.
    tokens_are : {"server", "estimated"} or None
        None where no model was asked.
    seconds : float, seconds
        Of wall time.
    stages : mapping of str to SetScores or None
        ``category``, ``bid`` and ``final``; None where the protocol has no such stage.
    cached_calls, late, failed, invented : int
        As in a `Ledger`.
    """

    method: Method
    request: str
    held: str
    tokens_in: int
    tokens_out: int
    messages: int
    model_calls: int
    recipients: int
    apis: int
    tokens_are: TokensAre | None
    seconds: float
    stages: StageScores
    cached_calls: int = 0
    late: int = 0
    failed: int = 0
    invented: int = 0

    @classmethod
    def of(cls, method: Method, mashup: Mashup, outcome: Outcome) -> RequestFigures:
        """Return the figures of an outcome, measured by the APIs that the mashup used."""
        ledger, stages = outcome.ledger, outcome.stages
        sets = {"category": stages.category, "bid": stages.bid, "final": stages.final}
        return cls(
            method=method,
            request=mashup.id,
            held=outcome.protocol,
            tokens_in=ledger.usage.tokens_in,
            tokens_out=ledger.usage.tokens_out,
            messages=ledger.n_messages,
            model_calls=ledger.model_calls,
            recipients=len(outcome.recipients),
            apis=len(outcome.recommendation),
            tokens_are=ledger.usage.source if ledger.model_calls else None,
            seconds=ledger.seconds,
            stages={
                name: None if found is None else set_scores(found, mashup.apis)
                for name, found in sets.items()
            },
            cached_calls=ledger.cached_calls,
            late=ledger.late,
            failed=sum(ledger.failures.values()),
            invented=ledger.invented,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a flat JSON object, as a checkpoint keeps them."""
        method = {name: getattr(self.method, name) for name in _METHOD}
        values = {name: getattr(self, name) for name in (*_TEXTS, *_COUNTS)}
        return {
            **method,
            **values,
            "tokens_are": self.tokens_are,
            "seconds": self.seconds,
            "stages": {name: _figures(scores) for name, scores in self.stages.items()},
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> RequestFigures:
        """Return the figures in a JSON object, as `to_dict` makes it.

        Raises
        ------
        InputError
            If it is none; it names the field.
        """
        checks: dict[str, Any] = {
            **dict.fromkeys((*_METHOD, *_TEXTS), lambda v: isinstance(v, str)),
            **dict.fromkeys(_COUNTS, _is_count),
            "tokens_are": lambda v: v in (None, "server", "estimated"),
            "seconds": _is_number,
            "stages": _are_stages,
        }
        for name, check in checks.items():
            if name not in record:
                raise InputError(f"there is no field {name!r}")
            if not check(record[name]):
                raise InputError(f"field {name!r} cannot be {record[name]!r}")
        stages = record["stages"]
        return cls(
            method=Method(*(record[name] for name in _METHOD)),
            **{name: record[name] for name in (*_TEXTS, *_COUNTS, "tokens_are")},
            seconds=float(record["seconds"]),
            stages={
                name: None if stages[name] is None else SetScores(**stages[name]) for name in STAGES
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """A method's figures, each a mean over the requests.

    Parameters
    ----------
    method : Method
    tokens_in, tokens_out, messages, model_calls, recipients, mean_apis : float
        `recipients` counts contractors that received an announcement; `mean_apis` is the size of
        the recommendation.
    seconds : float, seconds
    stages : mapping of str to SetScores or None
        ``category``, ``bid`` and ``final``, averaged over the requests that had the stage (for
        ``"auto"`` not all have); None where none had.
    cached_calls, late, failed, invented : int
        In all requests together: model calls that were answered before, replies after the
        deadline, contractors without a usable reply, names that a model made up.
    """

    method: Method
    tokens_in: float
    tokens_out: float
    messages: float
    model_calls: float
    recipients: float
    mean_apis: float
    seconds: float
    stages: StageScores
    cached_calls: int = 0
    late: int = 0
    failed: int = 0
    invented: int = 0

    @classmethod
    def of(cls, method: Method, figures: Sequence[RequestFigures]) -> ComparisonRow:
        """Return the means of the figures of some requests; at least one."""
        means: dict[str, Any] = {
            name: mean([getattr(f, name) for f in figures]) for name in (*_MEANS, "seconds")
        }
        totals: dict[str, Any] = {name: sum(getattr(f, name) for f in figures) for name in _TOTALS}
        return cls(
            method=method,
            mean_apis=mean([f.apis for f in figures]),
            stages={stage: _mean_scores([f.stages[stage] for f in figures]) for stage in STAGES},
            **means,
            **totals,
        )

    @property
    def tokens(self) -> float:
        """Tokens in and out."""
        return self.tokens_in + self.tokens_out

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object; floats are rounded to six digits."""
        names = ("tokens_in", "tokens_out", "messages", "model_calls", "recipients", "mean_apis")
        return {
            **{name: getattr(self.method, name) for name in _METHOD},
            **{name: round(getattr(self, name), 6) for name in (*names, "seconds")},
            "stages": {name: _figures(scores, 6) for name, scores in self.stages.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Methods side by side, on the same requests.

    Parameters
    ----------
    requests : int
        How many were asked.
    skipped : int
        Mashups left out, because they name an API that the catalog does not have.
    contractors : mapping of str to int
        Their number, by organisation.
    model : str
        Who answered.
    is_offline : bool
        Whether that is the offline model, which is no measure of a language model's quality.
    tokens_are : {"server", "estimated"}
        ``"server"`` only if all of them are.
    rows : tuple of ComparisonRow
    """

    requests: int
    skipped: int
    contractors: Mapping[str, int]
    model: str
    is_offline: bool
    tokens_are: TokensAre
    rows: tuple[ComparisonRow, ...]

    def row(self, protocol: str, announce: str, organise: str = "api") -> ComparisonRow | None:
        """Return the row of a method, or None if it was not compared."""
        method = Method(protocol, announce, organise)
        return next((row for row in self.rows if row.method == method), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON object.

        ``contractors`` is the number in the organisation that was compared first.
        """
        return {
            "requests": self.requests,
            "skipped": self.skipped,
            "contractors": next(iter(self.contractors.values())),
            "model": self.model,
            "tokens_are": self.tokens_are,
            "rows": [row.to_dict() for row in self.rows],
        }


_METHOD = ("protocol", "announce", "organise")
_TEXTS = ("request", "held")
_MEANS = ("tokens_in", "tokens_out", "messages", "model_calls", "recipients")
_TOTALS = ("cached_calls", "late", "failed", "invented")
_COUNTS = (*_MEANS, "apis", *_TOTALS)
_SCORES = ("precision", "recall", "f1")


def _mean_scores(scores: Sequence[SetScores | None]) -> SetScores | None:
    known = [s for s in scores if s is not None]
    if not known:
        return None
    return SetScores(*(mean([getattr(s, name) for s in known]) for name in _SCORES))


def _figures(scores: SetScores | None, digits: int | None = None) -> dict[str, float] | None:
    if scores is None:
        return None
    values = {name: getattr(scores, name) for name in _SCORES}
    return values if digits is None else {n: round(v, digits) for n, v in values.items()}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12


def _are_stages(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == set(STAGES)
        and all(scores is None or _are_scores(scores) for scores in value.values())
    )


def _are_scores(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == set(_SCORES)
        and all(_is_number(v) and v <= 1 for v in value.values())
    )
