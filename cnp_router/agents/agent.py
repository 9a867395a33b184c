"""`ask`: an agent takes a reasoning task, by a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from cnp_router.agents.tasks import Task
from cnp_router.exceptions import ChatAnswerError
from cnp_router.llm import ChatModel, ChatResponse
from cnp_router.llm.schema import misfit

__all__ = ["Asked", "ask", "read_response"]

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asked(Generic[Answer]):
    """What came of a task.

    Parameters
    ----------
    answer : Decomposition, CategoryMapping, Bid, ApiSelection or Composition
    response : ChatResponse
        With what it has cost.
    """

    answer: Answer
    response: ChatResponse


async def ask(model: ChatModel, task: Task[Answer]) -> Asked[Answer]:
    """Have a model take a task.

    Parameters
    ----------
    model : ChatModel
    task : Task

    Returns
    -------
    Asked

    Raises
    ------
    LanguageModelError
        If there is no usable answer.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.agents import Decompose
    >>> from cnp_router.testing import ScriptedChatModel
    >>> model = ScriptedChatModel([{"functions": ["show a map"]}])
    >>> asyncio.run(ask(model, Decompose("Concerts on a map"))).answer.functions
    ('show a map',)
    """
    return read_response(task, await model.complete(task.chat_request()))


def read_response(task: Task[Answer], response: ChatResponse) -> Asked[Answer]:
    """Return the typed answer in a response.

    Raises
    ------
    ChatAnswerError
        If it does not fit the schema of the task; with what it has cost.
    """
    problem = "no JSON object" if response.data is None else misfit(response.data, task.schema)
    if problem is not None or response.data is None:
        raise ChatAnswerError(
            f"the answer does not fit the schema: {problem}",
            model=response.model,
            usage=response.usage,
            calls=response.calls,
        )
    return Asked(task.read(response.data), response)
