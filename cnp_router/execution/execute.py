"""`Executor`: what is awarded is done, or awarded to the next one; what happened teaches."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cnp_router import telemetry
from cnp_router.context import SharedContext
from cnp_router.coordination import Coordinated, Negotiator
from cnp_router.exceptions import ExecutionError
from cnp_router.execution.approval import Approve
from cnp_router.execution.awards import Drafting
from cnp_router.execution.calling import Tools
from cnp_router.execution.doing import Means
from cnp_router.execution.execution_settings import ExecutionSettings
from cnp_router.execution.execution_telemetry import watched_execution
from cnp_router.execution.filling import Filler
from cnp_router.execution.job_reports import Execution, JobEvent
from cnp_router.execution.journal import Journal
from cnp_router.execution.learning import learn
from cnp_router.execution.running import Running
from cnp_router.execution.task_graph import Plan
from cnp_router.llm import run_sync
from cnp_router.online import OnlineStore
from cnp_router.protocols import ContractNet, Protocol
from cnp_router.protocols.protocol import Announcement
from cnp_router.records import check_instance, string_tuple
from cnp_router.routing.restriction import Restriction
from cnp_router.sources.source import SEPARATOR

__all__ = ["Executor"]

Watch = Callable[[JobEvent], object]


class Executor:
    """Has requests and plans done by the contractors that they are awarded to.

    A request is awarded in one round; each awarded API is a job, and those that may change
    something wait for those that only read. A plan names its jobs; each is awarded in a round of
    its own, unless it names its API. What a contractor fails goes to the next one, and at last to
    the fallback of the settings.

    Parameters
    ----------
    net : ContractNet
        Awards. In rounds that are acted on, the manager is not shown what contractors say of
        themselves: `RoundSettings(grounds="hidden", evidence="manager")` is used.
    sources : Tools
        A `Sources`: finds and calls the tools.
    settings : ExecutionSettings, optional
    approve : callable, optional
        Answers each `Approval`: what does not only read is called only with it.
    filler : Filler, optional
        Fills inputs that nobody gave; by default without a language model.
    store : OnlineStore, optional
        Learns from each execution.
    watch : callable, optional
        Is given each `JobEvent` as it happens.
    rate : callable, optional
        How often an API has succeeded, in [0, 1], such as `Reputation.rate`: who failed more often
        than not comes behind the others when a job is awarded again.
    negotiator : Negotiator, optional
        Whom jobs are negotiated with: an API that a plan names and its equivalents, who comes next
        where one has failed, and all of them in the protocol "coordinated". It sees each act begin
        and end.

    Attributes
    ----------
    last : Execution or None
        The execution at hand, or the last one; also where it was cancelled.
    passed_over : tuple of str
        What of the request of the last `plan` would not be called, and why.

    Examples
    --------
    >>> from cnp_router import Catalog, ContractNet, fit_router, offline_model
    >>> from cnp_router.execution import Job
    >>> from cnp_router.sources import FunctionSource, Sources
    >>> def roll(sides: int = 6) -> int:
    ...     "Roll a die with some sides."
    ...     return 4
    >>> async def main():
    ...     dice = FunctionSource("dice", [roll], effects={"roll": "reads"})
    ...     async with Sources([dice]) as tools:
    ...         catalog = await tools.catalog()
    ...         net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
    ...         plan = Plan("Roll a die.", (Job("roll", api="dice__roll", inputs={"sides": 6}),))
    ...         return await Executor(net, tools).execute(plan)
    >>> execution = asyncio.run(main())
    >>> execution.is_done, execution.results["roll"].data
    (True, 4)
    """

    def __init__(
        self,
        net: ContractNet,
        sources: Tools,
        *,
        settings: ExecutionSettings | None = None,
        approve: Approve | None = None,
        filler: Filler | None = None,
        store: OnlineStore | None = None,
        watch: Watch | None = None,
        rate: Callable[[str], float] | None = None,
        context: SharedContext | None = None,
        negotiator: Negotiator | None = None,
    ) -> None:
        check_instance("net", net, ContractNet)
        self.net = net
        self.sources = sources
        self.settings = settings or ExecutionSettings()
        self.approve = approve
        self.filler = filler or Filler(None)
        self.store = store
        self.watch = watch
        self.rate = rate
        if context is not None:
            check_instance("context", context, SharedContext)
        self.context = context
        if negotiator is not None:
            check_instance("negotiator", negotiator, Negotiator)
        self.negotiator = negotiator
        self.last: Execution | None = None
        self.passed_over: tuple[str, ...] = ()

    def execute_sync(
        self,
        request: str | Plan,
        *,
        protocol: str | Protocol = "contractor-led",
        announcement: Announcement = "routed",
        among: Restriction | None = None,
        date: datetime.date | None = None,
        user: str | None = None,
        journal: str | Path | Journal | None = None,
    ) -> Execution:
        """Execute where there is no event loop; see `execute`."""

        async def run() -> Execution:
            return await self.execute(
                request,
                protocol=protocol,
                announcement=announcement,
                among=among,
                date=date,
                user=user,
                journal=journal,
            )

        return run_sync(run, instead="await executor.execute(request)")

    async def execute(
        self,
        request: str | Plan,
        *,
        protocol: str | Protocol = "contractor-led",
        announcement: Announcement = "routed",
        among: Restriction | None = None,
        date: datetime.date | None = None,
        user: str | None = None,
        journal: str | Path | Journal | None = None,
    ) -> Execution:
        """Award a request or the jobs of a plan, and have them done.

        Parameters
        ----------
        request : str or Plan
        protocol, announcement, among, date
            Of the rounds, as in `ContractNet.run`; what no source has is never awarded. A plan may
            name any API.
        user : str, optional
            Whose it is, in what the store keeps.
        journal : str, Path or Journal, optional
            File that keeps the state, or the journal itself, which stays open. Where there is one
            of this request or plan, it is continued: what was done is not done again, and its
            first round is not held again.

        Returns
        -------
        Execution
            Also where jobs have failed, or the time of the settings is over.

        Raises
        ------
        InputError
            As `ContractNet.run`; or the journal is of something else.
        RoundFailedError
            If the round of a request fails. That of a job of a plan fails the job. Where the
            manager or the coordinator is lost and there is a router, what it recommends is called
            instead, and marked: ``by="direct"`` in the acts, the protocol ``"direct"`` in the
            transcript, the reason in `JobReport.lost`.
        DataFileError
            If the journal cannot be read or written.
        asyncio.CancelledError
            If it is cancelled: what ran was given up, and `last` says how far it came.
        """
        how = self._how(protocol, announcement, among, date)
        means = self.means(announcement, user=user)
        opened = nullcontext(journal) if isinstance(journal, Journal) else Journal(journal)
        with opened as kept:
            running = Running(means, kept, how)
            return await self.supervise(running, lambda: running.do(request), request, user=user)

    async def supervise(
        self,
        running: Running,
        work: Callable[[], Awaitable[object]],
        request: str | Plan,
        *,
        user: str | None = None,
    ) -> Execution:
        """Do the work of an execution for as long as it may take; learn from it in any case."""
        about = {"cnp_router.execution.id": running.journal.execution}
        with telemetry.span("execution", about) as span:
            return await self._supervised(running, work, request, user, span)

    async def _supervised(
        self,
        running: Running,
        work: Callable[[], Awaitable[object]],
        request: str | Plan,
        user: str | None,
        span: telemetry.Span,
    ) -> Execution:
        is_cancelled = False
        if self.context is not None:
            self.context.know(self.net.catalog)
        try:
            await running.within_time(work)
        except asyncio.CancelledError:
            running.break_off("cancelled", "it was cancelled")
            is_cancelled = True
            raise
        finally:
            self.last = running.execution(request)
            watched_execution(self.last, is_cancelled, span)
            try:
                if self.store is not None:
                    learn(self.store, self.last, user=user)
            finally:
                if self.negotiator is not None:
                    self.negotiator.settle(self.last.id)
        return self.last

    async def plan(
        self,
        request: str | Plan,
        *,
        protocol: str | Protocol = "contractor-led",
        announcement: Announcement = "routed",
        among: Restriction | None = None,
        date: datetime.date | None = None,
    ) -> Plan:
        """Return the jobs that a request would lead to, and call no tool; a plan is its own.

        Parameters and errors are those of `execute`; an ExecutionError if nothing would be called.
        """
        how = self._how(protocol, announcement, among, date)
        if isinstance(request, Plan):
            with Journal() as kept:
                Running(self.means(announcement), kept, how).check(request)
            return request
        drafting = Drafting(self.net)
        await self._hidden(announcement).run(request, actor=drafting, **how)
        self.passed_over = drafting.passed_over
        if drafting.plan is None:
            problem = "; ".join(drafting.passed_over) or "nothing was awarded"
            raise ExecutionError(f"{problem} (say it in other words)")
        return drafting.plan

    def means(self, announcement: Announcement = "routed", *, user: str | None = None) -> Means:
        """Return what an execution is done with, as other ways of executing need it."""
        return Means(
            self._hidden(announcement),
            self.sources,
            self.settings,
            self.approve,
            self.filler,
            self.watch,
            self.rate,
            self.context,
            user or "",
            self.negotiator,
            self.negotiator is not None
            and self.store is not None
            and any(each is self.negotiator.reputation for each in self.store.observers),
        )

    def _hidden(self, announcement: Announcement) -> ContractNet:
        """Return the net whose manager is not shown what contractors say of themselves."""
        is_routed = self.net.router is not None and announcement == "routed"
        return self.net.with_settings(grounds="hidden", evidence="manager" if is_routed else "none")

    def _how(
        self,
        protocol: str | Protocol,
        announcement: Announcement,
        among: Restriction | None,
        date: datetime.date | None,
    ) -> dict[str, Any]:
        """Return how rounds are held, among what the sources have."""
        there = getattr(self.sources, "names", None)
        if there is not None and not callable(among):
            wanted = self.net.catalog.ids if among is None else string_tuple("among", among)
            left = [name for name in wanted if name.partition(SEPARATOR)[0] in there]
            among = None if len(left) == len(self.net.catalog) else left
        if protocol == Coordinated.name and self.negotiator is not None:
            protocol = Coordinated(self.negotiator)
        return {
            "protocol": protocol,
            "announcement": announcement,
            "among": among,
            "date": date,
        }
