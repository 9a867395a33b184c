"""`Running`: one execution on its way, from awards or a plan to what came of each job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cnp_router import telemetry
from cnp_router.coordination import Coordinated
from cnp_router.exceptions import (
    CnpRouterError,
    CoordinationError,
    DataFileError,
    ExecutionError,
    ManagerLostError,
    RoundFailedError,
)
from cnp_router.execution.approval import Approval, asked
from cnp_router.execution.asked_for import acted_on, is_by_router
from cnp_router.execution.awards import plan_of
from cnp_router.execution.calling import Caller
from cnp_router.execution.directed import Direct, Directed
from cnp_router.execution.doing import Doer, Means
from cnp_router.execution.execution_telemetry import watched_job
from cnp_router.execution.job_reports import Act, By, Execution, JobReport, JobState, Reports
from cnp_router.execution.job_runner import JobRunner
from cnp_router.execution.journal import Journal
from cnp_router.execution.task_graph import Job, JobEnd, Plan, run_jobs
from cnp_router.protocols import Protocol, Transcript
from cnp_router.protocols.acting import Acting, Actor

__all__ = ["Running"]


class Running:
    """One execution on its way."""

    def __init__(
        self,
        means: Means,
        journal: Journal,
        how: dict[str, Any],
    ) -> None:
        self.by = means
        self.journal = journal
        self.how = how
        self.n_before = journal.n_calls
        self.plan: Plan | None = None
        self.reports = Reports(means.watch)
        self.rounds: list[Acting | Transcript] = []
        self.problem = ""
        self.failed: list[JobReport] = []  # and planned anew
        self.passed_over: tuple[str, ...] = ()
        self._lost = ""  # why the whole request is called directly
        self._limit = asyncio.timeout(means.settings.timeout)
        approve = None if means.approve is None else self._approve
        caller = Caller(means.sources, means.settings, approve=approve, journal=journal)
        self.doer = Doer(means, journal, caller, self.reports)
        self.runner = JobRunner(self.doer)

    async def do(self, request: str | Plan) -> None:
        """Do all of a request or plan, or what its journal has left of it."""
        if isinstance(request, Plan):
            await self.follow(request)
        elif self.journal.plan is not None:
            self.journal.check_request(request)
            self.doer.by_router = self.journal.by_router
            self.passed_over = self.journal.passed_over
            await self.follow(self.journal.plan)
        else:
            await self._in_one_round(request)

    async def within_time(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do some work, or as much of it as there is time for."""
        try:
            async with self._limit:
                await work()
        except TimeoutError:
            if not self._limit.expired():
                raise
            seconds = self.by.settings.timeout
            self.break_off("failed", f"the execution took longer than {seconds:g} s")

    async def follow(self, plan: Plan) -> None:
        """Do the jobs of a plan, each in a round of its own."""
        await self.work(plan, self.in_a_round)

    async def work(self, plan: Plan, run: Callable[[Job], object]) -> None:
        """Do the jobs of a plan; `run` does one. What is done of a plan before it is kept."""
        self.check(plan)
        self.journal.begin(plan, by_router=self.doer.by_router, passed_over=self.passed_over)
        self.plan = plan
        self.doer.goal = plan.request
        before = {name: each for name, each in self.reports.items() if each.state == "done"}
        self.reports.clear()
        for job in plan.jobs:
            self.reports[job.id] = before.get(job.id) or JobReport(
                job.id, job.task, job.after, lost=self._lost
            )
        self._classify(plan)

        async def one(job: Job) -> bool:
            report = self.reports[job.id]
            if report.state == "done":
                return True
            there = self.journal.results.get(job.id)
            if there is not None:
                call = self.journal.done_by(job.id)
                report.is_resumed = True
                report.lost = self.journal.lost.get(job.id, "")
                by: By = "direct" if report.lost else "award"
                act = Act(call.api, by, call.inputs, there, 0, 0.0)
                is_confidential = self.doer.sharing.is_confidential(call.api, job.after)
                report.acts.append(replace(act, is_confidential=is_confidential))
                self.reports.enter(report, "done", call.api, "done before")
                return True
            report.began = self.reports.now()
            try:
                with telemetry.span("job", {"cnp_router.job.id": job.id}) as span:
                    is_done = bool(await run(job))  # type: ignore[misc]
                    watched_job(report, is_done, span)
            except CnpRouterError as exc:  # of one job: the others go on
                if isinstance(exc, DataFileError) or isinstance(exc.__cause__, DataFileError):
                    raise
                report.problem, is_done = str(exc), False
            self.reports.enter(report, "done" if is_done else "failed", report.api, report.problem)
            self.journal.note_lost(job.id, report.lost)
            self.journal.end_job(job.id, JobEnd("done" if is_done else "failed"))
            await self.journal.synced()
            return is_done

        most = self.by.settings.max_concurrency
        for name, end in (await run_jobs(plan, one, max_concurrency=most)).items():
            if end.state == "skipped":
                report = self.reports[name]
                report.problem = f"it waits for {end.because!r}, which failed"
                self.reports.enter(report, "skipped", None, report.problem)

    async def _in_one_round(self, request: str) -> None:
        """Award and do a request; where the manager is lost, what the router recommends."""
        try:
            await self._round(request, _AllAwards(self), self.how["protocol"])
        except (CoordinationError, ManagerLostError) as exc:
            if self.plan is not None or not self._can_be_direct(exc):
                raise
            self._lost = _said(exc)
            await self._round(request, _AllAwards(self, by="direct"), Direct())

    async def in_a_round(self, job: Job) -> bool:
        """Have a job done by whoever is awarded it."""
        report, text = self.reports[job.id], job.task or self._request
        self.reports.enter(report, "asking", job.api)
        actor = _OneAward(self, job)
        try:
            try:
                await self._round(text, actor, self._protocol(job))
            except (CoordinationError, ManagerLostError) as exc:
                if report.acts or not self._can_be_direct(exc, job.api):
                    raise
                report.lost = _said(exc)
                self.reports.enter(report, "asking", job.api, f"called directly: {report.lost}")
                actor = _OneAward(self, job, by="direct")
                directed = Directed(job.api, substitutes=bool(job.task)) if job.api else Direct()
                await self._round(text, actor, directed)
        except (CoordinationError, RoundFailedError) as exc:
            report.problem = report.problem or str(exc)
        if not actor.is_done and not report.acts and not report.problem:
            report.problem = "nobody proposed to do it"
        return actor.is_done or await self.by_fallback(job)

    def _protocol(self, job: Job) -> str | Protocol:
        """Return how a job is awarded: one whose API is named, to that or to an equivalent."""
        if job.api is None:
            return self.how["protocol"]  # type: ignore[no-any-return]
        if self.by.negotiator is None:
            return Directed(job.api, substitutes=bool(job.task))
        return Coordinated(
            self.by.negotiator,
            api=job.api,
            may=self.runner.may_replace(job, job.api),
            substitutes=bool(job.task),
        )

    def _can_be_direct(self, exc: CnpRouterError, api: str | None = None) -> bool:
        """Return whether what the router recommends can be called without manager."""
        transcript = getattr(exc, "transcript", None)
        if transcript is not None:
            self.rounds.append(transcript)
        return self.by.settings.direct and (api is not None or self.by.net.router is not None)

    async def _round(self, text: str, actor: Actor, protocol: str | Protocol) -> None:
        await self.by.net.run(text, actor=actor, **{**self.how, "protocol": protocol})

    def _classify(self, plan: Plan) -> None:
        """Say of which category each job is, where the router knows categories."""
        classifier = self.by.net.parties.classifier
        if classifier is None or not plan.jobs:
            return
        texts = [job.task or plan.request for job in plan.jobs]
        for job, categories in zip(plan.jobs, classifier.predict(texts), strict=True):
            self.reports[job.id].category = categories[0] if categories else None

    async def by_fallback(self, job: Job) -> bool:
        """Have a job done by the contractor that is named for what nobody else does."""
        report, name = self.reports[job.id], self.by.settings.fallback
        if name is None or report.is_final or any(act.api == name for act in report.acts):
            return False
        actor = _OneAward(self, job, by="fallback")
        protocol = Directed(name, substitutes=False)
        await self._round(job.task or self._request, actor, protocol)
        return actor.is_done

    async def _approve(self, approval: Approval) -> bool:
        report = self.reports[approval.job]
        before = report.state
        self.reports.enter(report, "approving", approval.api.id, approval.reason)
        try:
            with self.standing_still():
                return await asked(self.by.approve, approval)
        except CnpRouterError:
            raise
        except Exception as exc:
            raise ExecutionError(f"approve raised {type(exc).__name__}: {exc}") from exc
        finally:
            self.reports.enter(report, before, approval.api.id)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let the time stand still while a person thinks, of whom one thing is asked at a time."""
        loop, until = asyncio.get_running_loop(), self._limit.when()
        left = None if until is None else until - loop.time()
        self._limit.reschedule(None)
        try:
            yield
        finally:
            if left is not None and not self._limit.expired():
                self._limit.reschedule(loop.time() + left)

    def break_off(self, state: JobState, problem: str) -> None:
        """Say of what has no end that it was broken off."""
        self.problem = problem
        for report in self.reports.values():
            if report.id in self.journal.results:  # it came just in time
                report.problem = ""
                self.reports.enter(report, "done", report.api)
            elif report.state not in ("done", "failed", "skipped"):
                begun = report.state != "waiting"
                report.problem = problem if begun else f"it was not begun: {problem}"
                failure = report.acts[-1].result.failure if report.acts else None
                if failure is not None and failure.was_done == "unknown":
                    report.problem += f"; nobody knows whether {report.api} did it"
                self.reports.enter(
                    report, state if begun else "skipped", report.api, report.problem
                )

    def execution(self, request: str | Plan) -> Execution:
        """Return how far it came."""
        return Execution(
            self.journal.execution,
            request.request if isinstance(request, Plan) else request,
            self.plan,
            tuple(self.reports.values()),
            tuple(
                each if isinstance(each, Transcript) else each.transcript for each in self.rounds
            ),
            self.reports.now(),
            self.problem,
            self.n_before,
            self.doer.sharing.problem,
            tuple(each for each in self.failed if self.reports.get(each.id) is not each),
            self.unmet,
            self._limit.expired(),
            self.passed_over,
        )

    @property
    def unmet(self) -> tuple[str, ...]:
        """Rules that are not met."""
        return ()

    @property
    def _request(self) -> str:
        return "" if self.plan is None else self.plan.request

    def check(self, plan: Plan) -> None:
        """Raise UnknownApiError for what nobody has, before anything is called."""
        named = [job.api for job in plan.jobs if job.api is not None]
        if self.by.settings.fallback is not None:
            named.append(self.by.settings.fallback)
        source_of = getattr(self.by.sources, "source_of", None)
        for api in named:
            self.by.net.catalog.position(api)
            if source_of is not None:
                source_of(api)


class _AllAwards:
    """Acts on the round of a whole request: each award is a job."""

    def __init__(self, running: Running, by: By | None = None) -> None:
        self._running, self._by = running, by

    async def act(self, acting: Acting) -> None:
        """Do them all."""
        running = self._running
        running.rounds.append(acting)
        if not acting.awards:
            running.problem = "nothing was awarded"
            return
        running.doer.by_router = is_by_router(acting)
        groups, running.passed_over = await acted_on(acting, running.by.net)
        if not groups:
            running.problem = "nothing was called"
            return
        first = [group[0] for group in groups]
        plan = plan_of(acting.request, first, running.by.net.catalog.__getitem__)
        awards = {job.id: group for job, group in zip(plan.jobs, groups, strict=True)}
        how: By = self._by or ("award" if acting.n_called else "directed")

        async def run(job: Job) -> bool:
            is_done = await running.runner.serve(job, acting, awards[job.id], how)
            return is_done or await running.by_fallback(job)

        await running.work(plan, run)


class _OneAward:
    """Acts on the round of one job: the first award that does it is enough."""

    def __init__(self, running: Running, job: Job, by: By | None = None) -> None:
        self.is_done = False
        self._running, self._job, self._by = running, job, by

    async def act(self, acting: Acting) -> None:
        """Do the job."""
        self._running.rounds.append(acting)
        by: By = self._by or ("award" if acting.n_called else "directed")
        self.is_done = await self._running.runner.serve(self._job, acting, acting.awards, by)


def _said(exc: CnpRouterError) -> str:
    """Return who was lost, in words."""
    who = "coordinator" if isinstance(exc, CoordinationError) else "manager"
    return f"the {who} was lost: {exc}"
