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
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.child import in_child
from benchmarks.engine import resident_megabytes
from benchmarks.report import environment, heading, number, table
from cnp_router.agents import offline_model
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
from cnp_router.execution.execute import Executor
from cnp_router.protocols import ContractNet
from cnp_router.sources import Call, CallResult, Source, Sources

__all__ = ["measure_memory", "measure_time", "run"]

JOBS = 200
EXECUTIONS = 1_000
LEVELS = 5
TOOL_SECONDS = 0.05
CHAIN_SECONDS = 0.005
TARGET_MS = 2.0  # of the engine, a job
REPEATS = 5
_MEMORY_JOBS = 20
_TOOL = "weather__today"

_REQUEST = "Warn me of rain wherever I go."


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print time and memory."""
    facts = environment(options.seed)
    heading(f"Executions of {options.jobs:,} jobs", facts)
    cases = in_child(measure_time, options.jobs)
    print(
        "A tool in the same process that answers after a fixed time. What is left of the whole is "
        f"the engine's, in ms a job (target: at most {TARGET_MS:g}). Loop: tasks of asyncio "
        "that call the tool and nothing else. Calls: task graph, approval, journal, calls. "
        "Execution: the whole, with a round a job and checks of inputs and transcript.\n"
    )
    rows = []
    for title, case in cases.items():
        ms = [case[name]["engine_ms_a_job"] for name in _STAGES]
        seconds, share = case["execution"]["seconds"], 100 * case["execution"]["engine_share"]
        verdict = "pass" if ms[-1] <= TARGET_MS else "FAIL"
        cpu = case["execution"]["cpu_ms_a_job"]
        times = [number(case["tool_seconds"]), number(seconds), *map(number, [*ms, cpu])]
        times.append(number(share, 1))
        rows.append([title, str(case["jobs"]), *times, verdict])
    head = ["jobs", "tool, s", "execution, median s", *_STAGES, "of it CPU", "engine, %"]
    table([["", *head, "target"], *rows])
    memory = {
        title: in_child(measure_memory, options.executions, is_traced)
        for title, is_traced in (("resident", False), ("allocated by Python", True))
    }
    print(f"Memory over executions of {_MEMORY_JOBS} jobs each, one after another (MB):\n")
    rows = [
        [
            title,
            *(number(mb, 2) for mb in case["megabytes"].values()),
            number(case["last_to_first"]),
        ]
        for title, case in memory.items()
    ]
    after = [f"after {n:,}" for n in memory["resident"]["megabytes"]]
    table([["", *after, "last / first"], *rows])
    return {"environment": facts, "time": cases, "memory": memory}


class Waiting(Source):
    """A source with one tool that answers after a while, and costs nothing.

    Parameters
    ----------
    seconds : float
    effects : {"reads", "writes"}, default="reads"
    """

    name = "weather"
    max_concurrency = 10**6

    def __init__(self, seconds: float, effects: Effects = "reads") -> None:
        self.seconds = seconds
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        self._api = Api(_TOOL, "today", "Forecasts rain.", (), schema, effects)

    async def apis(self) -> tuple[Api, ...]:
        """Return the one API there is."""
        return (self._api,)

    async def api(self, api_id: str) -> Api:
        """Return the one API there is."""
        return self._api

    async def call(self, call: Call) -> CallResult:
        """Answer after a while."""
        await asyncio.sleep(self.seconds)
        return CallResult("sunny", {"sky": "sunny"}, seconds=self.seconds, n_bytes=5)


async def calls(plan: Plan, source: Waiting, file: Path | None) -> None:
    """Do the jobs of a plan without rounds: task graph, approval, journal, call."""
    settings = ExecutionSettings(max_concurrency=len(plan.jobs))
    with Journal(file) as journal:
        journal.begin(plan)
        caller = Caller(source, settings, approve=allow_writes, journal=journal)

        async def do(job: Job) -> bool:
            api = await source.api(str(job.api))
            performed = await caller.perform(job.id, api, job.inputs or {})
            is_done = performed.then == "done"
            journal.end_job(job.id, JobEnd("done" if is_done else "failed"))
            return is_done

        ends = await run_jobs(plan, do, max_concurrency=settings.max_concurrency)
    assert all(end.is_done for end in ends.values())


async def whole(plan: Plan, source: Waiting, file: Path | None) -> None:
    """Execute a plan: besides, a round a job, its inputs checked, its transcript checked."""
    n = len(plan.jobs)
    async with Sources([source], max_concurrency=n) as sources:
        catalog = await sources.catalog()
        executor = Executor(
            ContractNet(catalog, offline_model(catalog)),
            sources,
            settings=ExecutionSettings(max_concurrency=n),
            approve=allow_writes,
        )
        execution = await executor.execute(plan, journal=file)
    assert execution.is_done


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
    return Job(f"job-{number}", "Forecast rain.", _TOOL, inputs, after)


def _plan(found: list[list[Job]]) -> Plan:
    return Plan(_REQUEST, tuple(itertools.chain.from_iterable(found)))


def measure_time(jobs: int) -> dict[str, Any]:
    """Time executions of several shapes. Runs in a process of its own."""
    wide, deep, steps = parallel(jobs), levels(jobs, LEVELS), chain(jobs)
    shapes: dict[str, tuple[Plan, float, Effects]] = {
        "parallel": (wide, TOOL_SECONDS, "reads"),
        "parallel writes": (wide, TOOL_SECONDS, "writes"),
        f"{LEVELS} levels": (deep, TOOL_SECONDS, "reads"),
        "chain": (steps, CHAIN_SECONDS, "reads"),
        "chain of writes": (steps, CHAIN_SECONDS, "writes"),
    }
    return {
        f"{shape}, journal {'on disk' if on_disk else 'in memory'}": _measured(*case, on_disk)
        for shape, case in shapes.items()
        for on_disk in (False, True)
    }


def _measured(plan: Plan, seconds: float, effects: Effects, on_disk: bool) -> dict[str, Any]:
    ideal, source = seconds * len(plan.levels), Waiting(seconds, effects)
    found: dict[str, Any] = {"jobs": len(plan.jobs), "tool_seconds": ideal}
    for name, execute in _STAGES.items():
        runs = list(_repeated(execute, plan, source, on_disk))
        wall = statistics.median(seconds for seconds, _ in runs)
        found[name] = {
            "seconds": wall,
            "all_seconds": [seconds for seconds, _ in runs],
            "cpu_ms_a_job": 1e3 * statistics.median(cpu for _, cpu in runs) / len(plan.jobs),
            "engine_ms_a_job": 1e3 * (wall - ideal) / len(plan.jobs),
            "engine_share": (wall - ideal) / wall,
        }
    return found


def _repeated(
    execute: Callable[[Plan, Waiting, Path | None], Awaitable[None]],
    plan: Plan,
    source: Waiting,
    on_disk: bool,
) -> Iterator[tuple[float, float]]:
    """Yield the seconds several runs took, of wall and of CPU time, after one that warms up."""

    async def timed(file: Path | None) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        await execute(plan, source, file)
        return time.perf_counter() - wall, time.process_time() - cpu

    for turn in range(REPEATS + 1):
        with tempfile.TemporaryDirectory() as folder:
            seconds = asyncio.run(timed(Path(folder) / "journal" if on_disk else None))
        if turn:
            yield seconds


async def _loop(plan: Plan, source: Waiting, file: Path | None) -> None:
    """Call the tool level by level, and do nothing else."""
    for level in plan.levels:
        await asyncio.gather(*(source.call(Call(api=_TOOL)) for _ in level))


_STAGES = {"loop": _loop, "calls": calls, "execution": whole}


def measure_memory(executions: int, is_traced: bool) -> dict[str, Any]:
    """Note the memory after a tenth of the executions and after all. Runs in its own process.

    What Python allocates is traced in a process of its own: tracing takes memory too.
    """
    plan, source = levels(_MEMORY_JOBS // 2, 2), Waiting(0.0)
    first = max(executions // 10, 1)
    points: dict[int, float | None] = {}

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for n in range(1, executions + 1):
                file = Path(folder) / str(n) if n % 10 == 0 else None  # disks are slow
                await whole(plan, source, file)
                if file is not None:
                    file.unlink()
                if n in (first, executions):
                    gc.collect()
                    traced = tracemalloc.get_traced_memory()[0] / 1e6
                    points[n] = traced if is_traced else resident_megabytes()

    if is_traced:
        tracemalloc.start()
    asyncio.run(main())
    tracemalloc.stop()
    begin, end = points[first], points[executions]
    ratio = end / begin if begin and end else None
    return {"megabytes": points, "last_to_first": ratio}
