"""`ContractNet`: requests in, outcomes out, by any protocol, routed or broadcast."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

from cnp_router.agents import ComposeAlone, MapCategories, Organisation, SelectApis, organise
from cnp_router.catalog import Catalog, Contractor
from cnp_router.exceptions import BudgetExceededError, InputError
from cnp_router.graph import TransitionGraph
from cnp_router.llm import ChatModel, run_sync
from cnp_router.protocols.choice import Choice, choose_protocol
from cnp_router.protocols.messages import Proposal
from cnp_router.protocols.outcome import Outcome, Stages
from cnp_router.protocols.plans import PLANS, Audience, Plan
from cnp_router.protocols.replay import replay
from cnp_router.protocols.round import Invitation, Round, as_proposed
from cnp_router.protocols.settings import RoundSettings
from cnp_router.protocols.transcript import Transcript
from cnp_router.routing import Router, Routing, Scores
from cnp_router.routing.result import Source
from cnp_router.training import CategoryClassifier

logger = logging.getLogger("cnp_router.protocols")

__all__ = ["PROTOCOLS", "Announce", "ContractNet", "ProtocolName"]

ProtocolName = Literal[
    "learned", "manager-led", "contractor-led", "collaborative", "single-agent", "auto"
]
PROTOCOLS: tuple[str, ...] = get_args(ProtocolName)
Announce = Literal["routed", "broadcast"]


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
    >>> outcome = net.run_sync("Send a text message when it rains.", announce="broadcast")
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
        if not isinstance(catalog, Catalog):
            raise InputError(f"catalog must be a Catalog, got {catalog!r}")
        if not isinstance(model, ChatModel):
            raise InputError(f"model must be a ChatModel, got {model!r}")
        self.catalog = catalog
        self.model = model
        self.router = router
        self.settings = settings or RoundSettings()
        if router is not None and not set(router.apis).issubset(catalog.ids):
            stranger = next(name for name in router.apis if name not in catalog)
            raise InputError(
                f"the router routes to {stranger!r}, which the catalog does not have "
                "(give the catalog it was fitted on)"
            )
        if isinstance(organisation, str):
            self.organise: str = organisation
            graph = self._graph() if organisation == "community" else None
            self.contractors = organise(catalog, organisation, graph=graph, max_size=max_size)
        elif max_size is not None:
            raise InputError("max_size goes with an organisation, not with contractors of your own")
        else:
            self.organise = "custom"
            self.contractors = tuple(organisation)
            if not self.contractors:
                raise InputError("a contract net needs at least one contractor (got none)")
        self._holders = _holders(self.contractors, catalog)

    def run_sync(
        self,
        request: str,
        *,
        protocol: ProtocolName = "contractor-led",
        announce: Announce = "routed",
    ) -> Outcome:
        """Hold a round where there is no event loop; see `run`."""

        async def held() -> Outcome:
            async with self.model:
                return await self.run(request, protocol=protocol, announce=announce)

        return run_sync(held, instead="await net.run(request)")

    async def run(
        self,
        request: str,
        *,
        protocol: ProtocolName = "contractor-led",
        announce: Announce = "routed",
    ) -> Outcome:
        """Hold a round.

        Parameters
        ----------
        request : str
            The requirement in plain language.
        protocol : str, default="contractor-led"
            ``"manager-led"``, ``"contractor-led"``, ``"collaborative"``, ``"single-agent"``;
            ``"learned"``: what the router recommends, with no model; ``"auto"``: by the request
            (`choose_protocol`).
        announce : {"routed", "broadcast"}, default="routed"
            To the recipients that the router chooses, or to everyone that the protocol reaches.

        Returns
        -------
        Outcome

        Raises
        ------
        InputError
            If the request is not a string, protocol or announcement are unknown, or they need a
            router and there is none.
        RoundFailedError
            If the manager's model gives no usable answer, or not one contractor can be reached.
        BudgetExceededError
            If there is a budget, and what comes next does not fit in.
        """
        self._check(request, protocol, announce)
        choice = None
        if protocol == "auto":
            choice = self._choose(request)
            protocol = choice.protocol  # type: ignore[assignment]  # one of the names
        async with Round(
            request,
            model=self.model,
            catalog=self.catalog,
            settings=self.settings,
            protocol=protocol,
            announce="routed" if protocol == "learned" else announce,
        ) as round_:
            if protocol == "learned":
                learned, transcript = await self._learned(round_)
                return self._outcome(transcript, learned, choice)
            audience = Audience(self.contractors, classifier=self._classifier())
            if announce == "routed":
                audience = await self._routed(round_, protocol)
            if protocol == "single-agent":
                transcript = await self._alone(round_, audience)
                return self._outcome(transcript, audience.routing, choice)
            plan = await PLANS[protocol](round_, audience)
            routing = audience.routing
            if routing is not None and plan.widens:
                routing = replace(routing, source="llm", fallback="llm")
            transcript = await self._negotiated(round_, protocol, audience, plan)
            return self._outcome(transcript, routing, choice)

    async def _negotiated(
        self, round_: Round, protocol: str, audience: Audience, plan: Plan
    ) -> Transcript:
        invitations = _first_invitations(plan, audience)
        proposals = await round_.announce(invitations)
        chosen = await _selected(round_, plan, proposals, ())
        round_.decide(proposals, chosen)
        if self.settings.iterate and chosen:
            asked = {invitation.contractor.id for invitation in invitations}
            tied = [c for c in self._tied(chosen) if c.id not in asked]
            tied = tied[: self.settings.iterate]
            more = await _announced_again(round_, _invitations(plan, tied, chosen=True))
            added = await _selected(round_, plan, more, _awarded(proposals, chosen))
            round_.decide(more, added)
            proposals, chosen = [*proposals, *more], [*chosen, *added]
        if protocol != "manager-led":
            named = (name for proposal in proposals for name in proposal.categories)
            round_.categories = tuple(dict.fromkeys(named))
        return await round_.report(chosen)

    async def _routed(self, round_: Round, protocol: str) -> Audience:
        """Return the audience that the router chooses, widened where it is not confident."""
        router, settings = self._needed_router(), self.settings
        scores = router.score(round_.request)
        # Counted at the end, as what it has become.
        decide = partial(
            _uncounted(router).decide,
            round_.request,
            scores,
            select=settings.select,
            threshold=settings.threshold,
        )
        routing = decide(fallback="broadcast" if settings.fallback == "broadcast" else "none")
        # A manager-led round has its own step 2 for the model, and widens by that.
        widens = settings.fallback == "llm" and protocol != "manager-led"
        if widens and not routing.is_confident:
            if self.catalog.categories:
                task = MapCategories(round_.request, (round_.request,), self.catalog.categories)
                mapping = await round_.ask(task, "fallback")
                routing = decide(fallback=_Widened(self._apis_in(mapping.all_categories)))
            else:
                logger.warning(
                    "confidence %.2f is below %.2f, and the catalog has no categories to widen to",
                    routing.confidence,
                    settings.threshold,
                )
        router.source_counts[routing.source] += 1
        recipients = dict.fromkeys(
            holder for name in routing.contractors for holder in self._holders[name]
        )
        return Audience(self.contractors, tuple(recipients), routing, self._classifier())

    async def _learned(self, round_: Round) -> tuple[Routing, Transcript]:
        routing = self._needed_router().route(
            round_.request, select=self.settings.select, threshold=self.settings.threshold
        )
        classifier = self._classifier()
        if classifier is not None:
            round_.categories = classifier.predict([round_.request])[0]
        return routing, await round_.report(routing.recommendation)

    async def _alone(self, round_: Round, audience: Audience) -> Transcript:
        """Have a single agent take all four steps, with the specifications it is to see."""
        apis = tuple(self.catalog)
        if audience.routing is not None:
            apis = tuple(self.catalog[name] for name in audience.routing.contractors)
        composition = await round_.ask(ComposeAlone(round_.request, apis), "composition")
        round_.categories = composition.categories
        round_.candidates = composition.candidates
        return await round_.report(composition.apis)

    def _choose(self, request: str) -> Choice:
        routing = _uncounted(self._needed_router()).route(
            request, select=self.settings.select, threshold=self.settings.threshold
        )
        classifier = self._classifier()
        probabilities = None if classifier is None else classifier.predict_proba([request])[0]
        return choose_protocol(request, routing, probabilities)

    def _tied(self, chosen: Sequence[str]) -> list[Contractor]:
        """Return the holders of the APIs most used together with the chosen ones."""
        graph = self._graph()
        known = [name for name in chosen if name in graph.apis_]
        if not known:
            return []
        nearest = (n for n in graph.predict_next(known, k=len(graph.apis_)) if n.count)
        tied = (holder for n in nearest for holder in self._holders.get(n.api, ()))
        return list(dict.fromkeys(tied))

    def _outcome(
        self, transcript: Transcript, routing: Routing | None, choice: Choice | None
    ) -> Outcome:
        result = replay(transcript)
        categories = transcript.categories
        return Outcome(
            request=transcript.request,
            protocol=transcript.protocol,
            announce=transcript.announce,
            organise=self.organise,
            recommendation=result.recommendation,
            recipients=result.recipients,
            n_contractors=len(self.contractors),
            categories=categories,
            stages=Stages(
                None if categories is None else frozenset(self._apis_in(categories)),
                None if transcript.protocol == "learned" else frozenset(result.proposed),
                frozenset(result.recommendation),
            ),
            transcript=transcript,
            routing=routing,
            choice=choice,
        )

    def _apis_in(self, categories: Iterable[str]) -> list[str]:
        return [api.id for api in self.catalog.in_categories(categories)]

    def _classifier(self) -> CategoryClassifier | None:
        classifier = getattr(self.router, "categories", None)
        return classifier if isinstance(classifier, CategoryClassifier) else None

    def _graph(self) -> TransitionGraph:
        graph = getattr(self.router, "graph", None)
        if not isinstance(graph, TransitionGraph):
            raise InputError("co-usage needs a router with a transition graph (give a fitted one)")
        return graph

    def _needed_router(self) -> Router:
        if self.router is None:
            raise InputError("there is no router to ask (give one, or announce='broadcast')")
        return self.router

    def _check(self, request: str, protocol: str, announce: str) -> None:
        if not isinstance(request, str):
            raise InputError(f"a request must be a string, got {request!r}")
        if protocol not in PROTOCOLS:
            raise InputError(f"unknown protocol {protocol!r} (use one of {', '.join(PROTOCOLS)})")
        if announce not in get_args(Announce):
            raise InputError(f"unknown announcement {announce!r} (use 'routed' or 'broadcast')")
        if announce == "routed" or protocol in ("learned", "auto"):
            self._needed_router()
        if self.settings.iterate and protocol in (*PLANS, "auto"):
            self._graph()


class _Widened:
    """The fallback of a routing, when the model has already been asked."""

    source: Source = "llm"

    def __init__(self, apis: Sequence[str]) -> None:
        self.apis = apis

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        known = set(scores.apis)
        return [name for name in self.apis if name in known]


def _uncounted(router: Router) -> Router:
    """Return the router for a look ahead, which is not to be counted as a routing."""
    other = copy.copy(router)
    other.source_counts = Counter()
    return other


def _holders(
    contractors: Sequence[Contractor], catalog: Catalog
) -> dict[str, tuple[Contractor, ...]]:
    """Return who holds each API."""
    twice = [name for name, n in Counter(c.id for c in contractors).items() if n > 1]
    if twice:
        raise InputError(f"duplicate contractor id {twice[0]!r} (ids must be unique)")
    holders: dict[str, tuple[Contractor, ...]] = dict.fromkeys(catalog.ids, ())
    for contractor in contractors:
        for api in contractor.apis:
            if api.id not in holders:
                raise InputError(
                    f"contractor {contractor.id!r} holds {api.id!r}, which the catalog does not "
                    "have"
                )
            holders[api.id] = (*holders[api.id], contractor)
    return holders


def _first_invitations(plan: Plan, audience: Audience) -> list[Invitation]:
    """Return what is announced to the recipients, and to whom a plan widens it."""
    recipients = audience.recipients or ()
    everyone = audience.recipients is None or plan.widens
    reached = {contractor.id for contractor in recipients}
    others = [c for c in audience.contractors if everyone and c.id not in reached]
    return [
        *_invitations(plan, recipients, chosen=True),
        *_invitations(plan, others, chosen=False),
    ]


def _invitations(
    plan: Plan, contractors: Iterable[Contractor], *, chosen: bool
) -> list[Invitation]:
    return [each for c in contractors for each in plan.invitations(c, chosen=chosen)]


async def _announced_again(round_: Round, invitations: Sequence[Invitation]) -> list[Proposal]:
    """Announce to more, unless the budget does not take it: what is awarded is not given up."""
    try:
        return await round_.announce(invitations)
    except BudgetExceededError as exc:
        logger.warning("no second announcement: %s", exc)
        return []


async def _selected(
    round_: Round, plan: Plan, proposals: Sequence[Proposal], awarded: Sequence[Any]
) -> list[str]:
    if not proposals:
        return []
    task = SelectApis(round_.request, plan.functions, as_proposed(proposals), tuple(awarded))
    decisions = len(proposals)
    return list((await round_.ask(task, "final", messages=decisions)).apis)


def _awarded(proposals: Sequence[Proposal], chosen: Sequence[str]) -> list[Any]:
    return [proposed for proposed in as_proposed(proposals) if proposed.api in set(chosen)]
