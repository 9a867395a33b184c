"""Rounds of the Contract Net on the command line: options, and what is shown of an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from cnp_router.cli.llm_options import chat_model
from cnp_router.cli.options import PLACE, Seconds
from cnp_router.cli.output import Column, echo_json, echo_pairs, echo_table, note
from cnp_router.exceptions import BudgetExceededError, RoundFailedError
from cnp_router.files import check_writable

if TYPE_CHECKING:
    from cnp_router.protocols import Outcome, RoundSettings
    from cnp_router.routing import SelectionRule
    from cnp_router.training import LearnedRouter

__all__ = [
    "ORGANISATIONS",
    "PROTOCOLS",
    "ROUND_ONLY",
    "held",
    "round_choice",
    "round_options",
    "round_settings",
    "tell",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# Named here too, because importing the protocols takes longer than showing a help text.
PROTOCOLS = ("learned", "manager-led", "contractor-led", "collaborative", "single-agent", "auto")
ROUND_ONLY = (
    "announce",
    "organise",
    "transcript",
    "max_size",
    "budget_tokens",
    "budget_messages",
    "deadline",
    "bid_timeout",
    "iterate",
)
"""Options that mean nothing without a round."""
ORGANISATIONS = ("api", "category", "community", "size")


def round_options(command: Function) -> Function:
    """Add how a round is held: deadline, budget and so on."""
    for option in reversed(
        (
            click.option(
                "--max-size",
                type=click.IntRange(min=1),
                metavar="N",
                help="The most APIs a contractor may hold.",
            ),
            click.option(
                "--budget-tokens",
                type=click.IntRange(min=1),
                metavar="N",
                help="Begin nothing that would take a round beyond so many tokens.",
            ),
            click.option(
                "--budget-messages",
                type=click.IntRange(min=1),
                metavar="N",
                help="The same for messages.",
            ),
            click.option(
                "--deadline",
                type=Seconds(),
                metavar="SECONDS",
                help="Ignore proposals that come later than this after the announcement.",
            ),
            click.option(
                "--bid-timeout",
                type=Seconds(),
                metavar="SECONDS",
                help="How long one contractor may take.",
            ),
            click.option(
                "--iterate",
                type=click.IntRange(min=0),
                default=0,
                metavar="N",
                help="After the awards, ask at most N more, often used with what was awarded.",
            ),
        )
    ):
        command = option(command)
    return command


def round_choice(command: Function) -> Function:
    """Add which round is held: protocol, announcement, organisation, transcript."""
    for option in reversed(
        (
            click.option(
                "--protocol",
                type=click.Choice(PROTOCOLS),
                default="learned",
                show_default=True,
                metavar="NAME",
                help="Who reasons about the request: learned, manager-led, contractor-led, "
                "collaborative, single-agent or auto.",
            ),
            click.option(
                "--announce",
                type=click.Choice(["routed", "broadcast"]),
                default="routed",
                show_default=True,
                help="To the recipients the router chooses, or to all that the protocol reaches.",
            ),
            click.option(
                "--organise",
                type=click.Choice(ORGANISATIONS),
                default="api",
                show_default=True,
                help="How APIs are given to contractors.",
            ),
            click.option(
                "--transcript", type=PLACE, metavar="FILE", help="Write the round's messages there."
            ),
        )
    ):
        command = option(command)
    return command


def round_settings(
    *,
    select: SelectionRule,
    threshold: float,
    fallback: Literal["llm", "broadcast", "none"] | None,
    budget_tokens: int | None,
    budget_messages: int | None,
    deadline: float | None,
    bid_timeout: float | None,
    iterate: int,
) -> RoundSettings:
    """Return the settings that the options ask for."""
    from cnp_router.protocols import RoundSettings, TrafficBudget

    limited = budget_tokens is not None or budget_messages is not None
    return RoundSettings(
        select=select,
        threshold=threshold,
        fallback=fallback or "llm",
        deadline=deadline,
        bid_timeout=bid_timeout,
        budget=TrafficBudget(budget_tokens, budget_messages) if limited else None,
        iterate=iterate,
    )


def held(
    router: LearnedRouter,
    request: str,
    *,
    protocol: Any,
    announce: Any,
    organise: Any,
    max_size: int | None,
    transcript: Path | None,
    llm: str,
    llm_model: str | None,
    base_url: str | None,
    **settings: Any,
) -> Outcome:
    """Hold the round that the options ask for.

    Raises
    ------
    ProtocolError
        If it could not be held. What was paid is told, and the transcript written, before.
    """
    from cnp_router.protocols import ContractNet

    if organise == "size" and max_size is None:
        raise click.UsageError("--organise size needs --max-size.")
    if transcript is not None:
        check_writable(transcript)
    net = ContractNet(
        router.catalog,
        chat_model(llm, llm_model, base_url, router.catalog),
        router=router,
        organisation=organise,
        max_size=max_size,
        settings=round_settings(**settings),
    )
    try:
        return net.run_sync(request, protocol=protocol, announcement=announce)
    except (BudgetExceededError, RoundFailedError) as exc:
        if exc.transcript is not None:
            paid = exc.transcript.ledger
            if paid.model_calls:
                note(f"Paid until then: {paid.tokens:,} tokens ({paid.model_calls:,} model calls).")
            if transcript is not None:
                exc.transcript.write(transcript)
        raise


def tell(outcome: Outcome, transcript: Path | None, *, json_: bool) -> None:
    """Print an outcome, write its transcript, and end with an error if everyone failed.

    Raises
    ------
    DataFileError
        If the transcript cannot be written.
    RoundFailedError
        If there was no reply but failures.
    """
    if json_:
        echo_json(outcome.to_dict())
    else:
        echo_outcome(outcome)
    if transcript is not None:
        outcome.transcript.write(transcript)
    ledger = outcome.ledger
    if ledger.every_call_failed:
        reasons = ", ".join(f"{count} by {reason}" for reason, count in ledger.failures.items())
        raise RoundFailedError(f"every call for proposals failed: {reasons}", outcome.transcript)


def echo_outcome(outcome: Outcome) -> None:
    """Print an outcome: the recommendation with its grounds, and what it has cost."""
    grounds = _grounds(outcome)
    if outcome.recommendation:
        echo_table(
            [Column("API"), Column("grounds", text=True)],
            ([name, grounds.get(name, "")] for name in outcome.recommendation),
        )
    else:
        click.echo("No API was recommended.")
    click.echo()
    echo_pairs(_facts(outcome))


def _grounds(outcome: Outcome) -> dict[str, str]:
    from cnp_router.protocols import Proposal

    recipients = outcome.routing.recipients if outcome.routing else ()
    learned = {r.contractor: "; ".join(x.text for x in r.reasons[:2]) for r in recipients}
    return learned | {
        proposed.api: proposed.grounds
        for message in outcome.transcript.messages
        if isinstance(message, Proposal) and not message.late
        for proposed in message.apis
    }


def _facts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    ledger = outcome.ledger
    if outcome.choice is not None:
        yield "Why", f"{outcome.protocol}: {outcome.choice.reason}"
    how = "" if outcome.protocol == "learned" else f", {outcome.announcement}"
    by = f", contractors by {outcome.organisation}" if outcome.recipients else ""
    yield "Protocol", f"{outcome.protocol}{how}{by}"
    asked = len(outcome.recipients)
    if asked or outcome.protocol not in ("learned", "single-agent"):
        yield "Announced to", f"{asked} of {outcome.n_contractors} contractors"
    if outcome.routing is not None:
        routing = outcome.routing
        verdict = "at or above" if routing.is_confident else "below"
        chosen = (
            "" if routing.source == "learned" else f"; widened by the {routing.source} fallback"
        )
        yield (
            "Confidence",
            f"{routing.confidence:.2f}, {verdict} the threshold of {routing.threshold:.2f}{chosen}",
        )
    kinds = ", ".join(f"{count:,} {name}" for name, count in ledger.messages.items())
    yield "Messages", f"{ledger.n_messages:,} ({kinds})"
    usage = ledger.usage
    how = "as the server counts" if usage.source == "server" else "estimated"
    yield "Tokens", f"{usage.tokens_in:,} in, {usage.tokens_out:,} out ({how})"
    yield "Model", f"{outcome.transcript.model}, {ledger.model_calls:,} calls"
    if ledger.failures:
        yield "Failed", ", ".join(f"{count:,} by {name}" for name, count in ledger.failures.items())
    if ledger.late:
        yield "Late", f"{ledger.late:,} replies, ignored"
    if ledger.hallucinated:
        yield "Hallucinated", f"{ledger.hallucinated:,} names that do not exist, dropped"
