"""`Gateway`: one door to any number of sources: search, call, and what came of it. No transport."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any, Self, TypeVar

from cnp_router import telemetry
from cnp_router.catalog import Api, Catalog
from cnp_router.context import SharedContext
from cnp_router.exceptions import InputError
from cnp_router.records import check_instance, check_json, check_number, check_request, check_text
from cnp_router.routing import Router, Routing
from cnp_router.serving.calling_tools import ToolCaller
from cnp_router.serving.clients import Client
from cnp_router.serving.finding import find
from cnp_router.serving.gateway_settings import GatewaySettings
from cnp_router.serving.logged import LoggedCall, LoggedSearch
from cnp_router.serving.open_tools import OpenTools
from cnp_router.serving.roll_out import is_acted_on, new_search_id
from cnp_router.serving.search_answers import Called, FoundTool, Search
from cnp_router.serving.search_log import SearchLog
from cnp_router.serving.teaching import Teaching
from cnp_router.serving.upkeep import Upkeep
from cnp_router.sources import CallProgress, Sources

__all__ = ["Called", "FoundTool", "Gateway", "GatewaySettings", "Search"]

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
_LONGEST = 10_000  # characters of a query
_PATIENCE = 100  # looks, 10 ms apart, whether the last calls are over
_ANYONE = Client()


class Gateway:
    """One door to any number of sources: an asynchronous context manager for one event loop.

    A search is a request in plain language; it gives the few tools that fit it, and an id. A call
    names that id, so that what comes of it teaches the router, next-tool prediction and
    reputation. Each client sees and calls what it may, and uses its own searches only.

    What is given to it is not closed by it, but for a log that it makes itself.

    Parameters
    ----------
    router : Router
        Asked and taught in one thread of its own.
    catalog : Catalog
        What the router knows. With `sources`, only what they have now can be found and called.
    sources : Sources, optional
        Without any, there is nothing to be called.
    settings : GatewaySettings, optional
    log : SearchLog, optional
        Default: one in memory.
    teaching : Teaching, optional
        Without one, nothing is learned.
    context : SharedContext, optional
        What calls gave, so that what only reads is not called twice.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> from cnp_router.routing import SpecificationRouter
    >>> from cnp_router.sources import FunctionSource
    >>> def forecast(city: str) -> str:
    ...     '''The weather forecast of a city: rain or sun.'''
    ...     return f"Rain in {city}"
    >>> async def main():
    ...     source = FunctionSource("weather", [forecast], effects={"forecast": "reads"})
    ...     async with Sources([source]) as sources:
    ...         catalog = await sources.catalog()
    ...         async with Gateway(SpecificationRouter(catalog), catalog, sources) as gateway:
    ...             found = await gateway.search("weather forecast: rain?")
    ...             tool = found.tools[0].api.id
    ...             return await gateway.call(tool, {"city": "Kyoto"}, found.search_id)
    >>> asyncio.run(main())
    Called('weather__forecast', CallResult('Rain in Kyoto'))
    """

    def __init__(
        self,
        router: Router,
        catalog: Catalog,
        sources: Sources | None = None,
        *,
        settings: GatewaySettings | None = None,
        log: SearchLog | None = None,
        teaching: Teaching | None = None,
        context: SharedContext | None = None,
    ) -> None:
        self.router = check_instance("router", router, Router)
        self.settings = settings or GatewaySettings()
        self._tools = OpenTools(catalog, sources, self.settings)
        self._owns_log = log is None
        self.log = SearchLog() if log is None else log
        self.teaching = teaching
        self._caller = ToolCaller(sources, self.settings, context)
        self._in_flight = 0
        self._is_open = False

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise InputError("the gateway is open already")
        await self._tools.load()
        self._routing = ThreadPoolExecutor(1, "cnp-router-routing")
        self._logging = ThreadPoolExecutor(1, "cnp-router-log")
        about = (self.log, self.teaching, self._tools, self.settings, self._in_turn)
        self._upkeep = Upkeep(*about)
        try:
            await self._upkeep.begin()
        except BaseException:
            self._upkeep.close()
            self._shut_down()
            raise
        self._is_open = True
        return self

    async def __aexit__(self, *error: object) -> None:
        self._is_open = False
        for _ in range(_PATIENCE):
            if not self._in_flight:
                break
            await asyncio.sleep(0.01)
        try:
            await self._upkeep.end()
        finally:
            self._shut_down()

    async def search(self, query: str, k: int | None = None, *, client: Client = _ANYONE) -> Search:
        """Find the tools that fit a request.

        Parameters
        ----------
        query : str
            In plain language; at most 10,000 characters.
        k : int or None, default=None
            The most tools that are found, up to `GatewaySettings.max_k`. None: that of the
            settings.
        client : Client, optional

        Returns
        -------
        Search
            Where the settings do not act on all searches, some show every tool instead.

        Raises
        ------
        InputError
            If a value cannot be used.
        """
        return await self._search(query, k, client, self.settings.share)

    async def route(self, request: str, *, client: Client = _ANYONE) -> Search:
        """Say what the router decides, and why: the whole decision is in `Search.routing`.

        It is always acted on, whatever the share. Parameters and errors are those of `search`.
        """
        return await self._search(request, None, client, 1.0)

    async def call(
        self,
        name: str,
        inputs: Mapping[str, Any],
        search_id: str | None = None,
        *,
        client: Client = _ANYONE,
        key: str = "",
        on_progress: Callable[[CallProgress], object] | None = None,
    ) -> Called:
        """Call a tool.

        Parameters
        ----------
        name : str
            Id of its API.
        inputs : mapping of str to JSON value
        search_id : str, optional
            Of the search that it was found by: what comes of it teaches. Without it, nothing does.
        client : Client, optional
        key : str, default=""
            The same for each attempt at one and the same act: it is done once, and each attempt
            gets what came of it. What failed and was not done can be tried again with it.
        on_progress : callable, optional
            As for a `Call`.

        Returns
        -------
        Called
            What goes wrong in the call is its ``result.failure``; of kind ``"declined"`` where
            nobody has allowed it.

        Raises
        ------
        UnknownApiError
            If there is no such tool for this client.
        UnknownSearchError
            If there is no such search, it is too old, or another client's. Nothing is called then.
        InputError
            If a value cannot be used, or the key was given for another act.
        """
        self._check_open()
        api = self._tools.get(name, client)
        check_json("inputs", inputs)
        if search_id is not None:
            check_text("search_id", search_id)
        check_text("key", key)
        self._in_flight += 1
        try:
            called = await self._caller.once(
                (client.name, search_id, api.id, key),
                api,
                inputs,
                lambda: self._call(api, inputs, search_id, client, key, on_progress),
                lambda name: self._logged(lambda: self.log.claim_key(name)),
                lambda name: self._logged(lambda: self.log.release_key(name)),
            )
        finally:
            self._in_flight -= 1
        failure = called.result.failure
        if failure is not None and failure.kind == "changed":
            self._tools.is_stale = True
        return called

    async def rate(self, search_id: str, rating: int, *, client: Client = _ANYONE) -> None:
        """Say how good what was found for a search was, and what was called.

        Parameters
        ----------
        search_id : str
        rating : int from 1 to 5
            After 1 or 2, nothing of it is taken as having served the request.
        client : Client, optional

        Raises
        ------
        UnknownSearchError, InputError
            As in `call`.
        """
        self._check_open()
        rating = check_number("rating", rating, 1, 5, whole=True)
        check_text("search_id", search_id)
        since = self._since
        await self._logged(lambda: self.log.rate(search_id, client.name, rating, since=since))
        telemetry.record("cnp_router.user.rating", rating)

    def apis(self, client: Client = _ANYONE) -> tuple[Api, ...]:
        """Return what a client may see, in the order of the catalog."""
        return tuple(self._tools.of(client).values())

    def always(self, client: Client = _ANYONE) -> tuple[Api, ...]:
        """Return the tools that are shown to a client whatever it asks."""
        seen = self._tools.of(client)
        return tuple(seen[name] for name in self.settings.always if name in seen)

    def status(self, client: Client | None = None) -> dict[str, Any]:
        """Return how it is, for who watches: nothing in it is private.

        Parameters
        ----------
        client : Client, optional
            Who watches: gets the number of the tools that it may see, and the sources of those
            only. None: all, for a log of the process itself.

        Returns
        -------
        dict
            A JSON object: ``status``, ``tools`` (how many), ``sources`` (by name ``"ready"`` or
            ``"failed"``), ``learns``, ``problems`` and ``in_flight``.
        """
        is_taught = self._is_open and not self._upkeep.is_broken
        is_taught = is_taught and self.teaching is not None and not self.teaching.problem
        problems = {
            "nothing is learned at present": self.teaching is not None
            and self._is_open
            and not is_taught,
            "shared context is not used any more": bool(self._caller.problem),
        }
        return {
            "status": "ok" if self._is_open else "closed",
            "tools": len(self._tools.of(_ANYONE if client is None else client)),
            "sources": self._tools.states(client),
            "learns": is_taught,
            "problems": [what for what, is_so in problems.items() if is_so],
            "in_flight": self._in_flight,
        }

    # What follows is how it is done.

    @property
    def _since(self) -> float:
        return self.log.clock() - self.settings.search_seconds

    async def _search(self, query: str, k: int | None, client: Client, share: float) -> Search:
        self._check_open()
        check_text("query", check_request(query))
        if len(query) > _LONGEST:
            raise InputError(
                f"the query has {len(query):,} characters, and {_LONGEST:,} are taken "
                "(say it in fewer words)"
            )
        most = self.settings.k
        if k is not None:
            most = check_number("k", k, 1, self.settings.max_k, whole=True)
        search_id = new_search_id()
        acted = is_acted_on(search_id, share)
        self._in_flight += 1
        try:
            with telemetry.span("search", {"cnp_router.most": most}) as span:
                seen = self._tools.of(client)
                reputation = None if self.teaching is None else self.teaching.reputation
                asked = (self.router, query, most, seen, reputation, client.name)
                found = await self._in(self._routing, find, *asked)
                search = self._answer(search_id, acted, client, *found)
                span.set(
                    cnp_router__fits=search.fits,
                    cnp_router__confidence=search.confidence,
                    cnp_router__acted_on=acted,
                    cnp_router__tools=len(search.tools),
                )
                logged = LoggedSearch(
                    id=search_id,
                    client=client.name,
                    time=self.log.clock(),
                    query=query,
                    shown=tuple(tool.api.id for tool in search.tools),
                    chosen=tuple(tool.api.id for tool in found[1]),
                    confidence=search.confidence,
                    fits=search.fits,
                    acted=acted,
                )
                await self._logged(lambda: self.log.add(logged))
        finally:
            self._in_flight -= 1
        return search

    def _answer(
        self,
        search_id: str,
        acted: bool,
        client: Client,
        routing: Routing,
        found: tuple[FoundTool, ...],
    ) -> Search:
        if acted:
            return Search(search_id, routing.request, routing, found)
        shown = islice(self._tools.of(client).values(), self.settings.most_shown)
        tools = tuple(FoundTool(api, None) for api in shown)
        return Search(search_id, routing.request, routing, tools, acted=False)

    async def _call(
        self,
        api: Api,
        inputs: Mapping[str, Any],
        search_id: str | None,
        client: Client,
        key: str,
        on_progress: Callable[[CallProgress], object] | None,
    ) -> Called:
        begun, secret = None, self._caller.is_confidential(api.id)
        if search_id is not None:
            since, noted = self._since, None if secret else inputs
            counts = api.id not in self.settings.always
            begun = await self._logged(
                lambda: self.log.begin(
                    search_id, client.name, api.id, noted, since=since, counts=counts
                )
            )
            if begun.is_correct is not None:
                right = {"correct": begun.is_correct, "by": "gateway"}
                telemetry.add("cnp_router.selections", 1, right)
        made = None
        try:
            made = await self._caller.perform(
                api,
                inputs,
                client,
                about="" if begun is None else begun.query,
                search_id=search_id,
                key=key,
                on_progress=on_progress,
            )
        finally:
            if begun is not None and made is None:  # cancelled, or worse: nobody knows
                broken = LoggedCall(api.id, None if secret else inputs)
                with suppress(RuntimeError):  # the gateway was closed: it stands as begun
                    self._logging.submit(self.log.end, begun.number, broken)
        if begun is None:
            return Called(made.result, api.id)
        ended = self._caller.logged(api.id, inputs, made)
        number, query, steps = begun.number, begun.query, begun.steps

        def end() -> tuple[Any, ...]:
            try:
                self.log.end(number, ended)
            except InputError as exc:  # it was called: what came of it is given all the same
                _LOGGER.warning("what came of a call is not learned: %s", exc)
            if self.teaching is None or ended is None:
                return ()
            return self.teaching.next(query, (*steps, ended.step), seen.__contains__)

        seen = self._tools.of(client)

        likely = await self._logged(end)
        return Called(made.result, api.id, search_id, likely)

    def _shut_down(self) -> None:
        for executor in (self._routing, self._logging):
            executor.shutdown()
        if self._owns_log:
            self.log.close()

    def _in_turn(self, work: Callable[[], object]) -> object:
        return self._routing.submit(work).result()

    async def _in(self, executor: ThreadPoolExecutor, work: Callable[..., T], *given: Any) -> T:
        run = contextvars.copy_context().run  # so that spans have their parents
        try:
            done = asyncio.get_running_loop().run_in_executor(executor, run, work, *given)
        except RuntimeError as exc:  # it was shut down
            raise InputError("the gateway was closed meanwhile (open it again)") from exc
        return await done

    def _logged(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._in(self._logging, work)

    def _check_open(self) -> None:
        if not self._is_open:
            raise InputError("the gateway is not open (use it in an async with block)")

    def __repr__(self) -> str:
        return f"Gateway({self.router!r}, {len(self._tools.of(_ANYONE))} tools)"
