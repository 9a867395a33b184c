"""openai-agents: an `Agent` with tools chosen per request; its tools and agents as contractors.

An agent with any number of tools, whose model sees those that the request needs:

>>> from agents import function_tool, set_tracing_disabled
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
import copy
import inspect
import json
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from agents import (
    Agent,
    AgentsException,
    FunctionTool,
    MaxTurnsExceeded,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    TContext,
    Tool,
    ToolCallItem,
    ToolCallOutputItem,
    default_tool_error_function,
)
from agents import Usage as RunUsage
from agents.exceptions import RunErrorDetails
from agents.function_schema import function_schema
from agents.result import RunResultBase
from agents.tool import (
    ToolOutputText,
    invoke_function_tool,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from cnp_router.adapters.foreign_tools import ForeignTools, Invoke, told
from cnp_router.adapters.tool_choice import ToolChoice, tool_api
from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError
from cnp_router.llm import Usage
from cnp_router.llm.openai_wire import mapped
from cnp_router.records import instances, shown
from cnp_router.sources import CallFailure
from cnp_router.subagents import Answer, Question, SubAgent
from cnp_router.subagents.question import too_many, unique
from cnp_router.trajectories import Step, Trajectory

__all__ = ["FunctionTools", "RoutedAgent", "sub_agent"]

_OBSERVATION = 4_000  # characters of a result


@dataclass
class RoutedAgent(Agent[TContext]):
    """An agent whose model sees the few of its tools that the request needs.

    All else is as with an `Agent`: tools of its MCP servers are chosen among the others, handoffs
    are left as they are. So are tools that run at the provider, and those with ``defer_loading``,
    which its own search finds. A tool named by ``tool_use_behavior`` or ``tool_choice`` is always
    shown. Runs that share an agent keep their tools apart.

    Parameters
    ----------
    name, ...
        As those of an `Agent`.
    choice : ToolChoice, optional
        Chooses; by default one that is fitted on the specifications of the tools.
    request : callable, optional
        Given the run's context, returns the text to choose by, or a coroutine of it. By default
        the newest messages of the user that have a text. Where there is no input at all, as when
        a saved run is read, no model is asked, and all tools are there.
    """

    choice: ToolChoice = field(default_factory=ToolChoice)
    request: Callable[[RunContextWrapper[TContext]], str | Awaitable[str]] | None = None

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
        chosen = set(await self.choice.choose(request, apis, always=kept))
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


class FunctionTools(ForeignTools):
    """Function tools as a source: what they raise is a failure that says it.

    So an error function of a tool is not asked, and parameters that a Python function can do
    without are not required here, as strict schemas have it.

    Parameters
    ----------
    name : str
        As that of a `Source`.
    tools : iterable of FunctionTool
        Those of ``function_tool`` and ``Agent.as_tool``, for instance.
    effects : mapping of str to {"reads", "writes", "unknown"}, optional
        By tool; unknown where nothing is said.
    context : object, optional
        What the tools are given as the context of the run.
    **limits
        ``max_concurrency`` and ``max_bytes``, as of `FunctionSource`.

    Raises
    ------
    InputError
        As of `FunctionSource`; or if a tool has guardrails, or says by a function whether it is
        enabled: both need the run of an agent.
    """

    def __init__(
        self,
        name: str,
        tools: Iterable[FunctionTool],
        *,
        effects: Mapping[str, Effects] | None = None,
        context: Any = None,
        **limits: int,
    ) -> None:
        given = instances("tools", tools, FunctionTool)
        here = [
            (
                tool_api(tool.qualified_name, tool.description, _lenient(tool)),
                _invoke(tool, context),
            )
            for tool in given
            if _is_enabled(tool)
        ]
        super().__init__(name, here, effects=effects, **limits)


def sub_agent(
    agent: Agent[Any],
    description: str | None = None,
    *,
    name: str | None = None,
    context: Any = None,
    run_config: RunConfig | None = None,
    **how: Any,
) -> SubAgent:
    """Return an agent as a contractor: it is asked a text, and keeps to its limits.

    Its tokens are counted in any case, those of agents that are its tools once it is done.

    Parameters
    ----------
    agent : Agent
    description : str, optional
        What it can be asked. Default: its ``handoff_description``.
    name : str, optional
        Default: that of the agent.
    context : object, optional
        What its run is given as context.
    run_config : RunConfig, optional
    **how
        As of `SubAgent`: ``max_turns``, ``timeout``, ``effects`` and others.

    Raises
    ------
    InputError
        If nothing describes it, or as of `SubAgent`.
    """
    said = description or agent.handoff_description
    if not said:
        raise InputError(f"agent {agent.name!r} has no description (say what it can be asked)")

    async def answer(question: Question) -> Answer:
        return await _answer(agent, question, context, run_config)

    return SubAgent(name or agent.name, said, answer, **how)


class _Booking(RunHooks[Any]):
    """Counts turns and tokens of one run as they come."""

    def __init__(self, question: Question) -> None:
        self.question = question

    async def on_llm_start(self, *_: Any) -> None:
        self.question.turn("thinks")

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        self.question.book(_usage(response.usage))

    async def on_tool_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool
    ) -> None:
        self.question.tell(f"calls {tool.name}")


async def _answer(
    agent: Agent[Any], question: Question, context: Any, run_config: RunConfig | None
) -> Answer:
    try:
        result = await Runner.run(
            agent,
            told(question),
            context=context,
            max_turns=question.max_turns,
            hooks=_Booking(question),
            run_config=run_config,
        )
    except MaxTurnsExceeded as exc:
        raise too_many(question.max_turns) from exc
    except AgentsException as exc:
        return Answer(failure=CallFailure("tool", f"{type(exc).__name__}: {exc}"))
    except openai.APIError as exc:
        model = agent.model if isinstance(agent.model, str) else type(agent.model).__name__
        raise mapped(exc, model=model, server="its server", timeout=0) from exc
    usage = _usage(result.context_wrapper.usage)
    if result.interruptions:
        waiting = ", ".join(str(item.tool_name) for item in result.interruptions)
        failure = CallFailure("declined", f"nobody approved its calls of {waiting}", "unknown")
        return Answer(failure=failure, usage=usage)
    said = result.final_output
    if isinstance(said, str):
        return Answer(said, usage=usage)
    from pydantic_core import to_jsonable_python

    structured = to_jsonable_python(said)
    return Answer(json.dumps(structured, ensure_ascii=False), structured, usage=usage)


def _usage(usage: RunUsage) -> Usage:
    read = usage.input_tokens
    cached = min(usage.input_tokens_details.cached_tokens, read)
    return Usage(read, usage.output_tokens, "server", cached)


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
        space = _field(item.raw_item, "namespace")
        output = outputs.get(item.call_id)
        steps.append(
            Step(
                f"{space}.{item.tool_name}" if space else item.tool_name,
                _inputs(_field(item.raw_item, "arguments")),
                "" if output is None else str(output)[:_OBSERVATION],
                success=False if output is None or output == failed else None,
            )
        )
    return steps


def _inputs(arguments: Any) -> dict[str, Any]:
    try:
        inputs = json.loads(arguments)
    except (TypeError, ValueError):
        return {}
    return inputs if isinstance(inputs, dict) else {}


def _is_enabled(tool: FunctionTool) -> bool:
    if tool.tool_input_guardrails or tool.tool_output_guardrails:
        raise InputError(
            f"tool {tool.name!r} has guardrails, which only the run of an agent keeps "
            "(give it without, or an agent that has it)"
        )
    if not isinstance(tool.is_enabled, bool):
        raise InputError(
            f"tool {tool.name!r} says by {shown(tool.is_enabled)} whether it is enabled, which "
            "needs the run of an agent (give it where it is)"
        )
    return tool.is_enabled


def _lenient(tool: FunctionTool) -> Mapping[str, Any]:
    """Return the schema of a tool, in which what has a default is not required."""
    try:
        function = tool.__wrapped__
    except AttributeError:  # it was not made of a function
        return tool.params_json_schema
    required = function_schema(function, strict_json_schema=False).params_json_schema.get(
        "required"
    )
    return {**tool.params_json_schema, "required": required or []}


def _invoke(tool: FunctionTool, context: Any) -> Invoke:
    """Return a function of a tool's inputs, which raises what the tool raises."""
    plain = set_function_tool_failure_error_function(copy.copy(tool), None)
    plain.timeout_behavior = "raise_exception"

    async def invoke(inputs: dict[str, Any]) -> Any:
        arguments = json.dumps(inputs)
        own = ToolContext(
            context=context,
            tool_name=tool.name,
            tool_call_id=f"call-{uuid.uuid4().hex}",
            tool_arguments=arguments,
        )
        output = await invoke_function_tool(function_tool=plain, context=own, arguments=arguments)
        return output.text if isinstance(output, ToolOutputText) else output

    return invoke
