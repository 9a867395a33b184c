"""`ExecutionRun`: one execution of `execute`, from sources and model to what came of it."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.billing import price_facts, with_price
from cnp_router.cli.execution_report import changes, echo_execution, left_out
from cnp_router.cli.html_page import write_page
from cnp_router.cli.live_view import LiveView, approver, plan_offer
from cnp_router.cli.output import console, counted, echo, echo_json, echo_pairs, note
from cnp_router.cli.remembering import Remembering
from cnp_router.cli.source_options import Origins
from cnp_router.cli.source_router import router_of
from cnp_router.closest import closest
from cnp_router.exceptions import (
    CnpRouterError,
    DataFileError,
    ExecutionError,
)
from cnp_router.files import read_text
from cnp_router.kept_beside import ONLINE_FILE

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.context import SharedContext
    from cnp_router.execution import Execution, Executor, Plan
    from cnp_router.online import Observer, Reputation
    from cnp_router.planning import Run
    from cnp_router.prediction import ParameterHints
    from cnp_router.protocols import Ledger, ModelCall
    from cnp_router.sources import Sources
    from cnp_router.training import LearnedRouter

__all__ = ["ExecutionRun", "How"]

# Who of those that may have a model of their own is asked; one agent alone has that of --llm.
_ROLES: dict[str, tuple[str, ...]] = {
    "rounds": ("manager", "contractor", "executor"),
    "plan": ("planner", "executor"),
    "react": (),
}


@dataclass(frozen=True, slots=True)
class How:
    """What the options of the execution itself say."""

    plan: Path | None
    method: Literal["rounds", "plan", "react"]
    profile: Path | None
    proven: bool
    context: str | None
    session: str | None
    thread: str | None
    protocol: str | None
    announce: Any
    allow_write: bool
    dry_run: bool
    resume: Path | None
    fallback: str | None
    timeout: float
    call_timeout: float
    no_learn: bool
    html: Path | None
    user: str | None
    date: datetime.date | None

    def check(self, chat: llm_options.Chat) -> None:
        """Raise UsageError for options that do not go together."""
        for role in chat.roles:
            asked_by = [name for name, roles in _ROLES.items() if role in roles]
            if self.method not in asked_by:
                raise click.UsageError(
                    f"--{role}-model goes with --method {' or '.join(asked_by)}, not with "
                    f"{self.method}."
                )
        if self.proven and self.method != "plan":
            raise click.UsageError("--proven goes with --method plan.")
        if self.profile and self.method == "rounds":
            raise click.UsageError("--profile goes with --method plan or react.")
        if self.method == "rounds":
            if self.session or self.thread:
                raise click.UsageError("--session and --thread go with --method plan or react.")
            return
        if self.protocol or self.announce != "routed" or self.resume or self.date:
            raise click.UsageError(
                "--protocol, --announce, --resume and --date go with --method rounds, the default."
            )
        if self.method == "react" and (self.plan or self.dry_run):
            raise click.UsageError(
                "--method react has no plan: --plan and --dry-run go with the others."
            )


class ExecutionRun:
    """One execution of the command: what it is done with, and what came of it."""

    def __init__(
        self,
        wanted: str | Plan,
        origins: Origins,
        model: Path | None,
        vectors: llm_options.Vectors,
        how: How,
        chat: llm_options.Chat,
    ) -> None:
        from cnp_router.protocols.metered import Books

        self.wanted, self.origins, self.model, self.how = wanted, origins, model, how
        self.vectors, self.chat = vectors, chat
        self.execution: Execution | None = None
        self.run: Run | None = None  # of a planner or an agent
        self.planned: Plan | None = None
        self.passed_over: tuple[str, ...] = ()
        self.drafted = Books()  # what models were asked for a plan that is only shown
        self.fitted: LearnedRouter | None = None  # of the model
        self.catalog: Catalog | None = None
        self.remembering = Remembering(model, how.user, how.session, how.thread)
        self.protocol = how.protocol or (
            "contractor-led" if chat.asks_server("manager", "contractor") else "learned"
        )

    async def main(self) -> None:
        """Open the sources and do it; close them whatever happens."""
        async with self.origins.opened() as sources:
            with LiveView() as view:
                executor = await self._executor(sources, view)
                self._check_plan(executor.net.catalog)
                async with executor.net.model, executor.context or nullcontext():
                    if self.how.method == "rounds":
                        await self._by_rounds(executor)
                    else:
                        await self._by_agents(executor, view)

    def _check_plan(self, catalog: Catalog) -> None:
        """Raise DataFileError where a job of the plan names a tool that is not there."""
        self.catalog, file, plan = catalog, self.how.plan, self.wanted
        if file is None or isinstance(plan, str):
            return
        for job in plan.jobs:
            if job.api is not None and job.api not in catalog:
                close = closest(job.api, catalog.ids)
                cure = f"did you mean {close[0]!r}?" if close else "name a tool of the sources"
                problem = f"job {job.id!r}: unknown API {job.api!r}"
                raise DataFileError(file, problem, cure=cure)

    async def _by_rounds(self, executor: Executor) -> None:
        announcement = options.announced(self.protocol, self.how.announce)
        args: dict[str, Any] = {"protocol": self.protocol, "announcement": announcement}
        if self.how.dry_run:
            self.planned = await executor.plan(self.wanted, date=self.how.date, **args)
            self.passed_over = executor.passed_over
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

    async def _by_agents(self, executor: Executor, view: LiveView) -> None:
        """Have it planned and executed, or served by one agent in turns."""
        from cnp_router.planning import PlanAndExecute, Planner, ProvenPlans, ReAct
        from cnp_router.planning.proven import PLANS_FILE

        profile = "" if self.how.profile is None else read_text(self.how.profile)
        about: dict[str, Any] = {"profile": profile, "user": self.how.user}
        told = self.remembering.told()
        if self.how.method == "react":
            react = ReAct(executor)
            about["profile"] = "\n".join(filter(None, [profile, told]))
            try:
                await react.run(str(self.wanted), **about)
            finally:
                self._take(react.last)
            return
        model = executor.net.model
        planned = PlanAndExecute(
            Planner(model, remembered=told),
            executor,
            proven=None if self.model is None else ProvenPlans(self.model / PLANS_FILE),
            offer=plan_offer(view, always=self.how.proven),
        )
        if self.how.dry_run:
            self.planned = (
                await planned.plan(self.wanted, profile=profile)
                if isinstance(self.wanted, str)
                else self.wanted
            )
            return
        try:
            await planned.run(self.wanted, **about)
        finally:
            self._take(planned.last)

    def _take(self, run: Run | None) -> None:
        self.run = run
        self.execution = None if run is None else run.execution

    async def _executor(self, sources: Sources, view: LiveView) -> Executor:
        from cnp_router.coordination import Negotiator
        from cnp_router.execution import ExecutionSettings, Executor, Filler
        from cnp_router.planning.booked import BookedModel
        from cnp_router.protocols import ContractNet

        router = await router_of(sources, self.model, self.vectors)
        self.fitted = None if self.model is None else router
        hints, reputation = self._learned()
        asked = self.chat.model(router.catalog)
        asked = BookedModel(asked, self.drafted) if self.how.dry_run else asked
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
            rate=None if reputation is None else reputation.rate,
            context=self._context(sources),
            negotiator=Negotiator(sources, reputation=reputation),
        )

    def _context(self, sources: Sources) -> SharedContext:
        """Return what executions share: in the place that is named, or as long as this one."""
        from cnp_router.context import SharedContext, store_at

        place = self.how.context
        store = None if place is None else store_at(place)
        return SharedContext(store, classes=sources.classes)

    def _learned(self) -> tuple[ParameterHints | None, Reputation | None]:
        """Return what the model knows of inputs, and of who succeeds."""
        if self.model is None or not (self.model / ONLINE_FILE).exists():
            return None, None
        from cnp_router.online import OnlineStore, Reputation
        from cnp_router.prediction import NextToolRouter, ParameterHints

        hints, reputation = ParameterHints(), Reputation()
        observers: list[Observer] = [NextToolRouter(hints=hints), reputation]
        OnlineStore(self.model / ONLINE_FILE, observers, read_only=True)
        return hints, reputation

    @property
    def _paid(self) -> list[ModelCall]:
        """What models were asked."""
        asked = self.drafted.calls if self.run is None else self.run.model_calls
        if self.execution is not None and self.run is None:
            asked = self.execution.model_calls
        return list(asked)

    def report(self, json_: bool) -> None:
        """Print what came of it."""
        if self.execution is None:
            return
        bill = self.chat.bill(self._paid)
        if json_:
            echo_json(with_price((self.run or self.execution).to_dict(), bill))
        else:
            jobs = [*(self.run.failed if self.run else ()), *self.execution.jobs]
            changed = () if self.catalog is None else changes(jobs, self.catalog)
            facts = price_facts(bill, self.chat.prices)
            echo_execution(self.execution, *changed, *run_facts(self.run), *facts)

    def write_page(self, json_: bool) -> None:
        """Write what came of it, or the plan that was only to be shown, as a report page."""
        made = self.planned or self.run or self.execution
        if made is None:
            return
        facts = tuple(price_facts(self.chat.bill(self._paid), self.chat.prices))
        known = {} if self.planned is not None else {"catalog": self.catalog}
        write_page(made, self.how.html, aside=json_, facts=facts, **known)

    def report_plan(self, json_: bool) -> None:
        """Print the plan that was only to be shown, and what it has cost."""
        from cnp_router.protocols import Ledger

        assert self.planned is not None
        facts = list(tokens_by_role(Ledger.of((), self.drafted.calls)))
        facts += price_facts(self.chat.bill(self.drafted.calls), self.chat.prices)
        if json_:
            echo_json(self.planned.to_dict())
            for label, said in left_out(self.passed_over):
                note(said, label)
            for label, said in facts if self.drafted.calls else ():
                note(said, label)
            return
        echo(*self.planned.draw(console(sys.stdout).width).split("\n"))
        if self.passed_over:
            echo()
            echo_pairs(list(left_out(self.passed_over)))
        if self.drafted.calls:
            echo()
            echo_pairs(facts)

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
        if self.run is not None:
            self.remembering.keep(self.run)
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
        if ended is None or (ended.is_done and not (self.run and self.run.unmet)):
            return
        late = "--timeout allows more" if ended.is_late else ""
        if not ended.jobs:
            cure = late or "say it in other words, or name tools in a plan"
            raise ExecutionError(f"{ended.problem} ({cure})")
        failed = [job for job in ended.jobs if job.state == "failed"]
        first = f": {failed[0].id}: {failed[0].problem}" if failed else ""
        cure = late
        if self.run is not None and self.run.turns and not self._asks_server():
            cure = "the offline stand-in chooses only what is certain: --llm asks a model"
        raise ExecutionError(
            f"{sum(job.state != 'done' for job in ended.jobs)} of "
            f"{counted(len(ended.jobs), 'job')} not done{first}{f' ({cure})' if cure else ''}"
        )

    def _asks_server(self) -> bool:
        """Whether who works in turns asks a server."""
        roles = ("executor",) if self.how.method == "plan" else ()
        return self.chat.is_server or any(role in self.chat.roles for role in roles)


def run_facts(run: Run | None) -> Iterator[tuple[str, str]]:
    """Return what is to be said of a run of a planner or an agent, beside its jobs."""
    if run is None:
        return
    if n_revised := len(run.plans) - 1 if run.plans else 0:
        yield "Planned", f"{counted(n_revised, 'time')} anew, {len(run.failed)} jobs had failed"
    if run.turns:
        kinds = ", ".join(f"{count} {kind}" for kind, count in run.counts.items())
        yield "Turns", f"{len(run.turns)}: {kinds}"
    if run.unmet:
        yield "Not met", "; ".join(run.unmet)
    yield from tokens_by_role(run.ledger)


def tokens_by_role(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Return what each role has taken, if there was anything."""
    if ledger.tokens:
        taken = ledger.by_role.items()
        said = (f"{role} {cost.tokens_in + cost.tokens_out:,}" for role, cost in taken)
        yield "Tokens", ", ".join(said)
