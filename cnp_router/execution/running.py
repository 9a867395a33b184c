"""`Running`: one execution on its way, from awards or a plan to what came of each job."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cnp_router.exceptions import (
    CnpRouterError,
    DataFileError,
    ExecutionError,
    InputError,
    RoundFailedError,
    SourceError,
)
from cnp_router.execution.approval import Approval, Approve, asked
from cnp_router.execution.awards import digest_of, plan_of, unreachable
from cnp_router.execution.calling import Caller, Then, Tools
from cnp_router.execution.directed import Directed
from cnp_router.execution.execution_settings import ExecutionSettings
from cnp_router.execution.filling import Filler
from cnp_router.execution.job_reports import Act, By, Execution, JobEvent, JobReport, JobState
from cnp_router.execution.journal import Journal
from cnp_router.execution.task_graph import Job, JobEnd, Plan, run_jobs
from cnp_router.llm import Usage
from cnp_router.protocols import ContractNet
from cnp_router.protocols.acting import Acting, AwardedApi
from cnp_router.sources import CallFailure, CallProgress, CallResult

__all__ = ["Means", "Running"]

_SAME = 0.7  # cosine of specifications from which on two tools do the same
_THEN = " (then tried: "
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Means:
    """What an execution is done with; see `Executor`."""

    net: ContractNet
    sources: Tools
    settings: ExecutionSettings
    approve: Approve | None
    filler: Filler
    watch: Callable[[JobEvent], object] | None
    rate: Callable[[str], float] | None


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
        self.began = time.perf_counter()
        self.n_before = journal.n_calls
        self.plan: Plan | None = None
        self.reports: dict[str, JobReport] = {}
        self.rounds: list[Acting] = []
        self.problem = ""
        self._limit = asyncio.timeout(means.settings.timeout)
        approve = None if means.approve is None else self._approve
        self.caller = Caller(means.sources, means.settings, approve=approve, journal=journal)

    async def within_time(self, request: str | Plan) -> None:
        """Do it all, or as much as there is time for."""
        try:
            async with self._limit:
                if isinstance(request, Plan):
                    await self.follow(request)
                elif self.journal.plan is not None:
                    self.journal.check_request(request)
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
        self.check(plan)
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
            try:
                is_done = bool(await run(job))  # type: ignore[misc]
            except CnpRouterError as exc:  # of one job: the others go on
                if isinstance(exc, DataFileError) or isinstance(exc.__cause__, DataFileError):
                    raise
                report.problem, is_done = str(exc), False
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
        protocol = (
            Directed(job.api, substitutes=bool(job.task)) if job.api else self.how["protocol"]
        )
        self._enter(report, "asking", job.api)
        actor = _OneAward(self, job)
        try:
            await self.by.net.run(text, actor=actor, **{**self.how, "protocol": protocol})
        except RoundFailedError as exc:
            report.problem = report.problem or str(exc)
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
            job.task or self._goal, actor=actor, **{**self.how, "protocol": protocol}
        )
        return actor.is_done

    async def serve(self, job: Job, acting: Acting, awards: Sequence[AwardedApi], by: By) -> bool:
        """Have a job done by the first of some awards that does it, or by who comes next."""
        report, waiting = self.reports[job.id], list(awards)
        report.asked = acting.n_called
        failed: AwardedApi | None = None
        is_approved = False
        while True:
            awarded = None
            if waiting:
                awarded = waiting.pop(0)
            elif failed is not None:
                awarded = self._next(acting, failed, is_approved)
            if awarded is None:
                return False
            try:
                act, then = await self._act(job, awarded.api, by)
            except asyncio.CancelledError:
                self._give_up(job, acting, awarded, by)
                raise
            report.acts.append(act)
            result, failure = act.result, act.result.failure
            is_approved = await self._may_go_on(job, acting, act, then)
            then = "reaward" if is_approved else then
            cost: dict[str, Any] = {"seconds": act.seconds, "n_bytes": result.n_bytes}
            if failure is None:
                report.problem = ""
                acting.done(
                    awarded,
                    text=result.text or json.dumps(result.structured, ensure_ascii=False),
                    digest=digest_of(result),
                    attempts=act.attempts,
                    **cost,
                )
            else:
                unknown = failure.was_done == "unknown" and not self._reads(act.api)
                said = failure.message + ("; nobody knows whether it was done" if unknown else "")
                if report.problem:  # the first one is who was wanted
                    first = report.problem.partition(_THEN)[0]
                    tried = ", ".join(dict.fromkeys(each.api for each in report.acts[1:]))
                    said = f"{first}{_THEN}{tried})"
                report.problem = said
                report.is_final = then in ("stop", "escalate")
                acting.failed(
                    awarded,
                    kind=failure.kind,
                    error=failure.message,
                    attempts=act.attempts,
                    was_done="unknown" if unknown else "no",
                    **cost,
                )
            if then != "reaward":
                for other in waiting:
                    acting.cancel(other, "the job is done" if failure is None else "it is given up")
                return failure is None
            failed, by = awarded, "re-award"

    async def _may_go_on(self, job: Job, acting: Acting, act: Act, then: Then) -> bool:
        """Ask whether another one may do what may have been done already."""
        failure = act.result.failure
        if then != "stop" or failure is None or failure.kind == "declined":
            return False
        if not (acting.n_called or self.by.settings.fallback):
            return False  # nobody is left
        api = self.by.net.catalog[act.api]
        return await self.caller.ask(Approval(job.id, api, dict(act.inputs), "repeat"))

    def _give_up(self, job: Job, acting: Acting, awarded: AwardedApi, by: By) -> None:
        """Report a call that was broken off while it ran."""
        calls = [
            call
            for call in self.journal.calls_of(job.id)
            if call.number >= self.n_before and call.api == awarded.api
        ]
        if not calls:
            return
        was_done: Literal["no", "unknown"] = "no" if calls[-1].effects == "reads" else "unknown"
        failure = CallFailure("cancelled", "given up while it ran", was_done)
        result = CallResult(failure=failure)
        act = Act(awarded.api, by, calls[-1].inputs, result, len(calls), 0.0)
        self.reports[job.id].acts.append(act)
        acting.failed(
            awarded,
            kind=failure.kind,
            error=failure.message,
            attempts=act.attempts,
            seconds=0.0,
            n_bytes=0,
            was_done=was_done,
        )

    def _next(self, acting: Acting, failed: AwardedApi, is_approved: bool) -> AwardedApi | None:
        """Return who does a job after one who failed.

        Who proposed to do it may. Where nobody did, and it is only alike, nothing but reading goes
        to another one: what creates may be most like what deletes.
        """
        rate, reads = self.by.rate, self._reads
        if acting.n_called:
            return acting.next_for(failed, rate=rate, approved=is_approved)
        return acting.next_for(failed, among=reads, rate=rate) if reads(failed.api) else None

    async def _act(self, job: Job, api_id: str, by: By) -> tuple[Act, Then]:
        report = self.reports[job.id]

        def nothing(result: CallResult, then: Then, usage: Usage | None = None) -> tuple[Act, Then]:
            return Act(api_id, by, {}, result, 0, 0.0, usage), then

        self._enter(report, "filling", api_id)
        try:
            api = await self.by.sources.api(api_id)
            before = {name: self.reports[name] for name in job.after}
            filled = await self.by.filler.fill(
                job,
                api,
                self._goal,
                {name: each.result for name, each in before.items() if each.result},
                apis={name: each.api for name, each in before.items() if each.api},
            )
        except SourceError as exc:
            return nothing(unreachable(exc), "reaward")
        except (ExecutionError, InputError) as exc:
            usage = getattr(exc, "usage", None)
            return nothing(CallResult.failed("inputs", str(exc)), "reaward", usage)

        def progress(each: CallProgress) -> None:
            share = f"{each.done:g}" + (f" of {each.total:g}" if each.total else "")
            self._enter(report, "acting", api_id, f"{share} {each.message}".rstrip())

        self._enter(report, "acting", api_id)
        inputs, key = filled.inputs, None
        for begun in self.journal.unsettled(job.id):
            if begun.api == api_id:  # the same act once more: a model might fill it otherwise now
                inputs, key = dict(begun.inputs), begun.key
        performed = await self.caller.perform(job.id, api, inputs, key=key, on_progress=progress)
        if performed.then == "escalate":
            question = Approval(job.id, api, copy.deepcopy(inputs), "permission")
            if await self.caller.ask(question):  # who has the right has given it
                before_it = performed
                performed = await self.caller.perform(
                    job.id, api, inputs, key=key, on_progress=progress
                )
                performed = replace(
                    performed,
                    attempts=before_it.attempts + performed.attempts,
                    seconds=before_it.seconds + performed.seconds,
                )
        act = Act(
            api_id,
            by,
            inputs,
            performed.result,
            performed.attempts,
            performed.seconds,
            filled.usage,
            filled.dropped,
        )
        return act, performed.then

    async def _approve(self, approval: Approval) -> bool:
        report = self.reports[approval.job]
        before = report.state
        self._enter(report, "approving", approval.api.id, approval.reason)
        # While a person thinks, the time stands still; the caller asks one question at a time.
        loop, until = asyncio.get_running_loop(), self._limit.when()
        left = None if until is None else until - loop.time()
        self._limit.reschedule(None)
        try:
            return await asked(self.by.approve, approval)
        except CnpRouterError:
            raise
        except Exception as exc:
            raise ExecutionError(f"approve raised {type(exc).__name__}: {exc}") from exc
        finally:
            if left is not None and not self._limit.expired():
                self._limit.reschedule(loop.time() + left)
            self._enter(report, before, approval.api.id)

    def break_off(self, state: JobState, problem: str) -> None:
        """Say of what has no end that it was broken off."""
        self.problem = problem
        for report in self.reports.values():
            if report.id in self.journal.results:  # it came just in time
                report.problem = ""
                self._enter(report, "done", report.api)
            elif report.state not in ("done", "failed", "skipped"):
                begun = report.state != "waiting"
                report.problem = problem if begun else f"it was not begun: {problem}"
                failure = report.acts[-1].result.failure if report.acts else None
                if failure is not None and failure.was_done == "unknown":
                    report.problem += f"; nobody knows whether {report.api} did it"
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

    def alike(self, awards: Sequence[AwardedApi]) -> list[list[AwardedApi]]:
        """Return awards in groups: those that may change something and say the same are one job.

        The first acts, the others come next: one wish is not fulfilled twice.
        """
        groups: list[list[AwardedApi]] = []
        for award in awards:
            for group in groups:
                one = group[0]
                if one.task == award.task and not (self._reads(one.api) or self._reads(award.api)):
                    likeness = self.by.net.parties.likeness.of(one.api, [award.api])
                    if likeness[award.api] >= _SAME:
                        group.append(award)
                        break
            else:
                groups.append([award])
        return groups

    def _reads(self, api: str) -> bool:
        return self.by.net.catalog[api].effects == "reads"

    def _enter(self, report: JobReport, state: JobState, api: str | None, text: str = "") -> None:
        report.state = state
        if self.by.watch is None:
            return
        try:
            self.by.watch(JobEvent(report.id, state, api, text, report.asked))
        except Exception:  # who looks on stops no job
            _LOGGER.warning("watch raised an error at %r", report.id, exc_info=True)


class _AllAwards:
    """Acts on the round of a whole request: each award is a job."""

    def __init__(self, running: Running) -> None:
        self._running = running

    async def act(self, acting: Acting) -> None:
        """Do them all."""
        running = self._running
        running.rounds.append(acting)
        if not acting.awards:
            running.problem = "nothing was awarded"
            return
        groups = running.alike(acting.awards)
        first = [group[0] for group in groups]
        plan = plan_of(acting.request, first, running.by.net.catalog.__getitem__)
        awards = {job.id: group for job, group in zip(plan.jobs, groups, strict=True)}
        how: By = "award" if acting.n_called else "directed"

        async def run(job: Job) -> bool:
            is_done = await running.serve(job, acting, awards[job.id], how)
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
        self.is_done = await self._running.serve(self._job, acting, acting.awards, by)
