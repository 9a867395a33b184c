"""``recommend --requests``: the same question for each request of a file."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table, json_text
from cnp_router.cli.progress import Progress
from cnp_router.exceptions import DataFileError
from cnp_router.files import (
    atomic_write,
    check_not_csv,
    check_writable,
    is_same_file,
    objects_of,
    read_text,
    text_of,
)
from cnp_router.printing import printable
from cnp_router.records import Record, check_request, check_text, parse_date, string_tuple

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.routing import Routing

__all__ = ["Asked", "check_output", "read_requests", "recommend_each"]

_STDIN = Path("-")
_OBJECTS = (".json", ".jsonl", ".ndjson")
_PACKED = (".gz", ".parquet")
_SHOWN = 30  # characters of a request in the table
_WIDENED = {"llm": "model asked", "broadcast": "all asked"}  # what a fallback has done


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the file; `line` counts from 1, and what its line does not say is empty."""

    line: int
    description: str
    id: str | None = None
    date: datetime.date | None = None
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_request(self.description)


def read_requests(
    place: Path, catalog: Catalog, *, known: tuple[str, ...], date: datetime.date | None
) -> list[Asked]:
    """Return the requests of a file, all of them checked, or of standard input for a dash.

    A line is a request, or an object of the fields of `Asked`, as in a history: so where the name
    of the file says so, and where its text begins like an object. All know the APIs in `known`,
    and are of that date if their line has no other.

    Raises
    ------
    DataFileError
        If a line cannot be used; no request is left out.
    """
    if place == _STDIN:
        path: str | Path = "standard input"
        text = text_of(options.standard_input(), path)
    else:
        path = place
        if place.suffix.lower() in _PACKED:
            problem = "requests are read from plain text or JSON Lines"
            raise DataFileError(path, problem, cure="unpack it first, or write it as that")
        text = read_text(place)
    check_not_csv(text, path)
    if place.suffix.lower() not in _OBJECTS and not text.lstrip().startswith("{"):
        lines = enumerate(text.split("\n"), start=1)
        found = [Asked(number, line.strip()) for number, line in lines if line.strip()]
    else:
        found = list(_of_objects(text, path, catalog))
    return [
        replace(asked, known=(*known, *asked.known), date=asked.date or date) for asked in found
    ]


def _of_objects(text: str, path: str | Path, catalog: Catalog) -> Iterator[Asked]:
    first: dict[str, int] = {}
    for number, fields in objects_of(text, path):
        record = Record({**fields, "line": number}, path, number)
        asked = record.make(
            Asked,
            id=partial(record.checked, check_text, "field 'id'"),
            date=partial(record.checked, parse_date, "field 'date'"),
            known=partial(record.checked, string_tuple, "field 'known'"),
        )
        for api in asked.known:
            record.checked(catalog.position, api)
        if asked.id is not None and first.setdefault(asked.id, number) != number:
            problem = f"duplicate id {asked.id!r}, first on line {first[asked.id]}"
            raise record.error(problem, cure="ids must be unique")
        yield asked


def check_output(output: Path | None, requests: Path) -> None:
    """Raise DataFileError where the decisions cannot be written, or would replace the requests."""
    if output is None:
        return
    if requests != _STDIN and is_same_file(output, requests):
        problem = "this is the file of --requests, which is read"
        raise DataFileError(output, problem, cure="give --output another name")
    check_writable(output)


def recommend_each(
    everyone: list[Asked],
    route_many: Callable[..., list[Routing]],
    *,
    at_once: int,
    output: Path | None,
    json_: bool,
) -> None:
    """Decide on each request, so many at once, and print or write what came of it."""
    summary = _Summary()
    decided = _decided(everyone, route_many, at_once, summary)
    if output is not None:
        with atomic_write(output) as out:
            for asked, routing in decided:
                document = _document(asked, routing)
                out.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
    elif json_:
        # As bytes: the objects of ten thousand decisions take more than a gigabyte.
        lines = [json_text(_document(*each)).encode() for each in decided]
        click.echo(f'{json_text(summary.to_dict())[:-1]}, "decisions": [')
        for place, line in enumerate(lines, start=1):
            click.echo(f"{line.decode()}{',' if place < len(lines) else ']}'}")
        return
    else:
        _echo_table(decided, with_ids=any(asked.id is not None for asked in everyone))
    if json_:
        echo_json({**summary.to_dict(), "output": str(output)})
        return
    if output is not None:
        echo_pairs([("Written", f"{output}, a decision a line")])
    echo_pairs(summary.facts())


def _decided(
    everyone: list[Asked],
    route_many: Callable[..., list[Routing]],
    at_once: int,
    summary: _Summary,
) -> Iterator[tuple[Asked, Routing]]:
    done = 0
    with Progress("Recommending") as progress:
        for known, alike in groupby(everyone, key=attrgetter("known")):
            while some := list(islice(alike, at_once)):
                texts, dates = [own.description for own in some], [own.date for own in some]
                routings = route_many(texts, known, dates=dates)
                for asked, routing in zip(some, routings, strict=True):
                    summary.add(routing)
                    yield asked, routing
                done += len(some)
                progress("request", done, len(everyone))


def _document(asked: Asked, routing: Routing) -> dict[str, Any]:
    date = None if asked.date is None else asked.date.isoformat()
    return {"line": asked.line, "id": asked.id, "date": date, **routing.to_dict()}


def _echo_table(decided: Iterable[tuple[Asked, Routing]], *, with_ids: bool) -> None:
    rows = [
        [
            *([asked.id or ""] if with_ids else []),
            printable(asked.description, _SHOWN),
            ", ".join(routing.recommendation) if routing.fits else "-",
            f"{routing.n_recipients:,}" if _is_announced(routing) else "-",
            f"{routing.confidence:.2f}",
            _verdict(routing),
        ]
        for asked, routing in decided
    ]
    titles = ["request", "recommended", "recipients", "confidence", "verdict"]
    titles = ["id", *titles] if with_ids else titles
    echo_table(titles, rows, numbers=["recipients", "confidence"])
    echo(
        "",
        "Recipients: how many contractors are asked (- where nothing fits: nobody is). "
        "Confidence: the probability, 0 to 1, that they cover all that the request needs.",
        "",
    )


def _is_announced(routing: Routing) -> bool:
    """Return whether anybody is asked: what nothing fits is announced only by a fallback."""
    return routing.fits or routing.source in _WIDENED


def _verdict(routing: Routing) -> str:
    said = "sure" if routing.is_confident else "not sure"
    said = said if routing.fits else "nothing fits"
    return f"{said}, {_WIDENED[routing.source]}" if routing.source in _WIDENED else said


class _Summary:
    """What came of all requests together, without keeping the decisions."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._announced = self._recipients = self._reachable = 0

    def add(self, routing: Routing) -> None:
        kind = "not_sure" if not routing.is_confident else "sure"
        self._verdicts[kind if routing.fits else "nothing_fits"] += 1
        if _is_announced(routing):
            self._announced += 1
            self._recipients += routing.n_recipients
            self._reachable += routing.n_reachable

    @property
    def _mean(self) -> float | None:
        return self._recipients / self._announced if self._announced else None

    @property
    def _share(self) -> float | None:
        return 1 - self._recipients / self._reachable if self._announced else None

    def to_dict(self) -> dict[str, Any]:
        figures = {"mean_recipients": self._mean, "share_of_messages_saved": self._share}
        return {
            "requests": self._verdicts.total(),
            **{kind: self._verdicts[kind] for kind in ("sure", "not_sure", "nothing_fits")},
            "not_announced": self._verdicts.total() - self._announced,
            **{name: None if x is None else round(x, 6) for name, x in figures.items()},
        }

    def facts(self) -> Iterator[tuple[str, str]]:
        n = self._verdicts.total()
        verdicts = ", ".join(
            f"{self._verdicts[kind]:,} {kind.replace('_', ' ')}"
            for kind in ("sure", "not_sure", "nothing_fits")
        )
        yield "Requests", f"{n:,}: {verdicts}"
        if self._mean is None or self._share is None:
            yield "Recipients", "none: nothing fits any of the requests"
            return
        reach, none = self._reachable / self._announced, n - self._announced
        without = f"; {counted(none, 'request')} {'has' if none == 1 else 'have'} none"
        mean = f"{self._mean:.1f} of {reach:,.0f} contractors on average"
        yield "Recipients", mean + (without if none else "")
        yield "Messages saved", f"{self._share:.0%} of those of broadcasts"
