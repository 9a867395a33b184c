"""LangChain and LangGraph: agents that are shown the tools a request needs, and the way back.

`RoutedTools` is a middleware of `langchain.agents.create_agent`. `source_tools` makes tools of MCP
servers, OpenAPI documents and A2A agents. `LangChainTools` and `sub_agent` make contractors of
tools and of agents.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools import tool as tool_of
from langgraph.prebuilt.tool_node import INVALID_TOOL_NAME_ERROR_TEMPLATE
from langgraph.types import Command
from pydantic import ConfigDict

from cnp_router.adapters.conversation import MOST_OBSERVED, shown_in
from cnp_router.adapters.langchain_contractors import LangChainTools, schema_of, sub_agent
from cnp_router.adapters.source_tools import SourceTools, said_of, schema_of_inputs
from cnp_router.adapters.tool_choice import ToolChoice
from cnp_router.adapters.tool_definitions import tool_api, tool_id
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.execution.approval import Approve
from cnp_router.records import check_instance
from cnp_router.sources import CallResult, Sources
from cnp_router.trajectories import Step, Trajectory

__all__ = ["LangChainTools", "RoutedTools", "SourceTool", "source_tools", "sub_agent"]

_Result = TypeVar("_Result")

_ANY = {"any", "auto", "none", "required"}  # values of tool_choice that name no tool


class RoutedTools(AgentMiddleware[Any, Any, Any]):
    """A middleware that shows the model at most `choice.k` tools: those that its request needs.

    The request is the newest message of a person that has text. The tools are those of the agent
    and those given here, which the agent need not know: ten thousand may be held here, the chosen
    are bound to the model, and what it calls of them is run by the agent's own node of tools, with
    its treatment of errors and its injected arguments. Tools of the model's provider (mappings) and
    those of a response format stay beside those. The tool that ``tool_choice`` names is shown, and
    what was called before in the conversation stays (see `shown_in`).

    One middleware may serve any number of agents and of runs at the same time, called by `invoke`
    in threads or by `ainvoke`. That a tool is not shown does not forbid it: a model that names
    one that is held here gets it called.

    Parameters
    ----------
    choice : ToolChoice, optional
        Default: ``ToolChoice()``.
    tools : iterable of BaseTool or callable, default=()
        Held here. A callable becomes a tool as with `langchain.tools.tool`.
    request : callable, optional
        Given the messages, returns the text to choose by, or a coroutine of it.

    Raises
    ------
    InputError
        If two tools have the same name.

    Examples
    --------
    >>> from langchain.agents import create_agent
    >>> from langchain_core.language_models import GenericFakeChatModel
    >>> def weather(city: str) -> str:
    ...     '''Says whether it will rain in a city.'''
    ...     return f"Rain in {city}."
    >>> def send_sms(to: str, text: str) -> str:
    ...     '''Sends a text message to a phone.'''
    ...     return "sent"
    >>> class Fake(GenericFakeChatModel):
    ...     def bind_tools(self, tools, **how):
    ...         print("shown:", [tool.name for tool in tools])
    ...         return self
    >>> calls = [{"name": "weather", "args": {"city": "Kyoto"}, "id": "1"}]
    >>> model = Fake(messages=iter([AIMessage("", tool_calls=calls), AIMessage("It will rain.")]))
    >>> agent = create_agent(model, middleware=[RoutedTools(tools=[weather, send_sms])])
    >>> done = agent.invoke({"messages": [("human", "Will it rain in Kyoto?")]})
    shown: ['weather']
    shown: ['weather']
    >>> [message.text for message in done["messages"][2:]]
    ['Rain in Kyoto.', 'It will rain.']
    """

    def __init__(
        self,
        choice: ToolChoice | None = None,
        *,
        tools: Iterable[BaseTool | Callable[..., Any]] = (),
        request: Callable[[Sequence[BaseMessage]], str | Awaitable[str]] | None = None,
    ) -> None:
        super().__init__()
        self.request = request
        self.tools = []  # those are registered with the agent; these need not be
        self.choice = (
            ToolChoice() if choice is None else check_instance("choice", choice, ToolChoice)
        )
        self.held = _by_name(
            each if isinstance(each, BaseTool) else tool_of(each) for each in tools
        )
        self._apis: dict[int, tuple[BaseTool, Api]] = {}

    async def chosen(
        self,
        messages: Sequence[BaseMessage],
        tools: Iterable[BaseTool] = (),
        *,
        always: Iterable[str] = (),
    ) -> list[BaseTool]:
        """Return the tools to show for some messages, for a node of one's own graph.

        Parameters
        ----------
        messages : sequence of BaseMessage
        tools : iterable of BaseTool, default=()
            Beside those held here.
        always : iterable of str, default=()
            More names of tools that are shown whatever the messages say.

        Raises
        ------
        InputError
            If two tools have the same name, one has none that can be used, or more than `choice.k`
            are always shown.
        """
        there = self._there(tools)
        apis = await asyncio.to_thread(self._specifications, tuple(there.values()))
        text = await self._request_of(messages)
        found = await shown_in(self.choice, text, apis, _called(messages), always=always)
        own = {tool_id(name): tool for name, tool in there.items()}
        return [own[api] for api in found]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the model the chosen tools."""
        return handler(_narrowed(request, _in_a_loop(lambda: self._shown(request))))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Show the model the chosen tools."""
        return await handler(_narrowed(request, await self._shown(request)))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run a tool that is held here."""
        return _without_names(request, handler(self._found(request)))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Run a tool that is held here."""
        return _without_names(request, await handler(self._found(request)))

    def observe(
        self,
        result: Mapping[str, Any],
        success: bool | None = None,
        *,
        user: str | None = None,
    ) -> Trajectory:
        """Have its choice learn from a run: which tools it called, and whether that served.

        The request is what it was chosen by when the newest message of a person came.

        Parameters
        ----------
        result : mapping
            What the agent returned: its ``messages``, of which those since the newest of a person
            are looked at.
        success : bool, optional
            Whether the request was served; None if nobody knows.
        user : str, optional
            Whose run it was.

        Returns
        -------
        Trajectory
        """
        said = result["messages"]
        asked = _in_a_loop(lambda: self._request_of(_asked(said) or said))
        return self._learned(asked, result, success, user)

    async def aobserve(
        self,
        result: Mapping[str, Any],
        success: bool | None = None,
        *,
        user: str | None = None,
    ) -> Trajectory:
        """As `observe`, which blocks, in a thread."""
        said = result["messages"]
        asked = await self._request_of(_asked(said) or said)
        return await asyncio.to_thread(self._learned, asked, result, success, user)

    async def _request_of(self, messages: Sequence[BaseMessage]) -> str:
        """Return the text to choose by."""
        if self.request is None:
            asked = _asked(messages)
            return str(asked[-1].text) if asked else ""
        said = self.request(messages)
        return await said if inspect.isawaitable(said) else said

    def _learned(
        self, asked: str, result: Mapping[str, Any], success: bool | None, user: str | None
    ) -> Trajectory:
        messages, answer = result["messages"], _answer_of(result)
        since = messages[len(_asked(messages)) :]
        steps = [step for step in _steps(since) if step.tool != answer]
        return self.choice.observe(asked, steps, success, user=user)

    def _there(self, tools: Iterable[BaseTool]) -> dict[str, BaseTool]:
        """Return all tools by name."""
        own = _by_name(tools)
        for name, tool in own.items():
            if self.held.get(name, tool) is not tool:
                raise InputError(
                    f"the agent and RoutedTools have different tools {name!r} (rename one)"
                )
        return {**own, **self.held}

    def _specifications(self, tools: tuple[BaseTool, ...]) -> tuple[Api, ...]:
        """Return what tools say of themselves; it takes long, so it is made once for each."""
        known, kept = self._apis, {}
        for tool in tools:
            if id(tool) not in known:
                api = tool_api(tool.name, tool.description, schema_of(tool))
                kept[id(tool)] = (tool, api)  # with the tool, lest another gets its number
            else:
                kept[id(tool)] = known[id(tool)]
        self._apis = kept
        return tuple(api for _, api in kept.values())

    async def _shown(self, request: ModelRequest[Any]) -> list[BaseTool]:
        """Return the tools to show in a call of the model."""
        own = [each for each in request.tools if isinstance(each, BaseTool)]
        forced = _forced(request.tool_choice)
        return await self.chosen(request.messages, own, always=[forced] if forced else ())

    def _found(self, request: ToolCallRequest) -> ToolCallRequest:
        held = self.held.get(request.tool_call["name"])
        if request.tool is not None or held is None:
            return request
        return request.override(tool=held)


class SourceTool(BaseTool):
    """A tool of a source, for LangChain; `source_tools` makes them.

    Called asynchronously, or from a thread while the event loop of its sources runs. A failure is
    a message of status ``"error"``, which the model reads; the whole `CallResult` is the artifact.

    Attributes
    ----------
    api : Api
    called_by : SourceTools
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    api: Api
    called_by: SourceTools

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Not by name: an input may be called as a parameter of LangChain's own is.
        if isinstance(tool_input, str):
            raise ToolException(f"its inputs must be an object, got the text {tool_input[:60]!r}")
        return (dict(tool_input), tool_call_id or ""), {}

    def _run(self, inputs: dict[str, Any], key: str) -> tuple[str, CallResult]:
        return _told(self.called_by.call_sync(self.api, inputs, key=key))

    async def _arun(self, inputs: dict[str, Any], key: str) -> tuple[str, CallResult]:
        return _told(await self.called_by.call(self.api, inputs, key=key))


async def source_tools(
    sources: Sources, *, approve: Approve | None = None, timeout: float = 30.0
) -> list[BaseTool]:
    """Return the tools of sources for LangChain: of MCP servers, OpenAPI documents, A2A agents.

    Parameters
    ----------
    sources, approve, timeout
        As of `SourceTools`. The sources are closed after the last run.

    Raises
    ------
    CnpRouterError
        If all sources fail.

    Examples
    --------
    >>> from cnp_router.testing import ScriptedSource
    >>> async def main():
    ...     async with Sources([ScriptedSource("weather", {"today": ["sunny"]})]) as sources:
    ...         (tool,) = await source_tools(sources)
    ...         return tool.name, await tool.ainvoke({})
    >>> asyncio.run(main())
    ('weather__today', 'sunny')
    """
    tools = SourceTools(sources, approve=approve, timeout=timeout)
    return [
        SourceTool(
            name=name,
            description=api.description or api.name,
            args_schema=schema_of_inputs(api),
            response_format="content_and_artifact",
            handle_tool_error=True,
            api=api,
            called_by=tools,
        )
        for name, api in (await tools.named()).items()
    ]


def _told(result: CallResult) -> tuple[str, CallResult]:
    if not result.is_done:
        raise ToolException(said_of(result))
    return said_of(result), result


def _by_name(tools: Iterable[BaseTool]) -> dict[str, BaseTool]:
    named: dict[str, BaseTool] = {}
    for tool in tools:
        if named.setdefault(tool.name, tool) is not tool:
            raise InputError(f"two tools have the name {tool.name!r} (rename one)")
    return named


def _asked(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages up to the newest one of a person that has text, or none."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, HumanMessage) and message.text.strip():
            return messages[: place + 1]
    return ()


def _called(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the names of the tools that were called, newest first."""
    return [
        call["name"]
        for message in reversed(messages)
        if isinstance(message, AIMessage)
        for call in reversed(message.tool_calls)
    ]


def _narrowed(request: ModelRequest[Any], shown: list[BaseTool]) -> ModelRequest[Any]:
    """Return a request with the tools to show, and those of the provider."""
    others = [each for each in request.tools if isinstance(each, dict)]
    return request.override(tools=[*shown, *others])


def _forced(tool_choice: Any) -> str | None:
    """Return the name of the one tool that the model has to call, if there is one."""
    if isinstance(tool_choice, str):
        return None if tool_choice in _ANY else tool_choice
    if not isinstance(tool_choice, dict):
        return None
    name = tool_choice.get("name") or (tool_choice.get("function") or {}).get("name")
    return name if isinstance(name, str) else None


def _steps(messages: Sequence[BaseMessage]) -> list[Step]:
    """Return what tools were called, in order, and what came of it."""
    answers = {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}
    steps = []
    for message in messages:
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            answer = answers.get(call["id"] or "")
            if answer is not None:
                said, success = str(answer.text)[:MOST_OBSERVED], answer.status != "error"
                steps.append(Step(call["name"], dict(call["args"]), said, success=success))
    return steps


def _answer_of(result: Mapping[str, Any]) -> str | None:
    """Return the name of the tool by which a model gave its structured answer, if it did so."""
    messages = result["messages"]
    said = [place for place, each in enumerate(messages) if isinstance(each, AIMessage)]
    if result.get("structured_response") is None or not said or not messages[said[-1]].tool_calls:
        return None
    answer = next(iter(messages[said[-1] + 1 :]), None)  # before those of tools called beside it
    return answer.name if isinstance(answer, ToolMessage) else None


def _without_names(
    request: ToolCallRequest, answer: ToolMessage | Command[Any]
) -> ToolMessage | Command[Any]:
    """Return an answer that does not name all of the agent's tools to a model that guessed one."""
    name = request.tool_call["name"]
    wrong = INVALID_TOOL_NAME_ERROR_TEMPLATE.partition("{available")[0].format(requested_tool=name)
    if not isinstance(answer, ToolMessage) or not str(answer.text).startswith(wrong):
        return answer
    said = f"Error: {name} is not a valid tool; use one of those that you are shown."
    return answer.model_copy(update={"content": said})


def _in_a_loop(work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Return what a coroutine function returns, called from a thread with or without a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as pool:  # somebody called `invoke` where a loop runs
        return pool.submit(lambda: asyncio.run(work())).result()
