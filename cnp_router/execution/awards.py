"""What awards come to: a plan of jobs, and what is reported of results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

from cnp_router.catalog import Api
from cnp_router.exceptions import DefinitionChangedError, SourceError
from cnp_router.execution.asked_for import acted_on, is_by_router
from cnp_router.execution.job_reports import Act
from cnp_router.execution.task_graph import Job, Plan
from cnp_router.protocols import ContractNet
from cnp_router.protocols.acting import Acting, AwardedApi
from cnp_router.sources import CallFailure, CallResult
from cnp_router.text.prohibition import objection

__all__ = ["Drafting", "digest_of", "failed_with", "plan_of", "reported", "unreachable"]


class Drafting:
    """Turns awards into a plan, and acts on none of them.

    `passed_over` says what of them would not be called, and why.
    """

    def __init__(self, net: ContractNet) -> None:
        self.plan: Plan | None = None
        self.passed_over: tuple[str, ...] = ()
        self._net = net

    async def act(self, acting: Acting) -> None:
        """Make the plan; the awards are then taken back."""
        groups, self.passed_over = await acted_on(acting, self._net)
        if not groups:
            return
        api = self._net.catalog.__getitem__
        self.plan = plan_of(acting.request, [group[0] for group in groups], api)
        if is_by_router(acting):
            for job in self.plan.jobs:
                if job.api and (why := objection(acting.request, api(job.api).effects)):
                    self.passed_over += (f"{job.api}: {why}",)


def plan_of(request: str, awards: Sequence[AwardedApi], api: Callable[[str], Api]) -> Plan:
    """Return awards as a plan: a job each, and what may change something waits for what reads.

    Jobs are numbered: the name of a tool, which is somebody else's text, is seen by its own
    contractor only.

    Examples
    --------
    >>> apis = {"rain": Api("rain", "Rain", effects="reads"), "text": Api("text", "Text")}
    >>> awards = [AwardedApi(4, "text", "text", "Text me."), AwardedApi(5, "rain", "rain", "Rain?")]
    >>> [(job.id, job.api, job.after) for job in plan_of("Text me rain.", awards, apis.get).jobs]
    [('job-1', 'text', ('job-2',)), ('job-2', 'rain', ())]
    """
    ids = [f"job-{number}" for number, _ in enumerate(awards, 1)]
    effects = [api(each.api).effects for each in awards]
    reading = tuple(name for name, each in zip(ids, effects, strict=True) if each == "reads")
    return Plan(
        request,
        tuple(
            Job(name, each.task, each.api, after=() if name in reading else reading)
            for name, each in zip(ids, awards, strict=True)
        ),
    )


def unreachable(exc: SourceError) -> CallResult:
    """Return the result of a tool that could not be called at all."""
    if isinstance(exc, DefinitionChangedError):
        return CallResult.failed("changed", str(exc), text=exc.diff)
    return CallResult.failed("unavailable", str(exc))


def reported(act: Act) -> str:
    """Return what the transcript says of a result: its text, where it may leave the contractor."""
    if act.is_confidential:
        return "confidential: it is with the contractor and with who asked for it"
    return act.result.text or json.dumps(act.result.structured, ensure_ascii=False)


def failed_with(act: Act, failure: CallFailure) -> str:
    """Return why an act failed; what a tool says that is confidential is left out."""
    if act.is_confidential and act.attempts:
        return f"{act.api} failed ({failure.kind}), and what it says is confidential"
    return failure.message


def digest_of(result: CallResult) -> str:
    """Return the SHA-256 of what came back."""
    fields = result.to_dict()
    content = {name: fields[name] for name in ("text", "structured", "attachments")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
