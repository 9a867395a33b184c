"""`AnnouncementPlan`: what is announced to whom, after the manager's first steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from cnp_router.catalog import Contractor
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.round import Invitation
from cnp_router.records import one_line

__all__ = ["AnnouncementPlan", "Invite", "InviteAgain"]

Invite = Callable[[Contractor, bool], list[Invitation]]
InviteAgain = Callable[[Contractor, Collection[str]], list[Invitation]]


@dataclass(frozen=True)
class AnnouncementPlan:
    """What is announced, after the manager's first steps.

    Parameters
    ----------
    invite : callable
        Given a contractor, and whether the router or the graph chose it, returns what is announced
        to it. A chosen one is called for something.
    functions : tuple of str, default=()
        After decomposition, if the manager has taken that step.
    categories : tuple of str or None, default=None
        After category mapping; None if contractors name them.
    widens : bool, default=False
        Whether contractors that the router did not choose are called too, if a task is for them.
    again : callable, optional
        Given a contractor and the functions that it has refused, returns what else is announced to
        it. By default nothing is.
    """

    invite: Invite
    functions: tuple[str, ...] = ()
    categories: tuple[str, ...] | None = None
    widens: bool = False
    again: InviteAgain | None = None

    __repr__ = one_line

    def invitations(self, audience: Audience) -> list[Invitation]:
        """Return what is announced to an audience."""
        everyone = audience.routing is None or self.widens
        return [
            *self.to(audience.chosen, chosen=True),
            *self.to(audience.others if everyone else (), chosen=False),
        ]

    def to(self, contractors: Iterable[Contractor], *, chosen: bool) -> list[Invitation]:
        """Return what is announced to some contractors."""
        return [each for contractor in contractors for each in self.invite(contractor, chosen)]
