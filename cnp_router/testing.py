"""Strict fakes of a language model, for the tests of this library and of its users."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cnp_router.llm import ChatModel, ChatRequest, ChatResponse, estimated_response
from cnp_router.llm.schema import misfit

__all__ = ["Delayed", "FakeModelError", "FunctionChatModel", "ScriptedChatModel"]


class FakeModelError(AssertionError):
    """A fake was used otherwise than the test said it would be."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """An answer of a `ScriptedChatModel` that comes so many seconds late."""

    seconds: float
    answer: Answer


Answer = str | Mapping[str, Any] | ChatResponse | Exception
Scripted = Answer | Delayed


class FunctionChatModel(ChatModel):
    """A model that answers by a function of the request.

    Parameters
    ----------
    function : callable
        Takes a ChatRequest; returns, or awaits and returns, what a `ScriptedChatModel` takes as
        an answer. What it raises, the caller gets.
    name : str, default="function"

    Attributes
    ----------
    calls : list of ChatRequest

    Examples
    --------
    >>> from cnp_router.llm import ChatMessage, complete_sync
    >>> model = FunctionChatModel(lambda request: request.messages[-1].content.upper())
    >>> complete_sync(model, ChatRequest([ChatMessage("user", "maps")])).text
    'MAPS'
    """

    def __init__(
        self,
        function: Callable[[ChatRequest], Scripted | Awaitable[Scripted]],
        *,
        name: str = "function",
    ) -> None:
        self.function = function
        self.name = name
        self.calls: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Answer by the function."""
        self.calls.append(request)
        answer = self.function(request)
        if inspect.isawaitable(answer):  # at once: a cancelled round leaves no coroutine behind
            answer = await answer
        await asyncio.sleep(0)
        if isinstance(answer, Delayed):
            await asyncio.sleep(answer.seconds)
            answer = answer.answer
        return _response(request, answer, self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ScriptedChatModel(FunctionChatModel):
    """A model that gives prepared answers in order, one a call.

    Parameters
    ----------
    responses : iterable of str, mapping, ChatResponse, Exception or Delayed
        A text is read as that of a real model: with a schema that it does not fit, the caller
        gets a ChatAnswerError. A mapping is the data of the answer, and must fit. A ChatResponse
        is given as it is; an exception is raised.
    name : str, default="scripted"

    Attributes
    ----------
    calls : list of ChatRequest
        All requests so far, unexpected ones too.

    Raises
    ------
    FakeModelError
        At a call beyond the last answer; and from `assert_done` and at the end of ``async with``,
        if answers are left over or there was such a call (in case somebody caught the error).

    Examples
    --------
    >>> from cnp_router.llm import ChatMessage, complete_sync
    >>> model = ScriptedChatModel([{"apis": ["maps"]}])
    >>> request = ChatRequest([ChatMessage("user", "Which APIs?")], {"type": "object"})
    >>> complete_sync(model, request).data
    {'apis': ['maps']}
    >>> complete_sync(model, request)
    Traceback (most recent call last):
        ...
    cnp_router.testing.FakeModelError: call 2 was not expected: there are 1 answers (last message: \
'Which APIs?')
    """

    def __init__(self, responses: Iterable[Scripted], *, name: str = "scripted") -> None:
        super().__init__(self._next, name=name)
        self.responses = list(responses)

    def _next(self, request: ChatRequest) -> Scripted:
        if len(self.calls) > len(self.responses):
            raise FakeModelError(
                f"call {len(self.calls)} was not expected: there are {len(self.responses)} answers "
                f"(last message: {request.messages[-1].content[:200]!r})"
            )
        return self.responses[len(self.calls) - 1]

    def assert_done(self) -> None:
        """Raise FakeModelError unless each answer was given, and no more was asked."""
        if len(self.calls) != len(self.responses):
            prepared, calls = len(self.responses), len(self.calls)
            raise FakeModelError(f"{prepared} answers were prepared, and there were {calls} calls")

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        if error[0] is None:
            self.assert_done()


def _response(request: ChatRequest, answer: Answer, name: str) -> ChatResponse:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, ChatResponse):
        return answer
    if not isinstance(answer, str | Mapping):
        raise FakeModelError(f"a fake cannot answer with {answer!r} (see ScriptedChatModel)")
    if isinstance(answer, Mapping) and request.schema is not None:
        problem = misfit(dict(answer), request.schema)
        if problem is not None:
            raise FakeModelError(f"a prepared answer does not fit the schema: {problem}")
    return estimated_response(request, answer, name)
