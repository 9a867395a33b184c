"""`validate`: from the messages of a transcript to what came of a round, by its laws.

What a round returns is computed by this same function, so that a transcript read back gives the
same result as the round itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cnp_router.agents import ApiEvidence
from cnp_router.exceptions import TranscriptError
from cnp_router.protocols.messages import (
    MANAGER,
    USER,
    Award,
    CallForProposals,
    Failure,
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

    recipients: tuple[str, ...]  # contractors that received an announcement
    proposed: tuple[str, ...]  # APIs that were proposed in time; of a single agent, its candidates
    awarded: tuple[str, ...]  # APIs
    recommendation: tuple[str, ...]  # APIs that were reported to the user

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
    state = _State(transcript.request, carries)
    for number, message in enumerate(transcript.messages, 1):
        state.take(number, message)
    return state.result(transcript.candidates)


Check = Callable[[bool, str], None]


@dataclass
class _State:
    text: str
    carries_evidence: bool
    unanswered: dict[int, CallForProposals] = field(default_factory=dict)
    called: set[tuple[str, str | None]] = field(default_factory=set)
    wave: tuple[int, int] = (0, 0)  # its iteration, and its number there
    has_decided: bool = False  # in this iteration
    undecided: dict[int, Proposal] = field(default_factory=dict)
    recipients: dict[str, None] = field(default_factory=dict)
    proposed: dict[str, None] = field(default_factory=dict)
    awarded: dict[str, None] = field(default_factory=dict)
    evidence: dict[str, ApiEvidence] = field(default_factory=dict)
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
                check(message.sender == MANAGER, "the manager announces")
                check(message.request in (None, self.text), "it announces another request")
                self._open(message, check)
                self._take_evidence(message, check)
                task = message.receiver, message.function
                check(task not in self.called, "it is called for the same a second time")
                self.called.add(task)
                self.unanswered[message.id] = message
                self.recipients[message.receiver] = None
            case Proposal() | Refusal() | Failure():
                self._reply(message, check)
            case Award() | Rejection():
                self.has_decided = True
                check(message.sender == MANAGER, "the manager decides")
                known = message.in_reply_to in self.undecided
                check(known, f"no proposal {message.in_reply_to} waits for a decision")
                proposal = self.undecided.pop(message.in_reply_to)
                check(proposal.sender == message.receiver, "another one proposed")
                if isinstance(message, Award):
                    own = {p.api for p in proposal.apis}
                    check(bool(message.apis), "an award names an API")
                    check(own.issuperset(message.apis), "it awards what was not proposed")
                    check(_are_distinct(message.apis), "it awards an API twice")
                    check(self.awarded.keys().isdisjoint(message.apis), "it awards what is awarded")
                    self.awarded.update((name, None) for name in message.apis)
            case Report():
                check(way == (MANAGER, USER), "the manager reports")
                check(message.in_reply_to == 1, "it does not answer the request")
                check(_are_distinct(message.apis), "it reports an API twice")
                for call in self.unanswered:
                    check(False, f"call {call} has no reply")
                for left in self.undecided:
                    check(False, f"proposal {left} has no decision")
                awarded = not self.recipients or set(message.apis) == set(self.awarded)
                check(awarded, "it reports what was not awarded")
                self.report = message

    def _reply(self, reply: Proposal | Refusal | Failure, check: Check) -> None:
        call = self.unanswered.pop(reply.in_reply_to, None)
        if call is None:
            return check(False, f"no call {reply.in_reply_to} waits for a reply")
        check(call.receiver == reply.sender, "another one was called")
        check(reply.receiver == MANAGER, "replies go to the manager")
        is_late = isinstance(reply, Failure) or reply.late
        check(is_late or (call.iteration, call.wave) == self.wave, "its wave is closed: it is late")
        if isinstance(reply, Proposal):
            check(bool(reply.apis), "a proposal names an API")
            if not reply.late:
                self.undecided[reply.id] = reply
                self.proposed.update((p.api, None) for p in reply.apis)

    def _open(self, call: CallForProposals, check: Check) -> None:
        """Go on to the wave of a call."""
        wave = call.iteration, call.wave
        if wave == self.wave:
            return
        iteration, number = self.wave
        is_next = wave == (iteration + 1, 1)
        check(is_next or (iteration > 0 and wave == (iteration, number + 1)), "a wave is left out")
        check(is_next or not self.has_decided, "a wave comes after a decision")
        for each in self.unanswered.values():
            check(each.reply_by is not None, f"a wave comes before the reply to {each.id}")
        self.wave, self.has_decided = wave, False

    def _take_evidence(self, call: CallForProposals, check: Check) -> None:
        check(self.carries_evidence or not call.evidence, "it carries evidence")
        check(_are_distinct(tuple(e.api for e in call.evidence)), "evidence of an API twice")
        for each in call.evidence:
            same = self.evidence.setdefault(each.api, each) == each
            check(same, f"an earlier call carried other evidence of {each.api!r}")

    def result(self, candidates: tuple[str, ...] | None) -> Conclusion:
        if self.report is None:
            raise TranscriptError("the round has no report: it was broken off")
        if candidates is not None and not set(self.report.apis) <= set(candidates):
            raise TranscriptError(
                f"message {self.report.id} (inform): it reports what is not among the candidates"
            )
        proposed = tuple(self.proposed) if candidates is None else candidates
        return Conclusion(tuple(self.recipients), proposed, tuple(self.awarded), self.report.apis)


def _are_distinct(apis: tuple[str, ...]) -> bool:
    return len(set(apis)) == len(apis)
