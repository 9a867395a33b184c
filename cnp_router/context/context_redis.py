"""`RedisContextStore`: context on a Redis server, for processes on several machines."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cnp_router.context.context_entry import ContextEntry
from cnp_router.context.context_store import ContextStore
from cnp_router.exceptions import ContextStoreError, InputError, MissingExtraError
from cnp_router.llm.secret import Secret
from cnp_router.records import check_id, check_number, shown

__all__ = ["RedisContextStore"]

T = TypeVar("T")

_AT_ONCE = 500  # keys
_GLOB = re.compile(r"([\\*?\[\]])")


class RedisContextStore(ContextStore):
    """Keeps entries on a Redis server, which lets them go when they expire.

    Any number of processes may use it at once, from any thread and event loop. How much it keeps
    in all is the server's setting (``maxmemory``, with the policy ``volatile-ttl``). Nothing
    confidential comes here (`SharedContext`); what is private stands there as it is.

    Parameters
    ----------
    url : str, default="redis://127.0.0.1:6379/0"
        ``rediss://`` for TLS. A password in it is shown nowhere.
    namespace : str, default="cnp-router"
        Beginning of its keys: others on the server are never touched.
    timeout : float, seconds, default=2.0
        For a connection and for an answer.
    max_bytes : int >= 1, default=1,048,576
        Of one entry as JSON; what is larger is not kept.

    Raises
    ------
    MissingExtraError
        If ``redis`` is not installed.
    InputError
        If the URL is not that of a Redis server.

    Examples
    --------
    >>> RedisContextStore("redis://:a-password@localhost:6399/1")
    RedisContextStore('redis://localhost:6399/1')
    """

    kind = "redis"

    def __init__(
        self,
        url: str = "redis://127.0.0.1:6379/0",
        *,
        namespace: str = "cnp-router",
        timeout: float = 2.0,
        max_bytes: int = 1_048_576,
    ) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as exc:
            raise MissingExtraError(
                "context on a Redis server", package="redis", extra="redis"
            ) from exc
        self.namespace = check_id("namespace", namespace)
        self.timeout = check_number("timeout in seconds", timeout, 0, 3_600, ends=False)
        self.max_bytes = check_number("max_bytes", max_bytes, 1, whole=True)
        self._secret, self.server = _parts_of(url)
        self._fault = redis.RedisError
        try:
            # One more attempt: the server may have closed a connection that was long idle.
            self._client = redis.Redis.from_url(
                url,
                socket_timeout=self.timeout,
                socket_connect_timeout=self.timeout,
                retry=Retry(NoBackoff(), 1),
                health_check_interval=0,
            )
        except (ValueError, TypeError) as exc:
            raise InputError(f"not the URL of a Redis server: {self.server}") from exc

    async def put(self, entry: ContextEntry) -> None:
        """Keep an entry; the server lets it go when it expires."""
        content, key = entry.to_json(), self._key(entry.id)
        milliseconds = max(round(entry.ttl * 1000), 1)
        if len(content) > self.max_bytes:
            await self._done(lambda client: client.delete(key))
        else:
            await self._done(lambda client: client.set(key, content, px=milliseconds))

    async def get(self, entry_id: str) -> ContextEntry | None:
        """Return an entry that has not expired."""
        found = await self._done(lambda client: client.get(self._key(entry_id)))
        return None if found is None else self._entry(found)

    async def live(self) -> tuple[ContextEntry, ...]:
        """Return all entries that have not expired."""
        found = await self._done(self._all)
        return tuple(sorted(map(self._entry, found), key=lambda entry: (entry.time, entry.id)))

    async def delete(self, *entry_ids: str) -> int:
        """Remove entries."""
        if not entry_ids:
            return 0
        keys = [self._key(each) for each in entry_ids]
        return int(await self._done(lambda client: client.delete(*keys)))

    async def usage(self) -> float | None:
        """Return how much of the server's ``maxmemory`` is used, by all that is there."""
        info = await self._done(lambda client: client.info("memory"))
        used, most = (info.get(name, 0) for name in ("used_memory", "maxmemory"))
        return used / most if most else None

    async def aclose(self) -> None:
        """Close the connections. Can be called twice; it may be used again."""
        await self._done(lambda client: client.close())

    def __repr__(self) -> str:
        return f"RedisContextStore({self.server!r})"

    def _key(self, entry_id: str) -> str:
        return f"{self.namespace}:context:{entry_id}"

    def _all(self, client: Any) -> list[bytes]:
        pattern = _GLOB.sub(r"\\\1", self.namespace) + ":context:*"
        keys = sorted(set(client.scan_iter(match=pattern, count=_AT_ONCE)))
        found: list[bytes] = []
        for first in range(0, len(keys), _AT_ONCE):
            values = client.mget(keys[first : first + _AT_ONCE])
            found += [value for value in values if value is not None]  # expired meanwhile
        return found

    def _entry(self, content: bytes) -> ContextEntry:
        try:
            return ContextEntry.from_json(content, self.server)
        except InputError as exc:
            cure = "somebody else writes there: use a namespace of its own"
            raise ContextStoreError(self.server, str(exc), cure=cure) from None

    async def _done(self, use: Callable[[Any], T]) -> T:
        """Ask the server, in a thread: its client then belongs to no event loop."""

        def work() -> T:
            try:
                return use(self._client)
            except (self._fault, OSError) as exc:
                said = self._secret.redacted(str(exc)) or type(exc).__name__
                cure = "is the server there? Executions go on without shared context"
                raise ContextStoreError(self.server, said, cure=cure) from None

        return await asyncio.to_thread(work)


def _parts_of(url: object) -> tuple[Secret, str]:
    """Return the password in a URL, and the URL without it."""
    if not isinstance(url, str):
        raise InputError(f"the URL of a Redis server must be a string, got {shown(url)}")
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        parts, port = urlsplit("none:"), ""
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise InputError("not the URL of a Redis server (write redis://host:port/number)")
    shape = f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
    return Secret(parts.password or ""), shape
