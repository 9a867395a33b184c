"""`Executor`: what is awarded is done, or awarded to the next one; what happened teaches."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cnp_router.catalog import Api
from cnp_router.exceptions import (
    DefinitionChangedError,
    ExecutionError,
    InputError,
    RoundFailedError,
    SourceError,
)
from cnp_router.execution.approval import Approval, Approve, asked
from cnp_router.execution.calling import Caller, Then, Tools
from cnp_router.execution.directed import Directed
from cnp_router.execution.execution_settings import ExecutionSettings
from cnp_router.execution.filling import Filler
from cnp_router.execution.job_reports import Act, By, Execution, JobEvent, JobReport, JobState
from cnp_router.execution.journal import Journal
from cnp_router.execution.learning import learn
from cnp_router.execution.task_graph import Job, JobEnd, Plan, run_jobs
from cnp_router.llm import run_sync
from cnp_router.online import OnlineStore
from cnp_router.protocols import ContractNet, Protocol
from cnp_router.protocols.acting import Acting, AwardedApi
from cnp_router.protocols.protocol import Announcement
from cnp_router.records import check_instance
from cnp_router.sources import CallProgress, CallResult

__all__ = ["Executor"]

Watch = Callable[[JobEvent], object]


class Executor:
    """Has requests and plans done by the contractors that they are awarded to.

    A request is awarded in one round; each awarded API is a job, and those that may change
    something wait for those that only read. A plan names its jobs; each is awarded in a round of
    its own, unless it names its API. What a contractor fails goes to the next one, and at last to
    the fallback of the settings.

    Parameters
    ----------
    net : ContractNet
        Awards. In rounds that are acted on, the manager is not shown what contractors say of
        themselves: `RoundSettings(grounds="hidden", evidence="manager")` is used.
    sources : Tools
        A `Sources`: finds and calls the tools.
    settings : ExecutionSettings, optional
    approve : callable, optional
        Answers each `Approval`: what does not only read is called only with it.
    filler : Filler, optional
        Fills inputs that nobody gave; by default without a language model.
    store : OnlineStore, optional
        Learns from each execution.
    watch : callable, optional
        Is given each `JobEvent` as it happens.

    Attributes
    ----------
    last : Execution or None
        The execution at hand, or the last one; also where it was cancelled.

    Examples
    --------
    >>> from cnp_router import Catalog, ContractNet, fit_router, offline_model
    >>> from cnp_router.sources import FunctionSource, Sources
    >>> def roll(sides: int = 6) -> int:
    ...     "Roll a die with some sides."
    ...     return 4
    >>> async def main():
    ...     dice = FunctionSource("dice", [roll], effects={"roll": "reads"})
    ...     async with Sources([dice]) as tools:
    ...         catalog = await tools.catalog()
    ...         net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
    ...         plan = Plan("Roll a die.", (Job("roll", api="dice__roll", inputs={"sides": 6}),))
    ...         return await Executor(net, tools).execute(plan)
    >>> execution = asyncio.run(main())
    >>> execution.is_done, execution.results["roll"].data
    (True, 4)
    """

    def __init__(
        self,
        net: ContractNet,
        sources: Tools,
        *,
        settings: ExecutionSettings | None = None,
        approve: Approve | None = None,
        filler: Filler | None = None,
        store: OnlineStore | None = None,
        watch: Watch | None = None,
    ) -> None:
        check_instance("net", net, ContractNet)
        announced = "none" if net.router is None else "manager"
        self.net = net.with_settings(grounds="hidden", evidence=announced)
        self.sources = sources
        self.settings = settings or ExecutionSettings()
        self.approve = approve
        self.filler = filler or Filler(None)
        self.store = store
        self.watch = watch
        self.last: Execution | None = None

    def execute_sync(self, request: str | Plan, **how: object) -> Execution:
        """Execute where there is no event loop; see `execute`."""

        async def run() -> Execution:
            return await self.execute(request, **how)  # type: ignore[arg-type]

        return run_sync(run, instead="await executor.execute(request)")

    async def execute(
        self,
        request: str | Plan,
        *,
        protocol: str | Protocol = "contractor-led",
        announcement: Announcement = "routed",
        date: datetime.date | None = None,
        user: str | None = None,
        journal: str | Path | None = None,
    ) -> Execution:
        """Award a request or the jobs of a plan, and have them done.

        Parameters
        ----------
        request : str or Plan
        protocol, announcement, date
            Of the rounds, as in `ContractNet.run`.
        user : str, optional
            Whose it is, in what the store keeps.
        journal : str or Path, optional
            File that keeps the state. Where there is one of this request or plan, it is continued:
            what was done is not done again, and its first round is not held again.

        Returns
        -------
        Execution
            Also where jobs have failed, or the time of the settings is over.

        Raises
        ------
        InputError
            As `ContractNet.run`; or the journal is of something else.
        RoundFailedError
            If the round of a request fails. That of a job of a plan fails the job.
        DataFileError
            If the journal cannot be read or written.
        asyncio.CancelledError
            If it is cancelled: what ran was given up, and `last` says how far it came.
        """
        with Journal(journal) as kept:
            running = _Running(self, kept, protocol, announcement, date)
            try:
                await running.within_time(request)
            except asyncio.CancelledError:
                running.break_off("cancelled", "it was cancelled")
                raise
            finally:
                self.last = running.execution(request)
        if self.store is not None:
            learn(self.store, self.last, user=user)
        return self.last

    async def plan(
        self,
        request: str | Plan,
        *,
        protocol: str | Protocol = "contractor-led",
        announcement: Announcement = "routed",
        date: datetime.date | None = None,
    ) -> Plan:
        """Return the jobs that a request would lead to, and call no tool; a plan is its own.

        Parameters and errors are those of `execute`; an ExecutionError if nothing is awarded.
        """
        if isinstance(request, Plan):
            return request
        drafting = _Drafting(self.net.catalog.__getitem__)
        how: dict[str, Any] = {"protocol": protocol, "announcement": announcement, "date": date}
        await self.net.run(request, actor=drafting, **how)
        if drafting.plan is None:
            raise ExecutionError("nothing was awarded (say it in other words)")
        return drafting.plan


class _Drafting:
    """Turns awards into a plan, and acts on none of them."""

    def __init__(self, api: Callable[[str], Api]) -> None:
        self.plan: Plan | None = None
        self._api = api

    async def act(self, acting: Acting) -> None:
        if acting.awards:
            self.plan = plan_of(acting.request, acting.awards, self._api)


class _Running:
    """One execution on its way."""

    def __init__(
        self,
        executor: Executor,
        journal: Journal,
        protocol: str | Protocol,
        announcement: Announcement,
        date: datetime.date | None,
    ) -> None:
        self.by = executor
        self.journal = journal
        self.how: dict[str, Any] = {
            "protocol": protocol,
            "announcement": announcement,
            "date": date,
        }
        self.began = time.perf_counter()
        self.n_before = journal.n_calls
        self.plan: Plan | None = None
        self.reports: dict[str, JobReport] = {}
        self.rounds: list[Acting] = []
        self.problem = ""
        self._limit = asyncio.timeout(executor.settings.timeout)
        self._asking = asyncio.Lock()
        approve = None if executor.approve is None else self._approve
        self.caller = Caller(executor.sources, executor.settings, approve=approve, journal=journal)

    async def within_time(self, request: str | Plan) -> None:
        """Do it all, or as much as there is time for."""
        try:
            async with self._limit:
                if isinstance(request, Plan):
                    await self.follow(request)
                elif self.journal.plan is not None and self.journal.plan.request == request:
                    await self.follow(self.journal.plan)
                else:
                    await self.by.net.run(request, actor=_AllAwards(self), **self.how)
        except TimeoutError:
            if not self._limit.expired():
                raise
            seconds = self.by.settings.timeout
            self.break_off("failed", f"the execution took longer than {seconds:g} s")

    async def follow(self, plan: Plan) -> None:
        """Do the jobs of a plan, each in a round of its own."""
        await self.work(plan, self._in_a_round)

    async def work(self, plan: Plan, run: Callable[[Job], object]) -> None:
        """Do the jobs of a plan; `run` does one."""
        self.journal.begin(plan)
        self.plan = plan
        for job in plan.jobs:
            self.reports[job.id] = JobReport(job.id, job.task, job.after)

        async def one(job: Job) -> bool:
            report = self.reports[job.id]
            there = self.journal.results.get(job.id)
            if there is not None:
                call = self.journal.done_by(job.id)
                report.is_resumed = True
                report.acts.append(Act(call.api, "award", call.inputs, there, 0, 0.0))
                self._enter(report, "done", call.api, "done before")
                return True
            is_done = bool(await run(job))  # type: ignore[misc]
            self._enter(report, "done" if is_done else "failed", report.api, report.problem)
            self.journal.end_job(job.id, JobEnd("done" if is_done else "failed"))
            await self.journal.synced()
            return is_done

        most = self.by.settings.max_concurrency
        for name, end in (await run_jobs(plan, one, max_concurrency=most)).items():
            if end.state == "skipped":
                report = self.reports[name]
                report.problem = f"it waits for {end.because!r}, which failed"
                self._enter(report, "skipped", None, report.problem)

    async def _in_a_round(self, job: Job) -> bool:
        report, text = self.reports[job.id], job.task or self._goal
        protocol = Directed(job.api) if job.api is not None else self.how["protocol"]
        self._enter(report, "asking", job.api)
        actor = _OneAward(self, job)
        try:
            await self.by.net.run(text, actor=actor, **{**self.how, "protocol": protocol})
        except RoundFailedError as exc:
            report.problem = str(exc)
        if not actor.is_done and not report.acts and not report.problem:
            report.problem = "nobody proposed to do it"
        return actor.is_done or await self.by_fallback(job)

    async def by_fallback(self, job: Job) -> bool:
        """Have a job done by the contractor that is named for what nobody else does."""
        report, name = self.reports[job.id], self.by.settings.fallback
        if name is None or report.is_final or any(act.api == name for act in report.acts):
            return False
        actor = _OneAward(self, job, by="fallback")
        protocol = Directed(name, substitutes=False)
        await self.by.net.run(
            job.task or self._goal, actor=actor, protocol=protocol, date=self.how["date"]
        )
        return actor.is_done

    async def serve(self, job: Job, acting: Acting, awards: Sequence[AwardedApi], by: By) -> bool:
        """Have a job done by the first of some awards that does it, or by who comes next."""
        report, waiting = self.reports[job.id], list(awards)
        report.asked = _n_called(acting)
        failed: AwardedApi | None = None
        while True:
            awarded = waiting.pop(0) if waiting else failed and acting.next_for(failed)
            if awarded is None:
                return False
            act, then = await self._act(job, awarded.api, by)
            report.acts.append(act)
            result, failure = act.result, act.result.failure
            cost: dict[str, Any] = {"seconds": act.seconds, "n_bytes": result.n_bytes}
            if failure is None:
                report.problem = ""
                acting.done(
                    awarded,
                    text=result.text or json.dumps(result.structured, ensure_ascii=False),
                    digest=_digest(result),
                    attempts=max(act.attempts, 1),
                    **cost,
                )
            else:
                report.problem = failure.message
                report.is_final = then in ("stop", "escalate")
                acting.failed(
                    awarded,
                    kind=failure.kind,
                    error=failure.message,
                    attempts=act.attempts,
                    **cost,
                )
            if then != "reaward":
                for other in waiting:
                    acting.cancel(other, "the job is done" if failure is None else "it is given up")
                return failure is None
            failed, by = awarded, "re-award"

    async def _act(self, job: Job, api_id: str, by: By) -> tuple[Act, Then]:
        report = self.reports[job.id]

        def nothing(result: CallResult, then: Then) -> tuple[Act, Then]:
            return Act(api_id, by, {}, result, 0, 0.0), then

        self._enter(report, "filling", api_id)
        try:
            api = await self.by.sources.api(api_id)
            before = self._before(job)
            filled = await self.by.filler.fill(
                replace(job, after=tuple(before)),
                api,
                self._goal,
                {name: each.result for name, each in before.items() if each.result},
                apis={name: each.api for name, each in before.items() if each.api},
            )
        except SourceError as exc:
            return nothing(_unreachable(exc), "reaward")
        except (ExecutionError, InputError) as exc:
            return nothing(CallResult.failed("inputs", str(exc)), "reaward")

        def progress(each: CallProgress) -> None:
            share = f"{each.done:g}" + (f" of {each.total:g}" if each.total else "")
            self._enter(report, "acting", api_id, f"{share} {each.message}".rstrip())

        self._enter(report, "acting", api_id)
        performed = await self.caller.perform(job.id, api, filled.inputs, on_progress=progress)
        act = Act(
            api_id, by, filled.inputs, performed.result, performed.attempts, performed.seconds
        )
        return act, performed.then

    async def _approve(self, approval: Approval) -> bool:
        report = self.reports[approval.job]
        before = report.state
        self._enter(report, "approving", approval.api.id, approval.reason)
        async with self._asking:  # while a person thinks, the time stands still
            loop, until = asyncio.get_running_loop(), self._limit.when()
            left = None if until is None else until - loop.time()
            self._limit.reschedule(None)
            try:
                return await asked(self.by.approve, approval)
            finally:
                if left is not None and not self._limit.expired():
                    self._limit.reschedule(loop.time() + left)
                self._enter(report, before, approval.api.id)

    def break_off(self, state: JobState, problem: str) -> None:
        """Say of what has no end that it was broken off."""
        self.problem = problem
        for report in self.reports.values():
            if report.state not in ("done", "failed", "skipped"):
                begun = report.state != "waiting"
                report.problem = problem if begun else f"it was not begun: {problem}"
                self._enter(report, state if begun else "skipped", report.api, report.problem)

    def execution(self, request: str | Plan) -> Execution:
        """Return how far it came."""
        return Execution(
            self.journal.execution,
            request.request if isinstance(request, Plan) else request,
            self.plan,
            tuple(self.reports.values()),
            tuple(acting.transcript for acting in self.rounds),
            time.perf_counter() - self.began,
            self.problem,
            self.n_before,
        )

    @property
    def _goal(self) -> str:
        return self.plan.request if self.plan is not None else ""

    def _before(self, job: Job) -> dict[str, JobReport]:
        """Return the reports of all that a job waits for, and of what that waits for."""
        found: dict[str, JobReport] = {}
        names = list(job.after)
        while names:
            name = names.pop()
            if name not in found:
                found[name] = self.reports[name]
                names += found[name].after
        return found

    def _enter(self, report: JobReport, state: JobState, api: str | None, text: str = "") -> None:
        report.state = state
        if self.by.watch is not None:
            self.by.watch(JobEvent(report.id, state, api, text))


class _AllAwards:
    """Acts on the round of a whole request: each award is a job."""

    def __init__(self, running: _Running) -> None:
        self._running = running

    async def act(self, acting: Acting) -> None:
        running = self._running
        running.rounds.append(acting)
        if not acting.awards:
            running.problem = "nothing was awarded"
            return
        awards = {each.api: each for each in acting.awards}
        plan = plan_of(acting.request, acting.awards, running.by.net.catalog.__getitem__)
        how: By = "award" if _n_called(acting) else "directed"

        async def run(job: Job) -> bool:
            is_done = await running.serve(job, acting, [awards[job.id]], how)
            return is_done or await running.by_fallback(job)

        await running.work(plan, run)


class _OneAward:
    """Acts on the round of one job: the first award that does it is enough."""

    def __init__(self, running: _Running, job: Job, by: By | None = None) -> None:
        self.is_done = False
        self._running, self._job, self._by = running, job, by

    async def act(self, acting: Acting) -> None:
        self._running.rounds.append(acting)
        by: By = self._by or ("award" if _n_called(acting) else "directed")
        self.is_done = await self._running.serve(self._job, acting, acting.awards, by)


def plan_of(request: str, awards: Sequence[AwardedApi], api: Callable[[str], Api]) -> Plan:
    """Return awards as a plan: a job each, and what may change something waits for what reads.

    Examples
    --------
    >>> apis = {"rain": Api("rain", "Rain", effects="reads"), "text": Api("text", "Text")}
    >>> awards = [AwardedApi(4, "text", "text", "Text me."), AwardedApi(5, "rain", "rain", "Rain?")]
    >>> [(job.id, job.after) for job in plan_of("Text me rain.", awards, apis.get).jobs]
    [('text', ('rain',)), ('rain', ())]
    """
    reading = tuple(each.api for each in awards if api(each.api).effects == "reads")
    return Plan(
        request,
        tuple(
            Job(each.api, each.task, each.api, after=() if each.api in reading else reading)
            for each in awards
        ),
    )


def _n_called(acting: Acting) -> int:
    """Return how many contractors were called for proposals."""
    return acting.transcript.ledger.messages.get("cfp", 0)


def _unreachable(exc: SourceError) -> CallResult:
    is_changed = isinstance(exc, DefinitionChangedError)
    return CallResult.failed("changed" if is_changed else "unavailable", str(exc))


def _digest(result: CallResult) -> str:
    """Return the SHA-256 of what came back."""
    fields = result.to_dict()
    content = {name: fields[name] for name in ("text", "structured", "attachments")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
