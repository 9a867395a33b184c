"""JSON schemas (Draft 2020-12, by `jsonschema`): whether they can be used, and what fits them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cnp_router.exceptions import InputError
from cnp_router.printing import printable

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["check_schema", "is_strict", "misfit"]

_MOST_SHOWN = 200  # characters of what is wrong
_DATA = {"const", "default", "enum", "examples"}  # what stands under these is not a schema
_NOT_STRICT = {"allOf", "oneOf", "not", "if", "patternProperties", "prefixItems", "contains"}


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise InputError unless this is a JSON schema of an object that needs no other document.

    References (``$ref``) point into the schema: nothing is fetched.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise InputError(
            f"a schema must be of an object (give it 'type': 'object'): {schema!r:.80}"
        )
    _validator(_as_text(schema))


def misfit(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return in one short line what is wrong with an answer, or None if it fits.

    InputError is raised if the schema cannot be used.

    Examples
    --------
    >>> misfit({"apis": 1}, {"type": "object", "properties": {"apis": {"type": "array"}}})
    "answer.apis: 1 is not of type 'array'"
    """
    from jsonschema.exceptions import best_match

    try:
        error = next(_validator(_as_text(schema)).iter_errors(value), None)
    except RecursionError:
        return "answer: nested too deeply to be checked"
    if error is None:
        return None
    error = best_match([error]) or error  # of several alternatives, the one that nearly fits
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
    return printable(f"answer{place}: {_message(error)}", _MOST_SHOWN)


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return whether every object in a schema is closed and has all its properties required.

    Only such schemas can be sent as ``strict`` to OpenAI.
    """
    return all(_is_closed(part) for _, part in _subschemas(schema, ""))


def _is_closed(schema: Mapping[str, Any]) -> bool:
    if not _NOT_STRICT.isdisjoint(schema):
        return False
    kinds = schema.get("type", ())
    return "object" not in ((kinds,) if isinstance(kinds, str) else kinds) or (
        schema.get("additionalProperties") is False
        and set(schema.get("required", ())) == set(schema.get("properties", ()))
    )


def _subschemas(schema: Any, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a schema and all schemas within it, each with its place."""
    if isinstance(schema, Mapping):
        yield where, schema
        for keyword, part in schema.items():
            place = f"{where}.{keyword}".lstrip(".")
            if keyword in ("properties", "patternProperties", "$defs", "definitions"):
                for name, inner in part.items():
                    yield from _subschemas(inner, f"{place}.{name}")
            elif keyword not in _DATA:
                for inner in part if isinstance(part, list | tuple) else [part]:
                    yield from _subschemas(inner, place)


def _as_text(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InputError(f"a schema must be JSON: {exc}") from exc


@lru_cache(maxsize=256)  # thousands of prompts share a few schemas
def _validator(text: str) -> Validator:
    from jsonschema import Draft202012Validator, validators
    from jsonschema.exceptions import SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    schema = json.loads(text)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as exc:
        raise _wrong(".".join(map(str, exc.path)), _message(exc)) from None
    except RecursionError:
        raise _wrong("", "nested too deeply to be checked") from None
    # An empty registry: jsonschema's own would fetch what a reference points to.
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for place, part in _subschemas(schema, ""):
        for keyword in {"$ref", "$dynamicRef"} & part.keys():
            try:
                resolver.lookup(part[keyword])
            except Unresolvable:
                problem = f"{part[keyword]!r} is not in the schema (nothing is fetched)"
                raise _wrong(f"{place}.{keyword}".lstrip("."), problem) from None
    kind = validators.extend(
        Draft202012Validator,
        type_checker=Draft202012Validator.TYPE_CHECKER.redefine("number", _is_number),
    )
    return kind(schema, registry=Registry())


def _is_number(checker: object, value: Any) -> bool:
    # In JSON there is no NaN, and nothing is infinite.
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _message(error: Any) -> str:
    return " or ".join(inner.message for inner in error.context) or str(error.message)


def _wrong(place: str, problem: str) -> InputError:
    return InputError(printable(f"schema{f' at {place}' if place else ''}: {problem}", _MOST_SHOWN))
