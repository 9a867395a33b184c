"""`ToolCaller`: one call for a client, with permission, shared context and a key of its own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from cnp_router.catalog import Api
from cnp_router.context import DataClasses, SharedContext
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.execution import Act, Caller, Journal, Performed, allow_writes
from cnp_router.execution.journal import call_key
from cnp_router.execution.learning import OBSERVATION, succeeded
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway_settings import GatewaySettings
from cnp_router.serving.kept_results import KeptResults
from cnp_router.serving.logged import LoggedCall
from cnp_router.serving.search_answers import Called
from cnp_router.serving.search_log import SearchLog
from cnp_router.sources import Call, CallFailure, CallProgress, CallResult, Sources

__all__ = ["Doing", "Made", "ToolCaller"]

InLog: TypeAlias = Callable[[Callable[[], object]], Awaitable[object]]

_LOGGER = logging.getLogger(__name__)
_MOST_KEYS = 256  # of which the result is kept
_MOST_BYTES = 64 * 2**20  # of these results
_BEGUN_BEFORE = CallFailure(
    "declined",
    "this was begun before with the same key, and what came of it is not known here (see whether "
    "it was done; another key does it again)",
    "unknown",
)
_NOT_NOTED = CallFailure(
    "unavailable", "the key cannot be noted now, so nothing was called (try again with it)", "no"
)
_NOT_CALLED = ("inputs", "changed", "declined")
_NO_SOURCES = "there are no sources here, so nothing can be called (give --sources)"


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a call, and how often the source was called for it: 0 if it was known."""

    result: CallResult
    attempts: int
    seconds: float


@dataclass(slots=True)
class Doing:
    """What is known of a call while it is made."""

    key: str = ""  # of its act
    is_ours: bool = False  # whether the key was taken for it
    is_sent: bool = False  # whether the source may have got it
    made: Made | None = None

    def claim(self, log: SearchLog) -> None:
        """Take the key, unless somebody has taken it before."""
        self.is_ours = log.claim_key(self.key)

    def release(self, log: SearchLog) -> None:
        """Give the key back, if it was taken for this."""
        if self.is_ours:
            log.release_key(self.key)


class ToolCaller:
    """Makes the calls of a gateway.

    What only reads is called without asking. Anything else needs the permission of the settings
    and of the client. A failure that may pass is tried again where the tool only reads.
    `in_log` does work with the log, one after the other, though who waits for it may give up.
    """

    def __init__(
        self,
        sources: Sources | None,
        settings: GatewaySettings,
        context: SharedContext | None,
        log: SearchLog,
        in_log: InLog,
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._execution = settings.execution
        self.kept = KeptResults(context, self._fetch)
        self._classes = [] if sources is None else [DataClasses(sources.classes)]
        if context is not None:
            self._classes.append(context.classes)
        self._log = log
        self._in_log = in_log
        self._given: OrderedDict[str, tuple[str, asyncio.Future[Called]]] = OrderedDict()
        self._unreleased: set[str] = set()  # keys of what was not done

    def is_confidential(self, api: str) -> bool:
        """Whether what an API gives, and is given, never leaves its source."""
        return any(classes.of(api) == "confidential" for classes in self._classes)

    async def once(
        self,
        api: Api,
        inputs: Mapping[str, Any],
        search_id: str | None,
        client: Client,
        key: str,
        make: Callable[[Doing], Awaitable[Called]],
    ) -> Called:
        """Make a call once for each act, and return what came of it to each who asks.

        An act is the client's key for an API; without a key, each call is another act. What
        another worker has begun is not done here. What was not done can be tried again with the
        same key.
        """
        if not key:
            return await make(Doing())
        doing, same = Doing(_digest(client.name, api.id, key)), call_key(api, inputs)
        if doing.key in self._given:
            before, future = self._given[doing.key]
            if before != same:
                raise InputError("the key was given for other inputs (give each act its own key)")
            return await asyncio.shield(future)
        future = asyncio.get_running_loop().create_future()
        self._given[doing.key] = same, future
        try:
            can_be_noted = await self._claimed(doing)
            if doing.is_ours or api.effects == "reads":
                called = await make(doing)
            else:
                failure = _BEGUN_BEFORE if can_be_noted else _NOT_NOTED
                called = Called(CallResult(failure=failure), api.id, search_id)
        except BaseException as exc:
            await self._settle(doing, future, _broken_off(doing, api, search_id), exc)
            raise
        await self._settle(doing, future, called)
        return called

    async def _claimed(self, doing: Doing) -> bool:
        """Take the key of an act, unless it was taken before; False where it cannot be noted."""
        try:
            await self._in_log(lambda: doing.claim(self._log))
        except DataFileError as exc:
            _LOGGER.warning("what may write is not called with a key: %s", exc)
            return False
        if doing.key in self._unreleased:
            self._unreleased.remove(doing.key)
            doing.is_ours = True
        return True

    async def _settle(
        self,
        doing: Doing,
        future: asyncio.Future[Called],
        called: Called,
        exc: BaseException | None = None,
    ) -> None:
        """Give the others what came of an act, and give back the key of what was not done."""
        if doing.is_sent or exc is None or isinstance(exc, asyncio.CancelledError):
            future.set_result(called)
        else:
            future.set_exception(exc)
            future.exception()  # who asked has it
        failure = called.result.failure
        if failure is None or failure.was_done != "no":
            self._forget_old()
            return
        del self._given[doing.key]
        await self._released(doing)

    async def _released(self, doing: Doing) -> None:
        """Give back the key of what was not done."""
        try:
            await self._in_log(lambda: doing.release(self._log))
        except InputError as exc:  # what came of the call is given all the same
            self._unreleased.add(doing.key)
            _LOGGER.warning("a key can be used again here only: %s", exc)

    async def perform(
        self,
        api: Api,
        inputs: Mapping[str, Any],
        client: Client,
        doing: Doing,
        *,
        about: str = "",
        search_id: str | None = None,
        on_progress: Callable[[CallProgress], object] | None = None,
    ) -> Made:
        """Call an API, or return what is known of the same call; `doing` has it at once."""
        if self._sources is None:
            doing.made = Made(CallResult.failed("unavailable", _NO_SOURCES), 0, 0.0)
            return doing.made
        known = await self.kept.find(api, inputs, client)
        if known is not None:
            doing.made = Made(known, 0, 0.0)
            return doing.made
        began = await self.kept.begins(api)
        may_write = self._settings.allow_write and client.allow_write
        caller = Caller(
            self._sources,
            self._execution,
            approve=lambda approval: may_write and allow_writes(approval),
            journal=Journal(),
        )
        doing.is_sent = True
        try:
            performed = await caller.perform(
                "call",
                api,
                inputs,
                key=doing.key or None,
                within=self._settings.call_timeout,
                on_progress=on_progress,
            )
        except BaseException:
            self.kept.written_unnoticed(api)
            raise
        result = performed.result
        if result.failure is not None and result.failure.kind == "declined":
            result = self._declined(result, api, client)
        doing.made = Made(result, performed.attempts, performed.seconds)
        await self._keep(api, inputs, client, performed, about, search_id, began)
        return doing.made

    def logged(self, api: str, inputs: Mapping[str, Any], doing: Doing) -> LoggedCall | None:
        """Return what the log is to know of a call; None where nothing was called."""
        made = doing.made
        if made is None:  # given up: nobody knows
            broken = LoggedCall(api, None if self.is_confidential(api) else inputs)
            return broken if doing.is_sent else None
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

    def _declined(self, result: CallResult, api: Api, client: Client) -> CallResult:
        """Say what would change it, as somebody far from this process can."""
        if result.failure is None:
            return result
        if not self._settings.allow_write:
            cure = "this server was started without --allow-write"
        elif not client.allow_write:
            cure = f"client {client.name!r} may not: it needs allow_write"
        else:
            cure = "see whether it was; a new key calls it once more"
        if api.effects == "unknown":
            cure += "; --trust NAME, or effects in the file of sources, say that it reads"
        said = f"{result.failure.message} ({cure})"
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


def _broken_off(doing: Doing, api: Api, search_id: str | None) -> Called:
    """Return what is known of a call that did not come to its end."""
    if doing.made is not None:
        return Called(doing.made.result, api.id, search_id)
    failure = CallFailure("cancelled", "given up before it began", "no")
    if doing.is_sent:
        was_done: Literal["no", "unknown"] = "no" if api.effects == "reads" else "unknown"
        failure = CallFailure("cancelled", "given up while it ran", was_done)
    return Called(CallResult(failure=failure), api.id, search_id)


def _digest(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
