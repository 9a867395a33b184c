"""Which shared context is offered: precision and recall of thresholds, fixed and adaptive.

Tasks are generated. Each entry says what one call found out about one thing; a task needs one thing
found out, in other words, so what it should be offered is known: the entries about that need and
that thing. Others are about another thing, or something else about the same one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Api
from cnp_router.context import (
    AdaptiveThreshold,
    ContextEntry,
    ContextStore,
    FixedThreshold,
    MemoryContextStore,
    QuantileThreshold,
    RedisContextStore,
    SharedContext,
    SqliteContextStore,
    Threshold,
)
from cnp_router.sources import CallResult

__all__ = ["LOADS", "measure", "run"]

LOADS = (12, 48, 192, 768)
TASKS = 64
SEEDS = 5

CITIES = (
    "Kyoto Nara Oslo Bergen Lagos Accra Quito Lima Hanoi Hue Turin Bari Graz Linz Gdansk Lodz "
    "Porto Braga Cork Galway Izmir Bursa Surat Indore Recife Natal Perth Hobart Tampa Reno"
)
PEOPLE = (
    "Aiko Ben Chidi Dana Emre Fatou Goran Hana Ines Jonas Kemal Lena Marco Nadia Omar Pia Quinn "
    "Rosa Sami Tove Uma Viktor Wanda Xenia Yusuf Zoe Arne Bela Cora Dario"
)
ITEMS = (
    "lamp kettle saddle printer tent drill monitor blender camera piano helmet radio mattress "
    "scanner toaster bicycle sofa freezer keyboard telescope ladder easel violin router crib desk "
    "guitar stove carpet mirror"
)


@dataclass(frozen=True)
class Need:
    """Something to find out about things of a kind: by which tool, and how people ask for it."""

    tool: str
    category: str
    said: str
    asked: str
    wanted: tuple[str, ...]
    things: tuple[str, ...]


def _need(
    tool: str, category: str, said: str, asked: str, wanted: tuple[str, ...], things: str
) -> Need:
    return Need(tool, category, said, asked, wanted, tuple(things.split()))


NEEDS = (
    _need(
        "sky__forecast",
        "Weather",
        "Forecasts rain, wind and sun for a city.",
        "What is the weather in {} tomorrow?",
        ("Warn everyone if it will rain in {}.", "Do I need an umbrella in {}?"),
        CITIES,
    ),
    _need(
        "air__quality",
        "Weather",
        "Measures air quality and pollution in a city.",
        "How clean is the air in {}?",
        ("Is the pollution in {} too bad for a run?", "Say whether {} has clean air."),
        CITIES,
    ),
    _need(
        "rail__times",
        "Travel",
        "Lists trains and departure times of a city's station.",
        "When do trains leave from {}?",
        ("Book the next train from {}.", "Write down the departures of {} for my trip."),
        CITIES,
    ),
    _need(
        "stay__hotels",
        "Travel",
        "Finds hotels with free rooms in a city, with prices.",
        "Find a hotel in {}.",
        ("Reserve the cheapest room in {}.", "Compare prices of hotels in {} in a table."),
        CITIES,
    ),
    _need(
        "map__place",
        "Maps",
        "Gives the coordinates of a city or an address.",
        "Where is {} on the map?",
        ("Draw {} on a map.", "How far is it to {}?"),
        CITIES,
    ),
    _need(
        "city__people",
        "Statistics",
        "Says how many people live in a city, by age.",
        "What is the population of {}?",
        ("Chart how many inhabitants {} has.", "Is {} larger than a million people?"),
        CITIES,
    ),
    _need(
        "book__person",
        "People",
        "Looks up e-mail address, phone and office of a person.",
        "What is the e-mail address of {}?",
        ("Send the minutes to {} by e-mail.", "Call {} at the office phone."),
        PEOPLE,
    ),
    _need(
        "day__free",
        "Calendars",
        "Shows when a person is free or has meetings.",
        "When is {} free this week?",
        ("Plan a meeting with {}.", "Find an hour in the calendar of {} for a call."),
        PEOPLE,
    ),
    _need(
        "hr__leave",
        "People",
        "Says how many days of holiday a person has left.",
        "How many days of holiday does {} have?",
        ("Approve the holiday of {} if days are left.", "Tell {} the holiday that remains."),
        PEOPLE,
    ),
    _need(
        "team__tasks",
        "Projects",
        "Lists the open tasks of a person with their deadlines.",
        "What tasks does {} have to do?",
        ("Remind {} of deadlines.", "Give one of the open tasks of {} to somebody else."),
        PEOPLE,
    ),
    _need(
        "shop__price",
        "Shopping",
        "Gives the price of a product and its discounts.",
        "What does the {} cost?",
        ("Buy the {} if the price is below 100.", "Announce the discount on the {}."),
        ITEMS,
    ),
    _need(
        "store__stock",
        "Shopping",
        "Says how many of a product are in stock, by warehouse.",
        "How many of the {} are in stock?",
        ("Order more of the {} if the warehouse is empty.", "Is the {} still in stock?"),
        ITEMS,
    ),
    _need(
        "post__parcel",
        "Logistics",
        "Tracks the parcel of an order and its delivery day.",
        "Where is the parcel with the {}?",
        ("Let me know when the {} is delivered.", "Who is at home for the parcel with the {}?"),
        ITEMS,
    ),
    _need(
        "view__reviews",
        "Shopping",
        "Collects reviews and ratings of a product.",
        "What do reviews say of the {}?",
        ("Sum up the ratings of the {}.", "Write a post on what people think of the {}."),
        ITEMS,
    ),
)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print which thresholds offer what should be."""
    facts = environment(options.seed)
    heading("Which shared context is offered", facts)
    print(
        f"Generated tasks, {TASKS} a load, over {len(NEEDS)} tools; mean of {SEEDS} seeds from "
        f"{options.seed} on. Sparse vectors (TF-IDF): no encoder was asked. Load: live entries.\n"
    )
    rows = [row for load in LOADS for row in _rows(load, options.seed)]
    for load in LOADS:
        shown = [row for row in rows if row["load"] == load]
        names = ("precision", "recall", "f1", "offered", "threshold_mean")
        lines = [[r["threshold"], *(number(r[name]) for name in names)] for r in shown]
        print(f"{load} live entries:\n")
        table([["threshold", "precision", "recall", "F1", "offered", "mean threshold"], *lines])
    means = _overall(rows)
    print("All loads:\n")
    table([["threshold", "mean F1", "worst F1"], *([n, number(a), number(b)] for n, a, b in means)])
    costs = _costs(options.redis)
    print(f"What {_ENTRIES} entries in a store cost, in ms an operation:\n")
    does = ("put", "get", "live")
    table([["store", *does], *([n, *(number(c[x]) for x in does)] for n, c in costs.items())])
    return {"environment": facts, "rows": rows, "stores": costs}


_ENTRIES = 500


def _costs(redis: str | None) -> dict[str, dict[str, float]]:
    """Return what each store takes for an operation."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, Callable[[], ContextStore]] = {
            "memory": MemoryContextStore,
            "SQLite": lambda: SqliteContextStore(Path(folder) / "context.db"),
        }
        if redis is not None:
            stores["Redis"] = lambda: RedisContextStore(redis, namespace="cnp-router-benchmark")
        for name, store in stores.items():
            found[name] = asyncio.run(_cost(store()))
    return found


async def _cost(store: ContextStore) -> dict[str, float]:
    vector = {f"word{n}": 0.1 for n in range(30)}
    entries = [
        ContextEntry(id=f"ctx_{n}", source="a__b", data="x" * 500, vector=vector, time=time.time())
        for n in range(_ENTRIES)
    ]
    async with store:
        began = time.perf_counter()
        for entry in entries:
            await store.put(entry)
        put = time.perf_counter()
        for entry in entries:
            await store.get(entry.id)
        got = time.perf_counter()
        for _ in range(5):
            await store.live()
        ended = time.perf_counter()
        await store.delete(*(entry.id for entry in entries))
    ms = {"put": (put - began) / _ENTRIES, "get": (got - put) / _ENTRIES, "live": (ended - got) / 5}
    return {name: 1000 * seconds for name, seconds in ms.items()}


def thresholds() -> dict[str, Threshold]:
    """Return what is compared, each new."""
    return {
        **{f"fixed {value}": FixedThreshold(value) for value in (0.7, 0.3, 0.2, 0.1)},
        **{f"quantile {q}": QuantileThreshold(q) for q in (0.9, 0.95, 0.99, 0.999)},
        **{f"adaptive, {most:g} by chance": AdaptiveThreshold(most=most) for most in (0.5, 1, 3)},
        "by load alone": AdaptiveThreshold(weight=1e9),
    }


def measure(load: int, seed: int, threshold: Threshold) -> dict[str, float]:
    """Return precision, recall and more of what is offered at a load."""
    return asyncio.run(_measure(load, seed, threshold))


async def _measure(load: int, seed: int, threshold: Threshold) -> dict[str, float]:
    chance = random.Random(seed * 1000 + load)
    context = SharedContext(
        classes=lambda _: "public", threshold=threshold, most_offered=load, clock=lambda: 1e9
    )
    apis = {need.tool: _api(need) for need in NEEDS}
    consumer = {c: Api(f"do__{c.lower()}", "do", "Does it.", (c,)) for c in _categories()}
    context.know([*apis.values(), *consumer.values()])
    every = [(need, thing) for need in NEEDS for thing in need.things]
    known = [every[i % len(every)] for i in chance.sample(range(max(load, len(every))), load)]
    about: dict[str, tuple[str, str]] = {}
    for number_, (need, thing) in enumerate(known):
        inputs = {"what": thing, **({"page": number_} if load > len(every) else {})}
        name = await context.keep(
            apis[need.tool], inputs, CallResult("found"), text=need.asked.format(thing)
        )
        about[name] = need.tool, thing
    hits = n_offered = n_right = 0
    values, seconds = [], 0.0
    for need, thing in _tasks(known, chance):
        text = chance.choice(need.wanted).format(thing)
        api = consumer[need.category]
        values.append(threshold.value(category=need.category, load=load))
        began = time.perf_counter()
        found = await context.offer(text, api)
        seconds += time.perf_counter() - began
        right = {name for name, what in about.items() if what == (need.tool, thing)}
        hits += len(right & set(found))
        n_offered += len(found)
        n_right += len(right)
    precision = hits / n_offered if n_offered else 0.0
    recall = hits / n_right
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if hits else 0.0,
        "offered": n_offered / TASKS,
        "threshold_mean": statistics.fmean(values),
        "seconds": seconds / TASKS,
    }


def _tasks(known: list[tuple[Need, str]], chance: random.Random) -> Iterator[tuple[Need, str]]:
    """Yield needs that something known fulfils."""
    return itertools.islice(itertools.cycle(chance.sample(known, len(known))), TASKS)


def _api(need: Need) -> Api:
    takes = {"type": "object", "properties": {"what": {"type": "string"}}}
    return Api(need.tool, need.tool.split("__")[1], need.said, (need.category,), takes, "reads")


def _categories() -> list[str]:
    return sorted({need.category for need in NEEDS})


def _rows(load: int, seed: int) -> Iterator[dict[str, Any]]:
    for name in thresholds():
        seeds = range(seed, seed + SEEDS)
        each = [measure(load, one, thresholds()[name]) for one in seeds]
        figures = {key: statistics.fmean(one[key] for one in each) for key in each[0]}
        spread = statistics.stdev(one["f1"] for one in each)
        yield {"threshold": name, "vectors": "sparse", "load": load, **figures, "f1_sd": spread}


def _overall(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    by_name: dict[str, list[float]] = {}
    for row in rows:
        by_name.setdefault(row["threshold"], []).append(row["f1"])
    return [(name, statistics.fmean(each), min(each)) for name, each in by_name.items()]
