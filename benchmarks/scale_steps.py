"""What `scale` does in processes of their own: make data, fit, serve, learn, ask a peer, grow."""

from __future__ import annotations

import copy
import datetime
import importlib
import importlib.util
import itertools
import json
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import child, scale_rankers
from benchmarks.scale_quality import Lines, peer_figures, router_figures, timed
from benchmarks.synthetic import Kind, Synthetic
from cnp_router.catalog import Catalog
from cnp_router.history import History, Mashup
from cnp_router.text import specification_text
from cnp_router.training import fit_router, load_router

__all__ = [
    "dask_fit",
    "fit",
    "grow",
    "learn",
    "make",
    "observe",
    "rank",
    "serve",
    "take",
    "without_dask",
]

_TUNING = 300
_HELD: tuple[Kind, ...] = ("random", "later")
_NEW = 10  # mashups that are observed one by one, and APIs that come at once
_OBSERVED, _A_CALL = (100, 250, 1_000, 2_000), 10  # mashups, by a router without a history
_ROUNDS = 3  # in which one by one and many at once take turns
_AGAIN, _SECONDS = 40, 15.0  # how often processes are given the requests, and how long at most


def make(folder: Path, n_apis: int, n_mashups: int, seed: int, asked: int) -> dict[str, Any]:
    """Write a synthetic catalog, its history and requests."""
    began = time.perf_counter()
    world = Synthetic(n_apis, n_mashups, seed=seed)
    world.write(folder, asked=asked)
    _write(folder / "tuning.jsonl", list(world.records("tuning", min(_TUNING, n_mashups))))
    return {"apis": n_apis, "mashups": n_mashups, "seconds": time.perf_counter() - began}


def take(folder: Path, data: Path, catalog: str, seed: int, asked: int) -> dict[str, Any]:
    """Write real data in the same layout: the history with what the catalog knows."""
    began = time.perf_counter()
    rng = np.random.default_rng(seed)
    apis = Catalog.read(data / catalog)
    past = History.read(data / "mashups-train.jsonl").known_to(apis)
    apis.write(folder / "apis.jsonl")
    past.write(folder / "mashups-train.jsonl")
    # They are in the history: peers choose their thresholds on them before they learn them.
    _drawn(past, _TUNING, rng).write(folder / "tuning.jsonl")
    for file in sorted(data.glob("mashups-dev*.jsonl")):
        _drawn(History.read(file).known_to(apis), asked, rng).write(folder / file.name)
    return {"apis": len(apis), "mashups": len(past), "seconds": time.perf_counter() - began}


def fit(folder: Path, model: Path, seed: int) -> dict[str, Any]:
    """Fit the learned router on all cores and save it."""
    began = time.perf_counter()
    catalog, past = Catalog.read(folder / "apis.jsonl"), History.read(_past(folder))
    read, before, processor = time.perf_counter(), _peak(), time.process_time()
    router = fit_router(catalog, past, random_state=seed, n_jobs=-1)
    fitted, peak, cpu = time.perf_counter(), _peak(), time.process_time()
    router.save(model)
    saved = time.perf_counter()
    return {
        "read_seconds": read - began,
        "fit_seconds": fitted - read,
        "fit_cpu_seconds": cpu - processor,
        "save_seconds": saved - fitted,
        "peak_megabytes": peak,
        "fit_megabytes": None if peak is None or before is None else peak - before,
        "model_megabytes": _megabytes(model),
        "mashups": len(past),
        "apis": len(catalog),
    }


def serve(folder: Path, model: Path) -> dict[str, Any]:
    """Open a saved model, time its answers one by one and many at once, and see how good."""
    asked = _asked(folder)
    everyone = [mashup for held in asked.values() for mashup in held]
    first = everyone[0]
    began = time.perf_counter()
    router = load_router(model)
    loaded = time.perf_counter()
    router.route(first.description, date=first.date)
    answered = time.perf_counter()
    before = list(History.read(folder / "tuning.jsonl"))
    latency = timed(lambda m: router.route(m.description, date=m.date), everyone, warm_up=before)
    many = _many(router, everyone)
    peak = _peak()
    return {
        "load_seconds": loaded - began,
        "first_answer_seconds": answered - began,
        **latency,
        **many,
        "serving_megabytes": peak,
        "quality": _quality(router, asked),
    }


def learn(folder: Path, model: Path) -> dict[str, Any]:
    """Have a saved model learn some mashups and APIs; the first of either copies what is mapped."""
    router = load_router(model)
    new = [
        replace(mashup, id=f"observed {place}")
        for place, mashup in enumerate(next(iter(_asked(folder).values()))[:_NEW])
    ]
    observing, answering = [], []
    for mashup in new:
        began = time.perf_counter()
        router.observe(mashup)
        learned = time.perf_counter()
        router.route(mashup.description, date=mashup.date)
        observing.append(learned - began)
        answering.append(time.perf_counter() - learned)
    extending = []
    for _ in range(2):
        size = len(router.catalog)
        apis = [
            replace(api, id=f"{api.id} {size}", name=f"{api.name} {size}")
            for api in router.catalog[:_NEW]
        ]
        began = time.perf_counter()
        router = router.extended(apis)
        extending.append(time.perf_counter() - began)
    return {
        "observe_first_seconds": observing[0],
        "observe_seconds": float(np.median(observing[1:])),
        "answer_after_milliseconds": 1e3 * float(np.median(answering[1:])),
        "extend_first_seconds": extending[0],
        "extend_seconds": extending[1],
        "peak_megabytes": _peak(),
    }


def observe(folder: Path, seed: int) -> dict[str, Any]:
    """Fit on the older four fifths, and observe the rest; beside it, fit on all. Then from none."""
    catalog, asked = Catalog.read(folder / "apis.jsonl"), _asked(folder)
    past = sorted(History.read(_past(folder)), key=lambda m: m.date or datetime.date.min)
    n_older, found, seconds = 4 * len(past) // 5, {}, {}
    router = fit_router(catalog, History(past[:n_older]), random_state=seed, n_jobs=-1)
    found["four fifths"] = _quality(router, asked)
    fitted = router
    for how, size in (("50 a call", 50), ("200 a call", 200), ("in one call", len(past))):
        router = copy.copy(fitted)
        began = time.perf_counter()
        for place in range(n_older, len(past), size):
            router.observe(past[place : place + size])
        seconds[how] = time.perf_counter() - began
        found[f"the rest observed, {how}"] = _quality(router, asked)
    router = fit_router(catalog, History(past), random_state=seed, n_jobs=-1)
    found["fitted on all"] = _quality(router, asked)
    found |= _observed_from_none(catalog, past, asked, seed)
    return {"observed": len(past) - n_older, "observe_seconds": seconds, "learned": found}


def _observed_from_none(
    catalog: Catalog, past: Sequence[Mashup], asked: Mapping[str, History], seed: int
) -> dict[str, Any]:
    """Fit without a history and observe some, in any order, beside fitting on as many."""
    drawn = [past[i] for i in np.random.default_rng(seed).permutation(len(past))]
    router = fit_router(catalog, random_state=seed, n_jobs=-1)
    found = {"none": _quality(router, asked)}
    sizes = [size for size in _OBSERVED if size <= len(past)]
    for begin, size in itertools.pairwise([0, *sizes]):
        for place in range(begin, size, _A_CALL):
            router.observe(drawn[place : min(place + _A_CALL, size)])
        found[f"{size:,} observed, {_A_CALL} a call"] = _quality(router, asked)
        fitted = fit_router(catalog, History(drawn[:size]), random_state=seed, n_jobs=-1)
        found[f"fitted on {size:,}"] = _quality(fitted, asked)
    return found


def rank(folder: Path, name: str) -> dict[str, Any]:
    """Let a baseline or a peer learn, time its answers, and see how good they are."""
    catalog, past = Catalog.read(folder / "apis.jsonl"), History.read(_past(folder))
    tuning, asked = History.read(folder / "tuning.jsonl"), _asked(folder)
    everyone = [mashup for held in asked.values() for mashup in held]
    n_labels = len({api for mashup in past for api in mashup.apis})

    def texts() -> list[str]:
        said = [specification_text(api) for api in catalog]
        requests = (m.description for m in (*past, *tuning, *everyone))
        return list(dict.fromkeys([*said, *requests]))

    peer = scale_rankers.build(name, n_labels, texts)
    chosen_on = {mashup.id for mashup in tuning}
    rest = [mashup for mashup in past if mashup.id not in chosen_on]
    lines = None
    if len(rest) < len(past):
        peer.fit(catalog, History(rest))
        lines = Lines(peer, catalog, tuning)
    began, processor = time.perf_counter(), time.process_time()
    peer.fit(catalog, past)
    seconds, cpu = time.perf_counter() - began, time.process_time() - processor
    lines = lines or Lines(peer, catalog, tuning)
    return {
        "fit_seconds": seconds,
        "fit_cpu_seconds": cpu,
        "peak_megabytes": _peak(),
        **timed(lambda mashup: peer.top(mashup.description, 20), everyone, warm_up=list(tuning)),
        "quality": {
            held: peer_figures(peer, lines, catalog, mashups) for held, mashups in asked.items()
        },
    }


def grow(n_apis: int, n_mashups: int, length: float, seed: int, asked: int) -> dict[str, Any]:
    """Fit, save and ask at one size."""
    world = Synthetic(n_apis, n_mashups, seed=seed, length=length)
    catalog, past = world.catalog(), world.history()
    before, began, processor = _peak(), time.perf_counter(), time.process_time()
    router = fit_router(catalog, past, random_state=seed, n_jobs=1)
    seconds, cpu = time.perf_counter() - began, time.process_time() - processor
    peak = _peak()
    with tempfile.TemporaryDirectory() as folder:
        router.save(Path(folder) / "model")
        size = _megabytes(Path(folder) / "model")
    latency = timed(
        lambda m: router.route(m.description, date=m.date), world.held_out("random", asked)
    )
    return {
        "apis": n_apis,
        "mashups": n_mashups,
        "length": length,
        "fit_seconds": seconds,
        "fit_cpu_seconds": cpu,
        "peak_megabytes": peak,
        "fit_megabytes": None if peak is None or before is None else peak - before,
        "model_megabytes": size,
        **latency,
    }


def dask_fit(folder: Path, workers: int, seed: int) -> dict[str, Any]:
    """Fit with so many workers of one thread each, on a cluster of processes of this machine."""
    dask = importlib.import_module("distributed")
    catalog, past = Catalog.read(folder / "apis.jsonl"), History.read(_past(folder))
    with (
        dask.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",  # any port: another cluster may have the usual one
            silence_logs=logging.ERROR,  # a worker that is slow to end is a warning to it
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        began = time.perf_counter()
        fit_router(catalog, past, random_state=seed, scheduler=cluster.scheduler_address)
        seconds = time.perf_counter() - began
    return {"workers": workers, "fit_seconds": seconds, "peak_megabytes": _peak()}


def without_dask() -> str | None:
    """Return why nothing can be fitted with Dask here; None if it can."""
    if importlib.util.find_spec("distributed") is None:
        return "dask is not installed (pip install 'cnp-router[dask]')"
    return None


def _quality(router: Any, asked: Mapping[str, History]) -> dict[str, Any]:
    """Return how good the answers are, by the kind of request."""
    return {name: router_figures(router, held) for name, held in asked.items()}


def _many(router: Any, asked: list[Mashup]) -> dict[str, Any]:
    """Return how many requests are answered in a second, one by one and many at once.

    By several processes many more requests at once, the same again and again; starting the
    processes is not counted.
    """
    texts, dates = [m.description for m in asked], [m.date for m in asked]
    singly, at_once = [], []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for text, date in zip(texts, dates, strict=True):
            router.route(text, date=date)
        between = time.perf_counter()
        router.route_many(texts, dates=dates)
        singly.append(between - began)
        at_once.append(time.perf_counter() - between)
    each, many = len(texts) / min(singly), len(texts) / min(at_once)
    again = int(max(min(_SECONDS / min(at_once), _AGAIN), 1))
    shared = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        router.route_many(texts * again, dates=dates * again, n_jobs=-1)
        shared.append(time.perf_counter() - began)
    by_processes = again * len(texts) / min(shared)
    return {
        "route_per_second": each,
        "route_many_per_second": many,
        "route_many": many / each,
        "route_many_processes_per_second": by_processes,
        "route_many_processes": by_processes / each,
    }


def _peak() -> float | None:
    """Return the peak memory of this process.

    Where the system tells that of this program alone (Linux), it is that: the general figure holds
    that of the process which started it, too.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1000
    return child.peak_megabytes()


def _past(folder: Path) -> list[Path]:
    return sorted(folder.glob("mashups-train*.jsonl"))


def _asked(folder: Path) -> dict[str, History]:
    files = sorted(folder.glob("mashups-dev*.jsonl"))
    return {file.stem.removeprefix("mashups-"): History.read(file) for file in files}


def _drawn(history: History, n: int, rng: np.random.Generator) -> History:
    chosen = np.sort(rng.permutation(len(history))[:n])
    return History(history[int(i)] for i in chosen)


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
