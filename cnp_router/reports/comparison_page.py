"""The page of a `Comparison`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cnp_router.evaluation import Comparison, ComparisonRow, Table, comparison_tables
from cnp_router.evaluation.comparison import STAGES, Method, Stage
from cnp_router.evaluation.plots import (
    METRICS,
    colours_of,
    legend_marks,
    negotiated_in_part,
    recall_against_tokens,
    scores_at_stage,
)
from cnp_router.evaluation.report import (
    about,
    dearer,
    is_dearer,
    pairs,
    ratios,
    run_table,
    trouble_table,
    warnings_of,
)
from cnp_router.evaluation.table import count, share
from cnp_router.reports.drawing import COLOURS, HATCHES, SERIES, drawn, shares, thousands
from cnp_router.reports.listing import limited
from cnp_router.reports.page import Figure, Page, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison_page"]

_WIDEST = 32  # characters of a method
_WITHOUT_BROADCAST = "Nothing was both broadcast and routed, so nothing is saved here."
_OF: Mapping[Stage, str] = {
    "category": "of the named categories",
    "bid": "after bidding",
    "final": "of the final set",
}


def comparison_page(comparison: Comparison, *, problem: str = "") -> Page:
    """Return the page of a comparison; `problem` is why it ended early, if it did."""
    ended = (f"This comparison ended early: {problem}",) if problem else ()
    warnings = (*ended, *warnings_of(comparison))
    trouble, run = trouble_table(comparison), run_table(comparison)
    more = [dearer(*pair) for pair in pairs(comparison) if is_dearer(*pair)]
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
            Section(
                "What routing saves, and where it is dearer" if more else "What routing saves",
                tuple(more),
                figures=_traffic(comparison),
            ),
            _spent(comparison),
            Section("How good each stage is", figures=tuple(_scores(comparison))),
            *tables,
            *([Section("What was run", tables=(replace(run, title=""),))] if run else []),
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
        broadcast, routed = saved
        name, kept = routed.method.protocol, ratios(broadcast, routed)
        facts += [
            (f"tokens of a broadcast over those of routing: {name}", _times(kept["tokens"])),
            (f"messages of a broadcast over those of routing: {name}", _times(kept["messages"])),
            (
                f"final recall when routed, {share(broadcast.score('final', 'recall'))} when "
                f"broadcast: {name}",
                share(routed.score("final", "recall")),
            ),
        ]
    return facts


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{count(ratio, 1)}x"


def _final_f1(row: ComparisonRow) -> float:
    return row.score("final", "f1") or 0.0


def _best_routed(comparison: Comparison) -> tuple[ComparisonRow, ComparisonRow] | None:
    """Return, of what was both broadcast and routed, the pair of the highest F1 when routed."""
    return max(pairs(comparison), key=lambda pair: _final_f1(pair[1]), default=None)


def _name(row: ComparisonRow, comparison: Comparison) -> str:
    method = row.method
    by = f", by {method.organisation}" if len(comparison.contractors) > 1 else ""
    return f"{method.protocol}, {method.announcement}{by}"


def _traffic(comparison: Comparison) -> tuple[Figure, ...]:
    """Return recall against tokens, after bidding and in the end."""
    shown: tuple[Stage, ...] = ("bid", "final")
    return tuple(
        _recall(comparison, stage)
        for stage in shown
        if any(row.stages[stage] is not None for row in comparison.rows)
    )


def _recall(comparison: Comparison, stage: Stage) -> Figure:
    palette = SERIES
    rows = [
        row
        for row in comparison.rows
        if row.score(stage, "recall") is not None and row.is_whole_at(stage)
    ]

    def draw(axes: Axes) -> None:
        recall_against_tokens(axes, comparison, stage, palette, paper=COLOURS["card"])
        thousands(axes.xaxis)
        shares(axes.yaxis)
        axes.set_ylabel(f"recall {_OF[stage]}")
        colours = colours_of(comparison, palette)
        _legend(
            axes,
            legend_marks(
                {name: colours[name] for name in dict.fromkeys(r.method.protocol for r in rows)},
                comparison.contractors,
                ink=COLOURS["soft"],
                paper=COLOURS["card"],
            ),
        )

    without = negotiated_in_part(comparison, stage)
    columns: Mapping[str, Callable[[ComparisonRow], str]] = {
        "method": lambda row: _name(row, comparison),
        "tokens": lambda row: count(row.tokens),
        "recall": lambda row: share(row.score(stage, "recall")),
    }
    return Figure(
        f"Recall {_OF[stage]}, against tokens",
        drawn(draw, height=300),
        " ".join(
            [
                f"{_saved(comparison, stage)} Rings are broadcasts, dots are routed; each arrow "
                "leads from a protocol's broadcast to its routed rounds.",
                *without,
            ]
        ),
        Table.of("", columns, rows, notes=without),
    )


def _saved(comparison: Comparison, stage: Stage) -> str:
    """Return a sentence on the tokens that routing saves, and the recall it keeps."""
    times, gains = [], []
    for broadcast, routed in pairs(comparison):
        ratio = ratios(broadcast, routed)["tokens"]
        before, after = (row.score(stage, "recall") for row in (broadcast, routed))
        if ratio is not None and before is not None and after is not None:
            times.append((ratio, routed.method.protocol))
            gains.append((after - before, routed.method.protocol))
    if not times:
        return _WITHOUT_BROADCAST
    (least, cheap), (most, dear) = min(times), max(times)
    (lost, worst), (won, best) = min(gains), max(gains)
    return (
        f"A broadcast takes from {count(least, 1)} ({cheap}) to {count(most, 1)} ({dear}) times "
        f"the tokens of routing. Routing changes recall by {_change(lost)} ({worst}) to "
        f"{_change(won)} ({best})."
    )


def _change(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _spent(comparison: Comparison) -> Section:
    """Return tokens by stage and by role, as stacked bars."""
    title = "What the tokens are spent on"
    if not any(row.tokens for row in comparison.rows):
        return Section(title, ("No model was asked, so there are no tokens.",))
    by_stage = {
        row.method: {name: cost.tokens for name, cost in row.by_stage.items()}
        for row in comparison.rows
    }
    by_role = {row.method: row.by_role for row in comparison.rows}
    figures = (
        _stacked(comparison, "Tokens by stage of the protocol", by_stage),
        _stacked(comparison, "Share of the tokens by stage", by_stage, as_share=True),
        _stacked(comparison, "Tokens by role", by_role, preposition="by"),
    )
    return Section(title, figures=figures)


def _stacked(
    comparison: Comparison,
    title: str,
    spent: Mapping[Method, Mapping[str, float]],
    *,
    as_share: bool = False,
    preposition: str = "for",
) -> Figure:
    names = dict.fromkeys(n for parts in spent.values() for n, tokens in parts.items() if tokens)
    rows = [row for row in comparison.rows if row.tokens or (row.rounds and not as_share)]

    def amount(row: ComparisonRow, name: str) -> float:
        tokens = spent[row.method].get(name, 0.0)
        return tokens / (row.tokens or 1.0) if as_share else tokens

    def draw(axes: Axes) -> None:
        before = [0.0] * len(rows)
        for place, name in enumerate(names):
            widths = [amount(row, name) for row in rows]
            axes.barh(
                range(len(rows)), widths, 0.72, before, label=name,
                color=SERIES[place % len(SERIES)], edgecolor=COLOURS["card"], linewidth=0.6,
                hatch=HATCHES[place % len(HATCHES)],
            )  # fmt: skip
            before = [b + w for b, w in zip(before, widths, strict=True)]
        for place, total in enumerate(() if as_share else before):
            axes.annotate(
                count(total), (total, place), xytext=(3, 0), textcoords="offset points",
                va="center", fontsize=10.5,
            )  # fmt: skip
        names_of_rows = [limited(_name(row, comparison), _WIDEST) for row in rows]
        axes.set_yticks(range(len(rows)), names_of_rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        if as_share:
            shares(axes.xaxis)
            axes.set_xlim(0, 1)
        else:
            axes.set_xlim(0, 1.42 * max(before))
            axes.locator_params(axis="x", nbins=3)
            thousands(axes.xaxis)
        axes.set_xlabel("share of the tokens" if as_share else "tokens per request")
        _legend(axes, None)

    columns: dict[str, Callable[[ComparisonRow], str]] = {
        "method": lambda row: _name(row, comparison),
        **{name: _shown(amount, name, as_share=as_share) for name in names},
        "total": lambda row: count(row.tokens),
    }
    most = max(rows, key=lambda row: row.tokens or 0.0)
    name = max(names, key=lambda name: amount(most, name))
    says = (
        f"{_name(most, comparison)}, takes the most tokens, {count(most.tokens)} a request: "
        f"{_shown(amount, name, as_share=as_share)(most)} of them {preposition} {name}."
    )
    table = Table.of("", columns, rows)
    width = 360 if len(comparison.contractors) == 1 else 440  # names are longer
    return Figure(title, drawn(draw, width=width, height=110 + 20 * len(rows)), says, table)


def _shown(
    amount: Callable[[ComparisonRow, str], float], name: str, *, as_share: bool
) -> Callable[[ComparisonRow], str]:
    return lambda row: share(amount(row, name)) if as_share else count(amount(row, name))


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
