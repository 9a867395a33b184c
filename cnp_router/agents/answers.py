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
    """An API in a proposal.

    Parameters
    ----------
    api : str
        Its id.
    grounds : str, default=""
        Why it fits.
    """

    api: str
    grounds: str = ""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The answer to step 1: the functions that a request is made of.

    Parameters
    ----------
    functions : tuple of str
        At least one.
    """

    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CategoryMapping:
    """The answer to step 2: the categories of each function.

    Parameters
    ----------
    functions : tuple of str
    categories : tuple of tuples of str
        Of each function, those that exist.
    hallucinated : tuple of str
        Names that are no categories of the catalog; they were dropped.
    """

    functions: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    hallucinated: tuple[str, ...] = ()

    @property
    def all_categories(self) -> tuple[str, ...]:
        """Each category once, in order."""
        return tuple(dict.fromkeys(name for names in self.categories for name in names))


@dataclass(frozen=True, slots=True)
class Bid:
    """The answer of a contractor: what it proposes, or why it refuses.

    Parameters
    ----------
    apis : tuple of ProposedApi
        Of its own APIs; none is a refusal.
    grounds : str, default=""
        Of a refusal.
    functions, categories : tuple of str
        Steps 1 and 2, where the contractor takes them.
    hallucinated : tuple of str
        Ids that are none of its APIs; they were dropped.
    """

    apis: tuple[ProposedApi, ...]
    grounds: str = ""
    functions: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    hallucinated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiSelection:
    """The answer to step 4: the final set.

    Parameters
    ----------
    apis : tuple of str
        Ids, all of them proposed.
    hallucinated : tuple of str
        Ids that nobody proposed; they were dropped.
    """

    apis: tuple[str, ...]
    hallucinated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Composition:
    """The answer of a single agent that takes all four steps.

    Parameters
    ----------
    functions, categories : tuple of str
    candidates, apis : tuple of str
        Ids after step 3 and step 4.
    hallucinated : tuple of str
        Ids and categories that are not in the catalog, and chosen ids that are no candidates;
        they were dropped.
    """

    functions: tuple[str, ...]
    categories: tuple[str, ...]
    candidates: tuple[str, ...]
    apis: tuple[str, ...]
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
