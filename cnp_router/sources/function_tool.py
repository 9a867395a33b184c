"""A Python function as a tool: its schema, and its arguments out of named inputs."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError
from cnp_router.printing import printable
from cnp_router.records import shown
from cnp_router.sources.source import SEPARATOR, Attachment, CallResult

__all__ = ["FunctionTool"]

_KEY = "idempotency_key"
_MOST_ERRORS = 5
_PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?=\n\n?[A-Z][\w ]*\n-+$|\Z)", re.M | re.S)
_PARAMETER = re.compile(r"^(\w+(?:, \w+)*)(?: *:.*)?\n((?:[ \t]+\S.*\n?|\n)+)", re.M)


@dataclass(frozen=True, eq=False, repr=False)
class FunctionTool:
    """One function that can be called with named inputs."""

    api: Api
    function: Callable[..., Any]  # without what a partial has filled in
    is_async: bool
    takes_key: bool
    validator: Any  # a TypeAdapter of a function that returns its arguments

    @classmethod
    def of(
        cls, source: str, name: str, function: Callable[..., Any], effects: Effects = "unknown"
    ) -> FunctionTool:
        """Return the tool that a function is; InputError if it cannot be called by names."""
        given: Any = function.func if isinstance(function, functools.partial) else function
        if not callable(given) or isinstance(given, type):
            raise InputError(f"functions must be callables and no classes, got {shown(given)}")
        called = f"function {name!r} of source {source!r}"
        inner = given if inspect.isroutine(given) else given.__call__
        text = inspect.getdoc(inner if inner.__doc__ else given) or ""
        if isinstance(function, functools.partial):
            function = functools.partial(inner, *function.args, **function.keywords)
        else:
            function = inner
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise InputError(f"{called} yields its results (return a list of them)")
        parameters = _named_parameters(called, function)
        validator, schema = _schema(called, function)
        properties = schema.get("properties", {})
        takes_key = _KEY in parameters
        if takes_key:
            properties.pop(_KEY, None)
            schema["required"] = [each for each in schema.get("required", []) if each != _KEY]
        if not schema.get("required"):
            schema.pop("required", None)
        for each, said in _described(text).items():
            if each in properties:
                properties[each].setdefault("description", said)
        description = " ".join(text.strip().partition("\n\n")[0].split())
        id_ = f"{source}{SEPARATOR}{name}"
        api = Api(id_, name, description, (), schema, effects, returns=_returned(inner))
        return cls(api, inner, inspect.iscoroutinefunction(inner), takes_key, validator)

    def arguments(self, inputs: Mapping[str, Any], key: str) -> tuple[Any, Any]:
        """Return positional and named arguments, validated and no part of `inputs` itself."""
        from pydantic import ValidationError

        if self.takes_key:
            if _KEY in inputs:
                raise InputError(f"{_KEY}: Unexpected keyword argument")
            inputs = {**inputs, _KEY: key}
        try:
            values: tuple[Any, Any] = self.validator.validate_json(json.dumps(dict(inputs)))
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_context=False, include_input=False)
            said = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in errors[:_MOST_ERRORS]]
            more = len(errors) - len(said)
            more_said = f", and {more} more" if more else ""
            raise InputError(printable("; ".join(said), 1_000) + more_said) from None
        return values


def _named_parameters(called: str, function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise InputError(
            f"{called} has no signature (wrap it in a function whose parameters have names)"
        ) from None
    for each in parameters.values():
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            stars = "*" if each.kind == each.VAR_POSITIONAL else ""
            raise InputError(
                f"{called} takes {stars}{each.name} by position only, and inputs have names "
                "(wrap it in a function whose parameters have names)"
            )
    return parameters


def _schema(called: str, function: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """Return what validates the arguments of a function, and their JSON Schema."""
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Generate(GenerateJsonSchema):
        # A default that JSON cannot hold is left out of the schema, and that is all.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    try:
        taking: Any = _returning_arguments(function)
        validator: Any = TypeAdapter(taking)
        schema = validator.json_schema(schema_generator=Generate)
        json.dumps(schema, allow_nan=False)
    except (PydanticUserError, NameError, TypeError, ValueError) as exc:
        said = printable(str(exc).partition("\n")[0], 300)
        raise InputError(
            f"{called} has parameters without a JSON Schema: {said} "
            "(annotate them with types that JSON can hold)"
        ) from exc
    for name, each in schema.get("properties", {}).items():
        if each.get("title") == name.title().replace("_", " ").strip():
            del each["title"]  # says nothing that the name does not
    return validator, schema


def _returned(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the JSON Schema of the objects that a function says it returns, if it says so."""
    from pydantic import PydanticUserError, TypeAdapter

    try:
        said = get_type_hints(function).get("return")
        if said in (None, type(None), CallResult, Attachment):
            return None
        schema: dict[str, Any] = TypeAdapter(said).json_schema(mode="serialization")
        json.dumps(schema, allow_nan=False)
    except (PydanticUserError, NameError, TypeError, ValueError):
        return None  # plans can do without
    return schema if "properties" in schema or "$ref" in schema else None


def _returning_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the same parameters that returns its arguments.

    So that what does not fit is told from a validation error inside the function.
    """
    if isinstance(function, functools.partial):
        inner = _returning_arguments(function.func)
        return functools.partial(inner, *function.args, **function.keywords)

    @functools.wraps(function)
    def arguments(*args: Any, **named: Any) -> tuple[Any, Any]:
        return args, named

    return arguments


def _described(text: str) -> dict[str, str]:
    """Return the descriptions of parameters in a numpydoc docstring."""
    section = _PARAMETERS.search(text)
    if section is None:
        return {}
    return {
        name: " ".join(said.split())
        for names, said in _PARAMETER.findall(f"{section[1]}\n")
        for name in names.split(", ")
    }
