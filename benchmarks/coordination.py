"""Many servers that can do the same: what shared context, negotiation and decomposition bring.

Ten real MCP servers, eight in this process and two over standard input, each with three of ten
abilities; three servers have each. A seed draws who has what, and, apart from that, who is quick
(20 to 500 ms a call), who fails (0 to 60 % of calls: half of those say so, half never answer), how
many calls a server takes at a time, which half says what its results look like, and which three
declare the methods of negotiation, to decline what they have no place for.

A task is a request in three to five steps (`office_tasks`). It is complete if every step's result
is what a server that works answers, every change was noted by a server with the right inputs, and
all of that within three seconds. Servers note their calls themselves; redundant ones are counted
from that.

*Nothing on* is a client that treats each server as an island: the steps one after another as they
are said, each by the router's first choice; what may pass is tried again, and results that the
request names are passed on. A client whose language model reads all earlier results in its prompt
has a kind of context already, and would do better than this.

What each part can do, by the way a needed value is said:

- A value that is *stated* or *named* needs no part. What is left is failing and slow servers:
  negotiation learns who they are; decomposition only saves time.
- An *implied* value is there, and nobody passes it on: context offers it, if the step speaks of the
  same things; decomposition infers who gives it.
- One that is told in *reversed* order is not there yet: only decomposition waits for it.
- One to be *recalled* is of an earlier task: only context has it.

So with nothing on, at most two fifths of the tasks can be complete; context can add two fifths at
most, decomposition too, and one of these is the same: that there is one task of each kind in a
session is a choice of this generator. That people, towns and orders come back
within a session, and with that how much is looked up twice, is one too. How much of the possible is
reached is not.

In most flows a value is called the same or nearly so on both sides (``lat`` for a latitude, an
address for ``to``); in one of eight, only past calls tell (a ``customer`` is a ``name``).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.coordination_tables import PAPER, mean_of, print_tables, row_of
from benchmarks.office_runs import (
    MODES,
    STRICTER,
    Coordinator,
    Mode,
    Servers,
    connected,
    count_redundant,
)
from benchmarks.office_servers import make_desks
from benchmarks.office_tasks import KINDS, Task, make_sessions
from benchmarks.report import environment, heading

__all__ = ["measure", "run"]

SESSIONS = 12
BEFORE = 6
SERVERS = 10
LIMIT = 3.0  # seconds that a task may take
SEEDS = (105, 106, 107, 108, 109)
"""What is reported; nothing was developed with them."""


async def once(
    servers: Servers,
    before: list[list[Task]],
    sessions: list[list[Task]],
    mode: Mode,
    limit: float,
) -> dict[str, Any]:
    """Run all sessions side by side with some parts on, and return the figures.

    Before them run others, which are not counted: what is on learns from them.
    """
    await servers.begin()
    coordinator = Coordinator(servers, mode, limit)
    await coordinator.sessions(before)
    since, n_asked, overhead = time.time(), coordinator.n_asked, coordinator.overhead
    done = await coordinator.sessions(sessions)
    await asyncio.sleep(0.05)  # until calls that were given up are noted
    calls = servers.calls(since)
    asked = coordinator.n_asked - n_asked
    needed = [each for task in done for each in task.resolved]
    times = [when for is_resolved, when in needed if is_resolved and when is not None]
    return {
        "mode": mode,
        "tasks": len(done),
        "completion": statistics.mean(task.is_complete for task in done),
        "redundant": count_redundant(calls) / max(len(calls), 1),
        "seconds": statistics.mean(task.seconds for task in done),
        "messages": (sum(task.messages for task in done) + asked) / len(done),
        "calls": len(calls),
        "resolved": statistics.mean(is_resolved for is_resolved, _ in needed),
        "resolved_seconds": statistics.mean(times) if times else None,
        "overhead": {
            name: (seconds - overhead[name]) / len(done)
            for name, seconds in coordinator.overhead.items()
        },
        "by_kind": {
            kind: statistics.mean(t.is_complete for t in done if t.task.kind == kind)
            for kind in KINDS
        },
        "done": done,
        "log": calls,
    }


async def measure(
    seed: int,
    *,
    n_servers: int = SERVERS,
    n_before: int = BEFORE,
    n_sessions: int = SESSIONS,
    modes: Iterable[Mode] = MODES,
    limit: float = LIMIT,
    processes: int = 2,
) -> list[dict[str, Any]]:
    """Return the figures of each mode, on the servers and the tasks of a seed."""
    sessions = make_sessions(seed, n_before + n_sessions)
    before, sessions = sessions[:n_before], sessions[n_before:]
    with tempfile.TemporaryDirectory() as folder:
        desks = make_desks(seed, n_servers, processes)
        async with connected(desks, Path(folder)) as servers:
            return [await once(servers, before, sessions, mode, limit) for mode in modes]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print each combination of the parts, and what each part brings."""
    # Who declines, and what is dropped, is in the figures.
    logging.getLogger("cnp_router").addHandler(logging.NullHandler())
    seeds = list(SEEDS) if options.seed is None else [options.seed]
    facts = environment(seeds[0]) | {"seeds": seeds, "mcp": metadata.version("mcp")}
    heading(f"Coordination of {options.servers} servers", facts)
    print(
        f"{options.sessions * len(KINDS)} tasks a seed, after {options.before * len(KINDS)} that "
        "are not counted. Scripted servers, the library's own router without a history, inputs by "
        "the offline stand-in: no language model was asked.\n"
    )
    modes = (*MODES, STRICTER)
    runs: dict[Mode, list[dict[str, Any]]] = {mode: [] for mode in modes}
    for seed in seeds:
        found = asyncio.run(
            measure(
                seed,
                n_servers=options.servers,
                n_before=options.before,
                n_sessions=options.sessions,
                modes=modes,
                limit=options.limit,
                processes=2 if options.servers <= SERVERS else 0,
            )
        )
        for figures in found:
            runs[figures["mode"]].append(figures)
        print(f"seed {seed} measured", file=sys.stderr, flush=True)
    means = {mode: mean_of(each) for mode, each in runs.items()}
    print_tables(means, runs)
    return {
        "environment": facts,
        "results": {
            "rows": [row_of(mode, means[mode]) for mode in MODES],
            "seeds": {
                seed: [row_of(mode, runs[mode][place]) for mode in MODES]
                for place, seed in enumerate(seeds)
            },
            "details": {mode.name: means[mode] for mode in modes},
            "paper": PAPER,
        },
    }
