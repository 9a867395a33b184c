"""JSON schemas: the small subset that is sent to models, and whether a value fits.

A validator of its own, because the schemas are the library's own: a few objects with strings,
numbers and lists. The `jsonschema` package would be a sixth of the dependencies for that, and
pydantic validates against its models, not against schemas. So that nothing is left unchecked in
silence, a keyword outside the subset is refused when the request is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cnp_router.exceptions import InputError

__all__ = ["check_schema", "is_strict", "misfit"]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": lambda value: _is_number(value),  # noqa: PLW0108 (it is defined below)
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_LIMITS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, limit: not _is_number(value) or value >= limit, "is below"),
    "maximum": (lambda value, limit: not _is_number(value) or value <= limit, "is above"),
    "minLength": (
        lambda value, n: not isinstance(value, str) or len(value) >= n,
        "is below length",
    ),
    "maxLength": (
        lambda value, n: not isinstance(value, str) or len(value) <= n,
        "is above length",
    ),
    "minItems": (lambda value, n: not isinstance(value, list) or len(value) >= n, "is below size"),
    "maxItems": (lambda value, n: not isinstance(value, list) or len(value) <= n, "is above size"),
}
_ANNOTATIONS = {"title", "description", "examples", "default"}
_KEYWORDS = {
    *_ANNOTATIONS,
    *_LIMITS,
    *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"),
}


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise InputError unless a schema is one of an object, in the subset.

    The subset: ``type`` (one or a list), ``properties``, ``required``, ``additionalProperties``
    (true or false), ``items``, ``enum``, ``const``, ``anyOf``, least and greatest values, lengths
    and sizes, and annotations.

    Parameters
    ----------
    schema : mapping

    Raises
    ------
    InputError
        With the place in the schema.

    Examples
    --------
    >>> check_schema({"type": "object", "properties": {"apis": {"type": "set"}}})
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.InputError: schema at properties.apis: type 'set' does not exist (use \
one of: object, array, string, integer, number, boolean, null)
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise InputError("a schema must be one of an object (give it 'type': 'object')")
    _check(schema, "")


def misfit(value: Any, schema: Mapping[str, Any], where: str = "answer") -> str | None:
    """Return what is wrong with a value, or None if it fits.

    Parameters
    ----------
    value : object
        As `json.loads` gives it.
    schema : mapping
        In the subset of `check_schema`.
    where : str, default="answer"
        What the value is called.

    Returns
    -------
    str or None
        One phrase, for a person or a model to act on.

    Examples
    --------
    >>> schema = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}
    >>> misfit({"apis": "maps"}, schema)
    "answer.apis must be of type array, got 'maps'"
    >>> misfit({"apis": ["maps"]}, schema) is None
    True
    """
    problem = _value_misfit(value, schema, where)
    if problem is not None:
        return problem
    if isinstance(value, dict):
        return _object_misfit(value, schema, where)
    if isinstance(value, list) and "items" in schema:
        return _first(misfit(v, schema["items"], f"{where}[{i}]") for i, v in enumerate(value))
    return None


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return whether every object in a schema is closed and has all its properties required.

    Only such schemas can be sent as ``strict`` to OpenAI.

    Examples
    --------
    >>> is_strict({"type": "object", "properties": {}, "required": [],
    ...            "additionalProperties": False})
    True
    """
    properties = schema.get("properties", {})
    closed = "object" not in _kinds(schema) or (
        schema.get("additionalProperties") is False
        and set(schema.get("required", ())) == set(properties)
    )
    inner = [*properties.values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return closed and all(is_strict(part) for part in inner)


def _value_misfit(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    kinds = _kinds(schema)
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        return f"{where} must be of type {' or '.join(kinds)}, got {_shown(value)}"
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        return f"{where} must be one of {_shown(list(schema['enum']))}, got {_shown(value)}"
    if "const" in schema and not _same(value, schema["const"]):
        return f"{where} must be {_shown(schema['const'])}, got {_shown(value)}"
    for keyword, (holds, phrase) in _LIMITS.items():
        if keyword in schema and not holds(value, schema[keyword]):
            return f"{where} {phrase} {schema[keyword]}: {_shown(value)}"
    problems = [misfit(value, choice, where) for choice in schema.get("anyOf", ())]
    return "; or ".join(map(str, problems)) if problems and None not in problems else None


def _object_misfit(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> str | None:
    missing = [key for key in schema.get("required", ()) if key not in value]
    if missing:
        return f"{where} lacks the key {missing[0]!r}"
    properties = schema.get("properties", {})
    extra = [key for key in value if key not in properties]
    if extra and schema.get("additionalProperties") is False:
        return f"{where} has the key {_shown(extra[0])}, which the schema does not have"
    return _first(
        misfit(value[key], part, f"{where}.{key}")
        for key, part in properties.items()
        if key in value
    )


def _check(schema: Any, where: str) -> None:
    place = f"schema at {where.lstrip('.')}" if where else "schema"
    if not isinstance(schema, Mapping):
        raise InputError(f"{place}: must be an object, got {_shown(schema)}")
    unknown = [key for key in schema if key not in _KEYWORDS]
    if unknown:
        raise InputError(
            f"{place}: keyword {unknown[0]!r} is not supported (use only: "
            f"{', '.join(sorted(_KEYWORDS - _ANNOTATIONS))})"
        )
    for kind in _kinds(schema):
        if kind not in _TYPES:
            raise InputError(
                f"{place}: type {kind!r} does not exist (use one of: {', '.join(_TYPES)})"
            )
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise InputError(f"{place}: additionalProperties must be true or false")
    for keyword in ("required", "enum", "anyOf"):
        value = schema.get(keyword, ())
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InputError(f"{place}: {keyword} must be a list, got {_shown(value)}")
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise InputError(f"{place}: properties must be an object, got {_shown(properties)}")
    for key, part in properties.items():
        _check(part, f"{where}.properties.{key}")
    for number, part in enumerate(schema.get("anyOf", ())):
        _check(part, f"{where}.anyOf.{number}")
    if "items" in schema:
        _check(schema["items"], f"{where}.items")


def _kinds(schema: Mapping[str, Any]) -> Sequence[str]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else kinds


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    # In Python True == 1; in JSON they differ.
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _first(problems: Any) -> str | None:
    return next((problem for problem in problems if problem is not None), None)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
