"""The tables of a comparison, and `write_report`: a folder of JSON, Markdown and plots.

A table is a function in `SECTIONS`, a plot one in `plots.PLOTS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from cnp_router.evaluation.comparison import STAGE_TITLES, STAGES, Comparison, ComparisonRow
from cnp_router.evaluation.plots import PLOTS, check_plots, draw
from cnp_router.evaluation.table import Table, count, share
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import atomic_write, check_writable, read_json

__all__ = [
    "REPORT_FILES",
    "SECTIONS",
    "about",
    "check_report",
    "comparison_tables",
    "markdown",
    "ratios",
    "trouble_table",
    "warnings_of",
    "write_report",
]

REPORT_FILES = ("comparison.json", "comparison.md", *PLOTS)

_WORTH_A_WARNING = 0.05  # of the rounds, or of the calls
_METHOD = ("protocol", "announcement")

Rows = list[ComparisonRow]


def tokens(rows: Rows) -> Table:
    """Return the tokens of a request."""
    cells = [
        (*_named(row), count(row.tokens_in), count(row.tokens_out), count(row.tokens))
        for row in rows
    ]
    return Table("Tokens of a request", (*_METHOD, "in", "out", "total"), tuple(cells), labels=2)


def scores(rows: Rows) -> Table:
    """Return precision, recall and F1 of the APIs in play at each stage."""
    cells = []
    for protocol, both in _by_protocol(rows).items():
        for stage in STAGES:
            for row in both.values():
                found = row.stages[stage]
                if found is not None:
                    shares = [share(value) for value in found.to_dict().values()]
                    cells.append((protocol, STAGE_TITLES[stage], row.method.announcement, *shares))
    return Table(
        "Precision, recall and F1 of the APIs in play at each stage",
        ("protocol", "stage", "announcement", "precision", "recall", "F1"),
        tuple(cells),
        labels=3,
        notes=tuple(
            f"After bidding, {row.method.protocol} has means over the {row.with_bids:,} of "
            f"{row.rounds:,} requests that were negotiated."
            for row in rows
            if row.with_bids not in (0, row.rounds)
        ),
    )


def sizes(rows: Rows) -> Table:
    """Return messages, contractors asked and the size of the final set."""
    cells = [
        (*_named(row), count(row.messages), count(row.recipients, 1), count(row.mean_apis, 2))
        for row in rows
    ]
    return Table(
        "Messages of a request, contractors asked, and APIs in the final set",
        (*_METHOD, "messages", "contractors asked", "APIs"),
        tuple(cells),
        labels=2,
    )


def savings(rows: Rows) -> Table | None:
    """Return how many times as much a broadcast costs; None where there are not both."""
    cells = []
    for protocol, both in _by_protocol(rows).items():
        if len(both) == 2:
            found = ratios(both["broadcast"], both["routed"])
            costs = [count(found[name], 1) for name in ("tokens", "messages", "model_calls")]
            kept = [share(found[name]) for name in ("bid_recall", "final_recall")]
            cells.append((protocol, *costs, *kept))
    columns = ("tokens", "messages", "model calls", "bid recall kept", "final recall kept")
    title = "Costs of a broadcast over those of routing, and the recall that routing keeps"
    return Table(title, ("protocol", *columns), tuple(cells)) if cells else None


SECTIONS: tuple[Callable[[Rows], Table | None], ...] = (tokens, scores, sizes, savings)
"""The tables of each organisation, in order. A function gives one of the rows, or None."""


def comparison_tables(comparison: Comparison) -> dict[str, list[Table]]:
    """Return the tables of a comparison: means over the requests whose round did not fail.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    dict of str to list of Table
        By organisation; those of `SECTIONS` that have something to say.
    """
    tables = {}
    for organisation in comparison.contractors:
        rows = [row for row in comparison.rows if row.method.organisation == organisation]
        made = [section(rows) for section in SECTIONS]
        tables[organisation] = [table for table in made if table is not None]
    return tables


def ratios(broadcast: ComparisonRow, routed: ComparisonRow) -> dict[str, float | None]:
    """Return how many times as much a broadcast costs, and what of its recall is kept.

    Parameters
    ----------
    broadcast, routed : ComparisonRow
        Of the same protocol and organisation.

    Returns
    -------
    dict of str to float or None
        ``tokens messages model_calls``: broadcast over routed. ``bid_recall final_recall``: routed
        over broadcast. None where it would be divided by 0, or there is no such stage.
    """
    costs = ("tokens", "messages", "model_calls")
    recalls = {
        f"{stage}_recall": [
            getattr(row.stages[stage], "recall", None) for row in (routed, broadcast)
        ]
        for stage in ("bid", "final")
    }
    return {
        **{name: _divided(getattr(broadcast, name), getattr(routed, name)) for name in costs},
        **{name: _divided(*both) for name, both in recalls.items()},
    }


def trouble_table(comparison: Comparison) -> Table | None:
    """Return what went wrong in all requests together, and why; None if nothing did."""
    cells = [
        (
            str(row.method),
            *map(count, (row.failed_rounds, row.failed, row.late, row.hallucinated)),
        )
        for row in comparison.rows
        if row.trouble
    ]
    if not cells:
        return None
    return Table(
        "Failed, late and hallucinated, in all requests together",
        ("method", "failed rounds", "failed calls", "late replies", "hallucinated names"),
        tuple(cells),
        notes=tuple(
            f"{row.method}: {row.failures[row.reason]:,} of {row.failed_rounds + row.rounds:,} "
            f"rounds failed with: {row.reason}"
            for row in comparison.rows
            if row.reason is not None
        ),
    )


def warnings_of(comparison: Comparison) -> list[str]:
    """Return a sentence for each method of which more than 5 % of the rounds or calls failed."""
    return [
        f"{row.method}: {failed:,} of {total:,} {what} failed ({failed / total:.1%}). {worth}"
        for row in comparison.rows
        for what, failed, total, worth in (
            (
                "rounds",
                row.failed_rounds,
                row.rounds + row.failed_rounds,
                "Its means are over the others.",
            ),
            ("calls for proposals", row.failed, row.cfps, "Who failed could not bid."),
        )
        if failed > _WORTH_A_WARNING * total
    ]


def about(comparison: Comparison) -> list[str]:
    """Return sentences that say what the figures are means over, who answered, what that means."""
    skipped = f" ({comparison.skipped:,} skipped)" if comparison.skipped else ""
    failed = any(row.failed_rounds for row in comparison.rows)
    without = ", without the rounds that failed and what these cost" if failed else ""
    counted = "counted by the server" if comparison.tokens_are == "server" else "estimated"
    answered = f"The model {comparison.model!r} answered. Tokens are {counted}."
    if comparison.is_offline:
        answered = (
            f"The model {comparison.model!r} answered: text similarity, a stand-in that gives the "
            "traffic of the real prompts. Its precision and recall are no measure of a language "
            "model's quality. Tokens are estimated."
        )
    return [
        f"{comparison.requests:,} requests{skipped}; figures are means over them{without}.",
        answered,
    ]


def markdown(comparison: Comparison) -> str:
    """Return a comparison as a Markdown document."""
    parts = ["# Comparison of protocols", *about(comparison)]
    for organisation, tables in comparison_tables(comparison).items():
        contractors = comparison.contractors[organisation]
        parts.append(f"## Contractors by {organisation}: {contractors:,}")
        parts += [table.markdown() for table in tables]
    if trouble := trouble_table(comparison):
        parts += ["## What went wrong", trouble.markdown()]
    return "\n\n".join(parts) + "\n"


def check_report(folder: str | Path) -> None:
    """Raise unless a report can be written there: better before a long run than after.

    Parameters
    ----------
    folder : str or Path
        It may exist and hold other files, or an earlier report, which is to be replaced.

    Raises
    ------
    DataFileError
        If it is a file, has files of those names that are not of a report, or cannot be written.
    MissingExtraError
        If matplotlib is not installed.
    """
    folder = Path(folder)
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise DataFileError(nearest, "is a file", cure="name another folder")
    check_writable(nearest / REPORT_FILES[0])
    there = [name for name in REPORT_FILES if (folder / name).exists()]
    if there and not _is_report(folder / REPORT_FILES[0]):
        raise DataFileError(
            folder / there[0],
            "is there already, and is not part of a report of a comparison",
            cure="name another folder",
        )
    check_plots()


def write_report(comparison: Comparison, folder: str | Path) -> None:
    """Write `REPORT_FILES`: ``comparison.json``, ``comparison.md``, and a PNG for each plot.

    Parameters
    ----------
    comparison : Comparison
    folder : str or Path
        Made if it does not exist. Other files in it stay.

    Raises
    ------
    DataFileError, MissingExtraError
        As `check_report`, or if the folder cannot be written.
    """
    check_report(folder)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise DataFileError(folder, f"cannot be made: {exc.strerror or exc}") from exc
    document, text, *_ = REPORT_FILES
    with atomic_write(folder / document) as out:
        out.write(json.dumps(comparison.to_dict(), ensure_ascii=False, indent=2) + "\n")
    with atomic_write(folder / text) as out:
        out.write(markdown(comparison))
    for name in PLOTS:
        draw(comparison, name, folder / name)


def _is_report(path: Path) -> bool:
    try:
        document = read_json(path)
    except InputError:
        return False
    return isinstance(document, dict) and {"requests", "rows", "tokens_are"} <= set(document)


def _by_protocol(rows: Rows) -> dict[str, dict[str, ComparisonRow]]:
    """Return the rows of each protocol, by announcement."""
    both: dict[str, dict[str, ComparisonRow]] = {}
    for row in rows:
        both.setdefault(row.method.protocol, {})[row.method.announcement] = row
    return both


def _named(row: ComparisonRow) -> tuple[str, str]:
    return row.method.protocol, row.method.announcement


def _divided(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
