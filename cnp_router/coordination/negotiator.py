"""`Negotiator`: who of those that can do a job is to do it."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cnp_router import telemetry
from cnp_router.context import ContextEntry
from cnp_router.context.data_classes import contractor_of
from cnp_router.coordination.asking import Asking, SourcesByApi
from cnp_router.coordination.capabilities import Capabilities
from cnp_router.coordination.load import Load
from cnp_router.coordination.offers import Negotiation, Offer
from cnp_router.coordination.propagation import Propagation
from cnp_router.coordination.rpc import (
    DISCOVER,
    MOST_SAID,
    NEGOTIATE,
    CapabilitiesFound,
    CapabilityDiscover,
    CapabilityNegotiate,
    Negotiated,
)
from cnp_router.exceptions import CnpRouterError, CoordinationError, InputError
from cnp_router.online import Reputation
from cnp_router.printing import printable
from cnp_router.protocols.parties import Parties
from cnp_router.records import check_flag, check_number, string_tuple
from cnp_router.sources.source import SEPARATOR

__all__ = ["Negotiator"]

_KEPT = 100  # negotiations
_MOST_SHOWN = 300  # characters of a reason that a server gives


class Negotiator:
    """Negotiates jobs with those that can do them, and knows who is busy and who succeeds.

    The score is that of Li and Liu (arXiv:2601.11595): ``0.5 * match + 0.3 / load + 0.2 * past``.
    A server that declares ``capability/negotiate`` says itself whether it takes the job, and one
    that declares ``capability/discover`` what it can do; for the others the coordinator speaks, by
    catalog, load and reputation. One negotiator may serve several executions of one event loop,
    and one loop after another.

    Parameters
    ----------
    sources : Sources, optional
        Whose servers are asked; without it nobody is.
    reputation : Reputation, optional
        By default one of its own, which learns from `end` alone.
    threshold : float in [0, 1], default=0.5
        Who fits less than this share of the best match takes no part.
    sampling : bool, default=False
        Draw past success from what is known of it instead of taking its mean (Thompson 1933).
    seed : int, default=0
        Of the draws.
    weights : tuple of three floats >= 0, default=(0.5, 0.3, 0.2)
        Of match, load and past success.
    tell_task : bool, default=False
        Whether servers are told the words of the task, or only which tool is wanted and the
        category: what a user asks for may be private.
    most_asked : int >= 1, default=8
        How many are asked for one job, the best first; the others take it as it comes.
    timeout : float > 0, seconds, default=2.0
        For the answer of a server.
    load : Load, optional
    gives : callable, optional
        What APIs give, as far as it is known; see `Capabilities`.

    Attributes
    ----------
    held : deque of Negotiation
        The last hundred.
    notes : deque of str
        Answers of servers that could not be used.
    seconds : Counter of str
        By source, how long its acts took altogether.

    Examples
    --------
    >>> negotiator = Negotiator()
    >>> match = {"a__rain": 0.8, "b__rain": 0.75, "c__sms": 0.1}
    >>> asyncio.run(negotiator.order("Rain?", list(match), match=match))
    ['a__rain', 'b__rain']
    >>> negotiator.begin("a__rain")
    >>> asyncio.run(negotiator.order("Rain?", list(match), match=match))
    ['b__rain', 'a__rain']
    >>> negotiator.held[-1].offers[0]
    Offer(api='b__rain', score=0.775, match=0.75, load=1, past=0.5, is_accepted=True, reason='', \
said_by='coordinator')
    """

    def __init__(
        self,
        sources: SourcesByApi | None = None,
        *,
        reputation: Reputation | None = None,
        threshold: float = 0.5,
        sampling: bool = False,
        seed: int = 0,
        weights: tuple[float, float, float] = (0.5, 0.3, 0.2),
        tell_task: bool = False,
        most_asked: int = 8,
        timeout: float = 2.0,
        load: Load | None = None,
        gives: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        self.reputation = Reputation() if reputation is None else reputation
        self.threshold = check_number("threshold", threshold, 0, 1)
        self.sampling = check_flag("sampling", sampling)
        self.weights = tuple(check_number("weights", each, 0, 10**6) for each in weights)
        if len(self.weights) != 3:
            raise InputError(f"weights must be three numbers, got {len(self.weights)}")
        self.tell_task = check_flag("tell_task", tell_task)
        self.most_asked = check_number("most_asked", most_asked, 1, whole=True)
        self.load = Load() if load is None else load
        self.held: deque[Negotiation] = deque(maxlen=_KEPT)
        self.seconds: Counter[str] = Counter()
        timeout = check_number("timeout in seconds", timeout, 0, 3600, ends=False)
        self._asking = Asking(sources, timeout)
        self._propagation = Propagation(self._asking)
        self._rng = np.random.default_rng(check_number("seed", seed, 0, whole=True))
        self._able: dict[str, frozenset[str]] = {}  # by source that said what it can do
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        # By execution: what it has shown that a store will teach the reputation later; and the
        # reputation with all of that.
        self._shown: dict[str, list[tuple[str, bool, str | None]]] = {}
        self._known: Reputation | None = None
        self._gives = gives
        self._capabilities: Capabilities | None = None

    @property
    def notes(self) -> deque[str]:
        """Answers of servers that could not be used, in words."""
        return self._asking.notes

    @property
    def n_messages(self) -> int:
        """Requests to servers and answers of theirs until now."""
        return self._asking.n_messages

    async def order(
        self,
        text: str,
        apis: Iterable[str],
        *,
        match: Mapping[str, float],
        category: str | None = None,
    ) -> list[str]:
        """Return who is to do a job, best first, without those that declined.

        Parameters are those of `negotiate`.
        """
        found = await self.negotiate(text, apis, match=match, category=category)
        return list(found.order)

    async def negotiate(
        self,
        text: str,
        apis: Iterable[str],
        *,
        match: Mapping[str, float],
        category: str | None = None,
    ) -> Negotiation:
        """Negotiate a job with those that could do it.

        Parameters
        ----------
        text : str
            What is to be done.
        apis : iterable of str
        match : mapping of str to float in [0, 1]
            By API, how well it fits; 0 where nothing is said.
        category : str, optional
            Of the job, for past success.

        Raises
        ------
        CoordinationError
            If what negotiations rest on cannot be had, such as a reputation whose store is gone.
        """
        names = list(dict.fromkeys(string_tuple("apis", apis)))
        try:
            offers = self._offers(names, match, category)
        except (CnpRouterError, OSError) as exc:
            raise CoordinationError(f"nobody can be compared: {exc}") from exc
        found = Negotiation(await self._answered(text, offers, category))
        self.held.append(found)
        best = next((each.api for each in found.offers if each.is_accepted), None)
        telemetry.add("cnp_router.capability.matches", 1, {"hit": best is not None})
        if best is not None:
            self.load.promise(best)
        return found

    async def discover(self, apis: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Ask the sources of some APIs anew what they can do; ids of APIs by source.

        Only those that declare it, and were started, are asked; what they do not name takes no part
        in negotiations. Those whose answers were wrong before are asked again.
        """
        self._asking.trust_again()
        self._able.clear()
        await self._discovered(string_tuple("apis", apis))
        return {
            name: tuple(f"{name}{SEPARATOR}{tool}" for tool in sorted(tools))
            for name, tools in self._able.items()
        }

    def keeps_context(self, api: str) -> bool:
        """Return whether the server of an API declares that it keeps shared context."""
        return self._propagation.is_wanted(api)

    async def propagate(
        self, api: str, entries: Iterable[ContextEntry], *, needed: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Send entries of shared context to the server of an API, if it declares that it keeps it.

        Parameters
        ----------
        api : str
        entries : iterable of ContextEntry
            Public ones may reach any server, private ones who gave them and who needs them,
            confidential ones who gave them. Each is sent once.
        needed : collection of str, default=()
            Ids of those that the job depends on.

        Returns
        -------
        tuple of str
            Ids of those that it says it has kept.
        """
        return await self._propagation.send(api, entries, needed=needed)

    def begin(self, api: str) -> None:
        """Say that an API begins an act, or waits to."""
        self.load.begin(api)

    def end(
        self,
        api: str,
        *,
        success: bool | None,
        seconds: float = 0.0,
        category: str | None = None,
        execution: str | None = None,
    ) -> None:
        """Say how an act of an API ended.

        Parameters
        ----------
        api : str
        success : bool or None
            None where nobody knows: it does not count.
        seconds : float >= 0, seconds, default=0.0
        category : str, optional
            Of the job.
        execution : str, optional
            Where a store teaches the reputation what the execution of this id has shown: it counts
            here until `settle`. Otherwise it counts at once, and for good.
        """
        self.load.end(api)
        self.seconds[contractor_of(api)] += seconds  # type: ignore[assignment]
        if success is None:
            return
        if execution is None:
            self.reputation.count(api, success, category)
        else:
            if self._known is None:
                self._known = copy.deepcopy(self.reputation)
            self._known.count(api, success, category)
            self._shown.setdefault(execution, []).append((api, success, category))

    def settle(self, execution: str) -> None:
        """Forget what an execution has shown: the reputation has learned it."""
        self._shown.pop(execution, None)
        self._known = copy.deepcopy(self.reputation) if self._shown else None
        for shown in self._shown.values():
            for each in shown:
                self._known.count(*each)  # type: ignore[union-attr]

    def capabilities(self, parties: Parties) -> Capabilities:
        """Return the equivalents in the catalog of some parties, made once."""
        found = self._capabilities
        if found is None or found.likeness is not parties.function_likeness:
            found = Capabilities(parties.function_likeness, parties.catalog.ids)
            self._capabilities = found
        return found

    def past(self, api: str, category: str | None = None) -> float:
        """Return how often an API succeeds, by all that is known until now, or a draw of that."""
        known = self._known or self.reputation
        if self.sampling:
            return known.sample(api, category, self._rng)
        return known.rate(api, category)

    def _offers(
        self, names: Sequence[str], match: Mapping[str, float], category: str | None
    ) -> list[Offer]:
        """Return those that fit well enough with their scores, best first."""
        fits = np.array([match.get(name, 0.0) for name in names], dtype=float)
        able = fits >= self.threshold * fits.max(initial=0.0)
        names, fits = [n for n, is_able in zip(names, able, strict=True) if is_able], fits[able]
        loads = np.array([self.load.of(name) for name in names], dtype=float)
        past = np.array([self.past(name, category) for name in names], dtype=float)
        by_match, by_load, by_past = self.weights
        scores = by_match * fits + by_load / loads + by_past * past
        best = np.argsort(-scores, kind="stable")
        columns = (scores[best], fits[best], loads[best].astype(int), past[best])
        ordered = [names[i] for i in best.tolist()]
        return [
            Offer(*each)
            for each in zip(ordered, *(column.tolist() for column in columns), strict=True)
        ]

    async def _answered(
        self, text: str, offers: Sequence[Offer], category: str | None
    ) -> tuple[Offer, ...]:
        """Return the offers with the answers of those servers that speak for themselves."""
        if self._asking.is_mute:
            return tuple(offers)
        await self._discovered([each.api for each in offers])
        if self._able:
            offers = [self._able_or_not(each) for each in offers]
        left = [each.api for each in offers if each.is_accepted]
        asked = [api for api in left[: self.most_asked] if self._asking.is_declared(api, NEGOTIATE)]
        answers = await asyncio.gather(*(self._answer(text, api, category) for api in asked))
        said = dict(zip(asked, answers, strict=True))
        return tuple(
            each if (answer := said.get(each.api)) is None else _with_answer(each, answer)
            for each in sorted(map(self._as_busy_as_now, offers), key=lambda each: -each.score)
        )

    def _as_busy_as_now(self, offer: Offer) -> Offer:
        """Return an offer with the load of now: others were awarded while servers were asked."""
        load = self.load.of(offer.api)
        if load == offer.load:
            return offer
        score = offer.score + self.weights[1] * (1 / load - 1 / offer.load)
        return replace(offer, load=load, score=score)

    async def _answer(self, text: str, api: str, category: str | None) -> Negotiated | None:
        params = CapabilityNegotiate(
            capability=api.removeprefix(contractor_of(api) + SEPARATOR),
            task=text[:MOST_SAID] if self.tell_task else "",
            category=category,
        )
        return await self._asking.ask(api, NEGOTIATE, params, Negotiated)

    async def _discovered(self, apis: Sequence[str]) -> None:
        """Ask each source once what it can do."""
        first = {contractor_of(api): api for api in apis}
        new = {
            name: api
            for name, api in first.items()
            if name not in self._able and self._asking.is_declared(api, DISCOVER)
        }
        if not new:
            return
        async with self._discovering():  # who negotiates at the same time waits for the same answer
            left = [(name, api) for name, api in new.items() if name not in self._able]
            ask, params = self._asking.ask, CapabilityDiscover()
            found = await asyncio.gather(
                *(ask(api, DISCOVER, params, CapabilitiesFound) for _, api in left)
            )
            for (name, _), answer in zip(left, found, strict=True):
                if answer is not None:
                    self._able[name] = frozenset(each.name for each in answer.capabilities)

    def _discovering(self) -> asyncio.Lock:
        """Return the lock of this event loop: that of another one cannot be waited for."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = loop, asyncio.Lock()
        return self._lock[1]

    def _able_or_not(self, offer: Offer) -> Offer:
        """Return an offer, declined where the server does not name the capability."""
        source, _, tool = offer.api.partition(SEPARATOR)
        if tool in self._able.get(source, (tool,)):
            return offer
        reason = "its server does not name it among what it can do"
        return replace(offer, is_accepted=False, reason=reason, said_by="server")

    def __repr__(self) -> str:
        return f"Negotiator({self.load!r}, {self.reputation!r})"


def _with_answer(offer: Offer, answer: Negotiated) -> Offer:
    reason = printable(answer.reason, _MOST_SHOWN)
    is_accepted = answer.status == "accepted"
    return replace(offer, is_accepted=is_accepted, reason=reason, said_by="server")
