"""``cnp-router evaluate``: how well a model does on mashups it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.evaluation_report import echo_evaluation
from cnp_router.cli.html_page import write_page
from cnp_router.cli.models import fitted_router
from cnp_router.cli.output import echo_json, note
from cnp_router.cli.progress import Progress


@options.command("cnp-router evaluate --model model --history held-out.jsonl")
@options.fitted_model
@llm_options.encoder_options
@options.held_out
@click.option(
    "--complete",
    is_flag=True,
    help="Also hide one API of each mashup that has several, at random, and look for it from the "
    "text, from the other APIs, and from both: how well --known works.",
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
@options.undated
@options.scheduler
@options.html
@options.as_json
def evaluate(
    *,
    model: Path,
    vectors: llm_options.Vectors,
    histories: tuple[Path, ...],
    complete: bool,
    with_curve: bool,
    undated: bool,
    scheduler: str | None,
    html: Path | None,
    json_: bool,
    **how: Any,
) -> None:
    """Measure a model on mashups it has not seen.

    Each mashup is asked as a request, as of its date if it has one, and what it used is what was
    needed. Figures are means over the requests; the word behind each is its name in JSON. Mashups
    that name an API the model does not know are left out and counted.
    """
    from cnp_router.evaluation import evaluate as evaluated
    from cnp_router.evaluation import evaluate_completion, learning_curve
    from cnp_router.history import History

    router, history = fitted_router(model, vectors), History.read(histories)
    how = {"dated": not undated, "scheduler": scheduler, **options.given(**how)}
    evaluation = evaluated(router, history, **how)
    if learned := evaluation.learned_from_note:
        note(learned, "Warning")
    result: dict[str, Any] = evaluation.to_dict()
    if complete:
        completion = evaluate_completion(router, history, dated=not undated, scheduler=scheduler)
        result["completion"] = completion.to_dict()
    curve = None
    if with_curve:
        with Progress("Learning curve") as progress:
            curve = learning_curve(router, history, progress=progress, **how)
        result["learning_curve"] = curve.to_dict()
    echo_json(result) if json_ else echo_evaluation(result, curve)
    files = [str(path) for path in histories]
    write_page(evaluation, html, aside=json_, curve=curve, model=str(model), histories=files)
