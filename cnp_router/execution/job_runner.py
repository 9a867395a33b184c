"""`JobRunner`: a job goes from award to award until somebody has done it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cnp_router.catalog import Api
from cnp_router.coordination import Negotiator
from cnp_router.coordination.capabilities import SAME
from cnp_router.coordination.coordinated import fits
from cnp_router.exceptions import CoordinationError
from cnp_router.execution.approval import Approval
from cnp_router.execution.awards import digest_of, failed_with, reported
from cnp_router.execution.calling import Then
from cnp_router.execution.doing import Doer
from cnp_router.execution.job_reports import Act, By
from cnp_router.execution.learning import succeeded
from cnp_router.execution.task_graph import Job
from cnp_router.protocols.acting import Acting, AwardedApi
from cnp_router.routing.many import in_thread
from cnp_router.sources.source import SEPARATOR

__all__ = ["JobRunner"]

_THEN = " (then tried: "


class JobRunner:
    """Hands jobs to who was awarded them, and what fails to who comes next."""

    def __init__(self, doer: Doer) -> None:
        self.doer = doer
        self.by = doer.by
        self.reports = doer.reports

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
                awarded = await self._next(job, acting, failed, is_approved)
            if awarded is None:
                return False
            act, then = await self._acted(job, acting, awarded, by)
            result, failure = act.result, act.result.failure
            is_approved = await self._may_go_on(job, acting, act, then)
            then = "reaward" if is_approved else then
            cost: dict[str, Any] = {"seconds": act.seconds, "n_bytes": result.n_bytes}
            if failure is None:
                report.problem = ""
                acting.done(
                    awarded,
                    text=reported(act),
                    digest=digest_of(result),
                    attempts=act.attempts,
                    **cost,
                )
            else:
                unknown = failure.was_done == "unknown" and not self._reads(act.api)
                what = failed_with(act, failure)
                said = what + ("; nobody knows whether it was done" if unknown else "")
                if report.problem:  # the first one is who was wanted
                    first = report.problem.partition(_THEN)[0]
                    if (wanted := report.acts[0].api) not in first:
                        first = f"{wanted}: {first}"
                    tried = ", ".join(dict.fromkeys(each.api for each in report.acts[1:]))
                    said = f"{first}{_THEN}{tried})"
                report.problem = said
                report.is_final = then in ("stop", "escalate")
                acting.failed(
                    awarded,
                    kind=failure.kind,
                    error=what,
                    attempts=act.attempts,
                    was_done="unknown" if unknown else "no",
                    **cost,
                )
            if then != "reaward":
                for other in waiting:
                    acting.cancel(other, "the job is done" if failure is None else "it is given up")
                return failure is None
            failed, by = awarded, "re-award"

    async def _acted(
        self, job: Job, acting: Acting, awarded: AwardedApi, by: By
    ) -> tuple[Act, Then]:
        """Have an API do its act, report it, and let the negotiator see it."""
        negotiator, act, then = self.by.negotiator, None, None
        began = self.reports.now()
        if negotiator is not None:
            negotiator.begin(awarded.api)
        try:
            act, then = await self.doer.act(job, awarded.api, by)
        except asyncio.CancelledError:
            self._give_up(job, acting, awarded, by, began)
            raise
        finally:
            if negotiator is not None:
                negotiator.end(
                    awarded.api,
                    success=None if act is None else succeeded(act),
                    seconds=0.0 if act is None else act.seconds,
                    category=self.reports[job.id].category,
                    execution=self.doer.journal.execution if self.by.is_taught else None,
                )
        return self.reports.add(job.id, act, began), then

    async def _may_go_on(self, job: Job, acting: Acting, act: Act, then: Then) -> bool:
        """Ask whether another one may do what may have been done already."""
        failure = act.result.failure
        if then != "stop" or failure is None or failure.kind == "declined":
            return False
        if not (acting.n_called or self.by.settings.fallback):
            return False  # nobody is left
        api = self.by.net.catalog[act.api]
        return await self.doer.caller.ask(Approval(job.id, api, dict(act.inputs), "repeat"))

    def _give_up(self, job: Job, acting: Acting, awarded: AwardedApi, by: By, began: float) -> None:
        """Report a call that was broken off while it ran."""
        act = self.doer.given_up(job, awarded.api, by)
        failure = None if act is None else act.result.failure
        if act is None or failure is None:
            return
        self.reports.add(job.id, act, began)
        acting.failed(
            awarded,
            kind=failure.kind,
            error=failure.message,
            attempts=act.attempts,
            seconds=0.0,
            n_bytes=0,
            was_done="no" if failure.was_done == "no" else "unknown",
        )

    async def _next(
        self, job: Job, acting: Acting, failed: AwardedApi, is_approved: bool
    ) -> AwardedApi | None:
        """Return who does a job after one who failed.

        Who proposed to do it may. Where nobody did, and it is only alike, nothing but reading goes
        to another one: what creates may be most like what deletes. A negotiator puts them in order.
        """
        rate, reads = self.by.rate, self._reads
        among = None if acting.n_called else reads
        if among is not None and not reads(failed.api):
            return None
        order = None
        if self.by.negotiator is not None:
            names = acting.others_for(failed, among=among)
            order = await self._order(job, failed, names, self.by.negotiator)
        approved = is_approved and bool(acting.n_called)
        return acting.next_for(failed, among=among, rate=rate, order=order, approved=approved)

    async def _order(
        self, job: Job, failed: AwardedApi, names: Sequence[str], negotiator: Negotiator
    ) -> Sequence[str] | None:
        """Return who is left in the order of scores, without those that decline.

        Where there is no coordinator any more, None, and the report says so.
        """
        parties, report = self.by.net.parties, self.reports[job.id]
        like = parties.function_likeness.of(failed.api, names)
        match = {}
        if parties.router is not None:
            scores = await in_thread(parties.router.score, failed.task)
            match = dict(zip(scores.apis, scores.probabilities.tolist(), strict=True))
        known = fits(failed.api, names, like, match)
        try:
            found = await negotiator.negotiate(
                failed.task, names, match=known, category=report.category
            )
        except CoordinationError as exc:
            report.lost = f"the coordinator was lost: {exc}"
            return None
        behind = [name for name in names if name not in found.declined]
        return tuple(dict.fromkeys([*found.order, *behind]))

    def may_replace(self, job: Job, api: str) -> Callable[[str], bool]:
        """Return what says whether another API may do a job that one was named for.

        They are the same function by their words, and have the same effects; and the other one
        takes the inputs that are given, and may have what they refer to. What is only alike comes
        next if it reads, once the named one has failed.
        """
        inputs = job.inputs or {}
        catalog, alike = self.by.net.catalog, self.by.net.parties.function_likeness
        there = getattr(self.by.sources, "names", None)
        effects = catalog[api].effects

        def may(other: str) -> bool:
            if there is not None and other.partition(SEPARATOR)[0] not in there:
                return False
            if catalog[other].effects != effects or not _takes(catalog[other], inputs):
                return False
            if not self.doer.sharing.may_be_referred(job, other):
                return False
            return alike.of(api, [other])[other] >= SAME

        return may

    def _reads(self, api: str) -> bool:
        return self.by.net.catalog[api].effects == "reads"


def _takes(api: Api, inputs: Mapping[str, Any]) -> bool:
    """Return whether an API has parameters of the names that are given."""
    properties = (api.parameters or {}).get("properties")
    return not isinstance(properties, Mapping) or set(inputs) <= set(properties)
