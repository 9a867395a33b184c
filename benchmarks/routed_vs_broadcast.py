"""Every protocol, routed and broadcast, with the offline model; and the figures it should reach."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks import data
from benchmarks.report import environment, heading, table
from cnp_router.agents import (
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    Organisation,
    SelectApis,
    ServeFunction,
    Task,
    offline_model,
)
from cnp_router.catalog import Api
from cnp_router.evaluation import Comparison, ComparisonRow, Table, compare, comparison_tables
from cnp_router.evaluation.report import (
    about,
    check_report,
    ratios,
    trouble_table,
    write_report,
)
from cnp_router.evaluation.table import count, share
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.llm.tokens import estimate_request_tokens, estimate_tokens
from cnp_router.protocols import PROTOCOLS, RoundSettings, Waves
from cnp_router.routing import Router
from cnp_router.training import fit_router, load_router

__all__ = [
    "WAVES",
    "Figure",
    "at_least",
    "figure_table",
    "figures",
    "fitted",
    "fixed_tokens",
    "held_out_of",
    "run",
    "run_organisations",
]

WAVES = "routed in waves"

# How many times as much a broadcast should cost at least.
_LEAST = {
    ("contractor-led", "routed"): 20,
    ("contractor-led", WAVES): 40,
    ("collaborative", "routed"): 45,
}
_GOAL = 60
_LARGEST = 20  # APIs of a contractor, organised by size
_SHARED: tuple[Organisation, ...] = ("api", "category", "community")


@dataclass(frozen=True)
class Figure:
    """A figure to reach; NaN where it could not be measured: that passes nothing."""

    name: str
    measured: float
    least: float
    passed: bool


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Compare all methods on a held-out split, and print tables and figures."""
    if options.report:
        check_report(options.report)
    splits = data.load(options.data, options.seed)
    name, held_out = held_out_of(splits, options.split)
    router = fitted(splits, options)
    facts = environment(options.seed)
    how = offline_model(router.catalog), held_out
    given = {"router": router, "limit": options.limit, "scheduler": options.scheduler}
    heading(f"Routed against broadcast on {splits.name}, {name}", facts)
    if options.organise:
        return run_organisations(router, held_out, options, facts)
    comparison = _with_waves(
        compare(router.catalog, *how, **given, resume=options.resume),
        compare(
            router.catalog,
            *how,
            **given,
            resume=options.resume and options.resume.with_suffix(".waves"),
            protocols=["manager-led", "contractor-led", "collaborative"],
            announcements=["routed"],
            settings=RoundSettings(waves=Waves()),
        ),
    )
    print("Tokens of a call that are the same each time (role, reasoning, format, schema):")
    print(f"{', '.join(f'{name} {tokens}' for name, tokens in fixed_tokens().items())}.\n")
    _print(comparison)
    found = figures(comparison)
    figure_table(found)
    goal = [r for r in found if r.name.endswith(("tokens", "messages")) and r.least >= 20]
    reached = ", ".join(f"{r.name} {r.measured:.1f}" for r in goal if r.measured >= _GOAL)
    print(f"The goal of {_GOAL} times is reached by: {reached or 'none'}.")
    if options.report:
        write_report(comparison, options.report)
    return {
        "environment": facts,
        "data": splits.name,
        "comparison": comparison.to_dict(),
        "figures": [asdict(figure) for figure in found],
    }


def fixed_tokens() -> dict[str, int]:
    """Return the tokens of each task's prompt, but for its information."""
    api = Api("a", "A")
    tasks: list[Task[Any]] = [
        Decompose("r"),
        MapCategories("r", ("f",), ("c",)),
        MatchFunction((api,), "f", "c"),
        InterpretRequest((api,), "r"),
        ServeFunction((api,), "f"),
        SelectApis("r", (), ()),
        ComposeAlone("r", (api,)),
    ]
    requests = {type(task).__name__: task.chat_request() for task in tasks}
    return {
        name: estimate_request_tokens(request) - estimate_tokens(request.messages[1].content)
        for name, request in requests.items()
    }


def figures(comparison: Comparison) -> list[Figure]:
    """Return the figures that a comparison should reach, with what it has reached."""
    found = []
    for (protocol, announcement), least in _LEAST.items():
        row = comparison.row(protocol, announcement)
        if row is None and announcement == WAVES:
            continue
        both = routed, broadcast = _both(comparison, protocol, announcement)
        ratio = ratios(broadcast, routed)
        name = protocol if announcement == "routed" else f"{protocol}, {announcement}"
        found += [
            at_least(f"{name}: broadcast / routed tokens", ratio["tokens"], least),
            at_least(f"{name}: broadcast / routed messages", ratio["messages"], least),
            at_least(f"{name}: routed final F1", *(r.score("final", "f1") for r in both)),
            at_least(f"{name}: bid recall kept", ratio["bid_recall"], 0.92),
        ]
    both = routed, broadcast = _both(comparison, "manager-led")
    ratio, (bid, at_broadcast) = (
        ratios(broadcast, routed),
        (_or_nan(r.score("bid", "recall")) for r in both),
    )
    learned = comparison.row("learned", "routed")
    calls = _or_nan(None if learned is None else learned.model_calls)
    return [
        *found,
        at_least("manager-led: broadcast / routed tokens", ratio["tokens"], 1),
        Figure("manager-led: routed bid recall (above)", bid, at_broadcast, bid > at_broadcast),
        Figure("learned: model calls (exactly)", calls, 0, calls == 0),
    ]


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
            scheduler=options.scheduler,
        )
        for organisations, size in plans
    ]
    print(f"{comparisons[0].requests} requests. {about(comparisons[0])[1]}")
    print(f"Organised by size, a contractor holds at most {_LARGEST} APIs.\n")
    rows = [
        (row, comparison.contractors[row.method.organisation])
        for comparison in comparisons
        for row in comparison.rows
    ]
    rows.sort(key=lambda each: protocols.index(each[0].method.protocol))
    print(f"{Table.of('', _ORGANISED, rows, labels=3).markdown()}\n")
    for comparison in comparisons:
        _print_trouble(comparison)
    return {"environment": facts, "comparisons": [c.to_dict() for c in comparisons]}


def held_out_of(splits: data.Splits, name: str | None) -> tuple[str, History]:
    """Return the named split; without a name ``dev``, or else the first."""
    name = name or ("dev" if "dev" in splits.held_out else next(iter(splits.held_out)))
    if name not in splits.held_out:
        raise InputError(f"there is no split {name!r} (there are: {', '.join(splits.held_out)})")
    return name, splits.held_out[name]


def fitted(splits: data.Splits, options: argparse.Namespace) -> Any:
    """Return the router that the options name, or one fitted on what there is to learn from."""
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


# Of a row, and how many contractors there are.
_ORGANISED: dict[str, Callable[[tuple[ComparisonRow, int]], str]] = {
    "protocol": lambda each: each[0].method.protocol,
    "organised by": lambda each: each[0].method.organisation,
    "announcement": lambda each: each[0].method.announcement,
    "contractors": lambda each: count(each[1]),
    "contractors asked": lambda each: count(each[0].recipients, 1),
    "messages": lambda each: count(each[0].messages),
    "tokens": lambda each: count(each[0].tokens),
    "recall after bidding": lambda each: share(each[0].score("bid", "recall")),
    "final precision": lambda each: share(each[0].score("final", "precision")),
    "final recall": lambda each: share(each[0].score("final", "recall")),
    "final F1": lambda each: share(each[0].score("final", "f1")),
}


def _with_waves(comparison: Comparison, in_waves: Comparison) -> Comparison:
    """Return a comparison with the rows of another one, in waves, below those of their protocol."""
    added = {
        row.method.protocol: replace(row, method=replace(row.method, announcement=WAVES))
        for row in in_waves.rows
    }
    rows: list[ComparisonRow] = []
    for row in comparison.rows:
        rows.append(row)
        if row.method.announcement == "routed" and row.method.protocol in added:
            rows.append(added[row.method.protocol])
    return replace(comparison, rows=tuple(rows))


def _both(
    comparison: Comparison, protocol: str, announcement: str = "routed"
) -> tuple[ComparisonRow, ComparisonRow]:
    routed, broadcast = (comparison.row(protocol, each) for each in (announcement, "broadcast"))
    if routed is None or broadcast is None:
        raise InputError(f"{protocol} was not compared with both announcements (compare all)")
    return routed, broadcast


def figure_table(found: Sequence[Figure]) -> None:
    """Print figures, and whether they pass."""
    rows = [
        [f.name, _shown(f.measured), _shown(f.least), "pass" if f.passed else "FAIL"] for f in found
    ]
    table([["figure", "measured", "at least", ""], *rows])


def at_least(name: str, measured: float | None, least: float | None) -> Figure:
    """Return a figure that passes from a least value on; None is as not measured."""
    value, bound = _or_nan(measured), _or_nan(least)
    return Figure(name, value, bound, value >= bound)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"
