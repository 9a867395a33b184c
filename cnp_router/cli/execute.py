"""``cnp-router execute``: have a request or a plan done by the tools that it is awarded to."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from cnp_router.cli import llm_options, options
from cnp_router.cli.execution_run import ExecutionRun, How
from cnp_router.cli.output import console, echo, echo_json, note
from cnp_router.cli.source_options import Origins, source_options
from cnp_router.exceptions import CnpRouterError

if TYPE_CHECKING:
    from cnp_router.execution import Plan

_WITH_REVISE = ("text", "revise", "dry_run", "json_")


def _given(text: str | None, plan: Path | None) -> str | Plan:
    """Return what is to be done: a request, or a plan."""
    if plan is None:
        if text is None:
            raise click.UsageError("Give a request, or --plan.")
        return options.request_text(text)
    from cnp_router.execution import Plan

    read = Plan.read(plan, request=text)
    if text is not None and text != read.request:
        raise click.UsageError("The plan has a request of its own; give no other one.")
    return read


def _revise(file: Path, text: str | None, *, dry_run: bool, json_: bool) -> None:
    """Change a finished proposal, and write it back unless it is only to be shown."""
    from cnp_router.planning.proposals import read_proposal

    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if source is ParameterSource.COMMANDLINE and name not in _WITH_REVISE:
            raise click.UsageError(
                f"{option.opts[0]} does not go with --revise: only TEXT, --dry-run and --json do."
            )
    if text is None:
        raise click.UsageError("Say what is to be changed: cnp-router execute --revise FILE TEXT.")
    proposal = read_proposal(file).revise(options.request_text(text))
    if not dry_run:
        proposal.write(file)
    if json_:
        echo_json(proposal.report())
    else:
        echo(*proposal.draw(console(sys.stdout).width).split("\n"))


@options.command(
    'cnp-router execute "The current time in Asia/Tokyo" --sources mcp.json',
    "cnp-router execute --plan plan.json --sources mcp.json --dry-run",
    "cnp-router execute --plan plan.json --sources mcp.json --allow-write",
    'cnp-router execute "The time in Asia/Tokyo" --method plan --sources mcp.json',
    'cnp-router execute --revise timetable.json "no Friday"',
    sections={
        "files": "Tools",
        "plan": "What is done",
        "method": "Who does it",
        "profile": "Plans and agents (--method plan or react)",
        "context": "What is kept and learned",
        "llm": "Language models",
        "revise": "A finished proposal",
        "json_": "Others",
    },
)
@click.argument("text", required=False)
@source_options
@options.gathered(
    "how",
    How,
    options.file("--plan", help="A plan of jobs, as JSON, instead of a request."),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Only show the jobs, or what --revise would change.",
    ),
    click.option(
        "--allow-write",
        is_flag=True,
        help="Call what writes or may write without asking. Without it, you are asked at a "
        "terminal, and nothing of it is called elsewhere.",
    ),
    options.file(
        "--resume", help="Keep the state there after each job, and continue from it if it exists."
    ),
    options.seconds(
        "--timeout", default=300.0, show_default=True, help="How long all of it may take."
    ),
    options.seconds(
        "--call-timeout", default=30.0, show_default=True, help="How long one call may take."
    ),
    options.choice(
        "--method",
        of=["rounds", "plan", "react"],
        default="rounds",
        help="Awards by rounds; or a plan by a planner, whose jobs executors do and which is "
        "revised where they fail; or one agent that chooses call after call.",
    ),
    click.option(
        "--protocol",
        type=options.PROTOCOL,
        metavar="NAME",
        help="Who awards, with --method rounds.  [default: learned; with --llm contractor-led]",
    ),
    options.choice(
        "--announce",
        of=["routed", "broadcast"],
        default="routed",
        help="To the recipients the router chooses, or to all that the protocol reaches.",
    ),
    click.option(
        "--fallback",
        metavar="API",
        help="The tool that gets a job that nobody else could do.  [default: none]",
    ),
    options.request_date,
    options.file("--profile", help="A text on the user, for who plans; executors are not told."),
    click.option(
        "--proven",
        is_flag=True,
        help="Run a plan of the model that has worked for nearly the same request. Without it, "
        "you are asked at a terminal.",
    ),
    click.option(
        "--session",
        metavar="NAME",
        help="Who plans is told what this session asked for in the last 30 minutes.",
    ),
    click.option(
        "--thread", metavar="NAME", help="And what this thread asked for in the last 7 days."
    ),
    click.option(
        "--context",
        metavar="FILE|URL",
        help="Share what calls gave for five minutes with other executions: in that file, or on "
        "a server, redis://host:port/0.",
    ),
    click.option(
        "--user",
        metavar="NAME",
        help="Whose it is, so that it can be forgotten. Nothing of one user reaches another; who "
        "plans is told what this user asked for in the last 90 days.",
    ),
    click.option("--no-learn", is_flag=True, help="Do not let the model learn from it."),
    options.html,
)
@options.folder(
    "--model",
    help="Folder of a model, which learns from what happens.  [default: the specifications of "
    "the tools]",
)
@llm_options.encoder_options
@llm_options.chat_options(
    "Who answers for the agents and fills inputs",
    "offline",
    ("manager", "contractor", "planner", "executor"),
)
@options.file(
    "--revise",
    metavar="FILE",
    help="Change the finished proposal of that file, such as a timetable, as TEXT says; the rest "
    "of it stays.",
)
@options.as_json
def execute(
    *,
    text: str | None,
    origins: Origins,
    model: Path | None,
    vectors: llm_options.Vectors,
    how: How,
    chat: llm_options.Chat,
    revise: Path | None,
    json_: bool,
) -> None:
    """Award the request TEXT, or the jobs of a plan, and have them done.

    TEXT is a requirement in plain language, or - to read it from standard input. Each awarded tool
    is called with inputs that the plan gives or that are filled from the request; what fails goes
    to the next one. Only tools that read are called without asking. Of the options, one that says
    where the tools are is enough.
    """
    if revise is not None:
        _revise(revise, text, dry_run=how.dry_run, json_=json_)
        return
    if not origins:
        raise click.UsageError("Give --sources, --openapi or --a2a.")
    wanted = _given(text, how.plan)
    how.check(chat)
    if model is None and (how.session or how.thread or how.proven):
        raise click.UsageError("--session, --thread and --proven need --model.")
    run = ExecutionRun(wanted, origins, model, vectors, how, chat)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # tools may print
            asyncio.run(run.main())
    except (KeyboardInterrupt, CnpRouterError) as exc:
        if run.execution is not None and run.execution.jobs:
            note(
                "Interrupted. Until then:" if isinstance(exc, KeyboardInterrupt) else "Until then:"
            )
            run.report(json_)
            run.learn_if_possible()
            run.write_page(json_)
        raise
    if run.planned is not None:
        run.report_plan(json_)
        run.write_page(json_)
        return
    run.report(json_)
    run.learn_if_possible()
    run.write_page(json_)
    run.check()
