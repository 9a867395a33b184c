"""``--sources`` and what belongs to it: where tools come from, and what of them was accepted."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.output import note
from cnp_router.exceptions import DefinitionChangedError, InputError, SourceError, shown
from cnp_router.printing import printable

if TYPE_CHECKING:
    from cnp_router.catalog import DataClass, Effects
    from cnp_router.sources.all_sources import Sources
    from cnp_router.sources.configuration import SourceRef
    from cnp_router.sources.source import Source

__all__ = ["LOCK", "Origins", "echo_diff", "echo_problem", "source_options", "source_places"]

LOCK = "cnp-router.lock"


class _Place(click.types.StringParamType):
    """A place, and the name to call it by, as in ``pets=petstore.yaml``."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from cnp_router.sources.configuration import SourceRef

        try:
            return value if isinstance(value, SourceRef) else SourceRef.parse(str(value))
        except InputError as exc:
            self.fail(f"{exc}.", param, ctx)


PLACE = _Place()


@dataclass(frozen=True, slots=True)
class Origins:
    """Which sources the options ask for."""

    files: tuple[Path, ...] = ()
    openapi: tuple[SourceRef, ...] = ()
    a2a: tuple[SourceRef, ...] = ()
    lock: Path | None = None
    accept: bool = False
    trust: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.openapi or self.a2a)

    def lock_file(self, others: Iterable[str] = ()) -> Path:
        """Return where the accepted definitions are kept: beside the first file, if there is one.

        `others` are further places.
        """
        if self.lock is not None:
            return self.lock
        places = [*map(str, self.files), *(each.place for each in self.openapi), *others]
        first = next((Path(place) for place in places if "://" not in place), None)
        return Path(LOCK) if first is None else first.with_name(f"{first.name}.lock")

    def opened(self, others: Iterable[tuple[str, Source]] = ()) -> Sources:
        """Return the sources, of which none is started yet.

        `others` are further ones, with the place that each comes from.
        """
        from cnp_router.sources.all_sources import Sources
        from cnp_router.sources.configuration import read_a2a, read_openapi, read_sources
        from cnp_router.sources.lock_file import LockFile

        others = list(others)
        found: list[tuple[str, Source]] = []
        overrides: dict[str, Effects] = {}
        classes: dict[str, DataClass] = {}
        for file in self.files:
            configured = read_sources(file, trusted=self.trust)
            found += [(str(file), source) for source in configured.sources]
            overrides |= configured.overrides
            classes |= configured.classes
        found += [(each.place, read_openapi(each)) for each in self.openapi]
        found += [(each.place, read_a2a(each)) for each in self.a2a]
        found += others
        places: dict[str, str] = {}
        for place, source in found:
            if source.name in places:
                raise InputError(
                    f"two sources have the name {source.name!r}: one of {places[source.name]} and "
                    f"one of {place} (rename one)"
                )
            places[source.name] = place
        if unknown := [name for name in self.trust if name not in places]:
            there = ", ".join(places) or "none"
            raise InputError(f"--trust: no source is called {shown(unknown[0])} (there: {there})")
        if not found:
            raise InputError("all sources are disabled (enable one)")
        lock = LockFile(self.lock_file(place for place, _ in others))
        sources = [source for _, source in found]
        return Sources(sources, lock=lock, accept=self.accept, overrides=overrides, classes=classes)


def echo_problem(problem: SourceError) -> None:
    """Say on standard error what is wrong with a source, and how a definition changed."""
    note(str(problem), "Warning")
    echo_diff(problem)


def echo_diff(problem: SourceError) -> None:
    """Show on standard error how a definition changed, if that is the problem."""
    if isinstance(problem, DefinitionChangedError):
        click.echo("\n".join(map(printable, problem.diff.split("\n"))), file=sys.stderr)


_PLACES = (
    options.files(
        "--sources",
        "--mcp",
        "files",
        help="Sources of tools: an mcp.json, which may have other kinds too, or an OpenAPI "
        "document.",
    ),
    options.several(
        "--openapi", type=PLACE, metavar="[NAME=]FILE|URL", help="An OpenAPI document."
    ),
    options.several("--a2a", type=PLACE, metavar="[NAME=]URL", help="An A2A agent."),
)
source_places = options.gathered("origins", Origins, *_PLACES)
source_options = options.gathered(
    "origins",
    Origins,
    *_PLACES,
    options.file(
        "--lock",
        help="Keep accepted definitions there.  [default: beside the first file, its name with "
        f".lock added, or else {LOCK}]",
    ),
    click.option("--accept", is_flag=True, help="Accept definitions that have changed."),
    options.several(
        "--trust", metavar="NAME", help="Believe this source which of its tools only read."
    ),
)
