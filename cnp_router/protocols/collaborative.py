"""Collaborative: the manager decomposes, contractors serve functions, the manager integrates."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cnp_router.agents import Decompose, ServeFunction
from cnp_router.catalog import Contractor
from cnp_router.protocols.announcing import certainly_called
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.negotiation import NegotiatedProtocol
from cnp_router.protocols.plan import AnnouncementPlan
from cnp_router.protocols.round import Invitation, Round
from cnp_router.routing.many import in_thread

__all__ = ["Collaborative"]

WORTH_A_CALL = 0.005  # probability from which on who has refused is called for a second function


class Collaborative(NegotiatedProtocol):
    """The manager decomposes; contractors map, match and choose for each function.

    A broadcast calls each contractor for each function. In a routed round the router scores the
    functions too, and each recipient is called for the one that needs its API most; if it refuses,
    it is called for the next one, unless that hardly needs the API.
    """

    name = "collaborative"
    summary = "Each function is announced to all; contractors serve it, the manager integrates."
    manager = "1, integration"
    contractors = "2, 3, 4"
    carries = "a function, one call each"
    reaches = "every contractor"

    async def plan(self, round_: Round, audience: Audience) -> AnnouncementPlan:
        """Decompose the request, and return the plan to announce its functions."""
        step = Decompose(round_.request)
        single = _everything((round_.request,))
        round_.check_announcement(
            "a collaborative round, if there is a single function,",
            single.to(certainly_called(round_, audience), chosen=True),
            step,
        )
        functions = (await round_.ask(step)).functions
        if audience.routing is None or len(functions) == 1:
            return _everything(functions)
        given = (functions, round_, audience.routing.contractors)
        return (await in_thread(_BestFirst, *given)).plan()


def _everything(functions: tuple[str, ...]) -> AnnouncementPlan:
    return AnnouncementPlan(lambda contractor, _: _invitations(contractor, functions), functions)


def _invitations(contractor: Contractor, functions: Iterable[str]) -> list[Invitation]:
    return [
        Invitation(contractor, ServeFunction(contractor.apis, function), function=function)
        for function in functions
    ]


class _BestFirst:
    """Which functions of a request need an API most, as the router sees it.

    A contractor is called for the best functions of those of its APIs that are recipients.
    """

    def __init__(
        self, functions: tuple[str, ...], round_: Round, recipients: Iterable[str]
    ) -> None:
        router = round_.parties.needed_router
        self.functions = functions
        self.recipients = frozenset(recipients)
        self.scores = [
            dict(zip(scores.apis, scores.probabilities.tolist(), strict=True))
            for scores in router.score_many(functions, dates=[round_.date] * len(functions))
        ]

    def plan(self) -> AnnouncementPlan:
        """Return the plan to call each contractor for its best functions first."""
        return AnnouncementPlan(self.first, self.functions, again=self.second)

    def first(self, contractor: Contractor, _: bool) -> list[Invitation]:
        """Return the calls for the best function of each API."""
        best = (self._by_need(name)[0] for name in self._of(contractor))
        return _invitations(contractor, dict.fromkeys(function for function, _ in best))

    def second(self, contractor: Contractor, refused: Collection[str]) -> list[Invitation]:
        """Return the calls for the second function of each API whose best one is refused."""
        called = {each.function for each in self.first(contractor, True)}
        pairs = (self._by_need(name)[:2] for name in self._of(contractor))
        second = dict.fromkeys(
            function
            for (best, _), (function, probability) in pairs
            if best in refused and function not in called and probability >= WORTH_A_CALL
        )
        return _invitations(contractor, second)

    def _of(self, contractor: Contractor) -> list[str]:
        ids = [api.id for api in contractor.apis]
        return [name for name in ids if name in self.recipients] or ids

    def _by_need(self, api: str) -> list[tuple[str, float]]:
        """Return each function with the probability that it needs an API, highest first."""
        needs = [scores.get(api, 0.0) for scores in self.scores]
        return sorted(zip(self.functions, needs, strict=True), key=lambda pair: -pair[1])
