"""How many model calls of agents the next-tool predictors save, and how long they take."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks import next_tool_plots
from benchmarks.next_tool_predictors import Recorded, ReliabilityBin
from benchmarks.next_tool_rules import RULES, Ruled, ruled, rules_rows
from benchmarks.report import environment, heading, number, table
from cnp_router.evaluation import PrequentialEvaluation, prequential
from cnp_router.evaluation.plots import check_plots
from cnp_router.evaluation.prequential import AtThreshold
from cnp_router.exceptions import DataFileError
from cnp_router.prediction import PREDICTORS, AlwaysAsk, Context, NextToolPredictor
from cnp_router.trajectories import Step, Trajectory, read_trajectories

__all__ = ["run", "synthetic"]

_ACCURACY = 0.8
_TOOLS = (20, 4_000)
_TRAJECTORIES = 1_000
_STEPS = 25
_TIMED = 1_000


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Replay each log after learning from the others, then time; print four tables."""
    if options.plots:
        check_plots()
    facts = environment(options.seed)
    files = sorted(options.data.glob("trajectories*.jsonl"))
    if len(files) < 2:
        raise DataFileError(
            options.data,
            f"too few logs of trajectories ({len(files)})",
            cure="put at least two files trajectories-x.jsonl there",
        )
    heading(f"Next tools on {options.data.resolve().name}", facts)
    logs = {file.stem.removeprefix("trajectories-"): read_trajectories(file) for file in files}
    found = {name: _round(name, logs) for name in logs}
    replays = {name: one.replay for name, one in found.items()}
    reliability = {name: one.reliability for name, one in found.items()}
    print(f"At the threshold that saves most at an accuracy of at least {_ACCURACY:.2f}:\n")
    table(_savings(replays))
    print("Every threshold, context predictor:\n")
    table(_thresholds(replays))
    by_rules = {name: _by_rules(name, logs) for name in logs}
    print("As a router acts by default, and with the guards of AutoTool's agent:\n")
    table(rules_rows(by_rules))
    if options.plots:
        next_tool_plots.draw_risk(replays, options.plots / "next-tool-risk.svg")
        next_tool_plots.draw_calibration(
            replays, reliability, options.plots / "next-tool-calibration.svg"
        )
    speed = [_speed(predictor, n, options.seed) for n in _TOOLS for predictor in _learners()]
    print(f"CPU time a step, the last {_TIMED:,} of a synthetic log:\n")
    table(_speeds(speed))
    return {
        "environment": facts,
        "rounds": {name: one.to_dict() for name, one in found.items()},
        "rules": {name: [asdict(one) for one in results] for name, results in by_rules.items()},
        "speed": speed,
    }


@dataclass(frozen=True, slots=True)
class _Found:
    """A replay, and how often each predictor's answers of a confidence were right."""

    replay: PrequentialEvaluation
    reliability: dict[str, tuple[ReliabilityBin, ...]]

    def to_dict(self) -> dict[str, Any]:
        bins = {name: [asdict(one) for one in bins] for name, bins in self.reliability.items()}
        return {**self.replay.to_dict(), "reliability": bins}


def _round(name: str, logs: dict[str, tuple[Trajectory, ...]]) -> _Found:
    recorded = [Recorded(kind()) for kind in PREDICTORS.values()]
    result = prequential(recorded, logs[name], warm=_others(name, logs))
    return _Found(result, {one.name: one.reliability() for one in recorded})


def _by_rules(name: str, logs: dict[str, tuple[Trajectory, ...]]) -> list[Ruled]:
    return [ruled(rules, _others(name, logs), logs[name]) for rules in RULES]


def _others(name: str, logs: dict[str, tuple[Trajectory, ...]]) -> tuple[Trajectory, ...]:
    return tuple(t for other, log in logs.items() if other != name for t in log)


def _savings(replays: dict[str, PrequentialEvaluation]) -> list[list[str]]:
    head = ["log", "predictor", "θ", "coverage", "accuracy", "tokens", "net", "seconds", "ECE"]
    rows = [head]
    for name, result in replays.items():
        for method, measured in result.methods.items():
            best = measured.best(_ACCURACY, less_errors=False)
            figures = _figures(best) if best else ["none", *[""] * 5]
            rows.append([name, method, *figures, number(measured.calibration_error)])
    return rows


def _thresholds(replays: dict[str, PrequentialEvaluation]) -> list[list[str]]:
    rows = [["log", "θ", "coverage", "accuracy", "tokens", "net", "seconds"]]
    for name, result in replays.items():
        rows += [[name, *_figures(at)] for at in result.methods["context"].thresholds]
    return rows


def _figures(at: AtThreshold) -> list[str]:
    shares = (at.coverage, at.accuracy, at.tokens_saved, at.tokens_saved_net, at.seconds_saved)
    return [number(at.threshold, 2), *map(number, shares)]


def _learners() -> tuple[NextToolPredictor, ...]:
    return tuple(kind() for kind in PREDICTORS.values() if kind is not AlwaysAsk)


def synthetic(n_tools: int, seed: int) -> list[Trajectory]:
    """Return random walks over tools with five usual followers each, with texts of random words."""
    rng = np.random.default_rng(seed)
    words = [f"word{n}" for n in range(500)]
    usual = rng.integers(n_tools, size=(n_tools, 5))
    log = []
    for run_number in range(_TRAJECTORIES):
        tool, steps = int(rng.integers(n_tools)), []
        for _ in range(_STEPS):
            inputs = {"x": words[rng.integers(len(words))]}
            steps.append(Step(f"tool{tool}", inputs, " ".join(rng.choice(words, 40))))
            strays = rng.random() < 0.2
            tool = int(rng.integers(n_tools) if strays else usual[tool, rng.integers(5)])
        goal = " ".join(rng.choice(words[:30], 12))
        log.append(Trajectory(f"t{run_number}", goal, tuple(steps)))
    return log


def _speed(predictor: NextToolPredictor, n_tools: int, seed: int) -> dict[str, Any]:
    log = synthetic(n_tools, seed)
    timed = _TIMED // _STEPS
    for trajectory in log[:-timed]:
        predictor.observe(trajectory)
    predicting, observing = [], []
    for trajectory in log[-timed:]:
        context = Context(trajectory.goal)
        for place, step in enumerate(trajectory.steps):
            prefix = trajectory.steps[:place]
            start = time.thread_time()
            predictor.predict_next(prefix, context)
            middle = time.thread_time()
            predictor.observe_step(prefix, step, context)
            end = time.thread_time()
            predicting.append((middle - start) * 1e6)
            observing.append((end - middle) * 1e6)
        predictor.end_trajectory()
    return {
        "predictor": predictor.name,
        "tools": n_tools,
        "steps": len(log) * _STEPS,
        "predict_us": _spread(predicting),
        "observe_us": _spread(observing),
    }


def _spread(times: list[float]) -> dict[str, float]:
    return {"p50": float(np.median(times)), "p95": float(np.quantile(times, 0.95))}


def _speeds(speed: list[dict[str, Any]]) -> list[list[str]]:
    spread = ["predict p50 µs", "predict p95 µs", "observe p50 µs", "observe p95 µs"]
    rows = [["tools", "steps learned", "predictor", *spread]]
    for one in speed:
        times = [*one["predict_us"].values(), *one["observe_us"].values()]
        cells = [f"{one['tools']:,}", f"{one['steps']:,}", one["predictor"]]
        rows.append([*cells, *(number(value, 0) for value in times)])
    return rows
