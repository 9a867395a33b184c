"""What an execution costs beside its tools' own time: time a job, and memory over many."""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.child import in_child
from benchmarks.engine import resident_megabytes
from benchmarks.report import environment, heading, number, table
from cnp_router.catalog import Api, Effects
from cnp_router.execution import (
    Caller,
    ExecutionSettings,
    Job,
    JobEnd,
    Journal,
    Plan,
    allow_writes,
    run_jobs,
)
from cnp_router.sources import Call, CallResult

__all__ = ["measure_memory", "measure_time", "run"]

JOBS = 200
EXECUTIONS = 1_000
LEVELS = 5
TOOL_SECONDS = 0.05
CHAIN_SECONDS = 0.005
TARGET_MS = 2.0  # of the engine, a job
REPEATS = 5
_MEMORY_JOBS = 20

_REQUEST = "Warn me of rain wherever I go."


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print time and memory."""
    facts = environment(options.seed)
    heading(f"Executions of {options.jobs:,} jobs", facts)
    cases = in_child(measure_time, options.jobs)
    print(
        "A tool in the same process that answers after a fixed time. The engine's time is what is "
        "left of the whole; the tool alone is called by tasks of asyncio and nothing else.\n"
    )
    rows = []
    for title, case in cases.items():
        ms = case["engine_ms_a_job"]
        times = [case["tool_seconds"], case["alone_seconds"], case["seconds"]]
        share = number(100 * case["engine_share"], 1)
        verdict = "pass" if ms <= TARGET_MS else "FAIL"
        cells = [*(number(each) for each in times), number(ms), share, verdict]
        rows.append([title, str(case["jobs"]), *cells])
    head = ["jobs", "tool, s", "alone, s", "execution, median s", "engine, ms a job"]
    table([["", *head, "engine, %", f"at most {TARGET_MS:g} ms"], *rows])
    memory = in_child(measure_memory, options.executions)
    print(f"Memory over executions of {_MEMORY_JOBS} jobs each, one after another (MB):\n")
    rows = [
        [str(p["executions"]), number(p["rss"], 1), number(p["traced"], 2)] for p in memory["at"]
    ]
    rows.append(["last / first", number(memory["rss_ratio"]), number(memory["traced_ratio"])])
    table([["executions", "resident", "allocated by Python"], *rows])
    return {"environment": facts, "time": cases, "memory": memory}


class Waiting:
    """Tools that answer after a while, and cost nothing.

    Parameters
    ----------
    seconds : float
    effects : {"reads", "writes"}, default="reads"
    """

    def __init__(self, seconds: float, effects: Effects = "reads") -> None:
        self.seconds = seconds
        self._api = Api("weather__today", "today", "Forecasts rain.", effects=effects)

    async def api(self, api_id: str) -> Api:
        """Return the one API there is."""
        return self._api

    async def call(self, call: Call) -> CallResult:
        """Answer after a while."""
        await asyncio.sleep(self.seconds)
        return CallResult("sunny", {"sky": "sunny"}, seconds=self.seconds, n_bytes=5)


async def execute(plan: Plan, tools: Waiting, journal: Journal) -> None:
    """Do the jobs of a plan."""
    journal.begin(plan)
    settings = ExecutionSettings(max_concurrency=len(plan.jobs))
    caller = Caller(tools, settings, approve=allow_writes, journal=journal)

    async def do(job: Job) -> bool:
        api = await tools.api(str(job.api))
        performed = await caller.perform(job.id, api, job.inputs or {})
        is_done = performed.then == "done"
        journal.end_job(job.id, JobEnd("done" if is_done else "failed"))
        return is_done

    ends = await run_jobs(plan, do, max_concurrency=settings.max_concurrency)
    assert all(end.is_done for end in ends.values())


def parallel(jobs: int) -> Plan:
    """Return a plan of jobs that wait for nothing."""
    return _plan([[_job(n) for n in range(jobs)]])


def levels(jobs: int, n_levels: int) -> Plan:
    """Return a plan of levels, each of whose jobs waits for two of the level before."""
    above: list[str] = []
    found = []
    for level in range(n_levels):
        some = [
            _job(level * jobs + n, tuple(dict.fromkeys((above[n], above[n - 1]))) if above else ())
            for n in range(jobs)
        ]
        above = [job.id for job in some]
        found.append(some)
    return _plan(found)


def chain(jobs: int) -> Plan:
    """Return a plan of jobs each of which waits for the one before."""
    return levels(1, jobs)


def _job(number: int, after: tuple[str, ...] = ()) -> Job:
    inputs = {"city": "Kyoto", "number": number}
    return Job(f"job-{number}", "Forecast rain.", "weather__today", inputs, after)


def _plan(found: list[list[Job]]) -> Plan:
    return Plan(_REQUEST, tuple(itertools.chain.from_iterable(found)))


def measure_time(jobs: int) -> dict[str, Any]:
    """Time executions of several shapes. Runs in a process of its own."""
    wide, deep, steps = parallel(jobs), levels(jobs, LEVELS), chain(jobs)
    writing: Effects = "writes"
    cases: dict[str, tuple[Plan, float, Effects, bool]] = {
        "parallel": (wide, TOOL_SECONDS, "reads", False),
        "parallel, journal on disk": (wide, TOOL_SECONDS, "reads", True),
        "parallel writes, journal on disk": (wide, TOOL_SECONDS, writing, True),
        f"{LEVELS} levels": (deep, TOOL_SECONDS, "reads", False),
        f"{LEVELS} levels, journal on disk": (deep, TOOL_SECONDS, "reads", True),
        "chain": (steps, CHAIN_SECONDS, "reads", False),
        "chain, journal on disk": (steps, CHAIN_SECONDS, "reads", True),
        "chain of writes, journal on disk": (steps, CHAIN_SECONDS, writing, True),
    }
    return {title: _measured(*case) for title, case in cases.items()}


def _measured(plan: Plan, seconds: float, effects: Effects, on_disk: bool) -> dict[str, Any]:
    tools = Waiting(seconds, effects)
    ideal = seconds * len(plan.levels)
    alone = statistics.median(_repeated(lambda _: _alone(plan, tools)))
    times = list(_repeated(lambda file: _whole(plan, tools, file if on_disk else None)))
    wall = statistics.median(times)
    return {
        "jobs": len(plan.jobs),
        "tool_seconds": ideal,
        "alone_seconds": alone,
        "seconds": wall,
        "all_seconds": times,
        "engine_ms_a_job": 1e3 * (wall - ideal) / len(plan.jobs),
        "engine_share": (wall - ideal) / wall,
    }


def _repeated(once: Callable[[Path], float]) -> Iterator[float]:
    """Yield what several runs took, after one that warms up."""
    for turn in range(REPEATS + 1):
        with tempfile.TemporaryDirectory() as folder:
            seconds = once(Path(folder) / "journal")
        if turn:
            yield seconds


def _whole(plan: Plan, tools: Waiting, file: Path | None) -> float:
    async def main() -> float:
        begin = time.perf_counter()
        with Journal(file) as journal:
            await execute(plan, tools, journal)
        return time.perf_counter() - begin

    return asyncio.run(main())


def _alone(plan: Plan, tools: Waiting) -> float:
    """Call the tool level by level."""

    async def main() -> float:
        begin = time.perf_counter()
        for level in plan.levels:
            await asyncio.gather(*(tools.call(Call(api="weather__today")) for _ in level))
        return time.perf_counter() - begin

    return asyncio.run(main())


def measure_memory(executions: int) -> dict[str, Any]:
    """Note the memory after a tenth of the executions and after all. Runs in its own process."""
    plan, tools = levels(_MEMORY_JOBS // 2, 2), Waiting(0.0)
    first = max(executions // 10, 1)
    points: list[dict[str, Any]] = []

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for n in range(1, executions + 1):
                with Journal(Path(folder) / str(n)) as journal:
                    await execute(plan, tools, journal)
                (Path(folder) / str(n)).unlink()
                if n in (first, executions):
                    gc.collect()
                    traced = tracemalloc.get_traced_memory()[0] / 1e6
                    points.append({"executions": n, "rss": resident_megabytes(), "traced": traced})

    tracemalloc.start()
    asyncio.run(main())
    tracemalloc.stop()
    begin, end = points[0], points[-1]
    return {
        "jobs": _MEMORY_JOBS,
        "at": points,
        "rss_ratio": end["rss"] / begin["rss"] if begin["rss"] else None,
        "traced_ratio": end["traced"] / begin["traced"],
    }
