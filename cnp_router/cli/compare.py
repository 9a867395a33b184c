"""``cnp-router compare``: the protocols side by side, routed and broadcast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli.online import fitted_router
from cnp_router.cli.options import (
    ORGANISATIONS,
    PROTOCOL,
    Chat,
    Command,
    as_json,
    chat_options,
    count,
    file,
    fitted_model,
    folder,
    held_out,
    max_size,
    round_options,
)
from cnp_router.cli.output import Column, echo, echo_json, echo_table, note
from cnp_router.cli.progress import Progress
from cnp_router.exceptions import BudgetExceededError, ProtocolError, RoundFailedError

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.evaluation import Comparison
    from cnp_router.evaluation.comparison_tables import ComparisonTable
    from cnp_router.llm import ChatModel
    from cnp_router.protocols import RoundSettings

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
    type=PROTOCOL,
    multiple=True,
    metavar="NAME",
    help="To compare. Can be given more than once.  [default: all]",
)
@click.option(
    "--announce",
    "announcements",
    type=click.Choice(["broadcast", "routed"]),
    multiple=True,
    help="Whom to announce to. Can be given more than once.  [default: both]",
)
@click.option(
    "--organise",
    "organisations",
    type=click.Choice(ORGANISATIONS),
    multiple=True,
    help="Which APIs a contractor holds. Can be given more than once.  [default: api]",
)
@count("--limit", help="Ask the first N requests only.")
@file("--resume", help="Keep each finished request there, and continue with the others.")
@click.option(
    "--retry-failed", is_flag=True, help="Ask again where the round in the file of --resume failed."
)
@folder("--report", help="Write JSON, Markdown and pictures there too.")
@round_options
@max_size
@chat_options("Who answers for the agents", "offline")
@folder("--cache", help="Keep the server's answers there, and reuse them.")
@count("--concurrent", help="Requests at a time.  [default: 4 with a server, else 1]")
@as_json
def compare(
    *,
    model: Path,
    histories: tuple[Path, ...],
    protocols: tuple[str, ...],
    announcements: tuple[Any, ...],
    organisations: tuple[Any, ...],
    limit: int | None,
    resume: Path | None,
    retry_failed: bool,
    report: Path | None,
    settings: RoundSettings,
    max_size: int | None,
    chat: Chat,
    cache: Path | None,
    concurrent: int | None,
    json_: bool,
) -> None:
    """Compare the protocols, routed and broadcast.

    Holds a round for each request by each of them. Prints tokens, precision, recall and F1 after
    each step, and the size of the final set, as means over the requests, and how many times as
    much a broadcast costs. A round that fails because of its request is counted and left out of the
    means; five in a row end the comparison. Mashups that name an API the model does not know are
    left out and counted as skipped.
    """
    from cnp_router.evaluation import compare as compared
    from cnp_router.evaluation.comparison_report import check_report, write_report
    from cnp_router.evaluation.comparison_trouble import warnings_of
    from cnp_router.history import History
    from cnp_router.protocols import PROTOCOLS

    if retry_failed and resume is None:
        raise click.UsageError("--retry-failed needs --resume.")
    if report is not None:
        check_report(report)
    router = fitted_router(model)
    asked = _model(chat, router.catalog, cache)
    with Progress("Comparing") as progress, _how_to_continue(resume):
        comparison = compared(
            router.catalog,
            asked,
            History.read(histories),
            router=router,
            protocols=protocols or tuple(PROTOCOLS),
            announcements=announcements or ("broadcast", "routed"),
            organisations=organisations or ("api",),
            max_size=max_size,
            settings=settings,
            limit=limit,
            resume=resume,
            retry_failed=retry_failed,
            concurrent_requests=concurrent or (4 if chat.is_server else 1),
            progress=progress,
        )
    echo_json(comparison.to_dict()) if json_ else _echo(comparison)
    for warning in warnings_of(comparison):
        note(warning, "Warning")
    if report is not None:
        write_report(comparison, report)


def _model(chat: Chat, catalog: Catalog, cache: Path | None) -> ChatModel:
    from cnp_router.agents import offline_model
    from cnp_router.llm import CachedChatModel

    model = chat.model(lambda: offline_model(catalog))
    return CachedChatModel(model, cache) if cache and chat.is_server else model


@contextmanager
def _how_to_continue(resume: Path | None) -> Iterator[None]:
    """Say how, where a comparison is broken off."""
    try:
        yield
    except (KeyboardInterrupt, ProtocolError) as exc:
        if resume is None:
            note("Nothing is kept: use --resume FILE to be able to continue later.")
        elif isinstance(exc, BudgetExceededError):
            note(
                f"What is finished is in {resume}: continue with the same command and a larger "
                "budget."
            )
        else:
            note(f"What is finished is in {resume}: continue with the same command.")
        if isinstance(exc, RoundFailedError):
            retry = "" if resume is None else ", and --retry-failed to repeat failed rounds"
            note(f"Use --protocol and --announce to leave out a method{retry}.")
        raise


def _echo(comparison: Comparison) -> None:
    from cnp_router.evaluation.comparison_tables import (
        answered_by,
        averaged_over,
        comparison_tables,
    )
    from cnp_router.evaluation.comparison_trouble import TROUBLE_TITLE, trouble_rows

    echo(averaged_over(comparison))
    echo(answered_by(comparison))
    organise = None
    for table in comparison_tables(comparison):
        if table.organise != organise:
            organise = table.organise
            _title(f"Contractors by {organise}: {comparison.contractors[organise]:,}")
        _title(table.title)
        echo()
        echo_table([*map(Column, table.key), *_grouped(table)], table.rows)
        for sentence in table.notes:
            _title(sentence)
    if trouble := trouble_rows(comparison):
        _title(TROUBLE_TITLE)
        echo()
        method, *others = trouble[0]
        echo_table([Column(method), *(Column(name, right=True) for name in others)], trouble[1:])


def _title(text: str) -> None:
    echo()
    echo(text)


def _grouped(table: ComparisonTable) -> Iterator[Column]:
    """Yield the columns of a table, the title of each group above its first column."""
    for group, titles in table.groups:
        for place, title in enumerate(titles):
            yield Column(f"{'' if place else group}\n{title}", right=True)
