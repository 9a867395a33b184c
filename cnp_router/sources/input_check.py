"""Whether the inputs of a call fit the JSON Schema of a tool, at a bounded cost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from cnp_router.exceptions import InputError, shown
from cnp_router.printing import printable
from cnp_router.records import check_json
from cnp_router.sources.patterns import Matcher, PatternError

__all__ = ["InputCheck", "input_check"]

_MOST_SHOWN = 300  # characters of what is wrong
_LONGEST = 500_000  # characters of a schema
_MOST_STEPS = 50_000  # keywords looked at in one check
_PATTERN_SECONDS = 0.25  # for all patterns of one check
_MOST_ERRORS = 100  # among which the most telling one is looked for
_ANYTHING = {"type": "object"}


def input_check(schema: Mapping[str, Any] | None) -> InputCheck:
    """Return the check of inputs by a schema, which is made once for each schema.

    Parameters
    ----------
    schema : mapping or None
        JSON Schema of the draft that its ``$schema`` names, or else 2020-12. None takes any object.

    Raises
    ------
    InputError
        If it is not a JSON Schema.

    Examples
    --------
    >>> check = input_check({"type": "object", "properties": {"zone": {"type": "string"}}})
    >>> check({"zone": "Asia/Tokyo"})
    ()
    >>> check({"zone": 9})
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.InputError: inputs.zone: 9 is not of type 'string'
    """
    return _made(json.dumps(check_json("parameters", _ANYTHING if schema is None else schema)))


class InputCheck:
    """Checks inputs by one schema; made by `input_check`.

    Nothing is ever fetched. Keywords are counted and patterns timed, so that no schema takes more
    than about a second.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._notes: dict[str, None] = {}
        self._steps, self._matcher = 0, Matcher(0)
        self._validator = self._for(schema)

    def __call__(self, inputs: Mapping[str, Any]) -> tuple[str, ...]:
        """Check inputs, and return notes on what could not be checked and is left to the tool.

        Raises
        ------
        InputError
            If the inputs do not fit: the place, what came, and what is wanted.
        """
        from jsonschema.exceptions import best_match

        # As they are sent: tuples are lists.
        sent = json.loads(json.dumps(dict(check_json("inputs", inputs))))
        self._notes = {}
        self._steps, self._matcher = 0, Matcher(_PATTERN_SECONDS)
        try:
            errors = itertools.islice(self._validator.iter_errors(sent), _MOST_ERRORS)
            error = best_match(errors)
        except (_TooLargeError, RecursionError):
            raise InputError(
                "inputs: they cannot be checked, since they or their schema are too deep or too "
                "large (give smaller ones)"
            ) from None
        if error is None:
            return tuple(self._notes)
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
        short = shown(error.instance, _MOST_SHOWN // 3)  # so that what is wanted can be read
        problem = error.message.replace(repr(error.instance), short, 1)
        raise InputError(printable(f"inputs{place}: {problem}", _MOST_SHOWN))

    def _for(self, schema: Mapping[str, Any]) -> Any:
        """Return the validator of a schema, every keyword of which is counted."""
        import attrs
        from jsonschema import Draft202012Validator, FormatChecker, validators
        from jsonschema.exceptions import SchemaError
        from referencing import Registry

        named = isinstance(schema.get("$schema"), str)
        default = Draft202012Validator
        kind = validators.validator_for(schema, default) if named else default
        try:
            # No formats: a pattern may be one of JavaScript's alone, which is no reason to refuse.
            kind.check_schema(schema, format_checker=FormatChecker(formats=()))
        except SchemaError as exc:
            place = "".join(f".{part}" for part in exc.absolute_path)
            problem = f"not a JSON Schema: schema{place}: {exc.message}"
            raise InputError(printable(problem, _MOST_SHOWN)) from None
        except RecursionError:
            raise InputError("not a JSON Schema: nested too deeply") from None
        own: dict[str, Any] = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "uniqueItems": _unique_items,
        }
        keywords = {**kind.VALIDATORS, **own}
        for name in {"$ref", "$dynamicRef", "$recursiveRef"} & keywords.keys():
            keywords[name] = self._within(keywords[name])
        if "patternProperties" in json.dumps(schema):  # they would be matched by `re`
            for name in {"unevaluatedProperties"} & keywords.keys():
                keywords[name] = self._left
        counted = {name: self._counted(function) for name, function in keywords.items()}
        checked = validators.extend(kind, counted)
        # Its own goes over to a class without these keywords wherever another `$schema` stands.
        checked.evolve = attrs.evolve
        # An empty registry: that of jsonschema would fetch what a reference points to.
        return checked(schema, registry=Registry())

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise _TooLargeError
            return function(*arguments)

        return step

    def _within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Follow a reference, unless it leaves the schema."""
        from referencing.exceptions import Unresolvable

        def follow(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
            try:
                yield from function(validator, reference, instance, schema)
            except Unresolvable:
                self._note(f"what {reference!r} refers to is not in the schema")

        return follow

    def _left(self, validator: Any, *_: Any) -> Iterator[Any]:
        self._note("unevaluatedProperties beside patternProperties")
        return iter(())

    def _note(self, what: str) -> None:
        self._notes[printable(f"not checked: {what}", _MOST_SHOWN)] = None

    def _is_found(self, pattern: str, text: str, *, unknown: bool = True) -> bool:
        """Return whether a pattern is found; `unknown`, with a note, where nobody can tell."""
        try:
            return self._matcher.is_found(pattern, text)
        except PatternError as exc:
            self._note(f"the pattern {pattern!r}: {exc}")
            return unknown

    def _pattern(self, validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not self._is_found(pattern, instance):
            yield _error(f"{instance!r} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any
    ) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            for pattern, subschema in patterns.items():
                for key, value in instance.items():
                    if self._is_found(pattern, key, unknown=False):
                        yield from validator.descend(value, subschema, key, pattern)

    def _additional_properties(
        self, validator: Any, wanted: Any, instance: Any, schema: Any
    ) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for key in [key for key in instance if key not in known]:
            if any(self._is_found(pattern, key) for pattern in patterns):
                continue
            if wanted is False:
                there = ", ".join(map(repr, known)) or "nothing"
                yield _error(f"{key!r} is not a parameter (it takes {there})")
            else:
                yield from validator.descend(instance[key], wanted, key)


class _TooLargeError(Exception):
    """Too many keywords were looked at."""


def _unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    if wanted and validator.is_type(instance, "array"):
        seen = {json.dumps(item, sort_keys=True) for item in instance}
        if len(seen) < len(instance):
            yield _error(f"{instance!r} has the same item twice")


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


@lru_cache(maxsize=4096)
def _made(text: str) -> InputCheck:
    if len(text) > _LONGEST:
        raise InputError(f"a schema of {len(text):,} characters (at most {_LONGEST:,})")
    return InputCheck(json.loads(text))
