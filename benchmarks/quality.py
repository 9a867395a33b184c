"""Quality and cost of every router, on the same mashups, in one run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import data, peers
from benchmarks.child import fitted, in_child, peak_megabytes
from benchmarks.peers import PEERS
from benchmarks.report import environment, heading, number, table
from benchmarks.vectors import GivenVectors, load_vectors
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
from cnp_router.training import Encoder, fit_router

__all__ = ["ROUTERS", "measure", "run"]

Build = Callable[[Catalog, History, int, Encoder | None], Router]

_LEARNED = "learned"
_WITH_VECTORS = f"{_LEARNED} with vectors"
ROUTERS: dict[str, Build] = {
    _LEARNED: lambda catalog, history, seed, _: fit_router(
        catalog, history, random_state=seed, n_jobs=-1
    ),
    _WITH_VECTORS: lambda catalog, history, seed, encoder: fit_router(
        catalog, history, encoder=encoder, random_state=seed, n_jobs=-1
    ),
    "history kNN": lambda catalog, history, *_: HistoryKNNRouter(catalog, history),
    "specification": lambda catalog, history, *_: SpecificationRouter(catalog, history),
    "popularity": lambda catalog, history, *_: PopularityRouter(catalog, history),
    "random": lambda catalog, _, seed, __: RandomRouter(catalog, random_state=seed),
    "broadcast": lambda catalog, *_: BroadcastRouter(catalog),
}

_NEED_HISTORY = ("history kNN", "popularity")

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
    """Measure the routers and print the tables."""
    part = {
        "limit": options.limit,
        "without_history": options.without_history,
        "form": options.form,
    }
    splits = _splits(options.data, options.seed, **part)
    facts = environment(options.seed)
    heading(f"Quality on {splits.name}", facts)
    print(f"Learned from {len(splits.train)} mashups over {len(splits.catalog)} APIs.")
    print(f"Requests: {splits.asked}; figures are means over them.")
    print("Recipients are the APIs routed to, at a target recall of .90. Only the learned router")
    print("goes by the date of a request.")
    if options.without_history:
        print("Without history, peers recommend the best alone.\n")
    else:
        print("Of peers, F1 is that of all above a threshold, chosen on past requests out of")
        print("fold.\n")
    chosen = _chosen(options)
    there = peers.measurable(
        [name for name in chosen if name in PEERS], has_vectors=options.vectors is not None
    )
    if options.vectors is None and _WITH_VECTORS in chosen:
        print(f"{_WITH_VECTORS}: needs --vectors.")
        chosen = [name for name in chosen if name != _WITH_VECTORS]
    print(flush=True)
    names = [name for name in chosen if name in ROUTERS or name in there]
    results = {}
    for name in names:
        ask = measure_peer if name in PEERS else measure
        given = options.data, options.seed, options.vectors, part
        elsewhere = () if name in PEERS else (options.scheduler,)
        results[name] = in_child(ask, name, *given, *elsewhere)
    rows = [
        [*row, *(number(results[name][key], digits) for key, digits in _COSTS.values())]
        for split in splits.held_out
        for name in names
        for row in _rows(split, name, results[name]["kind"], results[name]["splits"][split])
    ]
    head = ["router", "requests", "dates", *(column for column, *_ in _COLUMNS)]
    table([[*head, *_COSTS], *rows])
    if not options.without_history:
        _print_rolling(head, data.rolling(splits.train, options.seed), results)
    if options.full:
        _print_all(results, list(splits.held_out))
    return {"environment": facts, "data": splits.name, "routers": results}


def measure(
    name: str,
    folder: Path | None,
    seed: int,
    vectors: Path | None = None,
    part: Mapping[str, Any] | None = None,
    scheduler: str | None = None,
) -> dict[str, Any]:
    """Fit one router and evaluate it, perhaps over a cluster. Runs in a process of its own."""
    splits = _splits(folder, seed, **part or {})
    encoder = None if vectors is None else GivenVectors(vectors, splits)

    def build(past: History) -> Router:
        return ROUTERS[name](splits.catalog, past, seed, encoder)

    router, costs = fitted(lambda: build(splits.train))

    def evaluated(router: Router, held: History) -> dict[str, Any]:
        return _evaluated(name, router, held, scheduler)

    results = {split: evaluated(router, held) for split, held in splits.held_out.items()}
    rolling = []
    for origin in data.rolling(splits.train, seed):
        router = build(origin.past)
        rolling.append({"share": origin.share, **evaluated(router, origin.asked)})
    kind = "learned" if name.startswith(_LEARNED) else "baseline"
    return {"kind": kind, **costs, "splits": results, "rolling": rolling}


def measure_peer(
    name: str,
    folder: Path | None,
    seed: int,
    vectors: Path | None = None,
    part: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fit one peer and evaluate it. Runs in a process of its own."""
    splits = _splits(folder, seed, **part or {})
    given = None if vectors is None else load_vectors(vectors, splits)
    peer, seconds = peers.fitted(name, splits.catalog, splits.train, given)
    peak = peak_megabytes()
    results = {split: {"dated": peer.evaluated(held)} for split, held in splits.held_out.items()}
    rolling = []
    for origin in data.rolling(splits.train, seed):
        peer, _ = peers.fitted(name, splits.catalog, origin.past, given)
        rolling.append({"share": origin.share, "dated": peer.evaluated(origin.asked)})
    return {
        "kind": "peer",
        "fit_seconds": seconds,
        "peak_megabytes": peak,
        "model_megabytes": None,
        "splits": results,
        "rolling": rolling,
    }


def _chosen(options: argparse.Namespace) -> list[str]:
    """Return who is measured: those named, or all that are quick."""
    chosen = options.only or [*ROUTERS, *peers.usual()]
    if not options.without_history:
        return list(chosen)
    return [name for name in chosen if not _needs_history(name)]


def _needs_history(name: str) -> bool:
    return PEERS[name].needs_history if name in PEERS else name in _NEED_HISTORY


def _splits(
    folder: Path | None,
    seed: int,
    *,
    limit: int = 0,
    without_history: bool = False,
    form: str | None = None,
) -> data.Splits:
    """Read the data; of each split at most `limit` mashups drawn at random, all if it is 0."""
    splits = data.load(folder, seed)
    held_out = {name: data.limited(h, limit, seed) for name, h in splits.held_out.items()}
    train = History([]) if without_history else splits.train
    splits = replace(splits, train=train, held_out=held_out)
    return splits if form is None else data.in_form(splits, form, seed)


def _evaluated(
    name: str, router: Router, history: History, scheduler: str | None
) -> dict[str, Any]:
    """Evaluate with dates, and without them where there are any and the router goes by them."""
    found = {"dated": evaluate(router, history, scheduler=scheduler)}
    if name.startswith(_LEARNED) and found["dated"].with_date:
        found["undated"] = evaluate(router, history, dated=False, scheduler=scheduler)
    # The thesis's step 2: categories are to_dict's, all APIs in them are beside it.
    return {
        dates: {**evaluation.to_dict(), "category_apis": dict(evaluation.category_apis)}
        for dates, evaluation in found.items()
    }


def _rows(split: str, name: str, kind: str, found: dict[str, Any]) -> Iterator[list[str]]:
    title = name if kind == "learned" else f"{name} ({kind})"
    for figures in (found[dates] for dates in ("dated", "undated") if dates in found):
        n_dates = figures["with_date"]
        dates = f"{n_dates} given" if figures["dated"] else "not given"
        if kind != "learned":
            dates = "not used"
        dates = dates if n_dates else "none"
        cells = [
            number((figures.get(group) or {}).get(key), digits)
            for _, (group, key), digits in _COLUMNS
        ]
        yield [title, split, dates, *cells]


def _print_rolling(
    head: list[str], origins: Sequence[data.Origin], results: dict[str, dict[str, Any]]
) -> None:
    """Print what routers come to that learned from the first part of the history alone."""
    print("## Rolling origin\n")
    if not origins:
        print("No dates: the history cannot be put in order.\n")
        return
    parts = " and ".join(f"{origin.share:.0%}" for origin in origins)
    asked = " and ".join(str(len(origin.asked)) for origin in origins)
    print(f"Fitted on the first {parts} of the history by date, and asked about {asked} of the")
    print("next 10 %; means over both. No router knows anything later than the request, as it does")
    print("of held-out requests of the history's own years.\n")
    rows = [
        row
        for name, result in results.items()
        for row in _rows("rolling origin", name, result["kind"], _over_origins(result["rolling"]))
    ]
    table([head, *rows])


def _over_origins(rolling: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        dates: {
            **_mean([origin[dates] for origin in rolling]),
            "with_date": sum(origin[dates]["with_date"] for origin in rolling),
        }
        for dates in rolling[0]
        if dates != "share"
    }


def _mean(figures: Sequence[Any]) -> Any:
    """Return the means of numbers, in objects of the same keys; of others the first."""
    first = figures[0]
    if isinstance(first, dict):
        return {key: _mean([each[key] for each in figures]) for key in first}
    numbers = [f for f in figures if isinstance(f, int | float) and not isinstance(f, bool)]
    return sum(numbers) / len(numbers) if len(numbers) == len(figures) else first


def _print_all(results: dict[str, dict[str, Any]], splits: list[str]) -> None:
    for split in splits:
        print(f"## All figures, {split}\n")
        flat = {
            f"{name}{'' if dates == 'dated' else ', ' + dates}": _flat(figures)
            for name, result in results.items()
            for dates, figures in result["splits"][split].items()
        }
        keys = list(dict.fromkeys(key for figures in flat.values() for key in figures))
        rows = [[key, *(number(flat[name].get(key)) for name in flat)] for key in keys]
        table([["", *flat], *rows])


def _flat(figures: dict[str, Any]) -> dict[str, float | None]:
    return {
        f"{group} {key}".rstrip(): inner
        for group, value in figures.items()
        for key, inner in (value if isinstance(value, dict) else {"": value}).items()
        if not isinstance(inner, list)  # days
    }
