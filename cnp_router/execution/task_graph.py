"""`Plan`: jobs that wait for each other; `run_jobs` starts each as soon as it can."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal

from cnp_router import telemetry
from cnp_router.closest import closest
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.execution.references import references_in
from cnp_router.files import atomic_write, read_json
from cnp_router.printing import printable
from cnp_router.records import (
    Record,
    check_flag,
    check_id,
    check_json,
    check_number,
    check_request,
    check_text,
    instances,
    json_object,
    positions,
    shown,
    string_tuple,
)

__all__ = ["Job", "JobEnd", "Plan", "run_jobs"]

_WIDTH = 100
_NAME = 24


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """One piece of work of a plan.

    Parameters
    ----------
    id : str
        Unique in a plan.
    task : str, default=""
        What is to be done, in plain language. Without it the job is its API.
    api : str or None, default=None
        Id of the API that does it. None: whoever is awarded the task.
    inputs : mapping of str to JSON value, or None, default=None
        What the API is called with. None: they are filled in from task, request and results.
    after : tuple of str, default=()
        Ids of the jobs that must have succeeded before.

    Raises
    ------
    InputError
        If a value cannot be used, or there is neither task nor API.

    Examples
    --------
    >>> Job("text", "Text me the forecast.", after=("forecast",)).after
    ('forecast',)
    """

    id: str
    task: str = ""
    api: str | None = None
    inputs: Mapping[str, Any] | None = field(default=None, hash=False)
    after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", check_id("job", self.id))
        check_text("task", self.task)
        if self.api is not None:
            object.__setattr__(self, "api", check_id("API", self.api))
        elif not self.task.strip():
            raise InputError(f"job {self.id!r} has neither task nor API (give it one of them)")
        if self.inputs is not None:
            check_json("inputs", self.inputs)
        after = tuple(check_id("job", each) for each in string_tuple("after", self.after))
        object.__setattr__(self, "after", after)
        positions("job", after)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this job, as in a plan's file."""
        inputs = None if self.inputs is None else dict(self.inputs)
        return json_object(self, task=self.task or None, inputs=inputs, after=self.after or None)

    def __repr__(self) -> str:  # the inputs may hold what no log should
        return f"Job({self.id!r}, {shown(self.task)}, {self.api!r}, after={self.after!r})"


@dataclass(frozen=True, repr=False)
class Plan:
    """What is to be done for a request: jobs, and which waits for which.

    Parameters
    ----------
    request : str
    jobs : tuple of Job
        At least one, with distinct ids.
    guideline : str, default=""
        What all of it is about, in plain language, for who does the jobs.

    Raises
    ------
    InputError
        If there is no job, two have the same id, one waits for a job that is not there, or some
        wait for each other in a circle.

    Examples
    --------
    >>> plan = Plan("Text me when it rains in Kyoto.", (
    ...     Job("place", api="maps__find", inputs={"name": "Kyoto"}),
    ...     Job("forecast", "Forecast rain.", after=("place",)),
    ...     Job("phone", "Look up my number."),
    ...     Job("text", api="sms__send", after=("forecast", "phone")),
    ... ))
    >>> [[job.id for job in level] for level in plan.levels], plan.parallelism
    ([['place', 'phone'], ['forecast'], ['text']], 2)
    >>> print(plan.draw())
    Text me when it rains in Kyoto.
    4 jobs on 3 levels, at most 2 jobs at a time
    <BLANKLINE>
    level 1
      place     maps__find {"name": "Kyoto"}
      phone     Look up my number.
    level 2
      forecast  Forecast rain.  <- place
    level 3
      text      sms__send  <- forecast, phone
    """

    request: str
    jobs: tuple[Job, ...]
    guideline: str = ""

    def __post_init__(self) -> None:
        check_text("request", check_request(self.request))
        check_text("guideline", self.guideline)
        jobs = instances("jobs", self.jobs, Job)
        object.__setattr__(self, "jobs", jobs)
        if not jobs:
            raise InputError("a plan needs at least one job (got none)")
        places = positions("job", (job.id for job in jobs))
        for job in jobs:
            for name in job.after:
                if name not in places:
                    close = closest(name, places)
                    cure = f"did you mean {close[0]!r}?" if close else "use the id of another job"
                    raise InputError(f"job {job.id!r} waits for {name!r}, which is no job ({cure})")
            try:
                named = references_in(job.inputs or {})
            except InputError as exc:
                raise InputError(f"job {job.id!r}: {exc}") from None
            for name in named:
                if name not in job.after:
                    raise InputError(
                        f"job {job.id!r} refers to the result of {name!r}, which it does not wait "
                        "for (add it to its 'after')"
                    )
        try:
            self._sorter().prepare()
        except CycleError as exc:
            circle = [repr(name) for name in exc.args[1]]
            most = 12
            if len(circle) > most:
                circle[most - 2 : -1] = [f"{len(circle) - most + 1} more"]
            raise InputError(
                f"jobs wait for each other in a circle: {' -> '.join(circle)} "
                "(take one of them out of an 'after')"
            ) from None

    @cached_property
    def levels(self) -> tuple[tuple[Job, ...], ...]:
        """The jobs by level: the first wait for nothing, the others for some of the level before.

        Within a level they are in the order of the plan.
        """
        level: dict[str, int] = {}
        for name in self._sorter().static_order():
            level[name] = max((level[other] + 1 for other in self._after[name]), default=0)
        found: list[list[Job]] = [[] for _ in range(max(level.values()) + 1)]
        for job in self.jobs:
            found[level[job.id]].append(job)
        return tuple(map(tuple, found))

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of the jobs."""
        return frozenset(job.id for job in self.jobs)

    @property
    def parallelism(self) -> int:
        """How many jobs the largest level has."""
        return max(map(len, self.levels))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this plan."""
        guideline = {"guideline": self.guideline} if self.guideline else {}
        return {"request": self.request, **guideline, "jobs": [job.to_dict() for job in self.jobs]}

    @classmethod
    def read(cls, path: str | Path, *, request: str | None = None) -> Plan:
        """Read a plan from a JSON document.

        Parameters
        ----------
        path : str or Path
            ``{"request": ..., "guideline"?: ...,
            "jobs": [{"id", "task"?, "api"?, "inputs"?, "after"?: [...]}]}``.
            An unknown key is an error, so that a slip of the pen is not passed over.
        request : str, optional
            Where the file has none.

        Raises
        ------
        DataFileError
            Which job is wrong, and the cure.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "plan.json")
        >>> Plan("Rain?", (Job("forecast", api="weather__today"),)).write(file)
        >>> Plan.read(file).jobs
        (Job('forecast', '', 'weather__today', after=()),)
        """
        document = read_json(path)
        if not isinstance(document, dict):
            problem = f"expected the JSON object of a plan, got {shown(document)}"
            raise DataFileError(path, problem, cure='write {"request": ..., "jobs": [...]}')
        record = Record(document, path, None)
        if request is not None and document.get("request") is None:
            record = Record({**document, "request": request}, path, None)
        return cls.parse(record)

    @classmethod
    def parse(cls, record: Record) -> Plan:
        """Return the plan in a record of a file, or raise DataFileError."""
        record.check_keys(cls)
        jobs = []
        for entry, each in enumerate(record.get("jobs", _jobs), start=1):
            one = Record(each, record.path, record.line, entry)
            one.check_keys(Job)
            jobs.append(one.make(Job))
        guideline = record.get("guideline", default="")
        return record.checked(cls, record.get("request"), tuple(jobs), guideline)

    def write(self, path: str | Path) -> None:
        """Write the plan as a JSON document, atomically; DataFileError if it cannot be."""
        with atomic_write(path) as out:
            out.write(json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")

    def draw(self, width: int = _WIDTH) -> str:
        """Return a drawing of the plan by levels, as plain text that steers no terminal.

        Parameters
        ----------
        width : int, default=100
            Of its lines, in characters; they can be longer where names are long.
        """
        n, levels = len(self.jobs), len(self.levels)
        counts = f"{n} job{'s'[: n != 1]} on {levels} level{'s'[: levels != 1]}"
        lines = [
            printable(self.request, max(width, 20)),
            f"{counts}, at most {self.parallelism} job{'s'[: self.parallelism != 1]} at a time",
            *([printable(self.guideline, max(3 * width, 60))] if self.guideline else []),
            "",
        ]
        names = {job.id: printable(job.id, _NAME) for job in self.jobs}
        widest = max(map(len, names.values()))
        for number, level in enumerate(self.levels, start=1):
            lines.append(f"level {number}" + (f", {len(level)} jobs" if len(level) > 10 else ""))
            for job in level:
                after = _some([names[name] for name in job.after])
                room = max(width - widest - len(after) - 4, 20)
                lines.append(f"  {names[job.id]:{widest}}  {_what(job, room)}{after}")
        return "\n".join(lines)

    @cached_property
    def _after(self) -> dict[str, tuple[str, ...]]:
        return {job.id: job.after for job in self.jobs}

    def _sorter(self) -> TopologicalSorter[str]:
        return TopologicalSorter(self._after)

    def __repr__(self) -> str:
        return f"Plan({shown(self.request)}, {len(self.jobs)} jobs)"


def _jobs(name: str, value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InputError(f"{name} must be a list of objects, got {shown(value)}")
    return value


def _what(job: Job, room: int) -> str:
    """Return what a job does, in one line of some length."""
    text = job.task if job.api is None else job.api
    if job.inputs is not None:
        text += f" {json.dumps(dict(job.inputs), ensure_ascii=False)}"
    elif job.api is not None and job.task:
        text += f": {job.task}"
    return printable(text, room)


def _some(names: list[str]) -> str:
    """Return for what a job waits, not all of it where that is much."""
    few = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    return f"  <- {', '.join(few)}" if few else ""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Parameters
    ----------
    state : {"done", "failed", "skipped"}
    because : str or None, default=None
        Id of the failed job for which it was skipped.

    Attributes
    ----------
    is_done : bool
    """

    state: Literal["done", "failed", "skipped"]
    because: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the job succeeded."""
        return self.state == "done"


async def run_jobs(
    plan: Plan, run: Callable[[Job], Awaitable[bool]], *, max_concurrency: int = 16
) -> dict[str, JobEnd]:
    """Run the jobs of a plan, each as soon as all that it waits for has succeeded.

    What waits for a job that failed is skipped; everything else goes on. If this is cancelled,
    what runs is cancelled and has ended when this ends.

    Parameters
    ----------
    plan : Plan
    run : callable
        Does a job and returns whether it succeeded. An exception is a bug, not a failed job: it
        cancels the other jobs and is raised.
    max_concurrency : int, default=16
        How many jobs run at a time.

    Returns
    -------
    dict of str to JobEnd
        In the order of the plan.

    Examples
    --------
    >>> import asyncio
    >>> plan = Plan("Text me when it rains.", (
    ...     Job("forecast", api="weather__today"),
    ...     Job("phone", api="contacts__me"),
    ...     Job("text", api="sms__send", after=("forecast", "phone")),
    ... ))
    >>> async def run(job):
    ...     return job.id != "forecast"
    >>> ends = asyncio.run(run_jobs(plan, run))
    >>> ends["phone"].state, ends["text"]
    ('done', JobEnd(state='skipped', because='forecast'))
    """
    check_number("max_concurrency", max_concurrency, 1, whole=True)
    began = time.perf_counter()
    ends: dict[str, JobEnd] = {}
    order = {job.id: (place, job) for place, job in enumerate(plan.jobs)}
    places = asyncio.Semaphore(max_concurrency)
    sorter = plan._sorter()
    sorter.prepare()

    def go_on(group: asyncio.TaskGroup) -> None:
        """Start what waits for nothing any more, or skip it, and what waits for that."""
        while ready := sorter.get_ready():
            for _, job in sorted((order[name] for name in ready), key=lambda item: item[0]):
                because = _because(job, ends)
                if because is None:
                    group.create_task(work(job, group))
                else:
                    ends[job.id] = JobEnd("skipped", because)
                    sorter.done(job.id)

    async def work(job: Job, group: asyncio.TaskGroup) -> None:
        async with places:
            is_done = check_flag(f"what came of job {job.id!r}", await run(job))
        ends[job.id] = JobEnd("done" if is_done else "failed")
        sorter.done(job.id)
        task = asyncio.current_task()
        if task is None or not task.cancelling():  # nothing begins once all are to end
            go_on(group)

    outcome = "failed"
    try:
        async with asyncio.TaskGroup() as group:
            go_on(group)
        outcome = "done" if all(end.is_done for end in ends.values()) else "failed"
        return {job.id: ends[job.id] for job in plan.jobs}
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    except BaseExceptionGroup as exc:
        bug = exc.exceptions[0]
    finally:
        seconds = time.perf_counter() - began
        telemetry.record("cnp_router.task_graph.duration", seconds, {"outcome": outcome})
    raise bug


def _because(job: Job, ends: Mapping[str, JobEnd]) -> str | None:
    """Return the failed job for which a job cannot run; None if there is none."""
    for name in job.after:
        end = ends[name]
        if not end.is_done:
            return end.because or name
    return None
