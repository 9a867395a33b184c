"""`Round`: sends messages, has contractors bid at the same time and act, keeps time and books."""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cnp_router import telemetry
from cnp_router.agents import ApiEvidence, ProposedApi, SelectApis, Task, ask, evidence_of
from cnp_router.agents.prompts import sendable
from cnp_router.exceptions import (
    BudgetExceededError,
    ExecutionError,
    LanguageModelError,
    ManagerLostError,
    RoundFailedError,
)
from cnp_router.llm import ChatModel
from cnp_router.protocols.acting import Acting, Actor
from cnp_router.protocols.audience import Audience, routed
from cnp_router.protocols.awarding import awards_of, function_of, holder_of, substitutes
from cnp_router.protocols.bidding import Bidding, Invitation, is_lost
from cnp_router.protocols.carried_evidence import carried, with_evidence
from cnp_router.protocols.messages import (
    MANAGER,
    USER,
    Award,
    CallForProposals,
    Message,
    Proposal,
    Rejection,
    Report,
    Request,
)
from cnp_router.protocols.metered import Books, MeteredModel
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.settings import RoundSettings
from cnp_router.protocols.transcript import Transcript
from cnp_router.records import check_instance, one_line, shown
from cnp_router.routing import Routing

__all__ = ["Invitation", "Result", "Round", "as_proposed"]

GROUNDS_TOKENS = 25  # of a proposal, usually
GROUNDS = 4 * GROUNDS_TOKENS  # characters

logger = logging.getLogger("cnp_router.protocols")

Answer = TypeVar("Answer")


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
    substitutes : tuple of str or None, default=None
        Ids of APIs that come next where one that was awarded without an announcement fails, best
        first. By default the others that the router chose.
    """

    apis: tuple[str, ...]
    categories: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None
    routing: Routing | None = None
    substitutes: tuple[str, ...] | None = None

    __repr__ = one_line


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
    date : datetime.date, optional
        The day of the request, for the router.
    actor : Actor, optional
        Who has done what is awarded. Without one, the round ends with the awards.
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
        date: datetime.date | None = None,
        actor: Actor | None = None,
    ) -> None:
        self.request = sendable(request)  # what agents see is what the transcript says
        self.parties = parties
        self.model = model
        self.settings = settings
        self.protocol = protocol
        self.announcement = announcement
        self.date = date
        self.actor = actor
        self.messages: list[Message] = []
        self.books = Books(settings.budget)
        self._evidence: dict[str, ApiEvidence] = {}
        self.bidding = Bidding(model, self.books, settings, parties.catalog.categories, self.send)
        self._began = time.perf_counter()

    async def run(
        self, protocol: Callable[[Round], Coroutine[Any, Any, Result]]
    ) -> tuple[Result, Transcript]:
        """Have a protocol (its `run`) take its steps in the time that there is, act, and report.

        At the end nobody is at work any more, but for a model that cannot be stopped. The time is
        that of the protocol; an actor has its own.

        Raises
        ------
        RoundFailedError
            If the manager's model gives no usable answer, no contractor can be reached, or the
            time is over; with the transcript until then. A ManagerLostError where the model or the
            way to it is at fault, and not the set-up.
        BudgetExceededError
            If what comes next does not fit in the budget; with the transcript until then.
        ExecutionError
            If the actor raised an error; with the transcript, in which what was still open is
            cancelled.
        """
        self.send(Request, sender=USER, receiver=MANAGER, text=self.request)
        work = asyncio.create_task(protocol(self))
        try:
            await asyncio.wait({work}, timeout=self.settings.timeout)
            if not work.done():
                raise ManagerLostError(
                    f"the round took longer than {self.settings.timeout:g} s (raise the timeout "
                    "of the settings, or ask a faster model)"
                )
            result = check_instance("what a protocol returns", work.result(), Result)
            await self._end(work)
            acting = None if self.actor is None else self._acting(result)
        except (BudgetExceededError, RoundFailedError) as exc:
            await self._end(work)
            exc.transcript = self._transcript()
            raise
        finally:
            await self._end(work)
        if self.actor is None or acting is None:
            self._report(result.apis)
        else:
            await self._act(self.actor, acting, result)
        transcript = self._transcript(result)
        if transcript.failure and self.actor is None:  # an actor knows what it has failed
            logger.warning("%s", transcript.failure)
        return result, transcript

    async def audience(self, *, widen: bool = True) -> Audience:
        """Return whom the announcement may reach: the router's choice, or everyone.

        `widen` says whether the manager's model may be asked for categories to widen to, where the
        router is not confident and the settings say so.
        """
        if self.announcement == "broadcast":
            return Audience((), self.parties.contractors)

        async def mapped(task: Any) -> Any:
            return await self.ask(task, stage="fallback")

        ask = mapped if widen else None
        found = await routed(self.request, self.parties, self.settings, ask, self.date)
        if found.routing is not None and self.settings.evidence != "none":
            self._evidence = evidence_of(found.routing)
        return found

    async def ask(
        self,
        task: Task[Answer],
        *,
        stage: str | None = None,
        messages: int = 0,
        cut: tuple[str, ...] = (),
    ) -> Answer:
        """Have the manager (or the single agent) take a reasoning task.

        Parameters
        ----------
        task : Task
        stage : str, optional
            What it is for, in the ledger; by default the stage of the task.
        messages : int, default=0
            How many messages the answer leads to, for the budget.
        cut : tuple of str, default=()
            What was left out of the task to make it fit, for the books.

        Raises
        ------
        RoundFailedError
            If there is no usable answer: without it the round cannot go on.
        BudgetExceededError
            If there is a budget that the question does not fit in.
        """
        agent = MANAGER if task.role == "contractor" else task.role
        model = MeteredModel(
            self.model, self.books, task, agent, stage=stage, messages=self._certain() + messages
        )
        try:
            asked = await ask(model, task, self.settings.limits)
        except LanguageModelError as exc:
            who, steps = agent.replace("-", " "), ", ".join(map(str, task.steps))
            failed = ManagerLostError if is_lost(exc) else RoundFailedError
            raise failed(
                f"the {who} got no answer for the {stage or task.stage}"
                f"{f' (step {steps})' if steps else ''}: {exc}"
            ) from exc
        model.note(tuple(getattr(asked.answer, "hallucinated", ())), (*cut, *asked.cut))
        return asked.answer

    async def announce(self, invitations: Sequence[Invitation], *, wave: int = 1) -> list[Proposal]:
        """Send calls for proposals, and wait for the replies.

        Parameters
        ----------
        invitations : sequence of Invitation
        wave : int, default=1
            The first one begins an announcement, a later one continues it.

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
        if self._evidence:
            known, shown = self._evidence, self.settings.evidence == "everyone"
            invitations = [with_evidence(i, known, for_contractor=shown) for i in invitations]
        self.check_announcement(
            f"an announcement of {len(invitations)} calls for proposals", invitations
        )
        calls = await self.bidding.collect(invitations, wave)
        replies = [m for m in self.messages if getattr(m, "in_reply_to", 0) in calls]
        in_time = [m for m in replies if isinstance(m, Proposal) and not m.late]
        return sorted(in_time, key=lambda proposal: proposal.in_reply_to)

    def check_announcement(
        self, what: str, invitations: Sequence[Invitation], *before: Task[Any]
    ) -> None:
        """Raise BudgetExceededError if an announcement, and what follows it, does not fit in.

        `before` is what the manager has to be asked first.
        """
        if self.settings.budget is None:
            return
        waiting = self._undecided()
        apis = dict.fromkeys(api.id for i in invitations for api in i.contractor.apis)
        every = (*as_proposed(waiting), *(ProposedApi(name) for name in apis))
        evidence = {each.api: each for i in invitations for each in i.evidence}
        known = (*carried(self.messages, as_proposed(waiting)), *evidence.values())
        select = self.selection((), every, (), known)
        tasks = [*before, *(i.task for i in invitations if i.task), select]
        self.books.check(
            what,
            (task.chat_request() for task in tasks),
            # A call, a reply and a decision each.
            messages=self._certain() + len(waiting) + 3 * len(invitations),
            tokens=GROUNDS_TOKENS * len(apis),
        )

    async def select(
        self,
        proposals: Sequence[Proposal],
        functions: tuple[str, ...] = (),
        awarded: tuple[ProposedApi, ...] = (),
    ) -> tuple[str, ...]:
        """Have the manager select among proposals, and decide on each of them.

        Where all that was said at length does not fit in the budget, the grounds are cut, and the
        cut is booked.

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
        proposed = as_proposed(proposals)
        evidence = carried(self.messages, proposed)
        task = self.selection(functions, proposed, awarded, evidence)
        cut: tuple[str, ...] = ()
        for most in (GROUNDS, 0):  # all who bid at length must not cost the round what it has paid
            if self._fits(task, len(proposals)):
                break
            shorter = tuple(replace(each, grounds=each.grounds[:most]) for each in task.proposals)
            task = replace(task, proposals=shorter)
            cut = (f"grounds in the prompt: cut to {most} characters each, for the budget",)
        selected = (await self.ask(task, messages=len(proposals), cut=cut)).apis
        self.decide(proposals, selected)
        return selected

    def selection(
        self,
        functions: tuple[str, ...],
        proposed: tuple[ProposedApi, ...],
        awarded: tuple[ProposedApi, ...],
        evidence: tuple[ApiEvidence, ...],
    ) -> SelectApis:
        """Return the manager's task to select; if grounds are hidden, without words of others."""
        if self.settings.grounds == "hidden":
            proposed = tuple(ProposedApi(each.api) for each in proposed)
            awarded = tuple(ProposedApi(each.api) for each in awarded)
            evidence = tuple(replace(each, reason="") for each in evidence)
        return SelectApis(self.request, functions, proposed, awarded, evidence)

    def decide(self, proposals: Iterable[Proposal], selected: Iterable[str]) -> None:
        """Award selected APIs to the first who proposed each, and reject the other proposals.

        If awards are acted on, each is of one API; and a function for which nothing was awarded
        is awarded to the first who proposed a selected API for it.
        """
        proposals, acted_on = list(proposals), self.actor is not None
        awarded = awards_of(self.messages, proposals, selected, each_function=acted_on)
        for proposal in proposals:
            apis = awarded[proposal.id]
            reply = {"sender": MANAGER, "receiver": proposal.sender, "in_reply_to": proposal.id}
            if not apis:
                self.send(Rejection, **reply)
            elif not acted_on:
                self.send(Award, apis=apis, **reply)
            else:
                for name in apis:
                    self.send(Award, apis=(name,), **reply)

    def _acting(self, result: Result) -> Acting:
        """Return the awards, ready to be acted on; directed ones, if nothing was announced."""
        if not any(isinstance(m, CallForProposals) for m in self.messages):
            for name in result.apis:
                holder = holder_of(self.parties, name)
                way = {"sender": MANAGER, "receiver": holder, "in_reply_to": 1}
                self.send(Award, apis=(name,), **way)
        known = result.candidates
        ranked = result.routing.contractors if result.routing else known or ()
        named = [name for name in ranked if known is None or name in known]
        if result.substitutes is not None:
            named = list(result.substitutes)
        awards = [m for m in self.messages if isinstance(m, Award) and m.sender == MANAGER]
        return Acting(
            self.request,
            [(award, function_of(self.messages, award)) for award in awards],
            substitutes(self.messages, self.parties, self._evidence, named),
            self.send,
            lambda: self._transcript(result),
            sum(isinstance(m, CallForProposals) for m in self.messages),
        )

    async def _act(self, actor: Actor, acting: Acting, result: Result) -> None:
        """Have an actor do what was awarded, and report its results, whatever happens to it."""
        why = "the execution was broken off"
        try:
            await actor.act(acting)
            why = "it was still open when the execution ended"
        except Exception as exc:
            self._end_acting(acting, why)
            if not isinstance(exc, BudgetExceededError | ExecutionError | RoundFailedError):
                problem = f"the execution was broken off by {shown(exc, 300)}"
                raise ExecutionError(problem, self._transcript(result)) from exc
            exc.transcript = self._transcript(result)
            raise
        finally:
            self._end_acting(acting, why)

    def _end_acting(self, acting: Acting, why: str) -> None:
        if isinstance(self.messages[-1], Report):
            return
        acting.close(why)
        results = acting.results
        self._report(dict.fromkeys(each.api for each in results), tuple(r.id for r in results))

    def _report(self, apis: Iterable[str], results: tuple[int, ...] = ()) -> None:
        way = {"sender": MANAGER, "receiver": USER, "in_reply_to": 1}
        self.send(Report, apis=tuple(apis), results=results, **way)

    async def _end(self, work: asyncio.Task[Any]) -> None:
        if not self.books.are_closed:
            self.books.are_closed = True
            await self.bidding.dismiss(work)

    def _transcript(self, result: Result | None = None) -> Transcript:
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
            evidence=self.settings.evidence,
            executed=self.actor is not None,
        )

    def send(self, kind: type[Any], **fields: Any) -> Any:
        """Send a message of some kind, and return it."""
        message = kind(id=len(self.messages) + 1, **fields)
        self.messages.append(message)
        told = {"performative": message.performative, "protocol": self.protocol}
        telemetry.add("cnp_router.messages", 1, told)
        return message

    def _fits(self, task: Task[Any], messages: int) -> bool:
        try:
            self.books.check("", [task.chat_request()], messages=self._certain() + messages)
        except BudgetExceededError:
            return False
        return True

    def _undecided(self) -> list[Proposal]:
        """Return the proposals in time that wait for a decision of the manager."""
        decided = {m.in_reply_to for m in self.messages if isinstance(m, Award | Rejection)}
        proposals = (m for m in self.messages if isinstance(m, Proposal) and not m.late)
        return [m for m in proposals if m.id not in decided and m.receiver == MANAGER]

    def _certain(self) -> int:
        """Return how many messages there will be at least.

        Those still at work get a reply too, and no round ends without a report.
        """
        return len(self.messages) + self.bidding.n_open + 1


def as_proposed(proposals: Iterable[Proposal]) -> tuple[ProposedApi, ...]:
    """Return each proposed API once, with the grounds of all who proposed it."""
    grounds: dict[str, dict[str, None]] = {}
    for proposal in proposals:
        for proposed in proposal.apis:
            grounds.setdefault(proposed.api, {})[proposed.grounds] = None
    return tuple(ProposedApi(api, " ".join(texts)) for api, texts in grounds.items())
