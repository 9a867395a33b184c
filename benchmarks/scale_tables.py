"""The tables of `scale`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import number, table
from benchmarks.scaling import exponent

__all__ = [
    "print_costs",
    "print_dask",
    "print_growth",
    "print_learning",
    "print_observing",
    "print_quality",
    "print_summary",
    "print_vectors",
]

_Steps = Mapping[str, Mapping[str, Any]]

_OPENED, _LEARNING = "learned, opened", "learned, learning"
_COSTS = {
    "fit s": ("fit_seconds", 1),
    "fit CPU s": ("fit_cpu_seconds", 1),
    "peak MB": ("peak_megabytes", 0),
    "model MB": ("model_megabytes", 1),
    "open s": ("load_seconds", 2),
    "first answer s": ("first_answer_seconds", 2),
    "p50 ms": ("p50", 2),
    "p95 ms": ("p95", 2),
    "CPU p50 ms": ("cpu_p50", 2),
    "many / one": ("route_many", 1),
    "by processes": ("route_many_processes", 1),
}
_LEARNED = {
    "first observe s": ("observe_first_seconds", 2),
    "observe s": ("observe_seconds", 3),
    "answer after it ms": ("answer_after_milliseconds", 1),
    "first extend s": ("extend_first_seconds", 2),
    "extend s": ("extend_seconds", 2),
    "peak MB": ("peak_megabytes", 0),
}
_QUALITY = {
    "R@5": ("recall@5", 3),
    "R@20": ("recall@20", 3),
    "F1": ("f1", 3),
    "recall of recipients": ("recipient_recall", 3),
    "recipients": ("mean_recipients", 1),
}
_TRUST = {
    "calibration error": ("ece", 3),
    "covered": ("covered", 3),
    "confidence": ("confidence", 3),
}
_VECTORS = {
    "making s": ("making_seconds", 1),
    "all ms": ("all_ms", 2),
    "index ms": ("index_ms", 2),
    "nearest 40 found": ("recall@40", 3),
}
_GROWTH = {
    "fit s": ("fit_seconds", 1),
    "fit CPU s": ("fit_cpu_seconds", 1),
    "peak MB": ("peak_megabytes", 0),
    "fit MB": ("fit_megabytes", 0),
    "p50 ms": ("p50", 2),
    "CPU p50 ms": ("cpu_p50", 2),
    "model MB": ("model_megabytes", 1),
}
_AXES = {"mashups": "mashups", "contractors": "apis", "text length": "length"}
# What is asked for: the row, the figure, its digits, the least and the goal.
_ASKED = (
    ("route p50 ms at 1,345", "4556x1345", "p50", 2, "3", "1"),
    ("route p50 ms at 17,327", "4556x17327", "p50", 2, "5", "2"),
    ("route p50 ms at 100,000", "50000x100000", "p50", 2, "10", "4"),
    ("route p50 ms at 1,000,000", "50000x1000000", "p50", 2, "50", "10"),
    ("fit s of 4,556 x 1,345", "4556x1345", "fit_seconds", 1, "20", "5"),
    ("fit s of 50,000 x 20,000", "50000x20000", "fit_seconds", 1, "180", "60"),
    ("fit s of 1,000,000 x 100,000", "1000000x100000", "fit_seconds", 0, "1800", "600"),
    ("its peak MB", "1000000x100000", "peak_megabytes", 0, "12000", "8000"),
    ("open s at 100,000", "50000x100000", "load_seconds", 2, "", "0.5"),
    ("route_many / route at 1,345", "4556x1345", "route_many", 1, "5", ""),
    ("the same by processes, one a core", "4556x1345", "route_many_processes", 1, "5", ""),
    ("by processes at 17,327", "4556x17327", "route_many_processes", 1, "5", ""),
)


def print_costs(name: str, steps: _Steps) -> None:
    """Print what fitting, opening and asking took."""
    if "failed" in steps["data"]:
        print(f"{name}: no data: {steps['data']['failed']}\n")
        return
    rows = []
    for ranker in (step for step in steps if step not in ("data", _OPENED, _LEARNING)):
        found = {**steps[ranker], **_opened(steps, ranker)}
        said = found.get("failed") or found.get("skipped")
        cells = [_cell(found, key, digits) for key, digits in _COSTS.values()]
        rows.append([ranker, *cells, said or ""])
    size = steps["data"]
    print(f"\n{name}: {size['mashups']:,} mashups, {size['apis']:,} contractors")
    table([["router", *_COSTS, "not measured"], *rows])


def print_learning(name: str, steps: _Steps) -> None:
    """Print what the fitted router takes to learn one mashup more, and ten APIs more."""
    if found := steps.get(_LEARNING):
        cells = [_cell(found, key, digits) for key, digits in _LEARNED.values()]
        table([["learning", *_LEARNED, "failed"], [name, *cells, found.get("failed", "")]])


def print_quality(name: str, steps: _Steps) -> None:
    """Print how good the answers were, by the kind of request."""
    found = {
        ranker.removesuffix(", opened"): step["quality"]
        for ranker, step in steps.items()
        if "quality" in step
    }
    if found:
        _print_quality("router", found, _QUALITY)


def print_observing(found: _Steps) -> None:
    """Print what observing a part of the history gives, beside fitting on all of it."""
    step = found.get("observing", found["data"])
    if "failed" in step:
        print(f"observing: {step['failed']}.\n")
        return
    _print_quality("learned from", step["learned"], {**_QUALITY, **_TRUST})
    took = ", ".join(f"{seconds:.1f} s {how}" for how, seconds in step["observe_seconds"].items())
    print(f"{step['observed']} mashups were observed in {took}.\n")


def print_growth(points: _Steps) -> None:
    """Print the sizes and the exponents with each axis."""
    done = [point for point in points.values() if "failed" not in point]
    rows = [
        [str(point["mashups"]), str(point["apis"]), f"{point['length']:g}"]
        + [_cell(point, key, digits) for key, digits in _GROWTH.values()]
        for point in done
    ]
    for title, axis in _AXES.items():
        others = [name for name in _AXES.values() if name != axis]
        whole = {name: max((point[name] for point in done), default=0) for name in others}
        along = [p for p in done if all(p[name] == whole[name] for name in others)]
        sizes = [point[axis] for point in along]
        growth = [exponent(sizes, [p.get(key) for p in along]) for key, _ in _GROWTH.values()]
        rows.append([f"growth with {title}", "", "", *(number(each, 2) for each in growth)])
    table([["mashups", "contractors", "length", *_GROWTH], *rows])
    for step, point in points.items():
        if "failed" in point:
            print(f"{step}: {point['failed']}.")
    print("Growth is the exponent b of a * n**b, fitted by least squares on logarithms.\n")


def print_dask(found: Mapping[str, Any]) -> None:
    """Print the whole fit with one worker and with two."""
    if "skipped" in found:
        print(f"dask: {found['skipped']}.\n")
        return
    rows = [
        [step, _cell(each, "fit_seconds", 1), each.get("failed", "")]
        for step, each in found.items()
        if step != "data"
    ]
    table([["dask", "fit s", "failed"], *rows])


def print_vectors(found: _Steps) -> None:
    """Print what the index of vectors takes and finds, beside comparing with all of them."""
    rows = []
    for step, each in found.items():
        cells = (_cell(each, key, digits) for key, digits in _VECTORS.values())
        rows.append([step, *cells, each.get("failed", "")])
    table([["index", *_VECTORS, "failed"], *rows])


def print_summary(results: Mapping[str, Any]) -> None:
    """Print the figures that are asked for, those that were measured."""
    if results["settings"]["quick"]:
        print("Tiny sizes: the figures say nothing.")
        return
    rows = []
    for title, name, key, digits, least, goal in _ASKED:
        steps = results["rows"].get(name, {}).get("steps", {})
        found = {**steps.get("learned", {}), **_opened(steps, "learned")}
        if found:
            rows.append([title, _cell(found, key, digits) or "failed", least, goal])
    speedup = _speedup(results.get("dask", {}))
    if speedup is not None:
        rows.append(["fit with 1 Dask worker / with 2", number(speedup, 2), "1.4", "1.8"])
    if rows:
        table([["", "measured", "floor", "goal"], *rows])


def _print_quality(
    what: str,
    found: Mapping[str, Mapping[str, Mapping[str, Any]]],
    columns: Mapping[str, tuple[str, int]],
) -> None:
    rows = [
        [name, held, *(_cell(figures, key, digits) for key, digits in columns.values())]
        for name, kinds in found.items()
        for held, figures in kinds.items()
    ]
    table([[what, "requests", *columns], *rows])


def _speedup(found: Mapping[str, Any]) -> float | None:
    one, two = (found.get(f"{n} workers", {}).get("fit_seconds") for n in (1, 2))
    return one / two if one and two else None


def _opened(steps: _Steps, ranker: str) -> Mapping[str, Any]:
    return steps.get(_OPENED, {}) if ranker == "learned" else {}


def _cell(found: Mapping[str, Any], key: str, digits: int) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else number(value, digits)
