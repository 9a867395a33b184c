"""The page of an `Evaluation`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from cnp_router.evaluation import Evaluation, LearningCurve, Table
from cnp_router.evaluation.curves import ConfidencePoint, RecallPoint
from cnp_router.evaluation.metrics import ReliabilityBin
from cnp_router.evaluation.table import count, share
from cnp_router.reports.drawing import (
    COLOURS,
    DASHES,
    SERIES,
    behind,
    drawn,
    logarithmic,
    shares,
)
from cnp_router.reports.learning_section import learning_section
from cnp_router.reports.page import Figure, Page, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["evaluation_page"]

_FIRST, _SECOND, _THIRD, *_ = SERIES
_DASHED = (0, (4, 3))
_ENOUGH = 100  # requests, from which the figures are worth something
_FEW = 20  # no line goes through what is the mean of fewer
_NO_CURVE = (
    "The learning curve was not measured: it fits several times. Get it with "
    "cnp-router evaluate --learning-curve, or give write_html a curve=learning_curve(...)."
)


def evaluation_page(
    evaluation: Evaluation,
    *,
    curve: LearningCurve | None = None,
    model: str = "",
    histories: Sequence[str] = (),
) -> Page:
    """Return the page of an evaluation, with a learning curve where there is one.

    It says the names of the model's folder and of the files with the requests, where given.
    """
    learned = Section("Learning curve", (_NO_CURVE,)) if curve is None else learning_section(curve)
    return Page(
        "How good is the router?",
        (*_lead(evaluation), _provenance(evaluation, model, histories)),
        _facts(evaluation),
        (
            Section("Whom it asks", figures=(_recipients(evaluation), _depths(evaluation))),
            Section(
                "How sure it is",
                figures=(_confidence(evaluation), _reliability(evaluation)),
            ),
            Section("How fast it is", figures=(_speed(evaluation),)),
            learned,
            _all_figures(evaluation),
        ),
    )


def _provenance(evaluation: Evaluation, model: str, histories: Sequence[str]) -> str:
    """Return what was measured, and with which settings, in one line."""
    total = f"{count(evaluation.recipients['total'])} APIs"
    if evaluation.n_mashups is None:
        said = f"Router over {total}"
    else:
        said = f"Router that learned from {evaluation.n_mashups:,} past requests over {total}"
    parts = [f"{said} ({model})" if model else said]
    parts += [f"requests from {', '.join(histories)}"] if histories else []
    parts += ["dated {} to {}".format(*evaluation.days)] if evaluation.days else []
    parts.append(f"threshold of the confidence {evaluation.threshold:g}")
    parts.append(f"target recall {evaluation.recipients['target_recall']:g}")
    return f"{'; '.join(parts)}."


def _lead(evaluation: Evaluation) -> tuple[str, ...]:
    skipped = ""
    if evaluation.skipped:
        skipped = (
            f" {evaluation.skipped:,} more were skipped: they name an API that the router does not "
            "know, or describe nothing."
        )
    dates = "without a date"
    if evaluation.dated and evaluation.with_date:
        dates = f"as of its date ({evaluation.with_date:,} have one)"
    seen = ", none of which the router had learned from" if evaluation.learned_from == 0 else ""
    notes = [evaluation.learned_from_note]
    if evaluation.requests < _ENOUGH:
        notes.append(
            f"there are fewer than {_ENOUGH} requests, so chance alone moves the figures by much"
        )
    warnings = [f"Warning: {note}." for note in notes if note]
    return (
        *warnings,
        f"{evaluation.requests:,} past requests{seen}, each asked {dates}. "
        "What it chose is compared with what was used. Figures are means over the "
        "requests, ± what chance alone may add or take away (95% intervals: 1.96 standard errors)."
        f"{skipped}",
    )


def _facts(evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    recipients, errors = evaluation.recipients, evaluation.standard_errors

    def off(group: str, name: str, shown: Callable[[float], str] = share) -> str:
        error = errors[group][name]
        return "" if error is None else f", ± {shown(1.96 * error)}"

    return (
        ("requests", count(evaluation.requests)),
        *(
            (
                f"recall of the first {k} APIs{off('ranking', f'recall@{k}')}",
                share(evaluation.ranking[f"recall@{k}"]),
            )
            for k in _shown_depths(evaluation)
        ),
        (
            f"F1 of the recommendation{off('recommendation', 'f1')}",
            share(evaluation.recommendation["f1"]),
        ),
        (
            f"recall of the recipients, target {share(recipients['target_recall'])}"
            f"{off('recipients', 'recall')}",
            share(recipients["recall"]),
        ),
        (
            f"recipients of {count(recipients['total'])}, mean"
            f"{off('recipients', 'mean', lambda n: count(n, 1))}",
            count(recipients["mean"], 1),
        ),
        ("calibration error (ECE)", share(evaluation.calibration["ece"])),
        (
            f"requests below the threshold of {evaluation.threshold:g}",
            f"{evaluation.fallback_rate:.1%}",
        ),
    )


def _shown_depths(evaluation: Evaluation) -> list[int]:
    """Return the depths that say something: the first of no more APIs than that are all."""
    return [k for k in (5, 20) if k < evaluation.recipients["total"]]


def _all_figures(evaluation: Evaluation) -> Section:
    """Return all figures, a table for each group: on a phone, one is wide enough."""
    table = evaluation.table()
    _, *columns = table.columns
    tables = tuple(
        Table(title, tuple(columns), tuple(row[1:] for row in rows), labels=2)
        for title, rows in groupby(table.rows, key=lambda row: row[0])
    )
    return Section("All figures", (f"{table.title}.",), tables=tables)


def _recipients(evaluation: Evaluation) -> Figure:
    """Return recall against recipients, with the point that was chosen."""
    points, fixed = evaluation.curves.thresholds, evaluation.curves.depths
    chosen, target = evaluation.recipients, evaluation.recipients["target_recall"]
    at_fixed = float(
        np.interp(chosen["mean"], [p.recipients for p in fixed], [p.recall for p in fixed])
    )

    def draw(axes: Axes) -> None:
        axes.axhline(target, color=COLOURS["rest"], linewidth=1.2, linestyle=_DASHED)
        _line(axes, fixed, lambda p: p.recall, COLOURS["rest"], "the same number for every request",
              dash=2)  # fmt: skip
        _line(axes, points, lambda p: p.recall, _FIRST, "by probability")
        axes.plot(
            chosen["mean"], chosen["recall"], "o", color=_SECOND, markersize=9,
            markeredgecolor=COLOURS["card"], label=f"chosen for a target of {share(target)}",
        )  # fmt: skip
        logarithmic(axes, "x")
        shares(axes.yaxis)
        axes.set_xlabel("recipients of a request, mean")
        axes.set_ylabel("recall")
        axes.legend(loc="lower right")

    pays = "adapting makes no difference"
    if share(at_fixed) != share(chosen["recall"]):
        pays = "adapting pays" if chosen["recall"] > at_fixed else "adapting does not pay"
    return Figure(
        "Recall against recipients",
        drawn(draw),
        f"For a target recall of {share(target)}, {count(chosen['mean'], 1)} of "
        f"{count(chosen['total'])} APIs are asked on average, and {share(chosen['recall'])} of "
        f"what was used is among them. Asking the same number for every request would find "
        f"{share(at_fixed)}: here {pays}.",
        Table.of(
            "",
            {
                "from probability": lambda p: f"{p.threshold:.4f}",
                "recipients": lambda p: count(p.recipients, 1),
                "recall": lambda p: share(p.recall),
                "requests with all": lambda p: share(p.complete),
            },
            points,
            labels=0,
        ),
    )


def _depths(evaluation: Evaluation) -> Figure:
    points = evaluation.curves.depths

    def draw(axes: Axes) -> None:
        _line(axes, points, lambda p: p.recall, _FIRST, "recall", marker="o")
        _line(axes, points, lambda p: p.complete, _THIRD, "requests with all they used", marker="s",
              dash=1)  # fmt: skip
        logarithmic(axes, "x")
        shares(axes.yaxis)
        axes.set_xlabel("first APIs of the ranking")
        axes.set_ylabel("share")
        axes.legend(loc="lower right")

    said = [f"The first API holds {share(points[0].recall)} of what was used"]
    said += [
        f"the first {k} {share(evaluation.ranking[f'recall@{k}'])}"
        for k in _shown_depths(evaluation)
    ]
    complete = ""
    if evaluation.recipients["total"] > 20:
        all_of = share(evaluation.ranking["complete@20"])
        complete = f"; {all_of} of the requests have all they used among the first 20"
    return Figure(
        "Recall by depth of the ranking",
        drawn(draw),
        f"{', '.join(said)}{complete}.",
        Table.of(
            "",
            {
                "first APIs": lambda p: count(p.recipients),
                "recall": lambda p: share(p.recall),
                "requests with all": lambda p: share(p.complete),
            },
            points,
            labels=0,
        ),
    )


def _confidence(evaluation: Evaluation) -> Figure:
    """Return how often an answer is right above a confidence, with the threshold in use."""
    points, used = evaluation.curves.confidences, evaluation.threshold
    reached = [point for point in points if point.complete is not None]
    many = [point for point in reached if point.requests >= _FEW]
    few = [point for point in reached if point.requests < _FEW]

    def draw(axes: Axes) -> None:
        axes.axvline(used, color=_SECOND, linewidth=1.2, linestyle=_DASHED, label="in use")
        axes.plot(
            [p.threshold for p in points], [p.share for p in points],
            color=COLOURS["rest"], label="requests that reach it",
        )  # fmt: skip
        for some, inside in ((many, _FIRST), (few, COLOURS["card"])):
            axes.plot(
                [p.threshold for p in some], [_complete(p) for p in some], color=_FIRST, marker="o",
                markersize=4, linestyle="-" if some is many else "none", markerfacecolor=inside,
                label="of these, recipients hold all" if some is many else None,
            )  # fmt: skip
        shares(axes.xaxis)
        shares(axes.yaxis)
        axes.set_xlabel("threshold of the confidence")
        axes.set_ylabel("share")
        axes.legend(loc="lower left")

    sure = next(point for point in points if point.threshold == used)
    all_of_them = f"without a threshold it is {share(points[0].complete)}"
    if sure.complete is None:
        said = f"No request reaches the threshold in use, {used:g}; {all_of_them}."
    else:
        said = (
            f"At the threshold in use, {used:g}, {sure.share:.0%} of the requests are sure, and of "
            f"these {share(sure.complete)} have recipients that hold all that was used; "
            f"{all_of_them}."
        )
    return Figure(
        "Confidence, and how often the recipients hold all",
        drawn(draw),
        f"{said} To choose a threshold, take the lowest above which this is right often enough. "
        f"Rings stand for fewer than {_FEW} requests.",
        Table.of(
            "",
            {
                "threshold": lambda p: (
                    f"{p.threshold:g}{' (in use)' if p.threshold == used else ''}"
                ),
                "requests that reach it": lambda p: count(p.requests),
                "their share": lambda p: share(p.share),
                "of these, recipients hold all": lambda p: share(p.complete),
            },
            points,
        ),
    )


def _complete(point: ConfidencePoint) -> float:
    return math.nan if point.complete is None else point.complete


def _reliability(evaluation: Evaluation) -> Figure:
    bins = evaluation.curves.reliability
    many = [b for b in bins if b.n >= _FEW]
    few = [b for b in bins if b.n < _FEW]

    def draw(axes: Axes) -> None:
        counts = behind(axes, "probabilities in a bin (bars)")
        counts.bar(
            [b.low for b in bins], [b.n for b in bins], [b.high - b.low for b in bins],
            align="edge", color=COLOURS["line"], edgecolor=COLOURS["card"], linewidth=1,
        )  # fmt: skip
        logarithmic(counts, "y")
        counts.set_ylim(0.7, max(b.n for b in bins) * 1.6)
        axes.vlines(
            [b.predicted for b in bins], *zip(*(_interval(b) for b in bins), strict=True),
            color=_FIRST, linewidth=1.2,
        )  # fmt: skip
        axes.plot([0, 1], [0, 1], color=COLOURS["rest"], linewidth=1.2, linestyle=_DASHED)
        axes.plot(
            [b.predicted for b in many], [b.observed for b in many],
            color=_FIRST, marker="o", markeredgecolor=COLOURS["card"],
        )  # fmt: skip
        axes.plot(
            [b.predicted for b in few], [b.observed for b in few], "o",
            markersize=4, markeredgecolor=_FIRST, markerfacecolor=COLOURS["card"],
        )  # fmt: skip
        shares(axes.xaxis)
        shares(axes.yaxis)
        axes.set_xlabel("predicted probability")
        axes.set_ylabel("share that was used")

    worst = max(bins, key=lambda b: b.n * abs(b.predicted - b.observed))
    error = share(evaluation.calibration["ece"])
    return Figure(
        "Reliability of the probabilities",
        drawn(draw),
        f"On the dashed line a probability says how often the API is used. The mean distance from "
        f"it is {error} (ECE, over each request's ten highest probabilities). What adds most to "
        f"it: {_used_of(worst)} predicted at {share(worst.predicted)} on average were used. "
        f"Upright lines are 95% intervals (Wilson); rings stand for fewer than {_FEW} "
        "probabilities each, which say little.",
        Table.of(
            "",
            {
                "probability": lambda b: f"{b.low:.2f} to {b.high:.2f}",
                "how many": lambda b: count(b.n),
                "predicted, mean": lambda b: share(b.predicted),
                "used": _used_of,
                "as a share": lambda b: share(b.observed),
                "from": lambda b: share(_interval(b)[0]),
                "to": lambda b: share(_interval(b)[1]),
            },
            bins,
        ),
    )


def _used_of(each: ReliabilityBin) -> str:
    used = round(each.n * each.observed)
    if used in (0, each.n):
        return f"{'all' if used else 'none'} of {each.n:,}"
    return f"{used:,} of {each.n:,}"


def _interval(each: ReliabilityBin) -> tuple[float, float]:
    """Return between which shares the true one is, 95 % sure (Wilson, 1927)."""
    z, n, p = 1.96, each.n, each.observed
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return middle - half, middle + half


def _speed(evaluation: Evaluation) -> Figure:
    levels = {float(name[1:]) / 100: ms for name, ms in evaluation.curves.latency_ms.items()}
    p50, p95 = evaluation.latency_ms["p50"], evaluation.latency_ms["p95"]

    def draw(axes: Axes) -> None:
        axes.plot(list(levels.values()), list(levels), color=_FIRST)
        for level, ms in ((0.5, p50), (0.95, p95)):
            axes.plot(ms, level, "o", color=_SECOND, markeredgecolor=COLOURS["card"])
            axes.annotate(
                f"p{100 * level:.0f}  {ms:.1f} ms", (ms, level), xytext=(8, -4),
                textcoords="offset points", va="top",
            )  # fmt: skip
        shares(axes.yaxis)
        axes.set_xlim(0, 1.25 * levels[0.99])
        axes.set_xlabel("milliseconds")
        axes.set_ylabel("share of decisions within")

    return Figure(
        "Time of a decision",
        drawn(draw),
        f"Half of the requests are routed within {p50:.1f} ms, 95 of 100 within {p95:.1f} ms, on "
        "the machine that evaluated. Beyond the 99th percentile the curve is cut.",
        Table.of(
            "",
            {"share": lambda pair: share(pair[0]), "milliseconds": lambda pair: f"{pair[1]:.2f}"},
            levels.items(),
        ),
    )


def _line(
    axes: Axes,
    points: tuple[RecallPoint, ...],
    value: Callable[[RecallPoint], float],
    colour: str,
    label: str,
    marker: str = "",
    dash: int = 0,
) -> None:
    axes.plot(
        [point.recipients for point in points], [value(point) for point in points],
        color=colour, label=label, marker=marker, markersize=4, linestyle=DASHES[dash],
    )  # fmt: skip
