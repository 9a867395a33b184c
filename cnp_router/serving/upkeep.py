"""`Upkeep`: what a gateway does from time to time: learn, tidy up, look at sources and models."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import CnpRouterError, InputError
from cnp_router.routing import Router
from cnp_router.serving.gateway_settings import GatewaySettings
from cnp_router.serving.open_tools import OpenTools
from cnp_router.serving.renewal import Renewal
from cnp_router.serving.search_log import SearchLog
from cnp_router.serving.teaching import InTurn, Teaching

__all__ = ["Upkeep"]

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
_TIDY_SECONDS = 60.0  # from one time to the next
_END_SECONDS = 2.0  # for what is to be taught at the end


class Upkeep:
    """Runs beside the searches and calls of one gateway, in tasks and in a thread of its own.

    `in_turn` is given each piece of learning, and does it while nobody routes; `renewed` a new
    model's router, which answers from then on.
    """

    def __init__(
        self,
        log: SearchLog,
        teaching: Teaching | None,
        tools: OpenTools,
        settings: GatewaySettings,
        in_turn: InTurn,
        renewal: Renewal | None,
        renewed: Callable[[Router], object],
    ) -> None:
        self.is_broken = False
        self._log = log
        self._teaching = teaching
        self._tools = tools
        self._settings = settings
        self._in_turn = in_turn
        self._renewal = renewal
        self._renewed = renewed
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = ThreadPoolExecutor(1, "cnp-router-upkeep")

    async def begin(self) -> None:
        """Take over what was learned before, then begin.

        Raises
        ------
        ModelStoreError, DataFileError
            If the store cannot be used.
        """
        if self._teaching is not None:
            await self._in_thread(self._take_over)
        self._tasks = [asyncio.create_task(self._learn())]
        if self._settings.refresh_seconds and self._tools.sources is not None:
            self._tasks.append(asyncio.create_task(self._look()))
        if self._renewal is not None:
            self._tasks.append(asyncio.create_task(self._renew(self._renewal)))
        for task in self._tasks:
            task.add_done_callback(self._noted)

    async def end(self) -> None:
        """Teach what this worker has seen; what cannot be taught now, another one teaches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await asyncio.shield(self._in_thread(self._end))
        finally:
            self.close()

    def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown()

    async def _learn(self) -> None:
        tidied, pause = time.monotonic(), 0.0
        while True:
            await asyncio.sleep(pause)
            pause = _TIDY_SECONDS
            if self._teaching is not None:
                n_taught = await self._in_thread(self._turn)
                pause = 0.0 if n_taught and self._teaching.is_behind else self._teaching.every
            if time.monotonic() - tidied >= _TIDY_SECONDS:
                tidied = time.monotonic()
                await self._in_thread(self._tidy)

    async def _look(self) -> None:
        """Ask sources that have failed or changed once more."""
        while True:
            await asyncio.sleep(self._settings.refresh_seconds)
            try:
                await self._tools.refresh()
            except CnpRouterError as exc:
                _LOGGER.warning("%s", exc)

    async def _renew(self, renewal: Renewal) -> None:
        """Take a model that has replaced the one that answers; it is opened in the thread."""
        while True:
            await asyncio.sleep(renewal.every)
            found = await self._in_thread(lambda: renewal.look(self._prepared))
            if found is not None:
                router, (catalog, there) = found
                # Nothing is awaited in between: who asks meets the old model or the new one.
                self._tools.take(catalog, there)
                self._renewed(router)
                renewal.done(router)

    def _prepared(self, router: Router) -> tuple[Catalog, tuple[Api, ...]]:
        """Have what is learned go on in a new router, and return its catalog and its tools."""
        catalog: Catalog = router.catalog  # type: ignore[attr-defined]
        there = self._tools.there(catalog)
        if self._teaching is not None:
            self._teaching.renew(router, self._in_turn)
        return catalog, there

    def _noted(self, task: asyncio.Task[None]) -> None:
        """Say it where one of them broke off."""
        if not task.cancelled() and (broken := task.exception()) is not None:
            self.is_broken = True
            _LOGGER.error("the upkeep of the gateway broke off", exc_info=broken)

    def _take_over(self) -> None:
        assert self._teaching is not None
        self._teaching.take_over(self._in_turn)

    def _turn(self) -> int:
        assert self._teaching is not None
        return self._teaching.turn(self._log, self._in_turn)

    def _tidy(self) -> None:
        try:
            since = self._log.clock() - self._settings.search_seconds
            self._log.tidy(since=since, teaches=self._teaching is not None)
        except InputError as exc:
            _LOGGER.warning("%s", exc)

    def _end(self) -> None:
        with suppress(InputError):  # the log is gone, as `_tidy` says
            self._log.finish_own()
        begun, teaching = time.monotonic(), self._teaching
        while teaching is not None:
            self._turn()
            is_late = time.monotonic() - begun > _END_SECONDS
            if is_late or teaching.problem or not teaching.is_behind:
                break
            time.sleep(0.05)  # another worker teaches, which ends perhaps too
        self._tidy()

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)
