"""The rounds of a comparison: held several at a time, kept, and counted when they fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from cnp_router.evaluation.checkpoint import Checkpoint
from cnp_router.evaluation.comparison import ComparisonRow
from cnp_router.evaluation.comparison_figures import FailedRound, Method, RequestFigures
from cnp_router.exceptions import (
    BudgetExceededError,
    ChatAccessError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
    ChatRateLimitError,
    DataFileError,
    InputError,
    RoundFailedError,
)
from cnp_router.history import Mashup
from cnp_router.protocols import Announcement, ContractNet, Outcome

__all__ = ["FAILURES_IN_A_ROW", "ComparisonRun", "Finished", "Job", "Progress", "finished_in"]

FAILURES_IN_A_ROW = 5
"""So many failed rounds of a method, and it is not the requests that are at fault."""

Progress = Callable[[str, int, int], object]

# They would meet every request alike, and be over once the set-up or the server is.
_NO_FAULT_OF_THE_REQUEST = (
    ChatAccessError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
    ChatRateLimitError,
)


@dataclass(frozen=True, slots=True)
class Job:
    """A request that is to be answered by a method.

    Parameters
    ----------
    method : Method
    request : str
        Id of the mashup.
    """

    method: Method
    request: str


Finished = dict[Job, RequestFigures | FailedRound]


def finished_in(checkpoint: Checkpoint, *, retry_failed: bool) -> Finished:
    """Return what is in a checkpoint, a later record of a round in place of an earlier one.

    Parameters
    ----------
    checkpoint : Checkpoint
        Its records are cleared.
    retry_failed : bool
        Leave out the rounds that failed.

    Returns
    -------
    dict of Job to RequestFigures or FailedRound

    Raises
    ------
    DataFileError
        If a record is none of a comparison; it names the line.
    """
    finished: Finished = {}
    for line, record in checkpoint.records:
        kind = FailedRound if "error" in record else RequestFigures
        try:
            result = kind.from_dict(record)
        except InputError as exc:
            raise DataFileError(
                checkpoint.path, str(exc), line=line, cure="was it altered? name another file"
            ) from exc
        finished[Job(result.method, result.request)] = result
    checkpoint.records.clear()
    if retry_failed:
        return {job: r for job, r in finished.items() if isinstance(r, RequestFigures)}
    return finished


class ComparisonRun:
    """The rounds of a comparison: those that are done, and those that are to be held.

    Parameters
    ----------
    nets : mapping of str to ContractNet
        By organisation.
    methods : sequence of Method
    mashups : sequence of Mashup
    finished : dict of Job to RequestFigures or FailedRound
        What need not be asked again.
    checkpoint : Checkpoint or None
        Where each finished round goes.
    progress : callable or None
    """

    def __init__(
        self,
        nets: Mapping[str, ContractNet],
        methods: Sequence[Method],
        mashups: Sequence[Mashup],
        finished: Finished,
        checkpoint: Checkpoint | None,
        progress: Progress | None,
    ) -> None:
        self.nets = nets
        self.methods = methods
        self.mashups = mashups
        self.checkpoint = checkpoint
        self.progress = progress
        jobs = {Job(method, mashup.id) for method in methods for mashup in mashups}
        self.total = len(jobs)
        self.finished = {job: result for job, result in finished.items() if job in jobs}
        self._failed_in_a_row: Counter[Method] = Counter()

    async def finish(self, concurrent_requests: int) -> None:
        """Hold the rounds that are not held yet, several at a time.

        Raises
        ------
        RoundFailedError
            If a round failed for the set-up or the server, or too many in a row.
        BudgetExceededError
        """
        rounds = (
            self._hold(method, mashup)
            for method in self.methods
            for mashup in self.mashups
            if Job(method, mashup.id) not in self.finished
        )
        await _all_of(rounds, concurrent_requests)

    def rows(self) -> tuple[ComparisonRow, ...]:
        """Return the means, summed in the order of the requests."""
        return tuple(self._row(method) for method in self.methods)

    def tokens_are(self) -> Literal["server", "estimated"]:
        """Return who counted the tokens."""
        results = [r for r in self.finished.values() if isinstance(r, RequestFigures)]
        sources = {figures.tokens_are for figures in results} - {None}
        return "server" if sources == {"server"} else "estimated"

    def _row(self, method: Method) -> ComparisonRow:
        results = [self.finished[Job(method, mashup.id)] for mashup in self.mashups]
        figures = [result for result in results if isinstance(result, RequestFigures)]
        return ComparisonRow.of(method, figures, len(results) - len(figures))

    async def _hold(self, method: Method, mashup: Mashup) -> None:
        where = f"mashup {mashup.id!r}, {method}"
        result: RequestFigures | FailedRound
        try:
            outcome = await self.nets[method.organise].run(
                mashup.description,
                protocol=method.protocol,
                announcement=cast("Announcement", method.announce),
            )
            _check_replies(outcome)
            result = RequestFigures.of(method, mashup, outcome)
        except RoundFailedError as exc:
            if isinstance(exc.__cause__, _NO_FAULT_OF_THE_REQUEST):
                raise RoundFailedError(f"{where}: {exc.problem}", exc.transcript) from exc
            result = FailedRound(method, mashup.id, exc.problem)
        except BudgetExceededError as exc:
            told = BudgetExceededError(f"{where}: {exc.what}", exc.costs, exc.allowed)
            told.transcript = exc.transcript
            raise told from exc
        self._keep(result)
        self._check_failures(result)

    def _keep(self, result: RequestFigures | FailedRound) -> None:
        if self.checkpoint is not None:
            self.checkpoint.add(result.to_dict())
        self.finished[Job(result.method, result.request)] = result
        if self.progress is not None:
            title = f"{result.method.protocol} {result.method.announce}"
            self.progress(title, len(self.finished), self.total)

    def _check_failures(self, result: RequestFigures | FailedRound) -> None:
        """Raise if it is not single requests that fail."""
        if isinstance(result, RequestFigures):
            self._failed_in_a_row[result.method] = 0
            return
        self._failed_in_a_row[result.method] += 1
        if self._failed_in_a_row[result.method] >= FAILURES_IN_A_ROW:
            raise RoundFailedError(
                f"{FAILURES_IN_A_ROW} rounds in a row failed of {result.method}, the last with "
                f"mashup {result.request!r}: {result.error} (leave that protocol or announcement "
                "out, or cure what is at fault and retry what failed)"
            )


def _check_replies(outcome: Outcome) -> None:
    """Raise if every contractor failed: a mean over that would say nothing of the method."""
    ledger = outcome.ledger
    if ledger.every_call_failed:
        reasons = ", ".join(f"{count} {reason}" for reason, count in ledger.failures.items())
        raise RoundFailedError(f"every call for proposals failed ({reasons})", outcome.transcript)


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
