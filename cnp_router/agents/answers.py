"""What the reasoning steps answer.

First the JSON object that a model is asked for, as pydantic models (`AnswerModel`), whose JSON
schema goes with the prompt; then what it means: typed, and free of what a model hallucinated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from cnp_router.records import one_line

__all__ = [
    "AnswerModel",
    "ApiSelection",
    "Bid",
    "CategoryMapping",
    "Composition",
    "Decomposition",
    "ProposedApi",
    "allowed_names",
]

_LEFT_OUT = ("$defs", "title", "description")


class AnswerModel(BaseModel):
    """Base of the JSON objects that models are asked for: exactly these keys.

    Examples
    --------
    >>> class Weather(AnswerModel):
    ...     rain: bool
    >>> Weather.json_schema() == {"type": "object", "properties": {"rain": {"type": "boolean"}},
    ...                           "required": ["rain"], "additionalProperties": False}
    True
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    @cache
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON schema without titles and references: every server takes it."""
        full = cls.model_json_schema()
        return _plain(full, full.get("$defs", {}))


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    plain = {key: schema[key] for key in reversed(list(schema)) if key not in _LEFT_OUT}
    if "properties" in plain:
        parts = plain["properties"].items()
        plain["properties"] = {name: _plain(part, definitions) for name, part in parts}
    if "items" in plain:
        plain["items"] = _plain(plain["items"], definitions)
    if "anyOf" in plain:
        plain["anyOf"] = [_plain(part, definitions) for part in plain["anyOf"]]
    return plain


@dataclass(frozen=True, slots=True)
class ProposedApi:
    """The id of an API in a proposal, and why it fits."""

    api: str
    grounds: str = ""

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The answer to step 1: the functions that a request is made of, at least one."""

    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CategoryMapping:
    """The answer to step 2: the categories of each function, as far as they exist."""

    functions: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    hallucinated: tuple[str, ...] = ()

    @property
    def all_categories(self) -> tuple[str, ...]:
        """Each category once, in order."""
        return tuple(dict.fromkeys(name for names in self.categories for name in names))


@dataclass(frozen=True, slots=True)
class Bid:
    """The answer of a contractor: which of its own APIs it proposes, or why it refuses."""

    apis: tuple[ProposedApi, ...]  # none is a refusal
    grounds: str = ""  # of a refusal
    functions: tuple[str, ...] = ()  # step 1, where the contractor takes it
    categories: tuple[str, ...] = ()  # step 2, where the contractor takes it
    hallucinated: tuple[str, ...] = ()

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class ApiSelection:
    """The answer to step 4: the final set, ids that were proposed."""

    apis: tuple[str, ...]
    hallucinated: tuple[str, ...] = ()

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class Composition:
    """The answer of a single agent: all four steps, of names that are in the specifications."""

    functions: tuple[str, ...]
    categories: tuple[str, ...]
    candidates: tuple[str, ...]  # ids after step 3
    apis: tuple[str, ...]  # ids after step 4, all of them candidates
    hallucinated: tuple[str, ...] = ()


def allowed_names(
    names: Iterable[str], allowed: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the distinct names that are allowed, and those that are not.

    Examples
    --------
    >>> allowed_names(["maps", "mpas", "maps"], {"maps", "sms"})
    (('maps',), ('mpas',))
    """
    allowed = frozenset(allowed)
    distinct = dict.fromkeys(names)
    return (
        tuple(name for name in distinct if name in allowed),
        tuple(name for name in distinct if name not in allowed),
    )
