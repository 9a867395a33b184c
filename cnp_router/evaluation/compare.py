"""`compare`: protocols, announcements and organisations on the same past requests."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import datetime
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from cnp_router.agents import Organisation
from cnp_router.catalog import Catalog
from cnp_router.cluster import connected
from cnp_router.evaluation.comparison import (
    Comparison,
    ComparisonRow,
    Method,
    RoundFigures,
    RoundResult,
)
from cnp_router.evaluation.evaluate import n_learned_from
from cnp_router.evaluation.resume import ResumeFile, fingerprint
from cnp_router.exceptions import (
    BudgetExceededError,
    ChatAccessError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
    ChatRateLimitError,
    InputError,
    RoundFailedError,
)
from cnp_router.history import History, Mashup
from cnp_router.llm import ChatModel, OfflineChatModel, run_sync, unwrapped
from cnp_router.pool import spans
from cnp_router.protocols import (
    PROTOCOLS,
    Announcement,
    ContractNet,
    Protocol,
    RoundSettings,
    find_protocol,
)
from cnp_router.records import check_flag, check_number
from cnp_router.routing import Router

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["FAILURES_IN_A_ROW", "Progress", "compare", "compare_async"]

FAILURES_IN_A_ROW = 5
"""So many failed rounds of a method, and it is not the requests that are at fault."""

Progress = Callable[[str, int, int], object]

# A protocol without contractors is the same in every organisation: it is asked with this one.
_ALONE_WITH: Organisation = "api"

# Of rounds that a worker of a cluster runs together: how many pieces each gets, and how long.
_PIECES, _MOST_ROUNDS = 4, 100

# They would meet every request alike, and be over once the set-up or the server is.
_NO_FAULT_OF_THE_REQUEST = (
    ChatAccessError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
    ChatRateLimitError,
)


def compare(catalog: Catalog, model: ChatModel, history: History, **options: Any) -> Comparison:
    """Compare methods where there is no event loop; see `compare_async`.

    Parameters
    ----------
    catalog : Catalog
    model : ChatModel
        Closed at the end.
    history : History
    **options
        As in `compare_async`.

    Returns
    -------
    Comparison

    Raises
    ------
    CnpRouterError
        As `compare_async`, or if an event loop is running.

    Examples
    --------
    >>> from cnp_router import Api, Mashup
    >>> from cnp_router.agents import offline_model
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> past = History([Mashup("m1", "Show places to eat", ("maps",))])
    >>> comparison = compare(catalog, offline_model(catalog), past,
    ...                      protocols=["contractor-led"], announcements=["broadcast"])
    >>> row = comparison.rows[0]
    >>> row.recipients, row.model_calls, row.stages["final"].recall
    (2.0, 3.0, 1.0)
    """

    async def compared() -> Comparison:
        async with model:
            return await compare_async(catalog, model, history, **options)

    return run_sync(compared, instead="await compare_async(...)")


async def compare_async(
    catalog: Catalog,
    model: ChatModel,
    history: History,
    *,
    router: Router | None = None,
    protocols: Sequence[str | Protocol] = tuple(PROTOCOLS),
    announcements: Sequence[Announcement] = ("broadcast", "routed"),
    organisations: Sequence[Organisation] = ("api",),
    max_size: int | None = None,
    settings: RoundSettings | None = None,
    dated: bool = True,
    limit: int | None = None,
    resume: str | Path | None = None,
    retry_failed: bool = False,
    concurrent_requests: int = 1,
    scheduler: str | Client | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Run a round for each request by each method, and average what came of them.

    Of a finished round only its figures are kept, so that memory does not grow with the number of
    messages. An API that comes twice in a mashup counts once.

    A round may fail because of its request: a prompt is longer than the model can take, the manager
    gets no usable answer, or every contractor fails. It is counted, it is left out of the means of
    its method, and the others are run. With five in a row, it is not the requests that are at
    fault: the comparison ends, as it does at once where the set-up or the server is. If all rounds
    of a method failed, that is an error after the others are run.

    Parameters
    ----------
    catalog : Catalog
    model : ChatModel
        Answers for managers and contractors.
    history : History
        The requests, and what was used. Mashups that name an API which the catalog does not have,
        or that have no description, are counted in ``skipped``.
    router : Router, optional
        Needed for whatever is routed.
    protocols : sequence of str or Protocol, default=all in `PROTOCOLS`
        Names, or protocols of your own. One that has a single announcement is asked with that,
        whatever `announcements` says. One without contractors is asked once, with organisation
        ``"api"``.
    announcements : sequence of {"broadcast", "routed"}, default=both
    organisations : sequence of {"api", "category", "community", "size"}, default=("api",)
    max_size : int, optional
        The most APIs a contractor may hold, as in `ContractNet`.
    settings : RoundSettings, optional
        Evidence is for the routed rounds: a broadcast, which has none, stays what it is compared
        as.
    dated : bool, default=True
        Ask the router of each mashup as of its date; False: without a date.
    limit : int, optional
        Ask no more than the first so many requests.
    resume : str or Path, optional
        A file that keeps the figures of each finished request. Where it exists, what is in it is
        not asked again. It fits any protocols, announcements, organisations, limit and budget;
        all else must be as it was.
    retry_failed : bool, default=False
        Ask again where the round in `resume` failed.
    concurrent_requests : int, default=1
        How many rounds are run at a time. With more than one, the seconds of a round contain
        its waiting for the others.
    scheduler : str or distributed.Client, optional
        Of a Dask cluster, whose workers run the rounds, as in `evaluate`: for offline models, of
        which each worker gets a copy. The event loop of `compare_async` waits meanwhile.
    progress : callable, optional
        Called with method, rounds done and rounds in all, after each round.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If nothing is left to ask, a name is unknown, a number is out of range, or there is no
        `resume` to retry.
    DataFileError
        If `resume` cannot be used; see `ResumeFile`.
    RoundFailedError, BudgetExceededError
        If a round could not be run for the set-up, the server or the budget, or five in a row
        failed; they name it. What was finished before is in `resume`. If all rounds of a method
        failed, ``comparison`` of the error has what there is.
    """
    if limit is not None:
        check_number("limit", limit, 1, whole=True)
    check_number("concurrent_requests", concurrent_requests, 1, whole=True)
    _check_names("protocol", protocols)
    _check_names("announcement", announcements, get_args(Announcement))
    _check_names("organisation", organisations, get_args(Organisation))
    check_flag("dated", dated)
    if retry_failed and resume is None:
        raise InputError("there is nothing to retry (name the file to resume)")
    settings = settings or RoundSettings()
    known = history.known_to(catalog)
    requests = [mashup for mashup in known if mashup.description.strip()]
    mashups = requests[:limit]
    if not mashups:
        raise InputError(
            f"the catalog does not have all the APIs of any of the {len(history)} mashups "
            "(compare on mashups of its APIs that have a description)"
        )
    is_offline = [
        isinstance(unwrapped(model, role), OfflineChatModel)
        for role in ("manager", "contractor", "single-agent")
    ]
    if scheduler is not None and not all(is_offline):
        raise InputError(
            "a scheduler is for offline models (leave it out: who answers elsewhere is no faster, "
            "and keys must not go to workers)"
        )
    named = {each.name: each for each in map(find_protocol, protocols)}
    methods = list(dict.fromkeys(_methods(named.values(), announcements, organisations)))
    nets = {
        name: ContractNet(
            catalog,
            model,
            router=router,
            organisation=cast("Organisation", name),
            max_size=max_size,
            settings=settings,
        )
        for name in dict.fromkeys(method.organisation for method in methods)
    }
    facts = fingerprint(catalog, known, model, router, settings, max_size, dated=dated)
    with ExitStack() as stack:
        file = None
        if resume is not None:
            file = stack.enter_context(ResumeFile(resume, facts))
        rounds = _Rounds(nets, named, methods, mashups, dated, progress, file)
        finished = await rounds.run(
            concurrent_requests, retry_failed=retry_failed, scheduler=scheduler
        )
    sources = {result.figures.tokens_are for result in finished.values() if result.figures}
    comparison = Comparison(
        requests=len(mashups),
        skipped=known.skipped + len(known) - len(requests),
        contractors={name: len(net.contractors) for name, net in nets.items()},
        model=model.name,
        is_offline=any(is_offline),
        evidence=settings.evidence,
        learned_from=None if router is None else n_learned_from(router, mashups),
        run={
            "date": datetime.date.today().isoformat(),
            "apis": len(catalog),
            "mashups": len(known),
            "organisations": list(nets),
            **facts,
        },
        tokens_are="server" if sources - {None} == {"server"} else "estimated",
        rows=tuple(
            ComparisonRow.of(
                method,
                [finished[method, mashup.id] for mashup in mashups],
                [
                    finished[other, mashup.id]
                    for other in methods
                    if method.announcement == "routed"
                    and other == replace(method, announcement="broadcast")
                    for mashup in mashups
                ],
            )
            for method in methods
        ),
    )
    nothing = [row for row in comparison.rows if not row.rounds]
    if nothing:
        others = f", and so of {len(nothing) - 1} more" if nothing[1:] else ""
        raise RoundFailedError(
            f"every round of {nothing[0].method} failed{others}: {nothing[0].reason} "
            "(cure that and compare again, or leave that protocol or announcement out)",
            comparison=comparison,
        )
    return comparison


def _check_names(what: str, names: Sequence[Any], choices: Sequence[str] = ()) -> None:
    if isinstance(names, str) or not names:
        raise InputError(f"give a list of {what}s, at least one (got {names!r})")
    strangers = [name for name in names if choices and name not in choices]
    if strangers:
        raise InputError(f"unknown {what} {strangers[0]!r} (use one of {', '.join(choices)})")


def _methods(
    protocols: Iterable[Protocol], announcements: Sequence[str], organisations: Sequence[str]
) -> Iterator[Method]:
    for organisation in dict.fromkeys((*organisations, _ALONE_WITH)):
        for protocol in protocols:
            if organisation in (organisations if protocol.has_contractors else (_ALONE_WITH,)):
                possible = [a for a in announcements if a in protocol.announcements]
                for announcement in possible or protocol.announcements:
                    yield Method(protocol.name, announcement, organisation)


@dataclass
class _Rounds:
    """The rounds of a comparison: those that are finished, and those that are to be run."""

    nets: Mapping[str, ContractNet]
    protocols: Mapping[str, Protocol]
    methods: Sequence[Method]
    mashups: Sequence[Mashup]
    dated: bool
    progress: Progress | None
    file: ResumeFile | None
    finished: dict[tuple[Method, str], RoundResult] = field(default_factory=dict)
    failed_in_a_row: Counter[Method] = field(default_factory=Counter)

    async def run(
        self,
        at_a_time: int,
        *,
        retry_failed: bool,
        scheduler: str | Client | None = None,
    ) -> Mapping[tuple[Method, str], RoundResult]:
        """Run the rounds that are not in the file, here or elsewhere; return the results of all."""
        jobs = {(method, m.id): (method, m) for method in self.methods for m in self.mashups}
        for result in self.file.records if self.file else ():
            if not (retry_failed and result.figures is None):
                self.finished[result.method, result.request] = result
        self.finished = {key: self.finished[key] for key in jobs if key in self.finished}
        left = [job for key, job in jobs.items() if key not in self.finished]
        if scheduler is None:
            await _all_of((self._run(*job) for job in left), at_a_time)
        else:
            stopped = threading.Event()
            try:
                await _beside(partial(self._run_by, scheduler, left, stopped))
            finally:
                stopped.set()
        return self.finished

    def _run_by(
        self,
        scheduler: str | Client,
        jobs: Sequence[tuple[Method, Mashup]],
        stopped: threading.Event,
    ) -> None:
        """Let the workers of a cluster run rounds; what they are is kept in the order of these."""
        alone = replace(self, progress=None, file=None, finished={}, failed_in_a_row=Counter())
        with connected(scheduler) as pool:
            cuts = spans(len(jobs), _MOST_ROUNDS, _PIECES * pool.n_workers)
            for results in pool.each(_run_all, [jobs[i:j] for i, j in cuts], pool.share(alone)):
                for result in results:
                    if stopped.is_set():
                        return
                    self._keep(result)

    async def _run(self, method: Method, mashup: Mashup) -> None:
        self._keep(await self.result(method, mashup))

    async def result(self, method: Method, mashup: Mashup) -> RoundResult:
        """Run one round."""
        where = f"mashup {mashup.id!r}, {method}"
        try:
            net = self.nets[method.organisation]
            if method.announcement == "broadcast" and net.settings.evidence != "none":
                net = net.with_settings(evidence="none")
            outcome = await net.run(
                mashup.description,
                protocol=self.protocols[method.protocol],
                announcement=cast("Announcement", method.announcement),
                date=mashup.date if self.dated else None,
            )
            if outcome.failure:  # a mean over that would say nothing of the method
                raise RoundFailedError(outcome.failure, outcome.transcript)
            return RoundResult(method, mashup.id, RoundFigures.of(mashup, outcome))
        except RoundFailedError as exc:
            if isinstance(exc.__cause__, _NO_FAULT_OF_THE_REQUEST):
                raise RoundFailedError(f"{where}: {exc.problem}", exc.transcript) from exc
            return RoundResult(method, mashup.id, None, exc.problem)
        except BudgetExceededError as exc:
            named = BudgetExceededError(f"{where}: {exc.what}", exc.costs, exc.allowed)
            named.transcript = exc.transcript
            raise named from exc

    def _keep(self, result: RoundResult) -> None:
        """Keep a result; raise if it is not single requests that fail."""
        method = result.method
        if self.file is not None:
            self.file.add(result)
        self.finished[method, result.request] = result
        if self.progress is not None:
            title = f"{method.protocol} {method.announcement}"
            self.progress(title, len(self.finished), len(self.methods) * len(self.mashups))
        failed = self.failed_in_a_row[method] + 1 if result.figures is None else 0
        self.failed_in_a_row[method] = failed
        if failed >= FAILURES_IN_A_ROW:
            raise RoundFailedError(
                f"{failed} rounds in a row failed of {method}, the last with "
                f"mashup {result.request!r}: {result.error} (leave that protocol or announcement "
                "out, or cure what is at fault and retry what failed)"
            )


def _run_all(rounds: _Rounds, jobs: Sequence[tuple[Method, Mashup]]) -> list[RoundResult]:
    """Run some rounds one after the other, as a piece of work; there is no event loop."""

    async def run() -> list[RoundResult]:
        return [await rounds.result(*job) for job in jobs]

    return asyncio.run(run())


def _beside(work: Callable[[], None]) -> Awaitable[None]:
    """Let a thread do some work, and return what waits for it; who is cancelled does not."""
    done: concurrent.futures.Future[None] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()  # nobody cancels what would then find no place to end

    def run() -> None:
        try:
            work()
        except BaseException as exc:
            done.set_exception(exc)
        else:
            done.set_result(None)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return asyncio.wrap_future(done)


async def _all_of(jobs: Generator[Awaitable[None], None, None], at_a_time: int) -> None:
    """Await all, so many at a time. The first error ends the others."""

    async def work() -> None:
        try:
            for job in jobs:
                await job
        except BaseException:
            jobs.close()  # before the others are cancelled, they would begin with the next
            raise

    workers = [asyncio.create_task(work()) for _ in range(at_a_time)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
