"""`KeptResults`: what calls gave, in shared context, and that it is out of date after a write."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from cnp_router import telemetry
from cnp_router.catalog import Api
from cnp_router.context import SharedContext
from cnp_router.context.lineage import Fetch
from cnp_router.exceptions import ContextStoreError, LanguageModelError
from cnp_router.serving.clients import Client
from cnp_router.sources import CallResult

__all__ = ["KeptResults"]

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
_AGAIN_SECONDS = 5.0  # after a fault, until it is tried again
_FAULTS = (ContextStoreError, LanguageModelError)


class KeptResults:
    """What calls gave, for all workers that share a context; without one, nothing.

    While that cannot be used, nothing is read or kept there, and it is tried again every few
    seconds. That something was written is said as soon as it can be, before anything is read.
    """

    def __init__(self, context: SharedContext | None, fetch: Fetch) -> None:
        self.problem = ""  # why it is not used at present
        self._context = context
        self._fetch = fetch
        self._again = 0.0  # when it is tried again
        self._unsaid: dict[str, Api] = {}  # may have written, and the others do not know it
        self._saying: asyncio.Task[None] | None = None
        self._is_closed = False

    async def look(self) -> None:
        """Ask once whether shared context can be used, so that it is known from the start."""
        await self._use(lambda context: context.store.get("none"))

    async def find(self, api: Api, inputs: Mapping[str, Any], client: Client) -> CallResult | None:
        """Return what is known of the same call, if that only reads."""
        if api.effects != "reads" or self._context is None:
            return None
        with telemetry.timed("cnp_router.context.propagation.duration", {"step": "recall"}):
            found = await self._use(
                lambda context: context.find(api, inputs, user=client.name, fetch=self._fetch)
            )
        if found is None or not client.may_see(found.entry.source):
            return None
        return found.result

    async def begins(self, api: Api) -> str | None:
        """Say that an API is called now; return what `keep` is to be given, None: keep nothing."""
        writes = None if api.effects == "reads" else api
        return await self._use(lambda context: context.begins(api), writes)

    async def written(self, api: Api) -> None:
        """Say that a call has ended: if it does not only read, it may have changed something."""
        if api.effects != "reads" and api.id not in self._unsaid:  # or it is said a little later
            await self._use(lambda context: context.written(api), api)

    def written_unnoticed(self, api: Api) -> None:
        """Say a little later that a call may have changed something, as nobody waits for it."""
        if api.effects != "reads" and self._context is not None:
            self._say_later(api)

    async def keep(
        self, api: Api, inputs: Mapping[str, Any], result: CallResult, **about: Any
    ) -> None:
        """Keep what a call gave; `about` is as for `SharedContext.keep`."""
        if self._context is None:
            return
        with telemetry.timed("cnp_router.context.propagation.duration", {"step": "keep"}):
            await self._use(lambda context: context.keep(api, inputs, result, **about))

    async def aclose(self) -> None:
        """Say what is unsaid, if that can be."""
        self._is_closed = True
        if self._saying is not None:
            self._saying.cancel()
            await asyncio.gather(self._saying, return_exceptions=True)
        try:
            if self._unsaid:
                await self._use(_nothing)
        except Exception:  # the end goes on
            _LOGGER.exception("other workers may read what a write has outdated")

    async def _use(
        self, use: Callable[[SharedContext], Awaitable[T]], writes: Api | None = None
    ) -> T | None:
        """Return what shared context says; None where it cannot be used."""
        if self._context is None:
            return None
        if self.problem and writes is None and not self._is_closed:
            if time.monotonic() < self._again:
                return None
            self._again = time.monotonic() + _AGAIN_SECONDS  # for the others: one tries it
        is_used = False
        try:
            await self._say(self._context)
            answer = await use(self._context)
            is_used = True
        except _FAULTS as exc:
            self._note(exc)
            return None
        finally:
            if writes is not None and not is_used:
                self._say_later(writes)
        if self.problem:
            self.problem = ""
            _LOGGER.warning("shared context is used again")
        return answer

    async def _say(self, context: SharedContext) -> None:
        while self._unsaid:
            _, api = self._unsaid.popitem()
            is_said = False
            try:
                await context.written(api)
                is_said = True
            finally:
                if not is_said:
                    self._say_later(api)

    def _say_later(self, api: Api) -> None:
        self._unsaid[api.id] = api
        if not self._is_closed and (self._saying is None or self._saying.done()):
            self._saying = asyncio.create_task(self._say_at_last())

    async def _say_at_last(self) -> None:
        """Say what is unsaid though nothing more is called."""
        while self._unsaid and self._context is not None:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self._say(self._context)
            except _FAULTS as exc:
                self._note(exc)

    def _note(self, exc: Exception) -> None:
        """Note a fault; the first one is logged."""
        self._again = time.monotonic() + _AGAIN_SECONDS
        if not self.problem:
            _LOGGER.warning("shared context is not used at present: %s", exc)
        self.problem = f"shared context is not used at present: {exc}"


async def _nothing(context: SharedContext) -> None:
    """Use shared context for nothing else than to say what is unsaid."""
