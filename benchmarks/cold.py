"""Requests for APIs that no past request used, where these used only a part of the catalog."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import data
from benchmarks.report import environment, heading, table_of
from cnp_router.catalog import Catalog
from cnp_router.evaluation import evaluate
from cnp_router.history import History
from cnp_router.training import LearnedRouter, fit_router

__all__ = ["LIMIT", "ROUTERS", "run"]

LIMIT = 300

_HELD_OUT = 150  # of the sample
# Which share of the APIs, the most used ones, the history uses, and how long it is at most.
_HISTORIES = ((1 / 16, 100), (1 / 16, 1_000), (1 / 4, 300), (1 / 4, 3_000), (1 / 2, 5_000))
_FIGURES = (
    ("R@5", "ranking", "recall@5"),
    ("F1", "recommendation", "f1"),
    ("recall of recipients", "recipients", "recall"),
    ("recipients", "recipients", "mean"),
)


def _extended(catalog: Catalog, past: History) -> LearnedRouter:
    """Learn before the APIs that the history does not use have come."""
    used = {api for mashup in past for api in mashup.apis}
    router = fit_router(Catalog(api for api in catalog if api.id in used), past)
    return router.extended([api for api in catalog if api.id not in used])


ROUTERS: Mapping[str, Callable[[Catalog, History], LearnedRouter]] = {
    "without history": lambda catalog, _: fit_router(catalog),
    "fitted": fit_router,
    "fitted, then extended": _extended,
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fit on each history, ask for what it uses and for the others, and print the tables."""
    splits = data.load_limited(options.data, _HELD_OUT, 0, options.seed)
    facts = environment(options.seed)
    heading(f"Cold APIs of {splits.name}", facts)
    print("Past requests use nothing but the most used APIs, and so do the warm requests; cold")
    print("ones need none of these. Confident: at the default threshold; covered: all that such")
    print("a request needs is among the recipients.\n", flush=True)
    most_used = data.most_used(splits.train)
    results = []
    for share, size in _HISTORIES:
        names = most_used[: max(round(share * len(most_used)), 1)]
        few = Catalog(splits.catalog[name] for name in names)
        past = data.limited(splits.train.known_to(few), size, options.seed)
        if not len(past):
            continue
        print(f"## {len(past)} past mashups of {len(few)} of {len(splits.catalog)} APIs\n")
        found = _asked(splits, past, few, options)
        results.append({"mashups": len(past), "apis": len(few), "requests": found})
    return {"environment": facts, "data": splits.name, "histories": results}


def _without(history: History, apis: Catalog) -> History:
    return History(mashup for mashup in history if not any(api in apis for api in mashup.apis))


def _asked(
    splits: data.Splits, past: History, few: Catalog, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Ask the routers, print the table, and return its rows."""
    found = []
    for name, build in ROUTERS.items():
        router = build(splits.catalog, past)
        for split, held_out in splits.held_out.items():
            for kind, own in (("warm", held_out.known_to(few)), ("cold", _without(held_out, few))):
                requests = data.limited(own, options.limit, options.seed)
                if not len(requests):
                    continue
                said = evaluate(router, requests, scheduler=options.scheduler).to_dict()
                figures = {title: said[group][key] for title, group, key in _FIGURES}
                figures["nothing fits"] = said["nothing_fits_rate"]
                figures["confident"] = 1 - said["fallback_rate"]
                figures["covered if confident"] = said["complete_if_sure"]
                about = {"split": split, "kind": kind, "router": name, "n": len(requests)}
                found.append({**about, **figures})
    found.sort(key=lambda row: (row["split"], row["kind"] == "cold"))
    table_of(found)
    return found
