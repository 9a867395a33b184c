"""What the router knows of APIs: put on calls for proposals, and read from them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cnp_router.agents import ApiEvidence, ProposedApi
from cnp_router.exceptions import InputError
from cnp_router.protocols.bidding import Invitation
from cnp_router.protocols.messages import CallForProposals, Message

__all__ = ["carried", "with_evidence"]


def with_evidence(
    invitation: Invitation, known: Mapping[str, ApiEvidence], *, for_contractor: bool
) -> Invitation:
    """Return an invitation whose call carries what is known of the contractor's own APIs.

    `for_contractor` says whether the contractor is shown it; an InputError if its task cannot.
    """
    own = tuple(known[api.id] for api in invitation.contractor.apis if api.id in known)
    task = invitation.task
    if own and for_contractor:
        if "evidence" not in getattr(task, "__dataclass_fields__", ()):
            raise InputError(
                f"the task {type(task).__name__} shows no evidence (give it a field 'evidence', or "
                "use evidence='manager')"
            )
        task = replace(task, evidence=own)  # type: ignore[type-var]
    return replace(invitation, task=task, evidence=own)


def carried(messages: Iterable[Message], by: Iterable[ProposedApi]) -> tuple[ApiEvidence, ...]:
    """Return the evidence that calls for proposals carried, of what was proposed."""
    known = {
        each.api: each
        for message in messages
        if isinstance(message, CallForProposals)
        for each in message.evidence
    }
    return tuple(known[each.api] for each in by if each.api in known)
