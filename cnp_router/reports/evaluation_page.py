"""The page of an `Evaluation`."""

from __future__ import annotations

from cnp_router.evaluation import Evaluation
from cnp_router.evaluation.table import count, share
from cnp_router.reports.page import Page

__all__ = ["evaluation_page"]


def evaluation_page(evaluation: Evaluation) -> Page:
    """Return the page of an evaluation."""
    return Page("How good is the router?", (repr(evaluation),), _facts(evaluation))


def _facts(evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    recipients = evaluation.recipients
    return (
        ("requests", count(evaluation.requests)),
        ("recall@5", share(evaluation.ranking["recall@5"])),
        ("recall@20", share(evaluation.ranking["recall@20"])),
        ("F1 of the recommendation", share(evaluation.recommendation["f1"])),
        ("recall of the recipients", share(recipients["recall"])),
        ("recipients on average", count(recipients["mean"], 1)),
        ("calibration error (ECE)", share(evaluation.calibration["ece"])),
        ("requests below the threshold", f"{evaluation.fallback_rate:.0%}"),
    )
