"""What a gateway's host needs: processor time and memory by the number of tools; exact search.

Times are those of the processor, all threads of a process together: what a core gives in a second
follows from them, and other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.child import fitted, in_child, peak_megabytes
from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Api, Catalog
from cnp_router.context.context_vectors import cosine
from cnp_router.datasets import load_sample
from cnp_router.evaluation.metrics import percentiles
from cnp_router.history import History, Mashup
from cnp_router.training import fit_router, load_router

__all__ = ["TOOLS", "VECTORS", "fit", "route", "run", "search", "world"]

TOOLS = (1_000, 10_000)
VECTORS = (1_000, 10_000, 100_000, 1_000_000)
_MASHUPS = 1_000
_REQUESTS = 200
_WARM_UP = 5
_DIMENSIONS = 384  # of small sentence encoders
_LOOKS = 11
_CONTEXT = 10_000  # where every entry is compared in Python


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print two tables."""
    facts = environment(options.seed)
    heading("Sizing on a synthetic catalog", facts)
    routers = []
    for n_tools in options.tools:
        for n_mashups in (0, _MASHUPS):
            with tempfile.TemporaryDirectory() as folder:
                model = Path(folder) / "model"
                made = in_child(fit, model, n_tools, n_mashups, options.seed)
                routers.append(made | in_child(route, model, n_tools, options.seed))
    rows = [
        [f"{r['tools']:,}", f"{r['mashups']:,}", number(r["fit_seconds"], 1)]
        + [number(r[key], 0) for key in ("fit_peak_megabytes", "serving_megabytes")]
        + [number(r[key], 1) for key in ("model_megabytes", "load_seconds", "p50", "p99")]
        for r in routers
    ]
    columns = ["tools", "mashups", "fit s", "fit peak MB", "serving MB", "model MB", "load s"]
    table([[*columns, "route p50 ms", "p99 ms"], *rows])
    print("Seconds and milliseconds of the processor.")
    vectors = [in_child(search, n, options.seed) for n in options.vectors]
    rows = [
        [
            f"{v['vectors']:,}",
            number(v["megabytes"], 0),
            number(v["array"], 2),
            number(v["context"], 1),
        ]
        for v in vectors
    ]
    table([["vectors", "MB", "exact search ms", "shared context ms"], *rows])
    print(f"Vectors of {_DIMENSIONS} numbers of 32 bits; the ten nearest, median of {_LOOKS}.")
    return {"environment": facts, "routers": routers, "vectors": vectors}


def world(n_tools: int, n_mashups: int, seed: int) -> tuple[Catalog, History]:
    """Return tools that are described in words of the sample, and requests that name a few.

    Examples
    --------
    >>> catalog, history = world(50, 3, seed=0)
    >>> len(catalog), len(history), history[0].apis[0] in catalog
    (50, 3, True)
    """
    rng = np.random.default_rng(seed)
    said = [re.findall(r"\w+", api.description.lower()) for api in load_sample().catalog]
    known = sorted({word for words in said for word in words if len(word) > 3})
    tools = []
    for number_ in range(n_tools):
        words = [str(x) for x in rng.choice(known, 18)]
        fields = {name: {"type": "string", "description": " ".join(words[3:6])} for name in words}
        schema = {"type": "object", "properties": dict(list(fields.items())[:3])}
        identity, text = f"{words[0]}_{words[1]}_{number_}", " ".join(words)
        tools.append(Api(identity, f"{words[0]} {words[1]}", text, parameters=schema))
    mashups = []
    for number_ in range(n_mashups):
        used = [tools[i] for i in rng.choice(n_tools, 2, replace=False)]
        text = " ".join(str(x) for tool in used for x in rng.choice(tool.description.split(), 6))
        mashups.append(Mashup(f"m{number_}", text, tuple(tool.id for tool in used)))
    return Catalog(tools), History(mashups)


def fit(model: Path, n_tools: int, n_mashups: int, seed: int) -> dict[str, Any]:
    """Fit a router and save it. Runs in a process of its own."""
    catalog, history = world(n_tools, n_mashups, seed)
    start = time.process_time()
    router, costs = fitted(lambda: fit_router(catalog, history, random_state=seed, n_jobs=1))
    costs["fit_seconds"] = time.process_time() - start
    costs["fit_peak_megabytes"] = costs.pop("peak_megabytes")
    router.save(model)  # type: ignore[attr-defined]
    return {"tools": n_tools, "mashups": n_mashups, **costs}


def route(model: Path, n_tools: int, seed: int) -> dict[str, Any]:
    """Load it and route, as a worker does. Runs in a process of its own."""
    start = time.process_time()
    router = load_router(model)
    loaded = time.process_time() - start
    rng = np.random.default_rng(seed + 1)
    texts = [api.description.split() for api in router.catalog]
    asked = [" ".join(rng.choice(texts[rng.integers(n_tools)], 6)) for _ in range(_REQUESTS)]
    seconds = [_timed(partial(router.route, text)) for text in asked]
    milliseconds = [1e3 * each for each in seconds[_WARM_UP:]]
    peak = peak_megabytes()
    return {
        "load_seconds": loaded,
        "serving_megabytes": peak,
        **percentiles(milliseconds, (50, 99)),
    }


def search(n: int, seed: int) -> dict[str, Any]:
    """Find the nearest of so many vectors by comparing all. Runs in a process of its own."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, _DIMENSIONS), dtype=np.float32)
    asked = rng.standard_normal(_DIMENSIONS, dtype=np.float32)
    array = [_timed(lambda: np.argpartition(vectors @ asked, -10)[-10:]) for _ in range(_LOOKS)]
    context = None
    if n <= _CONTEXT:
        entries, one = [tuple(row) for row in vectors.tolist()], tuple(asked.tolist())
        looks = [
            _timed(lambda: sorted(cosine(one, entry) for entry in entries)) for _ in range(_LOOKS)
        ]
        context = 1e3 * float(np.median(looks))
    return {
        "vectors": n,
        "megabytes": vectors.nbytes / 1e6,
        "array": 1e3 * float(np.median(array)),
        "context": context,
    }


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
