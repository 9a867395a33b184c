"""The pictures of the page on the next tool. They need matplotlib (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import GRID, INK, svg_figure
from benchmarks.next_tool_predictors import ReliabilityBin
from cnp_router.evaluation import PrequentialEvaluation
from cnp_router.evaluation.prequential import AtThreshold

__all__ = ["HistoryPoint", "draw_calibration", "draw_history", "draw_risk"]

# Okabe and Ito's palette, told apart with any colour vision; marker and line differ too.
_LOOKS: dict[str, dict[str, Any]] = {
    "context": {"color": "#0072b2", "marker": "o", "linestyle": "-"},
    "backoff": {"color": "#d55e00", "marker": "s", "linestyle": "--"},
    "first-order": {"color": "#009e73", "marker": "^", "linestyle": "-."},
}
_NAMES = {"context": "context", "backoff": "third-order backoff", "first-order": "first order"}
_CLAIM: dict[str, Any] = {"color": "#444444", "marker": "x", "linestyle": ":"}
# As reported for AutoTool, by trajectories: 500 stands for 500 or more.
_CLAIMED_COVERAGE = {10: 0.30, 50: 0.65, 100: 0.85, 500: 0.95}
_CLAIMED_SAVINGS = {10: 0.05, 50: 0.15, 100: 0.25, 500: 0.30}
_MARKED = (0.4, 0.6, 0.8)
# What rests on fewer is noise.
_LEAST_COVERAGE = 0.02
_LEAST_STEPS = 20


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """How one predictor did on one log, with so much learned from before.

    Parameters
    ----------
    log, predictor : str
    size : int >= 0
        Trajectories learned from before the replay.
    learning : bool
        Whether it goes on learning while the log is replayed.
    known : float in [0, 1]
        Share of the log's transitions that occurred in those trajectories. The start of a
        trajectory counts as a tool.
    coverage, tokens_saved : float in [0, 1]
        At θ = .60.
    accuracy : float in [0, 1] or None
        At θ = .60; None if nothing was predicted in any draw.
    best_saved : float in [0, 1]
        Tokens saved at the θ that saves most at an accuracy of at least .80; 0 if none does.
    """

    log: str
    predictor: str
    size: int
    learning: bool
    known: float
    coverage: float
    accuracy: float | None
    tokens_saved: float
    best_saved: float


def draw_history(points: Sequence[HistoryPoint], path: Path) -> None:
    """Draw coverage, accuracy and tokens saved at θ = .60 against the size of the history.

    One row without and one with learning during the replay. Lines are means over the logs, bands
    reach from the lowest to the highest of them.
    """
    with svg_figure(path, width=9.6, height=6.0) as figure:
        panels = figure.subplots(2, 3, sharex=True, sharey=True)
        ways = ((False, "from the history alone"), (True, "learning on in the replay"))
        for row, (learning, way) in zip(panels, ways, strict=True):
            chosen = [point for point in points if point.learning is learning]
            _history_row(row, chosen)
            row[0].set_ylabel(f"share, {way}")
        for axes, title in zip(panels[0], ("Coverage", "Accuracy", "Tokens saved"), strict=True):
            axes.set_title(title, fontsize=11)
        for axes in panels[1]:
            axes.set_xlabel("trajectories learned from before")
        for axes in panels.flat:
            _history_axis(axes, sorted({p.size for p in points} | set(_CLAIMED_COVERAGE)))
        _legend(figure, claim=True)


def draw_risk(replays: Mapping[str, PrequentialEvaluation], path: Path) -> None:
    """Draw the share of the predicted steps that is wrong against the share that is predicted.

    From a coverage of .02 on. The thresholds .4, .6 and .8 are marked.
    """
    with svg_figure(path, width=9.6, height=4.0) as figure:
        for axes, (log, result) in _panels(figure, replays):
            for name in _shown(result.methods):
                method, look = result.methods[name], _LOOKS[name]
                curve = [p for p in method.risk_coverage if p.coverage >= _LEAST_COVERAGE]
                axes.plot(
                    [point.coverage for point in curve], [point.risk for point in curve],
                    color=look["color"], linestyle=look["linestyle"], linewidth=1.6,
                )  # fmt: skip
                for at in method.thresholds:
                    if at.threshold in _MARKED and at.coverage >= _LEAST_COVERAGE:
                        _threshold(axes, at, name)
            axes.axhline(0.2, color=INK, linewidth=0.8, linestyle=":")
            axes.set_title(log, fontsize=10)
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 0.7)
            axes.set_xlabel("coverage")
        figure.axes[0].set_ylabel("risk: 1 - accuracy of what is predicted")
        _legend(figure)


def draw_calibration(
    replays: Mapping[str, PrequentialEvaluation],
    reliability: Mapping[str, Mapping[str, Sequence[ReliabilityBin]]],
    path: Path,
) -> None:
    """Draw how often predictions of a confidence are right: a diagonal is perfect.

    Marks grow with the steps in their bin; bins of fewer than 20 steps are left out, though the
    errors count them. `reliability` is by log, then predictor.
    """
    with svg_figure(path, width=9.6, height=4.0) as figure:
        for axes, (log, result) in _panels(figure, replays):
            axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
            for place, name in enumerate(_shown(reliability[log])):
                _reliability(axes, reliability[log][name], result.n_steps, _LOOKS[name])
                error = result.methods[name].calibration_error
                axes.annotate(
                    f"ECE {error:.3f}", (0.97, 0.17 - 0.065 * place), ha="right",
                    xycoords="axes fraction", color=_LOOKS[name]["color"], fontsize=9,
                )  # fmt: skip
            axes.set_title(log, fontsize=10)
            axes.set_xlim(0, 1.02)
            axes.set_ylim(0, 1.02)
            axes.set_aspect("equal")
            axes.set_xlabel("confidence")
        figure.axes[0].set_ylabel("accuracy")
        _legend(figure)


def _history_row(row: Sequence[Any], points: Sequence[HistoryPoint]) -> None:
    columns: tuple[Callable[[HistoryPoint], float | None], ...] = (
        lambda p: p.coverage, lambda p: p.accuracy, lambda p: p.tokens_saved,
    )  # fmt: skip
    for axes, value in zip(row, columns, strict=True):
        for name, look in _LOOKS.items():
            spread = _spread((p.size, value(p)) for p in points if p.predictor == name)
            sizes = list(spread)
            means = [float(np.mean(values)) for values in spread.values()]
            lowest, highest = map(min, spread.values()), map(max, spread.values())
            axes.plot(sizes, means, linewidth=1.6, markersize=4.5, **look)
            axes.fill_between(
                sizes, list(lowest), list(highest), color=look["color"], alpha=0.1, linewidth=0
            )
    for axes, claimed in ((row[0], _CLAIMED_COVERAGE), (row[2], _CLAIMED_SAVINGS)):
        axes.plot(list(claimed), list(claimed.values()), linewidth=1.2, markersize=6, **_CLAIM)


def _spread(values: Iterable[tuple[int, float | None]]) -> dict[int, list[float]]:
    spread: dict[int, list[float]] = {}
    for size, value in values:
        if value is not None:
            spread.setdefault(size, []).append(value)
    return dict(sorted(spread.items()))


def _history_axis(axes: Any, sizes: Sequence[int]) -> None:
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
    axes.minorticks_off()
    axes.tick_params(length=0)
    axes.set_xlim(-1, sizes[-1] * 1.25)
    axes.set_ylim(0, 1)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)


def _threshold(axes: Any, at: AtThreshold, name: str) -> None:
    look, risk = _LOOKS[name], 1.0 - (at.accuracy or 0.0)
    axes.plot([at.coverage], [risk], marker=look["marker"], color=look["color"], markersize=5)
    # Under the lowest curve and over the others, so that neighbours do not collide.
    place = {"xytext": (5, -10), "ha": "left"} if name == "context" else {"xytext": (-2, 6)}
    axes.annotate(
        f"{at.threshold:.1f}".lstrip("0"), (at.coverage, risk), textcoords="offset points",
        fontsize=8, color=look["color"], **{"ha": "right", **place},
    )  # fmt: skip


def _reliability(
    axes: Any, bins: Sequence[ReliabilityBin], n_steps: int, look: Mapping[str, Any]
) -> None:
    drawn = [b for b in bins if b.n >= _LEAST_STEPS]
    confidence, accuracy = [b.confidence for b in drawn], [b.accuracy for b in drawn]
    axes.plot(confidence, accuracy, color=look["color"], linestyle=look["linestyle"], linewidth=1.0)
    axes.scatter(
        confidence, accuracy, s=[4 + 400 * b.n / n_steps for b in drawn], color=look["color"],
        marker=look["marker"], linewidth=0, alpha=0.8, zorder=3,
    )  # fmt: skip


def _panels(
    figure: Any, replays: Mapping[str, PrequentialEvaluation]
) -> Iterator[tuple[Any, tuple[str, PrequentialEvaluation]]]:
    panels = figure.subplots(1, len(replays), sharey=True, squeeze=False)[0]
    for axes, item in zip(panels, replays.items(), strict=True):
        axes.grid(color=GRID)
        axes.set_axisbelow(True)
        yield axes, item


def _shown(methods: Iterable[str]) -> list[str]:
    """Return the methods that predict, the best known last: it is drawn on top."""
    there = set(methods)
    return [name for name in reversed(_LOOKS) if name in there]


def _legend(figure: Any, *, claim: bool = False) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], label=_NAMES[name], **look) for name, look in _LOOKS.items()]
    if claim:
        marks.append(Line2D([], [], label="reported for AutoTool", **_CLAIM))
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False)
