"""The gateway as an MCP server: three tools in front of all tools, and the catalog as resources."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from cnp_router.catalog import Api
from cnp_router.exceptions import DataFileError, InputError, SourceError
from cnp_router.records import shown
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway import Called, Gateway
from cnp_router.serving.mcp_answers import (
    as_listed,
    called_answer,
    error_answer,
    returned,
    route_answer,
    schema_of,
    search_answer,
)
from cnp_router.serving.mcp_resources import CatalogResources
from cnp_router.sources.input_check import input_check
from cnp_router.sources.source import CallProgress
from cnp_router.version import __version__

__all__ = ["Asker", "server_of"]

Asker = Callable[[ServerRequestContext[Any, Any]], Client]
"""Who asks, by the request."""

_LOGGER = logging.getLogger(__name__)
_NAME = "cnp-router"
_INSTRUCTIONS = "search_tools finds tools for what you want to do; call_tool calls one."
_SEARCH_ID = "cnp-router/search_id"  # in `_meta` of a call of a tool that is always visible
_KEY = "idempotencyKey"
_PAGE = 100  # of a list
_MOST_PROGRESS = 100  # notifications that wait for a slow client
_GRACE = 5.0  # seconds that a cancelled call has to end
_T = TypeVar("_T")


def _tool(
    name: str,
    description: str,
    properties: dict[str, str],
    *,
    reads: bool = False,
    returns: tuple[str, ...] = (),
) -> types.Tool:
    """Return a tool whose first property is required."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each: {"type": kind} for each, kind in properties.items()},
        "required": [next(iter(properties))],
    }
    hints = types.ToolAnnotations(read_only_hint=True) if reads else None
    return types.Tool(
        name=name,
        description=description,
        input_schema=schema,
        output_schema={"type": "object", "required": list(returns)} if returns else None,
        annotations=hints,
    )


FIXED = (
    _tool(
        "search_tools",
        "Find tools for a task: their input schemas, and a search_id for call_tool.",
        {"query": "string", "k": "integer"},
        reads=True,
        returns=("search_id", "tools"),
    ),
    _tool(
        "route",
        "Show which tools a request needs, how sure that is and why. Calls nothing.",
        {"request": "string"},
        reads=True,
    ),
    _tool(
        "call_tool",
        "Call a tool that search_tools found.",
        {"name": "string", "inputs": "object", "search_id": "string"},
    ),
)
_FIXED = {tool.name: tool for tool in FIXED}


def server_of(gateway: Gateway, *, client: Asker) -> Server[None]:
    """Return an MCP server in front of a gateway, without a transport.

    Its tools are ``search_tools``, ``route`` and ``call_tool``, and those that are always visible.
    Its resources are the pages of the catalog and, by a template, each tool. A client sees what it
    may call, and nothing else.

    Parameters
    ----------
    gateway : Gateway
        Entered before the first request, and left after the last one, by whoever serves.
    client : callable
        Is given the context of a request and returns the `Client` who asks.

    Returns
    -------
    mcp.server.lowlevel.Server

    Raises
    ------
    InputError
        If a tool that is always visible has the name of one of the three.

    Examples
    --------
    >>> import asyncio
    >>> from mcp import Client as McpClient
    >>> from cnp_router import FunctionSource, Sources, SpecificationRouter
    >>> from cnp_router.serving.clients import Client
    >>> from cnp_router.serving.gateway import Gateway
    >>> def dial(number: str) -> str:
    ...     '''Dials the number of a telephone.'''
    ...     return f"dialled {number}"
    >>> async def ask():
    ...     sources = Sources([FunctionSource("phone", [dial], effects={"dial": "reads"})])
    ...     catalog = await sources.catalog()
    ...     async with Gateway(SpecificationRouter(catalog), catalog, sources) as gateway:
    ...         server = server_of(gateway, client=lambda _: Client())
    ...         async with McpClient(server) as client:
    ...             inputs = {"name": "phone__dial", "inputs": {"number": "112"}}
    ...             return await client.call_tool("call_tool", inputs)
    >>> asyncio.run(ask()).content[0].text
    'dialled 112'
    """
    front = _Front(gateway, client)
    return Server(
        _NAME,
        version=__version__,
        instructions=_INSTRUCTIONS,
        get_tool_input_schema=front.schema_of,
        on_list_tools=front.list_tools,
        on_call_tool=front.call_tool,
        on_list_resources=front.list_resources,
        on_list_resource_templates=front.list_templates,
        on_read_resource=front.read_resource,
    )


class _Front:
    """What the server answers."""

    def __init__(self, gateway: Gateway, asker: Asker) -> None:
        for name in gateway.settings.always:
            if name in _FIXED:
                raise InputError(f"a tool that is always visible is called {name!r} (rename it)")
        self._gateway, self._asker = gateway, asker

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool that can be called by its own name."""
        if name in _FIXED:
            return _FIXED[name].input_schema
        always = self._gateway.always(Client())
        return next((schema_of(api) for api in always if api.id == name), None)

    async def list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the three tools and those that this client always sees."""
        always = self._gateway.always(self._asker(ctx))
        tools, cursor = _page([*FIXED, *map(_listed, always)], params)
        return types.ListToolsResult(tools=tools, next_cursor=cursor)

    async def list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return the pages of the catalog."""
        resources = self._resources(ctx).listed()
        some, cursor = _page(resources, params)
        return types.ListResourcesResult(resources=some, next_cursor=cursor)

    async def list_templates(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the template of a tool."""
        some, cursor = _page(CatalogResources.templates(), params)
        return types.ListResourceTemplatesResult(resource_templates=some, next_cursor=cursor)

    async def read_resource(
        self, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return a page of the catalog, or a tool."""
        try:
            text = self._resources(ctx).read(params.uri)
        except InputError as exc:  # by the protocol, a resource that is not there is that
            raise MCPError(types.INVALID_PARAMS, str(exc), {"uri": params.uri}) from None
        content = types.TextResourceContents(
            uri=params.uri, mime_type="application/json", text=text
        )
        return types.ReadResourceResult(contents=[content])

    async def call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Search, route or call; what the client did wrong is an answer that a model can read."""
        client, given = self._asker(ctx), params.arguments or {}
        try:
            if params.name in _FIXED:
                # Models write null for what they leave out.
                given = {name: each for name, each in given.items() if each is not None}
                _check(params.name, given)
            if params.name == "search_tools":
                search = self._gateway.search(given["query"], given.get("k"), client=client)
                return search_answer(await _alone(search))
            if params.name == "route":
                found = await _alone(self._gateway.route(given["request"], client=client))
                return route_answer(found)
            if params.name == "call_tool":
                name, inputs = given["name"], given.get("inputs", {})
                return await self._called(ctx, client, name, inputs, given.get("search_id"))
            always = self._gateway.always(client)
            api = next((each for each in always if each.id == params.name), None)
            if api is None:
                there = f"no tool {shown(params.name)} is listed (call it by call_tool)"
                raise MCPError(types.INVALID_PARAMS, there)
            answer = await self._called(ctx, client, api.id, given, _meta(ctx, _SEARCH_ID))
            return as_listed(answer, returned(api))
        except DataFileError:
            raise  # it names a file of this machine
        except InputError as exc:
            return error_answer(str(exc))
        except SourceError as exc:
            _LOGGER.warning("%s", exc)
            return error_answer(f"source {exc.source!r} cannot be used now (ask again later)")

    async def _called(
        self,
        ctx: ServerRequestContext[Any, Any],
        client: Client,
        name: str,
        inputs: dict[str, Any],
        search_id: str | None,
    ) -> types.CallToolResult:
        """Call a tool; its progress is passed on where the client asked for it."""

        async def call() -> Called:
            async with _progress(ctx) as on_progress:
                return await self._gateway.call(
                    name,
                    inputs,
                    search_id,
                    client=client,
                    key=_meta(ctx, _KEY) or "",
                    on_progress=on_progress,
                )

        return called_answer(await _alone(call()), ctx.protocol_version)

    def _resources(self, ctx: ServerRequestContext[Any, Any]) -> CatalogResources:
        return CatalogResources(self._gateway.apis(self._asker(ctx)))


def _check(name: str, given: Mapping[str, Any]) -> None:
    """Raise InputError where the arguments of one of the three tools do not fit."""
    schema = _FIXED[name].input_schema
    more = next((each for each in given if each not in schema["properties"]), None)
    if more is not None:
        cure = ": what the tool takes goes into inputs" if name == "call_tool" else ""
        takes = ", ".join(schema["properties"])
        raise InputError(f"{name} does not take {shown(more)} (it takes {takes}{cure})")
    input_check(schema)(given)


@asynccontextmanager
async def _progress(
    ctx: ServerRequestContext[Any, Any],
) -> AsyncIterator[Callable[[CallProgress], None] | None]:
    """Give what takes the progress of a call and passes it on; None where nobody asked for it."""
    if ctx.meta is None or ctx.meta.get("progress_token") is None:
        yield None
        return
    waiting: asyncio.Queue[CallProgress | None] = asyncio.Queue()

    def take(progress: CallProgress) -> None:
        if waiting.qsize() < _MOST_PROGRESS:  # nothing depends on a notice
            waiting.put_nowait(progress)

    async def pass_on() -> None:
        while (each := await waiting.get()) is not None:
            await ctx.session.report_progress(each.done, each.total, each.message or None)

    passing = asyncio.create_task(pass_on())
    try:
        yield take
        waiting.put_nowait(None)
        await passing
    finally:
        passing.cancel()


def _meta(ctx: ServerRequestContext[Any, Any], key: str) -> str | None:
    """Return a text of the request's own `_meta`."""
    value = dict(ctx.meta or {}).get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"_meta[{key!r}] must be a string, got {shown(value)}")
    return value


def _listed(api: Api) -> types.Tool:
    """Return a tool that is always visible, as it is listed."""
    hints = types.ToolAnnotations(read_only_hint=api.effects == "reads")
    return types.Tool(
        name=api.id,
        title=api.name,
        description=api.description,
        input_schema=schema_of(api),
        output_schema=returned(api),
        annotations=None if api.effects == "unknown" else hints,
    )


def _page(items: list[_T], params: types.PaginatedRequestParams | None) -> tuple[list[_T], Any]:
    """Return one page of a list, and the cursor of the next one."""
    cursor = params.cursor if params is not None else None
    start = 0
    if cursor is not None:
        start = int(cursor) if cursor.isascii() and cursor.isdecimal() else -1
        if start % _PAGE or not 0 < start < len(items):
            raise MCPError(types.INVALID_PARAMS, f"no page has the cursor {shown(cursor)}")
    end = start + _PAGE
    return items[start:end], str(end) if end < len(items) else None


async def _alone(work: Awaitable[_T]) -> _T:
    """Do something in a task of its own, which is cancelled once, and has ended after that."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.move_on_after(_GRACE, shield=True):
            await asyncio.wait({task})
        raise
