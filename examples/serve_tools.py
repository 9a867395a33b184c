"""Serve tools of two sources through one door, and use them as an MCP client does."""

import asyncio

from mcp import Client
from mcp.types import CallToolResult

from cnp_router import Client as Caller
from cnp_router import FunctionSource, Gateway, Sources, fit_router
from cnp_router.serving.mcp_front import server_of


def forecast(city: str) -> dict[str, str]:
    """Forecast tomorrow's weather in a city: rain, wind and sun."""
    return {"city": city, "sky": "rain until noon"}


def free_rooms(seats: int = 4) -> list[str]:
    """List the meeting rooms that are free today and have enough seats."""
    return [room for room, has in {"Birch": 4, "Maple": 8, "Oak": 20}.items() if has >= seats]


def send_note(to: str, text: str) -> str:
    """Send a short note to a colleague's mailbox."""
    return f"sent to {to}: {text}"


def text(result: CallToolResult) -> str:
    """Return what a model reads of a result, without the id of the search, which is random."""
    said = "\n".join(block.text for block in result.content if block.type == "text")
    return said.partition(", ")[2] if said.startswith("search_id ") else said


async def main() -> None:
    """Search for tools, and call what was found."""
    sources = Sources(
        [
            FunctionSource("sky", [forecast], effects={"forecast": "reads"}),
            FunctionSource("desk", [free_rooms, send_note], effects={"free_rooms": "reads"}),
        ]
    )
    async with sources:
        catalog = await sources.catalog()
        router = fit_router(catalog)
        async with Gateway(router, catalog, sources) as gateway:
            server = server_of(gateway, client=lambda request: Caller("ann"))
            async with Client(server) as client:  # or the address of `cnp-router serve --http`
                await use(client)


async def use(client: Client) -> None:
    """Do what a model would do that was asked about rooms."""
    tools = (await client.list_tools()).tools
    print("the model sees:", ", ".join(tool.name for tool in tools))

    found = await client.call_tool(
        "search_tools", {"query": "Which meeting rooms with ten seats are free?", "k": 1}
    )
    print("\nsearch_tools:", text(found))
    search = found.structured_content

    call = {"name": search["tools"][0]["name"], "inputs": {"seats": 10}}
    rooms = await client.call_tool("call_tool", {**call, "search_id": search["search_id"]})
    print("\ncall_tool:", text(rooms))

    note = {"name": "desk__send_note", "inputs": {"to": "Aiko", "text": "Oak is free"}}
    print("\ncall_tool:", text(await client.call_tool("call_tool", note)))

    nothing = await client.call_tool("search_tools", {"query": "Translate a poem into Latin"})
    print("\nsearch_tools:", text(nothing))


asyncio.run(main())
