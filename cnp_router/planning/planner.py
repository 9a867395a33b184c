"""`Planner`: makes a plan once, from all that is known, and revises it where jobs failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cnp_router import telemetry
from cnp_router.agents import DoneJob, FailedJob, PlanJobs, PlannedJobs
from cnp_router.catalog import Api
from cnp_router.closest import closest
from cnp_router.exceptions import ChatAnswerError, InputError
from cnp_router.execution import Job, Plan
from cnp_router.llm import ChatModel, Usage, completed
from cnp_router.llm.parsing import repair_request
from cnp_router.planning.booked import BookedModel
from cnp_router.planning.workspace import Workspace
from cnp_router.printing import printable
from cnp_router.protocols.metered import Books
from cnp_router.records import (
    check_instance,
    check_number,
    check_request,
    check_text,
    instances,
    string_tuple,
)

__all__ = ["Planner"]

_MOST_SAID = 300  # characters of what is wrong with a plan


class Planner:
    """Has a model make the plan of a request.

    The model is shown request, profile, tools, hints, recommended items and the state of the
    workspace. What it answers is checked: tools that are not in the list, jobs that wait for each
    other in a circle or for one that is not there are told to it once; then it is an error.

    Parameters
    ----------
    model : ChatModel
    max_jobs : int >= 1, default=30
        Of a plan, those that are done not counted.
    remembered : str, default=""
        What was done before, such as `Memory.for_prompt` says; shown after the profile.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.testing import ScriptedChatModel
    >>> job = {"id": "place", "task": "Find Kyoto.", "api": "maps__find", "inputs": None,
    ...        "after": ["hotel"]}
    >>> wrong, right = ({"guideline": "", "jobs": [{**job, "after": a}]} for a in (["x"], []))
    >>> planner = Planner(model := ScriptedChatModel([wrong, right]))
    >>> tools = (Api("maps__find", "find", "Finds places."),)
    >>> plan = asyncio.run(planner.plan("Where is Kyoto?", apis=tools))
    >>> plan.jobs[0].api, len(model.calls)
    ('maps__find', 2)
    """

    def __init__(self, model: ChatModel, *, max_jobs: int = 30, remembered: str = "") -> None:
        self.model = check_instance("model", model, ChatModel)
        self.max_jobs = check_number("max_jobs", max_jobs, 1, whole=True)
        self.remembered = check_text("remembered", remembered)

    async def plan(
        self,
        request: str,
        *,
        apis: Iterable[Api],
        workspace: Workspace | None = None,
        profile: str = "",
        recommended: Iterable[Mapping[str, Any]] | None = None,
        hints: Iterable[str] | None = None,
        books: Books | None = None,
        known: Iterable[str] = (),
    ) -> Plan:
        """Return the plan of a request.

        Parameters
        ----------
        request : str
        apis : iterable of Api
            The tools that jobs may name, at least one.
        workspace : Workspace, optional
            Gives state, rules that are not met, hints and recommended items.
        profile : str, default=""
            What is known of the user. It is in no prompt but the planner's.
        recommended, hints : optional
            In place of those of the workspace.
        books : Books, optional
            Where the answers are booked.
        known : iterable of str, default=()
            Ids of tools that are there and not shown; a plan may name them.

        Raises
        ------
        LanguageModelError
            If the model gives no usable plan, also after it was told what is wrong.
        InputError
            If a value cannot be used.
        """
        if workspace is not None:
            hints = workspace.hints() if hints is None else hints
            recommended = workspace.recommended() if recommended is None else recommended
        task = PlanJobs(
            check_request(request),
            _tools(apis),
            profile=self._about(profile),
            hints=string_tuple("hints", hints or ()),
            recommended=tuple(recommended or ()),
            **_situation(workspace),
        )
        plan = await self._ask(task, (), books, known)
        assert plan is not None  # nothing has failed
        return plan

    async def revise(
        self,
        plan: Plan,
        *,
        apis: Iterable[Api],
        done: Iterable[DoneJob] = (),
        failed: Iterable[FailedJob] = (),
        workspace: Workspace | None = None,
        profile: str = "",
        books: Books | None = None,
        known: Iterable[str] = (),
    ) -> Plan | None:
        """Return another plan for what is left of one; None where the model plans nothing more.

        Jobs that are done are in it as they were; the model is asked for the others only.

        Parameters
        ----------
        plan : Plan
        apis, workspace, profile, books, known
            As in `plan`.
        done : iterable of DoneJob, default=()
        failed : iterable of FailedJob, default=()

        Raises
        ------
        LanguageModelError, InputError
            As in `plan`.
        """
        there = instances("done", done, DoneJob)
        task = PlanJobs(
            plan.request,
            _tools(apis),
            profile=self._about(profile),
            hints=workspace.hints() if workspace else (),
            recommended=workspace.recommended() if workspace else (),
            guideline=plan.guideline,
            done=there,
            failed=instances("failed", failed, FailedJob),
            **_situation(workspace),
        )
        ids = {job.id for job in there}
        kept = tuple(job for job in plan.jobs if job.id in ids)
        return await self._ask(task, kept, books, known)

    def _about(self, profile: str) -> str:
        return "\n".join(filter(None, [check_text("profile", profile), self.remembered]))

    async def _ask(
        self,
        task: PlanJobs,
        kept: tuple[Job, ...],
        books: Books | None,
        known: Iterable[str],
    ) -> Plan | None:
        with telemetry.span("plan", {"gen_ai.operation.name": "plan"}) as span:
            plan = await self._made(task, kept, books, known)
            span.set(cnp_router__jobs=0 if plan is None else len(plan.jobs))
        return plan

    async def _made(
        self,
        task: PlanJobs,
        kept: tuple[Job, ...],
        books: Books | None,
        known: Iterable[str],
    ) -> Plan | None:
        there = {*known, *(api.id for api in task.apis)}
        model = self.model if books is None else BookedModel(self.model, books)
        request, usage, calls = task.chat_request(), Usage(0, 0, "server"), 0
        for is_last in (False, True):
            response = await completed(model, request)
            usage, calls = usage + response.usage, calls + response.calls
            try:
                said = task.read(response.data)
                if task.failed and not said.jobs:
                    return None
                return self._checked(task, said, kept, there)
            except (InputError, ChatAnswerError) as exc:
                why = exc.problem if isinstance(exc, ChatAnswerError) else str(exc)
                problem = printable(why, _MOST_SAID)
                if is_last:
                    raise ChatAnswerError(
                        f"no plan can be made of the answer: {problem}",
                        model=response.model,
                        usage=usage,
                        calls=calls,
                    ) from None
            request = repair_request(request, response.text, problem)
        raise AssertionError

    def _checked(
        self, task: PlanJobs, said: PlannedJobs, kept: tuple[Job, ...], known: Collection[str]
    ) -> Plan:
        """Return the plan that is meant, or raise InputError with what is wrong with it."""
        there = {job.id for job in kept}
        new = [job for job in said.jobs if job.id not in there]
        if not new:
            raise InputError("the plan has no job that is to be done (give it at least one)")
        if len(new) > self.max_jobs:
            raise InputError(f"the plan has {len(new)} jobs (give it at most {self.max_jobs})")
        for job in new:
            if job.api is not None and job.api not in known:
                close = closest(job.api, known)
                cure = f"did you mean {close[0]!r}?" if close else "name one of the list, or null"
                raise InputError(f"job {job.id!r}: there is no tool {job.api!r} ({cure})")
        jobs = tuple(
            Job(job.id, job.task, job.api, job.inputs if job.api else None, job.after)
            for job in new
        )
        return Plan(task.request, (*kept, *jobs), said.guideline or task.guideline)

    def __repr__(self) -> str:
        return f"Planner({self.model!r})"


def _tools(apis: Iterable[Api]) -> tuple[Api, ...]:
    tools = instances("apis", apis, Api)
    if not tools:
        raise InputError("a planner needs at least one tool (got none)")
    return tools


def _situation(workspace: Workspace | None) -> dict[str, Any]:
    if workspace is None:
        return {}
    unmet = string_tuple("what Workspace.unmet gives", workspace.unmet())
    return {"state": workspace.state(), "unmet": unmet}
