"""``cnp-router recommend``: which APIs a request needs, and whom to announce it to."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options, why_not
from cnp_router.cli.completing import api_ids
from cnp_router.cli.many_requests import check_output, read_requests, recommend_each
from cnp_router.cli.models import asked_router
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table, reasons
from cnp_router.cli.restriction import Restriction, restriction

if TYPE_CHECKING:
    from cnp_router.routing import Router, Routing, SelectionRule

_ROWS = 10
_AT_ONCE = 64  # requests of a file
_SURER = "--fallback broadcast asks everyone; --fallback llm asks a language model who else may fit"


@options.command(
    'cnp-router recommend "Send me a text message when it rains."',
    'cnp-router recommend --model model --known google-maps "Photos on a map"',
    'cnp-router recommend --where category=Messaging --why-not slack "Text me."',
    'cnp-router recommend --catalog apis.jsonl "Text me when it rains."',
    "cnp-router recommend --requests requests.txt --output decisions.jsonl",
    sections={
        "requests": "What is needed",
        "model": "Who recommends",
        "among": "Which APIs may be recommended",
        "target_recall": "How many are asked",
        "threshold": "Where the router is not sure",
        "all_": "What is shown",
    },
)
@click.argument(
    "text",
    required=False,
    callback=lambda _, __, text: None if text is None else options.request_text(text),
)
@options.file(
    "--requests",
    help="A file of many requests instead of TEXT, one a line: all as text, or all as JSON objects "
    "with 'description' and, if you like, 'id', 'date' and 'known'; a history will do. - reads "
    "standard input.",
)
@options.several(
    "--known",
    metavar="ID",
    shell_complete=api_ids,
    help="An API in use already: what else is needed?",
)
@options.request_date
@options.router_model
@options.file("--catalog", help="Route by the specifications of these APIs alone (JSON Lines).")
@llm_options.encoder_options
@restriction
@options.gathered("select", options.selection, options.target_recall, options.top_k)
@options.threshold
@options.all_fallbacks(default="none")
@llm_options.chat_options("Who names the categories for --fallback llm", "offline")
@click.option("--all", "all_", is_flag=True, help=f"Show all recipients, not only {_ROWS}.")
@click.option(
    "--why-not",
    "wanted",
    metavar="ID",
    shell_complete=api_ids,
    help="Say why this API is not recommended.",
)
@options.file(
    "--output",
    help="Write the decisions on --requests there, as JSON Lines, instead of a table. The file is "
    "written whole or not at all.",
)
@options.as_json
def recommend(
    *,
    text: str | None,
    requests: Path | None,
    model: Path | None,
    catalog: Path | None,
    vectors: llm_options.Vectors,
    known: tuple[str, ...],
    date: datetime.date | None,
    within: Restriction,
    select: SelectionRule,
    threshold: float,
    fallback: Any,
    chat: llm_options.Chat,
    all_: bool,
    wanted: str | None,
    output: Path | None,
    json_: bool,
) -> None:
    """Say which APIs the request TEXT needs, and whom to ask.

    TEXT is a requirement in plain language, or - to read it from standard input. Without --model
    and --catalog, the router is learned from the bundled sample, once, and kept in your cache
    folder. To hold a round of the Contract Net with the recipients, see negotiate.
    """
    _check_usage(text, requests, output, one_only=all_ or wanted is not None)
    if chat.llm and fallback != "llm":
        raise click.UsageError("--llm, --llm-model and --base-url need --fallback llm.")
    router = asked_router(model, catalog, vectors)
    for api in (*known, *([wanted] if wanted else [])):
        router.catalog.position(api)
    how: Any = {"select": select, "threshold": threshold, **within.arguments(router.catalog)}
    if fallback == "llm":
        from cnp_router.agents import CategoryFallback

        fallback = CategoryFallback(chat.model(router.catalog), router.catalog)
    how["fallback"] = fallback
    if requests is not None:
        check_output(output, requests)
        everyone = read_requests(requests, router.catalog, known=known, date=date)
        # A model takes its time for each: what it has said is shown before the next is asked.
        at_once = _AT_ONCE if isinstance(fallback, str) else 1
        route_many = partial(router.route_many, **how)
        recommend_each(everyone, route_many, at_once=at_once, output=output, json_=json_)
        return
    routing = router.route(text or "", known, date=date, **how)
    why = None
    if wanted:
        why = why_not.explained(
            router, routing, within, wanted, _chosen_how(router, routing, select), date=date
        )
    if json_:
        echo_json(routing.to_dict() | ({"why_not": why} if why else {}))
        return
    if routing.fits or all_:
        _echo_table(routing, all_)
        echo_pairs(_facts(router, routing, select))
    else:
        more = ", allow more" if routing.is_restricted else ""
        echo(routing.verdict, f"Say it in other words{more}, or see what comes nearest with --all.")
    if why:
        echo()
        echo_pairs(why_not.facts(why))


def _check_usage(
    text: str | None, requests: Path | None, output: Path | None, *, one_only: bool
) -> None:
    """Raise a UsageError where the options are not of one request, or of a file of them."""
    if text is None and requests is None:
        raise click.UsageError("Give TEXT, which says what is needed, or --requests FILE.")
    if text is not None:
        if requests is not None:
            raise click.UsageError("TEXT and --requests exclude each other.")
        if output is not None:
            raise click.UsageError("--output needs --requests.")
    elif one_only:
        raise click.UsageError("--all and --why-not need TEXT: they are about one request.")


def _echo_table(routing: Routing, all_: bool) -> None:
    everyone = routing.recipients
    recommended = routing.recommendation if routing.fits else ()
    shown = everyone if all_ else everyone[: max(_ROWS, len(recommended))]
    rows = (
        [
            *(["*" if recipient.contractor in recommended else ""] if routing.fits else []),
            recipient.contractor,
            f"{recipient.probability:.2f}",
            reasons(recipient),
        ]
        for recipient in shown
    )
    titles = ["API", "probability", "why"]
    echo_table(["", *titles] if routing.fits else titles, rows, numbers=["probability"])
    if more := len(everyone) - len(shown):
        most = everyone[len(shown)].probability
        rest = counted(more, "more recipient")
        least = f"{most:.2f} or less" if most >= 0.005 else "0.00"
        echo(f"... and {rest} of probability {least} (--all shows them)")
    marked = "Marked *: recommended. " if routing.fits else ""
    echo(f"{marked}Probability: from 0 to 1, that the request needs the API.", "")


def _chosen_how(router: Router, routing: Routing, rule: SelectionRule) -> str:
    if routing.source != "learned":
        return "as the fallback says"
    if not routing.fits:
        return "those that come nearest"
    target = getattr(rule, "target", None)
    if target is None:
        return "as many as asked for"
    sure = "enough" if router.promises_recall else "aiming"
    return f"{sure} to reach {target:.0%} of the needed APIs on average"


def _facts(router: Router, routing: Routing, rule: SelectionRule) -> Iterator[tuple[str, str]]:
    label = "Recommended" if routing.fits else "Nearest"
    yield label, ", ".join(routing.recommendation)
    if routing.known:
        yield "In use already", ", ".join(routing.known)
    asked, reach = routing.n_recipients, routing.n_reachable
    if not routing.fits and routing.source == "learned":
        yield "Recipients", "none: nothing fits"
        yield "Verdict", routing.verdict
        return
    how = _chosen_how(router, routing, rule)
    allowed, of = ("allowed ", f" (of {routing.n_apis})") if routing.is_restricted else ("", "")
    yield "Recipients", f"{asked} of {counted(reach, f'{allowed}contractor')}{of}, {how}"
    yield "Verdict", routing.verdict
    if routing.fits and not routing.is_confident and routing.source == "learned":
        yield "What helps", _SURER
    saved = reach - asked
    yield "Messages saved", f"{saved} of the {reach} of a broadcast ({saved / reach:.0%})"
