"""Speed, memory and quality from a thousand contractors to a million, beside peers.

Each row is a size: mashups x contractors. Data are synthetic (`benchmarks/synthetic.py`), or with
``--data`` those of the folder where the size is one of real data. For each row: the learned router
is fitted and saved; a fresh process opens it, answers one by one and many at once; another one has
it learn some mashups and APIs more; baselines and peers learn the same and are asked the same.
Every step is a process of its own with a limit of time and memory; one that fails is reported, and
the others go on. ``--json`` is written after each step, so that nothing is lost where the run is
stopped.

Peers: PECOS XR-Linear (with more than 5,000 used APIs on a tree of them), bm25s, the local index
of semantic-router, nearest neighbours by scikit-learn. No sentence encoder is at hand: the vectors
for semantic-router are TF-IDF reduced by its singular vectors, and making them is not counted.
*vectors* is the index for an encoder that is given, alone: on synthetic vectors. *observing* is how
good the answers are after a part of the history was observed, or some of it by a router that had
none, beside those of a fit on as much.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import scale_rankers, scale_steps, scale_vectors
from benchmarks.report import environment, heading
from benchmarks.scale_child import limited
from benchmarks.scale_tables import (
    print_costs,
    print_dask,
    print_growth,
    print_learning,
    print_observing,
    print_quality,
    print_summary,
    print_vectors,
)
from cnp_router.files import atomic_write

__all__ = ["ASKED", "GROWTH", "LIMIT", "MEMORY", "NAMES", "PEER_LIMIT", "ROUTERS", "ROWS", "run"]

ASKED = 200
LIMIT = 2_400.0
PEER_LIMIT = 600.0
MEMORY = 12.0
GROWTH = 8_000
ROUTERS = ("learned", *scale_rankers.RANKERS)


@dataclass(frozen=True)
class Row:
    """A size, and the catalog of real data that has it."""

    mashups: int
    apis: int
    catalog: str | None = None


ROWS = {
    "4556x1345": Row(4_556, 1_345, "apis.jsonl"),
    "4556x17327": Row(4_556, 17_327, "apis-all.jsonl"),
    "50000x20000": Row(50_000, 20_000),
    "50000x100000": Row(50_000, 100_000),
    "50000x1000000": Row(50_000, 1_000_000),
    "1000000x100000": Row(1_000_000, 100_000),
}
_OTHERS = ("growth", "dask", "vectors", "observing")
NAMES = (*ROWS, *_OTHERS)
_DASK, _OBSERVING = "50000x20000", "4556x1345"
_QUICK = Row(120, 60)
_QUICK_NAMES = ("4556x1345", *_OTHERS)  # tiny, all rows are the same
_QUICK_GROWTH = 80
_QUICK_ASKED = 20
_WORKERS = (1, 2)
_VECTORS, _DIMENSIONS = (20_000, 100_000, 1_000_000), 384
_QUICK_VECTORS, _QUICK_DIMENSIONS = (17_000,), 8
_MAKING = 1_800.0  # seconds for the data, which are not what is measured

_Save = Callable[[], None]
_Do = Callable[..., None]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the rows and print the tables."""
    facts = environment(options.seed)
    heading("Scale", facts)
    chosen = options.only or (_QUICK_NAMES if options.quick else NAMES)
    asked = min(options.asked, _QUICK_ASKED) if options.quick else options.asked
    results: dict[str, Any] = {
        "environment": facts,
        "settings": {
            "quick": options.quick,
            "asked": asked,
            "limit_seconds": options.limit,
            "peer_limit_seconds": options.peer_limit,
            "memory_gigabytes": options.memory,
        },
        "rows": {},
    }

    def save() -> None:
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(options.json) as out:
                out.write(json.dumps(results, indent=1) + "\n")

    try:
        for name in (name for name in ROWS if name in chosen):
            steps: dict[str, Any] = {}
            results["rows"][name] = {"steps": steps}
            _row(name, options, asked, steps, save)
            print_costs(name, steps)
            print_learning(name, steps)
            print_quality(name, steps)
        if "growth" in chosen:
            results["growth"] = {}
            _growth(options, asked, results["growth"], save)
            print_growth(results["growth"])
        if "dask" in chosen:
            results["dask"] = {}
            _dask(options, results["dask"], save)
            print_dask(results["dask"])
        if "vectors" in chosen:
            results["vectors"] = {}
            _vectors(options, asked, results["vectors"], save)
            print_vectors(results["vectors"])
        if "observing" in chosen:
            results["observing"] = {}
            _observing(options, asked, results["observing"], save)
            print_observing(results["observing"])
    finally:
        save()
    print_summary(results)
    return results


def _row(
    name: str, options: argparse.Namespace, asked: int, steps: dict[str, Any], save: _Save
) -> None:
    """Do the steps of a row; each result is there, and saved, as soon as it is known."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        folder.mkdir()
        do = _doing(options, steps, save)
        _write_data(do, name, folder, options, asked)
        if "failed" in steps["data"]:
            return
        rankers = options.routers or ROUTERS
        if "learned" in rankers:
            model = Path(place) / "model"
            do("learned", options.limit, "fit", folder, model, options.seed)
            if "failed" not in steps["learned"]:
                do("learned, opened", options.limit, "serve", folder, model)
                do("learned, learning", options.limit, "learn", folder, model)
        for ranker in (ranker for ranker in scale_rankers.RANKERS if ranker in rankers):
            absent = scale_rankers.absence(ranker)
            if absent is None:
                do(ranker, options.peer_limit, "rank", folder, ranker)
            else:
                steps[ranker] = {"skipped": absent}


def _write_data(do: _Do, name: str, folder: Path, options: argparse.Namespace, asked: int) -> None:
    """Write the data of a row: real ones where there are."""
    row = _QUICK if options.quick else ROWS[name]
    if options.data is not None and row.catalog is not None:
        real = options.data, row.catalog
        do("data", options.limit, "take", folder, *real, options.seed, asked)
    else:
        do("data", _MAKING, "make", folder, row.apis, row.mashups, options.seed, asked)


def _growth(options: argparse.Namespace, asked: int, found: dict[str, Any], save: _Save) -> None:
    """Fit at a quarter, at half and at the whole of each axis; the other two stay."""
    whole = _QUICK_GROWTH if options.quick else options.growth
    do = _doing(options, found, save)
    for apis, mashups, length in _sizes(whole, options.quick):
        step = f"{mashups} mashups, {apis} contractors, length {length:g}"
        do(step, options.limit, "grow", apis, mashups, length, options.seed, asked)


def _sizes(whole: int, quick: bool) -> Iterator[tuple[int, int, float]]:
    shares = (0.5,) if quick else (0.25, 0.5)
    for share in shares:
        yield whole, int(share * whole), 1.0
        yield int(share * whole), whole, 1.0
        yield whole, whole, share
    yield whole, whole, 1.0


def _dask(options: argparse.Namespace, found: dict[str, Any], save: _Save) -> None:
    absent = scale_steps.without_dask()
    if absent is not None:
        found["skipped"] = absent
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        folder.mkdir()
        do = _doing(options, found, save)
        _write_data(do, _DASK, folder, options, 1)
        for workers in _WORKERS:
            do(f"{workers} workers", options.limit, "dask_fit", folder, workers, options.seed)


def _vectors(options: argparse.Namespace, asked: int, found: dict[str, Any], save: _Save) -> None:
    do = _doing(options, found, save, scale_vectors.__name__)
    sizes = _QUICK_VECTORS if options.quick else _VECTORS
    dimensions = _QUICK_DIMENSIONS if options.quick else _DIMENSIONS
    for n in sizes:
        do(f"{n} vectors", options.limit, "vectors", n, dimensions, options.seed, asked)


def _observing(options: argparse.Namespace, asked: int, found: dict[str, Any], save: _Save) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        folder.mkdir()
        do = _doing(options, found, save)
        _write_data(do, _OBSERVING, folder, options, asked)
        if "failed" not in found["data"]:
            do("observing", options.limit, "observe", folder, options.seed)


def _doing(
    options: argparse.Namespace,
    found: dict[str, Any],
    save: _Save,
    module: str = scale_steps.__name__,
) -> _Do:
    def do(step: str, seconds: float, function: str, *arguments: Any) -> None:
        where = f"{module}:{function}"
        found[step] = limited(where, *arguments, seconds=seconds, gigabytes=options.memory)
        said = found[step].get("failed", "done")
        print(f"{step}: {said} ({found[step]['step_seconds']:.1f} s)", flush=True)
        save()

    return do
