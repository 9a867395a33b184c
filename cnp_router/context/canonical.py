"""`canonical`: one text for all ways to write the same call."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from cnp_router.catalog import Api
from cnp_router.records import check_json

__all__ = ["canonical", "parameter_names"]

_DEEPEST = 10


def canonical(api: Api, inputs: Mapping[str, Any]) -> str:
    """Return the inputs of a call as one text, the same for all ways to write the same call.

    Keys are sorted, the defaults of the schema are filled in, numbers that are equal are written
    the same (1.0 as 1), and texts are in Unicode's normal form C. Lists stay in order, and texts
    in their case and with their spaces: a tool may tell them apart.

    Parameters
    ----------
    api : Api
        Of its schema, the defaults count, those of inner objects too.
    inputs : mapping of str to JSON value

    Raises
    ------
    InputError
        If the inputs cannot be written as JSON.

    Examples
    --------
    >>> api = Api("weather__today", "today", parameters={
    ...     "type": "object",
    ...     "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}})
    >>> canonical(api, {"days": 1.0, "city": "Kyoto"}) == canonical(api, {"city": "Kyoto"})
    True
    """
    check_json("inputs", inputs)
    filled = _filled(inputs, api.parameters, _DEEPEST)
    return json.dumps(_normal(filled), sort_keys=True, ensure_ascii=False)


def parameter_names(api: Api) -> frozenset[str]:
    """Return the names of what an API takes.

    Examples
    --------
    >>> sorted(parameter_names(Api("maps", "Maps", parameters={"place": "string", "zoom": "int"})))
    ['place', 'zoom']
    """
    schema = api.parameters or {}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        return frozenset(map(str, properties))
    return frozenset() if isinstance(schema.get("type"), str | list) else frozenset(schema)


def _filled(value: Any, schema: Any, depth: int) -> Any:
    """Return a value with the defaults of its schema."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not (isinstance(value, Mapping) and isinstance(properties, Mapping) and depth):
        return value
    defaults = {
        name: part["default"]
        for name, part in properties.items()
        if isinstance(part, Mapping) and "default" in part
    }
    return {
        name: _filled(each, properties.get(name), depth - 1)
        for name, each in {**defaults, **value}.items()
    }


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {_normal(key): _normal(each) for key, each in value.items()}
    return [_normal(each) for each in value] if isinstance(value, list | tuple) else value
