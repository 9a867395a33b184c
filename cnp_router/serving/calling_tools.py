"""`ToolCaller`: one call for a client, with permission, shared context and a key of its own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cnp_router.catalog import Api
from cnp_router.context import DataClasses, SharedContext
from cnp_router.exceptions import InputError
from cnp_router.execution import Act, Caller, Journal, Performed, allow_writes
from cnp_router.execution.journal import call_key
from cnp_router.execution.learning import OBSERVATION, succeeded
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway_settings import GatewaySettings
from cnp_router.serving.kept_results import KeptResults
from cnp_router.serving.logged import LoggedCall
from cnp_router.serving.search_answers import Called
from cnp_router.sources import Call, CallFailure, CallProgress, CallResult, Sources

__all__ = ["Made", "ToolCaller"]

_LOGGER = logging.getLogger(__name__)
_MOST_KEYS = 256  # of which the result is kept
_MOST_BYTES = 64 * 2**20  # of these results
_NOT_CALLED = ("inputs", "changed", "declined")
_NO_SOURCES = "there are no sources here, so nothing can be called (give --sources)"


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a call, and how often the source was called for it: 0 if it was known."""

    result: CallResult
    attempts: int
    seconds: float


class ToolCaller:
    """Makes the calls of a gateway.

    What only reads is called without asking. Anything else needs the permission of the settings
    and of the client. A failure that may pass is tried again where the tool only reads.
    """

    def __init__(
        self, sources: Sources | None, settings: GatewaySettings, context: SharedContext | None
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._execution = settings.execution
        self.kept = KeptResults(context, self._fetch)
        self._classes = [] if sources is None else [DataClasses(sources.classes)]
        if context is not None:
            self._classes.append(context.classes)
        self._given: OrderedDict[str, tuple[str, asyncio.Future[Called]]] = OrderedDict()

    def is_confidential(self, api: str) -> bool:
        """Whether what an API gives, and is given, never leaves its source."""
        return any(classes.of(api) == "confidential" for classes in self._classes)

    async def once(
        self,
        act: tuple[str, str | None, str, str],
        api: Api,
        inputs: Mapping[str, Any],
        make: Callable[[], Awaitable[Called]],
        claim: Callable[[str], Awaitable[bool]],
        release: Callable[[str], Awaitable[None]],
    ) -> Called:
        """Make a call once for each act, and return what came of it to each who asks.

        `act` is client, search, API and the client's key; without a key, each call is another act.
        `claim` says whether no other worker has begun the same. What was not done can be tried
        again with the same key.
        """
        if not act[-1]:
            return await make()
        name, same = _digest(*act), call_key(api, inputs)
        if name in self._given:
            before, future = self._given[name]
            if before != same:
                raise InputError("the key was given for other inputs (give each act its own key)")
            return await asyncio.shield(future)
        future = asyncio.get_running_loop().create_future()
        self._given[name] = same, future
        was_done, is_ours = True, False
        try:
            is_ours = await claim(name)
            called = await make() if is_ours or api.effects == "reads" else _begun_before(api, act)
            failure = called.result.failure
            was_done = failure is None or failure.was_done != "no"
            future.set_result(called)
        except asyncio.CancelledError:
            was_done = api.effects != "reads"
            failure = CallFailure("cancelled", "given up while it ran")
            future.set_result(Called(CallResult(failure=failure), api.id, act[1]))
            raise
        except BaseException as exc:
            was_done = False
            future.set_exception(exc)
            future.exception()  # who asked has it
            raise
        finally:
            if not was_done:
                self._given.pop(name, None)
                if is_ours:
                    await release(name)
        self._forget_old()
        return called

    async def perform(
        self,
        api: Api,
        inputs: Mapping[str, Any],
        client: Client,
        *,
        about: str = "",
        search_id: str | None = None,
        key: str = "",
        on_progress: Callable[[CallProgress], object] | None = None,
    ) -> Made:
        """Call an API, or return what is known of the same call."""
        if self._sources is None:
            return Made(CallResult.failed("unavailable", _NO_SOURCES), 0, 0.0)
        known = await self.kept.find(api, inputs, client)
        if known is not None:
            return Made(known, 0, 0.0)
        began = await self.kept.begins(api)
        may_write = self._settings.allow_write and client.allow_write
        caller = Caller(
            self._sources,
            self._execution,
            approve=allow_writes if may_write else None,
            journal=Journal(),
        )
        try:
            performed = await caller.perform(
                "call",
                api,
                inputs,
                key=_digest(client.name, search_id, api.id, key) if key else None,
                on_progress=on_progress,
            )
        except BaseException:
            self.kept.written_unnoticed(api)
            raise
        await self._keep(api, inputs, client, performed, about, search_id, began)
        result = performed.result
        if result.failure is not None and result.failure.kind == "declined":
            result = self._declined(result, client)
        return Made(result, performed.attempts, performed.seconds)

    def logged(self, api: str, inputs: Mapping[str, Any], made: Made) -> LoggedCall | None:
        """Return what the log is to know of a call; None where nothing was called."""
        result, failure = made.result, made.result.failure
        if failure is not None and (failure.kind in _NOT_CALLED or not made.attempts):
            return None
        text = result.text or (failure.message if failure else "")
        if not text and result.structured is not None:
            text = json.dumps(result.structured, ensure_ascii=False)
        success = succeeded(Act(api, "direct", {}, result, made.attempts, made.seconds))
        if self.is_confidential(api):
            return LoggedCall(api, None, "", success, result.is_done)
        return LoggedCall(api, inputs, text[:OBSERVATION], success, result.is_done)

    def _forget_old(self) -> None:
        """Let go of the oldest results that are kept by their keys, where they are too many."""
        done = [(n, f.result().result.n_bytes) for n, (_, f) in self._given.items() if f.done()]
        size = sum(n_bytes for _, n_bytes in done)
        for name, n_bytes in done:
            if len(self._given) <= _MOST_KEYS and size <= _MOST_BYTES:
                break
            del self._given[name]
            size -= n_bytes

    def _declined(self, result: CallResult, client: Client) -> CallResult:
        """Say to a client that may not write that it is theirs to change."""
        if not self._settings.allow_write or client.allow_write or result.failure is None:
            return result
        said = f"{result.failure.message}; client {client.name!r} needs allow_write too"
        return replace(result, failure=replace(result.failure, message=said))

    async def _keep(
        self,
        api: Api,
        inputs: Mapping[str, Any],
        client: Client,
        performed: Performed,
        about: str,
        search_id: str | None,
        began: str | None,
    ) -> None:
        """Keep what a call gave, and say that what it may have changed is out of date."""
        if not performed.attempts:
            return
        try:
            await self.kept.written(api)
            if performed.result.is_done and began is not None:
                await self.kept.keep(
                    api,
                    inputs,
                    performed.result,
                    text=about,
                    at_least="confidential" if self.is_confidential(api.id) else "public",
                    user=client.name,
                    execution=search_id or "",
                    as_of=began,
                )
        except Exception:  # it was called: what came of it is given all the same
            _LOGGER.exception("what a call of %s gave is not shared", api.id)

    async def _fetch(self, api: Api, inputs: Mapping[str, Any]) -> CallResult:
        """Make a call that only reads once more, for what has expired in shared context."""
        assert self._sources is not None
        timeout = self._settings.call_timeout
        try:
            return await self._sources.call(
                Call(api=api.id, inputs=inputs, timeout=timeout, definition=api)
            )
        except InputError as exc:
            return CallResult.failed("changed", str(exc))


def _begun_before(api: Api, act: tuple[str, str | None, str, str]) -> Called:
    said = (
        "this was begun before with the same key, and what came of it is not known here (see "
        "whether it was done; another key does it again)"
    )
    return Called(CallResult(failure=CallFailure("declined", said, "unknown")), api.id, act[1])


def _digest(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
