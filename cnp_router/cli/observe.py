"""``cnp-router observe``: learn online from what agents did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnp_router.cli.online import observers, online_folder
from cnp_router.cli.options import PLACE, Command, as_json
from cnp_router.cli.output import echo_json, echo_pairs
from cnp_router.cli.progress import Progress

if TYPE_CHECKING:
    from cnp_router.history import Mashup
    from cnp_router.trajectories import Trajectory

__all__ = ["observe"]


@click.command(
    cls=Command,
    examples=[
        "cnp-router observe --model model --trajectories trajectories.jsonl",
        "cnp-router observe --model new-model --history mashups.jsonl",
    ],
)
@click.option(
    "--model",
    type=PLACE,
    required=True,
    metavar="DIR",
    help="Folder of a model, or a new one. What is learned is kept in DIR/online.",
)
@click.option(
    "--trajectories",
    type=PLACE,
    multiple=True,
    metavar="FILE",
    help="What agents did. Can be given more than once.",
)
@click.option(
    "--history",
    "histories",
    type=PLACE,
    multiple=True,
    metavar="FILE",
    help="Mashups: a fitted model learns from them, and from those in order which API follows "
    "which. Can be given more than once.",
)
@as_json
def observe(
    *, model: Path, trajectories: tuple[Path, ...], histories: tuple[Path, ...], json_: bool
) -> None:
    """Learn from trajectories and mashups, without fitting again.

    Each record is on disk before the next one is learned from. What was observed before, by its
    id, is not counted again, so a command that was interrupted can be given once more.
    """
    if not (trajectories or histories):
        raise click.UsageError("Give --trajectories or --history.")
    from cnp_router.prediction import NextToolRouter, OnlineStore

    router, counted = NextToolRouter(), 0
    records = list(_records(trajectories, histories))
    store = OnlineStore(online_folder(model), observers(model, router))
    with store, Progress("Observing") as progress:
        for place, record in enumerate(records, 1):
            counted += store.observe(record).counted
            progress("record", place, len(records))
    result = {
        "observed": counted,
        "repeated": len(records) - counted,
        "records": store.sequence,
        "trajectories": router.n_trajectories,
        "steps": router.n_steps,
        "coverage": router.coverage,
        "threshold": router.threshold,
    }
    echo_json(result) if json_ else echo_pairs(_pairs(result))


def _records(
    trajectories: tuple[Path, ...], histories: tuple[Path, ...]
) -> Iterator[Trajectory | Mashup]:
    from cnp_router.history import History
    from cnp_router.trajectories import read_trajectories

    if trajectories:
        yield from read_trajectories(trajectories)
    if histories:
        yield from History.read(histories)


def _pairs(result: dict[str, int | float]) -> Iterator[tuple[str, str]]:
    repeated = result["repeated"]
    again = f" ({repeated:,} had been observed before)" if repeated else ""
    yield "Observed", f"{result['observed']:,} records{again}"
    yield "In all", f"{result['records']:,} records"
    yield "Next tools", f"learned from {result['trajectories']:,} runs, {result['steps']:,} steps"
    yield "Coverage", f"{result['coverage']:.2f}, so the threshold is {result['threshold']:.2f}"
