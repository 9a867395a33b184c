"""`PlanAndExecute`: planned once, done job by job, planned anew where a job failed."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from cnp_router.agents import DoneJob, FailedJob, NextAct
from cnp_router.catalog import Api
from cnp_router.exceptions import CnpRouterError, InputError, LanguageModelError
from cnp_router.execution import Executor, Job, JobReport, Plan
from cnp_router.llm import ChatModel
from cnp_router.planning.booked import BookedModel
from cnp_router.planning.planner import Planner
from cnp_router.planning.proven import OfferPlan, ProvenPlans
from cnp_router.planning.run import Run
from cnp_router.planning.shown_apis import shown_apis, there
from cnp_router.planning.working import Agent, Situation, Working
from cnp_router.planning.workspace import Workspace
from cnp_router.records import check_flag, check_instance, check_number
from cnp_router.routing.many import in_thread

__all__ = ["PlanAndExecute"]


class PlanAndExecute:
    """A planner plans a request once; executors do the jobs (Wang et al., 2023).

    A job that names its API is called with the inputs that the plan gives, filled where it gives
    none. Any other job is done by an executor model in turns, which sees the job, the guideline,
    the state and what its own calls gave: neither the request nor the profile. The engine asks the
    workspace before each call, makes no call twice that has succeeded, and decides by its rules
    when a job and when the whole is done. Where a job failed, or a rule is not met at the end, the
    planner plans what is left; what is done is kept.

    Parameters
    ----------
    planner : Planner or None
        None: plans come from the user, and are not revised.
    executor : Executor
        Has the tools, and who approves, fills and watches; its catalog and its router say which
        tools a request is planned with.
    model : ChatModel, optional
        The executor's. Default: that of the executor's contract net.
    revisions : int >= 0, default=2
        How often the planner may plan anew.
    max_turns : int >= 1, default=10
        Of an executor, for one job.
    history_tokens : int >= 1, default=2000
        Of its own turns that an executor is shown; the last one is shown whatever it takes.
    result_tokens : int >= 1, default=1500
        Of each result that it is shown.
    proven : ProvenPlans, optional
        Keeps each plan whose jobs are all done.
    offer : callable, optional
        Is asked whether a plan of `proven` is run, where there is one for a near-repeat of the
        request; the planner is paid only if there is none, or the answer is False. Without it, no
        such plan is run.

    Attributes
    ----------
    last : Run or None
        The run at hand, or the last one; also where it was cancelled.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router import ContractNet
    >>> from cnp_router.sources import FunctionSource, Sources
    >>> from cnp_router.testing import ScriptedChatModel
    >>> def find(name: str) -> str:
    ...     "Find a place."
    ...     return "in Japan"
    >>> job = {"id": "place", "task": "Find Kyoto.", "api": None, "inputs": None, "after": []}
    >>> planner = Planner(ScriptedChatModel([{"guideline": "Be quick.", "jobs": [job]}]))
    >>> model = ScriptedChatModel([
    ...     {"thought": "", "tool": "maps__find", "inputs": {"name": "Kyoto"}, "done": False},
    ...     {"thought": "", "tool": "", "inputs": {}, "done": True}])
    >>> async def main():
    ...     maps = FunctionSource("maps", [find], effects={"find": "reads"})
    ...     async with Sources([maps]) as tools:
    ...         net = ContractNet(await tools.catalog(), model)
    ...         return await PlanAndExecute(planner, Executor(net, tools)).run("Where is Kyoto?")
    >>> run = asyncio.run(main())
    >>> run, run.execution.results["place"].text, sorted(run.tokens_by_role)
    (Run(plan-and-execute: done, 2 turns, ... tokens), 'in Japan', ['executor', 'planner'])
    """

    def __init__(
        self,
        planner: Planner | None,
        executor: Executor,
        *,
        model: ChatModel | None = None,
        revisions: int = 2,
        max_turns: int = 10,
        history_tokens: int = 2_000,
        result_tokens: int = 1_500,
        proven: ProvenPlans | None = None,
        offer: OfferPlan | None = None,
    ) -> None:
        self.planner = None if planner is None else check_instance("planner", planner, Planner)
        self.executor = check_instance("executor", executor, Executor)
        self.model = check_instance("model", model or executor.net.model, ChatModel)
        self.revisions = check_number("revisions", revisions, 0, whole=True)
        self.max_turns = check_number("max_turns", max_turns, 1, whole=True)
        self.history_tokens = check_number("history_tokens", history_tokens, 1, whole=True)
        self.result_tokens = check_number("result_tokens", result_tokens, 1, whole=True)
        self.proven = proven
        self.offer = offer
        self.last: Run | None = None

    async def plan(
        self,
        request: str,
        *,
        apis: Iterable[Api] | None = None,
        workspace: Workspace | None = None,
        profile: str = "",
    ) -> Plan:
        """Return the plan of a request, and call no tool; parameters and errors are those of `run`.

        It can be written, reviewed, edited, read and run.
        """
        if self.planner is None:
            raise InputError("there is no planner (give one, or a Plan)")
        tools = await in_thread(shown_apis, self.executor, request, apis)
        return await self.planner.plan(request, apis=tools, workspace=workspace, profile=profile)

    async def run(
        self,
        request: str | Plan,
        *,
        apis: Iterable[Api] | None = None,
        workspace: Workspace | None = None,
        profile: str = "",
        user: str | None = None,
    ) -> Run:
        """Plan a request and have it done, or have a plan done.

        Parameters
        ----------
        request : str or Plan
        apis : iterable of Api, optional
            The tools of the plan and of its executors, and no others. Default: whom the router
            chooses for the request, and for each job; all, if they are few.
        workspace : Workspace, optional
            What the jobs work on: its rules are kept, and decide when it is done.
        profile : str, default=""
            What is known of the user; only the planner is told.
        user : str, optional
            Whose it is, in what the executor's store keeps.

        Returns
        -------
        Run
            Also where jobs have failed, rules are not met, or the time is over.

        Raises
        ------
        LanguageModelError
            If there is no usable plan. That of a revision or of an executor is in the run.
        InputError
            If a value cannot be used.
        asyncio.CancelledError
            If it is cancelled; `last` says how far it came.
        """
        text = request.request if isinstance(request, Plan) else request
        tools = await in_thread(shown_apis, self.executor, text, apis)
        given = None if apis is None else tools
        if isinstance(request, Plan):
            shown = {api.id for api in tools}
            named = dict.fromkeys(job.api for job in request.jobs if job.api)
            missing = [name for name in named if name not in shown]
            tools = (*tools, *(self.executor.net.catalog[name] for name in missing))
        work = _Planned(self, tools, given, workspace, profile, user)
        try:
            await self.executor.supervise(
                work, lambda: work.follow_or_make(request), request, user=user
            )
        finally:
            self.last = work.run("plan-and-execute", request)
        return self.last


class _Planned(Working):
    """A run of a plan and its revisions."""

    def __init__(
        self,
        method: PlanAndExecute,
        apis: tuple[Api, ...],
        given: tuple[Api, ...] | None,
        workspace: Workspace | None,
        profile: str,
        user: str | None,
    ) -> None:
        super().__init__(method.executor, apis, workspace, user)
        self.method = method
        self.given = given  # the only tools that there are to be
        if given is None:
            self.how["among"] = [api.id for api in there(method.executor)]
        self.whose: dict[str, Any] = {"user": user, "profile": profile}
        self.raised: dict[str, str] = {}  # by job in turns that an error has ended: what kind

    async def follow_or_make(self, request: str | Plan) -> None:
        """Do a plan, and what is planned anew of it."""
        planner, n_left = self.method.planner, self.method.revisions
        plan = request if isinstance(request, Plan) else await self._first(request)
        while not (is_served := await self._is_served(plan)) and planner is not None and n_left:
            if any(map(self._is_for_a_person, self.reports.values())):
                break
            n_left -= 1
            failed = [report for report in self.reports.values() if report.state != "done"]
            try:
                revised = await planner.revise(
                    plan,
                    done=[self._done(r) for r in self.reports.values() if r.state == "done"],
                    failed=[FailedJob(r.id, r.task, self._why(r), r.api) for r in failed],
                    **self._known(),
                )
            except LanguageModelError as exc:
                self.problem = f"the plan could not be revised: {exc}"
                break
            if revised is None:
                break  # the jobs say what is wrong
            plan = revised
            self.failed += failed
            self.journal.revise(plan)
        if is_served and self.method.proven is not None:
            self.method.proven.keep(plan, **self.whose)

    async def _first(self, request: str) -> Plan:
        """Return a plan that has worked, if there is one and it is accepted; or the planner's."""
        proven, ask = self.method.proven, self.method.offer
        if proven is not None and ask is not None:
            offered = proven.near(request, known=set(self.by.net.catalog.ids), **self.whose)
            if offered is not None:
                with self.standing_still():
                    answer = ask(offered)
                    answer = await answer if inspect.isawaitable(answer) else answer
                if check_flag("the answer to an offered plan", answer):
                    return offered.plan
        if self.method.planner is None:
            raise InputError("there is no planner (give one, or a Plan)")
        return await self.method.planner.plan(request, **self._known())

    def _known(self) -> dict[str, Any]:
        """Return what a planner is told in any case."""
        about = {"apis": self.apis, "workspace": self.workspace, "profile": self.whose["profile"]}
        known = [] if self.given else [api.id for api in there(self.method.executor)]
        return {**about, "books": self.books, "known": known}

    async def _is_served(self, plan: Plan) -> bool:
        """Do what is not done of a plan, and return whether nothing is left to do."""
        self.plans.append(plan)
        await self.work(plan, self._one)
        return not self.unmet and all(each.state == "done" for each in self.reports.values())

    async def _one(self, job: Job) -> bool:
        self.doer.goal = ""  # the request is for the planner alone
        if job.api is not None:
            return await self.in_a_round(job)
        plan, method = self.plans[-1], self.method
        apis = await in_thread(shown_apis, method.executor, job.task, self.given)
        is_wanted = any(job.id in other.after for other in plan.jobs)

        def task(now: Situation) -> NextAct:
            return NextAct(
                job.task,
                apis,
                state=now.state,
                unmet=now.unmet,
                history=now.history,
                guideline=plan.guideline,
                results=self.shown_results(job, method.result_tokens),
            )

        def missing(has_changed: bool, n_called: int) -> str:
            if self.workspace is None or is_wanted:
                return "" if n_called else "no call has succeeded for this job yet"
            return "" if has_changed else "nothing was changed for this job yet"

        model = BookedModel(method.model, self.books)
        limits = method.max_turns, method.history_tokens, method.result_tokens
        self.raised.pop(job.id, None)
        try:
            return await self.in_turns(job, Agent(model, apis, task, missing, *limits))
        except LanguageModelError:
            self.raised[job.id] = "the model of its executor gave no answer"
            raise
        except CnpRouterError:
            self.raised[job.id] = "it was broken off by an error"
            raise

    def _done(self, report: JobReport) -> DoneJob:
        keywords = next((api.keywords for api in self.apis if api.id == report.api), ())
        return DoneJob(report.id, report.task, report.api, keywords)

    def _why(self, report: JobReport) -> str:
        """Return why a job failed, by kinds and rules: no text of a tool or server steers a plan.

        `report.problem` is for people. It may quote an error of anyone, unless the engine wrote it.
        """
        if report.id in self.raised:
            return self.raised[report.id]
        if report.is_in_turns or report.state == "skipped":
            return report.problem
        act = report.acts[-1] if report.acts else None
        failure = act.result.failure if act else None
        if act is None or failure is None:
            return "nobody did it"
        if failure.message in self.guard.reasons:
            return failure.message
        return f"{act.api} failed: {failure.kind}"

    def _is_for_a_person(self, report: JobReport) -> bool:
        """Return whether a person has to look: who did not approve, or can see what was done."""
        return report.is_final and not (report.acts and self.is_ruled_out(report.acts[-1]))
