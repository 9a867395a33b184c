"""`Gateway`: one door to any number of sources: search, call, and what came of it. No transport."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any, Self, TypeVar

from cnp_router import telemetry
from cnp_router.catalog import Api, Catalog
from cnp_router.context import SharedContext
from cnp_router.exceptions import DataFileError, InputError, UnknownSearchError
from cnp_router.prediction import Candidate
from cnp_router.records import check_instance, check_json, check_number, check_request, check_text
from cnp_router.routing import Router, Routing
from cnp_router.serving.calling_tools import Doing, ToolCaller
from cnp_router.serving.clients import Client
from cnp_router.serving.finding import find
from cnp_router.serving.gateway_settings import GatewaySettings
from cnp_router.serving.logged import Begun, LoggedCall, LoggedSearch
from cnp_router.serving.open_tools import OpenTools
from cnp_router.serving.renewal import Renewal
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
    renewal : Renewal, optional
        Looks whether the model was replaced: the new one answers from then on, and what was asked
        before is answered by the old one. Without it, the router is the same to the end.

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
        renewal: Renewal | None = None,
    ) -> None:
        self.router = check_instance("router", router, Router)
        self.settings = settings or GatewaySettings()
        self._tools = OpenTools(catalog, sources, self.settings)
        self._owns_log = log is None
        self.log = SearchLog() if log is None else log
        self.teaching = teaching
        self._renewal = renewal
        self._caller = ToolCaller(sources, self.settings, context, self.log, self._logged)
        self._in_flight = 0
        self._is_open = False
        self._log_problem = ""

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise InputError("the gateway is open already")
        await self._tools.load()
        self._routing = ThreadPoolExecutor(1, "cnp-router-routing")
        self._logging = ThreadPoolExecutor(1, "cnp-router-log")
        about = (self.log, self.teaching, self._tools, self.settings, self._in_turn)
        self._upkeep = Upkeep(*about, self._renewal, self._renewed)
        try:
            await self._upkeep.begin()
        except BaseException:
            self._upkeep.close()
            self._shut_down()
            raise
        await self._caller.kept.look()
        self._is_open = True
        return self

    async def __aexit__(self, *error: object) -> None:
        self._is_open = False
        for _ in range(_PATIENCE):
            if not self._in_flight:
                break
            await asyncio.sleep(0.01)
        try:
            await self._caller.kept.aclose()
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
        return await self._search(request, None, client, 1.0, explain=True)

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
                *(api, inputs, search_id, client, key),
                lambda doing: self._call(api, inputs, search_id, client, doing, on_progress),
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
            "searches are not logged at present": bool(self._log_problem),
            "shared context is not used at present": bool(self._caller.kept.problem),
            "the model was replaced, and the new one cannot be used": self._renewal is not None
            and bool(self._renewal.problem),
        }
        return {
            "status": "ok" if self._is_open else "closed",
            "tools": len(self._tools.of(_ANYONE if client is None else client)),
            "sources": self._tools.states(client),
            "learns": is_taught,
            "problems": [
                *(what for what, is_so in problems.items() if is_so),
                *self._tools.problems(client),
            ],
            "in_flight": self._in_flight,
        }

    # What follows is how it is done.

    @property
    def _since(self) -> float:
        return self.log.clock() - self.settings.search_seconds

    async def _search(
        self, query: str, k: int | None, client: Client, share: float, *, explain: bool = False
    ) -> Search:
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
                asked = (self.router, query, most, seen, reputation, client.name, explain)
                found = await self._in(self._routing, find, *asked)
                search = self._answer(search_id, acted, seen, *found)
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
                await self._noted(lambda: self.log.add(logged))
        finally:
            self._in_flight -= 1
        return search

    def _answer(
        self,
        search_id: str,
        acted: bool,
        seen: Mapping[str, Api],
        routing: Routing,
        found: tuple[FoundTool, ...],
    ) -> Search:
        if acted:
            return Search(search_id, routing.request, routing, found)
        shown = islice(seen.values(), self.settings.most_shown)
        tools = tuple(FoundTool(api, None) for api in shown)
        return Search(search_id, routing.request, routing, tools, acted=False)

    async def _call(
        self,
        api: Api,
        inputs: Mapping[str, Any],
        search_id: str | None,
        client: Client,
        doing: Doing,
        on_progress: Callable[[CallProgress], object] | None,
    ) -> Called:
        begun: Begun | None = None

        def begin() -> None:
            nonlocal begun
            assert search_id is not None
            begun = self.log.begin(
                *(search_id, client.name, api.id),
                None if self._caller.is_confidential(api.id) else inputs,
                since=self._since,
                within=self.settings.longest_call,
                counts=api.id not in self.settings.always,
                teaches=self.teaching is not None,
            )

        def end() -> tuple[Candidate, ...]:
            if begun is None:
                return ()
            try:  # it was called: what came of it is given whatever happens here
                ended = self._caller.logged(api.id, inputs, doing)
                self.log.end(begun, ended)
            except InputError as exc:
                _LOGGER.warning("what came of a call is not learned: %s", exc)
                return ()
            except Exception:
                _LOGGER.exception("what came of a call is not learned")
                return ()
            return () if doing.made is None else self._likely(begun, ended, client)

        try:
            if search_id is not None:
                await self._noted(begin)
            if begun is not None:
                _count(begun)
            made = await self._caller.perform(
                *(api, inputs, client, doing),
                about="" if begun is None else begun.query,
                search_id=search_id,
                on_progress=on_progress,
            )
        except BaseException:
            with suppress(RuntimeError):  # the gateway was closed: it stands as begun
                self._logging.submit(end)
            raise
        likely: tuple[Candidate, ...] = ()
        if begun is not None:
            try:
                likely = await self._logged(end)
            except InputError as exc:
                _LOGGER.warning("what came of a call is not learned: %s", exc)
        return Called(made.result, api.id, search_id, likely)

    def _likely(
        self, begun: Begun, ended: LoggedCall | None, client: Client
    ) -> tuple[Candidate, ...]:
        """Return what is likely to be called next; nothing where that goes wrong."""
        if self.teaching is None or ended is None:
            return ()
        may_call = self._tools.of(client).__contains__
        try:
            return self.teaching.next(begun.query, (*begun.steps, ended.step), may_call)
        except Exception:  # what came of the call is given all the same
            _LOGGER.exception("what is likely to be called next is not known")
            return ()

    def _shut_down(self) -> None:
        for executor in (self._routing, self._logging):
            executor.shutdown()
        if self._owns_log:
            self.log.close()

    def _renewed(self, router: Router) -> None:
        self.router = router  # whoever was asked before has the old one

    def _in_turn(self, work: Callable[[], object]) -> object:
        return self._routing.submit(work).result()

    def _in(
        self, executor: ThreadPoolExecutor, work: Callable[..., T], *given: Any
    ) -> asyncio.Future[T]:
        run = contextvars.copy_context().run  # so that spans have their parents
        try:
            return asyncio.get_running_loop().run_in_executor(executor, run, work, *given)
        except RuntimeError as exc:  # it was shut down
            raise InputError("the gateway was closed meanwhile (open it again)") from exc

    async def _logged(self, work: Callable[[], T]) -> T:
        """Do work with the log in its turn; it is done though who waits for it gives up."""
        return await asyncio.shield(self._in(self._logging, work))

    async def _noted(self, work: Callable[[], object]) -> None:
        """Do work with the log if that can be written: else it goes on without, which is said."""
        try:
            await self._logged(work)
        except UnknownSearchError:
            if not self._log_problem:  # it may not have been noted
                raise
        except DataFileError as exc:
            if not self._log_problem:
                _LOGGER.warning("searches are answered, and not logged: %s", exc)
            self._log_problem = str(exc)
        else:
            self._log_problem = ""

    def _check_open(self) -> None:
        if not self._is_open:
            raise InputError("the gateway is not open (use it in an async with block)")

    def __repr__(self) -> str:
        return f"Gateway({self.router!r}, {len(self._tools.of(_ANYONE))} tools)"


def _count(begun: Begun) -> None:
    if begun.is_correct is not None:
        right = {"correct": begun.is_correct, "by": "gateway"}
        telemetry.add("cnp_router.selections", 1, right)
