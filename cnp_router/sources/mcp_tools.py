"""The tools that an MCP server lists, as APIs: all pages, each one checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError, SourceAnswerError, shown
from cnp_router.sources.source import SEPARATOR

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

__all__ = ["api_of", "listed_apis"]

_PAGES = 200
_TOOLS = 10_000
_NAME_LENGTH = 200
_DESCRIPTION_LENGTH = 8_000
_SCHEMA_BYTES = 500_000


async def listed_apis(source: str, client: Client, trusted: bool) -> dict[str, Api]:
    """Return the tools of all pages as APIs, by id.

    Raises
    ------
    SourceAnswerError
        If the list does not end, or a tool of it cannot be used: its name cannot be an id or comes
        twice, or its schema is none.
    """
    apis: dict[str, Api] = {}
    for tool in await _all_tools(source, client):
        api = api_of(source, tool, trusted)
        if api.id in apis:
            raise SourceAnswerError(source, f"it has several tools of the name {shown(tool.name)}")
        apis[api.id] = api
    return apis


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
    _check_schema(source, tool)
    title = tool.title or (tool.annotations.title if tool.annotations else None) or ""
    hint = tool.annotations.read_only_hint if tool.annotations else None
    effects: Effects = "unknown"
    if trusted and hint is not None:
        effects = "reads" if hint else "writes"
    try:
        return Api(
            f"{source}{SEPARATOR}{tool.name}",
            _cut(title.strip() or tool.name, _NAME_LENGTH),
            _cut(tool.description or "", _DESCRIPTION_LENGTH),
            parameters=tool.input_schema,
            effects=effects,
        )
    except InputError as exc:
        raise SourceAnswerError(
            source, f"its tool {shown(tool.name)} cannot be used: {exc}"
        ) from None


def _check_schema(source: str, tool: Tool) -> None:
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    schema = tool.input_schema
    try:
        if len(json.dumps(schema)) > _SCHEMA_BYTES:
            problem = f"is longer than {_SCHEMA_BYTES:,} characters"
        else:
            kind = validator_for(schema, default=Draft202012Validator)
            # No formats: a pattern may be one of JavaScript's alone, which is no reason to refuse.
            kind.check_schema(schema, format_checker=FormatChecker(formats=()))
            return
    except SchemaError as exc:
        where = "/".join(str(part) for part in exc.absolute_path)
        problem = f"is not a JSON Schema: {where or 'it'}: {exc.message[:200]}"
    except RecursionError:
        problem = "is nested too deep"
    raise SourceAnswerError(source, f"the schema of its tool {shown(tool.name)} {problem}")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
