"""`ReAct`: one agent chooses call after call for a whole request; the baseline."""

from __future__ import annotations

from collections.abc import Iterable

from cnp_router.agents import NextStep
from cnp_router.catalog import Api
from cnp_router.execution import Executor, Job, Plan
from cnp_router.llm import ChatModel
from cnp_router.planning.booked import BookedModel
from cnp_router.planning.run import Run
from cnp_router.planning.shown_apis import shown_apis
from cnp_router.planning.working import Agent, Situation, Working
from cnp_router.planning.workspace import Workspace
from cnp_router.records import check_flag, check_instance, check_number, check_text
from cnp_router.routing.many import in_thread

__all__ = ["ReAct"]


class ReAct:
    """One agent reasons and acts in turn (Yao et al., 2023), with request, profile and history.

    It has the same tools as `PlanAndExecute`, the same rules are kept, and the same ledger. There
    is no plan: each prompt has all that is known.

    Parameters
    ----------
    executor : Executor
        As of `PlanAndExecute`.
    model : ChatModel, optional
        Default: that of the executor's contract net.
    max_turns : int >= 1, default=40
    history_tokens : int >= 1, default=8000
        Of its turns that it is shown; the last one is shown whatever it takes.
    result_tokens : int >= 1, default=1500
        Of each result that it is shown.
    may_answer : bool, default=False
        Whether it is done, without a workspace, where it says so before it has wanted any call: its
        thought is then the answer. By default at least one call must succeed.

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
    >>> model = ScriptedChatModel([
    ...     {"thought": "", "tool": "maps__find", "inputs": {"name": "Kyoto"}, "done": True}])
    >>> async def main():
    ...     maps = FunctionSource("maps", [find], effects={"find": "reads"})
    ...     async with Sources([maps]) as tools:
    ...         net = ContractNet(await tools.catalog(), model)
    ...         return await ReAct(Executor(net, tools)).run("Where is Kyoto?")
    >>> run = asyncio.run(main())
    >>> run.is_done, run.counts, list(run.tokens_by_role)
    (True, {'called': 1}, ['single-agent'])
    """

    def __init__(
        self,
        executor: Executor,
        *,
        model: ChatModel | None = None,
        max_turns: int = 40,
        history_tokens: int = 8_000,
        result_tokens: int = 1_500,
        may_answer: bool = False,
    ) -> None:
        self.executor = check_instance("executor", executor, Executor)
        self.model = check_instance("model", model or executor.net.model, ChatModel)
        self.max_turns = check_number("max_turns", max_turns, 1, whole=True)
        self.history_tokens = check_number("history_tokens", history_tokens, 1, whole=True)
        self.result_tokens = check_number("result_tokens", result_tokens, 1, whole=True)
        self.may_answer = check_flag("may_answer", may_answer)
        self.last: Run | None = None

    async def run(
        self,
        request: str,
        *,
        apis: Iterable[Api] | None = None,
        workspace: Workspace | None = None,
        profile: str = "",
        user: str | None = None,
    ) -> Run:
        """Have a request served; parameters, result and errors are those of `PlanAndExecute.run`.

        A model that gives no answer ends the run, which says so.
        """
        check_text("profile", profile)
        tools = await in_thread(shown_apis, self.executor, request, apis)
        work = Working(self.executor, tools, workspace, user)
        hints = () if workspace is None else workspace.hints()

        def task(now: Situation) -> NextStep:
            return NextStep(
                request,
                tools,
                state=now.state,
                unmet=now.unmet,
                history=now.history,
                profile=profile,
                hints=hints,
            )

        def missing(has_changed: bool, n_called: int) -> str:
            if workspace is not None:
                return "; ".join(work.unmet)
            return "" if n_called else "no call has succeeded yet"

        limits = self.max_turns, self.history_tokens, self.result_tokens
        may_answer = self.may_answer and workspace is None
        agent = Agent(
            BookedModel(self.model, work.books), tools, task, missing, *limits, may_answer
        )
        whole = Plan(request, (Job("request", request),))

        async def serve() -> None:
            await work.work(whole, lambda job: work.in_turns(job, agent))

        try:
            await self.executor.supervise(work, serve, request, user=user)
        finally:
            self.last = work.run("react", request)
        return self.last
