"""What an API takes, parameter by parameter, read from its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cnp_router.catalog import Api
from cnp_router.records import one_line

__all__ = ["Parameter", "followed", "parameters_of", "takes_others"]

_MOST_STEPS = 10  # from one "$ref" to the next


@dataclass(frozen=True, slots=True, repr=False)
class Parameter:
    """A parameter of an API.

    Parameters
    ----------
    name : str
    schema : mapping
        JSON Schema of its value; empty where the API says nothing of it.
    is_required : bool
    """

    name: str
    schema: Mapping[str, Any]
    is_required: bool

    @property
    def description(self) -> str:
        """What the API says of it, or nothing."""
        said = self.schema.get("description")
        return said if isinstance(said, str) else ""

    __repr__ = one_line


def parameters_of(api: Api) -> tuple[Parameter, ...]:
    """Return the parameters of an API, in its order.

    Of a plain mapping of name to type, none is required.

    Examples
    --------
    >>> api = Api("now", "Now", parameters={
    ...     "type": "object", "properties": {"zone": {"$ref": "#/$defs/Zone"}, "format": {}},
    ...     "required": ["zone"], "$defs": {"Zone": {"type": "string"}}})
    >>> [(each.name, dict(each.schema), each.is_required) for each in parameters_of(api)]
    [('zone', {'type': 'string'}, True), ('format', {}, False)]
    >>> [each.name for each in parameters_of(Api("now", "Now", parameters={"zone": "text"}))]
    ['zone']
    """
    whole = api.parameters or {}
    properties = whole.get("properties")
    if not isinstance(properties, Mapping):
        properties = {} if isinstance(whole.get("type"), str | list) else whole
    required = whole.get("required")
    names = required if isinstance(required, list | tuple) else ()
    known = [Parameter(n, followed(s, whole), n in names) for n, s in properties.items()]
    others = [n for n in names if isinstance(n, str) and n not in properties]
    return (*known, *(Parameter(name, {}, True) for name in others))


def takes_others(api: Api) -> bool:
    """Return whether a call may have parameters that the API does not name."""
    schema = api.parameters or {}
    return schema.get("additionalProperties") is not False or bool(schema.get("patternProperties"))


def followed(schema: Any, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or what its reference within the whole one leads to."""
    for _ in range(_MOST_STEPS):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: Any = whole
        for token in reference[2:].split("/"):
            key = token.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        schema = {**found, **_without_ref(schema)} if isinstance(found, Mapping) else {}
    return schema if isinstance(schema, Mapping) else {}


def _without_ref(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "$ref"}
