"""The text that stands for an API wherever texts are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cnp_router.catalog import Api
from cnp_router.text.tokenise import split_identifier

__all__ = ["specification_text"]

_SERVER = "__"  # ids of tools from several servers are server__tool
_DEPTH = 4  # schemas may be nested without end


def specification_text(api: Api) -> str:
    """Return what an API says of itself: name, server, description, categories, parameters.

    Identifiers are given split, too. Of parameters the names and descriptions count, of a JSON
    Schema as well as of a plain mapping of name to type.

    Examples
    --------
    >>> specification_text(Api("w", "GetWeather", "Forecasts.", ("Weather",)))
    'GetWeather Get Weather . Forecasts. . Weather'
    >>> specification_text(Api("git__log", "log", "Lists commits.", parameters={"maxCount": "int"}))
    'log . git . Lists commits. . max Count'
    """
    server = api.id.partition(_SERVER)[0] if _SERVER in api.id.strip("_") else ""
    parts = (
        " ".join(dict.fromkeys([api.name, split_identifier(api.name)])),
        split_identifier(server),
        api.description,
        " , ".join(api.categories),
        " ".join(dict.fromkeys(_said(api.parameters or {}, _DEPTH))),
    )
    return " . ".join(part for part in parts if part)


def _said(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the names and descriptions of parameters."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        properties = {} if isinstance(schema.get("type"), str | list) else schema
    for name, value in properties.items():
        yield split_identifier(str(name))
        if isinstance(value, Mapping):
            if isinstance(value.get("description"), str):
                yield value["description"]
            if depth:
                yield from _said(_inner(value), depth - 1)


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an array's items, or the schema itself."""
    items = schema.get("items")
    return items if isinstance(items, Mapping) else schema
