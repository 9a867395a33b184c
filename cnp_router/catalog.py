"""`Api`, `Catalog` and `Contractor`: what can be called, all of it, and who holds it."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, overload

from cnp_router.closest import closest
from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.items import ItemKind, Items, UniqueItems
from cnp_router.records import (
    RESERVED_IDS,
    Record,
    check_id,
    check_json,
    check_text,
    instances,
    json_object,
    read_records,
    shown,
    string_tuple,
)

__all__ = ["Api", "Catalog", "Contractor", "DataClass", "Effects", "LookAlikeWarning"]

Effects = Literal["reads", "writes", "unknown"]
DataClass = Literal["public", "private", "confidential"]
"""Of what an API gives: whom it may reach."""

# Cyrillic and Greek letters that look like Latin letters in most fonts.
_LATIN = str.maketrans(
    "АВЕКМНОРСТХаеорсухіјѕΑΒΕΖΗΙΚΜΝΟΡΤΥΧοινρ",  # noqa: RUF001  (that is the point)
    "ABEKMHOPCTXaeopcyxijsABEZHIKMNOPTYXoivp",
)
ROWS_SHOWN = 10


class LookAlikeWarning(UserWarning):
    """Two APIs of a catalog have ids or names that a person cannot tell apart."""


@dataclass(frozen=True, slots=True, repr=False)
class Api:
    """One callable capability. A tool is an API.

    Parameters
    ----------
    id : str
        Unique in a catalog. Kept in Unicode's normal form C; blank ids, spaces at the ends,
        control and invisible characters, ``"manager"`` and ``"user"`` are refused.
    name : str
        What people call it.
    description : str, default=""
        What it does, in plain language.
    categories : tuple of str, default=()
        The categories it is filed under.
    parameters : mapping or None, default=None
        JSON Schema of its inputs, or a plain mapping of name to type. Names and descriptions of
        parameters count as words of the specification; what JSON cannot hold is refused.
    effects : {"reads", "writes", "unknown"}, default="unknown"
        Whether a call changes anything. Only what reads is executed without asking.
    summary : str, default=""
        What a planner or an agent is shown in place of the description, to compare it with others.
    keywords : tuple of str, default=()
        What they are shown of it once it is chosen. Routing looks at neither of the two.
    returns : mapping or None, default=None
        JSON Schema of its structured results, where it says one. Plans find there what one job
        gives to another; no text of it counts as words.

    Raises
    ------
    InputError
        If a value cannot be used.

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
    effects: Effects = "unknown"
    summary: str = ""
    keywords: tuple[str, ...] = ()
    returns: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", check_id("API", self.id))
        check_text("name", self.name)
        check_text("description", self.description)
        check_text("summary", self.summary)
        object.__setattr__(self, "keywords", string_tuple("keywords", self.keywords))
        object.__setattr__(self, "categories", string_tuple("categories", self.categories))
        if self.parameters is not None:
            check_json("parameters", self.parameters)
        if self.returns is not None:
            check_json("returns", self.returns)
        if not isinstance(self.effects, str) or self.effects not in get_args(Effects):
            raise InputError(
                f"effects must be 'reads', 'writes' or 'unknown', got {shown(self.effects)}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this API, as in ``apis.jsonl``."""
        parameters = None if self.parameters is None else dict(self.parameters)
        effects = None if self.effects == "unknown" else self.effects
        returns = None if self.returns is None else dict(self.returns)
        lengths = {"summary": self.summary or None, "keywords": self.keywords or None}
        return json_object(self, parameters=parameters, effects=effects, returns=returns, **lengths)

    def __repr__(self) -> str:
        return f"Api({self.id!r}, {shown(self.name)}, {shown(self.description)})"


@dataclass(frozen=True, slots=True, repr=False)
class Contractor:
    """An agent that holds APIs and bids for tasks. It sees the specifications of these only.

    Parameters
    ----------
    id : str
        As that of an `Api`.
    apis : tuple of Api
        At least one.

    Raises
    ------
    InputError
        If the id cannot be used or there is no API.

    Examples
    --------
    >>> travel = Contractor("travel", (Api("maps", "Maps", categories=("Mapping", "Travel")),))
    >>> travel.categories
    ('Mapping', 'Travel')
    """

    id: str
    apis: tuple[Api, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", check_id("contractor", self.id))
        object.__setattr__(self, "apis", instances("apis", self.apis, Api))
        if not self.apis:
            raise InputError(f"contractor {self.id!r} holds no API (give it at least one)")

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of its APIs, each once."""
        return tuple(dict.fromkeys(name for api in self.apis for name in api.categories))

    def __repr__(self) -> str:
        return f"Contractor({self.id!r}, {len(self.apis)} APIs)"


_COLUMNS = tuple(part.name for part in fields(Api))


def _make(record: Record) -> Api:
    return record.make(Api)


def _categories(api: Api) -> tuple[str, ...]:
    return api.categories


def _id_looks(api: Api) -> tuple[str, ...]:
    return (_looks(api.id),)


def _name_looks(api: Api) -> tuple[str, ...]:
    return (_looks(api.name),)


class Catalog(UniqueItems[Api]):
    """An immutable, ordered set of APIs.

    Ids or names that look alike (in another case, with letters of another script, or with
    characters that cannot be seen) give one `LookAlikeWarning`: neither a person nor a model
    tells them apart.

    Parameters
    ----------
    apis : iterable of Api
        With distinct ids.

    Raises
    ------
    InputError
        If something is not an Api, two have the same id, or there is none.

    Examples
    --------
    >>> catalog = Catalog([Api("maps", "Maps"), Api("sms", "SMS", categories=("Messaging",))])
    >>> len(catalog), catalog.position("sms"), catalog["sms"].name
    (2, 1, 'SMS')
    >>> catalog.categories
    ('Messaging',)
    """

    KIND: ClassVar[ItemKind[Any]] = ItemKind(
        plural="apis",
        type=Api,
        called="API",
        make=_make,
        keys={"category": _categories, "id-looks": _id_looks, "name-looks": _name_looks},
        listed=("id", "category"),
    )

    def __init__(self, apis: Iterable[Api]) -> None:
        super().__init__(apis)
        if not len(self):
            raise InputError("a catalog needs at least one API (got none)")
        _warn_of_look_alikes(_look_alikes(self._items))

    @property
    def ids(self) -> tuple[str, ...]:
        """The API ids, in catalog order."""
        return self._items.values("id")

    @property
    def categories(self) -> tuple[str, ...]:
        """All categories, sorted."""
        return self._items.values("category")

    def in_categories(self, categories: Iterable[str]) -> tuple[Api, ...]:
        """Return the APIs that are filed under any of some categories, in catalog order.

        Categories that no API has are passed over.
        """
        return tuple(map(self._items.item, self._places_in(categories)))

    def ids_in(self, categories: Iterable[str]) -> tuple[str, ...]:
        """Return the ids of the APIs that `in_categories` returns, which reads none of them.

        Examples
        --------
        >>> Catalog([Api("maps", "Maps", categories=("Mapping",))]).ids_in(["Mapping"])
        ('maps',)
        """
        ids = self.ids
        return tuple(ids[place] for place in self._places_in(categories))

    def _places_in(self, categories: Iterable[str]) -> list[int]:
        names = string_tuple("categories", categories)
        return sorted({place for name in names for place in self._items.find("category", name)})

    def position(self, api_id: str) -> int:
        """Return the index of an API.

        Raises
        ------
        UnknownApiError
            If the catalog does not have it.
        """
        name = check_text("an API id", api_id, any_=True)
        place = self._items.place(_normal(name))
        if place is None:
            close = closest(name, self.ids)
            raise UnknownApiError(api_id, close=close)
        return place

    def extended(self, apis: Iterable[Api]) -> Catalog:
        """Return a new catalog with more APIs at its end; what is there is shared, not copied.

        Of look-alikes, those with a new API are named in the warning.

        Raises
        ------
        InputError
            If something is not an Api, or its id is there already.

        Examples
        --------
        >>> Catalog([Api("maps", "Maps")]).extended([Api("sms", "Text messages")]).ids
        ('maps', 'sms')
        """
        grown = self._extended(apis)
        _warn_of_look_alikes(_new_look_alikes(grown._items, len(self)))
        return grown

    @classmethod
    def read(cls, path: str | Path) -> Catalog:
        """Read a catalog from JSON Lines or Parquet.

        Parameters
        ----------
        path : str or Path
            Each line ``{"id", "name", "description"?, "categories"?, "parameters"?, "effects"?,
            "summary"?, "keywords"?, "returns"?}``. Other keys are ignored. ``.gz`` is unpacked on
            the way; a table has the keys as columns. A pattern (``apis-*.jsonl``) means all files
            that match it.

        Raises
        ------
        DataFileError
            With the line number and the cure.
        """
        return cls(api for _, api in read_records(path, "API", _make, columns=_COLUMNS))

    def __contains__(self, item: object) -> bool:
        name = _normal(item.id if isinstance(item, Api) else item)
        return name is not None and self._items.place(name) is not None

    @overload
    def __getitem__(self, key: int | str) -> Api: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Api, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Api | tuple[Api, ...]:
        if isinstance(key, str):
            return self._items.item(self.position(key))
        return self._items[key]

    def __repr__(self) -> str:
        return f"Catalog({len(self)} APIs, {len(self.categories)} categories)"

    def _repr_html_(self) -> str:
        rows = [
            (api.id, api.name, ", ".join(api.categories), api.description)
            for api in self._items[:ROWS_SHOWN]
        ]
        return html_table(repr(self), ("id", "name", "categories", "description"), rows, len(self))


def html_table(
    title: str, head: Iterable[str], rows: Iterable[Iterable[object]], total: int
) -> str:
    """Return a table for a notebook, everything escaped and long texts cut.

    `total` is how many rows there are: it says how many are not shown.
    """

    def line(tag: str, cells: Iterable[object]) -> str:
        cut = (text if len(text) <= 200 else f"{text[:197]}..." for text in map(str, cells))
        return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in cut)}</tr>"

    lines = [line("td", row) for row in rows]
    more = f"<p>and {total - len(lines)} more</p>" if total > len(lines) else ""
    return f"<p>{escape(title)}</p><table>{line('th', head)}{''.join(lines)}</table>{more}"


def _normal(value: object) -> Any:
    """Return an id as `check_id` would keep it; None for what is not a string."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else None


def _looks(text: str) -> str:
    """Return the same for texts that look the same in most fonts."""
    if not text.isascii():
        wide = unicodedata.normalize("NFKC", text)
        text = "".join(c for c in wide if c.isprintable()).translate(_LATIN)
    return text.casefold()


def _look_alikes(apis: Items[Api]) -> list[str]:
    """Return the pairs of ids, and those of names, that look alike."""
    pairs = []
    ids, names = (api.id for api in apis), (api.name for api in apis)
    for what, texts in (("ids", chain(RESERVED_IDS, ids)), ("names", names)):
        first: dict[str, str] = {}
        for text in texts:
            other = first.setdefault(_looks(text), text)
            if other != text:
                pairs.append(_pair(what, other, text))
    return pairs


def _new_look_alikes(apis: Items[Api], start: int) -> list[str]:
    """Return such pairs of which one is an API from a place on."""
    pairs = []
    for what, key in (("ids", "id-looks"), ("names", "name-looks")):
        for api in apis[start:]:
            (looks,) = apis.kind.keys[key](api)
            first = apis.item(next(apis.find(key, looks)))
            text, other = (api.id, first.id) if what == "ids" else (api.name, first.name)
            if what == "ids" and looks in RESERVED_IDS:
                other = looks
            if other != text:
                pairs.append(_pair(what, other, text))
    return pairs


def _pair(what: str, one: str, other: str) -> str:
    return f"{what} {one!a} and {other!a}"


def _warn_of_look_alikes(pairs: list[str]) -> None:
    if pairs:
        more = f", and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
        warnings.warn(
            f"some APIs of the catalog look alike: {', '.join(pairs[:3])}{more} "
            "(rename one of each pair)",
            LookAlikeWarning,
            stacklevel=3,
        )
