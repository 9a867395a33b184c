"""`Sharing`: what an execution takes from shared context and gives to it, within its class."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, TypeVar

from cnp_router import telemetry
from cnp_router.catalog import Api, DataClass
from cnp_router.context import ContextEntry, Found, SharedContext
from cnp_router.context.data_classes import DataClasses, strictest, unlike_contractors
from cnp_router.context.entry_names import call_id
from cnp_router.context.lineage import Fetch
from cnp_router.exceptions import (
    ContextStoreError,
    ExecutionError,
    InputError,
    LanguageModelError,
)
from cnp_router.execution.calling import Performed
from cnp_router.execution.job_reports import Reports
from cnp_router.execution.references import references_in
from cnp_router.execution.task_graph import Job
from cnp_router.sources import CallResult

__all__ = ["HIDDEN", "Sharing"]

HIDDEN = "confidential: it is kept, and not shown here"
"""What stands in the place of something confidential."""

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)


class Sharing:
    """What one execution has to do with shared context.

    Where there is none, or the store is lost, the execution goes on without it, and `problem` says
    why: classes of data hold all the same. What the context or the sources call confidential is.
    """

    def __init__(
        self,
        context: SharedContext | None,
        reports: Reports,
        user: str,
        execution: str,
        fetch: Fetch,
        classes: Mapping[str, str] | None = None,
    ) -> None:
        self.context = context
        self.problem = ""
        self._classes = [DataClasses(classes)] + ([context.classes] if context else [])
        self._reports = reports
        self._user, self._execution = user, execution
        self._fetch = fetch
        self._ids: dict[str, str] = {}  # by job: of its result
        self._offered: set[str] = set()
        self._origins: dict[str, str | None] = {}  # by job: who gave what is confidential in it

    def may_be_referred(self, job: Job, api: str) -> bool:
        """Whether all that the inputs of a job refer to may reach an API."""
        try:
            self.check(job, api)
        except ExecutionError:
            return False
        return True

    def check(self, job: Job, api: str) -> None:
        """Raise ExecutionError where the inputs of a job refer to what must not reach an API."""
        if not job.inputs:
            return
        for name in references_in(job.inputs):
            refusal = self._refusal(name, api) if name in job.after else None
            if refusal is not None:
                raise ExecutionError(
                    f"job {job.id!r}, {api!r}: its inputs refer to the result of job {name!r}, and "
                    f"{refusal} (leave it out, or let its contractor do the job)"
                )

    def may_reach(self, job: str, api: str) -> bool:
        """Whether the result of a job may reach an API that waits for it."""
        return self._refusal(job, api) is None

    def is_confidential(self, api: str, used: Collection[str]) -> bool:
        """Whether what an API gives is confidential, by its class or by what it was given."""
        return self._origin_of(api, used) is not None

    async def offered(self, job: Job, api: Api, goal: str) -> dict[str, CallResult]:
        """Return what is similar enough to a job and may reach an API, by context id."""
        context = self.context
        if context is None:
            return {}
        own = [self._ids[name] for name in job.after if name in self._ids]
        with _timed("offer"):
            found = await self._guarded(
                context.similar(
                    job.task or goal, api, user=self._user, fetch=self._fetch, without=own
                )
            )
        offered = {each.entry.id: each.result for each in found or ()}
        self._offered.update(offered)
        return offered

    async def entries(self, job: Job, api: Api, goal: str) -> tuple[list[ContextEntry], set[str]]:
        """Return the entries that may reach an API, and the ids of those that its job needs."""
        context = self.context
        if context is None:
            return [], set()
        names = [name for name in job.after if name in self._ids and self.may_reach(name, api.id)]
        ids = {self._ids[name] for name in names} - {""}
        needed = [await self._guarded(context.get(each, user=self._user)) for each in sorted(ids)]
        text = job.task or goal
        alike = await self._guarded(context.similar(text, api, user=self._user, without=ids))
        return [each.entry for each in [*needed, *(alike or [])] if each is not None], ids

    async def recall(self, api: Api, inputs: Mapping[str, Any]) -> Found | None:
        """Return what a call gives, where that is known and holds."""
        context = self.context
        if context is None:
            return None
        try:
            find = context.find(api, inputs, user=self._user, fetch=self._fetch)
            with _timed("recall"):
                return await self._guarded(find)
        except InputError:  # inputs that are not JSON: whoever calls says so
            return None

    def recalled(self, job: str, api: str, entry: ContextEntry, used: Collection[str] = ()) -> bool:
        """Take note that a job has its result from an entry, and return whether it is confidential.

        It is by the entry's class, and by all that would make it so were the API called now.
        """
        self._ids[job] = entry.id
        origin = entry.source if entry.data_class == "confidential" else None
        origin = origin or self._origin_of(entry.source, used) or self._origin_of(api, used)
        self._origins[job] = origin
        return origin is not None

    async def begins(self, api: Api) -> str:
        """Take note that an API is called: if it may change something, what it said is old."""
        context = self.context
        if context is None:
            return ""
        return await self._guarded(context.begins(api)) or ""

    async def ended(
        self,
        job: Job,
        api: Api,
        inputs: Mapping[str, Any],
        performed: Performed,
        used: Collection[str],
        goal: str,
        began: str,
    ) -> None:
        """Keep what a call gave."""
        context, origin = self.context, self._origin_of(api.id, used)
        if performed.result.is_done:
            self._origins[job.id] = origin
        if context is None:
            return
        if performed.is_earlier and api.effects == "reads":
            self._ids.setdefault(job.id, call_id(api, inputs, self._user))
        if not performed.attempts:
            return
        await self._guarded(context.written(api))
        if not performed.result.is_done:
            return
        names = [self._ids.get(name, name if name in self._offered else "") for name in used]

        # What is not kept has no class; an agent may have taken inputs from what it has seen.
        at_least: DataClass = "private" if "" in names or self._has_seen(job) else "public"
        if origin is not None:
            at_least = "confidential"

        async def keep() -> str:
            about: dict[str, Any] = {
                "text": job.task or goal,
                "user": self._user,
                "execution": self._execution,
                "as_of": began,
            }
            result = performed.result
            try:
                return await context.keep(
                    api, inputs, result, dependencies=names, at_least=at_least, **about
                )
            except InputError:  # what it was made from was made from what it gave before
                least = strictest([at_least, "private"])
                return await context.keep(api, inputs, result, at_least=least, **about)

        with _timed("keep"):
            self._ids[job.id] = await self._guarded(keep()) or ""

    def _has_seen(self, job: Job) -> bool:
        """Whether a job is done in turns, and something that it was given is not public."""
        report, context = self._reports.get(job.id), self.context
        if report is None or context is None or not report.is_in_turns:
            return False
        return any(a.result.is_done and context.classes.of(a.api) != "public" for a in report.acts)

    def _refusal(self, job: str, api: str) -> str | None:
        origin = self._origin(job)
        return None if origin is None else unlike_contractors(origin, api)

    def _origin(self, job: str) -> str | None:
        """Return who gave what is confidential in the result of a job; None if nothing is."""
        if job not in self._origins and job in self._reports:
            # It was done before the execution was continued: nobody knows what was used.
            report = self._reports[job]
            if report.api is None:
                return None
            self._origins[job] = self._origin_of(report.api, report.after)
        return self._origins.get(job)

    def _origin_of(self, api: str, used: Collection[str]) -> str | None:
        if any(classes.of(api) == "confidential" for classes in self._classes):
            return api
        for name in used:
            origin = self._origin(name)
            if origin is not None and unlike_contractors(origin, api) is None:
                return origin
        return None

    async def _guarded(self, work: Awaitable[T]) -> T | None:
        """Return what shared context says; None from its first fault on, which is noted once."""
        if self.problem:
            work.close()  # type: ignore[attr-defined]  # a coroutine that nobody awaits
            return None
        try:
            return await work
        except (ContextStoreError, LanguageModelError) as exc:
            if not self.problem:
                self.problem = f"shared context is not used any more: {exc}"
                _LOGGER.warning("%s", self.problem)
            return None


def _timed(step: str) -> telemetry.timed:
    """Record how long a step of sharing took."""
    return telemetry.timed("cnp_router.context.propagation.duration", {"step": step})
