"""``cnp-router replay``: what foretelling the next tool would have saved on a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnp_router.cli.online import counted
from cnp_router.cli.options import PLACE, Command, Share, as_json
from cnp_router.cli.output import Column, echo_json, echo_pairs, echo_table

if TYPE_CHECKING:
    from cnp_router.evaluation import PrequentialEvaluation
    from cnp_router.evaluation.prequential import AtThreshold, PredictorEvaluation

__all__ = ["replay"]

_TITLES = ("θ", "coverage", "accuracy", "tokens", "net", "seconds")


@click.command(
    cls=Command,
    examples=[
        "cnp-router replay --trajectories trajectories.jsonl",
        "cnp-router replay --trajectories trajectories.jsonl --threshold 0.8 --json",
        "cnp-router replay --trajectories trajectories.jsonl --exclude unknown",
    ],
)
@click.option(
    "--trajectories",
    type=PLACE,
    multiple=True,
    required=True,
    metavar="FILE",
    help="The log to replay. Can be given more than once.",
)
@click.option(
    "--warm",
    type=PLACE,
    multiple=True,
    metavar="FILE",
    help="Trajectories to learn from beforehand. Can be given more than once.",
)
@click.option(
    "--threshold",
    "thresholds",
    type=Share(0, 1),
    multiple=True,
    metavar="X",
    help="Act from this confidence on. Can be given more than once.  [default: 0.3 to 0.95]",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="TOOL",
    help="Do not act on a prediction of this tool. Its steps count all the same. Can be given "
    "more than once.",
)
@as_json
def replay(
    *,
    trajectories: tuple[Path, ...],
    warm: tuple[Path, ...],
    thresholds: tuple[float, ...],
    exclude: tuple[str, ...],
    json_: bool,
) -> None:
    """Count what foretelling each step of a log would have saved.

    Each step is foretold from what came before it only, and then learned from. Tokens and seconds
    are the shares of those steps that are foretold rightly; net takes off the tokens of those
    foretold wrongly.
    """
    from cnp_router.evaluation.prequential import THRESHOLDS, prequential
    from cnp_router.trajectories import read_trajectories

    log = read_trajectories(trajectories)
    before = read_trajectories(warm) if warm else ()
    thresholds = thresholds or THRESHOLDS
    found = prequential(None, log, warm=before, thresholds=thresholds, exclude=exclude)
    if json_:
        echo_json(found.to_dict())
        return
    columns = [Column("method"), *(Column(title, right=True) for title in _TITLES)]
    rows = [row for name, method in found.methods.items() for row in _rows(name, method)]
    echo_table(columns, rows)
    click.echo()
    echo_pairs(_facts(found))


def _facts(found: PrequentialEvaluation) -> Iterator[tuple[str, str]]:
    steps, runs = counted(found.n_steps, "step"), counted(found.n_trajectories, "run")
    yield "Replayed", f"{steps} in {runs}, after {counted(found.n_warm, 'other')}"
    if found.exclude:
        yield "Not acted upon", ", ".join(found.exclude)
    yield "Of", f"{counted(found.tokens, 'token')} and {found.seconds:,.1f} seconds"
    for name, method in found.methods.items():
        yield f"ECE {name}", f"{method.calibration_error:.3f}"


def _rows(name: str, method: PredictorEvaluation) -> Iterator[list[str]]:
    if not any(at.coverage for at in method.thresholds):
        yield [name, "any", *_figures(method.thresholds[0])]
        return
    for at in method.thresholds:
        yield [name, f"{at.threshold:.2f}", *_figures(at)]


def _figures(at: AtThreshold) -> list[str]:
    figures = (at.coverage, at.accuracy, at.tokens_saved, at.tokens_saved_net, at.seconds_saved)
    return ["-" if figure is None else f"{figure:.3f}" for figure in figures]
