"""The same APIs and requests in two languages, without any history."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.learning_curve import NEED_HISTORY, ROUTERS
from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Catalog
from cnp_router.evaluation import evaluate
from cnp_router.history import History

__all__ = ["TWINS", "run"]

TWINS = Path(__file__).with_name("japanese")

_FIGURES = (
    ("R@5", "ranking", "recall@5"),
    ("R@20", "ranking", "recall@20"),
    ("F1", "recommendation", "f1"),
)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the routers that need no history, in each language, and print the table."""
    folder: Path = options.data or TWINS
    facts = environment(options.seed)
    heading("The same in several languages, without history", facts)
    languages = sorted(file.parent for file in folder.glob("*/apis.jsonl"))
    results: dict[str, Any] = {}
    rows = []
    for place in languages:
        catalog = Catalog.read(place / "apis.jsonl")
        requests = History.read(sorted(place.glob("mashups*.jsonl")), catalog=catalog)
        for name, build in ROUTERS.items():
            if name in NEED_HISTORY:
                continue
            router = build(catalog, History([]))
            found = evaluate(router, requests, scheduler=options.scheduler).to_dict()
            figures = {title: found[group][key] for title, group, key in _FIGURES}
            results.setdefault(name, {})[place.name] = figures
            cells = [number(value) for value in figures.values()]
            rows.append([name, place.name, str(len(catalog)), str(len(requests)), *cells])
    rows.sort(key=lambda row: list(ROUTERS).index(row[0]))
    table([["router", "language", "APIs", "requests", *(title for title, *_ in _FIGURES)], *rows])
    return {"environment": facts, "routers": results}
