"""`compare`: protocols, announcements and organisations on the same past requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast, get_args

from cnp_router.agents import Organisation
from cnp_router.catalog import Catalog
from cnp_router.evaluation.checkpoint import Checkpoint
from cnp_router.evaluation.comparison import Comparison, Method
from cnp_router.evaluation.comparison_run import ComparisonRun, Finished, Progress, finished_in
from cnp_router.evaluation.fingerprint import fingerprint
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.llm import ChatModel, OfflineChatModel, run_sync
from cnp_router.protocols import PROTOCOLS, Announce, ContractNet, ProtocolName, RoundSettings
from cnp_router.routing import Router

__all__ = ["Progress", "compare", "compare_async"]

# The router decides in them, so there is nothing to broadcast.
_ROUTED_ONLY = ("learned", "auto")
# They have no contractors, so that it is all the same how these are organised.
_ALONE = ("learned", "single-agent")
_ALONE_WITH: Organisation = "api"


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
    protocols: Sequence[ProtocolName] = cast("Sequence[ProtocolName]", PROTOCOLS),
    announcements: Sequence[Announce] = ("broadcast", "routed"),
    organisations: Sequence[Organisation] = ("api",),
    max_size: int | None = None,
    settings: RoundSettings | None = None,
    limit: int | None = None,
    resume: str | Path | None = None,
    retry_failed: bool = False,
    concurrent_requests: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Hold a round for each request by each method, and average what came of them.

    Of a finished round only its figures are kept, so that memory does not grow with the number of
    messages. An API that comes twice in a mashup counts once.

    A round may fail because of its request: a prompt is longer than the model can take, the manager
    gets no usable answer, or every contractor fails. It is counted, it is left out of the means of
    its method, and the others are held. With five in a row, it is not the requests that are at
    fault: the comparison ends, as it does at once where the set-up or the server is.

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
        ``"learned"`` and ``"auto"`` are routed, whatever `announcements` says. ``"learned"`` and
        ``"single-agent"`` have no contractors: they are asked once, with organisation ``"api"``.
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
    retry_failed : bool, default=False
        Ask again where the round in `resume` failed.
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
        If nothing is left to ask, a name is unknown, a number is out of range, or there is no
        `resume` to retry.
    DataFileError
        If `resume` cannot be used; see `Checkpoint`.
    RoundFailedError, BudgetExceededError
        If a round could not be held for the set-up, the server or the budget, or five in a row
        failed; they name it. What was finished before is in `resume`.
    """
    _check(protocols, announcements, organisations, limit, concurrent_requests)
    if retry_failed and resume is None:
        raise InputError("there is nothing to retry (name the file to resume)")
    settings = settings or RoundSettings()
    known = history.known_to(catalog)
    mashups = list(known[:limit])
    if not mashups:
        raise InputError(
            f"the catalog does not have all the APIs of any of the {len(history)} mashups "
            "(compare on mashups of its APIs)"
        )
    methods = list(_methods(protocols, announcements, organisations))
    nets = {
        name: ContractNet(
            catalog,
            model,
            router=router,
            organisation=cast("Organisation", name),
            max_size=max_size,
            settings=settings,
        )
        for name in dict.fromkeys(method.organise for method in methods)
    }
    with ExitStack() as stack:
        finished: Finished = {}
        checkpoint = None
        if resume is not None:
            facts = fingerprint(catalog, known, model, router, settings, max_size)
            checkpoint = stack.enter_context(Checkpoint(resume, facts))
            finished = finished_in(checkpoint, retry_failed=retry_failed)
        run = ComparisonRun(nets, methods, mashups, finished, checkpoint, progress)
        await run.finish(concurrent_requests)
    return Comparison(
        requests=len(mashups),
        skipped=known.skipped,
        contractors={name: len(net.contractors) for name, net in nets.items()},
        model=model.name,
        is_offline=_is_offline(model),
        tokens_are=run.tokens_are(),
        rows=run.rows(),
    )


def _methods(
    protocols: Iterable[str], announcements: Iterable[str], organisations: Iterable[str]
) -> Iterator[Method]:
    announcements = list(dict.fromkeys(announcements))
    for organise in dict.fromkeys((*organisations, _ALONE_WITH)):
        for protocol in dict.fromkeys(protocols):
            if organise not in (organisations if protocol not in _ALONE else (_ALONE_WITH,)):
                continue
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


def _is_offline(model: ChatModel) -> bool:
    return isinstance(model.innermost, OfflineChatModel)
