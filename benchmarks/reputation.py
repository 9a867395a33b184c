"""What reputation chooses by the mean and by draws, in a simulation; what a negotiation costs."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report import environment, heading, number, table
from cnp_router.agents import offline_model
from cnp_router.catalog import Api, Catalog
from cnp_router.coordination import Coordinated, Load, Negotiator
from cnp_router.exceptions import InputError
from cnp_router.execution.directed import Direct
from cnp_router.online import Reputation
from cnp_router.protocols import ContractNet
from cnp_router.sources import CallResult, Source, Sources
from cnp_router.training import fit_router

__all__ = ["CONTRACTORS", "METHODS", "RUNS", "WORLDS", "World", "run", "simulate"]

RUNS = 10
CONTRACTORS = [10, 100, 1_000]
_CATEGORIES = ("a", "b", "c")
_OTHERS = ("Sends a text message to a phone.", "Draws a map.", "Translates a text.", "Pays a bill.")
_REPEATS = 30


@dataclass(frozen=True)
class World:
    """Contractors that succeed at rates of their own.

    Parameters
    ----------
    match : {"the same", "varies"}
        How well contractors fit: all alike, or as the dice fall in each round.
    contractors, offered, rounds : int
        So many there are; so many of them, drawn anew, can do the job of a round.
    """

    match: str
    contractors: int
    offered: int
    rounds: int


WORLDS = (
    World("the same", 12, 12, 3_000),
    World("the same", 12, 5, 400),
    World("varies", 12, 12, 3_000),
    World("varies", 12, 5, 400),
)
METHODS: Mapping[str, dict[str, Any]] = {
    "random": {},
    "greedy": {"weights": (0, 0, 1), "threshold": 0.0},
    "Thompson": {"weights": (0, 0, 1), "threshold": 0.0, "sampling": True},
    "formula": {"threshold": 0.0},
    "formula, Thompson": {"threshold": 0.0, "sampling": True},
    "best possible": {},
}


async def simulate(world: World, method: str, seed: int) -> float:
    """Return the share of rounds in which the contractor that was chosen succeeded.

    Each contractor has a rate, and in each of three categories one that differs from it a little.
    How well it fits is calibrated: it succeeds with the product of both. Nobody is busy. All
    methods meet the same rounds.
    """
    rng = np.random.default_rng(seed)
    names = [f"c{n}__do" for n in range(world.contractors)]
    own = rng.beta(4, 2, size=world.contractors)
    rates = np.clip(own[:, None] + rng.normal(0, 0.1, (world.contractors, 3)), 0.02, 0.98)
    reputation = Reputation()
    idle = Load(patience=0.0)
    negotiator = Negotiator(reputation=reputation, load=idle, seed=seed, **METHODS[method])
    successes = 0
    for _ in range(world.rounds):
        offered = rng.choice(world.contractors, size=world.offered, replace=False)
        fit = rng.uniform(0.6, 1, world.contractors)
        if world.match == "the same":
            fit[:] = 0.8
        kind = int(rng.integers(3))
        fates = rng.random(world.contractors)  # the same whoever is chosen
        chances = fit * rates[:, kind]
        if method == "random":
            place = int(offered[0])
        elif method == "best possible":
            place = int(offered[np.argmax(chances[offered])])
        else:
            match = {names[i]: float(fit[i]) for i in offered}
            order = await negotiator.order("", list(match), match=match, category=_CATEGORIES[kind])
            place = names.index(order[0])
        success = bool(fates[place] < chances[place])
        reputation.count(names[place], success, _CATEGORIES[kind])
        successes += success
    return successes / world.rounds


class _Declaring(Source):
    """Says yes at once: what is measured is the asking."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def extensions(self) -> Mapping[str, Any]:
        """Declare negotiation."""
        return {"capability/negotiate": {}}

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float = 10.0
    ) -> dict[str, Any]:
        """Accept."""
        return {"status": "accepted"}

    async def apis(self) -> tuple[Api, ...]:
        """Return nothing: nobody asks."""
        return ()

    async def call(self, call: Any) -> CallResult:
        """Return nothing."""
        return CallResult()


async def _median(work: Any) -> float:
    """Return the median time in milliseconds."""
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return float(np.median(times[2:])) * 1e3


async def _overhead(n: int, seed: int) -> dict[str, float]:
    """Return milliseconds for one job that `n` contractors could do."""
    rng = np.random.default_rng(seed)
    tools = [
        Api(f"c{i}__forecast", "forecast", "The forecast of rain and wind for a city.")
        for i in range(n)
    ]
    names = [each.id for each in tools]
    # As many others, which cannot do it.
    tools += [
        Api(f"c{i}__{_OTHERS[i % len(_OTHERS)].split()[0].lower()}", "other", said)
        for i, said in zip(range(n), itertools.cycle(_OTHERS), strict=False)
    ]
    reputation = Reputation()
    for name in rng.choice(names, size=min(5 * n, 2_000)):
        reputation.count(str(name), bool(rng.random() < 0.8), "a")
    match = {name: float(p) for name, p in zip(names, rng.uniform(0.5, 1, n), strict=True)}
    found: dict[str, float] = {}
    for what, how in (
        ("negotiate", {}),
        ("negotiate, Thompson", {"sampling": True}),
        ("negotiate, servers asked", {"sources": Sources(_Declaring(f"c{i}") for i in range(n))}),
    ):
        negotiator = Negotiator(reputation=reputation, **how)

        async def job(by: Negotiator = negotiator) -> None:
            await by.order("Rain in Oslo?", names, match=match, category="a")

        found[what] = await _median(job)
    catalog = Catalog(tools)
    net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
    by = Negotiator(reputation=reputation)
    for what, protocol in (
        ("round without", Direct()),
        ("round with", Coordinated(by)),
        ("round with, API named", Coordinated(by, api=names[0], substitutes=False)),
    ):

        async def round_(protocol: Any = protocol) -> None:
            await net.run("The forecast of rain for Oslo", protocol=protocol)

        found[what] = await _median(round_)
    able = {len(each.offers) for each in by.held}
    if able != {n}:
        raise InputError(f"{n} contractors should take part in each negotiation, got {able}")
    return found


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Simulate and measure, print both tables, and return all figures."""
    rows: list[dict[str, Any]] = []
    for world in WORLDS:
        for method in METHODS:
            shares = [
                asyncio.run(simulate(world, method, options.seed * 1_000 + n))
                for n in range(options.runs)
            ]
            spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else 0.0
            rows.append(
                {
                    "match": world.match,
                    "offered": f"{world.offered} of {world.contractors}",
                    "rounds": world.rounds,
                    "method": method,
                    "success": round(float(np.mean(shares)), 4),
                    "standard_error": round(spread / len(shares) ** 0.5, 4),
                }
            )
    facts = environment(options.seed) | {"runs": options.runs}
    heading("Success of who was chosen, a simulation; milliseconds of a negotiation", facts)
    table(
        [
            ("match", "offered", "rounds", "chosen by", "success", "+-"),
            *(
                (
                    r["match"],
                    r["offered"],
                    f"{r['rounds']:,}",
                    r["method"],
                    number(r["success"]),
                    number(r["standard_error"]),
                )
                for r in rows
            ),
        ]
    )
    overhead = [
        {"contractors": n, "what": what, "milliseconds": round(ms, 3)}
        for n in options.contractors
        for what, ms in asyncio.run(_overhead(n, options.seed)).items()
    ]
    whats = list(dict.fromkeys(str(each["what"]) for each in overhead))
    by = {(each["what"], each["contractors"]): each["milliseconds"] for each in overhead}
    table(
        [
            (
                "milliseconds of one job (median), by how many could do it",
                *(f"{n:,}" for n in options.contractors),
            ),
            *((what, *(number(by[what, n], 2) for n in options.contractors)) for what in whats),
        ]
    )
    return {"environment": facts, "rows": rows, "overhead": overhead}
