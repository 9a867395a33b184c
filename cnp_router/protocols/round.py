"""The engine of a round: sends messages, has contractors bid at the same time, keeps the books."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from cnp_router.agents import Bid, ProposedApi, SelectApis, Task, ask
from cnp_router.agents.answers import kept
from cnp_router.agents.prompts import sendable
from cnp_router.catalog import Catalog, Contractor
from cnp_router.exceptions import (
    BudgetExceededError,
    ChatAccessError,
    ChatAnswerError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
    ChatTimeoutError,
    LanguageModelError,
    RoundFailedError,
)
from cnp_router.llm import ChatModel
from cnp_router.protocols.accounts import Accounts
from cnp_router.protocols.ledger import Stage
from cnp_router.protocols.messages import (
    MANAGER,
    USER,
    Award,
    CallForProposals,
    Failure,
    FailureReason,
    Message,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
)
from cnp_router.protocols.settings import RoundSettings
from cnp_router.protocols.transcript import Transcript

__all__ = ["Invitation", "Round", "as_proposed"]

# They would meet every contractor alike.
_SET_UP_AT_FAULT = (
    ChatAccessError,
    ChatConnectionError,
    ChatDisallowedError,
    ChatModelUnknownError,
)

GROUNDS_TOKENS = 25  # of a proposal, usually

logger = logging.getLogger("cnp_router.protocols")

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """A task that is to be announced to a contractor.

    Parameters
    ----------
    contractor : Contractor
    task : Task
        What the contractor is to reason about.
    request, function, category : str or None
        What the call for proposals carries.
    """

    contractor: Contractor
    task: Task[Bid]
    request: str | None = None
    function: str | None = None
    category: str | None = None


class Round:
    """One request on its way through the Contract Net.

    It is an asynchronous context manager: at its end no contractor is at work any more.

    Parameters
    ----------
    request : str
    model : ChatModel
        Of the manager and of every contractor.
    catalog : Catalog
    settings : RoundSettings
    protocol, announcement : str
        For the transcript.
    """

    def __init__(
        self,
        request: str,
        *,
        model: ChatModel,
        catalog: Catalog,
        settings: RoundSettings,
        protocol: str,
        announcement: str,
    ) -> None:
        self.request = sendable(request)  # what agents see is what the transcript says
        self.model = model
        self.catalog = catalog
        self.settings = settings
        self.protocol = protocol
        self.announced_as = announcement
        self.messages: list[Message] = []
        self.accounts = Accounts(settings.budget)
        self.categories: tuple[str, ...] | None = None
        self.candidates: tuple[str, ...] | None = None
        self._categories_known = frozenset(catalog.categories)
        self._announcements = 0
        self._closed: set[int] = set()
        self._open: dict[int, CallForProposals] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._unreachable: dict[int, LanguageModelError] = {}
        self._began = time.perf_counter()

    async def __aenter__(self) -> Self:
        self._send(Request, sender=USER, receiver=MANAGER, text=self.request)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._dismiss()

    async def ask(self, task: Task[Answer], stage: Stage, *, messages: int = 0) -> Answer:
        """Have the manager (or the single agent) take a reasoning task.

        Parameters
        ----------
        task : Task
        stage : str
            What it is for, in the ledger.
        messages : int, default=0
            How many messages the answer leads to, for the budget.

        Returns
        -------
        Decomposition, CategoryMapping, Selection or Composition

        Raises
        ------
        RoundFailedError
            If there is no usable answer: without it the round cannot go on.
        BudgetExceededError
            If there is a budget that the question does not fit in.
        """
        agent = "single-agent" if task.role == "single-agent" else MANAGER
        step = f"step {'+'.join(map(str, task.steps))}"
        self._check_budget(f"{step} of the {agent}", [task], messages)
        try:
            asked = await ask(self.model, task)
        except LanguageModelError as exc:
            self.accounts.book_failed(exc, task, stage, agent)
            raise RoundFailedError(
                f"the {agent} got no answer for {step}: {exc}", self.transcript()
            ) from exc
        hallucinated = tuple(getattr(asked.answer, "hallucinated", ()))
        self.accounts.book(asked.response, task, stage, agent, hallucinated=hallucinated)
        return asked.answer

    async def announce(self, invitations: Sequence[Invitation]) -> list[Proposal]:
        """Send calls for proposals, and wait for the replies.

        Parameters
        ----------
        invitations : sequence of Invitation

        Returns
        -------
        list of Proposal
            Those that came in time, in the order of the calls.

        Raises
        ------
        RoundFailedError
            If not one contractor could be reached, for the set-up or the server is at fault.
        BudgetExceededError
            If there is a budget that the announcement does not fit in.
        """
        self.check_announcement(
            f"an announcement of {len(invitations)} calls for proposals", invitations
        )
        self._announcements += 1
        number = self._announcements
        calls = [(self._call(invitation, number), invitation.task) for invitation in invitations]
        await self._collect(calls, number)
        sent = {call.id for call, _ in calls}
        replies = [m for m in self.messages if _answers(m, sent)]
        if sum(isinstance(m, Failure) for m in replies) == len(calls) > 0:
            self._check_failures([m for m in replies if isinstance(m, Failure)])
        in_time = [m for m in replies if isinstance(m, Proposal) and not m.late]
        return sorted(in_time, key=lambda proposal: proposal.in_reply_to)

    def check_announcement(
        self, what: str, invitations: Sequence[Invitation], *before: Task[Any]
    ) -> None:
        """Raise BudgetExceededError if an announcement, and what follows it, does not fit in.

        Parameters
        ----------
        what : str
        invitations : sequence of Invitation
        *before : Task
            What the manager has to be asked first.
        """
        if self.settings.budget is None:
            return
        apis = dict.fromkeys(api for i in invitations for api in i.contractor.apis)
        every = tuple(ProposedApi(api.id) for api in apis)
        tasks = [*before, *(i.task for i in invitations), SelectApis(self.request, (), every)]
        # A call, a reply and a decision each.
        self._check_budget(what, tasks, 3 * len(invitations), GROUNDS_TOKENS * len(every))

    def decide(self, proposals: Iterable[Proposal], chosen: Iterable[str]) -> None:
        """Award the chosen APIs to the first who proposed each, and reject all other proposals.

        Parameters
        ----------
        proposals : iterable of Proposal
        chosen : iterable of str
            Ids of APIs.
        """
        left = dict.fromkeys(chosen)
        for proposal in proposals:
            apis = tuple(p.api for p in proposal.apis if p.api in left)
            for name in apis:
                del left[name]
            reply = {"sender": MANAGER, "receiver": proposal.sender, "in_reply_to": proposal.id}
            if apis:
                self._send(Award, apis=apis, **reply)
            else:
                self._send(Rejection, **reply)

    async def report(self, apis: Iterable[str]) -> Transcript:
        """End the round: tell the user the result.

        Parameters
        ----------
        apis : iterable of str

        Returns
        -------
        Transcript
        """
        await self._dismiss()
        failures = [message for message in self.messages if isinstance(message, Failure)]
        n_calls = sum(isinstance(message, CallForProposals) for message in self.messages)
        if failures and len(failures) == n_calls:
            logger.warning(
                "every call for proposals failed (%d); the first: %s",
                len(failures),
                failures[0].error,
            )
        self._send(Report, sender=MANAGER, receiver=USER, in_reply_to=1, apis=tuple(apis))
        return self.transcript()

    def transcript(self) -> Transcript:
        """Return the transcript so far."""
        return Transcript(
            self.request,
            self.protocol,
            self.announced_as,
            self.model.name,
            tuple(self.messages),
            tuple(self.accounts.calls),
            self.categories,
            self.candidates,
            time.perf_counter() - self._began,
        )

    def _send(self, kind: type[Any], **fields: Any) -> Any:
        message = kind(id=len(self.messages) + 1, **fields)
        self.messages.append(message)
        return message

    def _call(self, invitation: Invitation, number: int) -> CallForProposals:
        call: CallForProposals = self._send(
            CallForProposals,
            sender=MANAGER,
            receiver=invitation.contractor.id,
            request=invitation.request,
            function=invitation.function,
            category=invitation.category,
            reply_by=self.settings.deadline,
            iteration=number,
        )
        self._open[call.id] = call
        return call

    async def _collect(
        self, calls: Sequence[tuple[CallForProposals, Task[Bid]]], number: int
    ) -> None:
        queue = iter(calls)

        async def work() -> None:
            for call, task in queue:
                await self._bid(call, task)

        size = min(self.settings.max_concurrency, len(calls))
        workers = {asyncio.create_task(work()) for _ in range(size)}
        self._workers |= workers
        if not workers:
            return
        done, pending = await asyncio.wait(workers, timeout=self.settings.deadline)
        for worker in done:
            worker.result()
        self._workers -= done
        if pending:
            self._closed.add(number)
            for call, _ in queue:
                self._fail(call, "deadline", "the deadline passed before its turn came")

    async def _bid(self, call: CallForProposals, task: Task[Bid]) -> None:
        """Have a contractor reply. Whatever goes wrong with it ends here, as a message."""
        limit = asyncio.timeout(self.settings.bid_timeout)
        try:
            async with limit:
                asked = await ask(self.model, task)
        except LanguageModelError as exc:
            self.accounts.book_failed(exc, task, "bid", call.receiver, cfp=call.id)
            if isinstance(exc, _SET_UP_AT_FAULT):
                self._unreachable[call.id] = exc
            self._fail(call, _reason(exc), str(exc))
            return
        except (Exception, asyncio.CancelledError) as exc:  # it never takes the round down
            worker = asyncio.current_task()
            at_an_end = isinstance(exc, asyncio.CancelledError) and worker and worker.cancelling()
            if at_an_end or limit.expired():
                self.accounts.book_unanswered(task, "bid", call.receiver, cfp=call.id)
            if at_an_end:
                raise
            if limit.expired():
                self._fail(call, "timeout", f"no reply within {self.settings.bid_timeout} s")
                return
            logger.warning("contractor %r failed: %r", call.receiver, exc)
            self._fail(call, "error", f"{type(exc).__name__}: {exc}")
            return
        bid = asked.answer
        categories, no_categories = kept(bid.categories, self._categories_known)
        hallucinated = (*bid.hallucinated, *no_categories)
        self.accounts.book(
            asked.response, task, "bid", call.receiver, cfp=call.id, hallucinated=hallucinated
        )
        self._open.pop(call.id)
        reply = {
            "sender": call.receiver,
            "receiver": MANAGER,
            "in_reply_to": call.id,
            "late": call.iteration in self._closed,
        }
        if bid.apis:
            self._send(
                Proposal, apis=bid.apis, functions=bid.functions, categories=categories, **reply
            )
        else:
            self._send(Refusal, grounds=bid.grounds, **reply)

    def _check_failures(self, failures: Sequence[Failure]) -> None:
        """Raise if it is the way to the contractors that failed, and not they themselves."""
        at_fault = [self._unreachable.get(failure.in_reply_to) for failure in failures]
        cause = next((exc for exc in at_fault if exc is not None), None)
        reached = any(failure.reason == "unusable" for failure in failures)
        # What was awarded after a first announcement is not lost with a second one.
        if cause is not None and not reached and self._announcements == 1:
            raise RoundFailedError(
                f"not one of {len(failures)} contractors could be reached: {cause}",
                self.transcript(),
            ) from cause

    def _fail(self, call: CallForProposals, reason: FailureReason, error: str) -> None:
        self._open.pop(call.id)
        self._send(
            Failure,
            sender=call.receiver,
            receiver=MANAGER,
            in_reply_to=call.id,
            reason=reason,
            error=sendable(error),
        )

    async def _dismiss(self) -> None:
        """Stop those who are still at work; what they have not said is a failure."""
        workers, self._workers = self._workers, set()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        for call in list(self._open.values()):
            self._fail(call, "deadline", "no reply by the end of the round")

    def _check_budget(
        self, what: str, tasks: Sequence[Task[Any]], messages: int, tokens: int = 0
    ) -> None:
        # Those still at work get a reply too, and no round ends without a report.
        certain = len(self.messages) + len(self._open) + 1
        try:
            self.accounts.check_budget(what, tasks, messages=certain + messages, tokens=tokens)
        except BudgetExceededError as exc:
            exc.transcript = self.transcript()
            raise


def _answers(message: Message, calls: set[int]) -> bool:
    return isinstance(message, (Proposal, Refusal, Failure)) and message.in_reply_to in calls


def _reason(exc: LanguageModelError) -> FailureReason:
    if isinstance(exc, ChatTimeoutError):
        return "timeout"
    return "unusable" if isinstance(exc, ChatAnswerError) else "error"


def as_proposed(proposals: Iterable[Proposal]) -> tuple[ProposedApi, ...]:
    """Return each proposed API once, with the grounds of all who proposed it."""
    grounds: dict[str, dict[str, None]] = {}
    for proposal in proposals:
        for proposed in proposal.apis:
            grounds.setdefault(proposed.api, {})[proposed.grounds] = None
    return tuple(ProposedApi(api, " ".join(texts)) for api, texts in grounds.items())
