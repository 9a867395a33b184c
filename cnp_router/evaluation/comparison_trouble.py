"""What went wrong in a comparison: rounds and replies that failed, came late, or were made up."""

from __future__ import annotations

from cnp_router.evaluation.comparison import Comparison, ComparisonRow

__all__ = ["TROUBLE_TITLE", "trouble_rows", "warnings_of"]

TROUBLE_TITLE = "Failed, late and invented, in all requests together"

_COLUMNS = {
    "failed_rounds": "failed rounds",
    "failed": "failed calls",
    "late": "late replies",
    "invented": "invented names",
}
_WORTH_A_WARNING = 0.05  # of the rounds, or of the calls


def trouble_rows(comparison: Comparison) -> list[list[str]]:
    """Return a table of what went wrong, the head first; empty if nothing did.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    list of list of str
    """
    rows = [
        [str(row.method), *(f"{row.trouble[name]:,}" for name in _COLUMNS)]
        for row in comparison.rows
        if row.trouble
    ]
    return [["method", *_COLUMNS.values()], *rows] if rows else []


def warnings_of(comparison: Comparison) -> list[str]:
    """Return a sentence for each method of which more than 5 % of the rounds or calls failed.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    list of str
    """
    return [
        f"{row.method}: {failed:,} of {total:,} {what} failed ({failed / total:.1%}). {worth}"
        for row in comparison.rows
        for what, failed, total, worth in _shares(row)
        if failed > _WORTH_A_WARNING * total
    ]


def _shares(row: ComparisonRow) -> list[tuple[str, int, int, str]]:
    rounds = row.rounds + row.failed_rounds
    return [
        ("rounds", row.failed_rounds, rounds, "Its means are over the others."),
        ("calls for proposals", row.failed, row.cfps, "Who failed could not bid."),
    ]
