"""Plots of a comparison, registered in `PLOTS`. They need matplotlib (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnp_router.evaluation.comparison import STAGES, Comparison, Stage
from cnp_router.exceptions import MissingExtraError
from cnp_router.files import atomic_write
from cnp_router.printing import printable

__all__ = [
    "METRICS",
    "PALETTE",
    "PLOTS",
    "check_plots",
    "colours_of",
    "draw",
    "legend_marks",
    "negotiated_in_part",
    "recall_against_tokens",
    "scores_at_stage",
]

PALETTE = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),  # of Okabe and Ito
    *("#882255", "#999933"),  # of Paul Tol: dark and light
)
"""Distinct to people with any colour vision: at least as many as `PROTOCOLS`."""

METRICS = {"precision": "precision", "recall": "recall", "f1": "F1"}
"""Fields of `SetScores`, and what plots call them."""

_MARKERS = ("o", "s", "^", "D")  # organisations, where there are several
_GRID = "#e3e6ec"
_INK = "#444444"
_PAPER = "white"
_ARROW = {"arrowstyle": "-|>", "shrinkA": 6, "shrinkB": 5, "linewidth": 1.4}
_DPI = 150
_WIDEST = 24  # characters of a name


def check_plots() -> None:
    """Raise MissingExtraError if there is no matplotlib: better before a long run than after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as exc:
        raise MissingExtraError("drawing", package="matplotlib", extra="plot") from exc


def draw(comparison: Comparison, plot: str, path: str | Path) -> None:
    """Draw a plot of `PLOTS` as a PNG, written atomically.

    It is a MissingExtraError without matplotlib, and a DataFileError if the place cannot be
    written.
    """
    check_plots()
    import matplotlib as mpl

    figure = PLOTS[plot](comparison)
    with mpl.rc_context({"font.family": "DejaVu Sans"}), atomic_write(path, "wb") as out:
        figure.savefig(out, format="png", dpi=_DPI)


def traffic(comparison: Comparison) -> Any:
    """Return recall against tokens: an arrow for each method, from broadcast to routed."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    shown: dict[Stage, str] = {s: f"Recall, {STAGES[s]}" for s in ("bid", "final")}
    figure, panels = _panels(5.4, shown)
    for stage, axes in panels.items():
        recall_against_tokens(axes, comparison, stage, PALETTE, paper=_PAPER)
        axes.grid(color=_GRID)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        without = [printable(each, 80) for each in negotiated_in_part(comparison, stage)]
        axes.set_xlabel("\n".join([axes.get_xlabel(), *without]))
    panels["bid"].set_ylabel("recall")
    colours = colours_of(comparison, PALETTE)
    marks = legend_marks(colours, comparison.contractors, ink=_INK, paper=_PAPER)
    _legend(figure, marks)
    return figure


def stages(comparison: Comparison) -> Any:
    """Return precision, recall and F1 at each stage, of each method, broadcast and routed."""
    titles = {stage: title.capitalize() for stage, title in STAGES.items()}
    figure, panels = _panels(1.7 + 0.62 * len(comparison.by_method()), titles)
    for stage, axes in panels.items():
        scores_at_stage(axes, comparison, stage, PALETTE, paper=_PAPER, line=_GRID)
        axes.grid(axis="x", color=_GRID)
    metrics = dict(zip(METRICS.values(), PALETTE, strict=False))
    _legend(figure, legend_marks(metrics, (), ink=_INK, paper=_PAPER))
    return figure


def negotiated_in_part(comparison: Comparison, stage: Stage) -> list[str]:
    """Return a sentence for each row that `recall_against_tokens` leaves out at a stage."""
    return [
        f"Without {row.method.protocol}: {row.with_bids:,} of {row.rounds:,} requests were "
        "negotiated."
        for row in comparison.rows
        if not row.is_whole_at(stage)
    ]


def recall_against_tokens(
    axes: Any, comparison: Comparison, stage: Stage, palette: Sequence[str], *, paper: str
) -> None:
    """Draw recall at a stage against tokens: an arrow for each method, broadcast to routed.

    Tokens are means over all rounds. A method of which only some had the stage is left out: its
    recall is of others than its tokens. `paper` is the colour behind the plot.
    """
    axes.set_xscale("log")
    colours = colours_of(comparison, palette)
    markers = _styles(comparison.contractors, _MARKERS)
    for (protocol, organisation), rows in comparison.by_method().items():
        spots = {
            announcement: (row.tokens, recall)
            for announcement, row in rows.items()
            if (recall := row.score(stage, "recall")) is not None
            and row.tokens
            and row.is_whole_at(stage)
        }
        _spots(axes, spots, colours[protocol], paper, markers[organisation])
        start = spots.pop("broadcast", None)
        for end in spots.values() if start is not None else ():
            style = _ARROW | {"color": colours[protocol]}
            axes.annotate("", end, start, arrowprops=style)
    _free_of_tokens(axes, comparison, stage, colours)
    axes.set_xlabel("tokens per request, in and out")
    axes.margins(x=0.08)
    axes.set_ylim(0, 1.02)


def scores_at_stage(
    axes: Any,
    comparison: Comparison,
    stage: Stage,
    palette: Sequence[str],
    *,
    paper: str,
    line: str,
) -> None:
    """Draw precision, recall and F1 at a stage, of each method, broadcast and routed.

    `paper` is the colour behind the plot, `line` that of the lines between methods.
    """
    methods = comparison.by_method()
    for place, rows in enumerate(methods.values()):
        for number, (metric, colour) in enumerate(zip(METRICS, palette, strict=False)):
            y = place + 0.22 * (number - 1)
            spots = {
                announcement: (value, y)
                for announcement, row in rows.items()
                if (value := row.score(stage, metric)) is not None
            }
            _spots(axes, spots, colour, paper, size=24)
            if len(spots) > 1:
                ends = [value for value, _ in spots.values()]
                axes.plot(ends, [y] * len(ends), color=colour, linewidth=1.4, zorder=1)
    axes.set_xlim(-0.02, 1.02)
    for between in range(len(methods) - 1):
        axes.axhline(between + 0.5, color=line, linewidth=0.8)
    several = len(comparison.contractors) > 1
    names = [", ".join(method) if several else method[0] for method in methods]
    axes.set_yticks(range(len(methods)), [printable(name, _WIDEST) for name in names])
    axes.set_ylim(len(methods) - 0.5, -0.5)


PLOTS: Mapping[str, Callable[[Comparison], Any]] = {
    "traffic-recall.png": traffic,
    "stages.png": stages,
}
"""The plots of a report: file name to the function that returns the matplotlib figure."""


def _panels(height: float, titles: Mapping[Stage, str]) -> tuple[Any, dict[Stage, Any]]:
    """Return a figure, and a panel for each stage; they share the vertical axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, height), layout="constrained", facecolor="white")
    panels = dict(zip(titles, figure.subplots(1, len(titles), sharey=True), strict=True))
    for stage, axes in panels.items():
        axes.set_axisbelow(True)
        axes.set_title(titles[stage], fontsize=11)
    return figure, panels


def colours_of(comparison: Comparison, palette: Sequence[str]) -> dict[str, str]:
    """Return the colour of each protocol."""
    return _styles((row.method.protocol for row in comparison.rows), palette)


def _styles(names: Iterable[str], styles: Sequence[str]) -> dict[str, str]:
    return {name: styles[i % len(styles)] for i, name in enumerate(dict.fromkeys(names))}


def _spots(
    axes: Any,
    spots: Mapping[str, Any],
    colour: str,
    paper: str,
    marker: str = "o",
    *,
    size: float = 46,
) -> None:
    """Draw a method's spots by announcement: broadcast as a ring, routed full."""
    for announcement, spot in spots.items():
        routed = announcement != "broadcast"
        axes.scatter(
            *spot, s=size if routed else 3.2 * size, marker=marker, linewidth=1.4,
            facecolor=colour if routed else paper, edgecolor=colour, zorder=4 if routed else 3,
        )  # fmt: skip


def _free_of_tokens(
    axes: Any, comparison: Comparison, stage: Stage, colours: Mapping[str, str]
) -> None:
    """Draw a line for what cost nothing: a logarithmic axis has no place for that."""
    lines: dict[float, dict[str, None]] = {}
    for row in comparison.rows:
        recall = row.score(stage, "recall")
        if recall is not None and row.tokens == 0 and row.is_whole_at(stage):
            lines.setdefault(recall, {})[row.method.protocol] = None
    for recall, names in lines.items():
        colour = colours[next(iter(names))]
        for place, name in enumerate(names):  # those of one recall take turns on the line
            dashes = (5 * place, (5, 5 * max(len(names) - 1, 1)))
            axes.axhline(recall, color=colours[name], linestyle=dashes, linewidth=1.4)
        axes.annotate(
            f"{printable(', '.join(names), 2 * _WIDEST)}: no tokens", (0.99, recall),
            xycoords=("axes fraction", "data"), ha="right", xytext=(0, 3),
            textcoords="offset points", fontsize=9, color=colour,
        )  # fmt: skip


def legend_marks(
    colours: Mapping[str, str], organisations: Iterable[str], *, ink: str, paper: str
) -> list[Any]:
    """Return what a legend shows: colours, organisations if there are several, announcements."""
    from matplotlib.lines import Line2D

    def mark(label: str, face: str, *, edge: str = "", marker: str = "o", size: float = 7) -> Any:
        return Line2D(
            [], [], marker=marker, linestyle="", markersize=size, markerfacecolor=face,
            markeredgecolor=edge or face, markeredgewidth=1.4, label=label,
        )  # fmt: skip

    marks = [mark(printable(name, _WIDEST), colour) for name, colour in colours.items()]
    markers = _styles(organisations, _MARKERS)
    if len(markers) > 1:
        marks += [mark(f"by {name}", ink, marker=marker) for name, marker in markers.items()]
    return [*marks, mark("broadcast", paper, edge=ink, size=9), mark("routed", ink)]


def _legend(figure: Any, marks: Sequence[Any]) -> None:
    columns = len(marks) if len(marks) <= 8 else (len(marks) + 1) // 2
    figure.legend(handles=marks, loc="outside lower center", ncols=columns, frameon=False)
