"""`SharedContext`: what calls gave, for jobs, executions and processes that need it too."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from cnp_router.catalog import Api, DataClass
from cnp_router.context.context_entry import LONGEST, SHORTEST, TTL, ContextEntry
from cnp_router.context.context_store import ContextStore, MemoryContextStore, check_whose
from cnp_router.context.context_vectors import ContextVectors, DenseVectors, SparseVectors, cosine
from cnp_router.context.data_classes import DataClasses, contractor_of, strictest
from cnp_router.context.entry_names import about, call_id, mark_of
from cnp_router.context.equivalents import Equivalents
from cnp_router.context.lineage import Fetch, Lineage, Made, digest_of_data
from cnp_router.context.thresholds import FixedThreshold, QuantileThreshold, Threshold
from cnp_router.exceptions import InputError
from cnp_router.records import check_instance, check_number, one_line
from cnp_router.sources.source import EACH, SEPARATOR, CallResult
from cnp_router.text import specification_text

__all__ = ["Found", "SharedContext"]

_LONGEST = 1_000_000  # characters of data and text of one entry


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that was found.

    Parameters
    ----------
    entry : ContextEntry
    notes : tuple of str, default=()
        What it was made from and has expired, or was fetched again.
    similarity : float, default=1.0
    """

    entry: ContextEntry
    notes: tuple[str, ...] = ()
    similarity: float = 1.0

    @property
    def result(self) -> CallResult:
        """What the call gave, with the notes."""
        result = self.entry.result
        return replace(result, notes=(*result.notes, *self.notes))

    __repr__ = one_line


class SharedContext:
    """What calls gave, as long as it holds: for who needs it too, within its class.

    What only reads is not called again with the same inputs: `recall`. What a job does not depend
    on, but is similar to, is offered to it: `offer`. Confidential data is kept in the memory of
    this process alone, whatever the store is, and never offered. Entries of one user never reach
    another.

    Parameters
    ----------
    store : ContextStore, optional
        Default: one in memory.
    vectors : ContextVectors or callable, optional
        By which similarity is judged: an encoder of texts, such as `OpenAIEncoder`, gives dense
        ones. Default: TF-IDF (`SparseVectors`).
    threshold : Threshold or float in [0, 1], optional
        The least similarity of what is offered. Default: 0.7 for dense vectors; for sparse ones
        the 0.99 quantile of the similarity of specifications to each other.
    ttl : float, 60 to 600 seconds, default=300.0
        For how long an entry holds.
    classes : DataClasses, mapping or callable, optional
        See `DataClasses`. Default: all is private.
    equivalents : callable, optional
        From an `Api` to the ids of those that give the same data, as a negotiation knows them.
    alike : float in [0, 1], optional
        APIs of other sources give the same data, too, if their specifications are as alike.
    most_offered : int >= 0, default=5
    outdates : callable, optional
        From the id of an API that may change something to whether what its source gave before is
        out of date once it was called. Default: always.
    clock : callable, default=time.time
        Seconds since 1970.

    Attributes
    ----------
    counts : Counter of str
        ``"recalled"``, ``"missed"``, ``"kept"``, ``"offered"``, ``"fetched"`` (dependencies that
        had expired), ``"outdated"`` (whose dependencies are not what they were).

    Examples
    --------
    >>> import asyncio
    >>> city = {"type": "object", "properties": {"city": {"type": "string"}}}
    >>> today = Api("weather__today", "today", "The weather of a city.", (), city, "reads")
    >>> async def main():
    ...     async with SharedContext() as context:
    ...         await context.keep(today, {"city": "Kyoto"}, CallResult('{"rain": 0.4}'))
    ...         print(await context.recall(today, {"city": "Kyoto"}))
    ...         print(await context.recall(today, {"city": "Nara"}))
    >>> asyncio.run(main())
    CallResult('{"rain": 0.4}')
    None
    """

    def __init__(
        self,
        store: ContextStore | None = None,
        *,
        vectors: ContextVectors | Callable[[list[str]], Any] | None = None,
        threshold: Threshold | float | None = None,
        ttl: float = TTL,
        classes: DataClasses | Mapping[str, str] | Callable[[str], str | None] | None = None,
        equivalents: Callable[[Api], Collection[str]] | None = None,
        alike: float | None = None,
        most_offered: int = 5,
        outdates: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = MemoryContextStore(clock=clock) if store is None else store
        check_instance("store", self.store, ContextStore)
        if vectors is None:
            vectors = SparseVectors()
        elif not isinstance(vectors, ContextVectors):
            vectors = DenseVectors(vectors)
        self.vectors = vectors
        if threshold is None:
            threshold = FixedThreshold() if vectors.is_dense else QuantileThreshold()
        elif not isinstance(threshold, Threshold):
            threshold = FixedThreshold(threshold)
        self.threshold = threshold
        self.ttl = check_number("ttl in seconds", ttl, SHORTEST, LONGEST)
        self.classes = classes if isinstance(classes, DataClasses) else DataClasses(classes)
        self.most_offered = check_number("most_offered", most_offered, 0, whole=True)
        self._outdates = outdates
        self.counts: Counter[str] = Counter()
        self._equivalents = Equivalents(equivalents, alike=alike)
        self._clock = clock
        self._own = MemoryContextStore(clock=clock)  # what never leaves this process
        self._lineage = Lineage(self._get, self._fetched)

    def know(self, apis: Iterable[Api]) -> None:
        """Take the APIs there are: equivalent ones are found among them, and the threshold.

        Raises
        ------
        InputError
            If a class is given for a tool that its source does not have.
        """
        there = tuple(apis)
        self.classes.check([api.id for api in there])
        if self._equivalents.know(there):
            self.threshold.learn(self.vectors.learn([specification_text(api) for api in there]))

    async def recall(
        self, api: Api, inputs: Mapping[str, Any], *, user: str = "", fetch: Fetch | None = None
    ) -> CallResult | None:
        """Return what the same call gave, or the same data from an equivalent API; see `find`."""
        found = await self.find(api, inputs, user=user, fetch=fetch)
        return None if found is None else found.result

    async def find(
        self, api: Api, inputs: Mapping[str, Any], *, user: str = "", fetch: Fetch | None = None
    ) -> Found | None:
        """Return the entry of the same call, or of the same data from an equivalent API.

        Only for what reads; never one that has expired, that is somebody else's, or whose
        dependencies are not any more what it was made from. Equivalent is what takes parameters of
        the same names, only reads, and is given as equivalent, or, with `alike`, is so by its words
        (`Equivalents`). What is confidential counts for its own source only.

        Parameters
        ----------
        api : Api
        inputs : mapping of str to JSON value
            References resolved.
        user : str, default=""
        fetch : callable, optional
            Makes the call of an expired dependency again. Without it, the notes name it.

        Raises
        ------
        ContextStoreError
            If the store cannot be used.
        """
        if api.effects != "reads":
            return None
        await self.store.watched()
        for other in (api, *self._equivalents.of(api)):
            entry = await self._get(call_id(other, inputs, user))
            if entry is None or not entry.reads or entry.user != user:
                continue
            if self._class(entry) == "confidential" and entry.contractor != contractor_of(api.id):
                continue
            found = await self._whole(entry, fetch)
            if found is not None:
                self.counts["recalled"] += 1
                return replace(found, notes=(self._source_note(entry), *found.notes))
        self.counts["missed"] += 1
        return None

    async def offer(
        self, text: str, api: Api, *, user: str = "", fetch: Fetch | None = None
    ) -> dict[str, CallResult]:
        """Return what is similar enough to a text and may reach an API, by context id."""
        found = await self.similar(text, api, user=user, fetch=fetch)
        return {each.entry.id: each.result for each in found}

    async def similar(
        self,
        text: str,
        api: Api,
        *,
        user: str = "",
        fetch: Fetch | None = None,
        without: Collection[str] = (),
    ) -> list[Found]:
        """Return the entries that are similar enough and may reach an API, most similar first.

        Public ones may reach anyone; private ones who gave them; confidential ones nobody.

        Parameters
        ----------
        text : str
            What is needed.
        api : Api
            Who needs it.
        user, fetch
            As in `find`; what has an expired dependency that is not fetched again is left out.
        without : collection of str, default=()
            Ids of entries that it has anyway.

        Raises
        ------
        ContextStoreError, LanguageModelError
            If the store or the encoder cannot be used.
        """
        there = [e for e in await self.store.live() if e.user == user and e.vector is not None]
        there = [e for e in there if self._may_reach(e, api.id)]
        if not there or not self.most_offered:
            return []
        [wanted] = await self.vectors.of([text])
        scored = [(cosine(wanted, e.vector), e) for e in there if e.vector is not None]
        category = next(iter(api.categories), None)
        least = self.threshold.value(category=category, load=len(scored))
        self.threshold.observe((score for score, _ in scored), category=category)
        scored = [(s, e) for s, e in scored if s >= least and e.id not in without]
        found = []
        for score, entry in sorted(scored, key=lambda each: (-each[0], -each[1].time)):
            is_current = await self._is_current(entry)
            whole = await self._whole(entry, fetch) if is_current else None
            if whole is not None and not whole.notes:
                found.append(replace(whole, similarity=score))
            if len(found) == self.most_offered:
                break
        self.counts["offered"] += len(found)
        return found

    async def get(
        self, context_id: str, *, user: str = "", fetch: Fetch | None = None
    ) -> Found | None:
        """Return an entry by its id; None if it is gone, or is not what it was made from any more.

        Its notes name what it was made from and has expired.
        """
        entry = await self._get(context_id)
        return None if entry is None or entry.user != user else await self._whole(entry, fetch)

    async def keep(
        self,
        api: Api,
        inputs: Mapping[str, Any],
        result: CallResult,
        *,
        text: str = "",
        dependencies: Iterable[str] = (),
        at_least: DataClass = "public",
        user: str = "",
        execution: str = "",
        as_of: str | None = None,
    ) -> str:
        """Keep what a call gave, and return its context id.

        Parameters
        ----------
        api : Api
            Who gave it.
        inputs : mapping of str to JSON value
        result : CallResult
        text : str, default=""
            What it was for, in plain language.
        dependencies : iterable of str, default=()
            Ids of the entries that the inputs came from. Its class is the strictest of theirs and
            that of the API; those that have expired count as they were.
        at_least : {"public", "private", "confidential"}
            What its class is at least.
        user, execution : str, default=""
            Whose it is.
        as_of : str, optional
            What `begins` returned before the call: what is written meanwhile makes it out of date.
            Default: as if it had been asked just now.

        Returns
        -------
        str
            ``""`` if it is not kept: it is cut, has attachments or more than 1,000,000 characters.

        Raises
        ------
        InputError
            If it is a failure, or would depend on itself.
        ContextStoreError, LanguageModelError
            If the store or the encoder cannot be used. In the second case, it is kept.
        """
        if not result.is_done:
            raise InputError(f"only what succeeded is kept, and {api.id!r} failed")
        self._equivalents.know((api,), more=True)
        reads = api.effects == "reads"
        name = call_id(api, inputs, user) if reads else f"ctx_{secrets.token_hex(12)}"
        needs = tuple(dict.fromkeys(each for each in dependencies if each))
        data_class = strictest([at_least, await self._inherited(api, needs)])
        now = self._clock()
        if result.is_cut or result.attachments or not _is_short(result):
            await self._drop(name)  # of an earlier call
            return ""
        data = result.data
        entry = ContextEntry(
            id=name,
            source=api.id,
            data=data,
            said="" if result.structured is None and result.text == data else result.text,
            structured=result.structured is not None,
            text="" if data_class == "confidential" else about(api, inputs, text),
            time=now,
            ttl=self.ttl,
            data_class=data_class,
            dependencies=needs,
            reads=reads,
            as_of=await self._last_write(api.id) if as_of is None else as_of,
            user=user,
            execution=execution,
        )
        await self._lineage.check_no_circle(entry)
        there = {each: await self._get(each) for each in needs}
        versions = {n: None if e is None else digest_of_data(e.data) for n, e in there.items()}
        made = Made(api, dict(inputs), text, versions, data_class, user, execution)
        self._lineage.note(name, made)
        await self._put(entry)
        await self.store.watched()
        return name

    async def begins(self, api: Api) -> str:
        """Say that an API is called now, and return what `keep` needs to know of that."""
        if api.effects != "reads":
            await self.written(api)
        return await self._last_write(api.id)

    async def written(self, api: Api) -> None:
        """Say that a call may have changed something: what was read there before is out of date.

        For other processes too: the store keeps which write was the last.
        """
        if api.effects == "reads":
            return
        if self._outdates is None or self._outdates(api.id):
            await self.store.put(
                ContextEntry(
                    id=mark_of(api.id),
                    source=f"{contractor_of(api.id)}{SEPARATOR}{EACH}",
                    data=secrets.token_hex(8),
                    time=self._clock(),
                    ttl=LONGEST,  # no entry from before lives longer
                )
            )

    def refusal(self, producer: str, consumer: str) -> str | None:
        """Return why what one API gives must not reach another; None if it may."""
        return self.classes.refusal(producer, consumer)

    async def erase(self, *, execution: str | None = None, user: str | None = None) -> int:
        """Remove what is from an execution or of a user, and return how many entries that were."""
        check_whose(execution, user)
        self._lineage.erase(execution=execution, user=user)
        self.vectors.clear()
        whose = {"execution": execution, "user": user}
        return await self._own.erase(**whose) + await self.store.erase(**whose)

    async def aclose(self) -> None:
        """Close the store. Can be called twice; close what executes before it."""
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"SharedContext({self.store!r}, {self.threshold!r}, ttl={self.ttl:g})"

    # What follows is how entries are found, and what they were made from.

    async def _get(self, name: str) -> ContextEntry | None:
        entry = await self._own.get(name) or await self.store.get(name)
        is_live = entry is not None and entry.is_live(self._clock())
        return entry if entry and is_live and await self._is_current(entry) else None

    async def _is_current(self, entry: ContextEntry) -> bool:
        """Whether nothing was written, since it was read, where it comes from."""
        return not entry.reads or entry.as_of == await self._last_write(entry.source)

    async def _last_write(self, api: str) -> str:
        mark = await self.store.get(mark_of(api))
        return "" if mark is None else str(mark.data)

    async def _put(self, entry: ContextEntry) -> None:
        self.counts["kept"] += 1
        if entry.data_class == "confidential":
            await self.store.delete(entry.id)  # it may have had another class before
            return await self._own.put(entry)
        try:
            [vector] = await self.vectors.of([entry.text])
        except BaseException:
            await self.store.put(entry)
            raise
        await self.store.put(replace(entry, vector=vector))

    async def _drop(self, name: str) -> None:
        await self._own.delete(name)
        await self.store.delete(name)

    def _class(self, entry: ContextEntry) -> DataClass:
        """Return the class of an entry: its own, or that of its API here, if that is stricter."""
        return strictest([entry.data_class, self.classes.of(entry.source)])

    def _may_reach(self, entry: ContextEntry, api: str) -> bool:
        of = self._class(entry)
        return of == "public" or (of == "private" and entry.contractor == contractor_of(api))

    async def _inherited(self, api: Api, needs: Sequence[str]) -> DataClass:
        """Return the class of what an API made from other entries, those that are gone too."""
        classes = [self.classes.of(api.id)]
        for name in needs:
            entry, made = await self._get(name), self._lineage.made(name)
            if entry is not None:
                source, of = entry.source, self._class(entry)
            elif made is not None:
                source, of = made.api.id, made.data_class
            else:  # of another process, or long ago: what is confidential never was there
                source, of = api.id, "private"
            if of == "confidential" and contractor_of(source) != contractor_of(api.id):
                raise InputError(
                    f"{name!r} of {source!r} is confidential: what {api.id!r} gives cannot depend "
                    "on it"
                )
            classes.append(of)
        return strictest(classes)

    async def _whole(self, entry: ContextEntry, fetch: Fetch | None) -> Found | None:
        """Return an entry with what there is to say of its dependencies.

        None, and it is gone, where one of them is not what it was made from any more.
        """
        notes: list[str] = []
        if await self._lineage.is_changed(entry, fetch, notes):
            self.counts["outdated"] += 1
            await self._drop(entry.id)
            return None
        return Found(entry, tuple(notes))

    async def _fetched(self, made: Made, result: CallResult) -> None:
        """Keep what an expired dependency gives now."""
        self.counts["fetched"] += 1
        await self.keep(
            made.api,
            made.inputs,
            result,
            text=made.text,
            dependencies=tuple(made.dependencies),
            at_least=made.data_class,
            user=made.user,
            execution=made.execution,
        )

    def _source_note(self, entry: ContextEntry) -> str:
        age = max(self._clock() - entry.time, 0.0)
        return f"known from {entry.source}, {age:.0f} s ago: not called again"


def _is_short(result: CallResult) -> bool:
    try:
        size = len(json.dumps(result.data, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return False
    return size + len(result.text) <= _LONGEST
