"""``cnp-router fit``: from a catalog and a history to a model folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnp_router.cli.options import PLACE, Command
from cnp_router.cli.output import echo_pairs
from cnp_router.cli.progress import Progress

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.history import History, UnknownPolicy

__all__ = ["fit"]


@click.command(
    cls=Command,
    examples=["cnp-router fit --catalog apis.jsonl --history mashups.jsonl --output model"],
)
@click.option("--catalog", type=PLACE, metavar="FILE", help="The APIs, as JSON Lines.")
@click.option(
    "--history",
    "histories",
    type=PLACE,
    multiple=True,
    metavar="FILE",
    help="Past mashups, as JSON Lines. Can be given more than once.",
)
@click.option("--sample", is_flag=True, help="Learn from the bundled sample instead.")
@click.option("--output", type=PLACE, required=True, metavar="DIR", help="Folder of the model.")
@click.option("--overwrite", is_flag=True, help="Replace a model that is there already.")
@click.option(
    "--unknown",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="What to do with a mashup that names an API the catalog does not have.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="The same seed gives the same model.",
)
@click.option(
    "--jobs", type=int, default=-1, metavar="N", help="Cores to use; -1, the default: all."
)
def fit(
    *,
    catalog: Path | None,
    histories: tuple[Path, ...],
    sample: bool,
    output: Path,
    overwrite: bool,
    unknown: str,
    seed: int,
    jobs: int,
) -> None:
    """Learn a router from past mashups and save it to a folder."""
    if sample and (catalog or histories):
        raise click.UsageError("--sample takes no --catalog and no --history.")
    if not sample and not (catalog and histories):
        raise click.UsageError("Give --catalog and --history, or --sample.")
    from cnp_router.storage import check_target
    from cnp_router.training import fit_router

    check_target(output, overwrite)
    apis, mashups = _read(catalog, histories, unknown)
    start = time.perf_counter()
    with Progress("Fitting") as progress:
        router = fit_router(apis, mashups, random_state=seed, n_jobs=jobs, progress=progress)
    router.save(output, overwrite=overwrite)
    skipped = f" ({mashups.skipped} skipped)" if mashups.skipped else ""
    echo_pairs(
        [
            ("Learned from", f"{len(mashups):,} mashups{skipped} over {len(apis):,} APIs"),
            ("Fitted in", f"{time.perf_counter() - start:.1f} s"),
            ("Saved to", f"{output} ({_megabytes(output):.1f} MB)"),
        ]
    )


def _read(
    catalog: Path | None, histories: tuple[Path, ...], unknown: str
) -> tuple[Catalog, History]:
    from cnp_router.catalog import Catalog
    from cnp_router.datasets import load_sample
    from cnp_router.history import History

    if catalog is None:
        sample = load_sample()
        return sample.catalog, sample.history
    apis = Catalog.read(catalog)
    policy: UnknownPolicy = "skip" if unknown == "skip" else "error"
    return apis, History.read(histories, catalog=apis, unknown=policy)


def _megabytes(model: Path) -> float:
    from cnp_router.files import read_json
    from cnp_router.storage import MANIFEST

    files = read_json(model / MANIFEST)["files"]
    return sum(int(file["bytes"]) for file in files.values()) / 1e6
