"""`validate`: from the messages of a transcript to what came of a round, by its laws.

What a round returns is computed by this same function, so that a transcript read back gives the
same result as the round itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from cnp_router.agents import ApiEvidence
from cnp_router.exceptions import TranscriptError
from cnp_router.protocols.acting_laws import ActingLaws, Check, are_distinct
from cnp_router.protocols.messages import (
    MANAGER,
    USER,
    Award,
    CallForProposals,
    Cancel,
    Failure,
    FailureReason,
    InformResult,
    Message,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
)
from cnp_router.protocols.transcript import Transcript
from cnp_router.records import one_line

__all__ = ["Conclusion", "conclude", "validate"]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the messages of a round come to, each name once."""

    recipients: tuple[str, ...]  # contractors that received an announcement, to bid themselves
    proposed: tuple[str, ...]  # APIs that were proposed in time; of a single agent, its candidates
    awarded: tuple[str, ...]  # APIs
    recommendation: tuple[str, ...]  # APIs that were reported to the user
    results: tuple[InformResult, ...] = ()  # on which the report is based, if awards were acted on

    __repr__ = one_line


def validate(transcript: Transcript) -> Conclusion:
    """Go through a transcript message by message.

    The laws: a request opens the round and a report closes it; ids count from 1; each call for
    proposals gets exactly one reply, from the contractor that was called; nobody is called twice
    for one function; a wave of calls is opened when each call of the last one has its reply or
    its deadline is over, after which replies to it are late, and before anything is decided; each
    proposal in time gets exactly one decision, a late one none; nothing is awarded that was not
    proposed, nor twice; what is reported was awarded, if anything was announced, and is among the
    candidates, if there are any; the request is that of the transcript, and so is what calls carry
    of it; only calls carry evidence, and only where the transcript says so and is no broadcast,
    each API's the same on every call; and all of it has the digest that the transcript had when it
    was made.

    And where a contractor manages a net of its own: it passes on a call that it has not replied to,
    as it is, in the same wave, to contractors that manage nobody and are members of no other; these
    reply to it, and it after them, or they are late; it proposes nothing that none of them proposed
    in time, and awards them just what it was awarded.

    And where awards are acted on, which the transcript says: each award is of one API; a proposal
    may get several, and a function too, but never the same API twice; where nothing is announced,
    awards answer the request; when the first one is acted on, all is decided; each award gets
    exactly one result, failure or cancellation, from or to its contractor; one that failed is
    awarded again at most once, to somebody who proposed another API for the same function in time;
    what is reported are the results, all of them, and their APIs.

    Parameters
    ----------
    transcript : Transcript

    Returns
    -------
    Conclusion

    Raises
    ------
    TranscriptError
        If a law is broken; it names the message.

    Examples
    --------
    >>> from cnp_router.agents import ProposedApi
    >>> maps = ProposedApi("maps", "It shows maps.")
    >>> messages = (
    ...     Request(id=1, sender="user", receiver="manager", text="a map"),
    ...     CallForProposals(id=2, sender="manager", receiver="maps", request="a map"),
    ...     Proposal(id=3, sender="maps", receiver="manager", in_reply_to=2, apis=(maps,)),
    ...     Award(id=4, sender="manager", receiver="maps", in_reply_to=3, apis=("maps",)),
    ...     Report(id=5, sender="manager", receiver="user", in_reply_to=1, apis=("maps",)))
    >>> validate(Transcript("a map", "contractor-led", "broadcast", "tiny", messages)).awarded
    ('maps',)
    >>> validate(Transcript("a map", "contractor-led", "broadcast", "tiny", messages[1:]))
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.TranscriptError: message 2 (cfp): its id should be 1
    """
    conclusion = conclude(transcript)
    if transcript.digest != transcript.computed_digest():
        raise TranscriptError(
            "the digest of the transcript is that of another one: a message, a model call or the "
            "head was altered"
        )
    return conclusion


def conclude(transcript: Transcript) -> Conclusion:
    """Return what the messages come to, without a look at the digest; see `validate`."""
    carries = transcript.evidence != "none" and transcript.announcement != "broadcast"
    state = _State(transcript.request, carries, ActingLaws(transcript.executed))
    for number, message in enumerate(transcript.messages, 1):
        state.take(number, message)
    return state.result(transcript.candidates)


@dataclass
class _State:
    text: str
    carries_evidence: bool
    acting: ActingLaws
    unanswered: dict[int, CallForProposals] = field(default_factory=dict)
    called: set[tuple[str, str | None]] = field(default_factory=set)
    wave: tuple[int, int] = (0, 0)  # its iteration, and its number there
    has_decided: bool = False  # in this iteration
    undecided: dict[int, Proposal] = field(default_factory=dict)
    recipients: dict[str, None] = field(default_factory=dict)
    proposed: dict[str, None] = field(default_factory=dict)
    awarded: dict[str, None] = field(default_factory=dict)
    evidence: dict[str, ApiEvidence] = field(default_factory=dict)
    won: dict[str, set[str]] = field(default_factory=dict)  # by category managers, to award
    below: dict[int, set[str]] = field(default_factory=dict)  # proposed to them, by their call
    managing: set[str] = field(default_factory=set)  # category managers
    leaders: dict[str, str] = field(default_factory=dict)  # of members: their category managers
    has_announced: bool = False
    report: Report | None = None

    def take(self, number: int, message: Message) -> None:
        def check(holds: bool, law: str) -> None:
            if not holds:
                raise TranscriptError(f"message {message.id} ({message.performative}): {law}")

        way = message.sender, message.receiver
        check(message.id == number, f"its id should be {number}")
        check(self.report is None, "the round is over")
        check((number == 1) == isinstance(message, Request), "a request opens a round, once")
        match message:
            case Request():
                check(way == (USER, MANAGER), "it is the user's")
                check(message.text == self.text, "the transcript is of another request")
            case CallForProposals():
                self._announce(message, check)
            case InformResult() | Cancel():
                self._act(message, check)
            case Failure() if message.api is not None:
                self._act(message, check)
            case Proposal() | Refusal() | Failure():
                self._reply(message, check)
            case Award() if message.instead_of is not None or (
                message.in_reply_to == 1 and self.acting.executed
            ):
                check(message.sender == MANAGER, "the manager decides")
                if message.instead_of is None:
                    check(not self.has_announced, "it is not in reply to a proposal")
                    self.acting.award(message, None, check)
                else:
                    self._close_bidding(check)
                    self.acting.award_again(message, check)
                self.awarded[message.apis[0]] = None
            case Award() | Rejection() if message.sender != MANAGER:
                self._decide_below(message, check)
            case Award() | Rejection():
                self._decide(message, check)
            case Report():
                check(way == (MANAGER, USER), "the manager reports")
                check(message.in_reply_to == 1, "it does not answer the request")
                check(are_distinct(message.apis), "it reports an API twice")
                self._close_bidding(check)
                awarded = not self.has_announced or set(message.apis) == set(self.awarded)
                check(self.acting.executed or awarded, "it reports what was not awarded")
                self.acting.report(message, check)
                self.report = message

    def _decide(self, message: Award | Rejection, check: Check) -> None:
        self.has_decided = True
        check(message.sender == MANAGER, "the manager decides")
        check(not self.acting.has_begun, "it decides after awards were acted on")
        given = self.acting.accepted if isinstance(message, Award) else {}
        proposal = self.undecided.pop(message.in_reply_to, given.get(message.in_reply_to))
        if proposal is None:
            return check(False, f"no proposal {message.in_reply_to} waits for a decision")
        check(proposal.receiver == MANAGER, "it was proposed to another one")
        check(proposal.sender == message.receiver, "another one proposed")
        if isinstance(message, Award):
            own = {p.api for p in proposal.apis}
            check(bool(message.apis), "an award names an API")
            check(own.issuperset(message.apis), "it awards what was not proposed")
            check(are_distinct(message.apis), "it awards an API twice")
            if message.receiver in self.managing:
                self.won.setdefault(message.receiver, set()).update(message.apis)
            if self.acting.executed:
                self.acting.award(message, proposal, check)
            else:
                check(not message.approved, "what is awarded at first needs no approval")
                check(self.awarded.keys().isdisjoint(message.apis), "it awards what is awarded")
            self.awarded.update((name, None) for name in message.apis)

    def _announce(self, call: CallForProposals, check: Check) -> None:
        self._pass_on(call, check)
        check(call.receiver not in (USER, MANAGER), "it goes to no contractor")
        others = self.recipients if call.for_members else self.managing
        check(call.receiver not in others, "it is both a category manager and a contractor")
        check(not self.acting.has_begun, "it announces after awards were acted on")
        check(self.has_announced or not self.awarded, "it announces after awards")
        check(call.request in (None, self.text), "it announces another request")
        self._open(call, check)
        self._take_evidence(call, check)
        task = call.receiver, call.function
        check(task not in self.called, "it is called for the same a second time")
        self.called.add(task)
        self.unanswered[call.id] = call
        if call.for_members:
            self.managing.add(call.receiver)
        else:
            self.recipients[call.receiver] = None
        self.has_announced = True

    def _pass_on(self, call: CallForProposals, check: Check) -> None:
        """Take who announces: the manager, or who passes a call on."""
        if call.in_reply_to is None:
            return check(call.sender == MANAGER, "the manager announces")
        before = self.unanswered.get(call.in_reply_to)
        if before is None:
            return check(False, f"no call {call.in_reply_to} waits to be passed on")
        check(before.receiver == call.sender, "another one was called")
        wave = before.iteration, before.wave
        check(wave == (call.iteration, call.wave), "it is of another wave than what it passes on")
        task = before.request, before.function, before.category
        is_same = task == (call.request, call.function, call.category)
        check(is_same, "it passes on another request")
        check(before.for_members, "the call is for its receiver alone")
        check(not call.for_members, "a member manages nobody: there are two levels")
        leader = self.leaders.setdefault(call.receiver, call.sender)
        return check(leader == call.sender, "it is a member of another one")

    def _decide_below(self, message: Award | Rejection, check: Check) -> None:
        """Take what a category manager decides on what a member proposed to it."""
        check(not self.acting.has_begun, "it decides after awards were acted on")
        proposal = self.undecided.pop(message.in_reply_to, None)
        if proposal is None:
            return check(False, f"no proposal {message.in_reply_to} waits for a decision")
        check(proposal.receiver == message.sender, "it was proposed to another one")
        check(proposal.sender == message.receiver, "another one proposed")
        if isinstance(message, Award):
            check(bool(message.apis), "an award names an API")
            check(not message.approved, "what is awarded at first needs no approval")
            check(are_distinct(message.apis), "it awards an API twice")
            own = {p.api for p in proposal.apis}
            check(own.issuperset(message.apis), "it awards what was not proposed")
            won = self.won.get(message.sender, set())
            check(won.issuperset(message.apis), "it awards what it was not awarded itself")
            won.difference_update(message.apis)
        return None

    def _close_bidding(self, check: Check) -> None:
        for call in self.unanswered:
            check(False, f"call {call} has no reply")
        for left in self.undecided:
            check(False, f"proposal {left} has no decision")
        for name, apis in self.won.items():
            check(not apis, f"{name!r} was awarded {min(apis, default='')!r} and gave it to nobody")

    def _act(self, message: InformResult | Failure | Cancel, check: Check) -> None:
        self._close_bidding(check)
        self.acting.take(message, check)

    def _reply(self, reply: Proposal | Refusal | Failure, check: Check) -> None:
        call = self.unanswered.pop(reply.in_reply_to, None)
        if call is None:
            return check(False, f"no call {reply.in_reply_to} waits for a reply")
        check(call.receiver == reply.sender, "another one was called")
        check(reply.receiver == call.sender, "a reply goes to who called")
        members = self.unanswered.values() if call.for_members else ()  # they may be many
        for each in members:
            if each.in_reply_to == call.id and not isinstance(reply, Failure):
                check(each.reply_by is not None, f"its member has not replied to call {each.id}")
        if isinstance(reply, Failure):
            check(reply.reason in get_args(FailureReason), "it is the failure of no reply")
            cost = (reply.attempts, reply.seconds, reply.n_bytes)
            nothing = cost == (0, 0, 0) and reply.was_done is None
            check(nothing, "nothing was awarded that could be called")
        is_late = isinstance(reply, Failure) or reply.late
        check(is_late or (call.iteration, call.wave) == self.wave, "its wave is closed: it is late")
        is_waited_for = call.in_reply_to is None or call.in_reply_to in self.unanswered
        check(is_late or is_waited_for, "its category manager has replied already: it is late")
        if isinstance(reply, Proposal):
            check(bool(reply.apis), "a proposal names an API")
            apis = {p.api for p in reply.apis}
            if call.receiver in self.managing:
                below = self.below.get(call.id, set())
                check(below.issuperset(apis), "it proposes what no member proposed in time")
            if reply.late:
                return
            self.undecided[reply.id] = reply
            if call.in_reply_to is None:
                self.acting.propose(reply, call.function)
                self.proposed.update((p.api, None) for p in reply.apis)
            else:
                self.below.setdefault(call.in_reply_to, set()).update(apis)

    def _open(self, call: CallForProposals, check: Check) -> None:
        """Go on to the wave of a call."""
        wave = call.iteration, call.wave
        if wave == self.wave:
            return check(not self.has_decided, "it announces after a decision")
        iteration, number = self.wave
        is_next = wave == (iteration + 1, 1)
        check(is_next or (iteration > 0 and wave == (iteration, number + 1)), "a wave is left out")
        check(is_next or not self.has_decided, "a wave comes after a decision")
        for each in self.unanswered.values():
            check(each.reply_by is not None, f"a wave comes before the reply to {each.id}")
        self.wave, self.has_decided = wave, False
        return None

    def _take_evidence(self, call: CallForProposals, check: Check) -> None:
        check(self.carries_evidence or not call.evidence, "it carries evidence")
        check(are_distinct(tuple(e.api for e in call.evidence)), "evidence of an API twice")
        for each in call.evidence:
            same = self.evidence.setdefault(each.api, each) == each
            check(same, f"an earlier call carried other evidence of {each.api!r}")

    def result(self, candidates: tuple[str, ...] | None) -> Conclusion:
        if self.report is None:
            raise TranscriptError("the round has no report: it was broken off")
        stated = {*self.report.apis, *self.awarded}
        if candidates is not None and not stated <= set(candidates):
            raise TranscriptError(
                f"message {self.report.id} (inform): what is reported or was awarded is not among "
                "the candidates"
            )
        proposed = tuple(self.proposed) if candidates is None else candidates
        return Conclusion(
            tuple(self.recipients),
            proposed,
            tuple(self.awarded),
            self.report.apis,
            tuple(self.acting.results[each] for each in self.report.results),
        )
