"""An MCP server that declares the methods of coordination: on standard input, or as an object.

``python coordinating.py [HOW ...]``: "declines", "slow", "long", "dies", "nonsense", "hidden" (it
declares nothing) or "busy" (it declines what is not to draw).
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp.server import Server
from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, RequestParams, TextContent, Tool
from pydantic import ConfigDict

METHODS = ("context/propagate", "capability/discover", "capability/negotiate")
TOOLS = {"draw": "Draws a map of a place.", "measure": "Measures the way between two places."}


class Params(RequestParams):
    """Whatever is sent."""

    model_config = ConfigDict(extra="allow")


class Declaring(Server[Any]):
    """Declares its methods in the two ways that the versions of the protocol have."""

    declared: dict[str, Any] | None = None

    def get_capabilities(self, options: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = super().get_capabilities(options or NotificationOptions(), *args, **kwargs)
        if self.declared is None:
            return found
        key = "extensions" if kwargs.get("protocol_version") else "experimental"
        return found.model_copy(update={key: {"cnp-router/coordination": self.declared}})


def coordinating_server(*how: str, tools: dict[str, str] | None = None) -> Any:
    """Return a server; `server.received` holds the params of each request of the methods."""

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        empty = {"type": "object", "properties": {}}
        given = (tools or TOOLS).items()
        return ListToolsResult(
            tools=[Tool(name=n, description=text, input_schema=empty) for n, text in given]
        )

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=f"done: {params.name}")])

    async def answer(method: str, params: Params) -> Any:
        said = params.model_dump(exclude_none=True)
        server.received.append((method, {n: v for n, v in said.items() if n != "meta"}))
        if "slow" in how:
            await asyncio.sleep(30)
        if "dies" in how:
            os._exit(3)
        if "nonsense" in how:
            return {"status": "perhaps", "kept": "maybe", "capabilities": "all"}
        if "long" in how:
            return {"status": "declined", "reason": "x" * 100_000}
        if method == "capability/discover":
            given = (tools or TOOLS).items()
            return {"capabilities": [{"name": n, "description": text} for n, text in given]}
        if method == "context/propagate":
            return {"kept": True}
        if "declines" in how or ("busy" in how and said.get("capability") != "draw"):
            return {"status": "declined", "reason": "no paper left"}
        return {"status": "accepted", "reason": ""}

    server = Declaring("coordinating", on_list_tools=list_tools, on_call_tool=call_tool)
    server.received = []
    for method in METHODS:

        async def handle(context: Any, params: Params, method: str = method) -> Any:
            return await answer(method, params)

        server.add_request_handler(method, Params, handle)
    if "hidden" not in how:
        server.declared = {"methods": list(METHODS)}
    return server


async def main() -> None:
    """Serve standard input."""
    server = coordinating_server(*sys.argv[1:])
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
