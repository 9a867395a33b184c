"""`Round`: sends messages, has contractors bid at the same time, keeps time and books."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cnp_router.agents import Asked, Bid, ProposedApi, SelectApis, Task, ask
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
    InputError,
    LanguageModelError,
    RoundFailedError,
)
from cnp_router.llm import ChatModel
from cnp_router.protocols.audience import Audience, broadcast, routed
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
from cnp_router.protocols.metered import Books, MeteredModel
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.settings import RoundSettings
from cnp_router.protocols.transcript import Transcript
from cnp_router.records import check_instance
from cnp_router.routing import Routing

__all__ = ["Invitation", "Result", "Round", "as_proposed"]

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Result:
    """What a protocol comes to.

    Parameters
    ----------
    apis : tuple of str
        Ids of the recommended APIs; where anything was announced, those that were awarded.
    categories : tuple of str or None, default=None
        After category mapping, if there is such a step.
    candidates : tuple of str or None, default=None
        Ids after API matching, where no proposals say them.
    routing : Routing or None, default=None
        What the router decided, if it was asked.
    """

    apis: tuple[str, ...]
    categories: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None
    routing: Routing | None = None


class Round:
    """One request on its way through the Contract Net. Protocols lead it by these methods.

    Parameters
    ----------
    request : str
    parties : Parties
        Catalog, contractors and router.
    model : ChatModel
        Of the manager and of every contractor.
    settings : RoundSettings
    protocol, announcement : str
        For the transcript; `audience` is by the announcement.

    Attributes
    ----------
    request : str
        As it is sent.
    messages : list of Message
        Sent so far.
    books : Books
        Of the model calls so far.
    """

    def __init__(
        self,
        request: str,
        *,
        parties: Parties,
        model: ChatModel,
        settings: RoundSettings,
        protocol: str,
        announcement: str,
    ) -> None:
        self.request = sendable(request)  # what agents see is what the transcript says
        self.parties = parties
        self.model = model
        self.settings = settings
        self.protocol = protocol
        self.announcement = announcement
        self.messages: list[Message] = []
        self.books = Books(settings.budget)
        self._categories = frozenset(parties.catalog.categories)
        self._iterations = 0
        self._closed: set[int] = set()
        self._open: dict[int, CallForProposals] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._unreachable: dict[int, LanguageModelError] = {}
        self._began = time.perf_counter()

    async def hold(self, run: Callable[[Round], Awaitable[Result]]) -> tuple[Result, Transcript]:
        """Have a protocol take its steps in the time that there is, and report what it comes to.

        At the end no contractor is at work any more.

        Parameters
        ----------
        run : callable
            `Protocol.run`.

        Raises
        ------
        RoundFailedError
            If the manager's model gives no usable answer, no contractor can be reached, or the
            time is over; with the transcript until then.
        BudgetExceededError
            If what comes next does not fit in the budget; with the transcript until then.
        """
        self._send(Request, sender=USER, receiver=MANAGER, text=self.request)
        limit = asyncio.timeout(self.settings.timeout)
        try:
            async with limit:
                result = check_instance("what a protocol returns", await run(self), Result)
        except (BudgetExceededError, RoundFailedError) as exc:
            await self._dismiss()
            exc.transcript = self.transcript()
            raise
        except TimeoutError as exc:
            if not limit.expired():
                raise
            await self._dismiss()
            raise RoundFailedError(
                f"the round took longer than {self.settings.timeout:g} s (raise the timeout of "
                "the settings, or ask a faster model)",
                self.transcript(),
            ) from exc
        finally:
            await self._dismiss()
        self._warn_of_failures()
        self._send(Report, sender=MANAGER, receiver=USER, in_reply_to=1, apis=result.apis)
        return result, self.transcript(result)

    async def audience(self, *, widen: bool = True) -> Audience:
        """Return whom the announcement may reach: the router's choice, or everyone.

        Parameters
        ----------
        widen : bool, default=True
            Whether the manager's model may be asked for categories to widen to, where the router
            is not confident and the settings say so.
        """
        if self.announcement == "broadcast":
            return broadcast(self.parties)

        async def mapped(task: Any) -> Any:
            return await self.ask(task, stage="fallback")

        return await routed(self.request, self.parties, self.settings, mapped if widen else None)

    async def ask(
        self, task: Task[Answer], *, stage: str | None = None, messages: int = 0
    ) -> Answer:
        """Have the manager (or the single agent) take a reasoning task.

        Parameters
        ----------
        task : Task
        stage : str, optional
            What it is for, in the ledger; by default the stage of the task.
        messages : int, default=0
            How many messages the answer leads to, for the budget.

        Returns
        -------
        Decomposition, CategoryMapping, ApiSelection or Composition

        Raises
        ------
        RoundFailedError
            If there is no usable answer: without it the round cannot go on.
        BudgetExceededError
            If there is a budget that the question does not fit in.
        """
        agent = MANAGER if task.role == "contractor" else task.role
        who, stage = f"the {agent.replace('-', ' ')}", stage or task.stage
        model = self._metered(
            task, f"the {stage} of {who}", stage, agent, messages=self._certain() + messages
        )
        try:
            asked = await ask(model, task, self.settings.limits)
        except LanguageModelError as exc:
            steps = ", ".join(map(str, task.steps))
            raise RoundFailedError(
                f"{who} got no answer for the {stage}{f' (step {steps})' if steps else ''}: {exc}"
            ) from exc
        model.note(tuple(getattr(asked.answer, "hallucinated", ())), asked.cut)
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
        InputError
            If the model is of a class that does not do what a `ChatModel` has to.
        """
        self.check_announcement(
            f"an announcement of {len(invitations)} calls for proposals", invitations
        )
        self._iterations += 1
        calls = [(self._call(invitation), invitation.task) for invitation in invitations]
        await self._collect(calls)
        sent = {call.id for call, _ in calls}
        replies = [m for m in self.messages if getattr(m, "in_reply_to", 0) in sent]
        failures = [m for m in replies if isinstance(m, Failure)]
        if len(failures) == len(calls):
            self._check_reached(failures)
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
        self.books.check(
            what,
            (task.chat_request() for task in tasks),
            messages=self._certain() + 3 * len(invitations),  # a call, a reply, a decision each
            tokens=GROUNDS_TOKENS * len(every),
        )

    async def select(
        self,
        proposals: Sequence[Proposal],
        functions: tuple[str, ...] = (),
        awarded: tuple[ProposedApi, ...] = (),
    ) -> tuple[str, ...]:
        """Have the manager select among proposals, and decide on each of them.

        Parameters
        ----------
        proposals : sequence of Proposal
        functions : tuple of str, default=()
            Of the request, if they are known.
        awarded : tuple of ProposedApi, default=()
            What is awarded already.

        Returns
        -------
        tuple of str
            Ids of the awarded APIs; none where there is no proposal, and nobody is asked.
        """
        if not proposals:
            return ()
        task = SelectApis(self.request, functions, as_proposed(proposals), awarded)
        selected = (await self.ask(task, messages=len(proposals))).apis
        self.decide(proposals, selected)
        return selected

    def decide(self, proposals: Iterable[Proposal], selected: Iterable[str]) -> None:
        """Award the selected APIs to the first who proposed each, and reject all other proposals.

        Parameters
        ----------
        proposals : iterable of Proposal
        selected : iterable of str
            Ids of APIs.
        """
        left = dict.fromkeys(selected)
        for proposal in proposals:
            apis = tuple(p.api for p in proposal.apis if p.api in left)
            for name in apis:
                del left[name]
            reply = {"sender": MANAGER, "receiver": proposal.sender, "in_reply_to": proposal.id}
            if apis:
                self._send(Award, apis=apis, **reply)
            else:
                self._send(Rejection, **reply)

    def transcript(self, result: Result | None = None) -> Transcript:
        """Return the transcript so far, or of the whole round if there is a result."""
        return Transcript(
            self.request,
            self.protocol,
            self.announcement,
            self.model.name,
            tuple(self.messages),
            tuple(self.books.calls),
            None if result is None else result.categories,
            None if result is None else result.candidates,
            time.perf_counter() - self._began,
        )

    def _send(self, kind: type[Any], **fields: Any) -> Any:
        message = kind(id=len(self.messages) + 1, **fields)
        self.messages.append(message)
        return message

    def _metered(
        self, task: Task[Any], what: str, stage: str, agent: str, **more: Any
    ) -> MeteredModel:
        who: dict[str, Any] = {
            "agent": agent,
            "role": task.role,
            "stage": stage,
            "steps": task.steps,
        }
        return MeteredModel(self.model, self.books, what, **who, **more)

    def _certain(self) -> int:
        """Return how many messages there will be at least.

        Those still at work get a reply too, and no round ends without a report.
        """
        return len(self.messages) + len(self._open) + 1

    def _call(self, invitation: Invitation) -> CallForProposals:
        deadline = self.settings.deadline
        call: CallForProposals = self._send(
            CallForProposals,
            sender=MANAGER,
            receiver=invitation.contractor.id,
            request=invitation.request,
            function=invitation.function,
            category=invitation.category,
            reply_by=None if deadline is None else float(deadline),
            iteration=self._iterations,
        )
        self._open[call.id] = call
        return call

    async def _collect(self, calls: Sequence[tuple[CallForProposals, Task[Bid]]]) -> None:
        """Have contractors work until all have replied, or the deadline is over."""
        queue = iter(calls)

        async def work() -> None:
            for call, task in queue:
                await self._bid(call, task)

        size = min(self.settings.max_concurrency, len(calls))
        workers = {asyncio.create_task(work()) for _ in range(size)}
        if not workers:
            return
        self._workers |= workers
        done, pending = await asyncio.wait(
            workers, timeout=self.settings.deadline, return_when=asyncio.FIRST_EXCEPTION
        )
        for worker in done:
            worker.result()
        self._workers -= done
        if pending:
            self._closed.add(self._iterations)
            for call, _ in queue:
                self._fail(call, "deadline", "the deadline passed before its turn came")

    async def _bid(self, call: CallForProposals, task: Task[Bid]) -> None:
        """Have a contractor reply. Whatever goes wrong with it ends here, as a message."""
        what = f"the bid of {call.receiver!r}"
        model = self._metered(task, what, task.stage, call.receiver, cfp=call.id)
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
                self._fail(call, "timeout", f"no reply within {self.settings.bid_timeout} s")
            else:
                self._fail_by(call, exc)
            return
        self._reply(call, asked, model)

    def _reply(self, call: CallForProposals, asked: Asked[Bid], model: MeteredModel) -> None:
        bid = asked.answer
        categories, no_categories = allowed_names(bid.categories, self._categories)
        model.note((*bid.hallucinated, *no_categories), asked.cut)
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

    def _fail_by(self, call: CallForProposals, exc: BaseException) -> None:
        """Let a contractor fail by an error."""
        reason: FailureReason = "error"
        if isinstance(exc, ChatTimeoutError):
            reason = "timeout"
        elif isinstance(exc, ChatAnswerError):
            reason = "unusable"
        elif isinstance(exc, BudgetExceededError):
            reason = "budget"
        elif isinstance(exc, _SET_UP_AT_FAULT):
            self._unreachable[call.id] = exc
        elif not isinstance(exc, LanguageModelError):
            logger.warning("contractor %r failed: %r", call.receiver, exc)
            self._fail(call, reason, f"{type(exc).__name__}: {exc}")
            return
        self._fail(call, reason, str(exc))

    def _fail(self, call: CallForProposals, reason: FailureReason, error: str) -> None:
        self._open.pop(call.id)
        self._send(
            Failure,
            sender=call.receiver,
            receiver=MANAGER,
            in_reply_to=call.id,
            reason=reason,
            error=self.settings.limits.cut_error(sendable(error)),
        )

    def _check_reached(self, failures: Sequence[Failure]) -> None:
        """Raise if it is the way to the contractors that failed, and not they themselves."""
        at_fault = [self._unreachable.get(failure.in_reply_to) for failure in failures]
        cause = next((exc for exc in at_fault if exc is not None), None)
        reached = any(failure.reason == "unusable" for failure in failures)
        # What was awarded after a first announcement is not lost with a second one.
        if cause is not None and not reached and self._iterations == 1:
            asked = len({failure.sender for failure in failures})
            raise RoundFailedError(
                f"not one of {asked} contractors could be reached: {cause}"
            ) from cause

    def _warn_of_failures(self) -> None:
        failures = [message for message in self.messages if isinstance(message, Failure)]
        n_calls = sum(isinstance(message, CallForProposals) for message in self.messages)
        if failures and len(failures) == n_calls:
            logger.warning(
                "every call for proposals failed (%d); the first: %s",
                len(failures),
                failures[0].error,
            )

    async def _dismiss(self) -> None:
        """Stop those who are still at work; what they have not said is a failure."""
        workers, self._workers = self._workers, set()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        for call in list(self._open.values()):
            self._fail(call, "deadline", "no reply by the end of the round")


def as_proposed(proposals: Iterable[Proposal]) -> tuple[ProposedApi, ...]:
    """Return each proposed API once, with the grounds of all who proposed it."""
    grounds: dict[str, dict[str, None]] = {}
    for proposal in proposals:
        for proposed in proposal.apis:
            grounds.setdefault(proposed.api, {})[proposed.grounds] = None
    return tuple(ProposedApi(api, " ".join(texts)) for api, texts in grounds.items())
