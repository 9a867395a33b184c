"""The options that several commands share, and what their values are."""

from __future__ import annotations

import datetime
import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli.help_pages import Command, Registered
from cnp_router.cli.output import note
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.records import parse_date

if TYPE_CHECKING:
    from cnp_router.protocols import Announcement, RoundSettings
    from cnp_router.routing import SelectionRule

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _Place(click.Path):
    """A path; an empty one is most likely a variable that is not set, and not this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("The path is empty.", param, ctx)
        return super().convert(value, param, ctx)


# No check of existence: the library's own errors say more, and end with 1, not 2.
PLACE = _Place(path_type=Path, readable=False)


def command(
    *examples: str, sections: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command with examples."""
    return click.command(cls=Command, examples=examples, sections=sections)


class Finite(click.FloatRange):
    """A number in a range, but not NaN, which every comparison lets through, nor infinite."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


# What the values of an option are, and how the help calls them.
count = functools.partial(click.option, type=click.IntRange(min=1), metavar="N")
share = functools.partial(click.option, type=Finite(0, 1), metavar="X")
seconds = functools.partial(click.option, type=Finite(min=0, min_open=True), metavar="SECONDS")
file = functools.partial(click.option, type=PLACE, metavar="FILE")
folder = functools.partial(click.option, type=PLACE, metavar="DIR")


def several(*names: str, help: str, default: str = "", **how: Any) -> Decorator:
    """Return an option that can be given more than once; `default` is what the help says of it."""
    help += " Can be given more than once." + (f"  [default: {default}]" if default else "")
    return click.option(*names, multiple=True, help=help, **how)


files = functools.partial(several, type=PLACE, metavar="FILE")


def choice(*names: str, of: Sequence[str], default: str, help: str) -> Decorator:
    """Return an option that takes one of some words."""
    return click.option(
        *names, type=click.Choice(of), default=default, show_default=True, help=help
    )


def gathered(into: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds options, and passes what `make` makes of them as `into`.

    `make` takes the values of the options by name.
    """

    def probe() -> None:
        """Take the options, so that their names can be read."""

    for option in options:
        option(probe)
    names = [parameter.name for parameter in probe.__click_params__]  # type: ignore[attr-defined]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(**values: Any) -> Any:
            own = {name: values.pop(name) for name in names}
            return command(**{into: make(**own)}, **values)

        decorated: Callable[..., Any] = run
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


def given(**values: Any) -> dict[str, Any]:
    """Return the options that were given: for the others, the library has its defaults."""
    nothing = (None, (), False)
    return {name: v for name, v in values.items() if not any(v is each for each in nothing)}


def standard_input() -> bytes:
    """Return all that standard input gives."""
    if sys.stdin is None:
        raise DataFileError("standard input", "is closed", cure="give the request itself")
    return sys.stdin.buffer.read()


def request_text(text: str) -> str:
    """Return a request, from standard input where it is a dash."""
    if text == "-":
        try:
            text = standard_input().decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise DataFileError("standard input", "not UTF-8", cure="send it as UTF-8") from exc
    if not text.strip():
        raise click.UsageError("The request is empty. Say what is needed.")
    return text.strip()


def _date(text: str | None) -> datetime.date | None:
    try:
        return None if text is None else parse_date("a date", text)
    except InputError as exc:
        raise click.BadParameter(f"{exc}.") from None


PROTOCOL = Registered("Protocols", "cnp_router.protocols", "PROTOCOLS")

fitted_model = folder("--model", required=True, help="Folder of the model.")
router_model = folder("--model", help="Folder of a model.  [default: the bundled sample]")
request_argument = click.argument("text", callback=lambda _, __, text: request_text(text))
held_out = files("--history", "histories", required=True, help="Mashups the model has not seen.")
request_date = click.option(
    "--date",
    metavar="YYYY-MM-DD",
    callback=lambda _, __, text: _date(text),
    help="The day the request is asked.  [default: that of the newest past mashup]",
)
undated = click.option(
    "--undated",
    is_flag=True,
    help="Do not give the router the dates of the mashups, to see what they are worth.",
)
as_json = click.option("--json", "json_", is_flag=True, help="Print one JSON document instead.")


scheduler = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Let the workers of a Dask cluster do it: tcp://HOST:PORT of its scheduler.  "
    "[default: this machine alone]",
)


def _html(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Check the place of a report page before anything else is done."""
    if path is not None and not ctx.resilient_parsing:
        from cnp_router.reports import check_html

        check_html(path)
    return path


html = file("--html", callback=_html, help="Write a report page there too, as one HTML file.")

threshold = share(
    "--threshold",
    default=0.6,
    show_default=True,
    help="How sure the router has to be, from 0 to 1: below this confidence --fallback decides. "
    "Higher, and it decides more often.",
)
target_recall = share(
    "--target-recall",
    type=Finite(0, 1, min_open=True, max_open=True),
    help="Ask as many as it takes to reach this share of the needed APIs on average. Higher, and "
    "more are asked.  [default: 0.9]",
)
top_k = count("--top-k", help="Ask the N most probable ones instead, whatever that reaches.")


def selection(target_recall: float | None, top_k: int | None) -> SelectionRule:
    """Return the rule that chooses the recipients."""
    from cnp_router.routing import TargetRecall, TopK

    if top_k is None:
        return TargetRecall() if target_recall is None else TargetRecall(target_recall)
    if target_recall is not None:
        raise click.UsageError("--target-recall and --top-k exclude each other.")
    return TopK(top_k)


all_fallbacks = functools.partial(
    choice,
    "--fallback",
    of=["none", "llm", "broadcast"],
    help="What to do below the threshold: keep what was learned (none), ask also those of the "
    "categories that a language model names (llm), or ask everyone (broadcast).",
)


def round_settings(
    *,
    target_recall: float | None,
    top_k: int | None,
    budget_tokens: int | None,
    budget_messages: int | None,
    waves: bool,
    **settings: Any,
) -> RoundSettings:
    """Return the settings that the options ask for; most have the name of their option."""
    from cnp_router.protocols import RoundSettings, TrafficBudget, Waves

    limited = budget_tokens is not None or budget_messages is not None
    return RoundSettings(
        select=selection(target_recall, top_k),
        budget=TrafficBudget(budget_tokens, budget_messages) if limited else None,
        waves=Waves() if waves else None,
        **settings,
    )


round_options = gathered(
    "settings",
    round_settings,
    target_recall,
    top_k,
    threshold,
    all_fallbacks(default="llm"),
    count(
        "--budget-tokens",
        help="Begin nothing that takes a round beyond so many tokens.  [default: no limit]",
    ),
    count("--budget-messages", help="Likewise for its messages.  [default: no limit]"),
    seconds(
        "--deadline",
        help="Ignore proposals later than this after the announcement.  [default: none is late]",
    ),
    seconds(
        "--bid-timeout",
        help="How long one contractor may take; then it has failed.  [default: no limit]",
    ),
    seconds(
        "--timeout",
        default=1800.0,
        show_default=True,
        help="How long a whole round may take, the manager included.",
    ),
    count(
        "--iterate",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="After the awards, ask at most N more, often used with what was awarded.",
    ),
    choice(
        "--evidence",
        of=["none", "manager", "everyone"],
        default="none",
        help="Who sees what the router knows of the routed contractors' APIs: probability and "
        "reason, on the call for proposals.",
    ),
    click.option(
        "--waves",
        is_flag=True,
        help="Call the recipients in waves, the most probable first, until enough is proposed, "
        "instead of all at once: fewer tokens, more time.",
    ),
)
max_size = count(
    "--max-size",
    help="The most APIs a contractor may hold; --organise size needs it.  [default: no limit]",
)
HOLDS = (
    "Which APIs a contractor holds: one each, those of a category, those often used together "
    "(community), or so many (size)."
)
ORGANISATIONS = ("api", "category", "community", "size")


def announced(protocol: str, announce: str) -> Announcement:
    """Return how a protocol announces, which is noted where it has no choice."""
    from cnp_router.protocols import find_protocol

    known = find_protocol(protocol).announcements
    if announce in known:
        return announce
    note(f"{protocol} has no {announce}: it is {known[0]}.")
    return known[0]
