"""`Bidding`: contractors at work at the same time, each in its time, whatever they do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from cnp_router.agents import ApiEvidence, Asked, Bid, Task, ask
from cnp_router.agents.answers import allowed_names
from cnp_router.agents.prompts import sendable
from cnp_router.catalog import Contractor
from cnp_router.exceptions import (
    BudgetExceededError,
    ChatAccessError,
    ChatAnswerError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
    ChatTimeoutError,
    ChatUnavailableError,
    ContextTooLongError,
    InputError,
    LanguageModelError,
    ManagerLostError,
    RoundFailedError,
)
from cnp_router.llm import ChatModel
from cnp_router.protocols.messages import (
    MANAGER,
    CallForProposals,
    Failure,
    FailureReason,
    Proposal,
    Refusal,
)
from cnp_router.protocols.metered import Books, MeteredModel
from cnp_router.protocols.settings import RoundSettings
from cnp_router.records import one_line, shown

__all__ = ["GRACE", "Bidding", "Invitation", "is_lost"]

GRACE = 2.0  # seconds that those who are stopped have to end by themselves

logger = logging.getLogger("cnp_router.protocols")

Answer = TypeVar("Answer")

# They would meet every contractor alike.
_SET_UP_AT_FAULT = (
    ChatAccessError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
)


# Neither the request nor the set-up is at fault: without this model the work may go on.
_LOST = (ChatAnswerError, ChatUnavailableError, ContextTooLongError)

_ERROR: FailureReason = "error"
_REASONS: dict[type[BaseException], FailureReason] = {
    ChatTimeoutError: "timeout",
    ChatAnswerError: "unusable",
    BudgetExceededError: "budget",
}


@dataclass(frozen=True, slots=True)
class Invitation:
    """A task that is to be announced to a contractor.

    Parameters
    ----------
    contractor : Contractor
    task : Task or None
        What the contractor is to reason about; None where it manages a net of its own.
    request, function, category : str or None
        What the call for proposals carries.
    evidence : tuple of ApiEvidence, default=()
        What it carries too: of the contractor's own APIs. `Round.announce` fills it in.
    passed_on : CallForProposals or None, default=None
        The call that its receiver passes on by this one, to a member of its own net; None where the
        manager announces.

    Raises
    ------
    InputError
        If the evidence is of an API that the contractor does not hold.
    """

    contractor: Contractor
    task: Task[Bid] | None
    request: str | None = None
    function: str | None = None
    category: str | None = None
    evidence: tuple[ApiEvidence, ...] = ()
    passed_on: CallForProposals | None = None

    def __post_init__(self) -> None:
        own = {api.id for api in self.contractor.apis} if self.evidence else ()
        for each in self.evidence:
            if each.api not in own:
                raise InputError(
                    f"a call to {self.contractor.id!r} cannot carry evidence of {each.api!r}, "
                    "which another one holds"
                )

    __repr__ = one_line


def is_lost(exc: LanguageModelError) -> bool:
    """Return whether an error means that a model is lost, and not that the set-up is wrong."""
    return isinstance(exc, _LOST)


class Bidding:
    """The announcements of a `Round`, and those who reply to them; `send` is its."""

    def __init__(
        self,
        model: ChatModel,
        books: Books,
        settings: RoundSettings,
        categories: Iterable[str],
        send: Callable[..., Any],
    ) -> None:
        self.model = model
        self.books = books
        self.settings = settings
        self.categories = frozenset(categories)
        self._send = send
        self._now = (0, 0)  # iteration and wave
        self._closed: set[int] = set()  # calls, to which replies are late
        self._open: dict[int, CallForProposals] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._reached = False  # whether any contractor said anything
        self._cause: LanguageModelError | None = None  # why one could not be reached

    @property
    def n_open(self) -> int:
        """How many calls wait for a reply."""
        return len(self._open)

    def open(self, invitation: Invitation) -> CallForProposals:
        """Send a call that its receiver replies to by `reply`, with no deadline.

        It begins an announcement, with those that are opened beside it.
        """
        if not self._open:
            self._now = (self._now[0] + 1, 1)
        call = self._call(invitation, None)
        self._open[call.id] = call
        return call

    def _call(self, invitation: Invitation, deadline: float | None) -> CallForProposals:
        before = invitation.passed_on
        call: CallForProposals = self._send(
            CallForProposals,
            sender=MANAGER if before is None else before.receiver,
            receiver=invitation.contractor.id,
            request=invitation.request,
            function=invitation.function,
            category=invitation.category,
            reply_by=None if deadline is None else float(deadline),
            iteration=self._now[0],
            wave=self._now[1],
            evidence=invitation.evidence,
            in_reply_to=None if before is None else before.id,
            for_members=invitation.task is None,
        )
        return call

    async def collect(self, invitations: Sequence[Invitation], wave: int) -> set[int]:
        """Send calls, and have contractors work until all replied or the deadline is over.

        The first wave begins an iteration; calls that are passed on belong to that of the others.
        Returns the ids of the calls. Raises RoundFailedError if it is the way to all the
        contractors that failed, and not they themselves.
        """
        if all(invitation.passed_on is None for invitation in invitations):
            self._now = (self._now[0] + (wave == 1), wave)
        deadline = self.settings.deadline
        calls = [(self._call(each, deadline), each.task) for each in invitations if each.task]
        own = {call.id: call for call, _ in calls}
        self._open |= own
        queue = iter(calls)
        left = await self.work((partial(self._bid, *each) for each in queue), len(calls), deadline)
        if left:
            self._closed.update(own)
            for call, _ in queue:
                self.fail(call, "deadline", "the deadline passed before its turn came")
        # What was proposed or awarded after a first announcement is not lost with a second one.
        is_over = own.keys().isdisjoint(self._open)
        if own and self._now == (1, 1) and self._cause and not self._reached and is_over:
            asked = len({invitation.contractor.id for invitation in invitations})
            failed = ManagerLostError if is_lost(self._cause) else RoundFailedError
            raise failed(
                f"not one of {asked} contractors could be reached: {self._cause}"
            ) from self._cause
        return set(own)

    async def work(
        self,
        jobs: Iterator[Callable[[], Coroutine[Any, Any, object]]],
        n: int,
        deadline: float | None = None,
    ) -> bool:
        """Do `n` jobs, as many at a time as the settings allow; True if some were late.

        What is begun by then goes on, until `dismiss`.
        """

        async def worker() -> None:
            for job in jobs:
                await job()

        size = min(self.settings.max_concurrency, n)
        workers = {asyncio.create_task(worker()) for _ in range(size)}
        if not workers:
            return False
        self._workers |= workers
        done, pending = await asyncio.wait(
            workers, timeout=deadline, return_when=asyncio.FIRST_EXCEPTION
        )
        for each in done:
            each.result()
        self._workers -= done
        return bool(pending)

    async def _bid(self, call: CallForProposals, task: Task[Bid]) -> None:
        """Have a contractor reply."""
        asked = await self.ask(call, task)
        if asked is not None:
            self.reply(call, asked.answer)

    async def ask(
        self, call: CallForProposals, task: Task[Answer], **how: Any
    ) -> Asked[Answer] | None:
        """Have who is called take a task; whatever goes wrong with it ends here, as a message.

        None then: the call has its reply. `how` is for the `MeteredModel`.
        """
        model = MeteredModel(self.model, self.books, task, call.receiver, cfp=call.id, **how)
        limit = asyncio.timeout(self.settings.bid_timeout)
        try:
            async with limit:
                asked = await ask(model, task, self.settings.limits)
        except InputError:  # the set-up is at fault, not the contractor
            raise
        except (Exception, asyncio.CancelledError) as exc:
            worker = asyncio.current_task()
            if isinstance(exc, asyncio.CancelledError) and worker and worker.cancelling():
                raise
            if limit.expired():
                self.fail(call, "timeout", f"no reply within {self.settings.bid_timeout} s")
            else:
                self._fail_by(call, exc)
            return None
        hallucinated = tuple(getattr(asked.answer, "hallucinated", ()))
        if isinstance(asked.answer, Bid):
            hallucinated += allowed_names(asked.answer.categories, self.categories)[1]
        model.note(hallucinated, asked.cut)
        return asked

    def reply(self, call: CallForProposals, bid: Bid) -> None:
        """Reply to a call: propose what is bid, or refuse."""
        categories, _ = allowed_names(bid.categories, self.categories)
        self._open.pop(call.id)
        self._reached = True
        reply = {
            "sender": call.receiver,
            "receiver": call.sender,
            "in_reply_to": call.id,
            "late": call.id in self._closed,
        }
        if bid.apis:
            self._send(
                Proposal, apis=bid.apis, functions=bid.functions, categories=categories, **reply
            )
        else:
            self._send(Refusal, grounds=bid.grounds, **reply)

    def _fail_by(self, call: CallForProposals, exc: BaseException) -> None:
        """Let a contractor fail by an error."""
        reasons = (name for kind, name in _REASONS.items() if isinstance(exc, kind))
        reason = next(reasons, _ERROR)
        self._reached |= reason == "unusable"
        try:
            text = str(exc)
        except Exception:  # somebody else's error may do anything
            text = "its error cannot be shown"
        if isinstance(exc, _SET_UP_AT_FAULT):
            self._cause = exc
        elif not isinstance(exc, LanguageModelError | BudgetExceededError):
            logger.warning("contractor %r failed: %s", call.receiver, shown(exc, 300))
            text = f"{type(exc).__name__}: {text}"
        self.fail(call, reason, text)

    def fail(self, call: CallForProposals, reason: FailureReason, error: str) -> None:
        """Reply to a call by a failure."""
        self._open.pop(call.id)
        self._send(
            Failure,
            sender=call.receiver,
            receiver=call.sender,
            in_reply_to=call.id,
            reason=reason,
            error=self.settings.limits.cut_error(sendable(error)),
        )

    async def dismiss(self, manager: asyncio.Task[Any]) -> None:
        """Stop all who are still at work; what contractors have not said is a failure."""
        await _stop({manager, *self._workers})
        for call in list(self._open.values()):
            self.fail(call, "deadline", "no reply by the end of the round")


async def _stop(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait a short while; those that do not end then are left, and logged."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # not unheard
    at_work = {task for task in tasks if not task.done()}
    if not at_work:
        return
    try:
        _, left = await asyncio.wait(at_work, timeout=GRACE)
    except asyncio.CancelledError:  # who waits is stopped too, but they go first
        await asyncio.wait(at_work, timeout=GRACE)
        raise
    if left:
        logger.warning(
            "%d of %d tasks did not stop within %g s, and were left (does the model's class hold "
            "back asyncio.CancelledError?)",
            *(len(left), len(at_work), GRACE),
        )
