"""What a comparison keeps of each request: its figures, or that its round failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cnp_router.evaluation.metrics import SetScores, set_scores
from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.protocols import Outcome

__all__ = ["STAGES", "FailedRound", "Method", "RequestFigures"]

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

    def __str__(self) -> str:
        return f"{self.protocol} {self.announce} by {self.organise}"

    def to_dict(self) -> dict[str, str]:
        """Return the method as a JSON object."""
        return {name: getattr(self, name) for name in METHOD_FIELDS}


@dataclass(frozen=True, slots=True)
class FailedRound:
    """A round that failed because of its request: it has no figures.

    Parameters
    ----------
    method : Method
    request : str
        Id of the mashup.
    error : str
        Why.

    Examples
    --------
    >>> failed = FailedRound(Method("single-agent", "broadcast", "api"), "m1", "too long")
    >>> FailedRound.from_dict(failed.to_dict()) == failed
    True
    """

    method: Method
    request: str
    error: str

    def to_dict(self) -> dict[str, str]:
        """Return it as a flat JSON object, as a checkpoint keeps it."""
        return {**self.method.to_dict(), "request": self.request, "error": self.error}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FailedRound:
        """Return the failed round in a JSON object, as `to_dict` makes it.

        Raises
        ------
        InputError
            If it is none; it names the field.
        """
        _check(record, dict.fromkeys((*METHOD_FIELDS, "request", "error"), _is_text))
        return cls(_method(record), record["request"], record["error"])


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
    cfps : int
        Calls for proposals.
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
    cfps: int = 0

    @classmethod
    def of(cls, method: Method, mashup: Mashup, outcome: Outcome) -> RequestFigures:
        """Return the figures of an outcome, measured by the APIs that the mashup used."""
        ledger, stages = outcome.ledger, outcome.stages
        sets = {"category": stages.mapped, "bid": stages.proposed, "final": stages.selected}
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
            invented=ledger.hallucinated,
            cfps=ledger.messages.get("cfp", 0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a flat JSON object, as a checkpoint keeps them."""
        values = {name: getattr(self, name) for name in (*_TEXTS, *_COUNTS)}
        return {
            **self.method.to_dict(),
            **values,
            "tokens_are": self.tokens_are,
            "seconds": self.seconds,
            "stages": {name: as_figures(scores) for name, scores in self.stages.items()},
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> RequestFigures:
        """Return the figures in a JSON object, as `to_dict` makes it.

        Raises
        ------
        InputError
            If it is none; it names the field.
        """
        checks: dict[str, Callable[[Any], bool]] = {
            **dict.fromkeys((*METHOD_FIELDS, *_TEXTS), _is_text),
            **dict.fromkeys(_COUNTS, _is_count),
            "tokens_are": lambda v: v in (None, "server", "estimated"),
            "seconds": _is_number,
            "stages": _are_stages,
        }
        _check(record, checks)
        stages = record["stages"]
        return cls(
            method=_method(record),
            **{name: record[name] for name in (*_TEXTS, *_COUNTS, "tokens_are")},
            seconds=float(record["seconds"]),
            stages={
                name: None if stages[name] is None else SetScores(**stages[name]) for name in STAGES
            },
        )


METHOD_FIELDS = ("protocol", "announce", "organise")
_TEXTS = ("request", "held")
_COUNTS = (
    *("tokens_in", "tokens_out", "messages", "model_calls", "recipients", "apis"),
    *("cached_calls", "late", "failed", "invented", "cfps"),
)
SCORES = ("precision", "recall", "f1")


def as_figures(scores: SetScores | None, digits: int | None = None) -> dict[str, float] | None:
    """Return scores as a JSON object, rounded if `digits` are given."""
    if scores is None:
        return None
    values = {name: getattr(scores, name) for name in SCORES}
    return values if digits is None else {n: round(v, digits) for n, v in values.items()}


def _method(record: Mapping[str, Any]) -> Method:
    return Method(*(record[name] for name in METHOD_FIELDS))


def _check(record: Mapping[str, Any], checks: Mapping[str, Callable[[Any], bool]]) -> None:
    for name, check in checks.items():
        if name not in record:
            raise InputError(f"there is no field {name!r}")
        if not check(record[name]):
            raise InputError(f"field {name!r} cannot be {record[name]!r}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


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
        and set(value) == set(SCORES)
        and all(_is_number(v) and v <= 1 for v in value.values())
    )
