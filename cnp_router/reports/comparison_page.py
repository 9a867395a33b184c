"""The page of a `Comparison`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cnp_router.evaluation import Comparison, ComparisonRow, Table, comparison_tables
from cnp_router.evaluation.comparison import STAGES, Method, Stage
from cnp_router.evaluation.plots import (
    METRICS,
    colours_of,
    legend_marks,
    recall_against_tokens,
    scores_at_stage,
)
from cnp_router.evaluation.report import about, ratios, trouble_table, warnings_of
from cnp_router.evaluation.table import count, share
from cnp_router.reports.drawing import COLOURS, SERIES, drawn, shares, thousands
from cnp_router.reports.page import Figure, Page, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison_page"]

_WITHOUT_BROADCAST = "Nothing was both broadcast and routed, so nothing is saved here."


def comparison_page(comparison: Comparison, *, problem: str = "") -> Page:
    """Return the page of a comparison; `problem` is why it ended early, if it did."""
    ended = (f"This comparison ended early: {problem}",) if problem else ()
    warnings = (*ended, *warnings_of(comparison))
    trouble = trouble_table(comparison)
    wrong = Section("What went wrong", warnings, tables=() if trouble is None else (trouble,))
    tables = [
        Section(f"Contractors by {organisation}: {comparison.contractors[organisation]:,}",
                tables=tuple(each))
        for organisation, each in comparison_tables(comparison).items()
    ]  # fmt: skip
    return Page(
        "Protocols side by side",
        tuple(about(comparison)),
        tuple(_facts(comparison)),
        (
            *([wrong] if warnings or trouble else []),
            Section("What routing saves", figures=tuple(_traffic(comparison))),
            Section("What the tokens are spent on", figures=tuple(_spent(comparison))),
            Section("How good each stage is", figures=tuple(_scores(comparison))),
            *tables,
        ),
    )


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    facts = [
        ("requests", count(comparison.requests)),
        ("methods compared", count(len(comparison.rows))),
    ]
    best = max(comparison.rows, key=_final_f1)
    facts.append((f"highest F1: {_name(best, comparison)}", share(best.score("final", "f1"))))
    saved = _best_routed(comparison)
    if saved is not None:
        routed, kept = saved
        name = routed.method.protocol
        facts += [
            (f"tokens of a broadcast against routing: {name}", _times(kept["tokens"])),
            (f"messages of a broadcast against routing: {name}", _times(kept["messages"])),
            (
                f"share of a broadcast's recall that routing keeps: {name}",
                share(kept["final_recall"]),
            ),
        ]
    return facts


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{count(ratio, 1)} times"


def _final_f1(row: ComparisonRow) -> float:
    return row.score("final", "f1") or 0.0


def _best_routed(
    comparison: Comparison,
) -> tuple[ComparisonRow, dict[str, float | None]] | None:
    """Return, of what was both broadcast and routed, the routed row of the highest F1."""
    pairs = [
        (row, ratios(rows["broadcast"], row))
        for rows in comparison.by_method().values()
        for announcement, row in rows.items()
        if announcement != "broadcast" and "broadcast" in rows
    ]
    return max(pairs, key=lambda pair: _final_f1(pair[0]), default=None)


def _name(row: ComparisonRow, comparison: Comparison) -> str:
    method = row.method
    by = f", by {method.organisation}" if len(comparison.contractors) > 1 else ""
    return f"{method.protocol}, {method.announcement}{by}"


def _traffic(comparison: Comparison) -> list[Figure]:
    """Return recall against tokens, after bidding and in the end."""
    return [
        _recall(comparison, stage)
        for stage in ("bid", "final")
        if any(row.stages[stage] is not None for row in comparison.rows)
    ]


def _recall(comparison: Comparison, stage: Stage) -> Figure:
    palette = SERIES

    def draw(axes: Axes) -> None:
        recall_against_tokens(axes, comparison, stage, palette, paper=COLOURS["card"])
        thousands(axes.xaxis)
        shares(axes.yaxis)
        axes.set_ylabel(f"recall, {STAGES[stage]}")
        shown = [row for row in comparison.rows if row.score(stage, "recall") is not None]
        colours = colours_of(comparison, palette)
        _legend(
            axes,
            legend_marks(
                {name: colours[name] for name in dict.fromkeys(r.method.protocol for r in shown)},
                comparison.contractors,
                ink=COLOURS["soft"],
                paper=COLOURS["card"],
            ),
        )

    columns: Mapping[str, Callable[[ComparisonRow], str]] = {
        "method": lambda row: _name(row, comparison),
        "tokens": lambda row: count(row.tokens),
        "recall": lambda row: share(row.score(stage, "recall")),
    }
    rows = [row for row in comparison.rows if row.score(stage, "recall") is not None]
    return Figure(
        f"Recall {STAGES[stage]}, against tokens",
        drawn(draw, width=380, height=310),
        f"{_saved(comparison, stage)} Rings are broadcasts, dots are routed; each arrow leads from "
        "a protocol's broadcast to its routed rounds.",
        Table.of("", columns, rows),
    )


def _saved(comparison: Comparison, stage: Stage) -> str:
    """Return a sentence on the tokens that routing saves, and the recall it keeps."""
    said = []
    for (protocol, organisation), rows in comparison.by_method().items():
        broadcast, routed = rows.get("broadcast"), rows.get("routed")
        if broadcast is None or routed is None:
            continue
        times = ratios(broadcast, routed)["tokens"]
        before, after = (row.score(stage, "recall") for row in (broadcast, routed))
        if times is not None and before is not None and after is not None:
            by = f" by {organisation}" if len(comparison.contractors) > 1 else ""
            said.append(
                f"{protocol}{by} {count(times, 1)} times the tokens, recall {share(before)} "
                f"against {share(after)}"
            )
    return f"Broadcast against routed: {'; '.join(said)}." if said else _WITHOUT_BROADCAST


def _spent(comparison: Comparison) -> list[Figure]:
    """Return tokens by stage and by role, as stacked bars."""
    by_stage = {
        row.method: {name: cost.tokens for name, cost in row.by_stage.items()}
        for row in comparison.rows
    }
    by_role = {row.method: row.by_role for row in comparison.rows}
    return [
        _stacked(comparison, "Tokens by stage of the protocol", by_stage),
        _stacked(comparison, "Tokens by role", by_role),
    ]


def _stacked(
    comparison: Comparison, title: str, spent: Mapping[Method, Mapping[str, float]]
) -> Figure:
    totals: dict[str, float] = {}
    for parts in spent.values():
        for name, tokens in parts.items():
            totals[name] = totals.get(name, 0.0) + tokens
    names = [name for name, total in totals.items() if total]
    rows = [row for row in comparison.rows if row.rounds]

    def draw(axes: Axes) -> None:
        before = [0.0] * len(rows)
        for place, name in enumerate(names):
            widths = [spent[row.method].get(name, 0.0) for row in rows]
            axes.barh(
                range(len(rows)), widths, 0.72, before, label=name,
                color=SERIES[place % len(SERIES)], edgecolor=COLOURS["card"], linewidth=0.6,
            )  # fmt: skip
            before = [b + w for b, w in zip(before, widths, strict=True)]
        for place, total in enumerate(before):
            axes.annotate(
                count(total), (total, place), xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=10,
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [_name(row, comparison) for row in rows])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.2)
        axes.locator_params(axis="x", nbins=4)
        thousands(axes.xaxis)
        axes.set_xlabel("tokens per request, in and out")
        _legend(axes, None)

    most = max(rows, key=lambda row: row.tokens or 0.0)
    largest = max(names, key=lambda name: spent[most.method].get(name, 0.0), default="")
    columns: dict[str, Callable[[ComparisonRow], str]] = {
        "method": lambda row: _name(row, comparison),
        **{name: _tokens_of(spent, name) for name in names},
        "total": lambda row: count(row.tokens),
    }
    return Figure(
        title,
        drawn(draw, width=400, height=90 + 21 * len(rows)),
        f"{_name(most, comparison)} takes the most tokens, {count(most.tokens)} of a request; "
        f"{count(spent[most.method].get(largest, 0.0))} of them are of: {largest}."
        if largest
        else "No model was asked, so there are no tokens.",
        Table.of("", columns, rows),
    )


def _tokens_of(
    spent: Mapping[Method, Mapping[str, float]], name: str
) -> Callable[[ComparisonRow], str]:
    return lambda row: count(spent[row.method].get(name, 0.0))


def _scores(comparison: Comparison) -> list[Figure]:
    """Return precision, recall and F1 at each stage that any method had."""
    figures = []
    for stage, title in STAGES.items():
        rows = [row for row in comparison.rows if row.stages[stage] is not None]
        if rows:
            figures.append(_score(comparison, stage, title, rows))
    return figures


def _score(comparison: Comparison, stage: Stage, title: str, rows: list[ComparisonRow]) -> Figure:
    def draw(axes: Axes) -> None:
        line = COLOURS["line"]
        scores_at_stage(axes, comparison, stage, SERIES, paper=COLOURS["card"], line=line)
        axes.grid(visible=False, axis="y")
        metrics = dict(zip(METRICS.values(), SERIES, strict=False))
        _legend(axes, legend_marks(metrics, (), ink=COLOURS["soft"], paper=COLOURS["card"]))

    columns: dict[str, Callable[[ComparisonRow], str]] = {
        "method": lambda row: _name(row, comparison),
        **{name: _score_of(stage, metric) for metric, name in METRICS.items()},
    }
    best = max(rows, key=lambda row: row.score(stage, "f1") or 0.0)
    return Figure(
        f"Precision, recall and F1: {title}",
        drawn(draw, height=90 + 34 * len(comparison.by_method())),
        f"The highest F1 is {share(best.score(stage, 'f1'))}, of {_name(best, comparison)}. Rings "
        "are broadcasts, dots are routed.",
        Table.of("", columns, rows),
    )


def _score_of(stage: Stage, metric: str) -> Callable[[ComparisonRow], str]:
    return lambda row: share(row.score(stage, metric))


def _legend(axes: Axes, marks: list[Any] | None) -> None:
    """Add a legend below the plot; without `marks`, of what has a label."""
    handles = axes.get_legend_handles_labels()[0] if marks is None else marks
    figure: Any = axes.get_figure()
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
