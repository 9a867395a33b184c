"""`Mashup` and `History`: past compositions, each a requirement and the APIs that served it."""

from __future__ import annotations

import datetime
import functools
import logging
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, overload

from cnp_router.catalog import ROWS_SHOWN, Catalog, html_table
from cnp_router.closest import closest
from cnp_router.data_files import data_files, pass_over
from cnp_router.exceptions import EmptyFileError, InputError
from cnp_router.items import ItemKind, UniqueItems
from cnp_router.records import (
    Record,
    check_date,
    check_flag,
    check_id,
    check_instance,
    check_number,
    check_text,
    check_user,
    json_object,
    parse_date,
    read_records,
    shown,
    string_tuple,
)

__all__ = [
    "History",
    "Mashup",
    "UnknownPolicy",
    "check_used",
    "parse_mashup",
    "read_shards",
    "warn_of_future_dates",
    "warn_of_missing_texts",
]

UnknownPolicy = Literal["error", "skip"]

_log = logging.getLogger(__name__)


@functools.lru_cache(1 << 16)
def _used_api(api_id: str) -> str:
    """Return an API's id, the same object each time: a history names few of them, very often."""
    return check_id("used API", api_id)


@dataclass(frozen=True, slots=True, repr=False)
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
    user : str or None, default=None
        Whose it is, so that a user's records can be forgotten. Nothing is learned from it.

    Raises
    ------
    InputError
        If a value is of another type, an id cannot be used, or a text cannot be kept in UTF-8.

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
    user: str | None = None

    def __post_init__(self) -> None:
        apis = string_tuple("apis", self.apis)
        object.__setattr__(self, "id", check_id("mashup", self.id))
        check_text("description", self.description)
        object.__setattr__(self, "apis", tuple(map(_used_api, apis)))
        object.__setattr__(self, "categories", string_tuple("categories", self.categories))
        if self.name is not None:
            check_text("name", self.name)
        check_date("date", self.date)
        check_flag("ordered", self.ordered)
        if self.user is not None:
            check_user(self.user)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this mashup, as in ``mashups.jsonl``."""
        return json_object(
            self,
            categories=self.categories or None,
            date=self.date and self.date.isoformat(),
            ordered=self.ordered or None,
        )

    def without(self, apis: Collection[str]) -> Mashup:
        """Return the mashup without some APIs: perhaps without any, as no history holds it."""
        return replace(self, apis=tuple(api for api in self.apis if api not in apis))

    def __repr__(self) -> str:
        return f"Mashup({self.id!r}, {shown(self.description)}, {shown(self.apis)})"


_COLUMNS = tuple(part.name for part in fields(Mashup))


def parse_mashup(record: Record) -> Mashup:
    """Return the mashup in a record of a file, or raise DataFileError."""
    day = functools.partial(record.checked, parse_date, "field 'date'")
    mashup = record.make(Mashup, date=day)
    if not mashup.apis:
        raise record.error("field 'apis' must not be empty", cure="name at least one API id")
    return mashup


def _bare(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()


def _id(mashup: Mashup) -> tuple[str, ...]:
    return (mashup.id,)


def _asked(mashup: Mashup) -> tuple[str, ...]:
    return (_bare(mashup.description),)


class History(UniqueItems[Mashup], Sequence[Mashup]):
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
        If something is not a Mashup, two have the same id, or one has no API.

    Examples
    --------
    >>> history = History([Mashup("m1", "Weather on a map", ("weather", "maps"))])
    >>> len(history), history.texts
    (1, ('Weather on a map',))
    """

    KIND: ClassVar[ItemKind[Any]] = ItemKind(
        plural="mashups",
        type=Mashup,
        called="mashup",
        make=parse_mashup,
        keys={"id": _id, "asked": _asked},
    )
    skipped: int = 0

    def __init__(self, mashups: Iterable[Mashup], *, skipped: int = 0) -> None:
        super().__init__(mashups)
        self.skipped = check_number("skipped", skipped, 0, whole=True)
        check_used(self)

    def extended(self, mashups: Iterable[Mashup]) -> History:
        """Return a history with more mashups at its end; what is there is shared, not copied.

        Raises
        ------
        InputError
            If something is not a Mashup, its id is there already, or it has no API.

        Examples
        --------
        >>> history = History([Mashup("m1", "Rain by text", ("rain", "sms"))])
        >>> len(history.extended([Mashup("m2", "Rain on a map", ("rain", "maps"))]))
        2
        """
        grown = self._extended(mashups)
        check_used(grown._items[len(self) :])
        return grown

    def find(self, mashup_id: str) -> int | None:
        """Return the place of a mashup; None if it is not there.

        Examples
        --------
        >>> History([Mashup("m1", "Rain by text", ("rain", "sms"))]).find("m2") is None
        True
        """
        name = check_text("a mashup id", mashup_id, any_=True)
        return self._items.place(unicodedata.normalize("NFC", name))

    def asked(self, text: str) -> tuple[int, ...]:
        """Return the places of the mashups with just this request, but for case and white space.

        Examples
        --------
        >>> History([Mashup("m1", "Rain by text", ("rain", "sms"))]).asked("rain  by text")
        (0,)
        """
        return tuple(self.each_asked(text))

    def each_asked(self, text: str) -> Iterator[int]:
        """Yield what `asked` returns, for who may need few of many.

        Examples
        --------
        >>> next(History([Mashup("m1", "Rain by text", ("rain",))]).each_asked("rain by text"))
        0
        """
        return self._items.find("asked", _bare(text))

    @property
    def texts(self) -> tuple[str, ...]:
        """The request texts, in order."""
        return tuple(mashup.description for mashup in self)

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
        check_instance("catalog", catalog, Catalog)
        kept = [m for m in self if all(api in catalog for api in m.apis)]
        return History(kept, skipped=self.skipped + len(self) - len(kept))

    def without(self, apis: Iterable[str]) -> History:
        """Return the mashups without some APIs; those that used no other are left out.

        Examples
        --------
        >>> history = History([Mashup("m1", "Rain by text", ("rain", "sms")),
        ...                    Mashup("m2", "Rain", ("rain",))])
        >>> list(history.without(["rain"]))
        [Mashup('m1', 'Rain by text', ('sms',))]
        """
        gone = frozenset(string_tuple("apis", apis))
        if not gone:
            return self
        left = (m if gone.isdisjoint(m.apis) else m.without(gone) for m in self)
        return History((m for m in left if m.apis), skipped=self.skipped)

    @classmethod
    def read(
        cls,
        path: str | Path | Iterable[str | Path],
        *,
        catalog: Catalog | None = None,
        unknown: UnknownPolicy = "error",
    ) -> History:
        """Read a history from one or more files: JSON Lines or Parquet.

        Parameters
        ----------
        path : str, Path or iterable of them
            Each line ``{"id", "description", "apis", "categories"?, "name"?, "date"?,
            "ordered"?, "user"?}``. Other keys are ignored. ``.gz`` is unpacked on the way; a
            table (``.parquet``) has the keys as columns. A pattern (``part-*.jsonl.gz``) means
            all files that match it, sorted. Of several files, those that hold nothing are passed
            over with a warning.
        catalog : Catalog, optional
            Check every API id against it.
        unknown : {"error", "skip"}, default="error"
            What to do with a mashup that names an API the catalog does not have: raise, or
            leave the mashup out and count it in ``skipped``.

        Raises
        ------
        DataFileError
            With the number of the line, or row, and the cure.
        MissingExtraError
            If there is Parquet, and pyarrow is not installed.
        InputError
            If `unknown` is neither of the two.
        """
        if unknown not in get_args(UnknownPolicy):
            raise InputError(f"unknown must be 'error' or 'skip', got {shown(unknown)}")
        if catalog is not None:
            check_instance("catalog", catalog, Catalog)
        mashups: list[Mashup] = []
        skipped = 0
        for record, mashup in read_records(path, "mashup", parse_mashup, columns=_COLUMNS):
            strangers = [a for a in mashup.apis if catalog is not None and a not in catalog]
            if strangers and unknown == "error":
                close = closest(strangers[0], catalog.ids if catalog else ())
                raise record.error(
                    f"unknown API {strangers[0]!r}",
                    cure=f"{f'did you mean {close[0]!r}? Or ' if close else ''}add it to the "
                    "catalog, or leave such mashups out: fit does with --unknown skip, Python with "
                    "unknown='skip'",
                )
            if strangers:
                skipped += 1
            else:
                mashups.append(mashup)
        return cls(mashups, skipped=skipped)

    @overload
    def __getitem__(self, key: int) -> Mashup: ...
    @overload
    def __getitem__(self, key: slice) -> History: ...
    def __getitem__(self, key: int | slice) -> Mashup | History:
        if isinstance(key, slice):
            return History(self._items[key])
        return self._items[key]

    def __contains__(self, item: object) -> bool:
        place = self._items.place(item.id) if isinstance(item, Mashup) else None
        return place is not None and self._items.item(place) == item

    def __repr__(self) -> str:
        note = f", {self.skipped} skipped" if self.skipped else ""
        return f"History({len(self)} mashups{note})"

    def _repr_html_(self) -> str:
        rows = [(m.id, m.description, ", ".join(m.apis)) for m in self._items[:ROWS_SHOWN]]
        return html_table(repr(self), ("id", "request", "APIs"), rows, len(self))


def read_shards(
    paths: str | Path | Iterable[str | Path],
    *,
    catalog: Catalog | None = None,
    unknown: UnknownPolicy = "error",
) -> Iterator[History]:
    """Yield the history of each file, one at a time, for reading in several places.

    Parameters are those of `History.read`, and so are files that hold nothing passed over. That ids
    are unique over all files is not looked at.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for n in range(2):
    ...     History([Mashup(f"m{n}", "Rain by text", ("rain",))]).write(folder / f"{n}.jsonl")
    >>> [history[0].id for history in read_shards(folder / "*.jsonl")]
    ['m0', 'm1']
    """
    files, empty = data_files(paths), []
    for file in files:
        try:
            history = History.read(file, catalog=catalog, unknown=unknown)
        except EmptyFileError as exc:
            empty.append(exc)
        else:
            yield history
    pass_over(empty, len(files))


def check_used(mashups: Iterable[Mashup]) -> None:
    """Raise InputError if one has no API."""
    for mashup in mashups:
        if not mashup.apis:
            raise InputError(f"mashup {mashup.id!r} has no API (give at least one)")


def warn_of_future_dates(mashups: Iterable[Mashup]) -> None:
    """Log a warning if some are of after tomorrow: clocks and zones differ."""
    last = datetime.date.today() + datetime.timedelta(days=1)
    late = [m for m in mashups if m.date is not None and m.date > last]
    if late:
        _log.warning(
            "mashup %s has the date %s, which is still to come%s: requests without a date are "
            "asked as of the newest one (correct it, or take it out of what was observed with "
            "cnp-router forget --mashup)",
            shown(late[0].id),
            late[0].date,
            _and_more(late),
        )


def warn_of_missing_texts(mashups: Iterable[Mashup]) -> None:
    """Log a warning if some have a blank description."""
    blank = [m for m in mashups if not m.description.strip()]
    if blank:
        _log.warning(
            "mashup %s has no text%s: it tells what is used together, and nothing of who is asked "
            "for (write in its description what was asked for)",
            shown(blank[0].id),
            _and_more(blank),
        )


def _and_more(found: Sequence[Mashup]) -> str:
    return f", and {len(found) - 1} more" if len(found) > 1 else ""
