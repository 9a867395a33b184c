"""The tables of a comparison, and `write_report`: a folder of JSON, Markdown and plots.

A table is a function in `SECTIONS`, a plot one in `plots.PLOTS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cnp_router.evaluation.comparison import STAGES, Comparison, ComparisonRow, Stage
from cnp_router.evaluation.plots import PLOTS, check_plots, draw
from cnp_router.evaluation.table import Table, count, share
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import atomic_write, check_writable, read_json
from cnp_router.llm import money
from cnp_router.protocols import PROTOCOLS

__all__ = [
    "REPORT_FILES",
    "SECTIONS",
    "about",
    "check_report",
    "comparison_tables",
    "dearer",
    "is_dearer",
    "markdown",
    "pairs",
    "ratios",
    "run_table",
    "trouble_table",
    "warnings_of",
    "write_report",
]

REPORT_FILES = ("comparison.json", "comparison.md", *PLOTS)

_WORTH_A_WARNING = 0.05  # of the rounds, or of the calls

_CANDIDATES = "candidates"
_ONE_AGENT = (
    "Candidates: a single agent takes no bids; these are the APIs that it says could serve, before "
    "it selects."
)

_NOTHING_NEGOTIATED = (
    "coordinated has the scores of learned: where no contractor declares what it can do, there is "
    "nothing to negotiate."
)

Columns = dict[str, Callable[[ComparisonRow], str]]

_METHOD: Columns = {
    "protocol": lambda row: row.method.protocol,
    "announcement": lambda row: row.method.announcement,
}


def tokens(part: Comparison) -> Table:
    """Return the tokens of a request."""
    columns: Columns = {
        **_METHOD,
        "in": lambda row: count(row.tokens_in),
        "out": lambda row: count(row.tokens_out),
        "total": lambda row: count(row.tokens),
    }
    note = "In: what models read. Out: what they wrote."
    return Table.of("Tokens of a request", columns, part.rows, labels=2, notes=(note,))


def prices(part: Comparison) -> Table | None:
    """Return what a request costs, by role and in total; None without prices."""
    listed = part.prices
    if listed is None:
        return None
    bills = [(row, row.price(listed)) for row in part.rows]
    roles = dict.fromkeys(role for _, bill in bills if bill is not None for role in bill.by_role)
    cells = []
    for row, bill in bills:
        amounts = [None if bill is None else bill.by_role.get(role, 0.0) for role in roles]
        cells.append(
            (
                *(shown(row) for shown in _METHOD.values()),
                *(money(amount) for amount in amounts),
                money(None if bill is None else bill.total),
            )
        )
    unpriced = dict.fromkeys(name for _, bill in bills if bill for name in bill.unpriced)
    notes = [f"{listed.origin} has no price of the model {name!r}." for name in unpriced]
    if any(bill.is_estimated for _, bill in bills if bill is not None):
        notes.append("Prices are those of estimated tokens.")
    title = f"Price of a request, {listed.currency}"
    return Table(title, (*_METHOD, *roles, "total"), tuple(cells), labels=2, notes=tuple(notes))


def scores(part: Comparison) -> Table:
    """Return precision, recall and F1 of the APIs in play at each stage."""
    cells = [
        (protocol, _stage(protocol, stage), announcement, *map(share, found.to_dict().values()))
        for (protocol, _), both in part.by_method().items()
        for stage in STAGES
        for announcement, row in both.items()
        if (found := row.stages[stage]) is not None
    ]
    return Table(
        "Precision, recall and F1 of the APIs in play at each stage",
        ("protocol", "stage", "announcement", "precision", "recall", "F1"),
        tuple(cells),
        labels=3,
        notes=(
            "From 0 to 1. Precision: of the APIs in play, the share that is needed. Recall: of "
            "those needed, the share that is in play. F1: both in one.",
            *([_NOTHING_NEGOTIATED] if _same(part, "learned", "coordinated") else []),
            *([_ONE_AGENT] if any(_CANDIDATES in row for row in cells) else []),
            *(
                f"After bidding, {row.method.protocol} has means over the {row.with_bids:,} of "
                f"{row.rounds:,} requests that were negotiated."
                for row in part.rows
                if not row.is_whole_at("bid")
            ),
        ),
    )


def _same(part: Comparison, *protocols: str) -> bool:
    """Whether protocols have the same scores."""
    found = [row.stages for row in part.rows if row.method.protocol in protocols]
    return len(found) == len(protocols) and all(stages == found[0] for stages in found)


def _stage(protocol: str, stage: Stage) -> str:
    """Return what tables call a stage of a protocol: where nobody bids, it is not after bidding."""
    known = PROTOCOLS.get(protocol)
    alone = known is not None and not known.has_contractors
    return _CANDIDATES if stage == "bid" and alone else STAGES[stage]


def sizes(part: Comparison) -> Table:
    """Return messages, contractors asked, in how many waves, and the size of the final set."""
    columns: Columns = {
        **_METHOD,
        "messages": lambda row: count(row.messages),
        "contractors asked": lambda row: count(row.recipients, 1),
        "waves": lambda row: count(row.waves, 1),
        "APIs": lambda row: count(row.mean_apis, 2),
    }
    title = "Messages of a request, contractors asked, waves of calls, and APIs in the final set"
    return Table.of(title, columns, part.rows, labels=2)


def savings(part: Comparison) -> Table | None:
    """Return how many times as much a broadcast costs; None where there are not both."""
    costs = ("tokens", "messages", "model calls")
    columns = ("protocol", "announcement", *costs, "bid recall kept", "final recall kept")
    cells: list[tuple[str, ...]] = []
    for (protocol, _), rows in part.by_method().items():
        for announcement, row in rows.items():
            if announcement != "broadcast" and "broadcast" in rows:
                *times, bid, final = ratios(rows["broadcast"], row).values()
                figures = (*(count(each, 1) for each in times), share(bid), share(final))
                cells.append((protocol, announcement, *figures))
    notes = [dearer(*pair) for pair in pairs(part) if is_dearer(*pair)]
    title = "Costs of a broadcast over those of routing, and the recall that routing keeps"
    note = (
        "4.0 means that a broadcast costs four times as much. Recall kept: that of routing over "
        "that of a broadcast, after bidding and of the final set; 1 and more loses nothing."
    )
    return Table(title, columns, tuple(cells), labels=2, notes=(note, *notes)) if cells else None


def errors(part: Comparison) -> Table | None:
    """Return the standard errors of the means; None where no row has any."""
    rows = [row for row in part.rows if any(row.standard_errors.values())]

    def column(name: str, shown: Callable[[float | None], str]) -> Callable[[ComparisonRow], str]:
        return lambda row: shown(row.standard_errors.get(name))

    columns: Columns = {
        **_METHOD,
        "tokens": column("tokens", count),
        "recall": column("recall", share),
        "F1": column("f1", share),
    }
    title = "Standard errors of the means: tokens, recall and F1 of the final set"
    note = (
        "A mean over all requests of this kind is within two of these in about 95 % of studies. "
        "Rows are about the same requests: differences of them are surer than that."
    )
    return Table.of(title, columns, rows, labels=2, notes=(note,)) if rows else None


def differences(part: Comparison) -> Table | None:
    """Return routed less broadcast, request by request, with intervals; None without both."""
    names = {"tokens": ("tokens", 0), "recall": ("recall", 3), "f1": ("F1", 3)}
    cells = [
        (
            row.method.protocol,
            shown,
            *(_signed(value, digits) for value in (found.mean, found.low, found.high)),
            count(found.n),
        )
        for row in part.rows
        for name, (shown, digits) in names.items()
        if (found := row.against_broadcast.get(name)) is not None
    ]
    title = "Routed less broadcast, request by request: mean, and its 95 % interval"
    note = (
        "Recall and F1 are of the final set. An interval that contains 0 shows no difference: "
        "more requests make it narrower."
    )
    columns = ("protocol", "figure", "difference", "from", "to", "requests")
    return Table(title, columns, tuple(cells), labels=2, notes=(note,)) if cells else None


def _signed(value: float | None, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:+,.{digits}f}".replace("0.", ".", 1) if digits else f"{value:+,.0f}"


SECTIONS: tuple[Callable[[Comparison], Table | None], ...] = (
    tokens,
    prices,
    scores,
    sizes,
    savings,
    differences,
    errors,
)
"""The tables of each organisation, in order. A function gives one of its part, or None."""


def comparison_tables(comparison: Comparison) -> dict[str, list[Table]]:
    """Return the tables of a comparison by organisation: those of `SECTIONS` that say something.

    Figures are means over the requests whose round did not fail.
    """
    tables = {}
    for organisation in comparison.contractors:
        rows = tuple(row for row in comparison.rows if row.method.organisation == organisation)
        part = replace(comparison, rows=rows)
        made = [section(part) for section in SECTIONS]
        tables[organisation] = [table for table in made if table is not None]
    return tables


def ratios(broadcast: ComparisonRow, routed: ComparisonRow) -> dict[str, float | None]:
    """Return how many times as much a broadcast costs, and what of its recall is kept.

    ``tokens messages model_calls`` are broadcast over routed, ``bid_recall final_recall`` routed
    over broadcast. None where it would be divided by 0, or there is no such stage.
    """

    def divided(value: float | None, by: float | None) -> float | None:
        return None if value is None or not by else value / by

    costs = ("tokens", "messages", "model_calls")
    bids, finals = (
        [row.score(stage, "recall") for row in (routed, broadcast)] for stage in ("bid", "final")
    )
    return {
        **{name: divided(getattr(broadcast, name), getattr(routed, name)) for name in costs},
        "bid_recall": divided(*bids),
        "final_recall": divided(*finals),
    }


def pairs(comparison: Comparison) -> list[tuple[ComparisonRow, ComparisonRow]]:
    """Return what was both broadcast and routed."""
    methods = comparison.by_method().values()
    return [(m["broadcast"], m["routed"]) for m in methods if {"broadcast", "routed"} <= m.keys()]


def is_dearer(broadcast: ComparisonRow, routed: ComparisonRow) -> bool:
    """Whether routing takes more tokens than a broadcast."""
    return broadcast.tokens is not None and (routed.tokens or 0) > broadcast.tokens


def dearer(broadcast: ComparisonRow, routed: ComparisonRow) -> str:
    """Return a sentence on a protocol that is dearer when routed."""
    said = f"{routed.method.protocol}: routing is dearer than a broadcast"
    if broadcast.uncalled and broadcast.recipients:
        said += f", which asks nobody in {broadcast.uncalled:,} of {broadcast.rounds:,} requests"
    return f"{said}."


def trouble_table(comparison: Comparison) -> Table | None:
    """Return what went wrong in all requests together, and why; None if nothing did."""
    columns: Columns = {
        "method": lambda row: str(row.method),
        "failed rounds": lambda row: count(row.failed_rounds),
        "failed calls": lambda row: count(row.failed),
        "late replies": lambda row: count(row.late),
        "hallucinated names": lambda row: count(row.hallucinated),
    }
    troubled = [row for row in comparison.rows if row.trouble]
    notes = [
        f"{row.method}: {row.failures[row.reason]:,} of {row.failed_rounds + row.rounds:,} "
        f"rounds failed with: {row.reason}"
        for row in troubled
        if row.reason is not None
    ]
    title = "Failed, late and hallucinated, in all requests together"
    return Table.of(title, columns, troubled, notes=notes) if troubled else None


def run_table(comparison: Comparison) -> Table | None:
    """Return what was run: version, date, data, and settings; None if that is not known."""
    shown = [(name.replace("_", " "), _plain(value)) for name, value in comparison.run.items()]
    title, note = (
        "What was run",
        "Catalog, history and router are digests: the same data, the same.",
    )
    return Table(title, ("what", "value"), tuple(shown), labels=2, notes=(note,)) if shown else None


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "no" if not value else "yes"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def warnings_of(comparison: Comparison) -> list[str]:
    """Return what spoils the figures: requests that the router knew, many failed rounds or calls.

    Many are more than 5 % of those of a method.
    """
    warnings = []
    if comparison.learned_from:
        warnings.append(
            f"{comparison.learned_from:,} of {comparison.requests:,} requests are among those the "
            "model learned from: what is routed looks better than it will be (compare on requests "
            "that it was not fitted on)."
        )
    for row in comparison.rows:
        rounds = row.rounds + row.failed_rounds
        for what, failed, total, worth in (
            ("rounds", row.failed_rounds, rounds, "Its means are over the others."),
            ("calls for proposals", row.failed, row.cfps, "Who failed could not bid."),
        ):
            if failed > _WORTH_A_WARNING * total:
                some = f"{failed:,} of {total:,} {what} failed ({failed / total:.1%})"
                warnings.append(f"{row.method}: {some}. {worth}")
    return warnings


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
            "traffic of the real prompts. Its precision and recall do not measure a language "
            "model's quality. Tokens are estimated."
        )
    if comparison.evidence != "none":
        seen = {"manager": "the manager was", "everyone": "manager and contractors were"}
        answered += f" In routed rounds {seen[comparison.evidence]} shown the router's evidence."
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
    if run := run_table(comparison):
        parts.append(run.markdown())
    return "\n\n".join(parts) + "\n"


def check_report(folder: str | Path) -> None:
    """Raise unless a report can be written there: better before a long run than after.

    The folder may hold other files, or an earlier report, which is to be replaced. It is a
    DataFileError if it is a file, has files of those names that are not of a report, or cannot be
    written, and a MissingExtraError if matplotlib is not installed.
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
    return isinstance(document, dict) and {"requests", "rows", "tokens_are"} <= document.keys()
