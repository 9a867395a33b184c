"""openai-agents: an `Agent` with tools chosen per request; its tools and agents as contractors.

An agent with any number of tools, whose model sees those that the request needs:

>>> from agents import Runner, function_tool, set_tracing_disabled
>>> from agents.testing import ScriptedModel, assistant_message
>>> set_tracing_disabled(True)
>>> @function_tool
... def weather(city: str) -> str:
...     '''Says whether it will rain in a city.'''
...     return f"Rain in {city}."
>>> @function_tool
... def share_price(company: str) -> float:
...     '''Looks up the price of a share.'''
...     return 7.0
>>> model = ScriptedModel([[assistant_message("Take an umbrella.")]])  # says what it is told to
>>> agent = RoutedAgent("helper", tools=[weather, share_price], model=model)
>>> result = asyncio.run(Runner.run(agent, "Will it rain in Kyoto?"))
>>> [tool.name for tool in model.last_call.tools], result.final_output
(['weather'], 'Take an umbrella.')

The other way round, its tools are a source, and an agent can be asked like any sub-agent:

>>> from cnp_router import Call
>>> tools = FunctionTools("city", [weather], effects={"weather": "reads"})
>>> asyncio.run(tools.call(Call(api="city__weather", inputs={"city": "Nara"}))).text
'Rain in Nara.'
>>> model.enqueue([assistant_message("I would.")])
>>> helper = sub_agent(agent, "Says what to wear.")
>>> asyncio.run(helper.ask("Shall I take a coat?")).result.text
'I would.'
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from agents import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    TContext,
    Tool,
    ToolCallItem,
    ToolCallOutputItem,
    default_tool_error_function,
)
from agents.exceptions import RunErrorDetails
from agents.result import RunResultBase
from agents.tool_context import ToolContext

from cnp_router.adapters.conversation import MOST_OBSERVED, shown_in
from cnp_router.adapters.openai_agents_contractors import FunctionTools, sub_agent
from cnp_router.adapters.source_tools import SourceTools, said_of, schema_of_inputs
from cnp_router.adapters.tool_choice import ToolChoice
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.execution.approval import Approve
from cnp_router.records import check_instance, positions, shown
from cnp_router.sources import Sources
from cnp_router.subagents.question import unique
from cnp_router.trajectories import Step, Trajectory

__all__ = ["FunctionTools", "RoutedAgent", "source_tools", "sub_agent"]

_TOOLS = tuple(get_origin(each) or each for each in get_args(Tool))


@dataclass
class RoutedAgent(Agent[TContext]):
    """An agent whose model sees the few of its tools that the request needs.

    It takes what an `Agent` takes, and two arguments more. All else is as with an `Agent`: tools
    of its MCP servers are chosen among the others, handoffs are left as they are. So
    are tools that run at the provider, and those with ``defer_loading``,
    which its own search finds. A tool named by ``tool_use_behavior`` or ``tool_choice`` is always
    shown. What was called before in the conversation stays (see `shown_in`), as a call of a tool
    that is not shown ends the run. Runs that share an agent keep their tools apart.

    Parameters
    ----------
    choice : ToolChoice, optional
        Chooses; by default one that is fitted on the specifications of the tools.
    request : callable, optional
        Given the run's context, returns the text to choose by, or a coroutine of it. By default
        the newest messages of the user that have a text. Where there is no input at all, as when
        a saved run is read, no model is asked, and all tools are there.

    Raises
    ------
    InputError
        If `tools` has something else, or two of the same name that are enabled, or `choice` is
        none. `Agent` raises what it raises.
    """

    choice: ToolChoice = field(default_factory=ToolChoice)
    request: Callable[[RunContextWrapper[TContext]], str | Awaitable[str]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[no-untyped-call]
        check_instance("choice", self.choice, ToolChoice)
        enabled = []
        for tool in self.tools:
            if not isinstance(tool, _TOOLS):
                raise InputError(
                    f"tools must be tools of openai-agents, got {shown(tool)} "
                    "(function_tool makes one of a function)"
                )
            # By a function, it may be enabled where another of the same name is not.
            if isinstance(tool, FunctionTool) and tool.is_enabled is True:
                enabled.append(tool.qualified_name)
        positions("tool", enabled)

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the tools to show now."""
        tools = await super().get_all_tools(run_context)
        if not run_context.turn_input:
            return tools
        here = [t for t in tools if isinstance(t, FunctionTool) and not t.defer_loading]
        names = unique(tool.qualified_name for tool in here)
        apis = await asyncio.to_thread(self._apis, names, here)
        needed = self._needed()
        kept = [
            api.id
            for api, tool in zip(apis, here, strict=True)
            if tool.name in needed or tool.qualified_name in needed
        ]
        request = await self._request_of(run_context)
        called = _called(run_context.turn_input)
        chosen = set(await shown_in(self.choice, request, apis, called, always=kept))
        hidden = {id(tool) for api, tool in zip(apis, here, strict=True) if api.id not in chosen}
        return [tool for tool in tools if id(tool) not in hidden]

    async def observe(
        self,
        result: RunResultBase | RunErrorDetails,
        success: bool | None = None,
        *,
        user: str | None = None,
    ) -> Trajectory:
        """Have its choice learn from a run: which tools it called, and whether that served.

        Parameters
        ----------
        result : RunResult, RunResultStreaming or RunErrorDetails
            What a run returned, or the ``run_data`` of what it raised.
        success : bool, optional
            Whether the request was served; None if nobody knows.
        user : str, optional
            Whose run it was.

        Returns
        -------
        Trajectory
        """
        request = await self._request_of(result.context_wrapper)
        steps = _steps(result)
        return await asyncio.to_thread(self.choice.observe, request, steps, success, user=user)

    def _apis(self, names: Sequence[str], tools: Sequence[FunctionTool]) -> list[Api]:
        return [
            self.choice.api(name, tool.description, tool.params_json_schema)
            for name, tool in zip(names, tools, strict=True)
        ]

    def _needed(self) -> set[str]:
        """Return the names that its settings ask for."""
        wanted = self.model_settings.tool_choice
        names = {wanted} if isinstance(wanted, str) else set()
        if isinstance(self.tool_use_behavior, dict):
            names.update(self.tool_use_behavior["stop_at_tool_names"])
        return names

    async def _request_of(self, context: RunContextWrapper[TContext]) -> str:
        if self.request is None:
            return _newest(context.turn_input)
        said = self.request(context)
        return await said if inspect.isawaitable(said) else said


class _Failed(str):
    """What a model is told of a call that failed."""

    __slots__ = ()


async def source_tools(
    sources: Sources, *, approve: Approve | None = None, timeout: float = 30.0
) -> list[FunctionTool]:
    """Return the tools of sources for agents: of MCP servers, OpenAPI documents, A2A agents.

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
    ...         agent = RoutedAgent("helper", tools=await source_tools(sources))
    ...         return [tool.name for tool in agent.tools]
    >>> asyncio.run(main())
    ['weather__today']
    """
    held = SourceTools(sources, approve=approve, timeout=timeout)

    def tool_of(name: str, api: Api) -> FunctionTool:
        async def invoke(context: ToolContext[Any], arguments: str) -> str:
            try:
                inputs = json.loads(arguments or "{}")
            except ValueError as exc:
                return _Failed(f"inputs: they are not JSON: {exc}")
            result = await held.call(api, inputs, key=context.tool_call_id)
            return said_of(result) if result.is_done else _Failed(said_of(result))

        said, schema = api.description or api.name, schema_of_inputs(api)
        return FunctionTool(name, said, schema, invoke, strict_json_schema=False)

    return [tool_of(name, api) for name, api in (await held.named()).items()]


def _called(items: Iterable[Any]) -> list[str]:
    """Return the qualified names of the functions that were called, newest first."""
    return [
        _qualified(_field(item, "namespace"), _field(item, "name"))
        for item in reversed(list(items))
        if _field(item, "type") == "function_call"
    ]


def _qualified(space: str | None, name: str) -> str:
    return f"{space}.{name}" if space else name


def _newest(items: Iterable[Any]) -> str:
    """Return the newest messages of the user, those without a text between them left out."""
    texts: list[str] = []
    for item in reversed(list(items)):
        if _field(item, "role") == "user":
            texts += [said] if (said := _text(_field(item, "content"))) else []
        elif texts:
            break
    return "\n".join(reversed(texts))


def _text(content: Any) -> str:
    """Return the text of a message, which may have images and files beside it."""
    if isinstance(content, str):
        return content.strip()
    parts = [_field(part, "text") for part in content or ()]
    return "\n".join(part for part in parts if isinstance(part, str)).strip()


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _steps(result: RunResultBase | RunErrorDetails) -> list[Step]:
    """Return the calls of a run; what its error function answered is a failure."""
    failed = default_tool_error_function(result.context_wrapper, Exception())
    outputs = {
        item.call_id: item.output
        for item in result.new_items
        if isinstance(item, ToolCallOutputItem)
    }
    steps = []
    for item in result.new_items:
        if not isinstance(item, ToolCallItem) or not item.tool_name:
            continue
        output = outputs.get(item.call_id)
        steps.append(
            Step(
                _qualified(_field(item.raw_item, "namespace"), item.tool_name),
                _inputs(_field(item.raw_item, "arguments")),
                "" if output is None else str(output)[:MOST_OBSERVED],
                success=_succeeded(output, failed),
            )
        )
    return steps


def _succeeded(output: object, failed: str) -> bool | None:
    """Return whether a call was done; most tools do not say."""
    return False if output is None or output == failed or isinstance(output, _Failed) else None


def _inputs(arguments: Any) -> dict[str, Any]:
    try:
        inputs = json.loads(arguments)
    except (TypeError, ValueError):
        return {}
    return inputs if isinstance(inputs, dict) else {}
