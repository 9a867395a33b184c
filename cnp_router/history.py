"""`Mashup` and `History`: past compositions, each a requirement and the APIs that served it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, overload

from cnp_router.catalog import Catalog
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import read_jsonl, write_jsonl
from cnp_router.records import Record, check_id, string_tuple

__all__ = ["History", "Mashup", "UnknownPolicy", "parse_mashup"]

UnknownPolicy = Literal["error", "skip"]


@dataclass(frozen=True, slots=True)
class Mashup:
    """One past composition.

    Parameters
    ----------
    id : str
        Unique in a history.
    description : str
        The requirement in plain language: the request text.
    apis : tuple of str
        Ids of the APIs used; in order of use where `ordered`.
    categories : tuple of str, default=()
    name : str or None, default=None
        Never used as request text: users do not name their mashup.
    date : datetime.date or None, default=None
    ordered : bool, default=False
        Whether `apis` is in order of use.

    Examples
    --------
    >>> Mashup("m1", "Send me a text when it rains.", ("weather", "sms")).apis
    ('weather', 'sms')
    """

    id: str
    description: str
    apis: tuple[str, ...]
    categories: tuple[str, ...] = ()
    name: str | None = None
    date: datetime.date | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "apis", string_tuple("apis", self.apis))
        object.__setattr__(self, "categories", string_tuple("categories", self.categories))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this mashup, as in ``mashups.jsonl``."""
        record: dict[str, Any] = {
            "id": self.id,
            "description": self.description,
            "apis": list(self.apis),
        }
        if self.categories:
            record["categories"] = list(self.categories)
        if self.name is not None:
            record["name"] = self.name
        if self.date is not None:
            record["date"] = self.date.isoformat()
        if self.ordered:
            record["ordered"] = True
        return record


class History(Sequence[Mashup]):
    """An immutable list of mashups.

    Parameters
    ----------
    mashups : iterable of Mashup
        With distinct ids, each with at least one API.
    skipped : int, default=0
        How many mashups were left out when this history was read or filtered.

    Raises
    ------
    InputError
        If two mashups have the same id, an id is blank, or a mashup has no API.

    Examples
    --------
    >>> history = History([Mashup("m1", "Weather on a map", ("weather", "maps"))])
    >>> len(history), history.texts
    (1, ('Weather on a map',))
    """

    def __init__(self, mashups: Iterable[Mashup], *, skipped: int = 0) -> None:
        self._mashups = tuple(mashups)
        self.skipped = skipped
        seen: set[str] = set()
        for mashup in self._mashups:
            check_id("mashup", mashup.id)
            if mashup.id in seen:
                raise InputError(f"duplicate mashup id {mashup.id!r} (ids must be unique)")
            if not mashup.apis:
                raise InputError(f"mashup {mashup.id!r} has no API (give at least one)")
            seen.add(mashup.id)

    @property
    def texts(self) -> tuple[str, ...]:
        """The request texts, in order."""
        return tuple(mashup.description for mashup in self._mashups)

    def known_to(self, catalog: Catalog) -> History:
        """Return the mashups whose APIs are all in `catalog`; the others count as skipped.

        This is the thesis's filter: a mashup that names an unknown API is dropped whole.

        Examples
        --------
        >>> from cnp_router.catalog import Api
        >>> history = History([Mashup("m1", "Rain by text", ("weather", "sms"))])
        >>> kept = history.known_to(Catalog([Api("sms", "SMS")]))
        >>> len(kept), kept.skipped
        (0, 1)
        """
        kept = [m for m in self._mashups if all(api in catalog for api in m.apis)]
        return History(kept, skipped=self.skipped + len(self) - len(kept))

    @classmethod
    def read(
        cls,
        path: str | Path | Iterable[str | Path],
        *,
        catalog: Catalog | None = None,
        unknown: UnknownPolicy = "error",
    ) -> History:
        """Read a history from one or more JSON Lines files.

        Parameters
        ----------
        path : str, Path or iterable of them
            Each line ``{"id", "description", "apis", "categories"?, "name"?, "date"?,
            "ordered"?}``. Other keys are ignored.
        catalog : Catalog, optional
            Check every API id against it.
        unknown : {"error", "skip"}, default="error"
            What to do with a mashup that names an API the catalog does not have: raise, or
            leave the mashup out and count it in ``skipped``.

        Raises
        ------
        DataFileError
            With the line number and the cure.
        InputError
            If `unknown` is neither of the two.
        """
        if unknown not in get_args(UnknownPolicy):
            raise InputError(f"unknown must be 'error' or 'skip', got {unknown!r}")
        paths = [path] if isinstance(path, str | Path) else list(path)
        mashups: list[Mashup] = []
        first_seen: dict[str, str] = {}
        skipped = 0
        for file in paths:
            for line, fields in read_jsonl(file):
                mashup = parse_mashup(Record(fields, file, line))
                if mashup.id in first_seen:
                    raise DataFileError(
                        file,
                        f"duplicate mashup id {mashup.id!r}, first in {first_seen[mashup.id]}",
                        line=line,
                        cure="ids must be unique",
                    )
                first_seen[mashup.id] = f"{file}, line {line}"
                strangers = [a for a in mashup.apis if catalog is not None and a not in catalog]
                if strangers and unknown == "error":
                    raise DataFileError(
                        file,
                        f"unknown API {strangers[0]!r}",
                        line=line,
                        cure="add it to the catalog, or skip such mashups with unknown='skip'",
                    )
                if strangers:
                    skipped += 1
                else:
                    mashups.append(mashup)
        return cls(mashups, skipped=skipped)

    def write(self, path: str | Path) -> None:
        """Write the history as JSON Lines, atomically.

        Raises
        ------
        DataFileError
            If the place cannot be written, or a mashup not be written as JSON.
        """
        write_jsonl(path, (mashup.to_dict() for mashup in self._mashups))

    def __len__(self) -> int:
        return len(self._mashups)

    def __iter__(self) -> Iterator[Mashup]:
        return iter(self._mashups)

    @overload
    def __getitem__(self, key: int) -> Mashup: ...
    @overload
    def __getitem__(self, key: slice) -> History: ...
    def __getitem__(self, key: int | slice) -> Mashup | History:
        if isinstance(key, slice):
            return History(self._mashups[key])
        return self._mashups[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._mashups == other._mashups

    def __hash__(self) -> int:
        return hash(self._mashups)

    def __repr__(self) -> str:
        note = f", {self.skipped} skipped" if self.skipped else ""
        return f"History({len(self)} mashups{note})"


def parse_mashup(record: Record) -> Mashup:
    """Return the mashup in a record of a file, or raise DataFileError."""
    apis = record.strings("apis")
    if not apis:
        raise record.error("field 'apis' must not be empty", cure="name at least one API id")
    if not all(api.strip() for api in apis):
        raise record.error("field 'apis' must not hold a blank id", cure="remove it")
    return Mashup(
        id=record.identifier("id"),
        description=record.text("description"),
        apis=apis,
        categories=record.strings("categories", default=()),
        name=record.optional_text("name"),
        date=record.day("date"),
        ordered=record.flag("ordered"),
    )
