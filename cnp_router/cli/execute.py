"""``cnp-router execute``: have a request or a plan done by the tools that it is awarded to."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.billing import price_facts, with_price
from cnp_router.cli.execution_report import echo_execution
from cnp_router.cli.live_view import LiveView, approver
from cnp_router.cli.models import ONLINE_FILE, fitted_router
from cnp_router.cli.output import console, counted, echo, echo_json, note
from cnp_router.cli.source_options import Origins, echo_problem, source_options
from cnp_router.exceptions import CnpRouterError, ExecutionError, InputError, SourceError

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.execution import Execution, Executor, Plan
    from cnp_router.online import Observer
    from cnp_router.prediction import ParameterHints
    from cnp_router.sources import Sources
    from cnp_router.training import LearnedRouter


@dataclass(frozen=True, slots=True)
class _How:
    """What the options of the execution itself say."""

    plan: Path | None
    protocol: str | None
    announce: Any
    allow_write: bool
    dry_run: bool
    resume: Path | None
    fallback: str | None
    timeout: float
    call_timeout: float
    no_learn: bool
    user: str | None
    date: datetime.date | None


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


@options.command(
    'cnp-router execute "The current time in Asia/Tokyo" --sources mcp.json',
    "cnp-router execute --plan plan.json --sources mcp.json --dry-run",
    "cnp-router execute --plan plan.json --sources mcp.json --allow-write",
)
@click.argument("text", required=False)
@source_options
@options.folder(
    "--model",
    help="Folder of a model, which learns from what happens.  [default: the specifications of "
    "the tools]",
)
@options.encoder_options
@options.gathered(
    "how",
    _How,
    options.file("--plan", help="A plan of jobs, as JSON, instead of a request."),
    click.option(
        "--protocol",
        type=options.PROTOCOL,
        metavar="NAME",
        help="Who awards.  [default: learned; with --llm contractor-led]",
    ),
    options.choice(
        "--announce",
        of=["routed", "broadcast"],
        default="routed",
        help="To the recipients the router chooses, or to all that the protocol reaches.",
    ),
    click.option(
        "--allow-write",
        is_flag=True,
        help="Call what writes or may write without asking. Without it, you are asked at a "
        "terminal, and nothing of it is called elsewhere.",
    ),
    click.option("--dry-run", is_flag=True, help="Show the jobs; call no tool."),
    options.file(
        "--resume", help="Keep the state there after each job, and continue from it if it exists."
    ),
    click.option("--fallback", metavar="API", help="Who gets a job that nobody else could do."),
    options.seconds(
        "--timeout", default=300.0, show_default=True, help="How long all of it may take."
    ),
    options.seconds(
        "--call-timeout", default=30.0, show_default=True, help="How long one call may take."
    ),
    click.option("--no-learn", is_flag=True, help="Do not let the model learn from it."),
    click.option("--user", metavar="NAME", help="Whose it is, so that it can be forgotten."),
    options.request_date,
)
@options.chat_options(
    "Who answers for the agents and fills inputs",
    "offline",
    ("manager", "contractor", "executor"),
)
@options.as_json
def execute(
    *,
    text: str | None,
    origins: Origins,
    model: Path | None,
    vectors: options.Vectors,
    how: _How,
    chat: options.Chat,
    json_: bool,
) -> None:
    """Award the request TEXT, or the jobs of a plan, and have them done.

    TEXT is a requirement in plain language, or - to read it from standard input. Each awarded tool
    is called with inputs that the plan gives or that are filled from the request; what fails goes
    to the next one. Only tools that read are called without asking.
    """
    if not origins:
        raise click.UsageError("Give --sources, --openapi or --a2a.")
    wanted = _given(text, how.plan)
    run = _Run(wanted, origins, model, vectors, how, chat)
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
        raise
    if run.planned is not None:
        drawn = run.planned.draw(console(sys.stdout).width)
        echo_json(run.planned.to_dict()) if json_ else echo(*drawn.split("\n"))
        return
    run.report(json_)
    run.learn_if_possible()
    run.check()


class _Run:
    """One execution of the command."""

    def __init__(
        self,
        wanted: str | Plan,
        origins: Origins,
        model: Path | None,
        vectors: options.Vectors,
        how: _How,
        chat: options.Chat,
    ) -> None:
        self.wanted, self.origins, self.model, self.how = wanted, origins, model, how
        self.vectors, self.chat = vectors, chat
        self.execution: Execution | None = None
        self.planned: Plan | None = None
        self.fitted: LearnedRouter | None = None  # of the model
        self.protocol = how.protocol or (
            "contractor-led" if chat.asks_server("manager", "contractor") else "learned"
        )

    async def main(self) -> None:
        """Open the sources and do it; close them whatever happens."""
        async with self.origins.opened() as sources:
            with LiveView() as view:
                executor = await self._executor(sources, view)
                async with executor.net.model:
                    await self._do(executor)

    async def _do(self, executor: Executor) -> None:
        args = {"protocol": self.protocol, "announcement": self.how.announce}
        if self.how.dry_run:
            self.planned = await executor.plan(self.wanted, date=self.how.date, **args)
            return
        try:
            await executor.execute(
                self.wanted,
                date=self.how.date,
                user=self.how.user,
                journal=self.how.resume,
                **args,
            )
        finally:
            self.execution = executor.last

    async def _executor(self, sources: Sources, view: LiveView) -> Executor:
        from cnp_router.execution import ExecutionSettings, Executor, Filler
        from cnp_router.protocols import ContractNet

        router = await self._router(sources)
        hints, rate = self._learned()
        asked = self.chat.model(router.catalog)
        return Executor(
            ContractNet(router.catalog, asked, router=router),
            sources,
            settings=ExecutionSettings(
                timeout=self.how.timeout,
                call_timeout=self.how.call_timeout,
                fallback=self.how.fallback,
            ),
            approve=approver(view, allow_write=self.how.allow_write),
            filler=Filler(asked if self.chat.asks_server("executor") else None, hints=hints),
            watch=view,
            rate=rate,
        )

    async def _router(self, sources: Sources) -> LearnedRouter:
        """Return the router of the model, or one of what the sources say of their tools."""
        if self.model is not None:
            from cnp_router.sources.source import SEPARATOR

            router = fitted_router(self.model, self.vectors)
            if not any(name.partition(SEPARATOR)[0] in sources.names for name in router.apis):
                raise InputError(
                    f"{self.model}: the model knows no tool of these sources (cnp-router sync "
                    f"--model {self.model} adds them)"
                )
            self.fitted = router
            return router
        from cnp_router.training import fit_router

        catalog = await _catalog(sources)
        made = self.vectors.made()
        return await asyncio.to_thread(fit_router, catalog, **made)

    def _learned(self) -> tuple[ParameterHints | None, Callable[[str], float] | None]:
        """Return what the model knows of inputs, and of who succeeds."""
        if self.model is None or not (self.model / ONLINE_FILE).exists():
            return None, None
        from cnp_router.online import OnlineStore, Reputation
        from cnp_router.prediction import NextToolRouter, ParameterHints

        hints, reputation = ParameterHints(), Reputation()
        observers: list[Observer] = [NextToolRouter(hints=hints), reputation]
        OnlineStore(self.model / ONLINE_FILE, observers, read_only=True)
        return hints, reputation.rate

    def report(self, json_: bool) -> None:
        """Print what came of it."""
        if self.execution is None:
            return
        bill = self.chat.bill(self.execution.model_calls)
        if json_:
            echo_json(with_price(self.execution.to_dict(), bill))
        else:
            echo_execution(self.execution, *price_facts(bill, self.chat.prices))

    def learn_if_possible(self) -> None:
        """Let the model learn from it; what was done is done, so that a failure is a warning."""
        try:
            self._learn()
        except CnpRouterError as exc:
            note(f"the model did not learn from it: {exc}", "Warning")

    def _learn(self) -> None:
        """Let the model learn from it, if there is one."""
        if self.model is None or self.how.no_learn or self.execution is None:
            return
        from cnp_router.execution.learning import learn
        from cnp_router.online import OnlineStore, Reputation, RouterObserver
        from cnp_router.prediction import NextToolRouter

        observers: list[Observer] = [NextToolRouter(), Reputation()]
        if self.fitted is not None:
            observers.append(RouterObserver(self.fitted))
        with OnlineStore(self.model / ONLINE_FILE, observers) as store:
            learn(store, self.execution, user=self.how.user)

    def check(self) -> None:
        """Raise ExecutionError unless all was done."""
        ended = self.execution
        if ended is None or ended.is_done:
            return
        if not ended.jobs:
            raise ExecutionError(
                f"{ended.problem} (say it in other words, or name tools in a plan)"
            )
        failed = [job for job in ended.jobs if job.state == "failed"]
        first = f": {failed[0].id}: {failed[0].problem}" if failed else ""
        raise ExecutionError(
            f"{sum(job.state != 'done' for job in ended.jobs)} of "
            f"{counted(len(ended.jobs), 'job')} not done{first}"
        )


async def _catalog(sources: Sources) -> Catalog:
    """Return what was accepted before, without a start; or what the sources say now."""
    lock = sources.lock
    if lock is not None and not sources.accept and set(sources.names) <= set(lock.sources):
        return sources.known_catalog()
    from cnp_router.catalog import Catalog
    from cnp_router.sources.faults import none_left

    loaded = await sources.load()
    for problem in loaded.problems:
        echo_problem(problem) if isinstance(problem, SourceError) else None
    if not loaded.apis:
        raise none_left(loaded.problems)
    return Catalog(loaded.apis)
