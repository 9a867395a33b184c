"""Every protocol, routed and broadcast, with the offline model; and the figures it should reach."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import data
from benchmarks.report import environment, heading, table
from cnp_router.agents import Organisation, offline_model
from cnp_router.evaluation import Comparison, ComparisonRow, compare, comparison_tables
from cnp_router.evaluation.report import (
    about,
    check_report,
    ratios,
    trouble_table,
    write_report,
)
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.protocols import PROTOCOLS, RoundSettings
from cnp_router.routing import Router
from cnp_router.training import fit_router, load_router

__all__ = ["Figure", "figures", "run", "run_organisations"]

_LARGEST = 20  # APIs of a contractor, organised by size
_SHARED: tuple[Organisation, ...] = ("api", "category", "community")


@dataclass(frozen=True)
class Figure:
    """A figure to reach.

    Parameters
    ----------
    name : str
    measured : float
        NaN where it could not be measured: that passes nothing.
    least : float
    passed : bool
    """

    name: str
    measured: float
    least: float
    passed: bool


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Compare all methods on a held-out split, and print tables and figures."""
    if options.report:
        check_report(options.report)
    splits = data.load(options.data, options.seed)
    name, held_out = _held_out(splits, options.split)
    router = _router(splits, options)
    facts = environment(options.seed)
    heading(f"Routed against broadcast on {splits.name}, {name}", facts)
    if options.organise:
        return run_organisations(router, held_out, options, facts)
    comparison = compare(
        router.catalog,
        offline_model(router.catalog),
        held_out,
        router=router,
        settings=RoundSettings(),
        limit=options.limit,
        resume=options.resume,
    )
    _print(comparison)
    found = figures(comparison)
    rows = [[f.name, _shown(f.measured), _shown(f.least), _mark(f)] for f in found]
    table([["figure", "measured", "at least", ""], *rows])
    goal = [r for r in found if r.name.endswith(("tokens", "messages")) and r.least == 20]
    reached = ", ".join(f"{r.name} {r.measured:.1f}" for r in goal if r.measured >= 40)
    print(f"The goal of 40 times is reached by: {reached or 'none'}.")
    if options.report:
        write_report(comparison, options.report)
    return {
        "environment": facts,
        "data": splits.name,
        "comparison": comparison.to_dict(),
        "figures": [asdict(figure) for figure in found],
    }


def figures(comparison: Comparison) -> list[Figure]:
    """Return the figures that a comparison should reach, with what it has reached."""
    found = []
    for protocol in ("contractor-led", "collaborative"):
        broadcast, routed = _both(comparison, protocol)
        ratio = ratios(broadcast, routed)
        found += [
            _at_least(f"{protocol}: broadcast / routed tokens", ratio["tokens"], 20),
            _at_least(f"{protocol}: broadcast / routed messages", ratio["messages"], 20),
            _at_least(f"{protocol}: routed final F1", _final_f1(routed), _final_f1(broadcast)),
            _at_least(f"{protocol}: bid recall kept", ratio["bid_recall"], 0.92),
        ]
    broadcast, routed = _both(comparison, "manager-led")
    bids = [_recall(row) for row in (broadcast, routed)]
    found.append(
        _at_least("manager-led: broadcast / routed tokens", ratios(broadcast, routed)["tokens"], 1)
    )
    higher = Figure("manager-led: routed bid recall (above)", bids[1], bids[0], bids[1] > bids[0])
    learned = comparison.row("learned", "routed")
    calls = None if learned is None else learned.model_calls
    there = math.nan if calls is None else calls
    return [*found, higher, Figure("learned: model calls (exactly)", there, 0, there == 0)]


def run_organisations(
    router: Router, held_out: History, options: argparse.Namespace, facts: dict[str, Any]
) -> dict[str, Any]:
    """Compare the organisations of the contractors on a part of the requests."""
    plans: list[tuple[Sequence[Organisation], int | None]] = [
        (_SHARED, None),
        (("size",), _LARGEST),
    ]
    protocols: Any = [
        name for name, each in PROTOCOLS.items() if each.has_contractors and not each.needs_router
    ]
    catalog: Any = getattr(router, "catalog")  # noqa: B009  # a fitted one has it
    comparisons = [
        compare(
            catalog,
            offline_model(catalog),
            held_out,
            router=router,
            protocols=protocols,
            organisations=organisations,
            max_size=size,
            limit=options.limit,
        )
        for organisations, size in plans
    ]
    print(f"{comparisons[0].requests} requests. {about(comparisons[0])[1]}")
    print(f"Organised by size, a contractor holds at most {_LARGEST} APIs.\n")
    rows = [
        _organised(row, comparison.contractors[row.method.organisation])
        for comparison in comparisons
        for row in comparison.rows
    ]
    rows.sort(key=lambda row: protocols.index(row[0]))
    titles = ["protocol", "organised by", "contractors", "announced", "asked", "messages"]
    table([[*titles, "tokens", "bid R", "final P", "final R", "final F1"], *rows])
    for comparison in comparisons:
        _print_trouble(comparison)
    return {"environment": facts, "comparisons": [c.to_dict() for c in comparisons]}


def _held_out(splits: data.Splits, name: str | None) -> tuple[str, History]:
    """Return the named split; without a name ``dev``, or else the first."""
    name = name or ("dev" if "dev" in splits.held_out else next(iter(splits.held_out)))
    if name not in splits.held_out:
        raise InputError(f"there is no split {name!r} (there are: {', '.join(splits.held_out)})")
    return name, splits.held_out[name]


def _router(splits: data.Splits, options: argparse.Namespace) -> Any:
    if options.model:
        return load_router(options.model)
    return fit_router(splits.catalog, splits.train, random_state=options.seed, n_jobs=-1)


def _print(comparison: Comparison) -> None:
    averaged, answered = about(comparison)
    print(f"{comparison.contractors['api']:,} contractors. {averaged}\n{answered}\n")
    for item in comparison_tables(comparison)["api"]:
        print(f"{item.markdown()}\n", flush=True)
    _print_trouble(comparison)


def _print_trouble(comparison: Comparison) -> None:
    if trouble := trouble_table(comparison):
        print(f"{trouble.markdown()}\n")


def _organised(row: ComparisonRow, contractors: int) -> list[str]:
    final = row.stages["final"]
    scores = [getattr(final, name, math.nan) for name in ("precision", "recall", "f1")]
    costs = [(row.recipients, 1), (row.messages, 0), (row.tokens, 0)]
    return [
        row.method.protocol,
        row.method.organisation,
        f"{contractors:,}",
        row.method.announcement,
        *("-" if cost is None else f"{cost:,.{digits}f}" for cost, digits in costs),
        *(f"{value:.3f}" for value in (_recall(row), *scores)),
    ]


def _both(comparison: Comparison, protocol: str) -> tuple[ComparisonRow, ComparisonRow]:
    rows = [comparison.row(protocol, announced) for announced in ("broadcast", "routed")]
    if rows[0] is None or rows[1] is None:
        raise InputError(f"{protocol} was not compared with both announcements")
    return rows[0], rows[1]


def _recall(row: ComparisonRow) -> float:
    bid = row.stages["bid"]
    return math.nan if bid is None else bid.recall


def _final_f1(row: ComparisonRow) -> float:
    final = row.stages["final"]
    return math.nan if final is None else final.f1


def _at_least(name: str, measured: float | None, least: float) -> Figure:
    value = math.nan if measured is None else measured
    return Figure(name, value, least, value >= least)


def _shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"


def _mark(figure: Figure) -> str:
    return "pass" if figure.passed else "FAIL"
