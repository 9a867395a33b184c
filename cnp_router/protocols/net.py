"""`ContractNet`: requests in, outcomes out, by any protocol, routed or broadcast."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cnp_router import telemetry
from cnp_router.agents import Organisation, organise
from cnp_router.catalog import Catalog, Contractor
from cnp_router.exceptions import InputError
from cnp_router.llm import ChatModel, run_sync
from cnp_router.protocols.acting import Actor
from cnp_router.protocols.outcome import Outcome
from cnp_router.protocols.parties import Parties, graph_of
from cnp_router.protocols.protocol import Announcement, Protocol
from cnp_router.protocols.registry import find_protocol
from cnp_router.protocols.round import Round
from cnp_router.protocols.settings import RoundSettings
from cnp_router.records import check_date, check_instance, check_request
from cnp_router.routing import Router
from cnp_router.routing.many import in_thread
from cnp_router.routing.restriction import Restriction

__all__ = ["ContractNet"]


class ContractNet:
    """Manager and contractors, ready for requests.

    Parameters
    ----------
    catalog : Catalog
    model : ChatModel
        Answers for the manager and for every contractor.
    router : LearnedRouter or other Router, optional
        Decides who receives an announcement. Without one every announcement is a broadcast.
        Its ``categories`` (a `CategoryClassifier`) and its ``graph`` are used where it has them.
    organisation : {"api", "category", "community", "size"} or iterable of Contractor, default="api"
        How the APIs are organised into contractors (`cnp_router.agents.organise`), or the
        contractors themselves.
    max_size : int, optional
        The most APIs a contractor may hold.
    settings : RoundSettings, optional

    Raises
    ------
    InputError
        If the router does not know the APIs of the catalog, contractors hold other APIs or have
        the same id, or the organisation is unknown.

    Examples
    --------
    >>> from cnp_router import load_sample
    >>> from cnp_router.agents import offline_model
    >>> catalog = load_sample().catalog
    >>> net = ContractNet(catalog, offline_model(catalog))
    >>> outcome = net.run_sync("Send a text message when it rains.", announcement="broadcast")
    >>> outcome.protocol, len(outcome.recipients), outcome.ledger.messages["cfp"]
    ('contractor-led', 149, 149)
    """

    def __init__(
        self,
        catalog: Catalog,
        model: ChatModel,
        *,
        router: Router | None = None,
        organisation: Organisation | Iterable[Contractor] = "api",
        max_size: int | None = None,
        settings: RoundSettings | None = None,
    ) -> None:
        self.catalog: Catalog = check_instance("catalog", catalog, Catalog)
        self.model: ChatModel = check_instance("model", model, ChatModel)
        self.router: Router | None = (
            router if router is None else check_instance("router", router, Router)
        )
        self.settings: RoundSettings = RoundSettings() if settings is None else settings
        check_instance("settings", self.settings, RoundSettings)
        self.organisation = organisation if isinstance(organisation, str) else "custom"
        if isinstance(organisation, str):
            graph = graph_of(router) if organisation == "community" else None
            contractors = organise(catalog, organisation, graph=graph, max_size=max_size)
        elif max_size is not None:
            raise InputError("max_size goes with an organisation, not with contractors of your own")
        else:
            contractors = tuple(organisation)
        self.parties: Parties = Parties(catalog, contractors, router)

    def with_settings(self, **changes: Any) -> ContractNet:
        """Return the same contract net with some of its `RoundSettings` changed.

        Parameters
        ----------
        **changes
            Fields of `RoundSettings`.

        Returns
        -------
        ContractNet

        Raises
        ------
        InputError
            If a value is out of range.

        Examples
        --------
        >>> from cnp_router import Api
        >>> from cnp_router.agents import offline_model
        >>> catalog = Catalog([Api("maps", "Maps", "Shows places.")])
        >>> net = ContractNet(catalog, offline_model(catalog))
        >>> net.with_settings(evidence="manager").settings.evidence, net.settings.evidence
        ('manager', 'none')
        """
        net = copy.copy(self)
        net.settings = replace(self.settings, **changes)
        return net

    @property
    def contractors(self) -> tuple[Contractor, ...]:
        """All contractors."""
        return self.parties.contractors

    def run_sync(
        self,
        request: str,
        *,
        protocol: str | Protocol = "contractor-led",
        announcement: Announcement = "routed",
        among: Restriction | None = None,
        exclude: Restriction = (),
        date: datetime.date | None = None,
        actor: Actor | None = None,
    ) -> Outcome:
        """Run a round where there is no event loop; see `run`."""

        async def run() -> Outcome:
            async with self.model:
                return await self.run(
                    request,
                    protocol=protocol,
                    announcement=announcement,
                    among=among,
                    exclude=exclude,
                    date=date,
                    actor=actor,
                )

        return run_sync(run, instead="await net.run(request)")

    async def run(
        self,
        request: str,
        *,
        protocol: str | Protocol = "contractor-led",
        announcement: Announcement = "routed",
        among: Restriction | None = None,
        exclude: Restriction = (),
        date: datetime.date | None = None,
        actor: Actor | None = None,
    ) -> Outcome:
        """Run a round.

        Parameters
        ----------
        request : str
            The requirement in plain language.
        protocol : str or Protocol, default="contractor-led"
            A name in `PROTOCOLS`, or a protocol of your own.
        announcement : {"routed", "broadcast"}, default="routed"
            To the recipients that the router chooses, or to everyone that the protocol reaches.
        among, exclude : iterable of str, or callable from str to bool
            The only APIs that may be proposed, recommended and awarded for this request, and those
            that may not, as in `Router.route`; in a broadcast too.
        date : datetime.date, optional
            The day the request is asked, as in `Router.route`.
        actor : Actor, optional
            Does what is awarded, before the report. A protocol without contractors then awards what
            it recommends without an announcement (directed contracts).

        Returns
        -------
        Outcome

        Raises
        ------
        InputError
            If the request is blank or not a string, protocol or announcement are unknown, they need
            a router and there is none, the date is not one, or `among` and `exclude` leave no API.
        RoundFailedError
            If the manager's model gives no usable answer, not one contractor can be reached, or
            the round takes too long.
        BudgetExceededError
            If there is a budget, and what comes next does not fit in.
        ExecutionError
            If the actor raised an error; with the transcript.
        """
        check_request(request)
        check_date("date", date)
        if actor is not None:
            check_instance("actor", actor, Actor)
        parties = self.parties.restricted(among, exclude)
        wanted = find_protocol(protocol)
        with telemetry.span(f"round {wanted.name}") as span:
            outcome = await self._run(request, wanted, parties, announcement, date, actor)
            span.set(
                cnp_router__announcement=outcome.transcript.announcement,
                cnp_router__messages=len(outcome.transcript.messages),
                cnp_router__recommended=len(outcome.recommendation),
            )
        return outcome

    async def _run(
        self,
        request: str,
        wanted: Protocol,
        parties: Parties,
        announcement: Announcement,
        date: datetime.date | None,
        actor: Actor | None,
    ) -> Outcome:
        """Run a round by a protocol, among some parties."""
        # The protocol may be chosen by what the router would decide.
        given = (request, parties, self.settings, announcement, date)
        chosen, choice = await in_thread(wanted.prepare, *given)
        round_ = Round(
            request,
            parties=parties,
            model=self.model,
            settings=self.settings,
            protocol=chosen.name,
            announcement=(
                announcement if announcement in chosen.announcements else chosen.announcements[0]
            ),
            date=date,
            actor=actor,
        )
        result, transcript = await round_.run(chosen.run)
        return Outcome.of(
            result,
            transcript,
            parties,
            organisation=self.organisation,
            matched=chosen.has_contractors or result.candidates is not None,
            choice=choice,
        )

    def __repr__(self) -> str:
        return (
            f"ContractNet({len(self.contractors):,} contractors by {self.organisation}, "
            f"{self.model.name!r}, {'no router' if self.router is None else 'with a router'})"
        )
