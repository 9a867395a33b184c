"""Hierarchical: the manager calls category managers, and each of these calls its members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

from cnp_router.agents import Bid, InterpretRequest
from cnp_router.catalog import Api, Contractor
from cnp_router.exceptions import InputError
from cnp_router.protocols.announcing import Announcing
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.carried_evidence import carried
from cnp_router.protocols.contractor_led import ContractorLed
from cnp_router.protocols.messages import (
    CATEGORY_MANAGER,
    Award,
    CallForProposals,
    Failure,
    Proposal,
    Rejection,
)
from cnp_router.protocols.negotiation import announce_again
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Invitation, Result, Round, as_proposed
from cnp_router.records import shown

__all__ = ["Hierarchical"]

Members = Literal["recipients", "category"]

_NOTHING = "None of my members proposes anything."


class Hierarchical(Protocol):
    """A contractor for each category manages a net of its own: the contractors in it.

    The manager calls category managers. Each passes the call on to its members, chooses among what
    they propose, and proposes that. What it is awarded it awards to the member that proposed it. In
    a broadcast, a category manager first looks whether its category could serve the request, by
    what its members say of themselves in short, and refuses if not. A single category manager need
    not look; and where a single API is proposed to one, it chooses without a model.

    Category managers are not among the contractors of a net: contractors are grouped by the main
    category of their first API. A deadline is that of the members. There are no waves; a second
    announcement goes from the manager to the contractors themselves. Where awards are acted on, a
    category manager answers for its members: results and failures are its messages.

    Parameters
    ----------
    members : {"recipients", "category"}, default="recipients"
        To whom a routed call is passed on: the contractors that the router chose, or all those in
        the categories of these.

    Raises
    ------
    InputError
        If `members` is unknown.

    Examples
    --------
    >>> from cnp_router import ContractNet, load_sample, offline_model
    >>> catalog = load_sample().catalog
    >>> net = ContractNet(catalog, offline_model(catalog))
    >>> request = "Send me a text message when it rains."
    >>> outcome = net.run_sync(request, protocol="hierarchical", announcement="broadcast")
    >>> calls = [m for m in outcome.transcript.messages if m.performative == "cfp"]
    >>> calls[0].receiver, calls[-1].sender, len(outcome.recipients), outcome.n_contractors
    ('manager of Mapping', 'manager of Language', 35, 149)
    """

    name = "hierarchical"
    summary = "Category managers pass the request on to their members, and propose the best."
    manager = "4"
    contractors = "1, 2, 3; category managers 4 among theirs"
    carries = "the request"
    reaches = "every category manager"

    def __init__(self, members: Members = "recipients") -> None:
        if members not in get_args(Members):
            known = " or ".join(map(repr, get_args(Members)))
            raise InputError(f"unknown members {shown(members)} (use {known})")
        self.members = members

    async def run(self, round_: Round) -> Result:
        """Announce on both levels, select, and have category managers award what they won."""
        audience = await round_.audience()
        levels = _Levels(round_, self._nets(round_.parties, audience))
        await levels.announce(look=audience.routing is None and len(levels.nets) > 1)
        selected = await round_.select(levels.proposals)
        levels.award()
        proposals = levels.proposals
        if selected and round_.settings.iterate:
            plan = await ContractorLed().plan(round_, audience)
            called = {member.id for net in levels.nets for member in net.members}
            before = Announcing(round_, plan, called, proposals)
            more, added = await announce_again(round_, plan, before, selected)
            proposals, selected = [*proposals, *more], (*selected, *added)
        categories = tuple(dict.fromkeys(name for p in proposals for name in p.categories))
        return Result(selected, categories, routing=audience.routing)

    def _nets(self, parties: Parties, audience: Audience) -> list[_Net]:
        """Return the category managers to call, those of the first of an audience first."""
        groups = parties.by_category
        nets: dict[str, _Net] = {}
        taken = {contractor.id for contractor in parties.contractors}
        for member in audience.contractors:
            group = groups[member.apis[0].id]
            if group.id not in nets:
                name = f"manager of {group.id.removeprefix('category: ')}"
                while name in taken:
                    name += "'"
                taken.add(name)
                main = group.apis[0].categories[:1]
                nets[group.id] = _Net(Contractor(name, group.apis), main)
            nets[group.id].members.append(member)
        if self.members == "category" and audience.routing is not None:
            for member in audience.others:
                net = nets.get(groups[member.apis[0].id].id)
                if net is not None:
                    net.members.append(member)
        return list(nets.values())


@dataclass(slots=True)
class _Net:
    """A category manager, its members, and what they have proposed to it in time."""

    manager: Contractor
    category: tuple[str, ...]  # none, if its members have none
    members: list[Contractor] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)


class _Levels:
    """The announcements of both levels, step by step: all category managers take one together."""

    def __init__(self, round_: Round, nets: Sequence[_Net]) -> None:
        self.round = round_
        self.nets = nets
        self.calls: dict[int, _Net] = {}  # of the manager, to category managers
        self.open: dict[int, CallForProposals] = {}  # of these, without a reply
        self.proposals: list[Proposal] = []  # to the manager

    async def announce(self, *, look: bool) -> None:
        """Call category managers and members, and wait for the replies of both."""
        request, bidding = self.round.request, self.round.bidding
        upper = [Invitation(net.manager, None, request) for net in self.nets]
        steps = [self._question(net) for net in self.nets if look]
        everyone = [*upper, *self._lower()]
        self.round.check_announcement("a hierarchical announcement", everyone, *steps)
        for net, invitation in zip(self.nets, upper, strict=True):
            call = bidding.open(invitation)
            self.calls[call.id], self.open[call.id] = net, call
        if look:
            await self._each(self._look)
        begin = len(self.round.messages)
        for proposal in await self.round.announce(self._lower(called=True)):
            passed_on = self._passed_on(proposal)
            self.calls[passed_on].proposals.append(proposal)
        await self._each(self._bid)
        said = self.round.messages[begin:]
        replies = (m for m in said if isinstance(m, Proposal) and m.in_reply_to in self.calls)
        self.proposals = sorted(replies, key=lambda proposal: proposal.in_reply_to)

    def award(self) -> None:
        """Have each category manager award what it was awarded, and reject the rest."""
        own = {m.receiver: set(m.apis) for m in self.round.messages if isinstance(m, Award)}
        for m in self.round.messages:
            if isinstance(m, Award):  # if they are acted on, there is one for each API
                own[m.receiver].update(m.apis)
        for net in self.nets:
            left = own.get(net.manager.id, set())
            for proposal in net.proposals:
                apis = tuple(dict.fromkeys(p.api for p in proposal.apis if p.api in left))
                left = left.difference(apis)
                way = {"sender": net.manager.id, "receiver": proposal.sender}
                if apis:
                    self.round.send(Award, apis=apis, in_reply_to=proposal.id, **way)
                else:
                    self.round.send(Rejection, in_reply_to=proposal.id, **way)

    def _question(self, net: _Net) -> InterpretRequest:
        """Return the question whether a category could serve the request, as if it were an API."""
        own = [api for member in net.members for api in member.apis]
        said = " ".join(f"{api.name}: {api.summary or api.description}" for api in own)
        name = ", ".join(net.category) or net.manager.id
        category = Api(net.manager.id, name, said, net.category)
        return InterpretRequest((category,), self.round.request)

    def _lower(self, *, called: bool = False) -> list[Invitation]:
        """Return what is passed on to members; `called` if by those who have a call to pass on."""
        request = self.round.request
        nets: list[tuple[_Net, CallForProposals | None]] = [(net, None) for net in self.nets]
        if called:
            nets = [(self.calls[number], call) for number, call in self.open.items()]
        return [
            Invitation(member, InterpretRequest(member.apis, request), request, passed_on=call)
            for net, call in nets
            for member in net.members
        ]

    async def _each(self, step: Callable[[_Net, CallForProposals], Awaitable[bool]]) -> None:
        """Have all category managers that have not replied take a step; True: they have now."""

        async def take(number: int, call: CallForProposals) -> None:
            if await step(self.calls[number], call):
                del self.open[number]

        jobs = [(number, call) for number, call in self.open.items()]
        await self.round.bidding.work((partial(take, *job) for job in jobs), len(jobs))

    async def _look(self, net: _Net, call: CallForProposals) -> bool:
        """Refuse, if the category cannot serve the request."""
        bidding = self.round.bidding
        asked = await bidding.ask(call, self._question(net), role=CATEGORY_MANAGER)
        if asked is not None and asked.answer.apis:
            return False
        if asked is not None:
            bidding.reply(call, Bid((), asked.answer.grounds))
        return True

    async def _bid(self, net: _Net, call: CallForProposals) -> bool:
        """Propose the best of what members propose; refuse without any, fail where all failed."""
        bidding = self.round.bidding
        proposed = as_proposed(net.proposals)
        if not proposed:
            failures = [
                m
                for m in self.round.messages
                if isinstance(m, Failure) and self._passed_on(m) == call.id
            ]
            if failures and len(failures) == len(net.members):
                first = failures[0]
                reason: Any = first.reason
                bidding.fail(call, reason, f"every member failed: {first.error}")
            else:
                bidding.reply(call, Bid((), _NOTHING))
            return True
        chosen = proposed
        if len(proposed) > 1:
            evidence = carried(self.round.messages, proposed)
            task = self.round.selection((), proposed, (), evidence)
            asked = await bidding.ask(call, task, stage="bidding", role=CATEGORY_MANAGER)
            if asked is None:
                return True
            chosen = tuple(each for each in proposed if each.api in asked.answer.apis)
        names = dict.fromkeys(name for p in net.proposals for name in p.categories)
        bidding.reply(call, Bid(chosen, "" if chosen else _NOTHING, (), tuple(names)))
        return True

    def _passed_on(self, reply: Proposal | Failure) -> int:
        """Return the call of the manager that led to a member's reply; 0 for other replies."""
        call = self.round.messages[reply.in_reply_to - 1]
        return call.in_reply_to or 0 if isinstance(call, CallForProposals) else 0
