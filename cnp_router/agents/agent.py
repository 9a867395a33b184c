"""`ask`: an agent takes a reasoning task, by a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from cnp_router.agents.limits import AnswerLimits
from cnp_router.agents.tasks import Task
from cnp_router.exceptions import ChatAnswerError
from cnp_router.llm import ChatModel, ChatResponse, completed

__all__ = ["Asked", "ask", "read_response"]

Answer = TypeVar("Answer")

_LIMITS = AnswerLimits()


@dataclass(frozen=True, slots=True)
class Asked(Generic[Answer]):
    """What came of a task: the typed answer, what it has cost, and what of it was cut."""

    answer: Answer
    response: ChatResponse
    cut: tuple[str, ...] = ()  # a phrase for each key that was beyond the limits


async def ask(
    model: ChatModel, task: Task[Answer], limits: AnswerLimits = _LIMITS
) -> Asked[Answer]:
    """Have a model take a task.

    Raises
    ------
    LanguageModelError
        If there is no usable answer.
    InputError
        If the model returns something else than a ChatResponse.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.agents import Decompose
    >>> from cnp_router.testing import ScriptedChatModel
    >>> model = ScriptedChatModel([{"functions": ["show a map"]}])
    >>> asyncio.run(ask(model, Decompose("Concerts on a map"))).answer.functions
    ('show a map',)
    """
    response = await completed(model, task.chat_request())
    return read_response(task, response, limits)


def read_response(
    task: Task[Answer], response: ChatResponse, limits: AnswerLimits = _LIMITS
) -> Asked[Answer]:
    """Return the typed answer in a response; a ChatAnswerError says what it has cost."""
    try:
        answer = task.read(response.data)
        data, cut = limits.cut(response.data or {})
        return Asked(answer if data == response.data else task.read(data), response, cut)
    except ChatAnswerError as exc:
        raise ChatAnswerError(
            exc.problem, model=response.model, usage=response.usage, calls=response.calls
        ) from exc
