"""``cnp-router sync``: a fitted model follows the APIs that there are now."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.import_ import load_showing
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table
from cnp_router.cli.source_options import Origins, echo_diff, echo_problem, source_options

if TYPE_CHECKING:
    from cnp_router.catalog import Api, Catalog
    from cnp_router.sources.all_sources import Loaded


@dataclass(frozen=True)
class _Difference:
    """What differs between two catalogs, by id."""

    added: tuple[Api, ...]
    changed: tuple[tuple[Api, Api], ...]
    removed: tuple[Api, ...]

    @classmethod
    def between(cls, before: Catalog, now: Catalog) -> _Difference:
        both = ((before[api.id], api) for api in now if api.id in before)
        return cls(
            tuple(api for api in now if api.id not in before),
            tuple(pair for pair in both if pair[0] != pair[1]),
            tuple(api for api in before if api.id not in now),
        )

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield lines of the table."""
        for api in self.added:
            yield "added", api.id, api.name
        for old, new in self.changed:
            said = {name: (old.to_dict().get(name), new.to_dict().get(name)) for name in _FIELDS}
            yield "changed", new.id, ", ".join(n for n, (was, is_) in said.items() if was != is_)
        for api in self.removed:
            yield "removed", api.id, api.name

    def ids(self) -> dict[str, list[str]]:
        """Return the ids, as the JSON document has them."""
        return {
            "added": [api.id for api in self.added],
            "changed": [new.id for _, new in self.changed],
            "removed": [api.id for api in self.removed],
        }


_FIELDS = ("name", "description", "categories", "parameters", "effects")


@options.command(
    "cnp-router sync --model model --sources mcp.json",
    "cnp-router sync --model model --catalog apis.jsonl --dry-run",
)
@options.fitted_model
@source_options
@options.several(
    "--remove", "gone", metavar="NAME", help="A source that is no longer there: remove its APIs."
)
@options.file(
    "--catalog",
    help="Instead of sources, all APIs that there are now, as JSON Lines: what is not among them "
    "is removed.",
)
@llm_options.encoder_options
@click.option("--dry-run", is_flag=True, help="Say what differs, and leave the model as it is.")
@options.as_json
def sync(
    *,
    model: Path,
    origins: Origins,
    gone: tuple[str, ...],
    catalog: Path | None,
    vectors: llm_options.Vectors,
    dry_run: bool,
    json_: bool,
) -> None:
    """Have a fitted model follow the APIs that there are now, without fitting again.

    APIs that were added are found by their specification. Those that changed are found by the new
    one, and keep their history. Those that were removed are never recommended again; what was
    learned from their past uses helps to find the others, and is theirs again if they come back.

    Of the model's APIs, sources change only their own, of ids that begin with their name: a source
    that fails changes none. A definition that is not the one in the lock file is refused, with the
    difference shown, until --accept; the model keeps the old one.
    """
    if bool(origins or gone) == (catalog is not None):
        raise click.UsageError("Give --sources, --openapi, --a2a or --remove, or else --catalog.")
    from cnp_router.catalog import Catalog
    from cnp_router.storage import generation_of
    from cnp_router.training import load_router

    before = generation_of(model)
    router = load_router(model, **vectors.made(model))
    with redirect_stdout(sys.stderr):  # what modules print is no part of the result
        loaded = asyncio.run(_loaded(origins, dry_run)) if origins else None
    refused = _refused(origins, loaded) if loaded else []
    failed = _failed(loaded) if loaded else []
    if catalog is not None:
        now = Catalog.read(catalog)
    else:
        now = _updated(router.catalog, loaded, {*refused}, {*failed}, gone)
    difference = _Difference.between(router.catalog, now)
    if now.ids[: len(router.catalog)] == router.catalog.ids and not difference.changed:
        now = router.catalog.extended(difference.added)  # then what is there is not written again
    start = time.perf_counter()
    if difference and not dry_run:
        router.synced(now).save(model, overwrite=True, replaces=before)
    seconds = time.perf_counter() - start
    result: dict[str, Any] = {
        **difference.ids(),
        "refused": refused,
        "failed": failed,
        "not_asked": _not_asked(now, loaded) if catalog is None else [],
        "apis": len(now),
        "saved": bool(difference) and not dry_run,
    }
    if json_:
        echo_json(result)
        return
    facts = []
    if others := result["not_asked"]:
        facts.append(("Not asked", f"{', '.join(others)} (kept; --remove if no longer there)"))
    if not (difference or refused):
        echo("Nothing has changed.")
        if facts:
            echo()
            echo_pairs(facts)
        return
    rows = [*difference.rows(), *(("refused", api, "see above; --accept") for api in refused)]
    echo_table(["", "id", "what"], rows)
    echo()
    said = ", ".join(f"{len(result[name]):,} {name}" for name in ("added", "changed", "removed"))
    whole = ("Catalog", f"{counted(len(now), 'API')}: {said}")
    how = f"saved in {seconds:.1f} s" if difference else "as it was"
    how = "not saved (--dry-run)" if dry_run else how
    echo_pairs([whole, *facts, ("Model", f"{model}, {how}")])
    if result["saved"]:
        echo()
        echo("A gateway that runs with it answers by it in a few seconds.")


async def _loaded(origins: Origins, dry_run: bool) -> Loaded:
    """Ask the sources for their tools; what is new is accepted in the lock file, if not dry."""
    from cnp_router.sources.faults import none_left
    from cnp_router.sources.lock_file import LockFile

    class Unwritten(LockFile):
        def write(self) -> None:
            """Leave the file as it is."""

    sources = origins.opened()
    if dry_run and sources.lock is not None:
        sources.lock = Unwritten(sources.lock.path)
    loaded = await load_showing(sources, "Asking")
    if len(_failed(loaded)) == len(sources.names):
        for problem in loaded.problems:
            echo_diff(problem)
        raise none_left(loaded.problems)
    for problem in loaded.problems:
        echo_problem(problem)
    return loaded


def _refused(origins: Origins, loaded: Loaded) -> list[str]:
    """Return the ids of those whose definition is not the accepted one."""
    changes = () if origins.accept else loaded.changes.values()
    return [changed.new.id for each in changes for changed in each.changed]


def _failed(loaded: Loaded) -> list[str]:
    """Return the names of the sources that have said nothing of their tools."""
    from cnp_router.exceptions import DefinitionChangedError

    broken = {p.source for p in loaded.problems if not isinstance(p, DefinitionChangedError)}
    said = {_source(api.id) for api in loaded.apis}
    return [name for name in loaded.seconds if name in broken - said]


def _updated(
    before: Catalog,
    loaded: Loaded | None,
    refused: set[str],
    failed: set[str],
    gone: tuple[str, ...],
) -> Catalog:
    """Return the model's catalog with what the sources say of their own APIs."""
    from cnp_router.catalog import Catalog
    from cnp_router.exceptions import InputError

    sources = {_source(api.id) for api in before} - {""}
    if strange := [name for name in gone if name not in sources]:
        raise InputError(f"--remove: the model has no API of a source {strange[0]!r}")
    there = {api.id: api for api in loaded.apis} if loaded else {}
    asked = ({*loaded.seconds} - failed if loaded else set()) | {*gone}
    if both := [name for name in gone if loaded and name in loaded.seconds]:
        raise InputError(f"--remove: source {both[0]!r} is among those that are asked")
    now = []
    for api in before:
        new = there.pop(api.id, None)
        if new is not None:  # a source without categories says nothing of those in the catalog
            now.append(new if new.categories else replace(new, categories=api.categories))
        elif _source(api.id) not in asked or api.id in refused:
            now.append(api)
    return Catalog([*now, *there.values()])


def _not_asked(now: Catalog, loaded: Loaded | None) -> list[str]:
    """Return the names of the model's sources that nobody asked for."""
    asked = loaded.seconds if loaded else ()
    names = dict.fromkeys(_source(api.id) for api in now)
    return [name for name in names if name and name not in asked]


def _source(api: str) -> str:
    from cnp_router.sources.source import SEPARATOR

    name, separator, _ = api.partition(SEPARATOR)
    return name if separator else ""
