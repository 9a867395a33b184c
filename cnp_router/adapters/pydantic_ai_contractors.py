"""pydantic-ai: its toolsets and agents as contractors."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_ai import RunContext
from pydantic_ai.agent import AbstractAgent
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
    UsageLimitExceeded,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_core import to_jsonable_python

from cnp_router.adapters.foreign_tools import ForeignTools, Invoke, told
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
from cnp_router.llm import Usage
from cnp_router.records import check_instance
from cnp_router.sources import Call, CallFailure, CallResult
from cnp_router.sources.result_size import MAX_BYTES
from cnp_router.subagents import Answer, Question, SubAgent
from cnp_router.subagents.question import too_many

__all__ = ["ToolsetSource", "sub_agent"]

_KINDS: tuple[tuple[type[ModelAPIError], type[LanguageModelError]], ...] = (
    (ModelRateLimitError, ChatRateLimitError),
    (ModelTimeoutError, ChatTimeoutError),
    (ModelRequestTimeout, ChatTimeoutError),
    (ModelConnectionError, ChatUnavailableError),
    (ModelUnavailableError, ChatUnavailableError),
    (ModelServerError, ChatUnavailableError),
    (ModelAuthenticationError, ChatAccessError),
)


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
