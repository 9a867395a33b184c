"""``cnp-router compare``: the protocols side by side, routed and broadcast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.html_page import write_page
from cnp_router.cli.models import fitted_router
from cnp_router.cli.output import echo, echo_json, echo_table, note
from cnp_router.cli.progress import Progress
from cnp_router.exceptions import BudgetExceededError, ProtocolError, RoundFailedError

if TYPE_CHECKING:
    from cnp_router.evaluation import Comparison, Table
    from cnp_router.protocols import RoundSettings


@options.command(
    "cnp-router compare --model model --history held-out.jsonl --limit 3",
    sections={
        "model": "The router and the requests",
        "protocols": "What is compared",
        "limit": "How it runs",
        "target_recall": "How many are asked",
        "threshold": "Where the router is not sure",
        "budget_tokens": "Limits of a round",
        "iterate": "Further steps of a round",
        "llm": "Language models",
        "cache": "What is shown and kept",
    },
)
@options.fitted_model
@llm_options.encoder_options
@options.held_out
@options.several(
    "--protocol",
    "protocols",
    type=options.PROTOCOL,
    metavar="NAME",
    help="A protocol to compare.",
    default="all",
)
@options.several(
    "--announce",
    "announcements",
    type=click.Choice(["broadcast", "routed"]),
    help="Whom to announce to: everyone the protocol reaches, or the router's recipients.",
    default="both",
)
@options.several(
    "--organise",
    "organisations",
    type=click.Choice(options.ORGANISATIONS),
    help=options.HOLDS,
    default="api",
)
@options.max_size
@options.undated
@options.count(
    "--limit", help="Ask the first N requests only: to try it before it costs much.  [default: all]"
)
@options.file("--resume", help="Keep each finished request there, and continue with the others.")
@click.option(
    "--retry-failed", is_flag=True, help="Ask again where the round in the file of --resume failed."
)
@options.count(
    "--concurrent",
    "concurrent_requests",
    help="Requests at a time.  [default: 4 with a server, else 1]",
)
@options.scheduler
@options.folder("--report", help="Write JSON, Markdown and pictures there too.")
@options.round_options
@llm_options.chat_options("Who answers for the agents", "offline", ("manager", "contractor"))
@options.folder("--cache", help="Keep the server's answers there, and reuse them.")
@options.html
@options.as_json
def compare(
    *,
    model: Path,
    vectors: llm_options.Vectors,
    histories: tuple[Path, ...],
    report: Path | None,
    settings: RoundSettings,
    chat: llm_options.Chat,
    cache: Path | None,
    html: Path | None,
    json_: bool,
    undated: bool,
    **how: Any,
) -> None:
    """Compare the protocols, routed and broadcast.

    Holds a round for each request by each of them. Prints tokens, precision, recall and F1 at each
    stage, and the size of the final set, as means over the requests, and how many times as much a
    broadcast costs. A round that fails because of its request is counted and left out of the means;
    five in a row end the comparison, and it is an error if all of a protocol fail. Mashups that
    name an API the model does not know are left out and counted as skipped. Without --protocol,
    manager-led rounds are left out where no API of the catalog has a category.
    """
    from cnp_router.evaluation import compare as compared
    from cnp_router.evaluation.report import check_report, warnings_of, write_report
    from cnp_router.history import History

    if how["retry_failed"] and how["resume"] is None:
        raise click.UsageError("--retry-failed needs --resume.")
    if report is not None:
        check_report(report)
    router, failure, finished = fitted_router(model, vectors), None, [0, 0]
    how = {"concurrent_requests": 4 if chat.asks_server() else 1} | options.given(**how)
    if "protocols" not in how and not router.catalog.categories:
        how["protocols"] = _without_categories()
    asked = chat.model(router.catalog, cache=cache)
    try:
        with Progress("Comparing") as progress:

            def counted(method: str, done: int, total: int) -> None:
                finished[:] = done, total
                progress(method, done, total)

            how |= {"router": router, "settings": settings, "progress": counted}
            how["dated"] = not undated
            comparison = compared(router.catalog, asked, History.read(histories), **how)
    except (KeyboardInterrupt, ProtocolError) as exc:
        _note_how_to_continue(exc, how.get("resume"), finished[0], finished[1], cache)
        if not isinstance(exc, RoundFailedError) or exc.comparison is None:
            raise
        failure, comparison = exc, exc.comparison
    comparison = replace(comparison, prices=chat.prices)
    echo_json(comparison.to_dict()) if json_ else _echo(comparison)
    for warning in warnings_of(comparison):
        note(warning, "Warning")
    if report is not None:
        write_report(comparison, report)
    problem = "" if failure is None else str(failure)
    write_page(comparison, html, aside=json_, problem=problem)
    if failure is not None:
        raise failure


def _without_categories() -> list[str]:
    """Return the protocols of a catalog that has none, and say which are left out."""
    from cnp_router.protocols import PROTOCOLS

    left_out = [name for name, protocol in PROTOCOLS.items() if protocol.needs_categories]
    note(f"Left out, since no API of the catalog has a category: {', '.join(left_out)}.")
    return [name for name in PROTOCOLS if name not in left_out]


def _note_how_to_continue(
    broken_off_by: BaseException, resume: Path | None, done: int, total: int, cache: Path | None
) -> None:
    failed = isinstance(broken_off_by, RoundFailedError)
    note(f"{done:,} of {total:,} rounds are finished." if total else "No new round is finished.")
    if resume is None:
        note("Nothing is kept: use --resume FILE to be able to continue later.")
    else:
        more = " and a larger budget" if isinstance(broken_off_by, BudgetExceededError) else ""
        more += " and --retry-failed, to repeat failed rounds" if failed else ""
        note(f"What is finished is in {resume}: continue with the same command{more}.")
        if done < total and cache is None:
            note("Rounds that were begun are asked again in full: --cache DIR keeps their answers.")
    if failed:
        note("Use --protocol and --announce to leave out a method.")


def _echo(comparison: Comparison) -> None:
    from cnp_router.evaluation.report import about, comparison_tables, trouble_table

    for sentence in about(comparison):
        echo(sentence)
    for organisation, tables in comparison_tables(comparison).items():
        echo("", f"Contractors by {organisation}: {comparison.contractors[organisation]:,}")
        for table in tables:
            _echo_table(table)
    if trouble := trouble_table(comparison):
        _echo_table(trouble)


def _echo_table(table: Table) -> None:
    echo("", table.title, "")
    echo_table(table.columns, table.rows, numbers=table.columns[table.labels :])
    for sentence in table.notes:
        echo("", sentence)
