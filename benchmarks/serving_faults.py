"""What goes wrong at a gateway: a flood, a worker that is killed, a source that is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.child import in_child
from benchmarks.processes import descendants
from benchmarks.serving_clients import TOOLS, Load, load
from benchmarks.serving_load import LOG, accounted, fresh, tools_of
from benchmarks.serving_server import Connection, checked, served

__all__ = ["faults"]

_MOST = 8  # requests at once, of the flooded server
_FLOOD = 64
_CALLERS = 4


def faults(
    sources: Path, servers: dict[str, Any], model: Path, seconds: float, seed: int
) -> dict[str, Any]:
    """Return what came of each fault."""
    return {
        "a client floods": _flooded(sources, model, seconds, seed),
        "a worker is killed": _worker_killed(sources, model, seconds, seed),
        "a source is killed in a call": asyncio.run(_source_killed(sources, servers)),
    }


def _flooded(sources: Path, model: Path, seconds: float, seed: int) -> dict[str, Any]:
    """One client sends more than is taken, and never waits; others come again as they are told."""
    with fresh(model) as kept:
        options = ["--sources", str(sources), "--model", str(kept), "--allow-write"]
        with served(*options, "--max-concurrent", str(_MOST)) as server:
            tools = tools_of(sources)
            flood = Load(server.url, _FLOOD, seconds, seed=seed + 1, tools=tools, think=0.0)
            calm = Load(server.url, _CALLERS, seconds, seed=seed, tools=tools, patient=True)
            outcome: dict[str, Any] = {}
            thread = threading.Thread(target=lambda: outcome.update(in_child(load, flood)))
            thread.start()
            found = in_child(load, calm)
            thread.join()
        kept_of = accounted(kept, {**found, "done": found["done"] | outcome["done"]})
    return {
        "requests at once": f"{_FLOOD} of {_MOST},",
        "sent away": outcome["busy"],
        "answered": 2 * len(outcome["calls"]),
        "other errors": _others(outcome),
        "calls of the others": len(found["calls"]),
        "that failed": sum(found["errors"].values()),
        "sent away meanwhile": found["busy"],
        **_kept(kept_of),
    }


def _others(found: dict[str, Any]) -> int:
    return sum(times for said, times in found["errors"].items() if "(ask again)" not in said)


def _worker_killed(sources: Path, model: Path, seconds: float, seed: int) -> dict[str, Any]:
    """One of two workers is killed while clients ask."""
    clients = 20
    with fresh(model) as kept:
        options = ["--sources", str(sources), "--model", str(kept), "--allow-write"]
        with served(*options, "--workers", "2") as server:
            asked = Load(server.url, clients, seconds, seed=seed, tools=tools_of(sources))
            outcome: dict[str, Any] = {}
            thread = threading.Thread(target=lambda: outcome.update(in_child(load, asked)))
            thread.start()
            _wait_for_searches(kept, clients, thread)
            workers = [pid for pid, what in server.processes.items() if what == "worker"]
            os.kill(workers[-1], signal.SIGKILL)
            thread.join()
            again = in_child(load, Load(server.url, 4, 0.5, tools=asked.tools))
            alive = [pid for pid, what in server.processes.items() if what == "worker"]
        kept_of = accounted(kept, outcome)
    return {
        "clients": clients,
        "calls answered": len(outcome["calls"]),
        "errors": sum(outcome["errors"].values()),
        "errors afterwards": sum(again["errors"].values()),
        "workers afterwards": len(alive),
        **_kept(kept_of),
    }


def _wait_for_searches(model: Path, n: int, asking: threading.Thread) -> None:
    """Wait until so many searches were made; the clients take a while to begin."""
    while asking.is_alive():
        with closing(sqlite3.connect(model / LOG)) as connection:
            if connection.execute("SELECT count(*) FROM searches").fetchone()[0] >= n:
                return
        time.sleep(0.02)


def _kept(found: dict[str, Any]) -> dict[str, Any]:
    return {"answered and kept once": found["once"]} | {
        key: found[key] for key in ("twice", "missing", "unanswered")
    }


async def _source_killed(sources: Path, servers: dict[str, Any]) -> dict[str, Any]:
    """Kill the server of the tools while calls of it run; then call it again."""
    tool = tools_of(sources)[0]
    source = tool.partition("__")[0]
    entry = servers[source]
    mark = " ".join([Path(entry["command"]).name, *entry.get("args", ())])
    with served("--sources", str(sources), "--allow-write") as server:
        async with Connection(server.url) as connection:
            checked(*await connection.post("/v1/call", _call(tool, 0)))
        running = asyncio.gather(*(_one(server.url, _call(tool, n)) for n in range(1, 41)))
        await asyncio.sleep(0.02)
        killed = 0
        for pid, line in descendants(server.process.pid).items():
            if mark in line:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        statuses = await running
        began = time.perf_counter()
        async with Connection(server.url) as connection:
            answer = checked(*await connection.post("/v1/call", _call(tool, 99)))
        seconds = time.perf_counter() - began
        said = sorted({text for _, text in statuses if text})
    return {
        "processes killed": killed,
        "calls": len(statuses),
        "answered": sum(status == 200 for status, _ in statuses),
        "failed": sum(bool(text) for _, text in statuses),
        "said": json.dumps(said[:2]),
        "next call done": answer["result"]["done"],
        "after, s": round(seconds, 2),
    }


def _call(tool: str, n: int) -> dict[str, Any]:
    return {"name": tool, "inputs": TOOLS[tool][1](n)}


async def _one(url: str, document: dict[str, Any]) -> tuple[int, str]:
    async with Connection(url) as connection:
        status, answer = await connection.post("/v1/call", document)
    if status != 200:
        return status, str(answer)[:200]
    failure = answer["result"]["failure"]
    return status, "" if failure is None else f"{failure['kind']}: {failure['message']}"[:200]
