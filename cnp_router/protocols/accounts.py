"""`Accounts`: the model calls of a round as they are made, and what the budget still takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cnp_router.agents import Task
from cnp_router.exceptions import LanguageModelError
from cnp_router.llm import ChatResponse, Usage, estimate_request_tokens
from cnp_router.protocols.ledger import ModelCall, Stage
from cnp_router.protocols.settings import TrafficBudget

__all__ = ["Accounts"]


class Accounts:
    """The model calls of a round.

    Parameters
    ----------
    budget : TrafficBudget or None

    Attributes
    ----------
    calls : list of ModelCall
    """

    def __init__(self, budget: TrafficBudget | None) -> None:
        self.budget = budget
        self.calls: list[ModelCall] = []

    def book(
        self,
        response: ChatResponse,
        task: Task[Any],
        stage: Stage,
        agent: str,
        *,
        cfp: int | None = None,
        hallucinated: tuple[str, ...] = (),
    ) -> None:
        """Book an answer.

        Parameters
        ----------
        response : ChatResponse
        task : Task
        stage : str
        agent : str
        cfp : int, optional
            The call for proposals that it answers.
        hallucinated : tuple of str, default=()
        """
        self._add(
            response.usage,
            task,
            stage,
            agent,
            seconds=response.seconds,
            calls=response.calls,
            cached=response.cached,
            cfp=cfp,
            hallucinated=hallucinated,
        )

    def book_failed(
        self,
        exc: LanguageModelError,
        task: Task[Any],
        stage: Stage,
        agent: str,
        *,
        cfp: int | None = None,
    ) -> None:
        """Book the answers that were paid for and could not be used, if there were any."""
        if exc.usage is not None:
            self._add(exc.usage, task, stage, agent, calls=exc.calls, cfp=cfp)

    def book_unanswered(
        self, task: Task[Any], stage: Stage, agent: str, *, cfp: int | None = None
    ) -> None:
        """Book a prompt that was sent and whose answer nobody waited for; its size is estimated."""
        sent = Usage(estimate_request_tokens(task.chat_request()), 0, "estimated")
        self._add(sent, task, stage, agent, cfp=cfp)

    def check_budget(
        self, what: str, tasks: Sequence[Task[Any]], *, messages: int, tokens: int = 0
    ) -> None:
        """Raise BudgetExceededError if some more tasks do not fit in the budget.

        Parameters
        ----------
        what : str
            What is about to be done.
        tasks : sequence of Task
            Their prompts are counted, with an answer of usual length.
        messages : int
            Of the whole round, when it is done.
        tokens : int, default=0
            What comes on top of the tasks.
        """
        if self.budget is None:
            return
        spent = sum(call.tokens_in + call.tokens_out for call in self.calls)
        asked = sum(estimate_request_tokens(t.chat_request()) + t.answer_tokens for t in tasks)
        self.budget.check(what, tokens=spent + asked + tokens, messages=messages)

    def _add(self, usage: Usage, task: Task[Any], stage: Stage, agent: str, **more: Any) -> None:
        self.calls.append(
            ModelCall(
                agent=agent,
                role=task.role,
                stage=stage,
                steps=task.steps,
                tokens_in=usage.tokens_in,
                tokens_out=usage.tokens_out,
                tokens_are=usage.source,
                **more,
            )
        )
