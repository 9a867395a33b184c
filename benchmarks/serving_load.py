"""Many clients at once, and whether each of their calls is found once in what was kept."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.child import in_child
from benchmarks.serving_clients import TOOLS, Load, load
from benchmarks.serving_latency import quantiles
from benchmarks.serving_server import Server, served
from cnp_router.online import OnlineStore
from cnp_router.trajectories import Trajectory

__all__ = ["LOG", "Run", "accounted", "fresh", "tools_of", "under_load"]

LOG, _STORE = "searches.sqlite", "online.sqlite"


@dataclass(frozen=True)
class Run:
    """What many clients do.

    Parameters
    ----------
    workers : int
    seconds : float
    by_mcp : bool, default=False
        Over streamable HTTP, not by ``/v1``.
    think : float, seconds, default=2.0
        From one call to the next search, the mean; what a model takes at least. 0 shows how much
        the gateway can do.
    """

    workers: int
    seconds: float
    by_mcp: bool = False
    think: float = 2.0


def under_load(sources: Path, model: Path, run: Run, *, clients: int, seed: int) -> dict[str, Any]:
    """Have many clients search and call for some time; the memory is that of the gateway alone."""
    with fresh(model) as kept:
        options = ["--sources", str(sources), "--model", str(kept), "--allow-write"]
        with served(*options, "--workers", str(run.workers)) as server:
            asked = Load(
                server.url,
                clients,
                run.seconds,
                seed=seed,
                by_mcp=run.by_mcp,
                tools=tools_of(sources),
                think=run.think,
            )
            in_child(load, Load(server.url, 4, 0.5, tools=asked.tools))  # sources start
            before, used = server.megabytes(), _cpu(server)
            found = in_child(load, asked)
            used, after = _cpu(server) - used, server.megabytes()
            began = time.perf_counter()
        end = time.perf_counter() - began
        n_calls = len(found["calls"])
        return {
            "by": "MCP over HTTP" if run.by_mcp else "/v1",
            "workers": run.workers,
            "clients": clients,
            "think": asked.think,
            "seconds": found["seconds"],
            "requests": 2 * n_calls,
            "rate": 2 * n_calls / found["seconds"],
            "errors": found["errors"],
            "search": quantiles(found["searches"]),
            "call": quantiles(found["calls"]),
            "cpu": used / max(n_calls, 1),
            "before": before,
            "after": after,
            "end": end,
            "found": accounted(kept, found),
        }


@contextmanager
def fresh(model: Path) -> Iterator[Path]:
    """Yield a copy of a model, which nothing was observed for."""
    kept = model.with_name("kept")
    shutil.copytree(model, kept)
    try:
        yield kept
    finally:
        shutil.rmtree(kept, ignore_errors=True)


def tools_of(sources: Path) -> tuple[str, ...]:
    """Return those tools that clients call of which the source is there."""
    there = json.loads(sources.read_text())["mcpServers"]
    return tuple(name for name in TOOLS if name.partition("__")[0] in there)


def accounted(model: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Return how often the calls that were answered are found, in the log or in the store.

    What is in the store was taught, and its calls are gone from the log then. A call that is in
    both, or twice in one of them, counts as found twice. `unanswered` are calls that are found
    although their clients have had no answer.
    """
    times: Counter[str] = Counter()
    file = model / _STORE
    records = OnlineStore.records_after(file, 0)[1] if file.exists() else []
    for record in records:
        if isinstance(record, Trajectory):
            # search-ID, or search-ID-2 for what was called after a part was taught.
            times[record.id.split("-")[1]] += len(record.steps)
    with closing(sqlite3.connect(model / LOG)) as connection:
        for search, n in connection.execute("SELECT search, count(*) FROM calls GROUP BY search"):
            times[search] += n
    done = found["done"]
    return {
        "once": sum(times[name] == 1 for name in done),
        "twice": sum(times[name] > 1 for name in done),
        "missing": sum(times[name] == 0 for name in done),
        "unanswered": sum(times[name] for name in set(found["begun"]) - set(done)),
        "in the store": sum(isinstance(record, Trajectory) for record in records),
    }


def _cpu(server: Server) -> float:
    """Return the seconds of processor time that the gateway has used (Linux)."""
    ticks = 0
    for pid in server.processes:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
