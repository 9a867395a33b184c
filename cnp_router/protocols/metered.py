"""`MeteredModel`: checks the budget before each answer of a model, and books it after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cnp_router.agents import Task
from cnp_router.agents.limits import recorded
from cnp_router.exceptions import LanguageModelError, RoundFailedError
from cnp_router.llm import (
    ChatModel,
    ChatRequest,
    ChatResponse,
    Usage,
    WrappedChatModel,
    estimate_request_tokens,
)
from cnp_router.protocols.ledger import ModelCall
from cnp_router.protocols.settings import TrafficBudget

__all__ = ["Books", "MeteredModel"]


class Books:
    """The model calls of a round, and what the budget still takes."""

    def __init__(self, budget: TrafficBudget | None = None) -> None:
        self.budget = budget
        self.calls: list[ModelCall] = []
        self.are_closed = False  # the round is over: who is still at work asks nothing more

    def check(
        self, what: str, requests: Iterable[ChatRequest], *, messages: int = 0, tokens: int = 0
    ) -> None:
        """Raise BudgetExceededError if some more requests do not fit in the budget.

        Their prompts are counted, each with an answer of usual length; `tokens` come on top, and
        `messages` are those of the whole round when it is done. `what` is about to be done.
        """
        if self.are_closed:
            raise RoundFailedError("the round is over")
        if self.budget is None:
            return
        spent = sum(call.tokens_in + call.tokens_out for call in self.calls)
        asked = sum(
            estimate_request_tokens(request) + getattr(request.task, "answer_tokens", 100)
            for request in requests
        )
        self.budget.check(what, tokens=spent + asked + tokens, messages=messages)


class MeteredModel(WrappedChatModel):
    """A model as one agent uses it for a task: nothing is begun that the budget does not take.

    Each answer is booked. `messages` are those of the whole round when this is done, `cfp` is the
    call for proposals that is answered, `role` by default that of the task.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.agents import Decompose, ask
    >>> from cnp_router.testing import ScriptedChatModel
    >>> books, task = Books(TrafficBudget(tokens=1_000)), Decompose("a map")
    >>> scripted = ScriptedChatModel([{"functions": ["map"]}])
    >>> asyncio.run(ask(MeteredModel(scripted, books, task, "manager"), task)).answer.functions
    ('map',)
    >>> [(call.agent, call.stage, call.calls) for call in books.calls]
    [('manager', 'decomposition', 1)]
    """

    def __init__(
        self,
        model: ChatModel,
        books: Books,
        task: Task[Any],
        agent: str,
        *,
        stage: str | None = None,
        messages: int = 0,
        cfp: int | None = None,
        role: str | None = None,
    ) -> None:
        super().__init__(model)
        self.books = books
        self.messages = messages
        stage = stage or task.stage
        self.what = f"the {stage} of the {agent.replace('-', ' ')}"
        if cfp is not None:
            self.what = f"the bid of {agent!r}"
        self._entry: dict[str, Any] = {
            "agent": agent,
            "role": role or task.role,
            "stage": stage,
            "steps": task.steps,
            "cfp": cfp,
        }
        self._place: int | None = None

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the wrapped model, if the budget takes it; what it has cost is booked in any case."""
        self.books.check(self.what, [request], messages=self.messages)
        try:
            response = await super().complete(request)
        except LanguageModelError as exc:
            if exc.usage is not None:
                self._book(exc.usage, self.name_for(request), calls=exc.calls)
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the prompt was sent all the same
                sent = Usage(estimate_request_tokens(request), 0, "estimated")
                self._book(sent, self.name_for(request))
            raise
        self._book(
            response.usage,
            response.model,
            seconds=float(response.seconds),
            calls=response.calls,
            cached=response.cached,
        )
        return response

    def note(self, hallucinated: tuple[str, ...], cut: tuple[str, ...]) -> None:
        """Book what was dropped from the last answer, and what was cut, as in a `ModelCall`."""
        if self._place is not None and (hallucinated or cut):
            call = self.books.calls[self._place]
            self.books.calls[self._place] = replace(
                call, hallucinated=recorded(hallucinated), cut=cut
            )

    def _book(self, usage: Usage, model: str, **more: Any) -> None:
        self._place = len(self.books.calls)
        self.books.calls.append(
            ModelCall(
                model=model,
                tokens_in=usage.tokens_in,
                tokens_out=usage.tokens_out,
                tokens_are=usage.source,
                tokens_cached=usage.tokens_cached,
                **self._entry,
                **more,
            )
        )
