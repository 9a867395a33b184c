"""Quality and cost of every router, on the same mashups, in one run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.child import fitted, in_child
from benchmarks.report import environment, heading, number, table
from benchmarks.vectors import GivenVectors
from cnp_router.catalog import Catalog
from cnp_router.evaluation import evaluate
from cnp_router.history import History
from cnp_router.routing import Router
from cnp_router.routing.baselines import (
    BroadcastRouter,
    HistoryKNNRouter,
    PopularityRouter,
    RandomRouter,
    SpecificationRouter,
)
from cnp_router.training import fit_router

__all__ = ["ROUTERS", "measure", "run"]

Build = Callable[[Catalog, History, int], Router]

_LEARNED = "learned"
ROUTERS: dict[str, Build] = {
    _LEARNED: lambda catalog, history, seed: fit_router(
        catalog, history, random_state=seed, n_jobs=-1
    ),
    "history kNN": lambda catalog, history, _: HistoryKNNRouter(catalog, history),
    "specification": lambda catalog, history, _: SpecificationRouter(catalog, history),
    "popularity": lambda catalog, history, _: PopularityRouter(catalog, history),
    "random": lambda catalog, _, seed: RandomRouter(catalog, random_state=seed),
    "broadcast": lambda catalog, *_: BroadcastRouter(catalog),
}

# Title, where it is in an evaluation, decimals.
_COLUMNS = (
    ("R@5", ("ranking", "recall@5"), 3),
    ("R@20", ("ranking", "recall@20"), 3),
    ("NDCG@10", ("ranking", "ndcg@10"), 3),
    ("F1", ("recommendation", "f1"), 3),
    ("ECE", ("calibration", "ece"), 3),
    ("recall of recipients", ("recipients", "recall"), 3),
    ("recipients", ("recipients", "mean"), 1),
    ("p50 ms", ("latency_ms", "p50"), 2),
    ("p95 ms", ("latency_ms", "p95"), 2),
)
_COSTS = {
    "fit s": ("fit_seconds", 1),
    "peak MB": ("peak_megabytes", 0),
    "model MB": ("model_megabytes", 1),
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the routers and print the table."""
    splits = data.load(options.data, options.seed)
    facts = environment(options.seed)
    heading(f"Quality on {splits.name}", facts)
    asked = ", ".join(f"{len(h)} of {name}" for name, h in splits.held_out.items())
    print(f"Learned from {len(splits.train)} mashups over {len(splits.catalog)} APIs.")
    print(f"Requests: {asked}; figures are means over them.")
    print("Recipients are the APIs routed to, at a target recall of .90.")
    if options.vectors:
        print(f"The learned router has vectors too: {options.vectors.name}.")
    print(flush=True)
    names = options.only or list(ROUTERS)
    results = {
        name: in_child(measure, name, options.data, options.seed, options.vectors) for name in names
    }
    rows = [_row(split, name, results[name]) for split in splits.held_out for name in names]
    table([["router", "requests", *(c[0] for c in _COLUMNS), *_COSTS], *rows])
    if options.full:
        _print_all(results, list(splits.held_out))
    return {"environment": facts, "data": splits.name, "routers": results}


def measure(name: str, folder: Path | None, seed: int, vectors: Path | None) -> dict[str, Any]:
    """Fit one router and evaluate it. Runs in a process of its own."""
    splits = data.load(folder, seed)
    encoder = GivenVectors(vectors, splits) if vectors and name == _LEARNED else None

    def build() -> Router:
        if encoder is None:
            return ROUTERS[name](splits.catalog, splits.train, seed)
        return fit_router(
            splits.catalog, splits.train, encoder=encoder, random_state=seed, n_jobs=-1
        )

    router, costs = fitted(build)
    evaluations = {split: evaluate(router, held) for split, held in splits.held_out.items()}
    return {
        "baseline": name != _LEARNED,
        **costs,
        "splits": {
            # The thesis's step 2: categories are to_dict's, all APIs in them are beside it.
            split: {**evaluation.to_dict(), "category_apis": dict(evaluation.category_apis)}
            for split, evaluation in evaluations.items()
        },
    }


def _row(split: str, name: str, result: dict[str, Any]) -> list[str]:
    figures = result["splits"][split]
    cells = [
        number((figures.get(group) or {}).get(key), digits) for _, (group, key), digits in _COLUMNS
    ]
    title = f"{name} (baseline)" if result["baseline"] else name
    costs = [number(result[key], digits) for key, digits in _COSTS.values()]
    return [title, split, *cells, *costs]


def _print_all(results: dict[str, dict[str, Any]], splits: list[str]) -> None:
    for split in splits:
        print(f"## All figures, {split}\n")
        flat = {name: _flat(result["splits"][split]) for name, result in results.items()}
        keys = list(dict.fromkeys(key for figures in flat.values() for key in figures))
        rows = [[key, *(number(flat[name].get(key)) for name in flat)] for key in keys]
        table([["", *flat], *rows])


def _flat(figures: dict[str, Any]) -> dict[str, float | None]:
    return {
        f"{group} {key}".rstrip(): inner
        for group, value in figures.items()
        for key, inner in (value if isinstance(value, dict) else {"": value}).items()
    }
