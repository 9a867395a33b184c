"""``cnp-router negotiate``: a round of the Contract Net for one request."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.billing import model_facts, price, price_facts, with_price
from cnp_router.cli.html_page import write_page
from cnp_router.cli.models import fitted_router
from cnp_router.cli.output import echo, echo_json, echo_pairs, echo_table, note
from cnp_router.exceptions import BudgetExceededError, RoundFailedError
from cnp_router.files import check_writable

if TYPE_CHECKING:
    from cnp_router.protocols import Outcome, RoundSettings


@options.command(
    'cnp-router negotiate "Send me a text message when it rains."',
    'cnp-router negotiate --protocol auto --json "Text me when it rains."',
    sections={
        "model": "Who decides",
        "protocol": "The round",
        "target_recall": "How many are asked",
        "threshold": "Where the router is not sure",
        "budget_tokens": "Limits",
        "iterate": "Further steps",
        "llm": "Language models",
        "transcript": "What is shown and kept",
    },
)
@options.request_argument
@options.router_model
@llm_options.encoder_options
@click.option(
    "--protocol",
    type=options.PROTOCOL,
    default="contractor-led",
    show_default=True,
    metavar="NAME",
    help="Who takes which of the steps from the request to the APIs: see below.",
)
@options.choice(
    "--announce",
    of=["routed", "broadcast"],
    default="routed",
    help="To the recipients the router chooses, or to all that the protocol reaches.",
)
@options.choice(
    "--organise",
    "organisation",
    of=options.ORGANISATIONS,
    default="api",
    help=options.HOLDS,
)
@options.max_size
@options.request_date
@options.round_options
@llm_options.chat_options("Who answers for the agents", "offline", ("manager", "contractor"))
@options.file("--transcript", help="Write the round's messages there.")
@options.html
@options.as_json
def negotiate(
    *,
    text: str,
    model: Path | None,
    vectors: llm_options.Vectors,
    settings: RoundSettings,
    chat: llm_options.Chat,
    transcript: Path | None,
    html: Path | None,
    json_: bool,
    protocol: Any,
    announce: Any,
    date: datetime.date | None,
    **who: Any,
) -> None:
    """Hold a round of the Contract Net for the request TEXT.

    TEXT is a requirement in plain language, or - to read it from standard input. A manager
    announces it, contractors bid, the manager awards. The offline model that answers by default
    costs nothing. Its traffic is that of the real prompts; its choices do not measure a language
    model. What a protocol has no use for, such as a deadline where nobody bids, changes nothing.
    """
    from cnp_router.protocols import ContractNet

    announce = options.announced(protocol, announce)
    if transcript is not None:
        check_writable(transcript)
    router = fitted_router(model, vectors)
    asked = chat.model(router.catalog)
    net = ContractNet(router.catalog, asked, router=router, settings=settings, **who)
    try:
        outcome = net.run_sync(text, protocol=protocol, announcement=announce, date=date)
    except (BudgetExceededError, RoundFailedError) as exc:
        if exc.transcript is not None:
            paid = exc.transcript.ledger
            if paid.model_calls:
                bill = chat.bill(exc.transcript.calls)
                of = f"{paid.model_calls:,} model calls"
                of += "" if bill is None else f", price {price(bill)}"
                note(f"Paid until then: {paid.tokens:,} tokens ({of}).")
            if transcript is not None:
                exc.transcript.write(transcript)
            write_page(exc.transcript, html, aside=True, facts=(("Why", str(exc)),))
        raise
    bill = chat.bill(outcome.transcript.calls)
    if json_:
        echo_json(with_price(outcome.to_dict(), bill))
    else:
        _echo(outcome)
        echo_pairs([*_facts(outcome), *price_facts(bill, chat.prices)])
    if transcript is not None:
        outcome.transcript.write(transcript)
    write_page(outcome, html, aside=json_, facts=tuple(price_facts(bill, chat.prices)))
    if outcome.failure:
        raise RoundFailedError(outcome.failure, outcome.transcript)


def _echo(outcome: Outcome) -> None:
    grounds = outcome.grounds()
    if outcome.recommendation:
        rows = [[name, grounds.get(name, "")] for name in outcome.recommendation]
        shown = 2 if any(said for _, said in rows) else 1
        echo_table(["API", "why"][:shown], [row[:shown] for row in rows])
    else:
        echo("No API was recommended.")
    echo()


# What the acts of FIPA are in plain words: one, and several.
_ACTS = {
    "request": ("request", "requests"),
    "cfp": ("call for proposals", "calls for proposals"),
    "propose": ("proposal", "proposals"),
    "refuse": ("refusal", "refusals"),
    "accept-proposal": ("award", "awards"),
    "reject-proposal": ("rejection", "rejections"),
    "inform": ("report", "reports"),
    "failure": ("failure", "failures"),
}


def _messages(act: str, count: int) -> str:
    one, several = _ACTS.get(act, (act, act))
    return f"{count:,} {one if count == 1 else several}"


def _facts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    from cnp_router.protocols import PROTOCOLS

    ledger, routing = outcome.ledger, outcome.routing
    if outcome.choice is not None:
        yield "Why", f"{outcome.protocol}: {outcome.choice.reason}"
    protocol, how = PROTOCOLS[outcome.protocol], [outcome.protocol]
    if len(protocol.announcements) > 1:
        how.append(outcome.announcement)
    if protocol.has_contractors:
        how.append(f"contractors by {outcome.organisation}")
    yield "Protocol", ", ".join(how)
    if protocol.has_contractors:
        reached = f"{len(outcome.recipients)} of {outcome.n_contractors} contractors"
        waves = f", in {ledger.waves} waves" if ledger.waves > 1 else ""
        yield "Announced to", reached + waves
        if outcome.transcript.evidence != "none":
            yield "Evidence", f"for {outcome.transcript.evidence.replace('manager', 'the manager')}"
    if routing is not None:
        yield "Verdict", routing.verdict
    kinds = ", ".join(_messages(name, count) for name, count in ledger.messages.items())
    yield "Messages", f"{ledger.n_messages:,} ({kinds})"
    usage = ledger.usage
    source = "as the server counts" if usage.source == "server" else "estimated"
    yield "Tokens", f"{usage.tokens_in:,} in, {usage.tokens_out:,} out ({source})"
    calls = "call" if ledger.model_calls == 1 else "calls"
    yield "Model", f"{outcome.transcript.model}, {ledger.model_calls:,} {calls}"
    yield from model_facts(ledger.by_model)
    if ledger.failures:
        yield "Failed", ", ".join(f"{count:,} by {name}" for name, count in ledger.failures.items())
    if ledger.late:
        yield "Late", f"{ledger.late:,} replies, ignored"
    if ledger.hallucinated:
        yield "Hallucinated", f"{ledger.hallucinated:,} names that do not exist, dropped"
