"""The gateway: what a client is shown, what a call costs more, many clients at once, and faults.

Everything runs on this machine, on 127.0.0.1: the gateway as `cnp-router serve` starts it, the
official servers of MCP behind it, and clients in processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.report import environment, heading, number, table
from benchmarks.serving_faults import faults
from benchmarks.serving_latency import SIZES, latency, search_latency
from benchmarks.serving_load import Run, under_load
from benchmarks.serving_server import entries, make_model
from benchmarks.serving_shown import shown
from benchmarks.tool_servers import NODE_SERVERS

__all__ = ["QUICK", "Scale", "measure", "run"]

PARTS = ("shown", "latency", "search", "load", "faults")


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Parameters
    ----------
    calls, searches : int
        Of one client.
    sizes : tuple of int
        Tools of made-up catalogs.
    clients : int
    loads : tuple of Run
        What they do, one after another.
    of_faults : float, seconds
        Of each fault.
    only : tuple of str, default=()
        Of the official servers; all that are there by default.
    """

    calls: int = 200
    searches: int = 200
    sizes: tuple[int, ...] = SIZES
    clients: int = 200
    loads: tuple[Run, ...] = (
        Run(1, 60.0),
        Run(2, 60.0),
        Run(1, 10.0, by_mcp=True),
        Run(2, 10.0, by_mcp=True),
        Run(1, 10.0, think=0.0),
    )
    of_faults: float = 6.0
    only: tuple[str, ...] = ()


QUICK = Scale(10, 10, (100,), 8, (Run(2, 1.0, think=0.1),), 2.0, ("time",))
"""A little of everything, which shows that it works and no more."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print."""
    facts = environment(options.seed) | {"mcp": metadata.version("mcp")}
    heading("Serving", facts)
    node = options.node or os.environ.get(NODE_SERVERS) or Path(sys.prefix, "node", "node_modules")
    results = measure(
        Path(node), QUICK if options.quick else Scale(), options.seed, tuple(options.parts)
    )
    return {"environment": facts, **results}


def measure(node: Path, scale: Scale, seed: int, parts: tuple[str, ...] = PARTS) -> dict[str, Any]:
    """Measure some parts one after another, and print each as soon as it is there."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="cnp-router-benchmark-") as name:
        folder = Path(name)
        (folder / "files").mkdir()
        servers = entries(folder / "files", node)
        servers = {name: servers[name] for name in scale.only or servers}
        sources = folder / "mcp.json"
        sources.write_text(json.dumps({"mcpServers": servers}))
        if "shown" in parts:
            results["shown"] = asyncio.run(shown(servers, sources))
            _print_shown(results["shown"])
        if "latency" in parts:
            results["latency"] = asyncio.run(latency(servers, sources, scale.calls))
            _print_latency(results["latency"])
        if "search" in parts:
            results["search"] = search_latency(sources, folder, scale.sizes, scale.searches, seed)
            _print_search(results["search"])
        model = folder / "model"
        if {"load", "faults"} & set(parts):
            make_model(sources, model)
        if "load" in parts:
            results["load"] = []
            for each in scale.loads:
                found = under_load(sources, model, each, clients=scale.clients, seed=seed)
                results["load"].append(found)
            _print_load(results["load"])
        if "faults" in parts:
            results["faults"] = faults(sources, servers, model, scale.of_faults, seed)
            _print_faults(results["faults"])
    return results


def _print_shown(found: dict[str, Any]) -> None:
    print(f"What a client is shown, of {found['tools']} tools of {found['servers']} servers:\n")
    rows = [["", "characters", "tokens (estimated)"]]
    for name, each in found["rows"].items():
        rows.append([name, f"{each['characters']:,.0f}", f"{each['tokens']:,.0f}"])
    table(rows)
    times = [f"{name[7:]}: {each:.0f}" for name, each in found.items() if name.startswith("times")]
    print(f"How many times more all tools are than the gateway: {', '.join(times)}.\n")


def _print_latency(found: list[dict[str, Any]]) -> None:
    print("A call straight to its source, and through the gateway, in turn (ms, one client):\n")
    rows = [["tool", "by", "straight p50", "p99", "gateway p50", "p99", "added p50", "p99", "p5"]]
    for each in found:
        ms = [number(1000 * each[key][p], 1) for key in _LATENCIES for p in ("p50", "p99")]
        rows.append([each["tool"], each["by"], *ms, number(1000 * each["undisturbed"], 1)])
    table(rows)


_LATENCIES = ("straight", "gateway", "added")


def _print_search(found: list[dict[str, Any]]) -> None:
    print("A search by /v1/search (one client):\n")
    rows = [["catalog", "start, s", "p50, ms", "p99, ms", "memory, MB"]]
    for each in found:
        ms = [number(1000 * each[p], 1) for p in ("p50", "p99")]
        start, memory = number(each["start"], 1), number(each["megabytes"], 0)
        rows.append([each["catalog"], start, *ms, memory])
    table(rows)


def _print_load(found: list[dict[str, Any]]) -> None:
    first = found[0]
    print(f"{first['clients']} clients at once, each: search, call, think:\n")
    head = ["by", "workers", "think, s", "seconds", "requests", "a second", "errors"]
    head += ["search p50, ms", "p99", "call p50, ms", "p99", "CPU of a pair, ms"]
    head += ["memory before, MB", "after", "end, s", "found once", "twice", "missing"]
    rows = [head]
    for each in found:
        row = [
            each["by"],
            str(each["workers"]),
            number(each["think"], 1),
            number(each["seconds"], 0),
        ]
        row += [f"{each['requests']:,}", number(each["rate"], 0), str(sum(each["errors"].values()))]
        row += [number(1000 * each[k][p], 0) for k in ("search", "call") for p in ("p50", "p99")]
        row += [number(1000 * each["cpu"], 1), *(number(each[k], 0) for k in ("before", "after"))]
        row += [number(each["end"], 1), *(f"{each['found'][k]:,}" for k in _FOUND)]
        rows.append(row)
    table(rows)
    for each in found:
        for said, times in each["errors"].items():
            print(f"{times} x {said}\n")


_FOUND = ("once", "twice", "missing")


def _print_faults(found: dict[str, Any]) -> None:
    print("Faults:\n")
    rows = [["what", "came of it"]]
    for name, facts in found.items():
        rows.append([name, ", ".join(f"{key} {value}" for key, value in facts.items())])
    table(rows)
