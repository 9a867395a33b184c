"""Strict fakes of language models and of sources, for the tests of this library and its users."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cnp_router.catalog import Api
from cnp_router.exceptions import SourceError, shown
from cnp_router.llm import ChatModel, ChatRequest, ChatResponse, estimated_response
from cnp_router.llm.schema import misfit
from cnp_router.sources.source import (
    SEPARATOR,
    Call,
    CallFailure,
    CallResult,
    Source,
    check_source_name,
)

__all__ = ["Delayed", "FakeError", "FunctionChatModel", "ScriptedChatModel", "ScriptedSource"]


class FakeError(AssertionError):
    """A fake was used otherwise than the test said it would be."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """An answer of a `ScriptedChatModel` or `ScriptedSource` that comes so many seconds late."""

    seconds: float
    answer: Any


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
    FakeError
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
    cnp_router.testing.FakeError: call 2 was not expected: there are 1 answers (last message: \
'Which APIs?')
    """

    def __init__(self, responses: Iterable[Scripted], *, name: str = "scripted") -> None:
        super().__init__(self._next, name=name)
        self.responses = list(responses)

    def _next(self, request: ChatRequest) -> Scripted:
        if len(self.calls) > len(self.responses):
            raise FakeError(
                f"call {len(self.calls)} was not expected: there are {len(self.responses)} answers "
                f"(last message: {request.messages[-1].content[:200]!r})"
            )
        return self.responses[len(self.calls) - 1]

    def assert_done(self) -> None:
        """Raise FakeError unless each answer was given, and no more was asked."""
        if len(self.calls) != len(self.responses):
            prepared, calls = len(self.responses), len(self.calls)
            raise FakeError(f"{prepared} answers were prepared, and there were {calls} calls")

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        if error[0] is None:
            self.assert_done()


class ScriptedSource(Source):
    """A source whose tools give prepared results in order, one a call.

    Parameters
    ----------
    name : str
    tools : mapping of str to iterable of results
        By the name of the tool, the results of its calls: a text; another JSON value, which is the
        structured result; a CallResult; a CallFailure; an exception, which is raised; or a
        `Delayed` one of these. One that comes later than the call may take is a failure of kind
        "timeout".
    apis : iterable of Api, default=()
        Definitions of some of the tools, with ids ``name__tool``; the others take any inputs and
        only read.
    unavailable : SourceError, default=None
        What `apis` raises, as a source that cannot be started.
    max_concurrency : int, default=8

    Attributes
    ----------
    calls : list of Call
        All calls so far, unexpected ones too.
    starts : int
        How often it was asked for its tools.
    cancelled : list of Call
        Those that were given up while they ran.
    is_closed : bool
    is_stale : bool
        Set it where the definitions are to be asked for again, as after a restart.

    Raises
    ------
    FakeError
        At a call beyond the last result of its tool; and from `assert_done` and at the end of
        ``async with``, if results are left over or there was such a call. `Sources` makes a
        failure of the first one, as of all that a source raises: call `assert_done`.

    Examples
    --------
    >>> source = ScriptedSource("sky", {"look": ["blue", CallFailure("busy", "later")]})
    >>> look = Call(api="sky__look")
    >>> asyncio.run(source.call(look)), asyncio.run(source.call(look))
    (CallResult('blue'), CallResult(busy: 'later'))
    >>> source.assert_done()
    """

    def __init__(
        self,
        name: str,
        tools: Mapping[str, Iterable[Any]],
        *,
        apis: Iterable[Api] = (),
        unavailable: SourceError | None = None,
        max_concurrency: int = 8,
    ) -> None:
        self.name = check_source_name(name)
        self.max_concurrency = max_concurrency
        self.results = {f"{name}{SEPARATOR}{tool}": list(each) for tool, each in tools.items()}
        self.definitions = {
            id_: Api(id_, tool, effects="reads")
            for id_, tool in zip(self.results, tools, strict=True)
        } | {api.id: api for api in apis}
        self.unavailable = unavailable
        self.calls: list[Call] = []
        self.cancelled: list[Call] = []
        self.starts, self.is_closed = 0, False

    is_stale: bool = False

    async def apis(self) -> tuple[Api, ...]:
        """Return the definitions, which a test may have changed."""
        self.starts += 1
        self.is_stale = False
        if self.unavailable is not None:
            raise self.unavailable
        return tuple(self.definitions.values())

    async def call(self, call: Call) -> CallResult:
        """Give the next result of a tool."""
        self.calls.append(call)
        number = sum(each.api == call.api for each in self.calls)
        prepared = self.results.get(call.api, [])
        if number > len(prepared):
            raise FakeError(
                f"call {number} of {call.api} was not expected: there are {len(prepared)} results "
                f"(inputs: {shown(dict(call.inputs), 200)})"
            )
        result = prepared[number - 1]
        late = result.seconds if isinstance(result, Delayed) else 0
        try:
            await asyncio.sleep(min(late, call.timeout))
        except asyncio.CancelledError:
            self.cancelled.append(call)
            raise
        if late > call.timeout:
            return CallResult.failed("timeout", f"no answer in {call.timeout:g} s")
        return _result(result.answer if isinstance(result, Delayed) else result)

    def assert_done(self) -> None:
        """Raise FakeError unless each result was given, and no more was asked."""
        for api in dict.fromkeys([*self.results, *(call.api for call in self.calls)]):
            prepared = len(self.results.get(api, ()))
            calls = sum(call.api == api for call in self.calls)
            if calls != prepared:
                raise FakeError(
                    f"{prepared} results of {api} were prepared, and there were {calls} calls"
                )

    async def aclose(self) -> None:
        """Say in `is_closed` that it was closed."""
        self.is_closed = True

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        if error[0] is None:
            self.assert_done()


def _result(result: Any) -> CallResult:
    if isinstance(result, Exception):
        raise result
    if isinstance(result, CallFailure):
        return CallResult(failure=result)
    if isinstance(result, str):
        return CallResult(result, n_bytes=len(result.encode()))
    if isinstance(result, CallResult):
        return result
    text = json.dumps(result)
    return CallResult(text, structured=result, n_bytes=len(text))


def _response(request: ChatRequest, answer: Answer, name: str) -> ChatResponse:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, ChatResponse):
        return answer
    if not isinstance(answer, str | Mapping):
        raise FakeError(f"a fake cannot answer with {answer!r} (see ScriptedChatModel)")
    if isinstance(answer, Mapping) and request.schema is not None:
        problem = misfit(dict(answer), request.schema)
        if problem is not None:
            raise FakeError(f"a prepared answer does not fit the schema: {problem}")
    return estimated_response(request, answer, name)
