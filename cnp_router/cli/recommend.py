"""``cnp-router recommend``: which APIs a request needs, and whom to announce it to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.models import any_router
from cnp_router.cli.output import Column, echo, echo_json, echo_pairs, echo_table, verdict

if TYPE_CHECKING:
    from cnp_router.routing import Recipient, Routing, SelectionRule
    from cnp_router.training import LearnedRouter

_ROWS = 10


@options.command(
    'cnp-router recommend "Send me a text message when it rains."',
    'cnp-router recommend --model model --known google-maps "Photos on a map"',
)
@options.request_argument
@options.router_model
@click.option(
    "--known", multiple=True, metavar="ID", help="API in use already. Can be given more than once."
)
@options.select_options
@options.threshold
@options.all_fallbacks(default="none")
@options.chat_options("Who names the categories for --fallback llm", "offline")
@click.option("--all", "all_", is_flag=True, help=f"Show all recipients, not only {_ROWS}.")
@options.as_json
def recommend(
    *,
    text: str,
    model: Path | None,
    known: tuple[str, ...],
    select: SelectionRule,
    threshold: float,
    fallback: Any,
    chat: options.Chat,
    all_: bool,
    json_: bool,
) -> None:
    """Say which APIs the request TEXT needs, and whom to ask.

    TEXT is a requirement in plain language, or - to read it from standard input. Without --model,
    the router is learned from the bundled sample, once, and kept in your cache folder. To hold a
    round of the Contract Net with the recipients, see negotiate.
    """
    if chat and fallback != "llm":
        raise click.UsageError("--llm, --llm-model and --base-url need --fallback llm.")
    router = any_router(model)
    for api in known:
        router.catalog.position(api)
    if fallback == "llm":
        fallback = _widening(router, chat)
    routing = router.route(text, known, select=select, threshold=threshold, fallback=fallback)
    if json_:
        echo_json(routing.to_dict())
    else:
        _echo(routing, select, None if all_ else _ROWS)


def _widening(router: LearnedRouter, chat: options.Chat) -> Any:
    from cnp_router.agents import CategoryFallback

    return CategoryFallback(chat.model(router.catalog), router.catalog)


def _echo(routing: Routing, rule: SelectionRule, rows: int | None) -> None:
    shown = routing.recipients[:rows]
    recommended = set(routing.recommendation)
    columns = [Column(""), Column("API"), Column("prob.", right=True), Column("why")]
    echo_table(columns, (_row(recipient, recommended) for recipient in shown))
    more = len(routing.recipients) - len(shown)
    if more:
        echo(f"... and {more} more (--all shows them)")
    echo()
    echo_pairs(_facts(routing, rule))


def _row(recipient: Recipient, recommended: set[str]) -> tuple[str, str, str, str]:
    return (
        "*" if recipient.contractor in recommended else "",
        recipient.contractor,
        f"{recipient.probability:.2f}",
        "; ".join(reason.text for reason in recipient.reasons[:2]),
    )


def _facts(routing: Routing, rule: SelectionRule) -> Iterator[tuple[str, str]]:
    yield "Recommended", f"{', '.join(routing.recommendation)} (marked *)"
    if routing.known:
        yield "In use already", ", ".join(routing.known)
    asked, everyone = len(routing.recipients), routing.n_apis
    if routing.source == "broadcast":
        how = "all of them, as the fallback says"
    elif routing.source == "llm":
        how = "with those of the categories that the language model named"
    elif (target := getattr(rule, "target", None)) is not None:
        how = f"for a recall of {target:.2f}"
    else:
        how = "as many as asked for"
    yield "Recipients", f"{asked} of {everyone} contractors, {how}"
    yield "Confidence", f"{verdict(routing)}{_consequence(routing)}"
    saved = everyone - asked
    yield "Messages saved", f"{saved} of the {everyone} of a broadcast ({saved / everyone:.0%})"


def _consequence(routing: Routing) -> str:
    if routing.is_confident:
        return ""
    if routing.source == "learned":
        return ": kept as learned, as no fallback is allowed (--fallback broadcast)"
    if routing.source == "llm":
        return ": widened to the categories that the language model named"
    return f": the fallback was a {routing.source}"
