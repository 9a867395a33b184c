"""An MCP server whose tool tells the ``_meta`` of its call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool


async def list_tools(context: Any, params: Any) -> ListToolsResult:
    """Return the one tool."""
    tool = Tool(name="look", description="Looks.", input_schema={"type": "object"})
    return ListToolsResult(tools=[tool])


async def call_tool(context: Any, params: Any) -> CallToolResult:
    """Return what came beside the arguments."""
    meta = params.model_dump(mode="json", by_alias=True, exclude_none=True).get("_meta", {})
    return CallToolResult(content=[TextContent(type="text", text=json.dumps(meta))])


async def main() -> None:
    """Serve."""
    server = Server("meta", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
