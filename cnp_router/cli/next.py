"""``cnp-router next``: which tool an agent calls next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.models import next_tool_router
from cnp_router.cli.output import cold_start, counted, echo, echo_json, echo_pairs, echo_table
from cnp_router.closest import closest

if TYPE_CHECKING:
    from cnp_router.llm import ChatModel
    from cnp_router.prediction import Hint, NextToolRouter, RoutedTool
    from cnp_router.trajectories import Trajectory

_WHY_UNSURE = {
    "threshold": "the confidence is below the threshold",
    "unknown": "nothing like this has been observed",
}


def _so_far(goal: str | None, prefixes: tuple[str, ...], steps: Path | None) -> Trajectory:
    """Return the run until now, which the options give by its tools or by its steps."""
    from cnp_router.trajectories import Step, Trajectory, read_trajectory

    tools = [tool.strip() for prefix in prefixes if prefix.strip() for tool in prefix.split(",")]
    if not all(tools):
        raise click.UsageError("--prefix has an empty tool id.")
    if steps is None:
        return Trajectory("so far", goal or "", tuple(Step(tool) for tool in tools))
    if tools:
        raise click.UsageError("--prefix and --steps exclude each other.")
    run = read_trajectory(steps)
    return run if goal is None else replace(run, goal=goal)


@options.command(
    'cnp-router next --model model --goal "Text me rain." --prefix openweather',
    'cnp-router next --model model --goal "Text me rain." --threshold 0.8 --json',
    "cnp-router next --model model --prefix openweather --exclude unknown",
)
@options.folder("--model", required=True, help="Folder that was observed into: see observe.")
@options.gathered(
    "run",
    _so_far,
    click.option(
        "--goal", metavar="TEXT", help="What the agent is to reach.  [default: that of --steps]"
    ),
    options.several(
        "--prefix", "prefixes", metavar="ID,ID,...", help="The tools so far, in order."
    ),
    options.file(
        "--steps",
        help="The steps so far, as one trajectory: inputs and observations say more than the tools "
        "alone.",
    ),
)
@options.several("--exclude", metavar="TOOL", help="Never predict or choose this tool.")
@options.share(
    "--threshold",
    help="Act on a prediction from this confidence on, from 0 to 1.  [default: never in the first "
    "100 trajectories, then 0.9, falling to 0.6 as more is predicted rightly]",
)
@llm_options.chat_options("Who is asked where the prediction is not acted upon", "nobody")
@options.as_json
def next(
    *,
    model: Path,
    run: Trajectory,
    exclude: tuple[str, ...],
    threshold: float | None,
    chat: llm_options.Chat,
    json_: bool,
) -> None:
    """Predict the tool that an agent calls next."""
    from cnp_router.prediction import Context, NextToolPolicy

    policy = NextToolPolicy(exclude=exclude)
    if threshold is not None:
        policy = NextToolPolicy.fixed(threshold, exclude=exclude)
    router = next_tool_router(model, policy, _model(chat))
    decided = router.predict_next(run.steps, Context(run.goal))
    hints = router.hints(decided.tool, run.steps) if decided.tool else ()
    new = dict.fromkeys(step.tool for step in run.steps if step.tool not in router.observed)
    if json_:
        hinted = [hint.to_dict() for hint in hints]
        echo_json({**decided.to_dict(), "never_observed": list(new), "hints": hinted})
        return
    if decided.tool is None:
        besides = ", besides what is excluded" if exclude else ""
        echo(f"Nothing is known of what comes next{besides}.")
    else:
        _echo(decided, hints, router)
    if new:
        echo_pairs(("Never observed", f"{tool}{_near(tool, router)}") for tool in new)


def _model(chat: llm_options.Chat) -> ChatModel | None:
    if chat.llm is None:
        return None
    if chat.is_server:
        return chat.model()
    from cnp_router.llm import OfflineChatModel
    from cnp_router.prediction import ChooseTool, offline_choice

    return OfflineChatModel({ChooseTool: offline_choice})


def _near(tool: str, router: NextToolRouter) -> str:
    close = closest(tool, router.observed)
    return f": did you mean {close[0]}?" if close else ""


def _echo(decided: RoutedTool, hints: tuple[Hint, ...], router: NextToolRouter) -> None:
    rows = ([c.tool, f"{c.probability:.2f}"] for c in decided.candidates)
    echo_table(["tool", "probability"], rows, numbers=["probability"])
    echo()
    echo_pairs(_facts(decided, hints, router))


def _facts(
    decided: RoutedTool, hints: tuple[Hint, ...], router: NextToolRouter
) -> Iterator[tuple[str, str]]:
    who = {"llm": "chosen by the language model", "none": "undecided: the caller has to decide"}
    yield "Next", f"{decided.tool} ({who.get(decided.source, f'predicted by {decided.source}')})"
    yield "Confidence", f"{decided.confidence:.2f}, with a threshold of {decided.threshold:.2f}"
    if decided.unsure == "cold-start":
        yield "Not acted upon", f"{cold_start(router)} (--threshold to act all the same)"
    elif decided.unsure:
        yield "Not acted upon", _WHY_UNSURE.get(decided.unsure, decided.unsure)
    if decided.hallucinated:
        yield "Hallucinated", ", ".join(decided.hallucinated)
    for hint in hints:
        origin = f"{hint.tool}'s {hint.source}" + (f", {hint.key}" if hint.key else "")
        yield f"Input {hint.input}", f"from {origin} ({hint.count} of {counted(hint.of, 'time')})"
