"""``cnp-router evaluate``: how well a model does on mashups it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.models import fitted_router
from cnp_router.cli.output import echo, echo_json, echo_pairs, echo_table, number
from cnp_router.cli.progress import Progress

if TYPE_CHECKING:
    from cnp_router.evaluation import LearningCurve


@options.command("cnp-router evaluate --model model --history held-out.jsonl")
@options.fitted_model
@options.encoder_options
@options.held_out
@click.option(
    "--complete",
    is_flag=True,
    help="Also hide one API of each mashup of several, at random, and look for it from the text, "
    "from the other APIs, and from both.",
)
@click.option(
    "--learning-curve",
    "with_curve",
    is_flag=True,
    help="Also fit again on 0, 15, 60, 250, 1000 and all of the model's past mashups, and measure "
    "each on the same requests. Takes several times as long as fitting.",
)
@options.target_recall
@options.threshold
@options.choice(
    "--fallback",
    of=["none", "broadcast"],
    default="none",
    help="What to do below the threshold: keep what was learned, or ask everyone.",
)
@click.option("--undated", is_flag=True, help="Do not give the router the dates of the mashups.")
@options.html
@options.as_json
def evaluate(
    *,
    model: Path,
    vectors: options.Vectors,
    histories: tuple[Path, ...],
    complete: bool,
    with_curve: bool,
    undated: bool,
    html: Path | None,
    json_: bool,
    **how: Any,
) -> None:
    """Measure a model on mashups it has not seen.

    Each mashup that has a date is asked as of that day. Values are averaged over the requests.
    Mashups that name an API the model does not know are
    left out and counted as skipped.
    """
    from cnp_router.evaluation import evaluate as evaluated
    from cnp_router.evaluation import evaluate_completion, learning_curve
    from cnp_router.history import History

    router, history = fitted_router(model, vectors), History.read(histories)
    how = {"dated": not undated, **options.given(**how)}
    evaluation = evaluated(router, history, **how)
    result: dict[str, Any] = evaluation.to_dict()
    if complete:
        result["completion"] = evaluate_completion(router, history, dated=not undated).to_dict()
    curve = None
    if with_curve:
        with Progress("Learning curve") as progress:
            curve = learning_curve(router, history, progress=progress, **how)
        result["learning_curve"] = curve.to_dict()
    if html is not None:
        from cnp_router.reports import write_html

        write_html(evaluation, html, curve=curve)
    echo_json(result) if json_ else _echo(result, curve)


def _echo(result: dict[str, Any], curve: LearningCurve | None) -> None:
    completion = result.pop("completion", None)
    result.pop("learning_curve", None)
    echo_pairs(_pairs(result))
    if completion is not None:
        _echo_completion(completion)
    if curve is not None:
        table = curve.table()
        echo("", "learning curve, fitted again on parts of the past mashups")
        echo_table(table.columns, table.rows, numbers=table.columns)


def _echo_completion(completion: dict[str, Any]) -> None:
    requests = completion.pop("requests")
    depths = list(completion["text"])
    echo("", f"completion, one API hidden in each of {requests:,} mashups")
    echo_table(
        ["", *depths],
        ([f"  {name}", *map(number, figures.values())] for name, figures in completion.items()),
        numbers=depths,
    )


def _pairs(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in result.items():
        if isinstance(value, dict):
            yield "", ""
            yield name, ""
            yield from ((f"  {inner}", number(figure)) for inner, figure in value.items())
        else:
            yield name, number(value)
