"""`Propagation`: shared context for servers that keep it themselves, within its class."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable

from cnp_router.context import ContextEntry
from cnp_router.context.data_classes import contractor_of
from cnp_router.coordination.asking import Asking
from cnp_router.coordination.rpc import PROPAGATE, ContextKept, ContextPropagate

__all__ = ["Propagation", "may_be_sent"]

_LONGEST = 200_000  # characters of the data of one message, as JSON
_MOST_NUMBERS = 10_000  # in an embedding


class Propagation:
    """Sends entries of shared context by ``context/propagate``, each once, to who declares it.

    Parameters
    ----------
    asking : Asking
    clock : callable, default=time.time
        Seconds since 1970.
    """

    def __init__(self, asking: Asking, *, clock: Callable[[], float] = time.time) -> None:
        self._asking, self._clock = asking, clock
        self._sent: dict[tuple[str, str], float] = {}  # by server and entry: until when it holds

    def is_wanted(self, api: str) -> bool:
        """Return whether the server of an API declares that it keeps context."""
        return self._asking.is_declared(api, PROPAGATE)

    async def send(
        self, api: str, entries: Iterable[ContextEntry], *, needed: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Send entries to the server of an API, and return the ids of those that it has kept.

        Parameters
        ----------
        api : str
        entries : iterable of ContextEntry
            What its class forbids is not sent, nor what the server has, has expired or is too long.
        needed : collection of str, default=()
            Ids of those that a job of this API depends on.
        """
        server, kept = contractor_of(api), []
        for entry in entries:
            now = self._clock()
            if not may_be_sent(entry, api, is_needed=entry.id in needed) or not entry.is_live(now):
                continue
            if self._sent.get((server, entry.id)) == entry.expires or not self.is_wanted(api):
                continue
            data = entry.data if isinstance(entry.data, dict) else {"result": entry.data}
            if len(json.dumps(data)) > _LONGEST:
                continue
            answer = await self._asking.ask(api, PROPAGATE, self._message(entry, now), ContextKept)
            if answer is not None:
                self._sent[server, entry.id] = entry.expires
                kept += [entry.id] if answer.kept else []
        self._sent = {key: until for key, until in self._sent.items() if until > self._clock()}
        return tuple(kept)

    def _message(self, entry: ContextEntry, now: float) -> ContextPropagate:
        vector = entry.vector if isinstance(entry.vector, tuple) else ()
        data = entry.data if isinstance(entry.data, dict) else {"result": entry.data}
        there = {name for _, name in self._sent}  # ids of others may say what they were asked
        return ContextPropagate(
            source_server=entry.contractor,
            context_id=entry.id,
            data=data,
            embedding=list(vector[:_MOST_NUMBERS]),
            ttl=round(entry.expires - now, 3),
            dependencies=[name for name in entry.dependencies if name in there],
        )


def may_be_sent(entry: ContextEntry, api: str, *, is_needed: bool) -> bool:
    """Return whether the class of an entry lets it reach the server of an API.

    Public entries may reach any; private ones who gave them and what depends on them; confidential
    ones who gave them.

    Examples
    --------
    >>> entry = ContextEntry(id="ctx_1", source="hr__salary", data=1, time=0.0)
    >>> [may_be_sent(entry, api, is_needed=needed)
    ...  for api, needed in (("hr__tax", False), ("sms__send", False), ("sms__send", True))]
    [True, False, True]
    """
    if entry.contractor == contractor_of(api) or entry.data_class == "public":
        return True
    return entry.data_class == "private" and is_needed
