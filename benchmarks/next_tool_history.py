"""How much history the next-tool predictors need, against the figures reported for AutoTool."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import next_tool_plots
from benchmarks.next_tool_plots import HistoryPoint
from benchmarks.next_tool_predictors import Frozen
from benchmarks.report import environment, heading, number, table
from cnp_router.evaluation import prequential
from cnp_router.evaluation.plots import check_plots
from cnp_router.exceptions import DataFileError
from cnp_router.history import History
from cnp_router.prediction import PREDICTORS, AlwaysAsk, NextToolPredictor
from cnp_router.trajectories import Step, Trajectory, read_trajectories

__all__ = ["Round", "known_transitions", "measured", "rounds", "run"]

_SIZES = (0, 10, 50, 100, 500)
_DRAWS = 3
_THRESHOLD = 0.6
_ACCURACY = 0.8


@dataclass(frozen=True, slots=True)
class Round:
    """A log to replay, and all that may be learned from before.

    Parameters
    ----------
    name : str
        Of the log.
    before, log : tuple of Trajectory
    """

    name: str
    before: tuple[Trajectory, ...]
    log: tuple[Trajectory, ...]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Replay each log after learning from more and more of the others; print a table."""
    if options.plots:
        check_plots()
    found = rounds(options.data)
    facts = environment(options.seed)
    heading(f"Next tools on {options.data.resolve().name}, by history", facts)
    points = measured(found, options.seed)
    print(
        f"At θ = {_THRESHOLD:.2f}; best: at the θ that saves most at an accuracy of at least "
        f"{_ACCURACY:.2f}. Means over {len(found)} logs and {_DRAWS} draws:\n"
    )
    table(_rows(points))
    if options.plots:
        next_tool_plots.draw_history(points, options.plots / "next-tool-history.svg")
    return {"environment": facts, "points": [asdict(point) for point in points]}


def rounds(folder: Path) -> tuple[Round, ...]:
    """Return each log of trajectories with all others before it, or each held-out history.

    Steps of an ordered mashup have no tokens, so each counts as one token.

    Raises
    ------
    DataFileError
        If there are neither logs nor ordered mashups.
    """
    files = sorted(folder.glob("trajectories*.jsonl"))
    if len(files) > 1:
        logs = {file.stem.removeprefix("trajectories-"): read_trajectories(file) for file in files}
        return tuple(
            Round(name, tuple(t for other in logs if other != name for t in logs[other]), log)
            for name, log in logs.items()
        )
    train, held_out = folder / "mashups-train.jsonl", sorted(folder.glob("mashups-dev*.jsonl"))
    before = _ordered(train) if train.exists() else ()
    logs = {file.stem.removeprefix("mashups-"): _ordered(file) for file in held_out}
    found = tuple(Round(name, before, log) for name, log in logs.items() if before and log)
    if not found:
        raise DataFileError(
            folder,
            "neither two logs of trajectories nor ordered mashups",
            cure="put two files trajectories-x.jsonl there, or mashups-train.jsonl and "
            'mashups-dev.jsonl with "ordered": true',
        )
    return found


def measured(found: Sequence[Round], seed: int) -> list[HistoryPoint]:
    """Return the mean over the draws, by way of learning, predictor, size and log.

    A history of a size is a random one of all trajectories before, in their order.
    """
    points = []
    for one in found:
        for size in _sizes(len(one.before)):
            draws = [_drawn(one, size, seed + draw) for draw in range(_draws(one, size))]
            points += [_mean(same) for same in zip(*draws, strict=True)]
    names = list(PREDICTORS)
    return sorted(points, key=lambda p: (p.learning, names.index(p.predictor), p.size))


def known_transitions(before: Iterable[Trajectory], log: Iterable[Trajectory]) -> float:
    """Return the share of the transitions of a log that occurred before it, in [0, 1].

    Examples
    --------
    >>> steps = (Step("weather"), Step("sms"))
    >>> known_transitions([Trajectory("t1", "", steps[:1])], [Trajectory("t2", "", steps)])
    0.5
    """
    seen = {pair for trajectory in before for pair in _transitions(trajectory)}
    came = [pair for trajectory in log for pair in _transitions(trajectory)]
    return sum(pair in seen for pair in came) / len(came) if came else 0.0


def _transitions(trajectory: Trajectory) -> Iterable[tuple[str, str]]:
    return zip(("", *trajectory.tools), trajectory.tools, strict=False)


def _ordered(file: Path) -> tuple[Trajectory, ...]:
    return tuple(
        Trajectory(m.id, m.description, tuple(Step(api, input_tokens=1) for api in m.apis))
        for m in History.read(file)
        if m.ordered
    )


def _sizes(most: int) -> list[int]:
    return sorted({size for size in _SIZES if size < most} | {most})


def _draws(one: Round, size: int) -> int:
    """Return how many histories are drawn: there is but one of none, and one of all."""
    return _DRAWS if 0 < size < len(one.before) else 1


def _drawn(one: Round, size: int, seed: int) -> list[HistoryPoint]:
    chosen = np.random.default_rng(seed).choice(len(one.before), size, replace=False)
    history = [one.before[place] for place in sorted(chosen.tolist())]
    known = known_transitions(history, one.log)
    return [
        point
        for kind in PREDICTORS.values()
        if kind is not AlwaysAsk
        for point in _replayed(kind(), one, history, known)
    ]


def _replayed(
    predictor: NextToolPredictor, one: Round, history: Sequence[Trajectory], known: float
) -> list[HistoryPoint]:
    for trajectory in history:
        predictor.observe(trajectory)
    points = []
    # The frozen replay comes first: the other one teaches.
    for learning, replayed in ((False, Frozen(predictor)), (True, predictor)):
        method = prequential([replayed], one.log).methods[predictor.name]
        at = next(at for at in method.thresholds if at.threshold == _THRESHOLD)
        best = method.best(_ACCURACY, less_errors=False)
        points.append(
            HistoryPoint(
                log=one.name,
                predictor=predictor.name,
                size=len(history),
                learning=learning,
                known=known,
                coverage=at.coverage,
                accuracy=at.accuracy,
                tokens_saved=at.tokens_saved,
                best_saved=best.tokens_saved if best else 0.0,
            )
        )
    return points


def _mean(points: Sequence[HistoryPoint]) -> HistoryPoint:
    def mean(name: str) -> float:
        return float(np.mean([getattr(point, name) for point in points]))

    accuracies = [point.accuracy for point in points if point.accuracy is not None]
    return replace(
        points[0],
        known=mean("known"),
        coverage=mean("coverage"),
        accuracy=float(np.mean(accuracies)) if accuracies else None,
        tokens_saved=mean("tokens_saved"),
        best_saved=mean("best_saved"),
    )


def _rows(points: Sequence[HistoryPoint]) -> list[list[str]]:
    titles = ("known", "coverage", "accuracy", "tokens", "best")
    rows = [["predictor", "history", "learns in the replay", *titles]]
    groups: dict[tuple[bool, str, int], list[HistoryPoint]] = {}
    for point in points:
        groups.setdefault((point.learning, point.predictor, point.size), []).append(point)
    for (learning, predictor, size), same in groups.items():
        mean = _mean(same)
        figures = (mean.known, mean.coverage, mean.accuracy, mean.tokens_saved, mean.best_saved)
        cells = [number(figure) for figure in figures]
        rows.append([predictor, f"{size:,}", "yes" if learning else "no", *cells])
    return rows
