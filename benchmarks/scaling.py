"""How fit time, memory and model size grow with the mashups and with the contractors."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.child import fitted, in_child
from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.training import fit_router

__all__ = ["exponent", "measure", "part", "run"]

SHARES = (0.25, 0.5, 1.0)
_MEASURED = {
    "fit s": "fit_seconds",
    "peak MB": "peak_megabytes",
    "fit MB": "fit_megabytes",
    "model MB": "model_megabytes",
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure at each share and print the tables and the growth exponents."""
    facts = environment(options.seed)
    heading(f"Growth on {data.load(options.data).name}", facts)
    whole = in_child(measure, options.data, "mashups", 1.0, options.seed)
    results = {}
    for axis in ("mashups", "contractors"):
        smaller = [in_child(measure, options.data, axis, s, options.seed) for s in SHARES[:-1]]
        results[axis] = [*smaller, whole]
        rows = [
            [str(r["mashups"]), str(r["contractors"])]
            + [number(r[key], 1) for key in _MEASURED.values()]
            for r in results[axis]
        ]
        sizes = [r[axis] for r in results[axis]]
        growth = [exponent(sizes, [r[key] for r in results[axis]]) for key in _MEASURED.values()]
        rows.append([f"growth with {axis}", "", *(number(g, 2) for g in growth)])
        table([["mashups", "contractors", *_MEASURED], *rows])
    print("Fit MB is the part of the peak memory that came with the fit.")
    print("Growth is the exponent b of a * n**b, fitted by least squares on logarithms.")
    print("Fewer contractors: mashups lose the APIs that are left out, some lose all of them.")
    return {"environment": facts, "results": results}


def measure(folder: Path, axis: str, share: float, seed: int) -> dict[str, Any]:
    """Fit on a share of the data. Runs in a process of its own."""
    splits = data.load(folder)
    catalog, train = part(splits.catalog, splits.train, axis, share, seed)
    _, costs = fitted(lambda: fit_router(catalog, train, random_state=seed, n_jobs=-1))
    return {"mashups": len(train), "contractors": len(catalog), **costs}


def part(
    catalog: Catalog, train: History, axis: str, share: float, seed: int
) -> tuple[Catalog, History]:
    """Return a random share of the mashups, or of the contractors and what their mashups keep."""
    rng = np.random.default_rng(seed)
    if axis == "mashups":
        chosen = np.sort(rng.permutation(len(train))[: max(int(share * len(train)), 1)])
        return catalog, History(train[int(i)] for i in chosen)
    chosen = np.sort(rng.permutation(len(catalog))[: max(int(share * len(catalog)), 1)])
    smaller = Catalog(catalog[int(i)] for i in chosen)
    shortened = (replace(m, apis=tuple(a for a in m.apis if a in smaller)) for m in train)
    return smaller, History(mashup for mashup in shortened if mashup.apis)


def exponent(sizes: list[float], values: list[float | None]) -> float | None:
    """Return the exponent of the power law through the points.

    Examples
    --------
    >>> round(exponent([10, 20, 40], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    known = [(s, v) for s, v in zip(sizes, values, strict=True) if v]
    if len(known) < 2:
        return None
    logs = np.log(np.array(known, dtype=float))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
