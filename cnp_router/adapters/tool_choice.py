"""`ToolChoice`: which of many tools a framework shows its model for a request."""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from cnp_router.adapters.specification_routers import SpecificationRouters
from cnp_router.adapters.tool_definitions import tool_api, tool_id
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore
from cnp_router.records import (
    check_instance,
    check_number,
    check_text,
    instances,
    positions,
    shown,
    string_tuple,
)
from cnp_router.routing import Router
from cnp_router.routing.routing_telemetry import counted_routing
from cnp_router.routing.shortlisting import of_parts
from cnp_router.training import LearnedRouter
from cnp_router.trajectories import Step, Trajectory

__all__ = ["ToolChoice"]

_log = logging.getLogger(__name__)

_MOST_APIS = 100_000  # definitions that are kept


@dataclass(frozen=True, slots=True)
class _Known:
    """Some tools by who knows them: the name of each by its id there."""

    by_router: Mapping[str, str]
    by_specification: Mapping[str, str]
    fitted: Future[LearnedRouter] | None


class ToolChoice:
    """Chooses the tools that a model is shown for a request; any number of runs may share one.

    It holds nothing of a single run. Without a router, one is fitted on the specifications of the
    tools, once for each set of tools and its parts: in a thread, and runs that come meanwhile wait
    for it. With a router, tools that it does not know are found by such a router of the
    specifications of all tools, and take their places by their probability: no tool is left out
    because it is new.

    Parameters
    ----------
    router : Router, optional
        Such as one that learned from past requests.
    k : int >= 1, default=8
        The most that is shown, those of `always` included.
    always : iterable of str, default=()
        Names of tools that are shown whatever the request is, wherever they are among the tools.
        A name that none of the tools has takes no place, as they may differ from run to run; the
        log says so once, at level INFO.
    store : OnlineStore, optional
        Keeps what is observed. Routers that are fitted here learn what it has, also of runs that
        used tools that are not there any more; one that was given does by a `RouterObserver` of
        the store. What is forgotten there, these routers forget at the next choice; one that was
        given has to be loaded or fitted again. Without a store, the newest ten thousand outcomes
        are held here, as long as the choice is.
    names : mapping of str to str, optional
        What the router calls a tool, by the name that the framework has for it, where the two are
        not the same: ``{"now": "time__now"}``.

    Raises
    ------
    InputError
        If a value cannot be used, or more than `k` are always shown.

    Examples
    --------
    >>> tools = [tool_api("weather", "Says whether it will rain in a city."),
    ...          tool_api("send_sms", "Sends a text message to a phone."),
    ...          tool_api("book_train", "Books seats on trains.")]
    >>> choice = ToolChoice(k=2, always=["send_sms"])
    >>> asyncio.run(choice.choose("Will it rain in Kyoto?", tools))
    ('send_sms', 'weather')

    What nothing fits, and a request without a word, leave those that are always shown:

    >>> asyncio.run(choice.choose("zzz qqq", tools)), asyncio.run(choice.choose(" ", tools))
    (('send_sms',), ('send_sms',))

    Outcomes teach:

    >>> request = "Do I need an umbrella?"
    >>> asyncio.run(choice.choose(request, tools))
    ('send_sms',)
    >>> choice.observe(request, [Step("weather", success=True)], True).tools
    ('weather',)
    >>> asyncio.run(choice.choose("Do I need an umbrella today?", tools))
    ('send_sms', 'weather')
    """

    def __init__(
        self,
        router: Router | None = None,
        *,
        k: int = 8,
        always: Iterable[str] = (),
        store: OnlineStore | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.router = None if router is None else check_instance("router", router, Router)
        self.k = check_number("k", k, 1, 10**6, whole=True)
        self.always = tuple(dict.fromkeys(string_tuple("always", always)))
        self.store = None if store is None else check_instance("store", store, OnlineStore)
        self.names = dict(names or {})
        string_tuple("names", [*self.names, *self.names.values()])
        if len(self.always) > self.k:
            raise _too_many(len(self.always), self.k)
        self._apis_of: dict[str, tuple[object, Api]] = {}  # each with what it was made of
        self._not_missed = {tool_id(name): name for name in self.always}  # so far
        self._known_to_router = frozenset(() if router is None else router.apis)
        # A choice counts once: where a router was given, it is that one's.
        self._ids = {tool_id(name): api for name, api in self.names.items()}
        self._routers = SpecificationRouters(self.store, self._ids, is_counted=router is None)

    def api(
        self, name: str, description: str | None = None, parameters: Mapping[str, Any] | None = None
    ) -> Api:
        """Return `tool_api` of a definition, made once: for those who have thousands each turn."""
        given = (description, parameters)
        before = self._apis_of.get(name)
        if before is not None and before[0] == given:
            return before[1]
        made = tool_api(name, description, parameters)
        if len(self._apis_of) >= _MOST_APIS:
            self._apis_of.clear()
        self._apis_of[name] = (given, made)
        return made

    async def choose(
        self, request: str, tools: Sequence[Api], *, always: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Return the ids of the tools to show, which are their names: at most `k`.

        Parameters
        ----------
        request : str
            What the model is asked. By a blank one nothing can be chosen.
        tools : sequence of Api
            All there are now, with distinct ids: the `tool_id` of their names.
        always : iterable of str, default=()
            More names of tools that are shown here whatever the request is.

        Returns
        -------
        tuple of str
            First those that are always shown, then what fits, most probable first.

        Raises
        ------
        InputError
            If an argument cannot be used, or more than `k` of the tools are always shown.
        """
        check_text("request", request)
        tools = instances("tools", tools, Api)
        there = {tool.id for tool in tools}
        more = string_tuple("always", always)
        wanted = dict.fromkeys(tool_id(name) for name in (*self.always, *more))
        kept = tuple(name for name in wanted if name in there)
        for missing in [each for each in tuple(self._not_missed) if tools and each not in there]:
            name = self._not_missed.pop(missing, missing)
            _log.info(
                "none of %d tools is %s, which is always to be shown", len(tools), shown(name)
            )
        if len(kept) > self.k:
            raise _too_many(len(kept), self.k)
        if not request.strip() or len(kept) in (self.k, len(there)):
            return kept
        # In a thread: to look at ten thousand tools takes time, and to fit takes seconds.
        known = await asyncio.to_thread(self._known, tools)
        fitted = None
        if known.fitted is not None:
            # Whoever gives up does not take the router from those that wait with it.
            fitted = await asyncio.shield(asyncio.wrap_future(known.fitted))
        found = await asyncio.to_thread(self._chosen, request, known, fitted, kept)
        return (*kept, *found)

    def observe(
        self,
        request: str,
        steps: Iterable[Step],
        success: bool | None = None,
        *,
        id: str | None = None,
        user: str | None = None,
    ) -> Trajectory:
        """Learn what a run did: kept in the store, and known to the routers at once.

        Where it succeeded, the tools whose calls did not fail served the request, and the routers
        learn so. A router learns of the tools that it knows; those fitted here of all, also those
        that are fitted later, on other tools. They are fitted again each time what they learned
        from has doubled. Blocks as long as that takes: call it in a thread where an event loop
        runs.

        Parameters
        ----------
        request : str
        steps : iterable of Step
            The calls, by the names of the tools. Without any, nothing is learned.
        success : bool, optional
            Whether the request was served; None if nobody knows.
        id : str, optional
            Of the run: observed again, it counts once. Default: one of its own.
        user : str, optional
            Whose it is, so that it can be forgotten.

        Returns
        -------
        Trajectory
            What was kept, tools by their ids in the router.

        Raises
        ------
        InputError
            If an argument cannot be used; what the store raises goes through.
        """
        steps = instances("steps", steps, Step)
        run = id or f"run-{uuid.uuid4().hex}"
        done = Trajectory(
            run, request, tuple(self._named(step) for step in steps), success=success, user=user
        )
        if not steps:
            return done
        if self.store is not None:
            self.store.observe(done)
        if not success or not request.strip():
            return done
        serving = tuple(dict.fromkeys(s.tool for s in done.steps if s.success is not False))
        if serving:
            today = datetime.datetime.now(datetime.UTC).date()
            self._teach(Mashup(run, request, serving, date=today, user=user))
        return done

    def _teach(self, served: Mashup) -> None:
        """Have the store and the routers learn what served a request."""
        known = served
        if self.router is not None:
            known = served.without([api for api in served.apis if api not in self._known_to_router])
        if known.apis:
            if self.store is not None:
                self.store.observe(known)  # all of it is in the trajectory
            if isinstance(self.router, LearnedRouter):
                self.router.observe(known)  # counts once where the store has taught it already
        self._routers.learn(served)

    def _named(self, step: Step) -> Step:
        """Return a step by the id that the router has for its tool."""
        tool = tool_id(step.tool)
        api = self._ids.get(tool, tool)
        return step if api == step.tool else replace(step, tool=api)

    def _known(self, tools: tuple[Api, ...]) -> _Known:
        """Part tools by who knows them; a router is fitted where one is needed."""
        ids = [self._ids.get(tool.id, tool.id) for tool in tools]
        positions("tool", ids)
        by_router = {
            api: tool.id
            for api, tool in zip(ids, tools, strict=True)
            if api in self._known_to_router
        }
        if len(by_router) == len(tools):
            return _Known(by_router, {}, None)
        named = set(by_router.values())
        others = {tool.id: tool.id for tool in tools if tool.id not in named}
        return _Known(by_router, others, self._routers.of(tools))

    def _chosen(
        self,
        request: str,
        known: _Known,
        fitted: LearnedRouter | None,
        kept: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Return the names of those that fit, besides those that are always shown."""
        found: dict[str, float] = {}
        asked: list[tuple[Router, list[str] | None, Mapping[str, str]]] = []
        is_counted = self.router is None  # or by the first that is asked
        for router, ids in ((self.router, known.by_router), (fitted, known.by_specification)):
            left = [api for api, name in ids.items() if name not in kept]
            if router is None or not left:
                continue
            among = None if len(left) == len(router.apis) else left
            asked.append((router, among, ids))
            routing = router.route(request, among=among)
            if router is fitted and not is_counted:
                counted_routing(routing)
            is_counted = True
            if routing.fits:
                found |= {ids[each.contractor]: each.probability for each in routing.recipients}
        places = self.k - len(kept)
        free = places - len(found)
        if found and free > 0:
            for router, among, ids in asked:
                taken = {api for api, name in ids.items() if name in found}
                added, _ = of_parts(router, request, free, taken=taken, among=among)
                found |= {ids[each.contractor]: each.probability for each in added}
        return tuple(sorted(found, key=lambda name: -found[name])[:places])

    def __repr__(self) -> str:
        how = "fitted on specifications" if self.router is None else shown(self.router)
        return f"ToolChoice({how}, k={self.k})"


def _too_many(n: int, k: int) -> InputError:
    return InputError(f"{n} tools are always shown, and k is {k} (raise k)")
