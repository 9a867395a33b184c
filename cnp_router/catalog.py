"""`Api`, `Catalog` and `Contractor`: what can be called, all of it, and who holds it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from cnp_router.exceptions import DataFileError, InputError, UnknownApiError
from cnp_router.files import read_jsonl, write_jsonl
from cnp_router.records import Record, check_id, string_tuple

__all__ = ["Api", "Catalog", "Contractor"]


@dataclass(frozen=True, slots=True)
class Api:
    """One callable capability. A tool is an API.

    Parameters
    ----------
    id : str
        Unique in a catalog.
    name : str
        What people call it.
    description : str, default=""
        What it does, in plain language.
    categories : tuple of str, default=()
        The categories it is filed under.
    parameters : mapping or None, default=None
        Its input parameters, name to type or schema. Carried along, not interpreted.

    Examples
    --------
    >>> Api("maps", "Maps", "Shows places on a map.", ("Mapping",)).categories
    ('Mapping',)
    """

    id: str
    name: str
    description: str = ""
    categories: tuple[str, ...] = ()
    parameters: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", string_tuple("categories", self.categories))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this API, as in ``apis.jsonl``."""
        record: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "categories": list(self.categories),
        }
        if self.parameters is not None:
            record["parameters"] = dict(self.parameters)
        return record


@dataclass(frozen=True, slots=True)
class Contractor:
    """An agent that holds APIs and bids for tasks. It sees the specifications of these only.

    Parameters
    ----------
    id : str
    apis : tuple of Api
        At least one.

    Raises
    ------
    InputError
        If the id is blank or there is no API.

    Examples
    --------
    >>> travel = Contractor("travel", (Api("maps", "Maps", categories=("Mapping", "Travel")),))
    >>> travel.categories
    ('Mapping', 'Travel')
    """

    id: str
    apis: tuple[Api, ...]

    def __post_init__(self) -> None:
        check_id("contractor", self.id)
        object.__setattr__(self, "apis", tuple(self.apis))
        if not self.apis:
            raise InputError(f"contractor {self.id!r} holds no API (give it at least one)")

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of its APIs, each once."""
        return tuple(dict.fromkeys(name for api in self.apis for name in api.categories))


class Catalog:
    """An immutable, ordered set of APIs.

    Parameters
    ----------
    apis : iterable of Api
        With distinct ids.

    Raises
    ------
    InputError
        If two APIs have the same id, an id is blank, or there is no API.

    Examples
    --------
    >>> catalog = Catalog([Api("maps", "Maps"), Api("sms", "SMS", categories=("Messaging",))])
    >>> len(catalog), catalog.position("sms"), catalog["sms"].name
    (2, 1, 'SMS')
    >>> catalog.categories
    ('Messaging',)
    """

    def __init__(self, apis: Iterable[Api]) -> None:
        self._apis = tuple(apis)
        self._positions: dict[str, int] = {}
        for position, api in enumerate(self._apis):
            check_id("API", api.id)
            if self._positions.setdefault(api.id, position) != position:
                raise InputError(f"duplicate API id {api.id!r} (ids must be unique)")
        if not self._apis:
            raise InputError("a catalog needs at least one API (got none)")

    @property
    def ids(self) -> tuple[str, ...]:
        """The API ids, in catalog order."""
        return tuple(self._positions)

    @property
    def categories(self) -> tuple[str, ...]:
        """All categories, sorted."""
        return tuple(sorted({name for api in self._apis for name in api.categories}))

    def in_categories(self, categories: Iterable[str]) -> tuple[Api, ...]:
        """Return the APIs that are filed under any of some categories, in catalog order.

        Categories that no API has are passed over.
        """
        found = {place for name in categories for place in self._filed.get(name, ())}
        return tuple(self._apis[place] for place in sorted(found))

    @cached_property
    def _filed(self) -> dict[str, list[int]]:
        """Positions by category."""
        filed: dict[str, list[int]] = {}
        for place, api in enumerate(self._apis):
            for name in api.categories:
                filed.setdefault(name, []).append(place)
        return filed

    def position(self, api_id: str) -> int:
        """Return the index of an API.

        Raises
        ------
        UnknownApiError
            If the catalog does not have it.
        """
        try:
            return self._positions[api_id]
        except KeyError:
            close = difflib.get_close_matches(str(api_id), self._positions, n=1)
            raise UnknownApiError(api_id, close=close) from None

    def extended(self, apis: Iterable[Api]) -> Catalog:
        """Return a new catalog with more APIs at its end."""
        return Catalog((*self._apis, *apis))

    @classmethod
    def read(cls, path: str | Path) -> Catalog:
        """Read a catalog from JSON Lines.

        Parameters
        ----------
        path : str or Path
            Each line ``{"id", "name", "description"?, "categories"?, "parameters"?}``.
            Other keys are ignored.

        Raises
        ------
        DataFileError
            With the line number and the cure.
        """
        apis: list[Api] = []
        first_line: dict[str, int] = {}
        for line, fields in read_jsonl(path):
            record = Record(fields, path, line)
            api = Api(
                id=record.identifier("id"),
                name=record.text("name"),
                description=record.text("description", default=""),
                categories=record.strings("categories", default=()),
                parameters=record.mapping("parameters"),
            )
            if api.id in first_line:
                raise DataFileError(
                    path,
                    f"duplicate API id {api.id!r}, first on line {first_line[api.id]}",
                    line=line,
                    cure="ids must be unique",
                )
            first_line[api.id] = line
            apis.append(api)
        return cls(apis)

    def write(self, path: str | Path) -> None:
        """Write the catalog as JSON Lines, atomically.

        Raises
        ------
        DataFileError
            If the place cannot be written, or an API not be written as JSON.
        """
        write_jsonl(path, (api.to_dict() for api in self._apis))

    def __len__(self) -> int:
        return len(self._apis)

    def __iter__(self) -> Iterator[Api]:
        return iter(self._apis)

    def __contains__(self, item: object) -> bool:
        return (item.id if isinstance(item, Api) else item) in self._positions

    @overload
    def __getitem__(self, key: int | str) -> Api: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Api, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Api | tuple[Api, ...]:
        if isinstance(key, str):
            return self._apis[self.position(key)]
        return self._apis[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self._apis == other._apis

    def __hash__(self) -> int:
        return hash(self._apis)

    def __repr__(self) -> str:
        return f"Catalog({len(self)} APIs, {len(self.categories)} categories)"
