"""`Sources`: several sources as one, started when needed and pinned to what was accepted."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Self

from cnp_router import telemetry
from cnp_router.catalog import Api, Catalog, DataClass, Effects
from cnp_router.closest import closest
from cnp_router.exceptions import (
    DefinitionChangedError,
    InputError,
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
    UnknownApiError,
)
from cnp_router.records import check_number, instances, shown, string_tuple
from cnp_router.sources.call_telemetry import called_as, counted
from cnp_router.sources.faults import (
    called,
    changed_since,
    failure_of,
    none_left,
    refusal,
    said,
)
from cnp_router.sources.input_check import InputCheck, input_check
from cnp_router.sources.source import (
    EACH,
    SEPARATOR,
    Call,
    CallResult,
    Source,
    check_source_name,
)

if TYPE_CHECKING:
    from cnp_router.sources.lock_file import Changes, LockFile

__all__ = ["Loaded", "Sources"]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What several sources have.

    Parameters
    ----------
    apis : tuple of Api
        What can be called, in the order of the sources. Refused definitions are left out.
    problems : tuple of SourceError, default=()
        Sources that failed, and single tools that cannot be used.
    changes : mapping of str to Changes, default={}
        By source, how its definitions differ from what was accepted before; only where they do.
    seconds : mapping of str to float, default={}
        By source, how long it took to answer, its start included.
    """

    apis: tuple[Api, ...]
    problems: tuple[SourceError, ...] = ()
    changes: Mapping[str, Changes] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Loaded({len(self.apis)} APIs, {len(self.problems)} problems)"


@dataclass(slots=True)
class _Definitions:
    """What one source has, and what of it can be used."""

    apis: dict[str, Api] = field(default_factory=dict)
    checks: dict[str, InputCheck] = field(default_factory=dict)
    refused: dict[str, DefinitionChangedError] = field(default_factory=dict)
    problems: list[SourceError] = field(default_factory=list)
    changes: Changes | None = None


class _Held:
    """One source, its limit, and what it answered."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = check_source_name(source.name)
        most = check_number("max_concurrency", source.max_concurrency, 1, 10**6, whole=True)
        self.limit = asyncio.Semaphore(most)
        self.answer: _Definitions | None = None
        self.seconds = 0.0
        self.has_failed = False  # when it was last asked, or called
        self.asking: asyncio.Task[_Definitions | SourceError] | None = None


class Sources:
    """Several sources as one. It is also an asynchronous context manager, which closes them.

    A source is started when one of its tools is needed, or by `load`, and kept until `aclose`.
    Definitions are asked for once, and again by `load` and when the source says that they may have
    changed: after a server was started anew, its tools are compared with what was accepted before
    one is called. One source that fails does not disturb the others.

    Parameters
    ----------
    sources : iterable of Source
        With distinct names.
    lock : LockFile or None, default=None
        The accepted definitions. What is new is accepted and written there; a changed definition
        is refused. Without one, nothing is pinned.
    accept : bool, default=False
        Accept changed definitions too, and forget removed ones.
    overrides : mapping of str to {"reads", "writes", "unknown"}, default=None
        The effects of some APIs, by id, whatever their source says; ``"source__*"`` stands for all
        of a source that are not named.
    classes : mapping of str to {"public", "private", "confidential"}, default=None
        Whom what tools give may reach, by API id: for a `SharedContext`.
    max_concurrency : int >= 1, default=16
        Calls at a time. Each source has its own limit too.
    max_starting : int >= 1, default=4
        Sources that are asked for their definitions, and so started, at a time. Those that failed
        when they were last asked, and may pause before they start again, have as many places of
        their own: the others do not wait for them.

    Attributes
    ----------
    calls : Counter of str
        How many calls were sent, by source.

    Raises
    ------
    InputError
        If two sources have the same name, or a value cannot be used.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.testing import ScriptedSource
    >>> async def main():
    ...     coin = ScriptedSource("coin", {"toss": []})
    ...     async with Sources([ScriptedSource("dice", {"roll": ["4"]}), coin]) as sources:
    ...         print((await sources.catalog()).ids)
    ...         print(await sources.call(Call(api="dice__roll")))
    >>> asyncio.run(main())
    ('dice__roll', 'coin__toss')
    CallResult('4')
    """

    def __init__(
        self,
        sources: Iterable[Source],
        *,
        lock: LockFile | None = None,
        accept: bool = False,
        overrides: Mapping[str, Effects] | None = None,
        classes: Mapping[str, DataClass] | None = None,
        max_concurrency: int = 16,
        max_starting: int = 4,
    ) -> None:
        self.lock, self.accept = lock, accept
        self.overrides = dict(overrides or {})
        self.classes = dict(classes or {})
        self.calls: Counter[str] = Counter()
        self._held: dict[str, _Held] = {}
        for source in instances("sources", sources, Source):  # type: ignore[type-abstract]
            held = _Held(source)
            other = self._held.setdefault(held.name, held)
            if other is not held:
                raise InputError(
                    f"two sources have the name {held.name!r}: {shown(other.source)} and "
                    f"{shown(source)} (rename one)"
                )
        if not self._held:
            raise InputError("there must be at least one source (got none)")
        for api, effects in self.overrides.items():
            self.source_of(api)
            Api(api, api, effects=effects)
        most = check_number("max_concurrency", max_concurrency, 1, 10**6, whole=True)
        self._limit = asyncio.Semaphore(most)
        most = check_number("max_starting", max_starting, 1, 10**6, whole=True)
        self._starting, self._retrying = asyncio.Semaphore(most), asyncio.Semaphore(most)
        self._is_closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(self._held)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The names of those that are being asked for their definitions, and so started, now."""
        asking = ((name, held.asking) for name, held in self._held.items())
        return tuple(name for name, task in asking if task is not None and not task.done())

    def source_of(self, api_id: str) -> Source:
        """Return the source that an API belongs to, by the id alone.

        Raises
        ------
        UnknownApiError
            If no source has that name.
        """
        return self._holder(api_id).source

    async def load(self, names: Iterable[str] | None = None) -> Loaded:
        """Ask sources for what they have, starting those that do not run yet.

        Parameters
        ----------
        names : iterable of str, default=None
            Which sources; None for all.

        Returns
        -------
        Loaded
            Failures of sources are in its ``problems``.

        Raises
        ------
        InputError
            If there is no source of a name.
        """
        self._check_open()
        wanted = self.names if names is None else string_tuple("names", names)
        if unknown := [name for name in wanted if name not in self._held]:
            raise InputError(f"no source is called {shown(unknown[0])} (there are {self._told()})")
        chosen = [self._held[name] for name in dict.fromkeys(wanted)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._asked(held, again=True)) for held in chosen]
        self._write_lock()
        answers = {held.name: task.result() for held, task in zip(chosen, tasks, strict=True)}
        good = {n: each for n, each in answers.items() if isinstance(each, _Definitions)}
        problems: list[SourceError] = []
        for each in answers.values():
            problems += each.problems if isinstance(each, _Definitions) else [each]
        return Loaded(
            tuple(api for each in good.values() for api in each.apis.values()),
            tuple(problems),
            {name: each.changes for name, each in good.items() if each.changes is not None},
            {held.name: held.seconds for held in chosen},
        )

    async def catalog(self) -> Catalog:
        """Return all that can be called. Sources that fail are named in the log.

        Raises
        ------
        SourceError, CnpRouterError
            If all failed.
        """
        loaded = await self.load()
        if not loaded.apis:
            raise none_left(loaded.problems)
        for problem in loaded.problems:
            _LOGGER.warning("%s", problem)
        return Catalog(loaded.apis)

    def known_catalog(self) -> Catalog:
        """Return what was accepted before, by the lock alone: nothing is started.

        What a source no longer had when it was last asked is left out.

        Raises
        ------
        InputError
            If nothing was accepted yet.
        """
        known = [] if self.lock is None else [a for n in self.names for a in self.lock.current(n)]
        if not known:
            raise InputError("no definitions were accepted yet (import them first)")
        return Catalog(self._overridden(api) for api in known)

    async def api(self, api_id: str) -> Api:
        """Return the current definition of an API; only its own source is started.

        Raises
        ------
        UnknownApiError
            If its source does not have it.
        SourceError
            If its source fails; a DefinitionChangedError if it is not the accepted one.
        """
        found = await self._found(self._holder(api_id))
        if isinstance(found, SourceError):
            raise found
        if api_id in found.refused:
            raise found.refused[api_id]
        if api_id not in found.apis:
            raise self._unknown(api_id)
        return found.apis[api_id]

    async def call(self, call: Call) -> CallResult:
        """Call a tool, if its definition is the accepted one and the inputs fit.

        If the call says by which definition it was decided, that must be the current one too, and
        its effects no less harmless; otherwise nothing is called.

        Returns
        -------
        CallResult
            Its ``start_seconds`` are those of the source, if this call started it.

        Raises
        ------
        UnknownApiError
            If there is no such tool.
        """
        held = self._holder(call.api)
        with telemetry.span(f"execute_tool {call.api}", called_as(call, held.source)) as span:
            return await counted(self._called(held, call), held.source, span)

    async def _called(self, held: _Held, call: Call) -> CallResult:
        began = monotonic()
        was_warm = held.answer is not None
        found = await self._found(held)
        started = None if was_warm else monotonic() - began
        if isinstance(found, SourceError):
            return CallResult(failure=failure_of(found), start_seconds=started)
        if call.api in found.refused:
            return CallResult(failure=failure_of(found.refused[call.api]), start_seconds=started)
        if call.api not in found.apis:
            raise self._unknown(call.api)
        changed = changed_since(call.definition, found.apis[call.api])
        if changed is not None:
            return CallResult(failure=changed, start_seconds=started)
        try:
            notes = found.checks[call.api](call.inputs)
        except InputError as exc:
            return CallResult.failed("inputs", str(exc), start_seconds=started)
        async with held.limit, self._limit:
            self.calls[held.name] += 1
            result = await called(held.source, call)
        if result.failure is not None and result.failure.kind == "unavailable":
            held.has_failed = True  # it may have tried to start anew
        if result.start_seconds is not None:
            started = result.start_seconds
        return dataclasses.replace(result, start_seconds=started, notes=(*notes, *result.notes))

    async def aclose(self) -> None:
        """Close all sources, also those that are just starting. Can be called twice."""
        self._is_closed = True
        starting = [held.asking for held in self._held.values() if held.asking is not None]
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        closing = (held.source.aclose() for held in self._held.values())
        failed = [
            e for e in await asyncio.gather(*closing, return_exceptions=True) if e is not None
        ]
        if failed:
            raise failed[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Sources({self._told()})"

    def _told(self) -> str:
        return ", ".join(self.names)

    def _check_open(self) -> None:
        if self._is_closed:
            raise InputError("the sources are closed (make new ones)")

    def _holder(self, api_id: str) -> _Held:
        name, separator, _ = api_id.partition(SEPARATOR)
        if not separator or name not in self._held:
            raise self._unknown(api_id)
        return self._held[name]

    def _unknown(self, api_id: str) -> UnknownApiError:
        known = [id_ for held in self._held.values() if held.answer for id_ in held.answer.apis]
        if self.lock is not None:
            known += [api.id for name in self.names for api in self.lock.current(name)]
        others = [id_ for id_ in known if id_ != api_id]  # it may be gone since it was asked for
        close = closest(api_id, others)
        name, separator, tool = api_id.partition(SEPARATOR)
        if not close and name not in self._held:
            names = closest(name, self._held)
            close = [each + (separator or SEPARATOR) + (tool or "tool") for each in names]
        return UnknownApiError(api_id, close=close)

    async def _found(self, held: _Held) -> _Definitions | SourceError:
        """Return what a source answered, now or before."""
        self._check_open()
        if held.answer is not None and not held.source.is_stale:
            return held.answer
        found = await self._asked(held)
        self._write_lock()
        return found

    async def _asked(self, held: _Held, *, again: bool = False) -> _Definitions | SourceError:
        """Ask a source; whoever asks while it is being asked gets the same answer."""
        if held.asking is None or held.asking.done():
            held.asking = asyncio.create_task(self._ask(held))
        # Who gives up waiting does not end the start, for which others may wait.
        return await asyncio.shield(held.asking)

    async def _ask(self, held: _Held) -> _Definitions | SourceError:
        async with self._retrying if held.has_failed else self._starting:
            began, held.has_failed = monotonic(), True
            try:
                apis = await held.source.apis()
                held.answer = self._judged(held, instances("apis", apis, Api))
            except SourceError as exc:
                return exc
            except Exception as exc:  # of a source of one's own: it disturbs no other
                error = SourceUnavailableError(held.name, said(exc))
                error.__cause__ = exc
                return error
            finally:
                held.seconds = monotonic() - began
            held.has_failed = False
        return held.answer

    def _judged(self, held: _Held, apis: tuple[Api, ...]) -> _Definitions:
        """Return what of a source's definitions can be used, and is what was accepted."""
        name, found = held.name, _Definitions()
        usable: dict[str, Api] = {}
        for api in apis:
            if not api.id.startswith(name + SEPARATOR):
                problem = f"the id {shown(api.id)} does not begin with {name + SEPARATOR!r}"
                raise SourceAnswerError(name, problem)
            if api.id in usable:
                pair = f"{shown(usable[api.id].name)} and {shown(api.name)}"
                problem = f"two tools have the id {api.id!r}: {pair}"
                raise SourceAnswerError(name, problem, cure="rename one of them at the source")
            usable[api.id] = api
        for api in apis:
            try:
                found.checks[api.id] = input_check(api.parameters)
            except InputError as exc:
                problem = f"the inputs of {shown(api.id)} cannot be checked, so it is left out"
                found.problems.append(SourceAnswerError(name, f"{problem}: {exc}"))
                del usable[api.id]
        self._compare(name, tuple(usable.values()), found)
        found.apis = {
            id_: self._overridden(api) for id_, api in usable.items() if id_ not in found.refused
        }
        for id_ in self.overrides:
            tool = id_.removeprefix(name + SEPARATOR)
            if tool not in (id_, EACH) and id_ not in {api.id for api in apis}:
                there = ", ".join(api.id.removeprefix(name + SEPARATOR) for api in apis[:6])
                problem = f"effects are given for a tool that it does not have, {shown(tool)}"
                found.problems.append(SourceError(name, problem, cure=f"it has {there or 'none'}"))
        return found

    def _compare(self, name: str, apis: tuple[Api, ...], found: _Definitions) -> None:
        """Compare with the lock: accept what may be, refuse what changed."""
        if self.lock is None:
            return
        changes = self.lock.compare(name, apis)
        found.changes = changes or None
        if self.accept:
            self.lock.accept(name, apis)
            return
        self.lock.note(name, apis)
        found.refused = {each.new.id: refusal(name, each) for each in changes.changed}
        found.problems += found.refused.values()

    def _write_lock(self) -> None:
        if self.lock is None or not self.lock.is_altered:
            return
        try:
            self.lock.write()
        except BaseException:
            for held in self._held.values():
                held.answer = None  # what is not pinned is not called: they are asked again
            raise

    def _overridden(self, api: Api) -> Api:
        others = api.id.partition(SEPARATOR)[0] + SEPARATOR + EACH
        effects = self.overrides.get(api.id) or self.overrides.get(others, api.effects)
        return api if effects == api.effects else dataclasses.replace(api, effects=effects)
