"""pydantic-ai: toolsets with tools chosen per request, tool search by the router; contractors.

A toolset of any number of tools, of which the model sees those that the request needs:

>>> from pydantic_ai import Agent
>>> from pydantic_ai.messages import TextPart
>>> from pydantic_ai.models.function import FunctionModel
>>> from pydantic_ai.toolsets import FunctionToolset
>>> def weather(city: str) -> str:
...     '''Says whether it will rain in a city.'''
...     return f"Rain in {city}."
>>> def share_price(company: str) -> float:
...     '''Looks up the price of a share.'''
...     return 7.0
>>> def say_what_you_see(messages, info):  # in place of a model
...     return ModelResponse(parts=[TextPart(str([tool.name for tool in info.function_tools]))])
>>> tools = FunctionToolset([weather, share_price])
>>> agent = Agent(FunctionModel(say_what_you_see), toolsets=[RoutedToolset(tools)])
>>> asyncio.run(agent.run("Will it rain in Kyoto?")).output
"['weather']"

The other way round, a toolset is a source, and an agent can be asked like any sub-agent:

>>> from cnp_router import Call
>>> source = ToolsetSource("city", tools, effects={"weather": "reads"})
>>> asyncio.run(source.call(Call(api="city__weather", inputs={"city": "Nara"}))).text
'Rain in Nara.'
>>> helper = sub_agent(agent, "Says what it sees.", name="helper")
>>> asyncio.run(helper.ask("What is the price of a share?")).result.text
"['share_price']"
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, ToolSearch
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from cnp_router.adapters.conversation import MOST_OBSERVED, shown_in
from cnp_router.adapters.pydantic_ai_contractors import ToolsetSource, sub_agent
from cnp_router.adapters.source_tools import SourceTools, said_of, schema_of_inputs
from cnp_router.adapters.tool_choice import ToolChoice
from cnp_router.catalog import Api
from cnp_router.execution.approval import Approve
from cnp_router.records import check_instance
from cnp_router.sources import Sources
from cnp_router.trajectories import Step, Trajectory

__all__ = [
    "RoutedTools",
    "RoutedToolset",
    "SourceToolset",
    "ToolsetSource",
    "observe",
    "sub_agent",
    "tool_search",
]

RequestOf = Callable[[RunContext[Any]], str | Awaitable[str]]
"""Makes the text to choose by from the context of a run."""

_MOST_RUNS = 10_000  # of which the text that they chose by is kept
_NO_TOOLS = ("tool-search", "capability-load")  # by which a model finds tools


@dataclass
class RoutedToolset(WrapperToolset[AgentDepsT]):
    """A toolset of which a model sees the few tools that the request needs.

    Its first argument is what it wraps. Wrap all that an agent has at once, since each wrapper
    shows up to `k` tools: a ``CombinedToolset``, or `RoutedTools` for the agent's own as well.
    Tools with ``defer_loading`` are left as they are. Those that ``tool_choice`` in the settings of
    the agent names are always shown, and what was called before in the conversation stays (see
    `shown_in`).
    Runs that share a toolset keep their tools apart.

    Parameters
    ----------
    choice : ToolChoice, optional
        Chooses; by default one that is fitted on the specifications of the tools.
    request : callable, optional
        Given the run's context, returns the text to choose by, or a coroutine of it. By default
        the newest message of the user that has a text.
    asked : OrderedDict, optional
        What `request` said first in each of the newest 10,000 runs, which `observe` needs.
    """

    choice: ToolChoice = field(default_factory=ToolChoice)
    request: RequestOf | None = None
    asked: OrderedDict[str, str] = field(default_factory=OrderedDict, repr=False, compare=False)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools to show now."""
        tools = await self.wrapped.get_tools(ctx)
        here = [tool.tool_def for tool in tools.values() if not tool.tool_def.defer_loading]
        apis = await asyncio.to_thread(_apis, self.choice, here)
        names = {api.id: each.name for api, each in zip(apis, here, strict=True)}
        request = await _request_of(ctx, self.request)
        if self.request is not None and ctx.run_id is not None:
            self.asked.setdefault(ctx.run_id, request)
            if len(self.asked) > _MOST_RUNS:
                self.asked.popitem(last=False)
        needed = _needed(ctx)
        kept = [api for api, name in names.items() if name in needed]
        found = set(await shown_in(self.choice, request, apis, _called(ctx.messages), always=kept))
        hidden = {name for api, name in names.items() if api not in found}
        return {name: tool for name, tool in tools.items() if name not in hidden}


@dataclass
class RoutedTools(AbstractCapability[AgentDepsT]):
    """A capability: of all tools that an agent has, its model sees those that the request needs.

    Parameters
    ----------
    choice, request, asked
        As of `RoutedToolset`.

    Examples
    --------
    >>> from pydantic_ai import Agent
    >>> agent = Agent(tools=[], capabilities=[RoutedTools(ToolChoice(k=5))])
    """

    choice: ToolChoice = field(default_factory=ToolChoice)
    request: RequestOf | None = None
    asked: OrderedDict[str, str] = field(default_factory=OrderedDict, repr=False, compare=False)

    def get_wrapper_toolset(
        self, toolset: AbstractToolset[AgentDepsT]
    ) -> AbstractToolset[AgentDepsT]:
        """Return the agent's tools, routed."""
        return RoutedToolset(toolset, self.choice, self.request, self.asked)


def tool_search(choice: ToolChoice | None = None) -> ToolSearch[Any]:
    """Return the tool search of an agent, with the router as its strategy.

    Tools with ``defer_loading`` are hidden until the model searches; then it sees those that the
    router finds, at most `k` a search. Of several queries each has its turn.

    Parameters
    ----------
    choice : ToolChoice, optional

    Returns
    -------
    ToolSearch
        A capability, for ``Agent(capabilities=[tool_search()])``.
    """
    chooses = ToolChoice() if choice is None else check_instance("choice", choice, ToolChoice)

    async def search(
        ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        apis = await asyncio.to_thread(_apis, chooses, tools)
        names = {api.id: tool.name for api, tool in zip(apis, tools, strict=True)}
        found = [await chooses.choose(query, apis) for query in queries]
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*found))
        distinct = dict.fromkeys(names[api] for api in in_turn if api is not None)
        return list(distinct)[: chooses.k]

    return ToolSearch(strategy=search, max_results=chooses.k)


async def observe(
    choice: ToolChoice | RoutedToolset[Any] | RoutedTools[Any],
    result: AgentRunResult[Any],
    success: bool | None = None,
    *,
    request: str | None = None,
    user: str | None = None,
) -> Trajectory:
    """Have a choice learn from a run: which tools it called, and whether that served.

    Parameters
    ----------
    choice : ToolChoice, RoutedToolset or RoutedTools
        Of one with a ``request`` function, give itself: it knows what it chose by in that run.
    result : AgentRunResult
        Whether a call succeeded is in its messages.
    success : bool, optional
        Whether the request was served; None if nobody knows.
    request : str, optional
        What was asked. Default: what was chosen by, or else the newest message of the user that
        has a text.
    user : str, optional
        Whose run it was.

    Returns
    -------
    Trajectory
    """
    asked = request
    if not isinstance(choice, ToolChoice):
        asked = choice.asked.get(result.run_id) if asked is None else asked
        choice = choice.choice
    asked = _newest(result.all_messages()) if asked is None else asked
    # The attribute that the result itself finds its output by: there is no public one.
    steps = _steps(result.new_messages(), result._output_tool_name)
    return await asyncio.to_thread(choice.observe, asked, steps, success, user=user)


class SourceToolset(AbstractToolset[Any]):
    """The tools of sources as a toolset: of MCP servers, OpenAPI documents, A2A agents.

    A call that fails is told to the model as such; of inputs that do not fit it may try others.

    Parameters
    ----------
    sources, approve, timeout
        As of `SourceTools`. The sources are closed after the last run.

    Examples
    --------
    >>> from pydantic_ai import Agent
    >>> from pydantic_ai.models.test import TestModel  # calls every tool once
    >>> from cnp_router.testing import ScriptedSource
    >>> async def main():
    ...     source = ScriptedSource("weather", {"today": ["sunny"]})
    ...     async with Sources([source]) as sources:
    ...         agent = Agent(TestModel(), toolsets=[SourceToolset(sources)])
    ...         return (await agent.run("How is the weather?")).output
    >>> asyncio.run(main())
    '{"weather__today":"sunny"}'
    """

    def __init__(
        self, sources: Sources, *, approve: Approve | None = None, timeout: float = 30.0
    ) -> None:
        self._held = SourceTools(sources, approve=approve, timeout=timeout)

    @property
    def id(self) -> str | None:
        """None: it has no name of its own."""
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return what the sources have now."""
        return {
            name: _SourceTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=name,
                    description=api.description or api.name,
                    parameters_json_schema=schema_of_inputs(api),
                ),
                max_retries=ctx.max_retries,
                args_validator=_ANY_INPUTS,
                api=api,
            )
            for name, api in (await self._held.named()).items()
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
    ) -> str:
        """Call a tool as it was when the model was shown it."""
        assert isinstance(tool, _SourceTool)
        result = await self._held.call(tool.api, tool_args, key=ctx.tool_call_id or "")
        if result.failure is not None and result.failure.kind == "inputs":
            raise ModelRetry(said_of(result))
        if result.failure is not None:
            raise ToolFailed(said_of(result))
        return said_of(result)


@dataclass(kw_only=True)
class _SourceTool(ToolsetTool[Any]):
    api: Api


_ANY_INPUTS = SchemaValidator(
    core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
)


def _apis(choice: ToolChoice, tools: Iterable[ToolDefinition]) -> list[Api]:
    return [choice.api(each.name, each.description, each.parameters_json_schema) for each in tools]


def _needed(ctx: RunContext[Any]) -> set[str]:
    """Return the names that the settings of the agent ask for."""
    settings = getattr(ctx.agent, "model_settings", None)
    wanted = settings.get("tool_choice") if isinstance(settings, Mapping) else None
    if isinstance(wanted, ToolOrOutput):
        wanted = wanted.function_tools
    return set(wanted) if isinstance(wanted, list) else set()


async def _request_of(ctx: RunContext[Any], request: RequestOf | None) -> str:
    if request is not None:
        said = request(ctx)
        return await said if inspect.isawaitable(said) else said
    return _newest(ctx.messages) or _text(ctx.prompt)


def _called(messages: Sequence[ModelMessage]) -> list[str]:
    """Return the names of the tools that were called, newest first."""
    return [
        part.tool_name
        for message in reversed(messages)
        if isinstance(message, ModelResponse)
        for part in reversed(message.parts)
        if isinstance(part, ToolCallPart)
    ]


def _newest(messages: Sequence[ModelMessage]) -> str:
    """Return the newest message of the user that has a text."""
    for message in reversed(messages):
        if isinstance(message, ModelRequest):
            parts = [part for part in message.parts if isinstance(part, UserPromptPart)]
            said = "\n".join(filter(None, (_text(part.content) for part in parts)))
            if said:
                return said
    return ""


def _text(content: object) -> str:
    """Return the text of a prompt, which may have images and files beside it."""
    if content is None or isinstance(content, str):
        return (content or "").strip()
    parts = content if isinstance(content, Sequence) else ()
    texts = (part if isinstance(part, str) else getattr(part, "content", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def _steps(messages: Sequence[ModelMessage], output_tool: str | None) -> list[Step]:
    """Return the calls of a run with what became of them, but not its searches and its output."""
    parts = [part for message in messages for part in message.parts]
    returned = {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}
    steps = []
    for message in messages:
        for part in message.parts if isinstance(message, ModelResponse) else ():
            if (
                isinstance(part, ToolCallPart)
                and part.tool_kind not in _NO_TOOLS
                and part.tool_name != output_tool
            ):
                back = returned.get(part.tool_call_id)
                steps.append(
                    Step(
                        part.tool_name,
                        part.args_as_dict(),
                        back.model_response_str()[:MOST_OBSERVED] if back else "",
                        success=None if back is None else back.outcome == "success",
                    )
                )
    return steps
