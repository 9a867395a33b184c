"""Requests for several things at once: with and without looking at their parts."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.report import environment, heading, number, table
from cnp_router.evaluation.metrics import Ranking, means, set_scores
from cnp_router.history import History, Mashup
from cnp_router.training import LearnedRouter, fit_router

__all__ = ["measure", "run"]

_STEPS = {"whole only": False, "parts too": True, "by the history": None}
# Title, and decimals.
_COLUMNS = {
    "requests": 0,
    "F1": 3,
    "R@5": 3,
    "recall of the best 4": 3,
    "recall of recipients": 3,
    "recipients": 2,
    "read as several": 2,
    "p50 ms": 2,
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fit one router, ask it in each way, and print the table."""
    splits = data.load(options.data, options.seed)
    train = data.drawn(splits.train, options.history, options.seed)
    facts = environment(options.seed)
    heading(f"Requests for several things at once, on {splits.name}", facts)
    several = sum(len(mashup.apis) > 1 for mashup in train)
    print(f"Learned from {len(train)} mashups, of which {several} need several APIs.")
    print("Requests are asked as of their date, where they have one. Recipients are the APIs")
    print("routed to, at a target recall of .90.\n", flush=True)
    router = fit_router(splits.catalog, train, random_state=options.seed)
    results = {split: measure(router, held) for split, held in splits.held_out.items()}
    rows = [
        [split, needs, step, *(number(figures[c], d) for c, d in _COLUMNS.items())]
        for split, groups in results.items()
        for needs, steps in groups.items()
        for step, figures in steps.items()
    ]
    table([["split", "APIs needed", "router looks at", *_COLUMNS], *rows])
    return {"environment": facts, "data": splits.name, "mashups": len(train), "splits": results}


def measure(router: LearnedRouter, held: History) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures by number of needed APIs, then by what the router looks at."""
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    steps = list(_STEPS.items())
    for turn, mashup in enumerate(held.known_to(router.catalog)):
        needs = str(len(mashup.apis)) if len(mashup.apis) < 3 else "3+"
        first = turn % len(steps)  # in turn, so that a slow moment meets all alike
        for step, router.compound in steps[first:] + steps[:first]:
            found[needs, step].append(_asked(router, mashup))
    router.compound = None
    results: dict[str, dict[str, dict[str, float]]] = {}
    for needs in sorted({needs for needs, _ in found}):
        results[needs] = {}
        for step in _STEPS:
            own = found[needs, step]
            p50 = float(np.median([figures["p50 ms"] for figures in own]))
            results[needs][step] = {"requests": len(own), **means(own), "p50 ms": p50}
    return results


def _asked(router: LearnedRouter, mashup: Mashup) -> dict[str, float]:
    start = time.perf_counter()
    routing = router.route(mashup.description, date=mashup.date)
    milliseconds = 1000 * (time.perf_counter() - start)
    scores = router.score(mashup.description, date=mashup.date)
    ranking = Ranking([api for api, _ in scores.top(5)], mashup.apis)
    return {
        "F1": set_scores(routing.recommendation, mashup.apis).f1,
        "R@5": ranking.recall(5),
        "recall of the best 4": ranking.recall(4),
        "recall of recipients": set_scores(routing.contractors, mashup.apis).recall,
        "recipients": len(routing.recipients),
        "read as several": float(scores.n_needs > 1),
        "p50 ms": milliseconds,
    }
