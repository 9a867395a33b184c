"""`Doer`: one act of one contractor, from its inputs to what came back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from cnp_router import telemetry
from cnp_router.catalog import Api
from cnp_router.context import SharedContext
from cnp_router.coordination import Negotiator
from cnp_router.exceptions import ExecutionError, InputError, SourceError
from cnp_router.execution.approval import Approval, Approve
from cnp_router.execution.awards import unreachable
from cnp_router.execution.calling import Caller, Then, Tools
from cnp_router.execution.execution_settings import ExecutionSettings
from cnp_router.execution.filling import Filled, Filler
from cnp_router.execution.job_reports import Act, By, JobEvent, Reports
from cnp_router.execution.journal import Journal
from cnp_router.execution.sharing import Sharing
from cnp_router.execution.task_graph import Job
from cnp_router.protocols import ContractNet, ModelCall
from cnp_router.sources import Call, CallFailure, CallProgress, CallResult

__all__ = ["Doer", "Means"]


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
    context: SharedContext | None = None
    user: str = ""
    negotiator: Negotiator | None = None
    is_taught: bool = False  # whether a store teaches its reputation what this execution shows


class Doer:
    """Has one API do one job: its inputs are filled, it is called, and what came back is kept."""

    def __init__(self, means: Means, journal: Journal, caller: Caller, reports: Reports) -> None:
        self.by = means
        self.journal = journal
        self.caller = caller
        self.reports = reports
        self.goal = ""
        self.by_router = False  # whether it alone chose who acts
        classes = getattr(means.sources, "classes", None)
        whose = means.user, journal.execution
        self.sharing = Sharing(means.context, reports, *whose, self._fetch, classes)
        self._n_before = journal.n_calls

    async def act(self, job: Job, api_id: str, by: By) -> tuple[Act, Then]:
        """Fill the inputs, call the API, and return what came of it and what is to follow."""
        report, sharing = self.reports[job.id], self.sharing

        def nothing(
            result: CallResult, then: Then, call: ModelCall | None = None
        ) -> tuple[Act, Then]:
            return Act(api_id, by, {}, result, 0, 0.0, call), then

        self.reports.enter(report, "filling", api_id)
        try:
            api = await self.by.sources.api(api_id)
            filled = await self._filled(job, api)
        except SourceError as exc:
            return nothing(unreachable(exc), "reaward")
        except (ExecutionError, InputError) as exc:
            call = getattr(exc, "call", None)
            return nothing(CallResult.failed("inputs", str(exc)), "reaward", call)
        is_confidential = sharing.is_confidential(api_id, filled.used)

        def progress(each: CallProgress) -> None:
            share = f"{each.done:g}" + (f" of {each.total:g}" if each.total else "")
            said = "" if is_confidential else each.message
            self.reports.enter(report, "acting", api_id, f"{share} {said}".rstrip())

        self.reports.enter(report, "acting", api_id)
        inputs, key = filled.inputs, None
        for begun in self.journal.unsettled(job.id):
            if begun.api == api_id:  # the same act once more: a model might fill it otherwise now
                inputs, key = dict(begun.inputs), begun.key
        known = None
        if job.id not in self.journal.results and self.journal.earlier(api, inputs) is None:
            known = await sharing.recall(api, inputs)
        if known is not None:
            entry, result = known.entry, known.result
            self.journal.take(job.id, Api(entry.source, api.name, effects="reads"), inputs, result)
            is_secret = sharing.recalled(job.id, api.id, entry, filled.used)
            act = Act(entry.source, "context", inputs, result, 0, 0.0, filled.call, filled.dropped)
            return replace(act, is_confidential=is_secret), "done"
        await self._propagate(job, api)
        began = await sharing.begins(api)
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
        await sharing.ended(job, api, inputs, performed, filled.used, self.goal, began)
        act = Act(
            api_id,
            "earlier" if performed.is_earlier else by,
            inputs,
            performed.result,
            performed.attempts,
            performed.seconds,
            filled.call,
            filled.dropped,
            is_confidential,
        )
        return act, performed.then

    async def _propagate(self, job: Job, api: Api) -> None:
        """Send what is shared to a server that keeps it itself."""
        negotiator = self.by.negotiator
        if negotiator is not None and negotiator.keeps_context(api.id):
            step = {"step": "send"}
            with telemetry.timed("cnp_router.context.propagation.duration", step):
                entries, needed = await self.sharing.entries(job, api, self.goal)
                await negotiator.propagate(api.id, entries, needed=needed)

    async def _filled(self, job: Job, api: Api) -> Filled:
        """Fill the inputs, from what may reach the API and no more."""
        before = {name: self.reports[name] for name in job.after}
        self.sharing.check(job, api.id)
        before = {n: each for n, each in before.items() if self.sharing.may_reach(n, api.id)}
        asks = self.by.filler.asks(job, api)
        offered = await self.sharing.offered(job, api, self.goal) if asks else {}
        return await self.by.filler.fill(
            job,
            api,
            self.goal,
            {name: each.result for name, each in before.items() if each.result},
            apis={name: each.api for name, each in before.items() if each.api},
            offered=offered,
            by_router=self.by_router,
        )

    async def _fetch(self, api: Api, inputs: Mapping[str, Any]) -> CallResult:
        """Make a call that only reads once more, for what has expired in shared context."""
        timeout = self.by.settings.call_timeout
        try:
            return await self.by.sources.call(
                Call(api=api.id, inputs=inputs, timeout=timeout, definition=api)
            )
        except InputError as exc:
            return CallResult.failed("changed", str(exc))

    def given_up(self, job: Job, api: str, by: By, name: str | None = None) -> Act | None:
        """Return the act of a call that was broken off while it ran; None if none was made.

        `name` is that of the call in the journal, where it is not that of the job.
        """
        calls = [
            call
            for call in self.journal.calls_of(name or job.id)
            if call.number >= self._n_before and call.api == api
        ]
        if not calls:
            return None
        was_done: Literal["no", "unknown"] = "no" if calls[-1].effects == "reads" else "unknown"
        result = CallResult(failure=CallFailure("cancelled", "given up while it ran", was_done))
        secret = self.sharing.is_confidential(api, job.after)
        act = Act(api, by, calls[-1].inputs, result, len(calls), 0.0)
        return replace(act, is_confidential=secret)
