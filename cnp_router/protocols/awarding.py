"""Who is awarded what: by proposals, directly, and who else could be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cnp_router.agents import ApiEvidence
from cnp_router.exceptions import RoundFailedError
from cnp_router.protocols.messages import (
    MANAGER,
    Award,
    CallForProposals,
    Message,
    Proposal,
)
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.substitutes import Candidate, Substitutes

__all__ = ["awards_of", "function_of", "holder_of", "substitutes"]


def awards_of(
    messages: Sequence[Message],
    proposals: Sequence[Proposal],
    selected: Iterable[str],
    *,
    each_function: bool,
) -> dict[int, tuple[str, ...]]:
    """Return what of each proposal is awarded: selected APIs, to the first who proposed each.

    With `each_function`, a function for which nothing would be awarded is awarded too: to the first
    who proposed a selected API for it.
    """
    wanted = set(selected)
    left = set(wanted)
    awarded: dict[int, tuple[str, ...]] = {}
    for proposal in proposals:
        own = dict.fromkeys(each.api for each in proposal.apis)
        awarded[proposal.id] = tuple(name for name in own if name in left)
        left.difference_update(own)
    if not each_function:
        return awarded
    served = {function_of(messages, m) for m in messages if isinstance(m, Award)}
    served |= {function_of(messages, each) for each in proposals if awarded[each.id]}
    for proposal in proposals:
        names = [each.api for each in proposal.apis if each.api in wanted]
        function = function_of(messages, proposal)
        if names and function not in served:
            awarded[proposal.id] = (names[0],)
            served.add(function)
    return awarded


def function_of(messages: Sequence[Message], message: Proposal | Award) -> str | None:
    """Return the function that something was proposed or awarded for; None if it was the request.

    A directed contract, and a re-award of one, is for the request.
    """
    replied = messages[message.in_reply_to - 1]
    if isinstance(replied, Proposal):
        return function_of(messages, replied)
    return replied.function if isinstance(replied, CallForProposals) else None


def holder_of(parties: Parties, api: str) -> str:
    """Return who an API is awarded to without a proposal; a RoundFailedError if nobody holds it."""
    holders = parties.holders_of([api])
    if not holders:
        raise RoundFailedError(
            f"no contractor holds {api!r}, which was recommended (give contractors that hold every "
            "API)"
        )
    return holders[0].id


def substitutes(
    messages: Sequence[Message],
    parties: Parties,
    evidence: Mapping[str, ApiEvidence],
    known: Iterable[str],
) -> Substitutes:
    """Return who could do what others fail at.

    Those who proposed to the manager in time; where nothing was announced, those who hold `known`
    APIs, in their order.
    """
    announced = any(isinstance(m, CallForProposals) for m in messages)
    in_time = [
        m for m in messages if isinstance(m, Proposal) and not m.late and m.receiver == MANAGER
    ]
    candidates = [
        Candidate(proposed.api, m.sender, m.id, function_of(messages, m))
        for m in sorted(in_time, key=lambda proposal: proposal.in_reply_to)
        for proposed in m.apis
    ]
    if not announced:
        candidates = [
            Candidate(name, holder.id, 1)
            for name in known
            for holder in parties.holders_of([name])[:1]
        ]
    return Substitutes(candidates, parties.function_likeness, evidence, in_order=not announced)
