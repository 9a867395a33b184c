"""`OpenTools`: which tools there are now, and which of them a client may see."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache, partial

from cnp_router.catalog import Api, Catalog
from cnp_router.closest import closest
from cnp_router.exceptions import InputError, UnknownApiError, shown
from cnp_router.records import check_instance, check_text
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway_settings import GatewaySettings
from cnp_router.sources import Sources
from cnp_router.sources.faults import none_left
from cnp_router.sources.source import SEPARATOR

__all__ = ["OpenTools", "Visible"]

_LOGGER = logging.getLogger(__name__)
_MOST_CLIENTS = 1000  # whose tools are kept in memory


class UnknownToolError(UnknownApiError):
    """A tool that there is not, in the words of those who call tools.

    Examples
    --------
    >>> print(UnknownToolError("x"))
    unknown tool 'x' (search_tools and GET /v1/tools say which there are)
    """

    def __init__(self, name: str, *, close: list[str] | None = None) -> None:
        super().__init__(name, close=close)
        which = "search_tools and GET /v1/tools say which there are"
        hint = f"did you mean {close[0]!r}?" if close else which
        self.args = (f"unknown tool {shown(name)} ({hint})",)


class Visible(dict[str, Api]):
    """The tools that a client may see, by id. They stay what they are.

    Examples
    --------
    >>> Visible({"maps": Api("maps", "Maps")}).known_to(("maps", "sms"))
    ('maps',)
    """

    __slots__ = ("_known",)

    _known: tuple[tuple[str, ...], tuple[str, ...]]

    def known_to(self, apis: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the APIs of a router that are among them: `apis`, if all are."""
        routed, known = getattr(self, "_known", (None, ()))
        if routed is not apis:
            found = tuple(name for name in apis if name in self)
            known = apis if len(found) == len(apis) else found
            self._known = apis, known
        return known


class OpenTools:
    """The tools of a catalog that sources have now, by client.

    What a source said last counts as long as it fails: a call says that it does.
    """

    def __init__(
        self, catalog: Catalog, sources: Sources | None, settings: GatewaySettings
    ) -> None:
        self.catalog = check_instance("catalog", catalog, Catalog)
        self.sources = sources
        self._settings = settings
        self.is_stale = False  # whether a call found a definition that is not the known one
        for name in settings.always:
            catalog.position(name)
        self._said: dict[str, tuple[Api, ...]] = {}  # by source
        self._failed: set[str] = set()
        self._there: tuple[Api, ...] = tuple(catalog) if sources is None else ()
        self._sources_of = lru_cache(_MOST_CLIENTS)(partial(_sources_of, catalog))
        self._seen: OrderedDict[Client, Visible] = OrderedDict()

    async def load(self) -> None:
        """Ask all sources for what they have.

        Raises
        ------
        SourceError, CnpRouterError
            If all failed.
        InputError
            If none has a tool of the catalog.
        """
        if self.sources is None:
            return
        await self._ask(self.sources, self.sources.names)
        if not self._there:
            raise InputError(
                f"the model knows no tool of these sources, {', '.join(self.sources.names)} "
                "(cnp-router sync --model adds them)"
            )

    def there(self, catalog: Catalog) -> tuple[Api, ...]:
        """Return the tools that there would be with another catalog, which may take a while.

        Raises
        ------
        InputError
            If it has none, or not those that are always shown.
        """
        for name in self._settings.always:
            catalog.position(name)
        there = self._of(catalog)
        if not there:
            raise InputError(f"the model knows no tool of {', '.join(self._said) or 'its own'}")
        return there

    def take(self, catalog: Catalog, there: tuple[Api, ...]) -> None:
        """Have the tools of another catalog from now on; `there` is what `there` has returned."""
        self.catalog = catalog
        self._sources_of = lru_cache(_MOST_CLIENTS)(partial(_sources_of, catalog))
        # Sources may have been asked meanwhile.
        self._there = there if self.sources is None else self._of(catalog)
        self._seen.clear()

    def _of(self, catalog: Catalog) -> tuple[Api, ...]:
        if self.sources is None:
            return tuple(catalog)
        # Of a copy: another thread may ask for this while sources are asked.
        said = {api.id: api for apis in list(self._said.values()) for api in apis}
        return tuple(said[name] for name in catalog.ids if name in said)

    async def refresh(self) -> None:
        """Ask those once more that have failed, or whose tools may have changed."""
        sources = self.sources
        if sources is None:
            return
        names = [
            name
            for name in sources.names
            if self.is_stale
            or name in self._failed
            or sources.source_of(f"{name}{SEPARATOR}tool").is_stale
        ]
        self.is_stale = False
        if names:
            await self._ask(sources, names)

    def of(self, client: Client) -> Visible:
        """Return what a client may see, by id, in the order of the catalog."""
        seen = self._seen.get(client)
        if seen is None:
            seen = Visible((api.id, api) for api in self._there if client.may_see(api.id))
            # Clients with the same rights share what is known of them.
            alike = (own for own in self._seen.values() if own.keys() == seen.keys())
            seen = self._seen[client] = next(alike, seen)
            if len(self._seen) > _MOST_CLIENTS:
                self._seen.popitem(last=False)
        return seen

    def get(self, name: str, client: Client) -> Api:
        """Return a tool that a client may see, as it was defined when it was last asked for.

        Raises
        ------
        UnknownApiError
            If there is none; one that the client may not see is none.
        """
        seen = self.of(client)
        api = seen.get(check_text("name", name, any_=True))
        if api is None:
            raise UnknownToolError(name, close=closest(name, seen))
        return api

    def states(self, client: Client | None = None) -> dict[str, str]:
        """Return by source whether it could be used when it was last asked.

        Of those where a client may see something, or would if it could be used; None: of all.
        """
        names = () if self.sources is None else self.sources.names
        if client is not None and (client.among is not None or client.exclude):
            names = tuple(name for name in names if name in self._sources_of(client))
        return {name: "failed" if name in self._failed else "ready" for name in names}

    def problems(self, client: Client | None = None) -> list[str]:
        """Return what a client misses: sources that failed, tools that the router does not know."""
        states = self.states(client)
        found = [f"source {name} failed" for name, state in states.items() if state == "failed"]
        for name in states:
            new = [api.id for api in self._said.get(name, ()) if api.id not in self.catalog]
            seen = [api for api in new if client is None or client.may_see(api)]
            if seen:
                found.append(
                    f"tools of source {name} that the router does not know: {len(seen)} (with a "
                    "model, cnp-router sync adds them)"
                )
        return found

    async def _ask(self, sources: Sources, names: Sequence[str]) -> None:
        loaded = await sources.load(names)
        said: dict[str, list[Api]] = {}
        for api in loaded.apis:
            said.setdefault(api.id.partition(SEPARATOR)[0], []).append(api)
        for problem in loaded.problems:
            _LOGGER.warning("%s", problem)
        failed = {problem.source for problem in loaded.problems}
        for name in names:
            if name in said or name not in failed:
                self._said[name] = tuple(said.get(name, ()))
        self._failed = (self._failed - set(names)) | (failed - said.keys())
        if not any(self._said.values()):
            raise none_left(loaded.problems)
        self._there = self._of(self.catalog)
        self._seen.clear()


def _sources_of(catalog: Catalog, client: Client) -> frozenset[str]:
    """Return the sources of what a client may see."""
    return frozenset(api.partition(SEPARATOR)[0] for api in catalog.ids if client.may_see(api))
