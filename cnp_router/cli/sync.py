"""``cnp-router sync``: a fitted model follows the APIs that there are now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table

if TYPE_CHECKING:
    from cnp_router.catalog import Api, Catalog


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


@options.command("cnp-router sync --model model --catalog apis.jsonl")
@options.fitted_model
@options.file(
    "--catalog",
    help="The APIs that there are now, as JSON Lines: what is not among them is removed.",
)
@options.encoder_options
@click.option("--dry-run", is_flag=True, help="Say what differs, and leave the model as it is.")
@options.as_json
def sync(
    *, model: Path, catalog: Path | None, vectors: options.Vectors, dry_run: bool, json_: bool
) -> None:
    """Have a fitted model follow the APIs that there are now, without fitting again.

    APIs that were added are found by their specification. Those that changed are found by the new
    one, and keep their history. Those that were removed are never recommended again; what was
    learned from their past uses helps to find the others, and is theirs again if they come back.
    """
    if catalog is None:
        raise click.UsageError("Give --catalog.")
    from cnp_router.catalog import Catalog
    from cnp_router.training import load_router

    router = load_router(model, **vectors.made(model))
    now = Catalog.read(catalog)
    difference = _Difference.between(router.catalog, now)
    start = time.perf_counter()
    if difference and not dry_run:
        router.synced(now).save(model, overwrite=True)
    seconds = time.perf_counter() - start
    result: dict[str, Any] = {
        **difference.ids(),
        "apis": len(now),
        "saved": bool(difference) and not dry_run,
    }
    if json_:
        echo_json(result)
        return
    if not difference:
        echo("Nothing has changed.")
        return
    echo_table(["", "id", "what"], difference.rows())
    echo()
    said = ", ".join(f"{len(result[name]):,} {name}" for name in ("added", "changed", "removed"))
    facts = [("Catalog", f"{counted(len(now), 'API')}: {said}")]
    how = "not saved (--dry-run)" if dry_run else f"saved in {seconds:.1f} s"
    echo_pairs([*facts, ("Model", f"{model}, {how}")])
