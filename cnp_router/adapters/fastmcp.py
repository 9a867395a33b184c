"""FastMCP: a server whose clients search its tools by the router, and a server as a contractor.

`RoutedSearch` is a transform of a FastMCP 4 server. `server_source` makes a source of a server of
this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.transforms.search import BM25SearchTransform, SearchResultSerializer
from fastmcp.tools import Tool

from cnp_router.adapters.tool_choice import ToolChoice
from cnp_router.adapters.tool_definitions import tool_api, tool_id
from cnp_router.catalog import Api
from cnp_router.records import check_instance, string_tuple
from cnp_router.sources import McpServer

__all__ = ["NOTHING_FITS", "RoutedSearch", "server_source"]

NOTHING_FITS = "No tool fits this request."
"""What a client is told that searches for something no tool is for."""


class RoutedSearch(BM25SearchTransform):
    """A search transform: clients see a tool that searches, one that calls, and the permanent ones.

    A search returns at most `choice.k` tools, and says so where none fits; one without a text is
    an error that the client is told. What a client may not
    see is not found, and cannot be called: that is FastMCP's own check, as are all else of its
    search transforms.

    Parameters
    ----------
    choice : ToolChoice, optional
        Default: ``ToolChoice(k=5)``, which fits a router on the specifications of the tools, at the
        first search and when they change.
    always_visible : iterable of str, optional
        Names of the tools that are listed themselves, beside those of ``choice.always``. They are
        not searched.
    search_tool_name, call_tool_name : str
    search_result_serializer : callable, optional
        As of FastMCP's own transforms. It is not called where nothing fits.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> from fastmcp import Client
    >>> server = FastMCP("town", transforms=[RoutedSearch()])
    >>> @server.tool
    ... def weather(city: str) -> str:
    ...     '''Says whether it will rain in a city.'''
    ...     return f"Rain in {city}."
    >>> @server.tool
    ... def send_sms(to: str, text: str) -> str:
    ...     '''Sends a text message to a phone.'''
    ...     return "sent"
    >>> async def main():
    ...     async with Client(server) as client:
    ...         print([tool.name for tool in await client.list_tools()])
    ...         for query in ("Will it rain in Kyoto?", "zzz qqq"):
    ...             found = (await client.call_tool("search_tools", {"query": query})).data
    ...             print(found if isinstance(found, str) else [tool["name"] for tool in found])
    ...         call = {"name": "weather", "arguments": {"city": "Kyoto"}}
    ...         print((await client.call_tool("call_tool", call)).data)
    >>> asyncio.run(main())
    ['search_tools', 'call_tool']
    ['weather']
    No tool fits this request.
    Rain in Kyoto.
    """

    def __init__(
        self,
        choice: ToolChoice | None = None,
        *,
        always_visible: Iterable[str] = (),
        search_tool_name: str = "search_tools",
        call_tool_name: str = "call_tool",
        search_result_serializer: SearchResultSerializer | None = None,
    ) -> None:
        self.choice = check_instance("choice", choice or ToolChoice(k=5), ToolChoice)
        visible = (*self.choice.always, *string_tuple("always_visible", always_visible))
        super().__init__(
            max_results=self.choice.k,
            always_visible=list(visible),
            search_tool_name=search_tool_name,
            call_tool_name=call_tool_name,
            search_result_serializer=search_result_serializer,
        )
        self._apis: dict[str, Api] = {}

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        if not query.strip():
            raise ToolError("query has no text (say what a tool is needed for)")
        apis = await asyncio.to_thread(self._specifications, tools)
        there = {tool_id(tool.name): tool for tool in tools}
        return [there[name] for name in await self.choice.choose(query, apis)]

    async def _render_results(self, tools: Sequence[Tool]) -> Any:
        return await super()._render_results(tools) if tools else NOTHING_FITS

    def _specifications(self, tools: Sequence[Tool]) -> tuple[Api, ...]:
        """Return what tools say of themselves; what has not changed is the same object."""
        known, apis = self._apis, {}
        for tool in tools:
            api, description = known.get(tool.name), tool.description or ""
            if api is None or (api.description, api.parameters) != (description, tool.parameters):
                api = tool_api(tool.name, description, tool.parameters)
            apis[tool.name] = api
        self._apis = apis
        return tuple(apis.values())


def server_source(name: str, server: FastMCP[Any], **how: Any) -> McpServer:
    """Return a FastMCP server of this process as a source: its tools become contractors.

    Parameters
    ----------
    name : str
        First part of the ids of its APIs.
    server : FastMCP
        Run in memory while the source is connected, its lifespan included.
    **how
        As of `McpServer`, such as ``trusted=True``, by which what it says of effects counts.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> from cnp_router.sources import Call
    >>> server = FastMCP("clock")
    >>> @server.tool
    ... def add(hours: int, more: int) -> int:
    ...     '''Adds hours.'''
    ...     return hours + more
    >>> async def main():
    ...     async with server_source("clock", server) as clock:
    ...         return await clock.call(Call(api="clock__add", inputs={"hours": 1, "more": 2}))
    >>> asyncio.run(main()).text
    '3'
    """
    # The attribute by which FastMCP's own transports take it: there is no public one.
    return McpServer(name, server=check_instance("server", server, FastMCP)._mcp_server, **how)
