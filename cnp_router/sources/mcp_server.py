"""`McpServer`: the tools of a server that speaks the Model Context Protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cnp_router.catalog import Api
from cnp_router.closest import closest
from cnp_router.exceptions import (
    InputError,
    MissingExtraError,
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
    UnknownApiError,
    shown,
)
from cnp_router.records import check_flag, check_number
from cnp_router.sources.mcp_calling import send
from cnp_router.sources.mcp_connection import Connection, Link, Mode
from cnp_router.sources.mcp_entry import (
    entry_fields,
    http_url,
    plain,
    secrets_of,
    several,
    strings,
)
from cnp_router.sources.mcp_http import ServerUrl
from cnp_router.sources.mcp_local import LocalServer
from cnp_router.sources.mcp_process import ServerProcess
from cnp_router.sources.mcp_requests import send_request
from cnp_router.sources.result_size import MAX_BYTES
from cnp_router.sources.source import (
    SEPARATOR,
    Call,
    CallFailure,
    CallResult,
    Source,
    check_source_name,
)

if TYPE_CHECKING:
    import httpx2
    from mcp.server import MCPServer, Server

__all__ = ["McpServer"]

_MESSAGE_FACTOR = 16  # a message may be longer than what is kept of it
_LEAST_MESSAGE = 4_000_000
_PROBE_SECONDS = 5.0


class McpServer(Source):
    """A server that speaks the Model Context Protocol: a process, behind a URL, or an object here.

    Nothing is started before its tools are asked for or one is called; then it is kept, until
    `aclose`. Parallel callers share one start. After the connection was lost the next call connects
    anew; what was sent and lost is a failure, and is never sent again.

    Parameters
    ----------
    name : str
        First part of the ids of its APIs.
    command : str, optional
        Program that is the server. Give this, `url` or `server`.
    args : sequence of str, default=()
    env : mapping of str to str, optional
        For the process, beside those few of this one's environment that the SDK passes on (such as
        HOME and PATH).
    cwd : str or Path, optional
        Working directory of the process; by default that of this one.
    url : str, optional
        Address of a server that speaks streamable HTTP.
    headers : mapping of str to str, optional
        For each request.
    auth : httpx2.Auth, optional
        For each request, such as ``mcp.client.auth.OAuthClientProvider``.
    server : mcp.server.Server or mcp.server.MCPServer, optional
        One of this process, which is run in memory while it is connected.
    trusted : bool, default=False
        Whether what the server says of its tools' effects (`readOnlyHint`) counts.
    mode : {"auto", "legacy"}, default="auto"
        How the version of the protocol is agreed upon; "legacy" for a server that does not answer
        what it does not know.
    start_timeout : float > 0, seconds, default=30.0
        For the start, until the tools are listed.
    max_bytes : int > 0, default=1_000_000
        How much is kept of a result. A message of more than 16 times as much (at least 4 MB) is
        not read at all, and ends the connection of a process.
    max_concurrency : int > 0, default=8
    backoff : tuple of two floats >= 0, seconds, default=(0.5, 10.0)
        How long to wait after a start that failed, and at most after several.
    grace : float > 0, seconds, default=1.0
        How long the process may take to end by itself when its input is closed, and then when it is
        terminated, before it is killed.
    secrets : iterable of str, default=()
        Further texts that no error shows, as those of `env` and `headers`; of 4 characters or more.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> McpServer("time", command="uvx", args=["mcp-server-time"])
    McpServer('time')
    """

    def __init__(
        self,
        name: str,
        *,
        command: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        server: Server[Any] | MCPServer | None = None,
        trusted: bool = False,
        mode: Mode = "auto",
        start_timeout: float = 30.0,
        max_bytes: int = MAX_BYTES,
        max_concurrency: int = 8,
        backoff: tuple[float, float] = (0.5, 10.0),
        grace: float = 1.0,
        secrets: Iterable[str] = (),
    ) -> None:
        self.name = check_source_name(name)
        places = {"command": command, "url": url, "server": server}
        given = [place for place, each in places.items() if each is not None]
        if len(given) != 1:
            raise InputError(
                f"give 'command' or 'url' (or a server of this process as 'server') of source "
                f"{name!r}, got {' and '.join(given) or 'none of them'}"
            )
        if mode not in ("auto", "legacy"):
            raise InputError(f"mode must be 'auto' or 'legacy', got {shown(mode)}")
        self._command = None if command is None else plain("command", command)
        self._args = tuple(plain("args", each, may_be_empty=True) for each in several("args", args))
        self._env = strings("env", env)
        self._cwd = None if cwd is None else Path(plain("cwd", os.fspath(cwd)))
        self._url = None if url is None else http_url(url)
        self._server = server
        self._headers = strings("headers", headers)
        if self._url is None and (self._headers or auth is not None):
            raise InputError(f"headers and auth belong to a 'url', and {name!r} has a {given[0]!r}")
        if self._command is None and (self._args or self._env or self._cwd):
            problem = f"args, env and cwd belong to a 'command', and {name!r} has a {given[0]!r}"
            raise InputError(problem)
        self._auth = auth
        self._trusted = check_flag("trusted", trusted)
        self._mode: Mode = mode
        self._start_timeout = check_number("start_timeout", start_timeout, 0, 10**6, ends=False)
        self._max_bytes = check_number("max_bytes", max_bytes, 1, 10**10, whole=True)
        self.max_concurrency = check_number(
            "max_concurrency", max_concurrency, 1, 10**6, whole=True
        )
        first, most = backoff
        self._backoff = (
            check_number("backoff", first, 0, 3600),
            check_number("backoff", most, 0, 3600),
        )
        self._grace = check_number("grace", grace, 0, 3600, ends=False)
        hidden = several("secrets", secrets)
        self._secrets = secrets_of(
            self._env, self._headers, args=self._args, url=self._url, more=hidden
        )
        self._connection: Connection | None = None
        self._starting: asyncio.Task[Connection] | None = None
        self._given: dict[str, Api] | None = None  # what `apis` returned last
        self._n_failed = 0
        self._next_start = 0.0
        self._unreported: float | None = None
        self._ended_by = ""

    @classmethod
    def from_entry(
        cls,
        name: str,
        fields: Mapping[str, Any],
        *,
        folder: Path,
        trusted: bool,
        secrets: Iterable[str] = (),
    ) -> Self:
        """Return the server of an entry of `mcpServers` in a file such as ``mcp.json``.

        Parameters
        ----------
        name : str
            Its key.
        fields : mapping of str to JSON value
            `command`, `args`, `env`, `cwd`; or `url`, `headers`; `type`, if it is to be said; and
            of the settings `max_bytes`, `mode` and `start_timeout`. What other programs keep there
            for themselves is passed over; a warning names it.
        folder : Path
            What relative paths in `command` and `cwd` are relative to, and where a command without
            `cwd` is started.
        trusted : bool
        secrets : iterable of str, default=()
            As those of the class.

        Raises
        ------
        InputError
            If a field is misspelled or cannot be used.

        Examples
        --------
        >>> McpServer.from_entry("time", {"command": "uvx", "args": ["mcp-server-time"]},
        ...                      folder=Path(), trusted=False)
        McpServer('time')
        """
        given = entry_fields(name, fields, folder)
        return cls(name, **given, trusted=trusted, secrets=secrets)

    @property
    def is_stale(self) -> bool:
        """Whether it is not connected, was since, or has said that its tools changed."""
        connection = self._connection
        if connection is None or not connection.is_open or connection.is_stale:
            return True
        return connection.apis is not self._given

    async def apis(self) -> tuple[Api, ...]:
        """Return its tools as APIs.

        Raises
        ------
        SourceUnavailableError
            If it cannot be started or reached.
        SourceAnswerError
            If it does not speak the protocol, or a tool of its list cannot be used.
        """
        connection = await self._connected()
        if connection.is_stale:
            await connection.list_again()
        self._given = connection.apis
        return tuple(self._given.values())

    async def call(self, call: Call) -> CallResult:
        """Call a tool. What goes wrong there is a `CallResult.failure`, not an exception.

        Raises
        ------
        UnknownApiError
            If it has no such tool.
        """
        prefix = f"{self.name}{SEPARATOR}"
        if not call.api.startswith(prefix):
            raise UnknownApiError(call.api)
        try:
            connection = await self._connected()
        except SourceAnswerError as exc:
            return CallResult(failure=CallFailure("unusable", str(exc), "no"))
        except SourceError as exc:
            return CallResult(failure=CallFailure("unavailable", str(exc), "no"))
        if call.api not in connection.apis:
            close = closest(call.api, connection.apis)
            raise UnknownApiError(call.api, close=close)
        given = (self._given or {}).get(call.api)
        if given is not None and given != connection.apis[call.api]:
            message = "the server was started anew, and this tool is another one now"
            return CallResult.failed("changed", message)
        start_seconds, self._unreported = self._unreported, None
        ended_by, self._ended_by = self._ended_by, ""
        began = time.perf_counter()
        with connection.calling() as notes:
            if ended_by:
                notes.append(f"connected anew: {ended_by}")
            tool = call.api.removeprefix(prefix)
            result = await send(connection, call, tool, notes, self._max_bytes)
        return replace(
            result,
            seconds=time.perf_counter() - began,
            start_seconds=start_seconds,
            notes=tuple(notes),
        )

    @property
    def extensions(self) -> Mapping[str, Any]:
        """What the server declares, while it is connected, under its capabilities' two names.

        Those are ``extensions``, and in versions of the protocol without it ``experimental``.
        """
        connection = self._connection
        return connection.extensions if connection is not None and connection.is_open else {}

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float = 10.0
    ) -> dict[str, Any]:
        """Send a request of a method of the server's own, and return the answer; see `Source`."""
        connection = await self._connected()
        with connection.calling():
            return await send_request(
                connection, method, params, timeout=timeout, max_bytes=self._max_bytes
            )

    async def aclose(self) -> None:
        """End the connection and the process, with all that it started. Can be called twice."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
            self._starting = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    async def _connected(self) -> Connection:
        """Return an open connection, started if there is none."""
        connection = self._connection
        if connection is not None and connection.is_suspect and not connection.n_running:
            await self._probe(connection)
        if connection is not None and connection.is_open:
            return connection
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name=f"start of {self.name}")
            self._starting.add_done_callback(self._started)
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if starting.cancelled() and (me is None or not me.cancelling()):
                raise SourceUnavailableError(self.name, "it was closed") from None
            raise

    def _started(self, task: asyncio.Task[Connection]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # has been seen: those who wait for it raise it

    async def _start(self) -> Connection:
        began = time.perf_counter()
        _check_sdk()
        last, self._connection = self._connection, None
        if last is not None:
            await last.wait_over()
            self._ended_by = last.error().problem
        delay = max(self._next_start - time.monotonic(), 0.0)
        await asyncio.sleep(delay)
        connection = Connection(
            self.name,
            self._link(),
            mode=self._mode,
            trusted=self._trusted,
            start_timeout=self._start_timeout,
            clean=self._clean,
        )
        try:
            await connection.open()
        except SourceError:
            first, most = self._backoff
            self._next_start = time.monotonic() + min(first * 2**self._n_failed, most)
            self._n_failed = min(self._n_failed + 1, 30)
            raise
        self._n_failed = 0
        self._connection = connection
        self._unreported = time.perf_counter() - began - delay
        return connection

    def _link(self) -> Link:
        """Return what a connection goes over."""
        most = max(_MESSAGE_FACTOR * self._max_bytes, _LEAST_MESSAGE)
        if self._server is not None:
            return LocalServer(self._server)
        if self._url is not None:
            return ServerUrl(
                self._url,
                headers=self._headers,
                auth=self._auth,
                connect_timeout=self._start_timeout,
                max_message=most,
            )
        from mcp.client.stdio import get_default_environment

        env = get_default_environment() | self._env
        return ServerProcess(
            self._program(env.get("PATH")),
            self._args,
            env=env,
            cwd=self._cwd,
            grace=self._grace,
            max_message=most,
            clean=self._clean,
        )

    def _program(self, path: str | None) -> str:
        """Return the place of the program that is to be run."""
        assert self._command is not None
        if os.name != "posix":
            raise SourceUnavailableError(
                self.name,
                "servers that are processes need Linux or macOS",
                cure="run it yourself and give its 'url'",
            )
        if self._cwd is not None and not self._cwd.is_dir():
            raise SourceUnavailableError(
                self.name,
                f"there is no folder {self._clean(str(self._cwd))!r}",
                cure="correct 'cwd'",
            )
        place = self._command
        if os.sep in place:
            place = str((self._cwd or Path()).absolute() / place)
        found = shutil.which(place, path=path)
        if found is None and (file := shutil.which(place, os.F_OK, path)) is not None:
            problem = f"{self._clean(file)!r} is there, and may not be run"
            cure = "make it a program by chmod +x, or name the program that runs it as 'command'"
            raise SourceUnavailableError(self.name, problem, cure=cure)
        if found is None and os.sep in place:
            try:
                Path(place).stat()
            except PermissionError as exc:
                problem = f"{self._clean(self._command)!r} may not be run by this user"
                cure = "let this user into its folders, or install it where others may run it"
                raise SourceUnavailableError(self.name, problem, cure=cure) from exc
            except OSError:
                pass  # it is not there, as is said below
        if found is None:
            raise SourceUnavailableError(
                self.name,
                f"there is no program {self._clean(self._command)!r}",
                cure="install it, or give its whole path as 'command'",
            )
        return str(Path(found).absolute())

    async def _probe(self, connection: Connection) -> None:
        """Find out whether a server that did not answer in time still does; end it if not."""
        connection.is_suspect = False
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await connection.client.list_tools()
        except TimeoutError:
            connection.end("it did not answer any more")
            await connection.wait_over()
        except Exception:  # any answer is an answer; the call itself will meet what is wrong
            return

    def _clean(self, text: str) -> str:
        """Return a text without what may be secret in `env`, `headers`, `args` and `url`."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _check_sdk() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as exc:
        raise MissingExtraError("an MCP server", package="mcp", extra="mcp") from exc
    for name in ("mcp", "client"):  # what it logs must not reach a terminal by itself
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
