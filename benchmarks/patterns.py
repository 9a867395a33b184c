"""A log of a few patterns with other names and days in them, and requests in other words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Api, Catalog
from cnp_router.evaluation.metrics import Ranking, means, set_scores
from cnp_router.files import read_jsonl
from cnp_router.history import History, Mashup
from cnp_router.training import LearnedRouter, fit_router

__all__ = ["SIZES", "run"]

SIZES = (150, 600, 1_200, 5_000, 25_000)  # past requests; of each pattern 2 to 350
_DRAWS = 3
_N_NEW = 100  # of the same patterns
_DATA = Path(__file__).with_name("patterns.jsonl")
_BOTH = 0.15  # share of the requests that have two parts
_SURE = 0.9
_COLUMNS = {
    "R@1": 2,
    "R@5": 2,
    "F1": 2,
    "recall of recipients": 2,
    "recipients": 1,
    "best wrong, though sure": 2,
    "refused": 2,
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fit on logs of several sizes, ask in the same patterns and in others, and print the table."""
    facts = environment(options.seed)
    heading("A log of a few patterns", facts)
    common, *lines = [fields for _, fields in read_jsonl(_DATA)]
    catalog = Catalog(
        Api(own["id"], own["id"].replace("_", " "), own["description"]) for own in lines
    )
    said = [(own["id"], pattern) for own in lines for pattern in own["patterns"]]
    worded = {
        f"{kind} words": [Mashup(text, text, (own["id"],)) for own in lines for text in own[key]]
        for kind, key in (("the description's", "described"), ("quite other", "other"))
    }
    print(f"{len(catalog)} tools, {len(said)} patterns, means over {_DRAWS} logs. Asked are")
    print(
        f"{_N_NEW} new requests in the same patterns; two a tool in words of the descriptions, and"
    )
    print(
        "two in quite others. Recipients are the APIs routed to, at a target recall of .90; sure:"
    )
    print(f"a probability of {_SURE} or more; refused: nothing is said to fit, which is right for")
    print("texts of nothing.\n", flush=True)
    results: dict[str, dict[str, dict[str, float]]] = {}
    for size in SIZES:
        found: dict[str, list[dict[str, float]]] = {}
        for draw in range(_DRAWS):
            rng = np.random.default_rng([options.seed, draw])
            log = _drawn(said, common["slots"], size + _N_NEW, rng)
            router = fit_router(catalog, History(log[:size]), random_state=options.seed)
            for asked, mashups in (("the same patterns", log[size:]), *worded.items()):
                found.setdefault(asked, []).extend(_asked(router, mashup) for mashup in mashups)
            found.setdefault("nothing", []).extend(
                {"refused": float(not router.route(text).fits)} for text in common["nothing"]
            )
        results[str(size)] = {asked: means(own) for asked, own in found.items()}
    rows = [
        [size, asked, *(number(own.get(name), d) for name, d in _COLUMNS.items())]
        for size, groups in results.items()
        for asked, own in groups.items()
    ]
    table([["past requests", "asked in", *_COLUMNS], *rows])
    return {"environment": facts, "data": "patterns", "sizes": results}


def _drawn(
    said: Sequence[tuple[str, str]],
    slots: dict[str, list[str]],
    size: int,
    rng: np.random.Generator,
) -> list[Mashup]:
    """Return requests of the patterns, none twice, all patterns in turn, some two at once."""
    found: dict[str, Mashup] = {}
    order = rng.permutation(len(said))
    for turn in range(100 * size):
        if len(found) == size:
            break
        parts = [said[order[turn % len(order)]]]
        if rng.random() < _BOTH:
            parts.append(said[int(rng.integers(len(said)))])
        text = ", and then ".join(_filled(pattern, slots, rng) for _, pattern in parts)
        apis = tuple(dict.fromkeys(api for api, _ in parts))
        found.setdefault(text, Mashup(text, text, apis))
    return list(found.values())


def _filled(pattern: str, slots: dict[str, list[str]], rng: np.random.Generator) -> str:
    """Return a pattern with something in each slot, which may have slots of its own."""

    def drawn(match: re.Match[str]) -> str:
        return _filled(str(rng.choice(slots[match[1]])), slots, rng)

    return re.sub(r"\{(\w+)\}", drawn, pattern)


def _asked(router: LearnedRouter, mashup: Mashup) -> dict[str, float]:
    routing = router.route(mashup.description)
    top = router.score(mashup.description).top(5)
    ranking = Ranking([api for api, _ in top], mashup.apis)
    best, probability = top[0]
    return {
        "R@1": ranking.recall(1),
        "R@5": ranking.recall(5),
        "F1": set_scores(routing.recommendation, mashup.apis).f1,
        "recall of recipients": set_scores(routing.contractors, mashup.apis).recall,
        "recipients": len(routing.recipients),
        "best wrong, though sure": float(probability >= _SURE and best not in mashup.apis),
        "refused": float(not routing.fits),
    }
