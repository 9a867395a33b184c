"""How long a routing takes, and how long commands and the import take as whole processes."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.child import in_child
from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Catalog
from cnp_router.evaluation.metrics import percentiles
from cnp_router.training import fit_router, load_router

__all__ = ["run"]

_ROOT = Path(__file__).resolve().parents[1]
_RUNS = 7
_REQUESTS = 300
_WARM_UP = 10


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print two tables: inside a process, and whole processes."""
    facts = environment(options.seed)
    splits = data.load(options.data)
    heading(f"Speed on {splits.name}", facts)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        catalogs = [options.data / name for name in ("apis.jsonl", "apis-all.jsonl")]
        routes = [
            in_child(measure, options.data, catalog, model if first else None, options.seed)
            for first, catalog in zip((True, False), catalogs, strict=True)
            if catalog.exists()
        ]
        rows = [
            [str(r["contractors"]), number(r["fit_seconds"], 1), number(r["load_seconds"], 2)]
            + [number(r[key], 2) for key in ("p50", "p95", "max")]
            for r in routes
        ]
        table([["contractors", "fit s", "load s", "p50 ms", "p95 ms", "max ms"], *rows])
        request = next(iter(splits.held_out.values())).texts[0]
        command = ["-m", "cnp_router", "recommend", "--model", str(model), "--", request]
        processes = {
            "cnp-router recommend": _wall(command),
            "cnp-router --help": _wall(["-m", "cnp_router", "--help"]),
            "import cnp_router": _wall(["-c", "import cnp_router"]),
            "python alone": _wall(["-c", "pass"]),
        }
    rows = [
        [name, number(statistics.median(times)), number(min(times)), number(max(times))]
        for name, times in processes.items()
    ]
    table([["whole process", f"median s of {_RUNS}", "min", "max"], *rows])
    return {"environment": facts, "route": routes, "processes": processes}


def measure(folder: Path, catalog: Path, model: Path | None, seed: int) -> dict[str, Any]:
    """Fit on a catalog, save, load and time single routings. Runs in a process of its own."""
    splits = data.load(folder)
    apis = Catalog.read(catalog)
    start = time.perf_counter()
    router = fit_router(apis, splits.train.known_to(apis), random_state=seed, n_jobs=-1)
    fitted = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        target = model or Path(place) / "model"
        router.save(target)
        begin = time.perf_counter()
        router = load_router(target)
        loaded = time.perf_counter()
    asked = [mashup for history in splits.held_out.values() for mashup in history][:_REQUESTS]
    for mashup in asked[:_WARM_UP]:
        router.route(mashup.description, date=mashup.date)
    times = []
    for mashup in asked:
        before = time.perf_counter()
        router.route(mashup.description, date=mashup.date)
        times.append(1e3 * (time.perf_counter() - before))
    return {
        "contractors": len(apis),
        "requests": len(times),
        "fit_seconds": fitted - start,
        "load_seconds": loaded - begin,
        **percentiles(times),
        "max": max(times),
    }


def _wall(arguments: list[str]) -> list[float]:
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        times.append(time.perf_counter() - start)
    return times
