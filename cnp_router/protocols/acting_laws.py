"""`ActingLaws`: what must hold of a transcript from the awards on, where they are acted on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import get_args

from cnp_router.protocols.messages import (
    MANAGER,
    RESULT_TEXT,
    USER,
    Award,
    Cancel,
    Failure,
    InformResult,
    Proposal,
    Report,
    WasDone,
)
from cnp_router.sources import FailureKind

__all__ = ["ActingLaws", "Check", "are_distinct"]

Check = Callable[[bool, str], None]


@dataclass(frozen=True, slots=True)
class _Given:
    api: str
    contractor: str
    function: str | None


@dataclass
class ActingLaws:
    """Takes awards and what came of them, and checks each; `executed` is the transcript's."""

    executed: bool
    proposals: dict[int, tuple[Proposal, str | None]] = field(default_factory=dict)  # in time
    accepted: dict[int, Proposal] = field(default_factory=dict)
    given: set[tuple[str, str | None]] = field(default_factory=set)  # APIs, and for what
    open: dict[int, _Given] = field(default_factory=dict)
    failed: dict[int, tuple[_Given, Failure]] = field(default_factory=dict)  # not awarded again
    results: dict[int, InformResult] = field(default_factory=dict)
    has_begun: bool = False

    def propose(self, proposal: Proposal, function: str | None) -> None:
        """Take a proposal that came in time."""
        self.proposals[proposal.id] = proposal, function

    def award(self, award: Award, proposal: Proposal | None, check: Check) -> None:
        """Take an award; without a proposal it is a directed contract."""
        check(not self.has_begun, "it decides after awards were acted on")
        check(not award.approved, "what is awarded at first needs no approval")
        function = None
        if proposal is not None:
            self.accepted[proposal.id] = proposal
            function = self.proposals[proposal.id][1]
        else:
            check(award.receiver not in (USER, MANAGER), "it goes to no contractor")
        self._give(award, function, check)

    def award_again(self, award: Award, check: Check) -> None:
        """Take an award instead of one that failed."""
        failed, failure = self.failed.pop(award.instead_of or 0, (None, None))
        if failed is None or failure is None:
            return check(False, f"award {award.instead_of} does not wait for another contractor")
        is_known = failure.was_done == "no"
        check(is_known or award.approved, "it may be done twice, and nobody has approved that")
        self.has_begun = True
        if not self.proposals and award.in_reply_to == 1:
            check(award.receiver not in (USER, MANAGER), "it goes to no contractor")
        else:
            proposal, function = self.proposals.get(award.in_reply_to, (None, None))
            if proposal is None:
                return check(False, f"there is no proposal {award.in_reply_to} in time")
            check(proposal.sender == award.receiver, "another one proposed")
            check(function == failed.function, "it was proposed for something else")
            own = {p.api for p in proposal.apis}
            check(own.issuperset(award.apis), "it awards what was not proposed")
        self._give(award, failed.function, check)

    def take(self, end: InformResult | Failure | Cancel, check: Check) -> None:
        """Take what came of an award."""
        check(self.executed, "nothing is acted on in this round")
        self.has_begun = True
        given = self.open.pop(end.in_reply_to, None)
        if given is None:
            return check(False, f"no award {end.in_reply_to} is open")
        if isinstance(end, Cancel):
            check(end.sender == MANAGER, "the manager cancels")
            return check(end.receiver == given.contractor, "another one has the award")
        check(end.sender == given.contractor, "another one has the award")
        check(end.receiver == MANAGER, "what came of an award goes to the manager")
        check(end.api == given.api, "it is of another API")
        check(min(end.attempts, end.seconds, end.n_bytes) >= 0, "a count is below 0")
        if isinstance(end, Failure):
            check(end.reason in get_args(FailureKind), "it is no failure of a call")
            check(end.was_done in get_args(WasDone), "it does not say whether it was done")
            self.failed[end.in_reply_to] = given, end
        else:
            check(len(end.text) <= RESULT_TEXT, "its text is too long")
            check(re.fullmatch("[0-9a-f]{64}", end.digest) is not None, "its digest is none")
            self.results[end.id] = end

    def report(self, report: Report, check: Check) -> None:
        """Take the report."""
        if not self.executed:
            return check(not report.results, "nothing is acted on in this round")
        for award in self.open:
            check(False, f"nobody says what came of award {award}")
        check(are_distinct(report.results), "it reports a result twice")
        check(set(report.results) == self.results.keys(), "it is not based on the results")
        apis = {each.api for each in self.results.values()}
        check(set(report.apis) == apis, "it reports an API without a result, or leaves one out")

    def _give(self, award: Award, function: str | None, check: Check) -> None:
        if len(award.apis) != 1:
            return check(False, "an award that is acted on is of one API")
        api = award.apis[0]
        check((api, function) not in self.given, "it awards what is awarded")
        self.given.add((api, function))
        self.open[award.id] = _Given(api, award.receiver, function)


def are_distinct(names: Sequence[object]) -> bool:
    """Return whether nothing is named twice."""
    return len(set(names)) == len(names)
