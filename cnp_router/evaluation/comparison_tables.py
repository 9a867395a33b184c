"""The tables of a comparison: those of the thesis, broadcast and routed side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cnp_router.evaluation.comparison import STAGES, Comparison, ComparisonRow
from cnp_router.evaluation.comparison_trouble import TROUBLE_TITLE, trouble_rows
from cnp_router.evaluation.report import markdown_table, text_table

__all__ = [
    "ComparisonTable",
    "answered_by",
    "averaged_over",
    "comparison_tables",
    "markdown",
    "ratios",
]

_SCORES = (("P", "precision"), ("R", "recall"), ("F1", "f1"))
_STEPS = {"category": "2", "bid": "3", "final": "4"}
_NOTHING = "-"

Cells = Callable[[ComparisonRow], list[str]]


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """A table, with its columns in groups.

    Parameters
    ----------
    title : str
    organise : str
    key : tuple of str
        Titles of the first columns, which say what a row is about.
    groups : tuple of (str, tuple of str)
        Title of each group, and titles of its columns.
    rows : tuple of tuple of str
        Cells of the key, then of each group.
    notes : tuple of str
        What has to be known of some rows, a sentence each.
    """

    title: str
    organise: str
    key: tuple[str, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the table as aligned text, its title above and its notes below."""
        columns = [column for _, titles in self.groups for column in titles]
        lines = text_table([[*self.key, *columns], *self.rows]).split("\n")
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([self.title, "", self._over(lines[1]), *lines, *notes])

    def markdown(self) -> str:
        """Return the table in Markdown, its title above and its notes below."""
        columns = [f"{group} {column}" for group, titles in self.groups for column in titles]
        table = markdown_table([[*self.key, *columns], *self.rows])
        return "\n\n".join([f"**{self.title}**", table, *self.notes])

    def _over(self, rule: str) -> str:
        """Return the titles of the groups, each above the end of its last column."""
        ends = [match.end() for match in re.finditer("-+", rule)]
        line, last = "", len(self.key) - 1
        for title, titles in self.groups:
            last += len(titles)
            line = line.ljust(ends[last] - len(title)) + title
        return line


def comparison_tables(comparison: Comparison) -> list[ComparisonTable]:
    """Return the tables of a comparison.

    Those of the thesis (tokens; precision, recall and F1 after steps 2, 3 and 4; number of APIs),
    and how many times as much a broadcast costs, where there are both announcements. All are
    means over the requests whose round did not fail.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    list of ComparisonTable
        Those of one organisation after those of the other.
    """
    tables = []
    for organise in comparison.contractors:
        of_it = _Organised(comparison, organise)
        tables += [of_it.tokens(), of_it.scores(), of_it.sizes()]
        if both := of_it.ratios():
            tables.append(both)
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
    kept = {
        f"{stage}_recall": _divided(
            getattr(routed.stages[stage], "recall", None),
            getattr(broadcast.stages[stage], "recall", None),
        )
        for stage in ("bid", "final")
    }
    return {
        "tokens": _divided(broadcast.tokens, routed.tokens),
        "messages": _divided(broadcast.messages, routed.messages),
        "model_calls": _divided(broadcast.model_calls, routed.model_calls),
        **kept,
    }


def averaged_over(comparison: Comparison) -> str:
    """Return a sentence that says what the figures are means over."""
    skipped = f" ({comparison.skipped:,} skipped)" if comparison.skipped else ""
    failed = any(row.failed_rounds for row in comparison.rows)
    without = ", without the rounds that failed and what these cost" if failed else ""
    return f"{comparison.requests:,} requests{skipped}; figures are means over them{without}."


def answered_by(comparison: Comparison) -> str:
    """Return a sentence that says who answered, and what that is worth."""
    if comparison.is_offline:
        return (
            f"The model {comparison.model!r} answered: text similarity, a stand-in that gives the "
            "traffic of the real prompts. Its precision and recall are no measure of a language "
            "model's quality. Tokens are estimated."
        )
    counted = "counted by the server" if comparison.tokens_are == "server" else "estimated"
    return f"The model {comparison.model!r} answered. Tokens are {counted}."


def markdown(comparison: Comparison) -> str:
    """Return a comparison as a Markdown document.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
    """
    parts = ["# Comparison of protocols", averaged_over(comparison), answered_by(comparison)]
    tables = comparison_tables(comparison)
    for organise, contractors in comparison.contractors.items():
        parts.append(f"## Contractors by {organise}: {contractors:,}")
        parts += [table.markdown() for table in tables if table.organise == organise]
    if trouble := trouble_rows(comparison):
        parts += [f"## {TROUBLE_TITLE}", markdown_table(trouble)]
    return "\n\n".join(parts) + "\n"


class _Organised:
    """The methods of one organisation."""

    def __init__(self, comparison: Comparison, organise: str) -> None:
        self.organise = organise
        self.protocols: dict[str, dict[str, ComparisonRow]] = {}
        for row in comparison.rows:
            if row.method.organise == organise:
                self.protocols.setdefault(row.method.protocol, {})[row.method.announce] = row
        there = {announce for rows in self.protocols.values() for announce in rows}
        self.announcements = [name for name in ("broadcast", "routed") if name in there]

    def tokens(self) -> ComparisonTable:
        def cells(row: ComparisonRow) -> list[str]:
            return [_count(row.tokens_in), _count(row.tokens_out), _count(row.tokens)]

        return self._side_by_side("Tokens of a request", ("in", "out", "total"), cells)

    def sizes(self) -> ComparisonTable:
        def cells(row: ComparisonRow) -> list[str]:
            return [_count(row.mean_apis, 2), _count(row.recipients, 1)]

        title = "Number of APIs in the final set, and of contractors asked"
        return self._side_by_side(title, ("APIs", "asked"), cells)

    def scores(self) -> ComparisonTable:
        rows = []
        for protocol, by in self.protocols.items():
            for stage in STAGES:
                if any(row.stages[stage] is not None for row in by.values()):
                    cells = self._cells(by, len(_SCORES), partial(_score_cells, stage))
                    rows.append((protocol, _STEPS[stage], *cells))
        groups = tuple((name, tuple(t for t, _ in _SCORES)) for name in self.announcements)
        title = "Precision, recall and F1 of the APIs after steps 2, 3 and 4"
        notes = (_negotiated(row) for by in self.protocols.values() for row in by.values())
        return ComparisonTable(
            title,
            self.organise,
            ("method", "step"),
            groups,
            tuple(rows),
            tuple(note for note in notes if note),
        )

    def ratios(self) -> ComparisonTable | None:
        rows = []
        for protocol, by in self.protocols.items():
            if len(by) == 2:
                found = ratios(by["broadcast"], by["routed"])
                costs = [found[name] for name in ("tokens", "messages", "model_calls")]
                kept = [found[name] for name in ("bid_recall", "final_recall")]
                rows.append((protocol, *map(_times, costs), *map(_share, kept)))
        if not rows:
            return None
        groups = (
            ("broadcast / routed", ("tokens", "messages", "model calls")),
            ("routed / broadcast", ("recall 3", "recall 4")),
        )
        title = "How many times as much a broadcast costs, and the recall kept after steps 3 and 4"
        return ComparisonTable(title, self.organise, ("method",), groups, tuple(rows))

    def _side_by_side(self, title: str, columns: tuple[str, ...], cells: Cells) -> ComparisonTable:
        rows = tuple(
            (protocol, *self._cells(by, len(columns), cells))
            for protocol, by in self.protocols.items()
        )
        groups = tuple((name, columns) for name in self.announcements)
        return ComparisonTable(title, self.organise, ("method",), groups, rows)

    def _cells(self, by: dict[str, ComparisonRow], width: int, cells: Cells) -> list[str]:
        """Return the cells of each announcement, in order."""
        empty = [_NOTHING] * width
        return [
            cell
            for name in self.announcements
            for cell in (cells(by[name]) if name in by else empty)
        ]


def _score_cells(stage: str, row: ComparisonRow) -> list[str]:
    return [_share(getattr(row.stages[stage], name, None)) for _, name in _SCORES]


def _negotiated(row: ComparisonRow) -> str:
    """Return a note where step 3 is not over all rounds; empty otherwise."""
    if row.negotiated in (0, row.rounds):
        return ""
    return (
        f"Step 3 of {row.method.protocol} is a mean over the {row.negotiated:,} of "
        f"{row.rounds:,} requests that were negotiated."
    )


def _count(value: float | None, digits: int = 0) -> str:
    return _NOTHING if value is None else f"{value:,.{digits}f}"


def _share(value: float | None) -> str:
    if value is None:
        return _NOTHING
    shown = f"{value:.3f}"
    return shown[1:] if shown.startswith("0") else shown


def _times(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.1f}"


def _divided(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
