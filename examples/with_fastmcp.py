"""FastMCP: clients of a server search its tools by the router, and are told when nothing fits.

The client is FastMCP's own, in memory; any MCP client sees the same over stdio or HTTP.
"""

import asyncio
import json
from typing import Any

from fastmcp import Client, FastMCP

from cnp_router import Call
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.fastmcp import RoutedSearch, server_source

WARES = ["tea", "rice", "soap", "salt", "wool", "silk", "paper", "glass", "copper", "cedar"]
TRADES = ["stock", "orders", "suppliers", "complaints", "invoices", "returns", "prices", "samples"]

server = FastMCP("town")


@server.tool
def rain(city: str) -> str:
    """Say whether it will rain in a city tomorrow."""
    return f"Rain in {city} from noon."


def add_listing(ware: str, trade: str) -> None:
    """Add one of the many other tools of the server."""

    @server.tool(name=f"{trade}_of_{ware}", description=f"Lists the {trade} of {ware}.")
    def listed() -> str:
        return f"no {trade} of {ware}"


async def size_of_list(client: Client[Any]) -> int:
    """Return how many characters of tools a client is shown."""
    tools = await client.list_tools()
    return len(json.dumps([tool.model_dump(mode="json", exclude_none=True) for tool in tools]))


async def main() -> None:
    """Show a client the tools, let it search and call, and take the server as a contractor."""
    for ware in WARES:
        for trade in TRADES:
            add_listing(ware, trade)
    async with Client(server) as client:
        before = await size_of_list(client)
    async with server_source("town", server) as source:
        result = await source.call(Call(api="town__rain", inputs={"city": "Nara"}))
        print("As a contractor:", result.text)

    server.add_transform(RoutedSearch(ToolChoice(k=3)))
    async with Client(server) as client:
        print("The client sees:", ", ".join(tool.name for tool in await client.list_tools()))
        print(f"In characters: {await size_of_list(client):,} instead of {before:,}")
        for query in (
            "Will it rain in Kyoto?",
            "Are there complaints about the glass?",
            "Translate a poem",
        ):
            found = (await client.call_tool("search_tools", {"query": query})).data
            print(f"{query} ->", found if isinstance(found, str) else [t["name"] for t in found])
        call = {"name": "rain", "arguments": {"city": "Kyoto"}}
        print("Called:", (await client.call_tool("call_tool", call)).data)


asyncio.run(main())
