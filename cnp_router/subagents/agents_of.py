"""Agents out of what the library has: a contract net of its own, or a model with a few tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cnp_router.execution import ExecutionSettings, Executor, Filler, JobEvent
from cnp_router.execution.approval import Approve
from cnp_router.execution.job_reports import Execution
from cnp_router.execution.sharing import HIDDEN
from cnp_router.llm import ChatModel, ChatRequest, ChatResponse, WrappedChatModel
from cnp_router.planning import ReAct
from cnp_router.protocols import ContractNet
from cnp_router.records import check_instance, string_tuple
from cnp_router.sources import CallFailure, Sources
from cnp_router.subagents.question import Answer, Question, unique

__all__ = ["ModelAgent", "NetAgent"]

_UNDONE = "it was not done"


class NetAgent:
    """Has a question executed by a contract net: its router finds the tools, its awards act."""

    def __init__(
        self,
        net: ContractNet,
        sources: Sources,
        settings: ExecutionSettings | None,
        approve: Approve | None,
    ) -> None:
        self.net = check_instance("net", net, ContractNet)
        self.sources = sources
        self.settings = settings
        self.approve = approve

    async def __call__(self, question: Question) -> Answer:
        """Execute what is asked, and answer with the results."""
        model = _Booked(self.net.model, question)
        net = _with_model(self.net, model)

        def watch(event: JobEvent) -> None:
            if event.state == "acting" and not event.text:
                question.tell(f"calls {event.api}")

        executor = Executor(
            net,
            self.sources,
            settings=self.settings,
            approve=self.approve,
            filler=Filler(model),
            watch=watch,
        )
        question.turn("asks its contractors")
        execution = await executor.execute(
            _told(question), announcement="broadcast" if net.router is None else "routed"
        )
        return _answered(execution, execution.is_done, execution.problem)


class ModelAgent:
    """Has a model call a few tools, one a turn, until it says that it is done."""

    def __init__(
        self,
        model: ChatModel,
        sources: Sources,
        tools: Iterable[str] | None,
        settings: ExecutionSettings | None,
        approve: Approve | None,
    ) -> None:
        self.model = check_instance("model", model, ChatModel)
        self.sources = sources
        self.tools = None if tools is None else string_tuple("tools", tools)
        self.settings = settings
        self.approve = approve

    async def __call__(self, question: Question) -> Answer:
        """Call tools until it is done, and answer with the results."""
        model = _Booked(self.model, question, in_turns=True)
        catalog = await self.sources.catalog()
        apis = [catalog[name] for name in (catalog.ids if self.tools is None else self.tools)]
        executor = Executor(
            ContractNet(catalog, model),
            self.sources,
            settings=self.settings,
            approve=self.approve,
        )
        agent = ReAct(executor, max_turns=question.max_turns)
        run = await agent.run(_told(question), apis=apis)
        return _answered(run.execution, run.is_done, run.problem)


class _Booked(WrappedChatModel):
    """A model whose answers are booked to a question, with a turn for each if that is wanted."""

    def __init__(self, model: ChatModel, question: Question, *, in_turns: bool = False) -> None:
        super().__init__(model)
        self.question = question
        self.in_turns = in_turns

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the model, and book what it has cost."""
        if self.in_turns:
            self.question.turn("thinks")
        response = await super().complete(request)
        self.question.book(response.usage)
        return response


def _told(question: Question) -> str:
    """Return the text, with the arguments behind it."""
    said = [f"{name}: {value}" for name, value in question.arguments.items()]
    return "\n".join([question.text, *said])


def _answered(execution: Execution, is_done: bool, problem: str) -> Answer:
    """Return the results by tool; where a job is missing, with why. Nothing confidential."""
    acts = [act for act in execution.acts if act.result.is_done and act.by != "earlier"]
    results: dict[str, Any] = {
        name: HIDDEN if act.is_confidential else act.result.data
        for name, act in zip(unique(act.api for act in acts), acts, strict=True)
    }
    text = "\n".join(f"{api}: {data}" for api, data in results.items())
    if is_done:
        return Answer(text, results)
    failed = next((act for act in reversed(execution.acts) if act.result.failure), None)
    if failed is None or failed.result.failure is None:
        return Answer(text, results or None, failure=CallFailure("tool", problem or _UNDONE))
    failure = failed.result.failure
    if failed.is_confidential:
        failure = replace(failure, message=HIDDEN, was_done=failure.was_done)
    return Answer(text, results or None, failure=failure)


def _with_model(net: ContractNet, model: ChatModel) -> ContractNet:
    """Return the same net with another model."""
    copied = net.with_settings()
    copied.model = model
    return copied
