"""What the router's evidence changes in routed rounds: who is shown it, and what is selected by."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.report import environment, heading
from benchmarks.routed_vs_broadcast import Figure, at_least, figure_table, fitted, held_out_of
from cnp_router.agents import SelectApis, offline_model
from cnp_router.agents.offline_answers import TextSimilarity
from cnp_router.catalog import Catalog
from cnp_router.evaluation import ComparisonRow, Table, compare
from cnp_router.evaluation.table import count, share
from cnp_router.llm import OfflineChatModel
from cnp_router.protocols import RoundSettings, Waves
from cnp_router.protocols.settings import EvidenceFor
from cnp_router.routing.selection import expected_f1_size

__all__ = ["run"]

_PROTOCOLS = ("contractor-led", "collaborative")
_WEIGHT = 0.5  # of grounds in the odds
_NO_MATCH = 0.3  # what grounds without a word in common leave of the odds, before that weight

# Who is shown the evidence, and what the manager selects by.
_VARIANTS: tuple[tuple[EvidenceFor, str], ...] = (
    ("none", "grounds"),
    ("manager", "evidence"),
    ("manager", "both"),
    ("everyone", "evidence"),
    ("everyone", "both"),
)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Hold the rounds, and print the table and the figures to reach."""
    splits = data.load(options.data, options.seed)
    name, held_out = held_out_of(splits, options.split)
    router = fitted(splits, options)
    facts = environment(options.seed)
    waves = Waves() if options.waves else None
    how = " in waves" if waves else ""
    heading(f"Evidence in routed rounds{how} on {splits.name}, {name}", facts)
    rows: list[tuple[str, str, ComparisonRow]] = []
    asked = 0
    for shown_to, selects_by in _VARIANTS:
        model = _by_both(router.catalog) if selects_by == "both" else offline_model(router.catalog)
        comparison = compare(
            router.catalog,
            model,
            held_out,
            router=router,
            protocols=_PROTOCOLS if rows else (*_PROTOCOLS, "learned"),
            announcements=["routed"],
            settings=RoundSettings(evidence=shown_to, waves=waves),
            limit=options.limit,
            scheduler=options.scheduler,
        )
        asked = comparison.requests
        rows += [(shown_to, selects_by, row) for row in comparison.rows]
    alone = next(row for _, _, row in rows if row.method.protocol == "learned")
    rows.sort(key=lambda each: (*_PROTOCOLS, "learned").index(each[2].method.protocol))
    print(
        f"{asked} requests, means over them. The offline model answered: its bids and selections "
        "do not measure a language model's. Tokens are estimated.\n"
    )
    print(f"{Table.of('', _COLUMNS, rows, labels=3).markdown()}\n")
    best = max(_f1(row) for _, _, row in rows if row is not alone)
    print(
        f"The router alone has an F1 of {share(_f1(alone))}, the best of these rounds has ", end=""
    )
    print(f"{share(best)}.\n")
    found = [figure for row in rows for figure in _figures(*row)]
    figure_table(found)
    return {
        "environment": facts,
        "data": splits.name,
        "requests": asked,
        "learned": alone.to_dict(),
        "rows": [{"evidence": e, "selects_by": by, **row.to_dict()} for e, by, row in rows],
        "figures": [asdict(figure) for figure in found],
    }


def _f1(row: ComparisonRow) -> float:
    return row.score("final", "f1") or 0.0


def _figures(shown_to: str, selects_by: str, row: ComparisonRow) -> list[Figure]:
    if selects_by != "evidence":
        return []
    title = f"{row.method.protocol}, evidence for {shown_to}:"
    f1 = at_least(f"{title} F1", row.score("final", "f1"), 0.55 if shown_to == "manager" else 0.65)
    if shown_to == "manager":
        return [f1]
    return [f1, at_least(f"{title} bid recall", row.score("bid", "recall"), 0.80)]


def _by_both(catalog: Catalog) -> OfflineChatModel:
    """Return an offline model whose manager weighs evidence and grounds: a product of experts."""
    offline = offline_model(catalog)
    similarity = TextSimilarity(f"{api.name} {api.description}" for api in catalog)

    def select(task: SelectApis) -> Any:
        grounds = {p.api: similarity(task.request, p.grounds) for p in task.proposals}
        best = max(grounds.values()) or 1.0
        ranked = []
        for each in task.evidence:
            p = min(max(each.probability, 1e-4), 1 - 1e-4)
            fits = (grounds[each.api] / best + _NO_MATCH) / (1 + _NO_MATCH)
            odds = p / (1 - p) * fits**_WEIGHT
            ranked.append((odds / (1 + odds), each.api))
        ranked.sort(key=lambda pair: -pair[0])
        size = expected_f1_size(np.array([p for p, _ in ranked]))
        return {"apis": [api for _, api in ranked[:size]]}

    return OfflineChatModel({**offline.answers, SelectApis: select}, name=offline.name)


_COLUMNS: dict[str, Callable[[tuple[str, str, ComparisonRow]], str]] = {
    "protocol": lambda each: each[2].method.protocol,
    "evidence for": lambda each: each[0] if each[2].stages["bid"] else "",
    "selected by": lambda each: each[1] if each[2].stages["bid"] else "",
    "recall after bidding": lambda each: share(each[2].score("bid", "recall")),
    "final precision": lambda each: share(each[2].score("final", "precision")),
    "final recall": lambda each: share(each[2].score("final", "recall")),
    "final F1": lambda each: share(each[2].score("final", "f1")),
    "tokens": lambda each: count(each[2].tokens),
    "messages": lambda each: count(each[2].messages, 1),
}
