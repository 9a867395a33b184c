"""``cnp-router replay``: what predicting the next tool would have saved on a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.output import Column, counted, echo, echo_json, echo_pairs, echo_table, number

if TYPE_CHECKING:
    from cnp_router.evaluation import PrequentialEvaluation
    from cnp_router.evaluation.prequential import AtThreshold, PredictorEvaluation

_TITLES = (
    "threshold",
    "coverage",
    "accuracy",
    "tokens saved",
    "tokens saved less errors",
    "seconds saved",
)


@options.command(
    "cnp-router replay --trajectories trajectories.jsonl",
    "cnp-router replay --trajectories trajectories.jsonl --threshold 0.8 --json",
    "cnp-router replay --trajectories trajectories.jsonl --exclude unknown",
)
@options.files("--trajectories", help="The log to replay.", required=True)
@options.files("--warm", help="Trajectories to learn from beforehand.")
@options.share(
    "--threshold",
    "thresholds",
    multiple=True,
    help="Act from this confidence on. Can be given more than once.  [default: 0.3 to 0.95]",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="TOOL",
    help="Do not act on a prediction of this tool. Its steps count all the same. Can be given "
    "more than once.",
)
@options.as_json
def replay(
    *,
    trajectories: tuple[Path, ...],
    warm: tuple[Path, ...],
    json_: bool,
    **how: Any,
) -> None:
    """Count what predicting each step of a log would have saved.

    Each step is predicted from what came before it only, and then learned from. Tokens and seconds
    saved are shares of the log's, for the steps that are predicted rightly; less errors, they lose
    the tokens of the steps predicted wrongly.
    """
    from cnp_router.evaluation import prequential
    from cnp_router.trajectories import read_trajectories

    log = read_trajectories(trajectories)
    before = read_trajectories(warm) if warm else ()
    found = prequential(None, log, warm=before, **options.given(**how))
    if json_:
        echo_json(found.to_dict())
        return
    columns = [Column("method"), *(Column(title, right=True) for title in _TITLES)]
    rows = [row for name, method in found.methods.items() for row in _rows(name, method)]
    echo_table(columns, rows)
    echo()
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
    return [number(figure) for figure in figures]
