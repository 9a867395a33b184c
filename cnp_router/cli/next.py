"""``cnp-router next``: which tool an agent calls next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli.online import counted, is_fitted, learned_router
from cnp_router.cli.options import PLACE, Command, Share, as_json
from cnp_router.cli.output import Column, echo_json, echo_pairs, echo_table

if TYPE_CHECKING:
    from cnp_router.catalog import Api
    from cnp_router.llm import ChatModel
    from cnp_router.prediction import Hint, NextToolRouter, RoutedTool
    from cnp_router.trajectories import Trajectory

__all__ = ["next_"]


@click.command(
    "next",
    cls=Command,
    examples=[
        'cnp-router next --model model --goal "Text me rain." --prefix openweather',
        'cnp-router next --model model --goal "Text me rain." --threshold 0.8 --json',
        "cnp-router next --model model --prefix openweather --exclude unknown",
    ],
)
@click.option(
    "--model", type=PLACE, required=True, metavar="DIR", help="Folder that was observed into."
)
@click.option(
    "--goal", metavar="TEXT", help="What the agent is to reach.  [default: that of --steps]"
)
@click.option(
    "--prefix",
    "prefixes",
    multiple=True,
    metavar="ID,ID,...",
    help="The tools so far, in order. Can be given more than once.",
)
@click.option(
    "--steps",
    type=PLACE,
    metavar="FILE",
    help="The steps so far, as one trajectory: inputs and observations tell more than the tools "
    "alone.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="TOOL",
    help="Never foretell or choose this tool. Can be given more than once.",
)
@click.option(
    "--threshold",
    type=Share(0, 1),
    metavar="X",
    help="Act on a prediction from this confidence on.  [default: ask in the first 100 "
    "trajectories, then falling from 0.9 to 0.6]",
)
@click.option(
    "--llm",
    type=click.Choice(["none", "offline", "openai"]),
    default="none",
    show_default=True,
    help="Who is asked where the prediction is not acted upon.",
)
@click.option("--llm-model", metavar="NAME", help="Name of the server's model, for openai.")
@click.option("--base-url", metavar="URL", help="Of the server, for openai.")
@as_json
def next_(
    *,
    model: Path,
    goal: str | None,
    prefixes: tuple[str, ...],
    steps: Path | None,
    threshold: float | None,
    exclude: tuple[str, ...],
    **how: Any,
) -> None:
    """Foretell the tool that an agent calls next."""
    from cnp_router.prediction import Context, NextToolPolicy

    policy = (
        NextToolPolicy(exclude=exclude)
        if threshold is None
        else NextToolPolicy.fixed(threshold, exclude=exclude)
    )
    so_far = _so_far(prefixes, steps)
    prefix = so_far.steps
    router = learned_router(model, policy)
    asked = _model(how["llm"], how["llm_model"], how["base_url"])
    if asked is not None:
        router = _asking(router, asked, model)
    decided = router.predict_next(prefix, Context(so_far.goal if goal is None else goal))
    hints = router.hints(decided.tool, prefix) if decided.tool else ()
    if how["json_"]:
        echo_json({**decided.to_dict(), "hints": [hint.to_dict() for hint in hints]})
    elif decided.tool is None:
        besides = ", besides what is excluded" if exclude else ""
        click.echo(f"Nothing is known of what comes next{besides}.")
    else:
        _echo(decided, hints)


def _so_far(prefixes: tuple[str, ...], steps: Path | None) -> Trajectory:
    from cnp_router.trajectories import Step, Trajectory, read_trajectory

    tools = _tools(prefixes)
    if steps is None:
        return Trajectory("so far", "", tuple(Step(tool) for tool in tools))
    if tools:
        raise click.UsageError("--prefix and --steps exclude each other.")
    return read_trajectory(steps)


def _tools(prefixes: tuple[str, ...]) -> list[str]:
    tools = [tool.strip() for prefix in prefixes if prefix.strip() for tool in prefix.split(",")]
    if not all(tools):
        raise click.UsageError("--prefix has an empty tool id.")
    return tools


def _model(llm: str, llm_model: str | None, base_url: str | None) -> ChatModel | None:
    if llm != "openai" and (llm_model or base_url):
        raise click.UsageError("--llm-model and --base-url need --llm openai.")
    if llm == "none":
        return None
    from cnp_router.llm import OfflineChatModel, OpenAIChatModel
    from cnp_router.prediction import ChooseTool, offline_choice

    if llm == "offline":
        return OfflineChatModel({ChooseTool: offline_choice})
    return OpenAIChatModel(llm_model, base_url=base_url)


def _asking(router: NextToolRouter, asked: ChatModel, model: Path) -> NextToolRouter:
    """Return the router with a model to ask, which is shown what the fitted model has."""
    from cnp_router.prediction import NextToolRouter

    known: list[Api] = []
    if is_fitted(model):
        from cnp_router.training import load_router

        known = list(load_router(model).catalog)
    ids = {api.id for api in known}
    tools: list[Api | str] = [*known, *(tool for tool in router.tools if tool not in ids)]
    asking = NextToolRouter(model=asked, tools=tools, policy=router.policy)
    asking.restore(router.state())
    return asking


def _echo(decided: RoutedTool, hints: tuple[Hint, ...]) -> None:
    columns = [Column("tool"), Column("prob.", right=True)]
    echo_table(columns, ([c.tool, f"{c.probability:.2f}"] for c in decided.candidates))
    click.echo()
    echo_pairs(_facts(decided, hints))


def _facts(decided: RoutedTool, hints: tuple[Hint, ...]) -> Iterator[tuple[str, str]]:
    who = {"llm": "chosen by the language model", "none": "undecided: the caller has to"}
    yield "Next", f"{decided.tool} ({who.get(decided.source, f'foretold by {decided.source}')})"
    yield "Confidence", f"{decided.confidence:.2f}, with a threshold of {decided.threshold:.2f}"
    if decided.unsure:
        yield "Not acted upon", decided.unsure
    if decided.hallucinated:
        yield "Hallucinated", ", ".join(decided.hallucinated)
    for hint in hints:
        origin = f"{hint.tool}'s {hint.source}" + (f", {hint.key}" if hint.key else "")
        yield f"Input {hint.input}", f"from {origin} ({hint.count} of {counted(hint.of, 'time')})"
