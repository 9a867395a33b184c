"""Many servers that can do the same: what shared context, negotiation and decomposition bring."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.office_servers import BEGIN, Desk, fact, make_desks, office_server
from benchmarks.office_tasks import KINDS, Step, Task, make_sessions
from benchmarks.report import environment, heading, number, table
from cnp_router.agents import offline_model
from cnp_router.catalog import Catalog
from cnp_router.execution import Execution, ExecutionSettings, Executor, Job, Plan, allow_writes
from cnp_router.execution.filling import Filler
from cnp_router.execution.learning import trajectory_of
from cnp_router.planning import with_dependencies
from cnp_router.prediction import ParameterHints
from cnp_router.protocols import ContractNet, Protocol
from cnp_router.protocols.outcome import Choice
from cnp_router.protocols.round import Result, Round
from cnp_router.routing import Router
from cnp_router.sources import McpServer, Sources
from cnp_router.training import fit_router

__all__ = ["LIMIT", "Mode", "count_redundant", "measure", "run"]

SESSIONS = 12
SERVERS = 10
LIMIT = 3.0  # seconds that a task may take
CALL = 1.0  # seconds that a call may take
SCRIPT = Path(__file__).with_name("office_servers.py")


@dataclass(frozen=True)
class Mode:
    """Which parts are on."""

    context: bool = False
    negotiation: bool = False
    decomposition: bool = False
    next_tried: bool = False  # a failed step goes to the next API that reads

    @property
    def name(self) -> str:
        """As a table says it."""
        parts = [
            name for name in ("context", "negotiation", "decomposition") if getattr(self, name)
        ]
        return " + ".join(parts) or ("none" if not self.next_tried else "none, next tried")


MODES = tuple(Mode(*flags) for flags in itertools.product((False, True), repeat=3))


class RouterChoice(Protocol):
    """Each step goes to the API that the router thinks most probable, without an announcement."""

    name = "router's choice"
    summary = "The router awards; no model is asked."
    manager = contractors = "none"
    announcements = ("routed",)
    has_contractors = False

    def __init__(self, *, substitutes: bool) -> None:
        self.substitutes = substitutes

    def prepare(self, request: str, *args: Any) -> tuple[Protocol, Choice | None]:
        """Return itself."""
        return self, None

    async def run(self, round_: Round) -> Result:
        """Return the first one."""
        router = round_.parties.router
        assert router is not None
        routing = router.route(round_.request, among=round_.parties.among)
        first = routing.contractors[0]
        return Result((first,), routing=routing if self.substitutes else None)


@dataclass
class Servers:
    """The servers of a seed, connected, with what they noted of calls."""

    desks: list[Desk]
    sources: Sources
    members: list[McpServer]
    catalog: Catalog
    router: Router
    notes: list[dict[str, Any]]  # of those in this process
    files: list[Path]  # of the others

    def calls(self, since: float) -> list[dict[str, Any]]:
        """Return what the servers noted of calls since some time, in order of their beginning."""
        lines = [line for file in self.files if file.exists() for line in file.open()]
        found = [*self.notes, *map(json.loads, lines)]
        return sorted((c for c in found if c["began"] >= since), key=lambda call: call["began"])

    async def begin(self) -> None:
        """Have every server count anew, so that each run meets the same failures."""
        await asyncio.gather(*(member.request(BEGIN, {}) for member in self.members))


@contextlib.asynccontextmanager
async def connected(desks: list[Desk], folder: Path) -> AsyncIterator[Servers]:
    """Start the servers, and yield them."""
    notes: list[dict[str, Any]] = []
    members, files = [], []
    for desk in desks:
        how: dict[str, Any] = {"server": None}
        if desk.is_process:
            file, log = folder / f"{desk.name}.json", folder / f"{desk.name}.log"
            desk.write(file)
            files.append(log)
            how = {"command": sys.executable, "args": [str(SCRIPT), str(file), str(log)]}
        else:
            how = {"server": office_server(desk, notes.append)}
        members.append(McpServer(desk.name, trusted=True, max_concurrency=64, **how))
    async with Sources(members, max_concurrency=256) as sources:
        catalog = await sources.catalog()
        router = fit_router(catalog)
        yield Servers(desks, sources, members, catalog, router, notes, files)


@dataclass
class Done:
    """What came of a task.

    Parameters
    ----------
    task : Task
    seconds : float
    right : list of bool
        Of each step: whether what came back is right; and if it writes, a server did it.
    resolved : list of (bool, float)
        Of each value that a step needs and the request does not say: whether it was called with
        it, or what it asks for was known; and how long after the task began.
    messages : int
    """

    task: Task
    seconds: float
    right: list[bool]
    resolved: list[tuple[bool, float | None]]
    messages: int

    @property
    def is_complete(self) -> bool:
        """Whether all of it is right."""
        return all(self.right)


def plan_of(task: Task) -> Plan:
    """Return the steps of a task as they are said; references where the request names them."""
    names = {id(step): f"step-{place}" for place, step in enumerate(task.steps, 1)}
    jobs = []
    for step in task.steps:
        inputs = None
        if task.kind == "named" and step.needs:
            inputs = {
                name: {"$from": names[id(giver)], "path": f"/{key}"}
                for name, (giver, key) in step.needs.items()
            }
        after = tuple(dict.fromkeys(each["$from"] for each in (inputs or {}).values()))
        jobs.append(Job(names[id(step)], step.text, inputs=inputs, after=after))
    return Plan(task.request, tuple(jobs))


def judged(task: Task, execution: Execution, calls: list[dict[str, Any]]) -> list[bool]:
    """Return which steps are right: by what came back, and by what the servers noted."""
    found = []
    for step, report in zip(task.steps, execution.jobs, strict=True):
        data = report.result.data if report.result is not None else None
        is_right = data == step.answer
        if step.writes:
            is_right = is_right and any(_is_call_of(step, call) for call in calls)
        found.append(is_right)
    return found


def _is_call_of(step: Step, call: dict[str, Any]) -> bool:
    same = (call["ability"], call["inputs"]) == (step.ability, step.inputs)
    return same and call["end"] == "done"


def count_redundant(calls: Iterable[dict[str, Any]]) -> int:
    """Return how many calls were not needed: the same had been found before, or was being.

    The same is the same ability with the same inputs, whichever server has it. A call counts
    against one that began before it and succeeded, even if that had not ended: nobody needs two.
    """
    known: set[str] = set()
    redundant = 0
    for call in sorted(calls, key=lambda each: each["began"]):
        key = json.dumps([call["ability"], call["inputs"]], sort_keys=True)
        redundant += key in known
        if call["end"] == "done":
            known.add(key)
    return redundant


class Coordinator:
    """The parts that are on, for all sessions of a run, with what they took themselves."""

    def __init__(self, servers: Servers, mode: Mode, limit: float) -> None:
        self.servers, self.mode, self.limit = servers, mode, limit
        self.seconds = dict.fromkeys(("context", "negotiation", "decomposition"), 0.0)
        self.net = ContractNet(
            servers.catalog, offline_model(servers.catalog), router=servers.router
        )
        self.settings = ExecutionSettings(
            call_timeout=CALL,
            timeout=limit,
            wait=(0.05, 0.2),
            max_concurrency=16 if mode.decomposition else 1,
        )
        # What decomposition learns from the calls of this run.
        self.seen: dict[str, Any] = {}  # what APIs gave; names and types of fields count
        self.hints = ParameterHints()
        self.protocol: Any = RouterChoice(substitutes=mode.next_tried)

    def executor(self) -> Executor:
        """Return who executes the tasks of one session."""
        return Executor(
            self.net, self.servers.sources, settings=self.settings, approve=allow_writes
        )

    def planned(self, task: Task) -> Plan:
        """Return the plan of a task."""
        plan = plan_of(task)
        if not self.mode.decomposition:
            return plan
        began = time.perf_counter()
        found = with_dependencies(
            plan, self.servers.catalog, likely=self.likely, hints=self.hints, results=self.seen
        )
        self.seconds["decomposition"] += time.perf_counter() - began
        return found

    def learn(self, execution: Execution) -> None:
        """Learn from the calls of a task."""
        self.seen |= {r.api: r.result.data for r in execution.jobs if r.api and r.result}
        steps = trajectory_of(execution).steps
        for place, step in enumerate(steps):
            if step.success:
                self.hints.observe_step([each for each in steps[:place] if each.success], step)

    def likely(self, text: str) -> str:
        """Return to whom the router would give a step."""
        return self.servers.router.route(text).contractors[0]

    async def session(self, tasks: list[Task]) -> list[Done]:
        """Do the tasks of a session, one after another."""
        executor, found = self.executor(), []
        for task in tasks:
            since, began = time.time(), time.perf_counter()
            execution = await executor.execute(self.planned(task), protocol=self.protocol)
            seconds = time.perf_counter() - began
            self.learn(execution)
            calls = self.servers.calls(since)
            messages = sum(len(each.messages) for each in execution.transcripts)
            right = judged(task, execution, calls)
            found.append(Done(task, seconds, right, resolved(task, right, calls, since), messages))
        return found


def resolved(
    task: Task, right: list[bool], calls: list[dict[str, Any]], since: float
) -> list[tuple[bool, float | None]]:
    """Return of each value that a step needs whether it came to it, and when."""
    found: list[tuple[bool, float | None]] = []
    for step, is_right in zip(task.steps, right, strict=True):
        same = [c for c in calls if (c["ability"], c["inputs"]) == (step.ability, step.inputs)]
        for _ in step.needs:
            when = same[0]["began"] - since if same else None
            found.append((bool(same) or is_right, when))
    return found


async def once(
    servers: Servers, sessions: list[list[Task]], mode: Mode, limit: float
) -> dict[str, Any]:
    """Run all sessions side by side with some parts on, and return the figures."""
    await servers.begin()
    coordinator, since = Coordinator(servers, mode, limit), time.time()
    done = [
        each
        for session in await asyncio.gather(*map(coordinator.session, sessions))
        for each in session
    ]
    await asyncio.sleep(0.05)  # until calls that were given up are noted
    calls = servers.calls(since)
    needed = [each for task in done for each in task.resolved]
    times = [when for is_resolved, when in needed if is_resolved and when is not None]
    return {
        "mode": mode,
        "tasks": len(done),
        "completion": statistics.mean(task.is_complete for task in done),
        "redundant": count_redundant(calls) / max(len(calls), 1),
        "seconds": statistics.mean(task.seconds for task in done),
        "messages": statistics.mean(task.messages for task in done),
        "calls": len(calls),
        "resolved": statistics.mean(is_resolved for is_resolved, _ in needed),
        "resolved_seconds": statistics.mean(times) if times else None,
        "overhead": {name: s / len(done) for name, s in coordinator.seconds.items()},
        "by_kind": {
            kind: statistics.mean(t.is_complete for t in done if t.task.kind == kind)
            for kind in KINDS
        },
        "done": done,
    }


async def measure(
    seed: int,
    *,
    n_servers: int = SERVERS,
    n_sessions: int = SESSIONS,
    modes: Iterable[Mode] = MODES,
    limit: float = LIMIT,
) -> list[dict[str, Any]]:
    """Return the figures of each mode, on the servers and the tasks of a seed."""
    sessions = make_sessions(seed, n_sessions)
    with tempfile.TemporaryDirectory() as folder:
        desks = make_desks(seed, n_servers, processes=0 if n_servers > SERVERS else 2)
        async with connected(desks, Path(folder)) as servers:
            return [await once(servers, sessions, mode, limit) for mode in modes]
