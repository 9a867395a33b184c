"""Requests that quote: something else that is to be sent, say, or what is asked for itself."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import data
from benchmarks.report import environment, heading, number, table
from cnp_router.evaluation.metrics import Ranking, means, set_scores
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.routing import Router
from cnp_router.training import LearnedRouter, fit_router

__all__ = ["measure", "run"]

_MARKS = set('"“”')
LIMIT = 200  # requests of each split
# What is asked, and what is quoted: {request} is served by what counts, {other} by others.
_FRAMES = {
    "alone": ("{request}",),
    "with another one quoted": (
        '{request} "{other}"',
        "{request} It says “{other}”",
        'The text is: "{other}" {request}',
    ),
    "the same without marks": (
        "{request} {other}",
        "{request} It says {other}",
        "The text is: {other} {request}",
    ),
    "quoted itself": (
        'My colleague wrote: "{request}"',
        "“{request}” is what they want to know.",
        'Please help with this: "{request}"',
    ),
    "itself without marks": (
        "My colleague wrote: {request}",
        "{request} is what they want to know.",
        "Please help with this: {request}",
    ),
}
# Title, and decimals.
_COLUMNS = {"requests": 0, "R@1": 3, "R@5": 3, "F1": 3, "recall of recipients": 3}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fit one router, ask it in each way, and print the table."""
    splits = data.load(options.data, options.seed)
    train = data.drawn(splits.train, options.history, options.seed)
    facts = environment(options.seed)
    heading(f"Requests that quote, on {splits.name}", facts)
    print(f"Learned from {len(train)} mashups. What is quoted besides is another request of the")
    print("same split, which other APIs serve.\n", flush=True)
    router = fit_router(splits.catalog, train, random_state=options.seed)
    results = {
        split: measure(router, held, options.limit, options.seed)
        for split, held in splits.held_out.items()
    }
    rows = [
        [split, way, *(number(figures[column], d) for column, d in _COLUMNS.items())]
        for split, ways in results.items()
        for way, figures in ways.items()
    ]
    table([["split", "asked", *_COLUMNS], *rows])
    return {"environment": facts, "data": splits.name, "mashups": len(train), "splits": results}


def measure(
    router: LearnedRouter, held: History, limit: int, seed: int
) -> dict[str, dict[str, float]]:
    """Return the figures of some requests by how they are asked."""
    plain = History(m for m in held.known_to(router.catalog) if not _MARKS & {*m.description})
    some = list(data.limited(plain, limit, seed))
    pairs = [(own, _other(own, some[i + 1 :] + some[:i])) for i, own in enumerate(some)]
    results = {}
    for way, frames in _FRAMES.items():
        asked = [
            _asked(router, frames[i % len(frames)], own, other)
            for i, (own, other) in enumerate(pairs)
        ]
        results[way] = {"requests": len(asked), **means(asked)}
    return results


def _other(own: Mashup, others: list[Mashup]) -> Mashup:
    """Return the first that nothing serves that the own one needs."""
    for other in others:
        if not {*other.apis} & {*own.apis}:
            return other
    problem = f"no other request to quote in mashup {own.id!r}"
    raise InputError(f"{problem}: all need the same APIs (give more, or a larger --limit)")


def _asked(router: Router, frame: str, own: Mashup, other: Mashup) -> dict[str, float]:
    request = frame.format(request=own.description, other=other.description)
    routing = router.route(request, date=own.date)
    ranking = Ranking([api for api, _ in router.score(request, date=own.date).top(5)], own.apis)
    return {
        "R@1": ranking.recall(1),
        "R@5": ranking.recall(5),
        "F1": set_scores(routing.recommendation, own.apis).f1,
        "recall of recipients": set_scores(routing.contractors, own.apis).recall,
    }
