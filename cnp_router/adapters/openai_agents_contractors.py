"""openai-agents: its tools and agents as contractors."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    MaxTurnsExceeded,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    Tool,
)
from agents import Usage as RunUsage
from agents.function_schema import function_schema
from agents.tool import (
    ToolOutputText,
    invoke_function_tool,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from cnp_router.adapters.foreign_tools import ForeignTools, Invoke, told
from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError
from cnp_router.llm import Usage
from cnp_router.llm.openai_wire import APIError, mapped
from cnp_router.records import instances, shown
from cnp_router.sources import CallFailure
from cnp_router.sources.result_size import MAX_BYTES
from cnp_router.subagents import Answer, Question, SubAgent
from cnp_router.subagents.question import too_many

__all__ = ["FunctionTools", "sub_agent"]


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
        By tool. Where nothing is said, those that need approval write, and others are unknown.
    context : object, optional
        What the tools are given as the context of the run.
    max_concurrency, max_bytes
        As of `FunctionSource`.

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
        max_concurrency: int = 8,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        given = instances("tools", tools, FunctionTool)
        here = [(_api(tool), _invoke(tool, context)) for tool in given if _is_enabled(tool)]
        super().__init__(
            name, here, effects=effects, max_concurrency=max_concurrency, max_bytes=max_bytes
        )


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
    except APIError as exc:
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


def _api(tool: FunctionTool) -> Api:
    name = tool.qualified_name
    effects: Effects = "writes" if tool.needs_approval else "unknown"
    return Api(name, name, tool.description, parameters=_lenient(tool), effects=effects)


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
