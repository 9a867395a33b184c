"""``cnp-router evaluate``: how well a model does on mashups it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

import click

from cnp_router.cli.online import fitted_router
from cnp_router.cli.options import (
    Command,
    as_json,
    decision_options,
    fitted_model,
    held_out,
    target_recall,
)
from cnp_router.cli.output import Column, echo_json, echo_pairs, echo_table

__all__ = ["evaluate"]


@click.command(cls=Command, examples=["cnp-router evaluate --model model --history held-out.jsonl"])
@fitted_model
@held_out
@click.option(
    "--complete",
    is_flag=True,
    help="Also hide one API of each mashup of several, at random, and look for it from the text, "
    "from the other APIs, and from both.",
)
@target_recall
@decision_options
@as_json
def evaluate(
    *,
    model: Path,
    histories: tuple[Path, ...],
    complete: bool,
    target_recall: float | None,
    threshold: float,
    fallback: str,
    json_: bool,
) -> None:
    """Measure a model on mashups it has not seen.

    Values are averaged over the requests. Mashups that name an API the model does not know are
    left out and counted as skipped.
    """
    from cnp_router.evaluation import evaluate as evaluated
    from cnp_router.evaluation import evaluate_completion
    from cnp_router.history import History

    router = fitted_router(model)
    history = History.read(histories)
    result = evaluated(
        router,
        history,
        target_recall=0.9 if target_recall is None else target_recall,
        threshold=threshold,
        fallback=cast("Literal['none', 'broadcast']", fallback),
    ).to_dict()
    completion = evaluate_completion(router, history).to_dict() if complete else None
    if json_:
        echo_json(result if completion is None else {**result, "completion": completion})
        return
    echo_pairs(_pairs(result))
    if completion is not None:
        _echo_completion(completion)


def _pairs(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in result.items():
        if isinstance(value, dict):
            yield "", ""
            yield name, ""
            yield from ((f"  {inner}", _number(number)) for inner, number in value.items())
        else:
            yield name, _number(value)


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def _echo_completion(completion: dict[str, Any]) -> None:
    requests = completion.pop("requests")
    depths = list(completion["text"])
    click.echo(f"\ncompletion, one API hidden in each of {requests:,} mashups")
    echo_table(
        [Column(""), *(Column(depth, right=True) for depth in depths)],
        [
            [f"  {name}", *(_number(figures[depth]) for depth in depths)]
            for name, figures in completion.items()
        ],
    )
