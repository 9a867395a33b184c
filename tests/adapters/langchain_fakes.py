"""A model of LangChain's own fakes that answers by what it is shown, so that many may share it."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from pydantic import Field

Seen = list[tuple[str, ...]]


class ObedientModel(GenericFakeChatModel):
    """Calls the tool that it is shown first, and then says what came of it.

    `calls` replaces that call: name and arguments. `seen` has the names that each call showed.
    """

    messages: Any = None
    seen: Seen = Field(default_factory=list)
    calls: dict[str, dict[str, Any]] = Field(default_factory=dict)
    bound: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **how: Any) -> Any:
        self.bound.append((tools, how))
        return self.bind(names=tuple(named(tool) for tool in tools))

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **how: Any
    ) -> ChatResult:
        names = how.get("names", ())
        self.seen.append(names)
        if isinstance(messages[-1], ToolMessage):
            said = AIMessage(f"It said: {messages[-1].text}")
        elif self.calls or names:
            calls = self.calls or {names[0]: {}}
            said = AIMessage(
                "",
                tool_calls=[{"name": n, "args": a, "id": f"id-{n}"} for n, a in calls.items()],
            )
        else:
            said = AIMessage("I have no tool for this.")
        return ChatResult(generations=[ChatGeneration(message=said)])


def named(tool: Any) -> str:
    return str(tool.get("name", tool.get("type")) if isinstance(tool, dict) else tool.name)


def plain_tool(name: str, description: str) -> StructuredTool:
    """Return a tool without inputs that says its name."""
    nothing: dict[str, Any] = {"type": "object", "properties": {}}

    async def arun() -> str:
        return f"{name} was called"

    return StructuredTool(
        name=name,
        description=description,
        args_schema=nothing,
        func=lambda: f"{name} was called",
        coroutine=arun,
    )


def asked(request: Any) -> dict[str, Any]:
    """Return what an agent is invoked with."""
    return {"messages": [("human", request)]}


def last(result: dict[str, Any]) -> str:
    """Return what an agent said at last."""
    return str(result["messages"][-1].text)
