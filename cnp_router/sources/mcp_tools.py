"""The tools that an MCP server lists, as APIs: all pages, each one checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError, SourceAnswerError, shown
from cnp_router.sources.source import SEPARATOR
from cnp_router.sources.tool_name import check_tool_name, shown_name

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

__all__ = ["Listed", "api_of", "listed"]

_PAGES = 200
_TOOLS = 10_000
_NAME_LENGTH = 200
_DESCRIPTION_LENGTH = 8_000


@dataclass(frozen=True, slots=True)
class Listed:
    """What a server lists.

    Parameters
    ----------
    apis : dict of str to Api, default={}
        By id.
    outputs : dict of str to dict, default={}
        JSON Schemas of structured results, by the name of the tool.
    """

    apis: dict[str, Api] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)


async def listed(source: str, client: Client, trusted: bool) -> Listed:
    """Return the tools of all pages.

    Raises
    ------
    SourceAnswerError
        If the list does not end, or a tool of it cannot be used: its name cannot be an id or comes
        twice.
    """
    found = Listed()
    for tool in await _all_tools(source, client):
        api = api_of(source, tool, trusted)
        if api.id in found.apis:
            raise SourceAnswerError(source, f"it has several tools of the name {shown(tool.name)}")
        found.apis[api.id] = api
        if tool.output_schema is not None:
            found.outputs[tool.name] = tool.output_schema
    return found


async def _all_tools(source: str, client: Client) -> list[Tool]:
    from pydantic import ValidationError

    if client.server_capabilities.tools is None:
        return []
    tools: list[Tool] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        try:
            page = await client.list_tools(cursor=cursor)
        except ValidationError as exc:
            raise SourceAnswerError(source, _said(exc, len(tools))) from None
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in seen:
            raise SourceAnswerError(
                source, f"its list of tools goes in a circle at {shown(cursor)}"
            )
        seen.add(cursor)
        if len(seen) >= _PAGES or len(tools) > _TOOLS:
            raise SourceAnswerError(
                source, f"its list of tools has no end: {len(tools):,} on {len(seen)} pages so far"
            )
    return tools


def _said(exc: Any, before: int) -> str:
    """Return what is wrong with a page, in words."""
    error = exc.errors(include_url=False)[0]
    place = [part for part in error["loc"] if part != "tools"]
    which = ""
    if place and isinstance(place[0], int):
        which = f"tool {before + place[0] + 1} of "
        place = place[1:]
    where = "/".join(str(part) for part in place)
    got = f", got {shown(error['input'])}" if where else ""
    return f"{which}its list of tools cannot be used: {where}: {error['msg']}{got}"


def api_of(source: str, tool: Any, trusted: bool) -> Api:
    """Return a tool as an API; a SourceAnswerError says what is wrong with it."""
    title = tool.title or (tool.annotations.title if tool.annotations else None) or ""
    hint = tool.annotations.read_only_hint if tool.annotations else None
    effects: Effects = "unknown"
    if trusted and hint is not None:
        effects = "reads" if hint else "writes"
    try:
        check_tool_name(tool.name)
        return Api(
            f"{source}{SEPARATOR}{tool.name}",
            _cut(title.strip() or tool.name, _NAME_LENGTH),
            _cut(tool.description or "", _DESCRIPTION_LENGTH),
            parameters=tool.input_schema,
            effects=effects,
            returns=tool.output_schema,
        )
    except InputError as exc:
        raise SourceAnswerError(
            source, f"its tool {shown_name(tool.name)} cannot be used: {exc}"
        ) from None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
