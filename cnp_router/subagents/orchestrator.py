"""`Orchestrator`: answers alone what needs no agent, and asks those that the router finds."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from cnp_router.agents import ComposeAnswer, Delegate, Delegation, Task, WantedAsk, ask
from cnp_router.catalog import Catalog
from cnp_router.exceptions import InputError, LanguageModelError
from cnp_router.execution import ExecutionSettings
from cnp_router.execution.approval import Approve
from cnp_router.llm import ChatModel, run_sync
from cnp_router.protocols import Books, MeteredModel, ModelCall
from cnp_router.records import check_instance, check_request, instances, shown, string_tuple
from cnp_router.routing import Router, Routing
from cnp_router.sources import CallFailure
from cnp_router.subagents.in_parallel import (
    TOGETHER,
    AgentResult,
    Ask,
    Merged,
    merge,
    run_parallel,
)
from cnp_router.subagents.question import Answer, Question, QuestionedModel
from cnp_router.subagents.sub_agent import SubAgent
from cnp_router.training import fit_router

__all__ = ["Orchestrator", "Served"]

_LOGGER = logging.getLogger("cnp_router.subagents")

Source = Literal["alone", "agents", "direct"]
Said = TypeVar("Said")


@dataclass(frozen=True, repr=False)
class Served:
    """What came of a request.

    Parameters
    ----------
    request : str
    answer : str
    source : {"alone", "agents", "direct"}
        Who answered: the orchestrator by itself; agents, by its choice; or agents that the router
        recommends, because the orchestrator's model gave no answer.
    routing : Routing
        What the router found.
    asks : tuple of WantedAsk
        Who was asked what: all that an agent was told.
    results : tuple of AgentResult
    calls : tuple of ModelCall
        Of the orchestrator.
    missing : str, default=""
        What the request needs and no agent can do, as the model says.
    problem : str, default=""
        What went wrong with the orchestrator's model, in words.
    """

    request: str
    answer: str
    source: Source
    routing: Routing
    asks: tuple[WantedAsk, ...]
    results: tuple[AgentResult, ...]
    calls: tuple[ModelCall, ...]
    missing: str = ""
    problem: str = ""

    @property
    def merged(self) -> Merged:
        """What came of the agents, together."""
        return merge(self.results)

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, nothing is missing, and no agent has failed."""
        failed = self.problem or self.missing
        return not failed and all(result.is_done for result in self.results)

    @property
    def tokens_by_role(self) -> dict[str, int]:
        """Tokens in and out, of the orchestrator and of all agents."""
        own = sum(call.tokens_in + call.tokens_out for call in self.calls)
        return {"orchestrator": own, "agents": self.merged.total_tokens}

    @property
    def tokens(self) -> int:
        """Tokens in and out, of everybody."""
        return sum(self.tokens_by_role.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "request": self.request,
            "answer": self.answer,
            "source": self.source,
            "missing": self.missing,
            "problem": self.problem,
            "asks": [{"agent": each.agent, "text": each.text} for each in self.asks],
            "merged": self.merged.to_dict(),
            "tokens": self.tokens,
            "tokens_by_role": self.tokens_by_role,
        }

    def __repr__(self) -> str:
        n = len(self.results)
        return f"Served(by {self.source}: {n} agents asked, {self.tokens:,} tokens)"


class Orchestrator:
    """Keeps the conversation, and has agents do what needs them.

    The router finds the agents that a request may need, by what they say of themselves. Where it
    finds that nothing fits, the model is shown none, and answers; otherwise it is shown these, and
    answers all the same or says which of them are asked what. What it says is missing is looked for
    once more, among the other agents. Those chosen are asked at the same time, and are told their
    part and nothing else: no request, no history. Then the model makes one answer of theirs.

    If the model gives no answer to the first question, the router's recommendation is asked
    directly, and `Served.source` says so.

    Parameters
    ----------
    model : ChatModel
    agents : iterable of SubAgent
        With distinct names.
    router : Router, optional
        Over the names of the agents. Default: one fitted on their descriptions.
    timeout : float > 0, seconds, default=300.0
        For the agents.
    settings, approve, sleep
        As of `run_parallel`.

    Raises
    ------
    InputError
        If the router knows other agents, or a value cannot be used.

    Examples
    --------
    >>> from cnp_router import offline_model
    >>> async def look(question):
    ...     return f"You asked: {question.text}"
    >>> agents = [SubAgent("weather", "Forecasts rain, wind and sun for a city.", look),
    ...           SubAgent("trains", "Finds trains between two stations.", look)]
    >>> orchestrator = Orchestrator(offline_model(Catalog([a.api for a in agents])), agents)
    >>> served = orchestrator.serve_sync("Will there be rain in the city of Nara?")
    >>> print(served.answer)
    weather: You asked: Will there be rain in the city of Nara?
    >>> served.source, served.merged.success_count, list(served.tokens_by_role)
    ('agents', 1, ['orchestrator', 'agents'])
    """

    def __init__(
        self,
        model: ChatModel,
        agents: Iterable[SubAgent],
        router: Router | None = None,
        *,
        timeout: float = TOGETHER,
        settings: ExecutionSettings | None = None,
        approve: Approve | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.model = check_instance("model", model, ChatModel)
        self.agents = {agent.name: agent for agent in instances("agents", agents, SubAgent)}
        self.catalog = Catalog(agent.api for agent in self.agents.values())
        self.router = fit_router(self.catalog) if router is None else router
        check_instance("router", self.router, Router)
        for name in self.router.apis:
            if name not in self.agents:
                raise InputError(
                    f"the router routes to {name!r}, which is no agent here (fit it on their names)"
                )
        self.timeout = timeout
        self.settings = settings
        self.approve = approve
        self.sleep = sleep

    def serve_sync(self, request: str, *, history: Iterable[str] = ()) -> Served:
        """Serve a request where there is no event loop; see `serve`."""

        async def run() -> Served:
            async with self.model:
                return await self.serve(request, history=history)

        return run_sync(run, instead="await orchestrator.serve(request)")

    async def serve(self, request: str, *, history: Iterable[str] = ()) -> Served:
        """Answer a request, alone or by agents.

        Parameters
        ----------
        request : str
        history : iterable of str, default=()
            What was said before, the newest last. The orchestrator's model sees it; no agent does.

        Returns
        -------
        Served
            Also where agents have failed.

        Raises
        ------
        InputError
            If the request is blank or not a string.
        LanguageModelError
            If the model gives no answer, and nothing fits that could be asked directly.
        """
        check_request(request)
        routing = await self.router.aroute(request)
        books = Books()
        shown = routing.contractors if routing.fits else ()
        source: Source = "agents"
        problem = ""
        try:
            delegation = await self._delegate(
                request, shown, string_tuple("history", history), books
            )
        except LanguageModelError as exc:
            if not shown:
                raise
            _LOGGER.warning("the orchestrator's model gave no answer: %s", exc)
            source, problem = "direct", str(exc)
            direct = tuple(WantedAsk(name, request) for name in routing.recommendation)
            delegation = Delegation("", direct)
        if not delegation.asks:
            calls, answer = tuple(books.calls), delegation.answer
            return Served(request, answer, "alone", routing, (), (), calls, delegation.missing)
        results = await run_parallel(
            [Ask(self.agents[each.agent], each.text, each.arguments) for each in delegation.asks],
            timeout=self.timeout,
            settings=self.settings,
            approve=self.approve,
            sleep=self.sleep,
        )
        merged = merge(results)
        answer = _plain(merged)
        if source == "agents":
            try:
                compose = ComposeAnswer(request, merged.analyses, merged.errors)
                answer = await self._ask(compose, books)
            except LanguageModelError as exc:
                _LOGGER.warning("the answers of agents were not composed: %s", exc)
                problem = str(exc)
        calls = tuple(books.calls)
        return Served(
            request,
            answer,
            source,
            routing,
            delegation.asks,
            results,
            calls,
            delegation.missing,
            problem,
        )

    async def __call__(self, question: Question) -> Answer:
        """Answer as the agent of a `SubAgent`: an orchestrator may be asked by another one.

        Where all its agents fail, or there is none for it, that is its failure.
        """
        question.turn("asks its agents")
        asked = copy(self)
        asked.model = QuestionedModel(self.model, question)
        served = await asked.serve(question.text)
        failures = [each.result.failure for each in served.results if each.result.failure]
        failure = None
        if failures and len(failures) == len(served.results):
            is_open = any(each.was_done == "unknown" for each in failures)
            said = "; ".join(f"{name}: {why}" for name, why in served.merged.errors.items())
            failure = CallFailure(
                failures[0].kind,
                f"every agent failed: {said}",
                "unknown" if is_open else "no",
            )
        elif not served.results and not served.answer:
            failure = CallFailure("tool", f"there is no agent for {shown(served.missing)}", "no")
        return Answer(served.answer, failure=failure)

    async def _delegate(
        self, request: str, shown: Sequence[str], history: tuple[str, ...], books: Books
    ) -> Delegation:
        """Return who is asked what; what is missing is looked for among the other agents."""
        agents = tuple(self.catalog[name] for name in shown)
        first = await self._ask(Delegate(request, agents, history), books)
        others = tuple(api for api in self.catalog if api.id not in shown)
        if not (first.missing and others):
            return first
        more = await self._ask(Delegate(first.missing, others, history), books)
        return Delegation(first.answer or more.answer, (*first.asks, *more.asks), more.missing)

    async def _ask(self, task: Task[Said], books: Books) -> Said:
        model = MeteredModel(self.model, books, task, "orchestrator")
        return (await ask(model, task)).answer

    def __repr__(self) -> str:
        return f"Orchestrator({len(self.agents)} agents, {self.model.name!r})"


def _plain(merged: Merged) -> str:
    """Return what agents said, one below the other."""
    said = [
        f"{name}: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}"
        for name, data in merged.analyses.items()
    ]
    return "\n".join([*said, *(f"{name} failed: {why}" for name, why in merged.errors.items())])
