"""The text that stands for an API wherever texts are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from cnp_router.catalog import Api
from cnp_router.text.tokenise import split_identifier

__all__ = ["specification_text"]

_SERVER = "__"  # ids of tools from several servers are server__tool
_DEPTH = 4  # schemas may be nested without end,
_MOST = 1_000  # and name more than anyone reads
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_KEYWORDS = {"properties", "$ref", "$defs", *_ALTERNATIVES}


def specification_text(api: Api, *, with_server: bool = True) -> str:
    """Return what an API says of itself: name, server, description, categories, parameters.

    Identifiers are given split, too. Of parameters the names and descriptions count, of a JSON
    Schema as well as of a plain mapping of name to type. Without the server, tools of several
    servers can be compared by what they do.

    Examples
    --------
    >>> specification_text(Api("w", "GetWeather", "Forecasts.", ("Weather",)))
    'GetWeather Get Weather . Forecasts. . Weather'
    >>> specification_text(Api("git__log", "log", "Lists commits.", parameters={"maxCount": "int"}))
    'log . git . Lists commits. . max Count'
    """
    has_server = with_server and _SERVER in api.id.strip("_")
    server = api.id.partition(_SERVER)[0] if has_server else ""
    parts = (
        " ".join(dict.fromkeys([api.name, split_identifier(api.name)])),
        split_identifier(server),
        api.description,
        " , ".join(api.categories),
        " ".join(dict.fromkeys(islice(_said(api.parameters or {}), _MOST))),
    )
    return " . ".join(part for part in parts if part)


def _said(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names and descriptions of parameters."""
    if not _KEYWORDS.isdisjoint(parameters) or isinstance(parameters.get("type"), str | list):
        yield from _Reader(parameters).within(parameters, _DEPTH)
    else:
        yield from _Reader({}).named(parameters, _DEPTH)


class _Reader:
    """Reads what the schemas of a document say, each once at a depth: they may hold each other."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.read: dict[tuple[int, int], Mapping[str, Any]] = {}  # kept: no id becomes another's

    def within(self, schema: Mapping[str, Any], depth: int) -> Iterator[str]:
        """Yield what the schemas of the properties of a schema say, wherever it has them."""
        schema = self.target(schema)
        if not depth or (id(schema), depth) in self.read:
            return
        self.read[id(schema), depth] = schema
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            yield from self.named(properties, depth)
        inner = [schema.get("items")]
        for keyword in _ALTERNATIVES:
            more = schema.get(keyword)
            inner += more if isinstance(more, list) else []
        for each in inner:
            if isinstance(each, Mapping):
                yield from self.within(each, depth - 1)

    def named(self, properties: Mapping[str, Any], depth: int) -> Iterator[str]:
        """Yield the names of properties, and what their schemas say."""
        for name, value in properties.items():
            yield split_identifier(str(name))
            if isinstance(value, Mapping):
                if isinstance(value.get("description"), str):
                    yield value["description"]
                yield from self.within(value, depth - 1)

    def target(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the definition that a schema refers to, if it is one of its own document."""
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            found: Any = self.root
            for part in reference[2:].split("/"):
                found = found.get(part) if isinstance(found, Mapping) else None
            if isinstance(found, Mapping):
                return found
        return schema
