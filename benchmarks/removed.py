"""Requests for APIs that were removed from the catalog of a fitted router."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks import data
from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.routing import Routing
from cnp_router.training import LearnedRouter, fit_router

__all__ = ["LIMIT", "WAYS", "run"]

LIMIT = 300

_HELD_OUT = 150  # of the sample
_SHARES = {"the most used tenth": 0.1, "any fifth": 0.2}
_NEW_ID = "{}-v2"

Ask = Callable[[History], list[Routing]]


def _asking(router: LearnedRouter, exclude: Collection[str] = ()) -> Ask:
    return lambda asked: router.route_many(
        asked.texts, exclude=sorted(exclude), dates=[mashup.date for mashup in asked]
    )


def _removed(router: LearnedRouter, gone: Collection[str]) -> Ask:
    return _asking(router.synced(Catalog(api for api in router.catalog if api.id not in gone)))


def _replaced(router: LearnedRouter, gone: Collection[str]) -> Ask:
    apis = (replace(a, id=_NEW_ID.format(a.id)) if a.id in gone else a for a in router.catalog)
    return _asking(router.synced(Catalog(apis)))


WAYS: Mapping[str, Callable[[LearnedRouter, Collection[str]], Ask]] = {
    "as it was": lambda router, _: _asking(router),
    "excluded from each request": _asking,
    "removed (synced)": _removed,
    "back under other ids": _replaced,
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fit once, take APIs away, ask for them and for the others, and print the tables."""
    splits = data.load_limited(options.data, _HELD_OUT, options.limit, options.seed)
    facts = environment(options.seed)
    heading(f"Removed APIs of {splits.name}", facts)
    print("Lost requests need only APIs that were removed, kept ones none of them. AUROC: how well")
    print("`answerable` tells kept from lost.\n", flush=True)
    router = fit_router(splits.catalog, splits.train, random_state=options.seed, n_jobs=-1)
    asked = History(
        replace(mashup, id=f"{name} {mashup.id}")
        for name, history in splits.held_out.items()
        for mashup in history
    )
    uses = Counter(api for mashup in splits.train for api in mashup.apis)
    most_used = sorted(uses, key=lambda api: (-uses[api], api))
    drawn = np.random.default_rng(options.seed).permutation(most_used).tolist()
    found = []
    for (what, share), names in zip(_SHARES.items(), (most_used, drawn), strict=True):
        gone = frozenset(names[: round(share * len(names))])
        lost = History(mashup for mashup in asked if gone.issuperset(mashup.apis))
        kept = History(mashup for mashup in asked if gone.isdisjoint(mashup.apis))
        if not (len(lost) and len(kept)):
            continue
        print(f"## Without {what}: {len(gone)} APIs; {len(lost)} lost, {len(kept)} kept\n")
        rows = [_row(way, partial(build, router), gone, lost, kept) for way, build in WAYS.items()]
        table([list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)])
        found.append(
            {"removed": what, "apis": len(gone), "n": [len(lost), len(kept)], "ways": rows}
        )
    return {"environment": facts, "data": splits.name, "found": found}


def _row(
    way: str, build: Callable[[Collection[str]], Ask], gone: Collection[str], *both: History
) -> dict[str, Any]:
    ask = build(gone)
    lost, kept = (ask(history) for history in both)
    answerable = [routing.answerable for routing in (*kept, *lost)]
    is_kept = np.arange(len(answerable)) < len(kept)
    return {
        "router": way,
        "lost: nothing fits": _share(not routing.fits for routing in lost),
        "lost: confident": _share(routing.is_confident for routing in lost),
        "kept: nothing fits": _share(not routing.fits for routing in kept),
        "kept: confident": _share(routing.is_confident for routing in kept),
        "AUROC": float(roc_auc_score(is_kept, answerable)),
    }


def _share(told: Any) -> float:
    return float(np.mean(list(told)))


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else number(value)
