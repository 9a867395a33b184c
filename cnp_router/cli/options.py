"""Commands with examples in their help, and the options that several of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = [
    "PLACE",
    "Command",
    "Group",
    "Seconds",
    "as_json",
    "decision_options",
    "fitted_model",
    "held_out",
    "selection",
    "target_recall",
    "threshold_option",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# No check of existence: the library's own errors say more, and end with 1, not 2.
PLACE = click.Path(path_type=Path)


class WithExamples(click.Command):
    """Shows examples below the options.

    Parameters
    ----------
    examples : sequence of str
        Command lines, shown as they are.
    """

    def __init__(self, *args: Any, examples: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples. Not as an epilog: click would break their lines."""
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            for example in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{example}\n")


class Command(WithExamples):
    """A command with examples."""


class Group(WithExamples, click.Group):
    """A group of commands, with examples."""


class Share(click.FloatRange):
    """A number between 0 and 1."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; NaN, which every comparison lets through, is none."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


threshold_option = click.option(
    "--threshold",
    type=Share(0, 1),
    default=0.6,
    show_default=True,
    metavar="X",
    help="Below this confidence the fallback decides.",
)


class Seconds(click.FloatRange):
    """A time above 0."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, which must be finite."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no time.", param, ctx)
        return number


def decision_options(command: Function) -> Function:
    """Add the threshold, and what happens below it."""
    fallback = click.option(
        "--fallback",
        type=click.Choice(["none", "broadcast"]),
        default="none",
        show_default=True,
        help="What to do below the threshold: keep what was learned, or ask everyone.",
    )
    return threshold_option(fallback(command))


fitted_model = click.option(
    "--model", type=PLACE, required=True, metavar="DIR", help="Folder of the model."
)
held_out = click.option(
    "--history",
    "histories",
    type=PLACE,
    required=True,
    multiple=True,
    metavar="FILE",
    help="Mashups the model has not seen. Can be given more than once.",
)
target_recall = click.option(
    "--target-recall",
    type=Share(0, 1, min_open=True, max_open=True),
    metavar="X",
    help="Share of the needed APIs to reach on average.  [default: 0.9]",
)
as_json = click.option("--json", "json_", is_flag=True, help="Print one JSON document instead.")


def selection(target: float | None, top_k: int | None) -> Any:
    """Return the rule that chooses the recipients."""
    from cnp_router.routing import TargetRecall, TopK

    if target is not None and top_k is not None:
        raise click.UsageError("--target-recall and --top-k exclude each other.")
    if top_k is not None:
        return TopK(top_k)
    return TargetRecall() if target is None else TargetRecall(target)
