"""Requests for APIs that were removed from the catalog of a fitted router."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.measures import auroc, share_true
from benchmarks.report import environment, heading, table_of
from cnp_router.catalog import Catalog
from cnp_router.history import Mashup
from cnp_router.training import LearnedRouter, fit_router

__all__ = ["LIMIT", "run"]

LIMIT = 300

_HELD_OUT = 150  # of the sample
_SHARES = {"the most used tenth": 0.1, "any fifth": 0.2}


def _removed(router: LearnedRouter, gone: Collection[str]) -> LearnedRouter:
    return router.synced(Catalog(api for api in router.catalog if api.id not in gone))


def _replaced(router: LearnedRouter, gone: Collection[str]) -> LearnedRouter:
    apis = (replace(a, id=f"{a.id}-v2") if a.id in gone else a for a in router.catalog)
    return router.synced(Catalog(apis))


# Who is asked, and without which APIs.
_WAYS: Mapping[
    str, Callable[[LearnedRouter, Collection[str]], tuple[LearnedRouter, Collection[str]]]
] = {
    "as it was": lambda router, _: (router, ()),
    "excluded from each request": lambda router, gone: (router, gone),
    "removed (synced)": lambda router, gone: (_removed(router, gone), ()),
    "back under other ids": lambda router, gone: (_replaced(router, gone), ()),
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fit once, take APIs away, ask for them and for the others, and print the tables."""
    splits = data.load_limited(options.data, _HELD_OUT, options.limit, options.seed)
    facts = environment(options.seed)
    heading(f"Removed APIs of {splits.name}", facts)
    print("Lost requests need only APIs that were removed, kept ones none of them. AUROC: how well")
    print("`answerable` tells kept from lost.\n", flush=True)
    router = fit_router(splits.catalog, splits.train, random_state=options.seed, n_jobs=-1)
    asked = [mashup for history in splits.held_out.values() for mashup in history]
    most_used = data.most_used(splits.train)
    drawn = np.random.default_rng(options.seed).permutation(most_used).tolist()
    found = []
    for (what, part), names in zip(_SHARES.items(), (most_used, drawn), strict=True):
        gone = frozenset(names[: round(part * len(names))])
        lost = [mashup for mashup in asked if gone.issuperset(mashup.apis)]
        kept = [mashup for mashup in asked if gone.isdisjoint(mashup.apis)]
        print(f"## Without {what}: {len(gone)} APIs; {len(lost)} lost, {len(kept)} kept\n")
        rows = [
            {"router": way, **_figures(*build(router, gone), lost, kept)}
            for way, build in _WAYS.items()
        ]
        table_of(rows)
        found.append(
            {"removed": what, "apis": len(gone), "n": [len(lost), len(kept)], "ways": rows}
        )
    return {"environment": facts, "data": splits.name, "found": found}


def _figures(
    router: LearnedRouter, exclude: Collection[str], lost: list[Mashup], kept: list[Mashup]
) -> dict[str, float | None]:
    answers = {}
    for kind, asked in (("lost", lost), ("kept", kept)):
        texts, dates = [m.description for m in asked], [m.date for m in asked]
        answers[kind] = router.route_many(texts, exclude=sorted(exclude), dates=dates)
    figures = {}
    for kind, routings in answers.items():
        figures[f"{kind}: nothing fits"] = share_true(not routing.fits for routing in routings)
        figures[f"{kind}: confident"] = share_true(routing.is_confident for routing in routings)
    answerable = {kind: [r.answerable for r in own] for kind, own in answers.items()}
    return {**figures, "AUROC": auroc(answerable["kept"], answerable["lost"])}
