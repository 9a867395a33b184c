"""What a comparison of protocols comes to: the means of each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnp_router.evaluation.comparison_figures import (
    SCORES,
    STAGES,
    Method,
    RequestFigures,
    StageScores,
    TokensAre,
    as_figures,
)
from cnp_router.evaluation.metrics import SetScores, mean

__all__ = ["STAGES", "TROUBLE", "Comparison", "ComparisonRow", "Method"]

TROUBLE = ("failed_rounds", "failed", "late", "invented")
"""What can go wrong: a round, the reply to a call, its being in time, a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """A method's figures, each a mean over the requests whose round did not fail.

    Parameters
    ----------
    method : Method
    rounds : int
        How many that are. All means are None if there is none.
    tokens_in, tokens_out, messages, model_calls, recipients, mean_apis : float or None
        `recipients` counts contractors that received an announcement; `mean_apis` is the size of
        the recommendation.
    seconds : float or None, seconds
    stages : mapping of str to SetScores or None
        ``category``, ``bid`` and ``final``, averaged over the rounds that had the stage (for
        ``"auto"`` not all have); None where none had.
    failed_rounds : int
        How many failed. Neither their cost nor their result is in any other figure.
    negotiated : int
        How many rounds had the stage ``bid``.
    cfps, cached_calls, late, failed, invented : int
        In all rounds together: calls for proposals, model calls that were answered before, replies
        after the deadline, contractors without a usable reply, names that a model made up.
    """

    method: Method
    rounds: int
    tokens_in: float | None
    tokens_out: float | None
    messages: float | None
    model_calls: float | None
    recipients: float | None
    mean_apis: float | None
    seconds: float | None
    stages: StageScores
    failed_rounds: int = 0
    negotiated: int = 0
    cfps: int = 0
    cached_calls: int = 0
    late: int = 0
    failed: int = 0
    invented: int = 0

    @classmethod
    def of(
        cls, method: Method, figures: Sequence[RequestFigures], failed_rounds: int = 0
    ) -> ComparisonRow:
        """Return the means of the figures of some requests."""

        def average(name: str) -> float | None:
            return mean([getattr(f, name) for f in figures]) if figures else None

        means: dict[str, Any] = {name: average(name) for name in (*_MEANS, "seconds")}
        totals: dict[str, Any] = {name: sum(getattr(f, name) for f in figures) for name in _TOTALS}
        return cls(
            method=method,
            rounds=len(figures),
            mean_apis=average("apis"),
            stages={stage: _mean_scores([f.stages[stage] for f in figures]) for stage in STAGES},
            failed_rounds=failed_rounds,
            negotiated=sum(f.stages["bid"] is not None for f in figures),
            **means,
            **totals,
        )

    @property
    def tokens(self) -> float | None:
        """Tokens in and out."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        return self.tokens_in + self.tokens_out

    @property
    def trouble(self) -> dict[str, int]:
        """What went wrong: ``failed_rounds failed late invented``; empty if nothing did."""
        counts = {name: getattr(self, name) for name in TROUBLE}
        return counts if any(counts.values()) else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object; floats are rounded to six digits."""
        return {
            **self.method.to_dict(),
            **{name: _rounded(getattr(self, name)) for name in (*_MEANS, "mean_apis", "seconds")},
            "stages": {name: as_figures(scores, 6) for name, scores in self.stages.items()},
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
        ``"learned"`` and ``"single-agent"`` have no contractors: they are asked once, and stand
        with the organisation ``"api"``.
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

        ``contractors`` is the number in the organisation that was compared first. ``trouble``
        has an object for each row in which something failed, came late or was made up.
        """
        return {
            "requests": self.requests,
            "skipped": self.skipped,
            "contractors": next(iter(self.contractors.values())),
            "model": self.model,
            "tokens_are": self.tokens_are,
            "rows": [row.to_dict() for row in self.rows],
            "trouble": [
                {**row.method.to_dict(), **row.trouble} for row in self.rows if row.trouble
            ],
        }


_MEANS = ("tokens_in", "tokens_out", "messages", "model_calls", "recipients")
_TOTALS = ("cached_calls", "late", "failed", "invented", "cfps")


def _mean_scores(scores: Sequence[SetScores | None]) -> SetScores | None:
    known = [s for s in scores if s is not None]
    if not known:
        return None
    return SetScores(*(mean([getattr(s, name) for s in known]) for name in SCORES))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
