"""``cnp-router recommend``: which APIs a request needs, and whom to announce it to."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options, why_not
from cnp_router.cli.models import asked_router
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table, reasons
from cnp_router.cli.restriction import Restriction, restriction

if TYPE_CHECKING:
    from cnp_router.routing import Routing, SelectionRule

_ROWS = 10


@options.command(
    'cnp-router recommend "Send me a text message when it rains."',
    'cnp-router recommend --model model --known google-maps "Photos on a map"',
    'cnp-router recommend --where category=Messaging --why-not slack "Text me."',
    'cnp-router recommend --catalog apis.jsonl "Text me when it rains."',
)
@options.request_argument
@options.router_model
@options.file("--catalog", help="Route by the specifications of these APIs alone (JSON Lines).")
@options.encoder_options
@options.several("--known", metavar="ID", help="API in use already.")
@options.request_date
@restriction
@options.gathered("select", options.selection, options.target_recall, options.top_k)
@options.threshold
@options.all_fallbacks(default="none")
@options.chat_options("Who names the categories for --fallback llm", "offline")
@click.option("--all", "all_", is_flag=True, help=f"Show all recipients, not only {_ROWS}.")
@click.option("--why-not", "wanted", metavar="ID", help="Say why this API is not recommended.")
@options.as_json
def recommend(
    *,
    text: str,
    model: Path | None,
    catalog: Path | None,
    vectors: options.Vectors,
    known: tuple[str, ...],
    date: datetime.date | None,
    within: Restriction,
    select: SelectionRule,
    threshold: float,
    fallback: Any,
    chat: options.Chat,
    all_: bool,
    wanted: str | None,
    json_: bool,
) -> None:
    """Say which APIs the request TEXT needs, and whom to ask.

    TEXT is a requirement in plain language, or - to read it from standard input. Without --model
    and --catalog, the router is learned from the bundled sample, once, and kept in your cache
    folder. To hold a round of the Contract Net with the recipients, see negotiate.
    """
    if chat.llm and fallback != "llm":
        raise click.UsageError("--llm, --llm-model and --base-url need --fallback llm.")
    router = asked_router(model, catalog, vectors)
    for api in (*known, *([wanted] if wanted else [])):
        router.catalog.position(api)
    how: Any = {"select": select, "threshold": threshold, **within.arguments(router.catalog)}
    if fallback == "llm":
        from cnp_router.agents import CategoryFallback

        fallback = CategoryFallback(chat.model(router.catalog), router.catalog)
    routing = router.route(text, known, fallback=fallback, date=date, **how)
    why = None
    if wanted:
        why = why_not.explained(
            router, routing, within, wanted, _chosen_how(routing, select), date=date
        )
    if json_:
        echo_json(routing.to_dict() | ({"why_not": why} if why else {}))
        return
    if routing.fits or all_:
        _echo_table(routing, all_)
        echo_pairs(_facts(routing, select))
    else:
        more = ", allow more" if routing.is_restricted else ""
        echo(routing.verdict, f"Say it in other words{more}, or see what comes nearest with --all.")
    if why:
        echo()
        echo_pairs(why_not.facts(why))


def _echo_table(routing: Routing, all_: bool) -> None:
    everyone, recommended = routing.recipients, routing.recommendation
    shown = everyone if all_ else everyone[: max(_ROWS, len(recommended))]
    rows = (
        [
            "*" if recipient.contractor in recommended else "",
            recipient.contractor,
            f"{recipient.probability:.2f}",
            reasons(recipient),
        ]
        for recipient in shown
    )
    echo_table(["", "API", "prob.", "why"], rows, numbers=["prob."])
    if more := len(everyone) - len(shown):
        most = everyone[len(shown)].probability
        rest = counted(more, "more recipient")
        least = f"{most:.2f} or less" if most >= 0.005 else "0.00"
        echo(f"... and {rest} of probability {least} (--all shows them)")
    echo()


def _chosen_how(routing: Routing, rule: SelectionRule) -> str:
    if routing.source != "learned":
        return "as the fallback says"
    target = getattr(rule, "target", None)
    if target is None:
        return "as many as asked for"
    return f"{'aiming at' if routing.is_rough else 'for'} a recall of {target:.2f}"


def _facts(routing: Routing, rule: SelectionRule) -> Iterator[tuple[str, str]]:
    label = "Recommended" if routing.fits else "Nearest"
    yield label, f"{', '.join(routing.recommendation)} (marked *)"
    if routing.known:
        yield "In use already", ", ".join(routing.known)
    asked, reach = len(routing.recipients), routing.n_reachable
    how = _chosen_how(routing, rule)
    allowed, of = ("allowed ", f" (of {routing.n_apis})") if routing.is_restricted else ("", "")
    yield "Recipients", f"{asked} of {counted(reach, f'{allowed}contractor')}{of}, {how}"
    yield "Verdict", routing.verdict
    saved = reach - asked
    yield "Messages saved", f"{saved} of the {reach} of a broadcast ({saved / reach:.0%})"
