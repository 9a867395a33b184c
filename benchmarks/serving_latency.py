"""What a call costs more through the gateway, and how long a search takes."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving_clients import TOOLS
from benchmarks.serving_server import Connection, checked, official, served
from benchmarks.serving_shown import REQUESTS

__all__ = ["SIZES", "latency", "quantiles", "search_latency"]

SIZES = (1_000, 10_000)
_WARM = 5

Call = Callable[[str, dict[str, Any]], Awaitable[None]]


async def latency(servers: dict[str, Any], sources: Path, calls: int) -> list[dict[str, Any]]:
    """Measure calls of one client straight to their source and through the gateway, in turn.

    Each call has other inputs, so that none is answered from what is known. Added are the
    differences of calls that were made one after the other; undisturbed is the difference of the
    5th percentiles, which other work on the machine changes least.
    """
    results = []
    options = ["--sources", str(sources), "--allow-write"]
    async with AsyncExitStack() as stack:
        server = stack.enter_context(served(*options))
        command = {"command": sys.executable, "args": ["-m", "cnp_router", "serve", *options]}
        by_stdio = await stack.enter_async_context(official(command))
        by_http = await stack.enter_async_context(official(f"{server.url}/mcp"))
        plain = await stack.enter_async_context(Connection(server.url))
        doors: dict[str, Call] = {
            "MCP over stdio": _through(by_stdio),
            "MCP over HTTP": _through(by_http),
            "/v1/call": _posted(plain),
        }
        for tool in TOOLS:
            source, _, own = tool.partition("__")
            if source not in servers:
                continue
            straight = await stack.enter_async_context(official(servers[source]))
            for by, through in doors.items():
                pairs = await _pairs(tool, _straight(straight, own), through, calls)
                results.append({"tool": tool, "by": by, **pairs})
    return results


async def _pairs(tool: str, straight: Call, through: Call, calls: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"straight": [], "gateway": []}
    inputs = TOOLS[tool][1]
    for n in range(-_WARM, calls):
        pair = [("straight", straight), ("gateway", through)]
        for name, call in pair if n % 2 else reversed(pair):
            began = time.perf_counter()
            await call(tool, inputs(n + _WARM))
            if n >= 0:
                seconds[name].append(time.perf_counter() - began)
    added = np.subtract(seconds["gateway"], seconds["straight"])
    found = {name: quantiles(each) for name, each in seconds.items()}
    undisturbed = found["gateway"]["p5"] - found["straight"]["p5"]
    return {**found, "added": quantiles(added), "undisturbed": undisturbed}


def _straight(client: Any, own: str) -> Call:
    async def call(_: str, inputs: dict[str, Any]) -> None:
        answer = await client.call_tool(own, inputs)
        assert not answer.is_error, answer

    return call


def _through(client: Any) -> Call:
    async def call(tool: str, inputs: dict[str, Any]) -> None:
        answer = await client.call_tool("call_tool", {"name": tool, "inputs": inputs})
        assert not answer.is_error, answer

    return call


def _posted(connection: Connection) -> Call:
    async def call(tool: str, inputs: dict[str, Any]) -> None:
        document = {"name": tool, "inputs": inputs}
        answer = checked(*await connection.post("/v1/call", document))
        assert answer["result"]["done"], answer

    return call


def search_latency(
    sources: Path, folder: Path, sizes: Sequence[int], searches: int, seed: int
) -> list[dict[str, Any]]:
    """Measure searches of one client over the tools of the sources, and over made-up catalogs."""
    cases: list[tuple[str, list[str]]] = [("official servers", ["--sources", str(sources)])]
    for size in sizes:
        file = folder / f"catalog-{size}.jsonl"
        file.write_text("".join(_made_up(size, seed)))
        cases.append((f"made up, {size:,} tools", ["--catalog", str(file)]))
    results = []
    for name, options in cases:
        began = time.perf_counter()
        with served(*options) as server:
            start = time.perf_counter() - began
            found = asyncio.run(_searches(server.url, searches))
            results.append(
                {"catalog": name, "start": start, "megabytes": server.megabytes(), **found}
            )
    return results


async def _searches(url: str, searches: int) -> dict[str, Any]:
    seconds = []
    async with Connection(url) as connection:
        for n in range(-_WARM, searches):
            query = f"{REQUESTS[n % len(REQUESTS)]} ({n})"
            began = time.perf_counter()
            answer = await connection.post("/v1/search", {"query": query})
            if n >= 0:
                seconds.append(time.perf_counter() - began)
            checked(*answer)
    return quantiles(seconds)


_VERBS = ("read", "write", "find", "list", "make", "send", "delete", "move", "copy", "count")
_THINGS = (
    *("file", "page", "note", "invoice", "branch", "commit", "person", "place", "photo", "song"),
    *("order", "ticket", "meeting", "message", "report", "price", "train", "hotel", "recipe"),
)
_OF = (
    *("a customer", "a project", "a repository", "a library", "a school", "a shop", "a garden"),
    *("a ship", "a museum", "a city", "a hospital", "a farm", "a team", "a phone"),
)


def _made_up(size: int, seed: int) -> list[str]:
    """Return the lines of a catalog of made-up tools."""
    chance = random.Random(seed)
    lines = []
    for n in range(size):
        verb, thing, of = chance.choice(_VERBS), chance.choice(_THINGS), chance.choice(_OF)
        other = chance.choice(_THINGS)
        about = f"{verb.capitalize()} the {thing} of {of} by its {other}, number {n}."
        line = {"id": f"{verb}_{thing}_{n}", "name": f"{verb} {thing} {n}", "description": about}
        lines.append(json.dumps(line) + "\n")
    return lines


def quantiles(seconds: Any) -> dict[str, float]:
    """Return the 5th percentile, the median and the 99th percentile; NaN of nothing."""
    found = np.percentile(seconds, [5, 50, 99]) if len(seconds) else [float("nan")] * 3
    return dict(zip(("p5", "p50", "p99"), map(float, found), strict=True))
