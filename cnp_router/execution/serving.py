"""`Serving`: a job goes from award to award until somebody has done it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from cnp_router.execution.approval import Approval
from cnp_router.execution.awards import digest_of
from cnp_router.execution.calling import Then
from cnp_router.execution.doing import Doer
from cnp_router.execution.job_reports import Act, By
from cnp_router.execution.task_graph import Job
from cnp_router.protocols.acting import Acting, AwardedApi

__all__ = ["Serving"]

_SAME = 0.7  # cosine of specifications from which on two tools do the same
_THEN = " (then tried: "


class Serving:
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
                awarded = self._next(acting, failed, is_approved)
            if awarded is None:
                return False
            try:
                act, then = await self.doer.act(job, awarded.api, by)
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
        return await self.doer.caller.ask(Approval(job.id, api, dict(act.inputs), "repeat"))

    def _give_up(self, job: Job, acting: Acting, awarded: AwardedApi, by: By) -> None:
        """Report a call that was broken off while it ran."""
        act = self.doer.given_up(job, awarded.api, by)
        failure = None if act is None else act.result.failure
        if act is None or failure is None:
            return
        self.reports[job.id].acts.append(act)
        acting.failed(
            awarded,
            kind=failure.kind,
            error=failure.message,
            attempts=act.attempts,
            seconds=0.0,
            n_bytes=0,
            was_done="no" if failure.was_done == "no" else "unknown",
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
