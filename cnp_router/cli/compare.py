"""``cnp-router compare``: the protocols side by side, routed and broadcast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli.llm_options import chat_model, llm_options
from cnp_router.cli.online import fitted_router
from cnp_router.cli.options import (
    PLACE,
    Command,
    as_json,
    fitted_model,
    held_out,
    selection,
    target_recall,
    threshold_option,
)
from cnp_router.cli.output import echo_json, note, terminal_width, wrapped
from cnp_router.cli.progress import Progress
from cnp_router.cli.rounds import ORGANISATIONS, PROTOCOLS, round_options, round_settings
from cnp_router.exceptions import BudgetExceededError, ProtocolError, RoundFailedError

if TYPE_CHECKING:
    from cnp_router.evaluation import Comparison

__all__ = ["compare"]


@click.command(
    cls=Command,
    examples=["cnp-router compare --model model --history held-out.jsonl --limit 3"],
)
@fitted_model
@held_out
@click.option(
    "--protocol",
    "protocols",
    type=click.Choice(PROTOCOLS),
    multiple=True,
    metavar="NAME",
    help=f"{', '.join(PROTOCOLS)}. Can be given more than once.  [default: all]",
)
@click.option(
    "--announce",
    "announcements",
    type=click.Choice(["broadcast", "routed"]),
    multiple=True,
    help="Can be given more than once.  [default: both]",
)
@click.option(
    "--organise",
    "organisations",
    type=click.Choice(ORGANISATIONS),
    multiple=True,
    help="Which APIs a contractor holds. Can be given more than once.  [default: api]",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Ask the first N requests only."
)
@click.option(
    "--resume",
    type=PLACE,
    metavar="FILE",
    help="Keep each finished request there, and go on with those that are.",
)
@click.option(
    "--retry-failed", is_flag=True, help="Ask again where the round in the file of --resume failed."
)
@click.option(
    "--report", type=PLACE, metavar="DIR", help="Write JSON, Markdown and pictures there too."
)
@target_recall
@threshold_option
@click.option(
    "--fallback",
    type=click.Choice(["none", "llm", "broadcast"]),
    default="llm",
    show_default=True,
    help="What to do below the threshold: keep what was learned, widen to the categories that the "
    "language model names, or ask everyone.",
)
@round_options
@llm_options
@click.option(
    "--cache", type=PLACE, metavar="DIR", help="Keep the server's answers there, and reuse them."
)
@click.option(
    "--concurrent",
    type=click.IntRange(min=1),
    metavar="N",
    help="Requests at a time.  [default: 4 with a server, else 1]",
)
@as_json
def compare(
    *, model: Path, histories: tuple[Path, ...], report: Path | None, json_: bool, **how: Any
) -> None:
    """Compare the protocols, routed and broadcast.

    Holds a round for each request by each of them. Prints tokens, precision, recall and F1 at each
    stage, and the size of the final set, as means over the requests, and how many times as much a
    broadcast costs. A round that fails because of its request is counted and left out of the means;
    five in a row end the comparison, and it is an error if all of a protocol fail. Mashups that
    name an API the model does not know are left out and counted as skipped.
    """
    from cnp_router.evaluation.report import check_report, warnings_of, write_report

    if how["retry_failed"] and how["resume"] is None:
        raise click.UsageError("--retry-failed needs --resume.")
    if report is not None:
        check_report(report)
    failure = None
    try:
        comparison = _compared(model, histories, **how)
    except RoundFailedError as exc:
        if exc.comparison is None:
            raise
        failure, comparison = exc, exc.comparison
    echo_json(comparison.to_dict()) if json_ else _echo(comparison)
    for warning in warnings_of(comparison):
        note(f"Warning: {warning}")
    if report is not None:
        write_report(comparison, report)
    if failure is not None:
        raise failure


def _compared(
    model: Path,
    histories: tuple[Path, ...],
    *,
    protocols: tuple[Any, ...],
    announcements: tuple[Any, ...],
    organisations: tuple[Any, ...],
    limit: int | None,
    resume: Path | None,
    retry_failed: bool,
    target_recall: float | None,
    max_size: int | None,
    llm: str,
    llm_model: str | None,
    base_url: str | None,
    cache: Path | None,
    concurrent: int | None,
    **settings: Any,
) -> Comparison:
    from cnp_router.evaluation import compare as compared
    from cnp_router.history import History

    router = fitted_router(model)
    with Progress("Comparing") as progress, _how_to_go_on(resume):
        return compared(
            router.catalog,
            chat_model(llm, llm_model, base_url, router.catalog, cache=cache),
            History.read(histories),
            router=router,
            protocols=protocols or PROTOCOLS,
            announcements=announcements or ("broadcast", "routed"),
            organisations=organisations or ("api",),
            max_size=max_size,
            settings=round_settings(select=selection(target_recall, None), **settings),
            limit=limit,
            resume=resume,
            retry_failed=retry_failed,
            concurrent_requests=concurrent or (1 if llm == "offline" else 4),
            progress=progress,
        )


@contextmanager
def _how_to_go_on(resume: Path | None) -> Iterator[None]:
    """Say how, where a comparison is broken off."""
    try:
        yield
    except (KeyboardInterrupt, ProtocolError) as exc:
        if isinstance(exc, RoundFailedError) and exc.comparison is not None:
            if resume is not None:
                note(f"With --resume {resume} --retry-failed, the same command asks again.")
            raise
        if resume is None:
            note("Nothing is kept: with --resume FILE, a comparison can be gone on with.")
        elif isinstance(exc, BudgetExceededError):
            note(
                f"What is finished is in {resume}: with a larger budget, the same command goes on."
            )
        else:
            note(f"What is finished is in {resume}: the same command goes on from there.")
        if isinstance(exc, RoundFailedError):
            retry = "" if resume is None else "; --retry-failed asks again where a round failed"
            note(f"--protocol and --announce leave out a method{retry}.")
        raise


def _echo(comparison: Comparison) -> None:
    from cnp_router.evaluation.report import about, comparison_tables, trouble_table

    for sentence in about(comparison):
        for line in wrapped(sentence, terminal_width()):
            click.echo(line)
    for organisation, tables in comparison_tables(comparison).items():
        contractors = comparison.contractors[organisation]
        click.echo(f"\nContractors by {organisation}: {contractors:,}")
        for table in tables:
            click.echo(f"\n{table.text()}")
    if trouble := trouble_table(comparison):
        click.echo(f"\n{trouble.text()}")
