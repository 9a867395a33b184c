"""`Journal`: what was begun and what came of it, on disk before and after each call."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from cnp_router.catalog import Api, Effects
from cnp_router.context.canonical import canonical
from cnp_router.exceptions import DataFileError, InputError, shown
from cnp_router.execution.journal_records import (
    FORMAT_VERSION,
    Finished,
    Head,
    Lost,
    Revised,
    Started,
    Taken,
    kept,
    parse,
)
from cnp_router.execution.task_graph import JobEnd, Plan
from cnp_router.files import as_path, reason
from cnp_router.line_file import LineFile
from cnp_router.records import Record
from cnp_router.sources.source import CallResult

__all__ = ["Journal", "StartedCall", "call_key"]

_SAME = "continue with the same, or name another file"
_NEW_FILE = "was it altered? name another file, or one that does not exist"


@dataclass(frozen=True, slots=True, repr=False)
class StartedCall:
    """A call that was begun.

    Attributes
    ----------
    number : int
        Its place among all calls of the execution, from 0; -1 where a result was taken over.
    job : str
    api : str
    inputs : mapping of str to JSON value
    key : str
        The idempotency key that went along.
    effects : {"reads", "writes", "unknown"}
    same : str, default=""
        What `call_key` returned; "" where a result was taken over.
    """

    number: int
    job: str
    api: str
    inputs: Mapping[str, Any] = field(hash=False)
    key: str
    effects: Effects
    same: str = ""

    def __repr__(self) -> str:  # the inputs may hold what no log should
        return f"StartedCall({self.number}, {self.job!r}, {self.api!r}, {self.effects!r})"


def call_key(api: Api, inputs: Mapping[str, Any]) -> str:
    """Return one text for all ways to write the same call (`cnp_router.context.canonical`).

    Raises
    ------
    InputError
        If the inputs cannot be written as JSON.

    Examples
    --------
    >>> maps = Api("maps", "maps", parameters={"properties": {"zoom": {"default": 1}}})
    >>> call_key(maps, {"a": 1, "zoom": 1.0}) == call_key(maps, {"a": 1})
    True
    """
    return hashlib.sha256(f"{api.id}\n{canonical(api, inputs)}".encode()).hexdigest()[:32]


class Journal:
    """What an execution began and what came of it, so that it can be resumed.

    A JSON Lines file that only grows: the plan first, then a line when a call begins, when it is
    over, and when a job has ended. What a job needs after a resumption is in it, the inputs and
    results of calls too, whatever they hold: only its owner may read the file. Large results are
    cut, of images and the like only size and digest are kept. While it is open, nobody else can
    open it.

    Parameters
    ----------
    path : str, Path or None, default=None
        Made if it does not exist; its folder must. None: in memory.

    Attributes
    ----------
    execution : str
        Id of the execution, the same after a resumption.
    plan : Plan or None
        None until `begin`.
    results : dict of str to CallResult
        By job: what its call gave, for each job with one that succeeded. Never to be done again.
    ends : dict of str to JobEnd
        How jobs ended, those of earlier runs too.
    lost : dict of str to str
        By job that was called without manager or coordinator: why.
    by_router : bool
        Whether the router alone chose who acts. See `Filler.fill`.
    passed_over : tuple of str
        What of the request is not acted on, and why.

    Raises
    ------
    DataFileError
        If the file is not a journal, is damaged, is being written by another execution, or cannot
        be written. It is left as it is. The line that a kill has cut off is no damage.

    Examples
    --------
    >>> from cnp_router.execution.task_graph import Job, Plan
    >>> with Journal() as journal:
    ...     journal.begin(Plan("Rain?", (Job("forecast", api="weather__today"),)))
    ...     api = Api("weather__today", "today", effects="reads")
    ...     call = journal.start("forecast", api, {"city": "Kyoto"}, key="k1")
    ...     journal.finish(call, CallResult("sunny"))
    ...     journal.results["forecast"].text
    'sunny'
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else as_path(path)
        self.execution = secrets.token_hex(8)
        self.plan: Plan | None = None
        self.results: dict[str, CallResult] = {}
        self.ends: dict[str, JobEnd] = {}
        self.lost: dict[str, str] = {}
        self.by_router = False
        self.passed_over: tuple[str, ...] = ()
        self._calls: list[StartedCall] = []
        self._running: set[int] = set()
        self._done: dict[str, StartedCall] = {}
        self._given: dict[str, CallResult] = {}  # by call
        self._unsettled: dict[int, StartedCall] = {}
        self._syncing = asyncio.Lock()
        self._n_lines = self._n_synced = 0
        self._file = None if path is None else LineFile(path, "execution", private=True)
        try:
            if self._file is not None:
                self._read(self._file)
        except BaseException:
            self.close()
            raise

    def begin(
        self, plan: Plan, *, by_router: bool = False, passed_over: Sequence[str] = ()
    ) -> None:
        """Begin an execution, or go on with the one of the file, which says who chose.

        Raises
        ------
        DataFileError
            If the file's is of another request or plan.
        """
        if self.plan is None:
            head = {"record": "execution", "format": FORMAT_VERSION, "id": self.execution}
            chosen = {"by_router": by_router, "passed_over": list(passed_over)}
            self._write({**head, **chosen, "plan": plan.to_dict()})
            self.plan, self.by_router, self.passed_over = plan, by_router, tuple(passed_over)
        self.check_request(plan.request)
        if plan != self.plan:
            problem = "belongs to another plan for this request"
            raise DataFileError(self.path or "the journal", problem, cure=_SAME)

    def revise(self, plan: Plan) -> None:
        """Go on with another plan for the same request; what is done stays done.

        Jobs with the id of one that is done are not done again.

        Raises
        ------
        InputError
            If there is no plan yet, or a job that is done has another task or API now.
        """
        if self.plan is None:
            raise InputError(f"{self!r} has no plan yet (call begin first)")
        self.check_request(plan.request)
        before = {job.id: job for job in self.plan.jobs}
        for job in plan.jobs:
            old = before.get(job.id)
            if (
                job.id in self.results
                and old is not None
                and (old.task, old.api)
                != (
                    job.task,
                    job.api,
                )
            ):
                raise InputError(
                    f"job {job.id!r} is done, and the revised plan has another job of this id "
                    "(give it an id of its own)"
                )
        self._write({"record": "revised", "plan": plan.to_dict()})
        self._follow(plan)

    def _follow(self, plan: Plan) -> None:
        self.plan = plan
        self.ends = {name: end for name, end in self.ends.items() if end.is_done}

    def check_request(self, request: str) -> None:
        """Raise DataFileError if the file's execution is of another request."""
        if self.plan is not None and self.plan.request != request:
            problem = f"belongs to another request: {shown(self.plan.request)}"
            raise DataFileError(self.path or "the journal", problem, cure=_SAME)

    def start(self, job: str, api: Api, inputs: Mapping[str, Any], *, key: str) -> int:
        """Note that a call begins, and return its number. `synced` has it on disk."""
        same = call_key(api, inputs)
        call = StartedCall(len(self._calls), job, api.id, dict(inputs), key, api.effects, same)
        line = {"record": "started", "call": call.number, "job": job, "api": api.id, "same": same}
        self._write({**line, "inputs": call.inputs, "key": key, "effects": api.effects})
        self._add(call)
        return call.number

    def finish(self, call: int, result: CallResult) -> None:
        """Note what came of a call."""
        self._write({"record": "finished", "call": call, "result": kept(result)})
        self._settle(call, result)

    def take(self, job: str, api: Api, inputs: Mapping[str, Any], result: CallResult) -> None:
        """Note a result that a job has without a call: it was known already."""
        line = {"record": "taken", "job": job, "api": api.id, "inputs": dict(inputs)}
        self._write({**line, "effects": api.effects, "result": kept(result)})
        self._take_over(StartedCall(-1, job, api.id, dict(inputs), "", api.effects), result)

    def earlier(self, api: Api, inputs: Mapping[str, Any]) -> CallResult | None:
        """Return what the same call gave when it succeeded, however it is written; None if not."""
        return self._given.get(call_key(api, inputs))

    def end_job(self, job: str, end: JobEnd) -> None:
        """Note how a job ended. `synced` has it on disk, with all that came before."""
        if self.ends.get(job) != end:
            record = {"record": "job-ended", "job": job}
            self._write({**record, "state": end.state, "because": end.because})
            self.ends[job] = end

    def note_lost(self, job: str, why: str) -> None:
        """Note that a job is called without manager or coordinator."""
        if why and self.lost.get(job) != why:
            self._write({"record": "lost", "job": job, "why": why})
            self.lost[job] = why

    def unsettled(self, job: str | None = None) -> tuple[StartedCall, ...]:
        """Return the calls, of one job or of all, that may have had an effect nobody knows of."""
        calls = self._unsettled.values()
        return tuple(call for call in calls if job in (None, call.job))

    @property
    def n_calls(self) -> int:
        """How many calls were begun, in earlier runs too."""
        return len(self._calls)

    def calls_of(self, job: str) -> tuple[StartedCall, ...]:
        """Return the calls that were begun for a job."""
        return tuple(call for call in self._calls if call.job == job)

    def done_by(self, job: str) -> StartedCall:
        """Return the call that gave the result of a job."""
        return self._done[job]

    async def synced(self) -> None:
        """Return when all that was noted is on disk, whatever happens to the machine."""
        if self._file is None:
            return
        wanted = self._n_lines
        async with self._syncing:  # who waited for another's turn is often served by it
            if self._n_synced < wanted:
                until = self._n_lines
                await asyncio.to_thread(self._file.sync)
                self._n_synced = until

    def close(self) -> None:
        """Let go of the file, all of it on disk. Can be called twice."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                if self._n_synced < self._n_lines:
                    file.sync()
            finally:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else repr(str(self.path))
        return f"Journal({where}, {len(self._calls)} calls, {len(self.results)} jobs done)"

    def _add(self, call: StartedCall) -> None:
        self._calls.append(call)
        self._running.add(call.number)
        if call.effects != "reads":
            self._unsettled[call.number] = call

    def _settle(self, number: int, result: CallResult) -> None:
        self._running.remove(number)
        job = self._calls[number].job
        if result.failure is None:
            call = self._calls[number]
            self._take_over(call, result)
            self._given[call.same] = result
            for other in self.unsettled(job):
                del self._unsettled[other.number]
        elif result.failure.was_done == "no":
            self._unsettled.pop(number, None)

    def _take_over(self, call: StartedCall, result: CallResult) -> None:
        self.results[call.job], self._done[call.job] = result, call

    def _write(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        if self._file is None:
            raise InputError(f"{self!r} is closed (open it again)")
        if self.plan is None and record["record"] != "execution":
            raise InputError(f"{self!r} has no plan yet (call begin first)")
        self._file.append(json.dumps(record, allow_nan=False).encode())
        self._n_lines += 1

    def _read(self, file: LineFile) -> None:
        begin = b'{"record": "execution"'
        n = min(len(begin), len(file.torn))
        if not file.lines and file.torn[:n] == begin[:n]:
            return
        for number, line in enumerate(file.lines or [file.torn], start=1):
            try:
                if number == 1:
                    self._take_head(file, line)
                else:
                    self._take(line)
            except DataFileError:
                raise
            except (ValueError, RecursionError) as exc:
                problem = _problem(exc) if number > 1 else "is not the file of an execution"
                raise DataFileError(file.path, problem, line=number, cure=_NEW_FILE) from None
        file.lines.clear()  # results can be large

    def _take_head(self, file: LineFile, line: bytes) -> None:
        head = Head.model_validate_json(line)
        if head.format != FORMAT_VERSION:
            problem = f"written in format {head.format}, this version has {FORMAT_VERSION}"
            raise DataFileError(file.path, problem, cure="name another file")
        self.execution, self.by_router = head.id, head.by_router
        self.passed_over = tuple(head.passed_over)
        self.plan = Plan.parse(Record(head.plan, file.path, 1))

    def _take(self, line: bytes) -> None:
        record = parse(line)
        if isinstance(record, Finished):
            if record.call not in self._running:
                raise ValueError(f"call {record.call} ends, and is not one that runs")
            self._settle(record.call, record.result.call_result())
            return
        if isinstance(record, Revised):
            self._follow(Plan.parse(Record(record.plan, self.path or Path(), None)))
            return
        if self.plan is None or record.job not in self.plan.ids:
            raise ValueError(f"the plan has no job {record.job!r}")
        if isinstance(record, Started):
            if record.call != len(self._calls):
                raise ValueError(f"call {record.call} begins, and {len(self._calls)} is the next")
            fields = record.model_dump(exclude={"record", "call"})
            self._add(StartedCall(record.call, **fields))
        elif isinstance(record, Taken):
            call = StartedCall(-1, record.job, record.api, record.inputs, "", record.effects)
            self._take_over(call, record.result.call_result())
        elif isinstance(record, Lost):
            self.lost[record.job] = record.why
        else:
            self.ends[record.job] = JobEnd(record.state, record.because)


def _problem(exc: BaseException) -> str:
    """Return what is wrong with a line, in few words and none of its content."""
    if isinstance(exc, ValidationError):
        found = exc.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, found['loc'])) or 'the line'}: {found['msg']}"
    is_json = not isinstance(exc, json.JSONDecodeError | UnicodeDecodeError)
    return reason(exc) if is_json else "not JSON"
