"""The page of a `PrequentialEvaluation`: what predicting the next tool would have saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import getdoc
from types import MappingProxyType
from typing import Any

from cnp_router.evaluation import PrequentialEvaluation
from cnp_router.evaluation.prequential import AtThreshold, PredictorEvaluation, Window
from cnp_router.evaluation.table import Table, count, share
from cnp_router.prediction import PREDICTORS
from cnp_router.reports.drawing import DASHES, MARKS, SERIES, drawn
from cnp_router.reports.page import Figure, Page, Section

__all__ = ["prequential_page"]


_FEW = 20  # predictions in a bin: fewer say little of how often such a confidence is right
_ADVICE_THRESHOLD = (
    "Take the threshold at which tokens saved less errors are highest. A lower one predicts more, "
    "but its errors cost more than that saves."
)
_ADVICE_CONFIDENCE = (
    "Where a line is below the diagonal, fewer predictions are right than their confidence says: "
    "act from a higher threshold on there."
)

Points = Sequence[tuple[float, float | None]]


def prequential_page(
    found: PrequentialEvaluation, *, facts: Iterable[tuple[str, str]] = ()
) -> Page:
    """Return the page of a replayed log.

    Parameters
    ----------
    found : PrequentialEvaluation
    facts : iterable of (str, str), default=()
        What else is to be said, such as a price: label and text.

    Returns
    -------
    Page

    Examples
    --------
    >>> from cnp_router import prequential
    >>> from cnp_router.trajectories import Step, Trajectory
    >>> steps = tuple(Step(t, input_tokens=10) for t in ("weather", "sms", "weather", "sms"))
    >>> log = [Trajectory(f"t{n}", "Rain?", steps) for n in range(10)]
    >>> page = prequential_page(prequential(None, log))
    >>> [section.title for section in page.sections]
    ['The methods', 'Over the log', 'Which threshold', 'How sure it is', 'All thresholds']
    """
    predicting = _predicting(found)
    silent = [name for name in found.methods if name not in predicting.methods]
    before = f", after {found.n_warm:,} others were learned" if found.n_warm else ""
    lead = [
        found.advice,
        f"{found.n_steps:,} steps in {found.n_trajectories:,} runs{before}. Each step is predicted "
        "from what came before it only, and then learned.",
        *([f"Not acted upon: {', '.join(found.exclude)}"] if found.exclude else []),
        *([f"Not drawn, since it predicts nothing: {', '.join(silent)}"] if silent else []),
        *(f"{label}: {said}" for label, said in facts),
    ]
    sections = (
        Section("The methods", _methods(found)),
        Section("Over the log", (_chosen(predicting),), _over_time(predicting)),
        Section("Which threshold", (_ADVICE_THRESHOLD,), _by_threshold(predicting)),
        Section("How sure it is", (_ADVICE_CONFIDENCE,), _confidence(predicting)),
        Section("All thresholds", tables=(_thresholds(found),)),
    )
    return Page("What predicting the next tool would save", tuple(lead), _facts(found), sections)


def _methods(found: PrequentialEvaluation) -> tuple[str, ...]:
    """Return a line about each method: the summary of its predictor, where it is one of ours."""
    kinds = ((name, PREDICTORS.get(name)) for name in found.methods)
    return tuple(
        f"{name}: {(getdoc(kind) or '').partition(chr(10))[0]}" for name, kind in kinds if kind
    )


def _predicting(found: PrequentialEvaluation) -> PrequentialEvaluation:
    """Return it without the methods that predict nothing, unless none does."""
    methods = {
        name: each
        for name, each in found.methods.items()
        if any(at.coverage for at in each.thresholds)
    }
    return replace(found, methods=methods or found.methods)


def _facts(found: PrequentialEvaluation) -> tuple[tuple[str, str], ...]:
    tiles = [
        ("steps", count(found.n_steps)),
        ("runs", count(found.n_trajectories)),
        ("tokens", count(found.tokens)),
        ("seconds", count(found.seconds, 1)),
    ]
    if found.best is not None:
        name, at = found.best
        tiles += [
            (f"tokens saved less errors: {name} at {at.threshold:.2f}", _net(at)),
            ("tokens it saves", share(at.tokens_saved)),
            ("its coverage", share(at.coverage)),
            ("its accuracy", share(at.accuracy)),
        ]
    return tuple(tiles)


def _chosen(found: PrequentialEvaluation) -> str:
    at = ", ".join(
        f"{name} from {each.shown_at:.2f} on"
        for name, each in found.methods.items()
        if each.shown_at is not None
    )
    return (
        f"Acting at a confidence of: {at}. That is the threshold that saves most tokens less "
        "errors at an accuracy of at least .80, chosen at the end of the log; where none is so "
        "accurate, the lowest one. A method that rises is still learning; where habits change, it "
        "falls. Each point is a part of the log."
    )


def _over_time(found: PrequentialEvaluation) -> tuple[Figure, ...]:
    def of(figure: Callable[[Window], float | None]) -> Mapping[str, Points]:
        return {
            name: [(w.first + (w.n_steps - 1) / 2, figure(w)) for w in each.over_time]
            for name, each in found.methods.items()
        }

    axis = "step of the log"
    return (
        _lines("Coverage over the log", of(lambda w: w.coverage), axis, "share of the steps"),
        _lines("Accuracy over the log", of(lambda w: w.accuracy), axis, "of the predicted steps"),
        _lines("Tokens saved over the log", of(lambda w: w.tokens_saved), axis, "share of tokens"),
    )


def _by_threshold(found: PrequentialEvaluation) -> tuple[Figure, ...]:
    def of(figure: Callable[[AtThreshold], float | None]) -> Mapping[str, Points]:
        return {
            name: [(at.threshold, figure(at)) for at in _rising(each)]
            for name, each in found.methods.items()
        }

    axis, share_of = "act from this confidence on", "share of tokens"
    saved, less = of(lambda at: at.tokens_saved), of(lambda at: at.tokens_saved_net)
    least = min([0.0, *(at.tokens_saved_net for m in found.methods.values() for at in _rising(m))])
    return (
        _lines("Tokens saved by threshold", saved, axis, share_of, least=least),
        _lines("Tokens saved less errors", less, axis, share_of, least=least),
    )


def _confidence(found: PrequentialEvaluation) -> tuple[Figure, ...]:
    against = {
        name: [(point.coverage, 1 - point.risk) for point in each.risk_coverage]
        for name, each in found.methods.items()
    }
    bins = {
        name: [(each.predicted, each.observed) for each in method.reliability]
        for name, method in found.methods.items()
    }
    few = {
        name: {each.predicted for each in method.reliability if each.n < _FEW}
        for name, method in found.methods.items()
    }
    errors = ", ".join(
        f"{name} {share(each.calibration_error)}"
        for name, each in found.methods.items()
        if each.predicts
    )
    reliable = _lines(
        "Reliability of the confidence",
        bins,
        "confidence",
        "share that was right",
        is_diagonal=True,
        apart=few,
    )
    said = (
        f"{reliable.says} On the dotted diagonal, confidence is honest. Hollow marks, not joined, "
        f"are of fewer than {_FEW} predictions. ECE: {errors or 'nothing was predicted'}."
    )
    return (
        _lines(
            "Accuracy against coverage", against, "coverage, the surest first", "accuracy",
            marked=False,
        ),
        Figure(reliable.title, reliable.svg, said, reliable.table),
    )  # fmt: skip


def _net(at: AtThreshold) -> str:
    saved = at.tokens_saved_net
    return share(saved) if saved >= 0 else f"{saved:.3f}"


def _rising(method: PredictorEvaluation) -> list[AtThreshold]:
    return sorted(method.thresholds, key=lambda at: at.threshold)


def _lines(
    title: str,
    lines: Mapping[str, Points],
    across: str,
    up: str,
    *,
    least: float = 0.0,
    marked: bool = True,
    is_diagonal: bool = False,
    apart: Mapping[str, Collection[float]] = MappingProxyType({}),
) -> Figure:
    """Return a line for each method, told apart by colour, dash and mark.

    Points whose place across is in `apart` are not joined with the others.
    """

    def draw(axes: Any) -> None:
        if is_diagonal:
            axes.plot([0, 1], [0, 1], color=SERIES[3], linewidth=1, linestyle=":")
        for number, (name, points) in enumerate(lines.items()):
            there = [(x, y) for x, y in points if y is not None]
            if not there:
                continue
            lone = apart.get(name, ())
            style: dict[str, Any] = {
                "color": SERIES[number % len(SERIES)],
                "marker": MARKS[number % len(MARKS)] if marked else None,
                "markersize": 4.5,
            }
            axes.plot(
                [x for x, _ in there],
                [math.nan if x in lone else y for x, y in there],
                label=name,
                linestyle=DASHES[number % len(DASHES)],
                linewidth=1.8,
                **style,
            )
            hollow = [(x, y) for x, y in there if x in lone]
            if hollow:
                axes.plot(*zip(*hollow, strict=True), linestyle="", fillstyle="none", **style)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.set_ylim(least - 0.03, 1.03)
        if axes.lines and any(lines.values()):
            axes.figure.legend(loc="outside lower center", ncols=2)

    return Figure(title, drawn(draw, height=330), _says(lines, up), _table(lines, across, up))


def _says(lines: Mapping[str, Points], up: str) -> str:
    """Return how each line begins and ends, and its extremes."""
    said = []
    for name, points in lines.items():
        values = [y for _, y in points if y is not None]
        if values:
            said.append(
                f"{name} from {values[0]:z.2f} to {values[-1]:z.2f} "
                f"(lowest {min(values):z.2f}, highest {max(values):z.2f})"
            )
        else:
            said.append(f"{name}: nothing was predicted")
    return f"{up[:1].upper()}{up[1:]}, from left to right: {'; '.join(said)}."


def _table(lines: Mapping[str, Points], across: str, up: str) -> Table:
    columns = ("method", across, up)
    rows = tuple(
        (name, f"{x:,.2f}".removesuffix(".00"), share(y) if y is None or y >= 0 else f"{y:.3f}")
        for name, points in lines.items()
        for x, y in points
    )
    return Table("", columns, rows)


def _thresholds(found: PrequentialEvaluation) -> Table:
    rows = tuple(
        (
            name,
            f"{at.threshold:.2f}" if acted else "any",
            share(at.coverage),
            share(at.accuracy),
            share(at.tokens_saved),
            _net(at),
            share(at.seconds_saved),
        )
        for name, each in found.methods.items()
        for acted in [any(at.coverage for at in each.thresholds)]
        for at in (_rising(each) if acted else _rising(each)[:1])
    )
    columns = (
        *("method", "threshold", "coverage", "accuracy"),
        *("tokens saved", "tokens saved less errors", "seconds saved"),
    )
    return Table("", columns, rows)
