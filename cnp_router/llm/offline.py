"""`OfflineChatModel`: answers from the typed task of a request, with no network.

The prompts are rendered and counted as for a real model, so traffic figures are those of the real
prompts. How a task is answered is not known here: the room that has the tasks hands it in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.llm.chat import ChatModel, ChatRequest, ChatResponse
from cnp_router.llm.tokens import estimated_response

__all__ = ["OfflineChatModel"]


class OfflineChatModel(ChatModel):
    """A stand-in for a language model: deterministic and free; it does not measure quality.

    Parameters
    ----------
    answers : mapping of type to callable
        For each type of task, the function that turns such a task into the answer: a mapping that
        fits the schema of the request, or a text where it has none. A subclass is answered as its
        nearest base.
    name : str, default="offline"

    Examples
    --------
    >>> from cnp_router.llm import ChatMessage, complete_sync
    >>> model = OfflineChatModel({str: lambda task: {"apis": [task]}})
    >>> request = ChatRequest([ChatMessage("user", "Which APIs?")], {"type": "object"}, task="maps")
    >>> response = complete_sync(model, request)
    >>> response.data, response.usage.source
    ({'apis': ['maps']}, 'estimated')
    """

    def __init__(
        self,
        answers: Mapping[type, Callable[[Any], Mapping[str, Any] | str]],
        *,
        name: str = "offline",
    ) -> None:
        self.answers: dict[type, Callable[[Any], Mapping[str, Any] | str]] = dict(answers)
        self.name = name

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Answer the task of a request, with estimated usage and 0 seconds: the same each time.

        A task of another type is an InputError, an answer off the schema a ChatAnswerError.
        """
        await asyncio.sleep(0)  # as a real model does: others get their turn, deadlines are kept
        for kind in type(request.task).__mro__:
            if kind in self.answers:
                return estimated_response(request, self.answers[kind](request.task), self.name)
        known = ", ".join(kind.__name__ for kind in self.answers) or "none"
        raise InputError(
            f"the offline model has no answer to a task of type {type(request.task).__name__} "
            f"(it knows: {known})"
        )

    def __repr__(self) -> str:
        return f"OfflineChatModel({self.name!r}, {len(self.answers)} kinds of task)"
