"""``cnp-router recommend``: which APIs a request needs, and whom to announce it to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cnp_router.cli.cache import sample_router
from cnp_router.cli.llm_options import chat_model, llm_options
from cnp_router.cli.online import fitted_router
from cnp_router.cli.options import (
    PLACE,
    Command,
    as_json,
    selection,
    target_recall,
    threshold_option,
)
from cnp_router.cli.output import Column, echo_json, echo_pairs, echo_table
from cnp_router.cli.rounds import ROUND_ONLY, held, round_choice, round_options, tell
from cnp_router.exceptions import DataFileError

if TYPE_CHECKING:
    from cnp_router.routing import Recipient, Routing, SelectionRule
    from cnp_router.training import LearnedRouter

__all__ = ["recommend"]

_ROWS = 10
_LLM = ("llm", "llm_model", "base_url")
_CONTRACTORS = ("organise", "max_size", "deadline", "bid_timeout", "iterate")
_RECIPIENTS = ("top_k", "target_recall", "threshold", "fallback")


@click.command(
    cls=Command,
    examples=[
        'cnp-router recommend "Send me a text message when it rains."',
        'cnp-router recommend --model model --known google-maps "Photos on a map"',
        'cnp-router recommend --protocol contractor-led "Text me when it rains."',
    ],
)
@click.argument("text")
@click.option(
    "--model", type=PLACE, metavar="DIR", help="Folder of a model.  [default: the bundled sample]"
)
@click.option(
    "--known", multiple=True, metavar="ID", help="API in use already. Can be given more than once."
)
@target_recall
@click.option("--top-k", type=click.IntRange(min=1), metavar="N", help="Ask the first N instead.")
@threshold_option
@click.option(
    "--fallback",
    type=click.Choice(["none", "llm", "broadcast"]),
    help="What to do below the threshold: keep what was learned, widen to the categories that the "
    "language model names, or ask everyone.  [default: none; with a protocol, llm]",
)
@round_choice
@round_options
@llm_options
@click.option("--all", "all_", is_flag=True, help=f"Show all recipients, not only {_ROWS}.")
@as_json
def recommend(
    *, text: str, model: Path | None, known: tuple[str, ...], all_: bool, json_: bool, **how: Any
) -> None:
    """Say which APIs the request TEXT needs, and whom to ask.

    TEXT is a requirement in plain language, or - to read it from standard input. Without --model,
    the router is learned from the bundled sample, once, and kept in your cache folder.

    With a --protocol other than learned, a round of the Contract Net is held: a manager announces,
    contractors bid, the manager awards. The offline model that answers by default costs nothing;
    its traffic is that of the real prompts, its choices are no measure of a language model.
    """
    _refuse_what_would_be_ignored(how["protocol"], how["announce"], how["fallback"])
    rule = selection(how.pop("target_recall"), how.pop("top_k"))
    request = _request(text)
    router = _router(model)
    if how["protocol"] != "learned":
        tell(held(router, request, select=rule, **how), how["transcript"], json_=json_)
        return
    for api in known:
        router.catalog.position(api)
    routing = router.route(
        request, known, select=rule, threshold=how["threshold"], fallback=_fallback(router, how)
    )
    if json_:
        echo_json(routing.to_dict())
    else:
        _echo(routing, rule, None if all_ else _ROWS)


def _refuse_what_would_be_ignored(protocol: str, announce: str, fallback: str | None) -> None:
    """Refuse options that mean nothing beside the others, rather than ignore them."""
    rules: list[tuple[tuple[str, ...], str]] = []
    if protocol == "learned":
        rules.append((ROUND_ONLY, "needs a --protocol other than learned."))
        if fallback != "llm":
            rules.append((_LLM, "needs a --protocol other than learned."))
    else:
        rules.append((("known", "all_"), "goes with --protocol learned."))
    if protocol == "single-agent":
        rules.append((_CONTRACTORS, "means nothing to a single agent."))
    if announce == "broadcast" and protocol != "auto":
        rules.append((_RECIPIENTS, "goes with --announce routed."))
    source = click.get_current_context().get_parameter_source
    for names, why in rules:
        for name in names:
            if source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name.strip('_').replace('_', '-')} {why}")


def _fallback(router: LearnedRouter, how: dict[str, Any]) -> Any:
    if how["fallback"] != "llm":
        return how["fallback"] or "none"
    from cnp_router.agents import CategoryFallback

    model = chat_model(how["llm"], how["llm_model"], how["base_url"], router.catalog)
    return CategoryFallback(model, router.catalog)


def _request(text: str) -> str:
    if text == "-":
        if sys.stdin is None:
            raise DataFileError("standard input", "is closed", cure="give the request itself")
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise DataFileError("standard input", "not UTF-8", cure="send it as UTF-8") from exc
    if not text.strip():
        raise click.UsageError("The request is empty. Say what is needed.")
    return text.strip()


def _router(model: Path | None) -> LearnedRouter:
    if model is None:
        return sample_router()
    return fitted_router(model)


def _echo(routing: Routing, rule: SelectionRule, rows: int | None) -> None:
    shown = routing.recipients[:rows]
    recommended = set(routing.recommendation)
    columns = [Column(""), Column("API"), Column("prob.", right=True), Column("why", text=True)]
    echo_table(columns, (_row(recipient, recommended) for recipient in shown))
    more = len(routing.recipients) - len(shown)
    if more:
        click.echo(f"... and {more} more (--all shows them)")
    click.echo()
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
    yield "Confidence", f"{routing.confidence:.2f}, {_verdict(routing)}"
    saved = everyone - asked
    yield "Messages saved", f"{saved} of the {everyone} of a broadcast ({saved / everyone:.0%})"


def _verdict(routing: Routing) -> str:
    if routing.is_confident:
        return f"at or above the threshold of {routing.threshold:.2f}"
    below = f"below the threshold of {routing.threshold:.2f}"
    if routing.source == "learned":
        return f"{below}: kept as learned, as no fallback is allowed (--fallback broadcast)"
    if routing.source == "llm":
        return f"{below}: widened to the categories that the language model named"
    return f"{below}: the fallback was a {routing.source}"
