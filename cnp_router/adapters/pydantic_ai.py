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
import json
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_ai import RunContext, Tool
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, ToolSearch
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    ToolFailed,
    UsageLimitExceeded,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import AgentDepsT, DeferredToolRequests, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_core import to_jsonable_python

from cnp_router.adapters.foreign_tools import ForeignTools, Invoke, told
from cnp_router.adapters.source_tools import SourceTools, said_of, schema_of_inputs
from cnp_router.adapters.tool_choice import ToolChoice
from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import (
    ChatAccessError,
    ChatRateLimitError,
    ChatRequestError,
    ChatTimeoutError,
    ChatUnavailableError,
    InputError,
    LanguageModelError,
)
from cnp_router.execution.approval import Approve
from cnp_router.llm import Usage
from cnp_router.records import check_instance
from cnp_router.sources import Call, CallFailure, CallResult, Sources
from cnp_router.sources.result_size import MAX_BYTES
from cnp_router.subagents import Answer, Question, SubAgent
from cnp_router.subagents.question import too_many
from cnp_router.trajectories import Step, Trajectory

__all__ = [
    "RoutedTools",
    "RoutedToolset",
    "ToolsetSource",
    "observe",
    "source_tools",
    "sub_agent",
    "tool_search",
]

RequestOf = Callable[[RunContext[Any]], str | Awaitable[str]]
"""Makes the text to choose by from the context of a run."""

_OBSERVATION = 4_000  # characters of a result
_KINDS: tuple[tuple[type[ModelAPIError], type[LanguageModelError]], ...] = (
    (ModelRateLimitError, ChatRateLimitError),
    (ModelTimeoutError, ChatTimeoutError),
    (ModelRequestTimeout, ChatTimeoutError),
    (ModelConnectionError, ChatUnavailableError),
    (ModelUnavailableError, ChatUnavailableError),
    (ModelServerError, ChatUnavailableError),
    (ModelAuthenticationError, ChatAccessError),
)


@dataclass
class RoutedToolset(WrapperToolset[AgentDepsT]):
    """A toolset of which a model sees the few tools that the request needs.

    Wrap all that an agent has at once, since each wrapper shows up to `k` tools: a
    ``CombinedToolset``, or `RoutedTools` for the agent's own as well. Tools with
    ``defer_loading`` are left as they are. Those that ``tool_choice`` in the settings of the agent
    names are always shown. Runs that share a toolset keep their tools apart.

    Parameters
    ----------
    wrapped : AbstractToolset
    choice : ToolChoice, optional
        Chooses; by default one that is fitted on the specifications of the tools.
    request : callable, optional
        Given the run's context, returns the text to choose by, or a coroutine of it. By default
        the newest message of the user that has a text.
    """

    choice: ToolChoice = field(default_factory=ToolChoice)
    request: RequestOf | None = None

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools to show now."""
        tools = await self.wrapped.get_tools(ctx)
        here = [tool.tool_def for tool in tools.values() if not tool.tool_def.defer_loading]
        apis = await asyncio.to_thread(_apis, self.choice, here)
        names = {api.id: each.name for api, each in zip(apis, here, strict=True)}
        request = await _request_of(ctx, self.request)
        needed = _needed(ctx)
        found = await self.choice.choose(
            request, apis, always=[api for api, name in names.items() if name in needed]
        )
        hidden = {name for api, name in names.items() if api not in set(found)}
        return {name: tool for name, tool in tools.items() if name not in hidden}


@dataclass
class RoutedTools(AbstractCapability[AgentDepsT]):
    """A capability: of all tools that an agent has, its model sees those that the request needs.

    Parameters
    ----------
    choice, request
        As of `RoutedToolset`.

    Examples
    --------
    >>> from pydantic_ai import Agent
    >>> agent = Agent(tools=[], capabilities=[RoutedTools(ToolChoice(k=5))])
    """

    choice: ToolChoice = field(default_factory=ToolChoice)
    request: RequestOf | None = None

    def get_wrapper_toolset(
        self, toolset: AbstractToolset[AgentDepsT]
    ) -> AbstractToolset[AgentDepsT]:
        """Return the agent's tools, routed."""
        return RoutedToolset(toolset, self.choice, self.request)


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
    choice: ToolChoice,
    result: AgentRunResult[Any],
    success: bool | None = None,
    *,
    request: str | None = None,
    user: str | None = None,
) -> Trajectory:
    """Have a choice learn from a run: which tools it called, and whether that served.

    Parameters
    ----------
    choice : ToolChoice
    result : AgentRunResult
        Whether a call succeeded is in its messages.
    success : bool, optional
        Whether the request was served; None if nobody knows.
    request : str, optional
        What was asked. Default: the newest message of the user that has a text.
    user : str, optional
        Whose run it was.

    Returns
    -------
    Trajectory
    """
    asked = _newest(result.all_messages()) if request is None else request
    steps = _steps(result.new_messages())
    return await asyncio.to_thread(choice.observe, asked, steps, success, user=user)


class ToolsetSource(ForeignTools):
    """A toolset as a source: what its tools raise is a failure that says it.

    A toolset that is a connection is opened for each call, unless it is open already: use the
    source within ``async with toolset``.

    Parameters
    ----------
    name : str
        As that of a `Source`.
    toolset : AbstractToolset
        Such as a ``FunctionToolset``.
    effects : mapping of str to {"reads", "writes", "unknown"}, optional
        By tool. Where nothing is said, those that require approval write, and others are unknown.
    deps : object, optional
        What the tools are given as ``ctx.deps``.
    max_concurrency, max_bytes
        As of `FunctionSource`.

    Raises
    ------
    InputError
        As of `FunctionSource`; from `apis` and `call`, if the toolset has tools that are called
        elsewhere (external ones).
    """

    def __init__(
        self,
        name: str,
        toolset: AbstractToolset[Any],
        *,
        effects: Mapping[str, Effects] | None = None,
        deps: Any = None,
        max_concurrency: int = 8,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        super().__init__(name, (), max_concurrency=max_concurrency, max_bytes=max_bytes)
        self._effects = dict(effects or {})
        self._toolset = check_instance("toolset", toolset, AbstractToolset)
        self._deps = deps

    async def apis(self) -> tuple[Api, ...]:
        """Return the tools that there are now."""
        async with self._toolset:
            tools = await self._toolset.get_tools(self._context())
        outside = [name for name, tool in tools.items() if tool.tool_def.kind == "external"]
        if outside:
            raise InputError(
                f"tool {outside[0]!r} of source {self.name!r} is called elsewhere (leave it out)"
            )
        self._hold((_api(tool.tool_def), self._invoke(tool)) for tool in tools.values())
        return await super().apis()

    async def call(self, call: Call) -> CallResult:
        """Call a tool. What it raises is a `CallResult.failure`."""
        if not self._tools:
            await self.apis()
        return await super().call(call)

    def _context(self, **fields: Any) -> RunContext[Any]:
        # Its model is never asked: a tool may look at it all the same.
        return RunContext(deps=self._deps, model=TestModel(), usage=RunUsage(), **fields)

    def _invoke(self, tool: ToolsetTool[Any]) -> Invoke:
        name = tool.tool_def.name

        async def invoke(inputs: dict[str, Any]) -> Any:
            ctx = self._context(
                tool_name=name, tool_call_id=f"call-{uuid.uuid4().hex}", tool_call_approved=True
            )
            try:
                arguments = tool.args_validator.validate_json(json.dumps(inputs))
            except ValidationError as exc:
                said = exc.errors(include_url=False, include_context=False, include_input=False)
                place = ".".join(map(str, said[0]["loc"]))
                return CallResult.failed("inputs", f"{place}: {said[0]['msg']}")
            try:
                async with self._toolset:
                    return await self._toolset.call_tool(name, arguments, ctx, tool)
            except (ApprovalRequired, CallDeferred) as exc:
                return CallResult.failed("declined", f"it asks for more first: {exc!r}")

        return invoke


def sub_agent(
    agent: AbstractAgent[Any, Any],
    description: str,
    *,
    name: str | None = None,
    deps: Any = None,
    **how: Any,
) -> SubAgent:
    """Return an agent as a contractor: it is asked a text, and keeps to its limits.

    Its tokens are counted in any case.

    Parameters
    ----------
    agent : Agent
    description : str
        What it can be asked.
    name : str, optional
        Default: that of the agent.
    deps : object, optional
        What its run is given.
    **how
        As of `SubAgent`: ``max_turns``, ``timeout``, ``effects`` and others.

    Raises
    ------
    InputError
        As of `SubAgent`.
    """

    async def answer(question: Question) -> Answer:
        return await _answer(agent, question, deps)

    return SubAgent(name or agent.name or "", description, answer, **how)


async def source_tools(
    sources: Sources, *, approve: Approve | None = None, timeout: float = 30.0
) -> list[Tool[Any]]:
    """Return the tools of sources for pydantic-ai: of MCP servers, OpenAPI documents, A2A agents.

    What fails is told to the model, which may try otherwise.

    Parameters
    ----------
    sources, approve, timeout
        As of `SourceTools`.

    Raises
    ------
    CnpRouterError
        If all sources fail.
    """
    tools = SourceTools(sources, approve=approve, timeout=timeout)

    def tool_of(name: str, api: Api) -> Tool[Any]:
        async def call(ctx: RunContext[Any], /, **inputs: Any) -> str:
            result = await tools.call(api, inputs, key=ctx.tool_call_id or "")
            if not result.is_done:
                raise ToolFailed(said_of(result))
            return said_of(result)

        said, schema = api.description or api.name, schema_of_inputs(api)
        return Tool.from_schema(call, name, said, schema, takes_ctx=True)

    return [tool_of(name, api) for name, api in (await tools.named()).items()]


async def _answer(agent: AbstractAgent[Any, Any], question: Question, deps: Any) -> Answer:
    usage = RunUsage()
    limits = UsageLimits(request_limit=question.max_turns)
    try:
        result = await agent.run(told(question), deps=deps, usage=usage, usage_limits=limits)
    except UsageLimitExceeded as exc:
        if usage.requests >= question.max_turns:
            raise too_many(question.max_turns) from exc
        raise
    except ModelAPIError as exc:
        kind = next((ours for theirs, ours in _KINDS if isinstance(exc, theirs)), ChatRequestError)
        raise kind(str(exc), model=exc.model_name, server="its server") from exc
    finally:
        read, cached = usage.input_tokens, usage.cache_read_tokens
        question.book(Usage(read, usage.output_tokens, "server", min(cached, read)))
        for _ in range(min(usage.requests, question.max_turns)):
            question.turn()
    said = result.output
    if isinstance(said, DeferredToolRequests):
        waiting = ", ".join(call.tool_name for call in (*said.approvals, *said.calls))
        failure = CallFailure("declined", f"nobody approved its calls of {waiting}", "unknown")
        return Answer(failure=failure)
    if isinstance(said, str):
        return Answer(said)
    structured = to_jsonable_python(said)
    return Answer(json.dumps(structured, ensure_ascii=False), structured)


def _api(tool: ToolDefinition) -> Api:
    effects: Effects = "writes" if tool.kind == "unapproved" else "unknown"
    return Api(
        tool.name,
        tool.name,
        tool.description or "",
        parameters=tool.parameters_json_schema,
        effects=effects,
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


def _steps(messages: Sequence[ModelMessage]) -> list[Step]:
    """Return the calls of a run with what became of them."""
    parts = [part for message in messages for part in message.parts]
    returned = {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}
    steps = []
    for message in messages:
        for part in message.parts if isinstance(message, ModelResponse) else ():
            if isinstance(part, ToolCallPart):
                back = returned.get(part.tool_call_id)
                steps.append(
                    Step(
                        part.tool_name,
                        part.args_as_dict(),
                        back.model_response_str()[:_OBSERVATION] if back else "",
                        success=None if back is None else back.outcome == "success",
                    )
                )
    return steps
