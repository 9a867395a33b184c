"""`compare`: protocols, announcements and organisations on the same past requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from cnp_router.agents import Organisation
from cnp_router.catalog import Catalog
from cnp_router.evaluation.checkpoint import Checkpoint
from cnp_router.evaluation.comparison import Comparison, ComparisonRow, Method, RequestFigures
from cnp_router.evaluation.fingerprint import fingerprint
from cnp_router.exceptions import (
    BudgetExceededError,
    DataFileError,
    InputError,
    RoundFailedError,
)
from cnp_router.history import History, Mashup
from cnp_router.llm import CachedChatModel, ChatModel, OfflineChatModel
from cnp_router.protocols import PROTOCOLS, Announce, ContractNet, ProtocolName, RoundSettings
from cnp_router.routing import Router

__all__ = ["Progress", "compare", "compare_async"]

Progress = Callable[[str, int, int], object]

# The router decides in them, so there is nothing to broadcast.
_ROUTED_ONLY = ("learned", "auto")


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

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(compared())
    raise InputError("an event loop is running (write: await compare_async(...))")


async def compare_async(
    catalog: Catalog,
    model: ChatModel,
    history: History,
    *,
    router: Router | None = None,
    protocols: Sequence[ProtocolName] = cast("Sequence[ProtocolName]", PROTOCOLS),
    announcements: Sequence[Announce] = ("broadcast", "routed"),
    organisations: Sequence[Organisation] = ("api",),
    max_size: int | None = None,
    settings: RoundSettings | None = None,
    limit: int | None = None,
    resume: str | Path | None = None,
    concurrent_requests: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Hold a round for each request by each method, and average what came of them.

    Of a finished round only its figures are kept, so that memory does not grow with the number of
    messages. An API that comes twice in a mashup counts once.

    Parameters
    ----------
    catalog : Catalog
    model : ChatModel
        Answers for managers and contractors.
    history : History
        The requests, and what was used. Mashups that name an API which the catalog does not have
        are counted in ``skipped``.
    router : Router, optional
        Needed for whatever is routed.
    protocols : sequence of str, default=all
        ``"learned"`` and ``"auto"`` are routed, whatever `announcements` says.
    announcements : sequence of {"broadcast", "routed"}, default=both
    organisations : sequence of {"api", "category", "community", "size"}, default=("api",)
    max_size : int, optional
        The most APIs a contractor may hold, as in `ContractNet`.
    settings : RoundSettings, optional
    limit : int, optional
        Ask no more than the first so many requests.
    resume : str or Path, optional
        A file that keeps the figures of each finished request. Where it exists, what is in it is
        not asked again. It fits any protocols, announcements, organisations, limit and budget;
        all else must be as it was.
    concurrent_requests : int, default=1
        How many rounds are held at a time. With more than one, the seconds of a round contain
        its waiting for the others.
    progress : callable, optional
        Called with method, rounds done and rounds in all, after each round.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If nothing is left to ask, a name is unknown, or a number is out of range.
    DataFileError
        If `resume` cannot be used; see `Checkpoint`.
    RoundFailedError, BudgetExceededError
        If a round could not be held, or every contractor failed in it; they name it. What was
        finished before is in `resume`.
    """
    _check(protocols, announcements, organisations, limit, concurrent_requests)
    settings = settings or RoundSettings()
    known = history.known_to(catalog)
    mashups = list(known[:limit])
    if not mashups:
        raise InputError(
            f"the catalog does not have all the APIs of any of the {len(history)} mashups "
            "(compare on mashups of its APIs)"
        )
    nets = {
        name: ContractNet(
            catalog,
            model,
            router=router,
            organisation=name,
            max_size=max_size,
            settings=settings,
        )
        for name in dict.fromkeys(organisations)
    }
    methods = list(_methods(protocols, announcements, nets))
    with ExitStack() as stack:
        finished: dict[_Job, RequestFigures] = {}
        checkpoint = None
        if resume is not None:
            facts = fingerprint(catalog, known, model, router, settings, max_size)
            checkpoint = stack.enter_context(Checkpoint(resume, facts))
            finished = _finished(checkpoint)
        run = _Run(nets, methods, mashups, finished, checkpoint, progress)
        await run.finish(concurrent_requests)
    rows = run.rows()
    return Comparison(
        requests=len(mashups),
        skipped=known.skipped,
        contractors={name: len(net.contractors) for name, net in nets.items()},
        model=model.name,
        is_offline=_is_offline(model),
        tokens_are=run.tokens_are(),
        rows=rows,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    method: Method
    request: str


class _Run:
    """The rounds of a comparison: those that are done, and those that are to be held."""

    def __init__(
        self,
        nets: Mapping[Organisation, ContractNet],
        methods: Sequence[Method],
        mashups: Sequence[Mashup],
        finished: dict[_Job, RequestFigures],
        checkpoint: Checkpoint | None,
        progress: Progress | None,
    ) -> None:
        self.nets: Mapping[str, ContractNet] = cast("Mapping[str, ContractNet]", nets)
        self.methods = methods
        self.mashups = mashups
        self.checkpoint = checkpoint
        self.progress = progress
        jobs = {_Job(method, mashup.id) for method in methods for mashup in mashups}
        self.total = len(jobs)
        self.finished = {job: figures for job, figures in finished.items() if job in jobs}

    async def finish(self, concurrent_requests: int) -> None:
        """Hold the rounds that are not held yet, several at a time."""
        rounds = (
            self._hold(method, mashup)
            for method in self.methods
            for mashup in self.mashups
            if _Job(method, mashup.id) not in self.finished
        )
        await _all_of(rounds, concurrent_requests)

    def rows(self) -> tuple[ComparisonRow, ...]:
        """Return the means, summed in the order of the requests."""
        return tuple(
            ComparisonRow.of(method, [self.finished[_Job(method, m.id)] for m in self.mashups])
            for method in self.methods
        )

    def tokens_are(self) -> Literal["server", "estimated"]:
        """Return who counted the tokens."""
        sources = {figures.tokens_are for figures in self.finished.values()} - {None}
        return "server" if sources == {"server"} else "estimated"

    async def _hold(self, method: Method, mashup: Mashup) -> None:
        where = f"mashup {mashup.id!r}, {method.protocol} {method.announce} by {method.organise}"
        try:
            outcome = await self.nets[method.organise].run(
                mashup.description,
                protocol=cast("ProtocolName", method.protocol),
                announce=cast("Announce", method.announce),
            )
        except RoundFailedError as exc:
            raise RoundFailedError(f"{where}: {exc.problem}", exc.transcript) from exc
        except BudgetExceededError as exc:
            told = BudgetExceededError(f"{where}: {exc.what}", exc.costs, exc.allowed)
            told.transcript = exc.transcript
            raise told from exc
        ledger = outcome.ledger
        if sum(ledger.failures.values()) == ledger.messages.get("cfp", 0) > 0:
            # A round may end so, but a mean over it would say nothing of the method.
            reasons = ", ".join(f"{count} {reason}" for reason, count in ledger.failures.items())
            raise RoundFailedError(
                f"{where}: every call for proposals failed ({reasons})", outcome.transcript
            )
        figures = RequestFigures.of(method, mashup, outcome)
        if self.checkpoint is not None:
            self.checkpoint.add(figures.to_dict())
        self.finished[_Job(method, mashup.id)] = figures
        if self.progress is not None:
            title = f"{method.protocol} {method.announce}"
            self.progress(title, len(self.finished), self.total)


async def _all_of(jobs: Iterator[Awaitable[None]], at_a_time: int) -> None:
    """Await all, so many at a time. The first error ends the others."""

    async def work() -> None:
        for job in jobs:
            await job

    workers = [asyncio.create_task(work()) for _ in range(at_a_time)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def _methods(
    protocols: Iterable[str], announcements: Iterable[str], organisations: Iterable[str]
) -> Iterator[Method]:
    announcements = list(dict.fromkeys(announcements))
    for organise in organisations:
        for protocol in dict.fromkeys(protocols):
            for announce in ["routed"] if protocol in _ROUTED_ONLY else announcements:
                yield Method(protocol, announce, organise)


def _check(
    protocols: Sequence[str],
    announcements: Sequence[str],
    organisations: Sequence[str],
    limit: int | None,
    concurrent_requests: int,
) -> None:
    for what, names, choices in (
        ("protocol", protocols, PROTOCOLS),
        ("announcement", announcements, get_args(Announce)),
        ("organisation", organisations, get_args(Organisation)),
    ):
        if isinstance(names, str) or not names:
            raise InputError(f"give a list of {what}s, at least one (got {names!r})")
        strangers = [name for name in names if name not in choices]
        if strangers:
            raise InputError(f"unknown {what} {strangers[0]!r} (use one of {', '.join(choices)})")
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1, got {limit!r}")
    if concurrent_requests < 1:
        raise InputError(f"concurrent_requests must be at least 1, got {concurrent_requests!r}")


def _finished(checkpoint: Checkpoint) -> dict[_Job, RequestFigures]:
    finished = {}
    for line, record in checkpoint.records:
        try:
            figures = RequestFigures.from_dict(record)
        except InputError as exc:
            raise DataFileError(
                checkpoint.path, str(exc), line=line, cure="was it altered? name another file"
            ) from exc
        finished[_Job(figures.method, figures.request)] = figures
    checkpoint.records.clear()
    return finished


def _is_offline(model: ChatModel) -> bool:
    if isinstance(model, CachedChatModel):
        model = model.model
    return isinstance(model, OfflineChatModel)
