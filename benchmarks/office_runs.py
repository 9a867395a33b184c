"""The tasks of an office done on its servers, with some parts of coordination on, and judged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.office_servers import ABILITIES, BEGIN, Desk, office_server
from benchmarks.office_tasks import Step, Task
from cnp_router.agents import offline_model
from cnp_router.catalog import Api, Catalog
from cnp_router.context import Found, QuantileThreshold, SharedContext
from cnp_router.coordination import Coordinated, Negotiation, Negotiator
from cnp_router.execution import Execution, ExecutionSettings, Executor, Job, Plan, allow_writes
from cnp_router.execution.filling import Filler
from cnp_router.execution.learning import trajectory_of
from cnp_router.planning import data_flow
from cnp_router.planning.data_flow import fields_given
from cnp_router.prediction import ParameterHints
from cnp_router.protocols import ContractNet, Protocol
from cnp_router.protocols.outcome import Choice
from cnp_router.protocols.round import Result, Round
from cnp_router.routing import Router, TopK
from cnp_router.sources import McpServer, Sources
from cnp_router.training import fit_router

__all__ = [
    "MODES",
    "STRICTER",
    "Coordinator",
    "Done",
    "Mode",
    "Servers",
    "connected",
    "count_redundant",
    "plan_of",
]

USERS = 6  # sessions at a time
CALL = 1.0  # seconds that a call may take
_NEXT = 8  # APIs that a failed step may go to, where it may
BACKGROUND = 0.9
"""Quantile of the similarity of specifications from which on context is offered. One pair in ten or
fifteen does the same here: those are what is alike, not what is alike by chance."""
_NAMES = {name for ability in ABILITIES.values() for name in ability.returns}
SCRIPT = Path(__file__).with_name("office_servers.py")


T = TypeVar("T")


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
STRICTER = Mode(next_tried=True)
"""Beside the eight: nothing on, but a step that reads and fails goes to the next API."""


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
        routing = router.route(round_.request, select=TopK(_NEXT))
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
    notes: list[dict[str, Any]]  # of those in this process, and what was read of the others
    files: dict[Path, int]  # of the others, and how much of each was read

    def calls(self, since: float) -> list[dict[str, Any]]:
        """Return what the servers noted of calls since some time, in order of their beginning."""
        for path, begin in self.files.items():
            whole, _, _ = path.read_bytes()[begin:].rpartition(b"\n")
            self.notes.extend(map(json.loads, whole.splitlines()))
            self.files[path] = begin + len(whole) + bool(whole)
        found = (call for call in self.notes if call["began"] >= since)
        return sorted(found, key=lambda call: call["began"])

    async def begin(self) -> None:
        """Have every server count anew, so that each run meets the same failures."""
        await asyncio.gather(*(member.request(BEGIN, {}) for member in self.members))


@contextlib.asynccontextmanager
async def connected(desks: list[Desk], folder: Path) -> AsyncIterator[Servers]:
    """Start the servers, and yield them."""
    notes: list[dict[str, Any]] = []
    members: list[McpServer] = []
    files: dict[Path, int] = {}
    for desk in desks:
        how: dict[str, Any] = {"server": None}
        if desk.is_process:
            file, log = folder / f"{desk.name}.json", folder / f"{desk.name}.log"
            desk.write(file)
            log.touch()
            files[log] = 0
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


class TimedNegotiator(Negotiator):
    """Notes how long negotiations take."""

    taken = 0.0

    async def negotiate(self, *args: Any, **how: Any) -> Negotiation:
        """Negotiate."""
        began = time.perf_counter()
        try:
            return await super().negotiate(*args, **how)
        finally:
            self.taken += time.perf_counter() - began


class TimedContext(SharedContext):
    """Notes how long it takes to look things up and to keep them."""

    taken = 0.0

    async def find(self, *args: Any, **how: Any) -> Found | None:
        """Find."""
        return await self._timed(super().find(*args, **how))

    async def similar(self, *args: Any, **how: Any) -> list[Found]:
        """Find what is similar."""
        return await self._timed(super().similar(*args, **how))

    async def keep(self, *args: Any, **how: Any) -> str:
        """Keep."""
        return await self._timed(super().keep(*args, **how))

    async def _timed(self, work: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            return await work
        finally:
            self.taken += time.perf_counter() - began


class Coordinator:
    """The parts that are on, for all sessions of a run, with what they took themselves."""

    def __init__(self, servers: Servers, mode: Mode, limit: float) -> None:
        self.servers, self.mode, self.limit = servers, mode, limit
        self.planning = 0.0  # seconds
        self._likely: dict[str, str] = {}
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
        self.context: TimedContext | None = None
        self.negotiator = (
            TimedNegotiator(servers.sources, gives=self.fields) if mode.negotiation else None
        )
        self.protocol: Any = RouterChoice(substitutes=mode.next_tried)
        if self.negotiator is not None:
            self.protocol = Coordinated(self.negotiator)
        if mode.context:
            self.context = TimedContext(
                classes=lambda api: "public",
                threshold=QuantileThreshold(BACKGROUND),
                # What is sent or booked changes nothing of what the others look up.
                outdates=lambda api: False,
                equivalents=self.same_data,
            )

    def executor(self) -> Executor:
        """Return who executes the tasks of one session."""
        return Executor(
            self.net,
            self.servers.sources,
            settings=self.settings,
            approve=allow_writes,
            context=self.context,
            negotiator=self.negotiator,
            filler=Filler(None, hints=self.hints if self.mode.decomposition else None),
        )

    @property
    def overhead(self) -> dict[str, float]:
        """Seconds that each part took itself, in all, until now."""
        return {
            "context": 0.0 if self.context is None else self.context.taken,
            "negotiation": 0.0 if self.negotiator is None else self.negotiator.taken,
            "decomposition": self.planning,
        }

    @property
    def n_asked(self) -> int:
        """Requests of coordination to servers and their answers, until now."""
        return 0 if self.negotiator is None else self.negotiator.n_messages

    def same_data(self, api: Api) -> list[str]:
        """Return who does the same as an API, as negotiations know it, and gives the same fields.

        Nobody where there are no negotiations, or it is not known what they give.
        """
        own = self.fields(api.id)
        if self.negotiator is None or not own:
            return []
        like = self.negotiator.capabilities(self.net.parties).equivalents(api.id)
        return [each for each in like if self.fields(each) == own]

    def fields(self, api: str) -> set[str]:
        """Return the names of what an API gives, as far as it is known."""
        found = fields_given(self.servers.catalog[api], self.seen.get(api), _NAMES)
        return {each["path"] for each in found if each["path"]}

    def planned(self, task: Task) -> Plan:
        """Return the plan of a task."""
        plan = plan_of(task)
        if not self.mode.decomposition:
            return plan
        began = time.perf_counter()
        found = data_flow(
            plan, self.servers.catalog, likely=self.likely, hints=self.hints, results=self.seen
        ).plan
        self.planning += time.perf_counter() - began
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
        if text not in self._likely:
            self._likely[text] = self.servers.router.route(text).contractors[0]
        return self._likely[text]

    async def sessions(self, sessions: list[list[Task]]) -> list[Done]:
        """Do some sessions side by side, each with its tasks one after another."""
        places = asyncio.Semaphore(USERS)

        async def one(tasks: list[Task]) -> list[Done]:
            async with places:
                return await self.session(tasks)

        return [each for done in await asyncio.gather(*map(one, sessions)) for each in done]

    async def session(self, tasks: list[Task]) -> list[Done]:
        """Do the tasks of a session, one after another."""
        executor, found = self.executor(), []
        for task in tasks:
            since, began = time.time(), time.perf_counter()
            execution = await executor.execute(
                self.planned(task), protocol=self.protocol, user=f"user-{task.session}"
            )
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
