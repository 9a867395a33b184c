"""``cnp-router fit``: from a catalog and a history to a model folder."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.models import read_past, size
from cnp_router.cli.output import counted, echo_pairs
from cnp_router.cli.progress import Progress


@options.command(
    "cnp-router fit --catalog apis.jsonl --history mashups.jsonl --output model",
    "cnp-router fit --catalog apis.jsonl --output model",
    "cnp-router fit --catalog apis.jsonl --history 'part-*.jsonl.gz' --output model",
)
@options.file("--catalog", help="The APIs, as JSON Lines, packed by gzip or not, or Parquet.")
@options.files(
    "--history",
    "histories",
    help="Past mashups, likewise. A quoted pattern means all files that match it.",
    default="none",
)
@click.option("--sample", is_flag=True, help="Learn from the bundled sample instead.")
@options.folder("--output", required=True, help="Folder of the model.")
@click.option("--overwrite", is_flag=True, help="Replace a model that is there already.")
@options.choice(
    "--unknown",
    of=["error", "skip"],
    default="error",
    help="What to do with a mashup that names an API the catalog does not have.",
)
@llm_options.encoder_options
@options.count(
    "--seed",
    "random_state",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="The same seed gives the same model.",
)
@options.count("--jobs", "n_jobs", type=int, default=-1, help="Cores to use; -1, the default: all.")
@options.scheduler
def fit(
    *,
    catalog: Path | None,
    histories: tuple[Path, ...],
    sample: bool,
    output: Path,
    overwrite: bool,
    unknown: Any,
    vectors: llm_options.Vectors,
    scheduler: str | None,
    **how: Any,
) -> None:
    """Learn a router from past mashups and save it to a folder.

    Without --history, the router knows the specifications of the catalog alone. Its probabilities
    are rough then; a few past mashups already help.

    With --scheduler, the workers of a cluster read the history and learn: they must see its files
    under the same paths. The model is the same.
    """
    if sample and (catalog or histories):
        raise click.UsageError("--sample takes no --catalog and no --history.")
    if not sample and not catalog:
        raise click.UsageError("Give --catalog (and --history, if there is one), or --sample.")
    from cnp_router.storage import check_target
    from cnp_router.training import fit_router

    check_target(output, overwrite)
    with ExitStack() as stack:
        pool = None
        if scheduler is not None:
            from cnp_router.cluster import connected

            pool = stack.enter_context(connected(scheduler))
            how["scheduler"] = pool.client
        apis, mashups = read_past(catalog, histories, unknown, pool)
        start = time.perf_counter()
        with Progress("Fitting") as progress:
            router = fit_router(apis, mashups or None, **vectors.made(), progress=progress, **how)
    router.save(output, overwrite=overwrite)
    skipped = f" ({mashups.skipped} skipped)" if mashups.skipped else ""
    past, apis_ = counted(len(mashups), "mashup"), counted(len(router.apis), "API")
    facts = [("Learned from", f"{past}{skipped} over {apis_}")]
    if decides := router.summary.get("decides"):
        facts.append(("What decides", decides))
    if encoder := router.summary.get("encoder"):
        facts.append(("Encoder", encoder))
    if patterns := router.summary.get("boilerplate"):
        common = f"{counted(patterns, 'pattern')} of words that say nothing of what is asked"
        facts.append(("Not read", common))
    took = f"{time.perf_counter() - start:.1f} s"
    facts += [("Fitted in", took), ("Saved to", f"{output} ({size(output)[1]:.1f} MB)")]
    echo_pairs(facts)
