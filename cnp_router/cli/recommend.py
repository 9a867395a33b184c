"""``cnp-router recommend``: which APIs a request needs, and whom to announce it to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.models import fitted_router
from cnp_router.cli.output import echo, echo_json, echo_pairs, echo_table, reasons, verdict

if TYPE_CHECKING:
    from cnp_router.routing import Routing, SelectionRule

_ROWS = 10


@options.command(
    'cnp-router recommend "Send me a text message when it rains."',
    'cnp-router recommend --model model --known google-maps "Photos on a map"',
)
@options.request_argument
@options.router_model
@options.several("--known", metavar="ID", help="API in use already.")
@options.gathered("select", options.selection, options.target_recall, options.top_k)
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
    if chat.llm and fallback != "llm":
        raise click.UsageError("--llm, --llm-model and --base-url need --fallback llm.")
    router = fitted_router(model)
    for api in known:
        router.catalog.position(api)
    if fallback == "llm":
        from cnp_router.agents import CategoryFallback

        fallback = CategoryFallback(chat.model(router.catalog), router.catalog)
    routing = router.route(text, known, select=select, threshold=threshold, fallback=fallback)
    echo_json(routing.to_dict()) if json_ else _echo(routing, select, all_)


def _echo(routing: Routing, rule: SelectionRule, all_: bool) -> None:
    shown = routing.recipients[: None if all_ else _ROWS]
    rows = (
        [
            "*" if recipient.contractor in routing.recommendation else "",
            recipient.contractor,
            f"{recipient.probability:.2f}",
            reasons(recipient),
        ]
        for recipient in shown
    )
    echo_table(["", "API", "prob.", "why"], rows, numbers=["prob."])
    if more := len(routing.recipients) - len(shown):
        echo(f"... and {more} more (--all shows them)")
    echo()
    echo_pairs(_facts(routing, rule))


def _facts(routing: Routing, rule: SelectionRule) -> Iterator[tuple[str, str]]:
    yield "Recommended", f"{', '.join(routing.recommendation)} (marked *)"
    if routing.known:
        yield "In use already", ", ".join(routing.known)
    asked, everyone = len(routing.recipients), routing.n_apis
    if routing.source != "learned":
        how = "as the fallback says"
    elif (target := getattr(rule, "target", None)) is not None:
        how = f"for a recall of {target:.2f}"
    else:
        how = "as many as asked for"
    yield "Recipients", f"{asked} of {everyone} contractors, {how}"
    yield "Confidence", verdict(routing)
    saved = everyone - asked
    yield "Messages saved", f"{saved} of the {everyone} of a broadcast ({saved / everyone:.0%})"
