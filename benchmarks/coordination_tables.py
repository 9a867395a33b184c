"""The tables of the benchmark of coordination, beside the published one."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.office_runs import MODES, STRICTER, Mode
from benchmarks.office_tasks import KINDS
from benchmarks.report import number, table

__all__ = ["PAPER", "mean_of", "print_tables", "row_of"]


# Table 3 of Li and Liu, "Enhancing Multi-Server MCP Interactions Through Context-Aware Server
# Collaboration" (2025): other tasks, other servers, a language model. Per cent, and seconds.
PAPER = {
    "none": {"completion": 58.3, "redundant": 31.2, "seconds": 47.8},
    "context": {"completion": 74.5, "redundant": 12.8, "seconds": 43.2},
    "negotiation": {"completion": 64.8, "redundant": 8.5, "seconds": 45.1},
    "decomposition": {"completion": 69.8, "redundant": 22.7, "seconds": 39.5},
    "context + negotiation": {"completion": 81.0, "redundant": 4.3, "seconds": 41.8},
    "context + decomposition": {"completion": 86.0, "redundant": 9.1, "seconds": 37.2},
    "negotiation + decomposition": {"completion": 76.3, "redundant": 5.8, "seconds": 38.9},
    "context + negotiation + decomposition": {
        "completion": 92.5,
        "redundant": 2.5,
        "seconds": 38.6,
    },
}


_PARTS = ("context", "negotiation", "decomposition")
_MEANT = ("completion", "redundant", "seconds", "messages", "calls", "resolved", "resolved_seconds")


def row_of(mode: Mode, figures: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a mode, as a result file holds it."""
    flags = {part: getattr(mode, part) for part in _PARTS}
    return flags | {name: figures[name] for name in _MEANT[:4]}


def mean_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the figures over seeds."""

    def mean(values: list[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return statistics.mean(there) if there else None

    flat = {name: mean([each[name] for each in found]) for name in _MEANT}
    inner = {
        group: {name: mean([each[group][name] for each in found]) for name in found[0][group]}
        for group in ("overhead", "by_kind")
    }
    return {**flat, **inner}


def print_tables(means: dict[Mode, dict[str, Any]], runs: dict[Mode, list[dict[str, Any]]]) -> None:
    """Print means, and how they differ by seed."""
    rows = []
    for mode in (STRICTER, *MODES):
        own, paper = means[mode], PAPER.get(mode.name, {})
        shares = [number(100 * own[name], 1) for name in ("completion", "redundant")]
        spread = [100 * each["completion"] for each in runs[mode]]
        said = [number(paper.get(name), 1) for name in ("completion", "redundant", "seconds")]
        rows.append(
            [
                mode.name,
                shares[0],
                f"{min(spread):.0f} to {max(spread):.0f}",
                shares[1],
                number(own["seconds"]),
                number(own["messages"], 1),
                number(own["calls"] / _n_tasks(runs[mode]), 2),
                *said,
            ]
        )
    head = ["tasks complete, %", "by seed", "redundant calls, %", "s a task", "messages", "calls"]
    theirs = ["the paper's: complete, %", "redundant, %", "s"]
    table([["parts that are on", *head, *theirs], *rows])
    print("Tasks complete, %, by where a needed value comes from:\n")
    table(
        [
            ["", *KINDS],
            *(
                [mode.name, *(number(100 * means[mode]["by_kind"][kind], 1) for kind in KINDS)]
                for mode in (STRICTER, *MODES)
            ),
        ]
    )
    none, whole = means[MODES[0]], means[MODES[-1]]
    print("Each part by itself, taken away from all, and what it takes:\n")
    rows = []
    for part in _PARTS:
        alone = means[Mode(**{part: True})]
        rest = means[Mode(**{each: each != part for each in _PARTS})]
        rows.append(
            [
                part,
                number(100 * (alone["completion"] - none["completion"]), 1),
                number(100 * (whole["completion"] - rest["completion"]), 1),
                number(100 * (alone["redundant"] - none["redundant"]), 1),
                number(100 * (whole["redundant"] - rest["redundant"]), 1),
                number(100 * (alone["seconds"] / none["seconds"] - 1), 1),
                number(100 * (whole["seconds"] / rest["seconds"] - 1), 1),
                number(1000 * whole["overhead"][part], 1),
            ]
        )
    changes = ["complete", "redundant", "seconds"]
    pairs = [f"{name}, {how}" for name in changes for how in ("alone", "with the others")]
    units = [f"{each}, {'%' if each.startswith('seconds') else 'points'}" for each in pairs]
    table([["", *units, "overhead, ms a task"], *rows])
    resolved = means[MODES[-1]]
    print(
        f"Values that a step needs of another one and that came to it: all on "
        f"{100 * resolved['resolved']:.1f} % (none on: {100 * none['resolved']:.1f} %), "
        f"{number(resolved['resolved_seconds'], 2)} s after the task began; the paper's: 94.2 %, "
        "1.3 s.\n"
    )
    targets = [
        ("completion, points", 100 * (whole["completion"] - none["completion"]), 30.0, True),
        ("redundant calls, %", 100 * whole["redundant"], 3.0, False),
        ("seconds, share of none", whole["seconds"] / none["seconds"], 0.8, False),
    ]
    verdicts = [
        [
            name,
            number(value, 2),
            f"{'at least' if up else 'at most'} {target:g}",
            _verdict(value, target, up),
        ]
        for name, value, target, up in targets
    ]
    table([["all on, against none", "", "target", ""], *verdicts])


def _n_tasks(found: list[dict[str, Any]]) -> int:
    """Return how many tasks a seed has."""
    return int(found[0]["tasks"])


def _verdict(value: float, target: float, up: bool) -> str:
    return "pass" if (value >= target if up else value <= target) else "FAIL"
