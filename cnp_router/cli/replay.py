"""``cnp-router replay``: what predicting the next tool would have saved on a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnp_router.cli import options
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table, number

if TYPE_CHECKING:
    from cnp_router.evaluation import PrequentialEvaluation
    from cnp_router.evaluation.prequential import PredictorEvaluation

_FIGURES = {
    "coverage": "coverage",
    "accuracy": "accuracy",
    "tokens saved": "tokens_saved",
    "tokens saved less errors": "tokens_saved_net",
    "seconds saved": "seconds_saved",
}


@options.command(
    "cnp-router replay --trajectories trajectories.jsonl",
    "cnp-router replay --trajectories trajectories.jsonl --threshold 0.8 --json",
    "cnp-router replay --trajectories trajectories.jsonl --exclude unknown",
)
@options.files("--trajectories", help="The log to replay.", required=True)
@options.files("--warm", help="Trajectories to learn from beforehand.")
@options.several(
    "--threshold",
    "thresholds",
    type=options.Finite(0, 1),
    metavar="X",
    help="Act from this confidence on.",
    default="0.3 to 0.95",
)
@options.several(
    "--exclude",
    metavar="TOOL",
    help="Do not act on a prediction of this tool. Its steps count all the same.",
)
@options.as_json
def replay(
    *, trajectories: tuple[Path, ...], warm: tuple[Path, ...], json_: bool, **how: Any
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
    titles = ["threshold", *_FIGURES]
    rows = (row for name, method in found.methods.items() for row in _rows(name, method))
    echo_table(["method", *titles], rows, numbers=titles)
    echo()
    echo_pairs(_facts(found))


def _facts(found: PrequentialEvaluation) -> Iterator[tuple[str, str]]:
    steps, runs = counted(found.n_steps, "step"), counted(found.n_trajectories, "run")
    before = f", having learned from {counted(found.n_warm, 'other')}" if found.n_warm else ""
    yield "Replayed", f"{steps} in {runs}{before}"
    if found.exclude:
        yield "Not acted upon", ", ".join(found.exclude)
    yield "Cost", f"{counted(found.tokens, 'token')} and {found.seconds:,.1f} seconds"
    for name, method in found.methods.items():
        yield f"ECE {name}", f"{method.calibration_error:.3f}"


def _rows(name: str, method: PredictorEvaluation) -> Iterator[list[str]]:
    acted = any(at.coverage for at in method.thresholds)
    for at in method.thresholds if acted else method.thresholds[:1]:
        figures = (number(getattr(at, figure)) for figure in _FIGURES.values())
        yield [name, f"{at.threshold:.2f}" if acted else "any", *figures]
