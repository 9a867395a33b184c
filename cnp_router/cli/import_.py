"""``cnp-router import``: a catalog of the tools that sources have."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table
from cnp_router.cli.progress import Progress, ticking
from cnp_router.cli.source_options import PLACE, Origins, echo_diff, echo_problem, source_options

if TYPE_CHECKING:
    from cnp_router.sources.all_sources import Loaded, Sources

_EFFECTS = ("reads", "writes", "unknown")
_ANOTHER = "give --output another name"


@options.command(
    "cnp-router import --mcp mcp.json --output apis.jsonl",
    "cnp-router import --openapi pets=petstore.yaml --output apis.jsonl",
    "cnp-router import --tools time=tools.json --output apis.jsonl",
)
@source_options
@options.several(
    "--tools",
    type=PLACE,
    metavar="[NAME=]FILE",
    help="A saved answer of an MCP server to tools/list, as JSON.",
)
@options.file("--output", required=True, help="The catalog, as JSON Lines.")
@options.as_json
def import_(*, origins: Origins, tools: tuple[Any, ...], output: Path, json_: bool) -> None:
    """Make a catalog of the tools that you have.

    They are those of MCP servers, OpenAPI documents, agents and functions, which are started side
    by side. Where some fail, the others are written; where all do, nothing is. What is new is
    accepted and noted in the lock file; a tool whose definition has changed since is left out,
    with the difference shown, until --accept.
    """
    from cnp_router.catalog import Catalog
    from cnp_router.files import check_writable
    from cnp_router.sources.faults import none_left
    from cnp_router.sources.saved_list import SavedList

    if not (origins or tools):
        raise click.UsageError("Give --sources, --openapi, --a2a or --tools.")
    _check_output(output, origins, [each.place for each in tools])
    saved = [(each.place, SavedList.read(each, trusted=origins.trust)) for each in tools]
    with redirect_stdout(sys.stderr):  # what modules and functions print is no part of the result
        sources = origins.opened(saved)
        check_writable(output)
        loaded = asyncio.run(load_showing(sources))
    if not loaded.apis:
        for problem in loaded.problems:
            echo_diff(problem)
        raise none_left(loaded.problems)
    Catalog(loaded.apis).write(output)
    for problem in loaded.problems:
        echo_problem(problem)
    rows = list(_rows(sources, loaded))
    changes = _changes(loaded)
    where = {"output": str(output), "lock": str(sources.lock.path) if sources.lock else None}
    if json_:
        echo_json({"apis": len(loaded.apis), **where, "sources": rows, **changes})
        return
    titles = ["source", "kind", "tools", *_EFFECTS, "seconds", "problem"]
    table = [[_shown(row[title]) for title in titles] for row in rows]
    echo_table(titles, table, numbers=["tools", *_EFFECTS, "seconds"])
    echo(
        "",
        "Reads, writes, unknown: how many tools only read, how many change something, and of how "
        "many nobody that you trust says it. Seconds: to start and to list the tools.",
        "",
    )
    echo_pairs(_facts(output, loaded, sources, changes))


def _check_output(output: Path, origins: Origins, lists: list[str]) -> None:
    """Raise DataFileError where the catalog would overwrite what it is made of."""
    from cnp_router.exceptions import DataFileError
    from cnp_router.files import is_same_file
    from cnp_router.sources.configuration import files_named

    documents = [each.place for each in origins.openapi if "://" not in each.place]
    inputs = {
        "one of the --sources": origins.files,
        "the document of an --openapi": map(Path, documents),
        "the list of a --tools": map(Path, lists),
        "the lock file": [origins.lock_file(lists)],
    }
    for what, files in inputs.items():
        if any(is_same_file(output, file) for file in files):
            raise DataFileError(output, f"this is {what}, which is read", cure=_ANOTHER)
    for file in origins.files:
        if any(is_same_file(output, named) for named in files_named(file)):
            raise DataFileError(output, f"{file} names this file, which is read", cure=_ANOTHER)


async def load_showing(sources: Sources, title: str = "Importing") -> Loaded:
    """Ask sources for what they have, showing which of them still think; close them."""
    with Progress(title) as progress:
        async with sources:
            everyone = len(sources.names)

            def state() -> tuple[str, int, int]:
                waiting = sources.waiting
                return ", ".join(waiting) or "closing", everyone - len(waiting), everyone

            async with ticking(progress, state):
                return await sources.load()


def _rows(sources: Sources, loaded: Loaded) -> Iterator[dict[str, Any]]:
    from cnp_router.sources.configuration import kind_of
    from cnp_router.sources.source import SEPARATOR

    for name in sources.names:
        apis = [api for api in loaded.apis if api.id.startswith(name + SEPARATOR)]
        effects = Counter[str](api.effects for api in apis)
        problems = [each for each in loaded.problems if each.source == name]
        yield {
            "source": name,
            "kind": kind_of(sources.source_of(name + SEPARATOR)),
            "tools": len(apis),
            **{effect: effects[effect] for effect in _EFFECTS},
            "seconds": round(loaded.seconds[name], 3),
            "problem": "; ".join(each.problem for each in problems) or None,
        }


def _changes(loaded: Loaded) -> dict[str, list[str]]:
    """Return the ids of new, changed and removed APIs."""
    every = loaded.changes.values()
    return {
        "added": [api.id for each in every for api in each.added],
        "changed": [changed.new.id for each in every for changed in each.changed],
        "removed": [api.id for each in every for api in each.removed],
    }


def _facts(
    output: Path, loaded: Loaded, sources: Sources, changes: dict[str, list[str]]
) -> Iterator[tuple[str, str]]:
    yield "Written", f"{output}, {counted(len(loaded.apis), 'API')}"
    new = counted(len(changes["added"]), "new definition")
    accepted = counted(len(changes["changed"]), "changed one")
    if sources.lock is not None:
        yield "Accepted", f"{new}{f', {accepted}' if sources.accept else ''} ({sources.lock.path})"
    if changes["changed"] and not sources.accept:
        yield "Refused", f"{', '.join(changes['changed'])} (changed; --accept takes them)"
    if changes["removed"]:
        yield "No longer there", ", ".join(changes["removed"])
    if unknown := [api.id for api in loaded.apis if api.effects == "unknown"]:
        how = "--trust, or trusted or effects in the file, say what only reads"
        yield "Unknown", f"what {counted(len(unknown), 'tool')} may change: each call asks ({how})"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
