"""What more history is worth, for the page of an `Evaluation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from cnp_router.evaluation import LearningCurve, Table
from cnp_router.evaluation.learning_curve import LearningPoint
from cnp_router.evaluation.table import count, share
from cnp_router.reports.drawing import COLOURS, DASHES, MARKS, SERIES, behind, drawn, shares
from cnp_router.reports.page import Figure, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["learning_section"]

_FIRST = SERIES[0]
_DASHED = (0, (4, 3))


def learning_section(curve: LearningCurve) -> Section:
    """Return the section of a learning curve."""
    sizes = [point.mashups for point in curve.points]
    lines: Mapping[str, Callable[[LearningPoint], float]] = {
        "recall of the first 20": lambda point: point.evaluation.ranking["recall@20"],
        "recall of the first 5": lambda point: point.evaluation.ranking["recall@5"],
        "F1 of the recommendation": lambda point: point.evaluation.recommendation["f1"],
    }
    places = np.arange(len(sizes))

    def draw(axes: Axes) -> None:
        for place, (name, value) in enumerate(lines.items()):
            values = [value(point) for point in curve.points]
            axes.plot(
                places, values, color=SERIES[place], linestyle=DASHES[place], marker=MARKS[place],
                label=name, markeredgecolor=COLOURS["card"],
            )  # fmt: skip
        _sizes(axes)
        shares(axes.yaxis)
        axes.set_ylabel("share")
        axes.legend(loc="lower right")

    def asked(axes: Axes) -> None:
        recipients = [point.evaluation.recipients for point in curve.points]
        bars = behind(axes, "recipients, mean (bars)")
        drawn_bars = bars.bar(places, [r["mean"] for r in recipients], 0.6, color=COLOURS["line"])
        bars.bar_label(drawn_bars, [count(r["mean"], 1) for r in recipients], label_type="center")
        bars.set_ylim(0, 1.25 * max(r["mean"] for r in recipients))
        axes.axhline(target, color=COLOURS["rest"], linewidth=1.2, linestyle=_DASHED)
        axes.plot(
            places, [r["recall"] for r in recipients], color=_FIRST, marker="o",
            markeredgecolor=COLOURS["card"],
        )  # fmt: skip
        _sizes(axes)
        shares(axes.yaxis)
        axes.set_ylabel("recall of the recipients")

    def _sizes(axes: Axes) -> None:
        axes.set_xticks(places, [f"{size:,}" for size in sizes])
        axes.set_xlabel("past mashups")

    first, last = (lines["recall of the first 5"](curve.points[i]) for i in (0, -1))
    target = curve.points[-1].evaluation.recipients["target_recall"]
    before, after = (curve.points[i].evaluation.recipients for i in (0, -1))
    return Section(
        "Learning curve",
        (
            "The router was fitted again on parts of its past mashups, each within the next, and "
            "asked the same requests.",
        ),
        (
            Figure(
                "What more history is worth",
                drawn(draw),
                f"The recall of the first 5 APIs is {share(first)} with {sizes[0]:,} past mashups "
                f"and {share(last)} with {sizes[-1]:,}.",
                curve.table(),
            ),
            Figure(
                "Keeping the target recall",
                drawn(asked),
                f"The target is {share(target)}. With {sizes[0]:,} past mashups the router asks "
                f"{count(before['mean'], 1)} APIs and finds {share(before['recall'])} of what was "
                f"used; with {sizes[-1]:,} it asks {count(after['mean'], 1)} and finds "
                f"{share(after['recall'])}.",
                Table.of(
                    "",
                    {
                        "past requests": lambda point: count(point.mashups),
                        "recipients": lambda point: count(point.evaluation.recipients["mean"], 1),
                        "recall": lambda point: share(point.evaluation.recipients["recall"]),
                        "target": lambda point: share(target),
                    },
                    curve.points,
                    labels=0,
                ),
            ),
        ),
    )
