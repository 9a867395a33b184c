"""`Lineage`: from which entries others were made, and whether those still hold."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cnp_router.catalog import Api, DataClass
from cnp_router.context.context_entry import ContextEntry
from cnp_router.exceptions import InputError
from cnp_router.sources.source import CallResult

__all__ = ["Fetch", "Lineage", "Made", "digest_of_data"]

Fetch: TypeAlias = Callable[[Api, Mapping[str, Any]], Awaitable[CallResult]]
"""Makes a call that only reads once more."""

_MOST_CALLS = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class Made:
    """The call that made an entry, with a digest of each dependency as it was, if it is known."""

    api: Api
    inputs: Mapping[str, Any]
    text: str
    dependencies: Mapping[str, str | None]
    data_class: DataClass
    user: str
    execution: str


class Lineage:
    """The graph of entries and what they were made from, which has no circle.

    It knows the calls of this process: what other processes made is named when it has expired, and
    not fetched again.
    """

    def __init__(
        self,
        get: Callable[[str], Awaitable[ContextEntry | None]],
        fetched: Callable[[Made, CallResult], Awaitable[None]],
    ) -> None:
        self._get = get
        self._fetched = fetched
        self._made: OrderedDict[str, Made] = OrderedDict()

    def note(self, name: str, made: Made) -> None:
        """Remember the call that made an entry."""
        self._made[name] = made
        self._made.move_to_end(name)
        while len(self._made) > _MOST_CALLS:
            self._made.popitem(last=False)

    def made(self, name: str) -> Made | None:
        """Return the call that made an entry, which may be gone; None if nobody knows it here."""
        return self._made.get(name)

    def erase(self, *, execution: str | None, user: str | None) -> None:
        """Forget the calls of an execution or a user."""
        for name, made in list(self._made.items()):
            if execution in (None, "", made.execution) and user in (None, "", made.user):
                del self._made[name]

    async def check_no_circle(self, entry: ContextEntry) -> None:
        """Raise InputError if what an entry is to be made from was made from it."""
        waiting = [(name, f"{entry.id} needs {name}") for name in entry.dependencies]
        seen: set[str] = set()
        while waiting:
            name, path = waiting.pop()
            if name == entry.id:
                raise InputError(f"an entry cannot depend on itself: {path} (leave one out)")
            if name not in seen:
                seen.add(name)
                needed = await self._get(name)
                below = () if needed is None else needed.dependencies
                waiting += [(each, f"{path} needs {each}") for each in below]

    async def is_changed(self, entry: ContextEntry, fetch: Fetch | None, notes: list[str]) -> bool:
        """Whether something that an entry was made from was fetched again, and is another now.

        What has expired and was not fetched is named in the notes.
        """
        return await self._is_changed(entry, fetch, notes, {entry.id})

    async def _is_changed(
        self, entry: ContextEntry, fetch: Fetch | None, notes: list[str], seen: set[str]
    ) -> bool:
        own = self._made.get(entry.id)
        for name in entry.dependencies:
            was = None if own is None else own.dependencies.get(name)
            needed, made = await self._get(name), self._made.get(name)
            if needed is not None:
                if was not in (None, digest_of_data(needed.data)):
                    return True
                if was is None and needed.time > entry.time:
                    notes.append(f"it was made from {name} of {needed.source}, read again since")
                if name not in seen:
                    seen.add(name)
                    if await self._is_changed(needed, fetch, notes, seen):
                        return True
            elif name in seen:
                continue
            elif made is None or fetch is None or made.api.effects != "reads":
                seen.add(name)
                of = "" if made is None else f" of {made.api.id}"
                notes.append(f"it was made from {name}{of}, which has expired")
            else:
                seen.add(name)
                result = await fetch(made.api, made.inputs)
                if not result.is_done:
                    said = "which has expired and could not be fetched again"
                    notes.append(f"it was made from {name} of {made.api.id}, {said}")
                    continue
                await self._fetched(made, result)
                if was not in (None, digest_of_data(result.data)):
                    return True
        return False


def digest_of_data(data: Any) -> str:
    """Return the same for the same data."""
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
