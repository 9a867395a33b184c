"""One connection to an MCP server, owned by one task from its start to its end.

The SDK's client must be entered and left by the same task: this module has that task. Callers use
the client from tasks of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from cnp_router.catalog import Api
from cnp_router.exceptions import (
    InputError,
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
)
from cnp_router.printing import printable
from cnp_router.sources.input_check import input_check
from cnp_router.sources.mcp_http import HTTP_ERROR
from cnp_router.sources.mcp_tools import Listed, listed
from cnp_router.version import __version__

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import Transport
    from mcp_types import CallToolResult

__all__ = ["Connection", "Link", "Mode"]

Mode = Literal["auto", "legacy"]
_NOTES = 20
_MOST_DECLARED = 20_000  # characters, as JSON; more is not read
_LONGEST = 1_500  # characters of a problem
_DECLINED = {
    "sampling/createMessage": "a model's answer (sampling)",
    "elicitation/create": "an answer of the user (elicitation)",
    "roots/list": "the user's folders (roots)",
}


class Link(Protocol):
    """What a connection goes over."""

    ended: asyncio.Event
    problem: str
    is_nonsense: bool

    @property
    def cure(self) -> str:
        """What may cure any problem."""

    @property
    def detail(self) -> str:
        """What may explain a problem, or nothing."""

    def transport(self) -> Transport:
        """Return what the SDK's client enters."""


class Connection:
    """A connection.

    Parameters
    ----------
    source : str
        Name of the source, for errors.
    link : Link
    mode : {"auto", "legacy"}
    trusted : bool
    start_timeout : float > 0, seconds
    clean : callable
        Takes secrets out of a text.

    Attributes
    ----------
    client : mcp.Client
    is_stale : bool
        Whether the server said that it has other tools now.
    is_suspect : bool
        Whether a call had no answer in time.
    extensions : dict of str to JSON value
        What the server declares beside the capabilities of the protocol.
    """

    client: Client

    def __init__(
        self,
        source: str,
        link: Link,
        *,
        mode: Mode,
        trusted: bool,
        start_timeout: float,
        clean: Callable[[str], str],
    ) -> None:
        self.source = source
        self.link = link
        self.mode: Mode = mode
        self.trusted = trusted
        self.start_timeout = start_timeout
        self.clean = clean
        self._listed = Listed()
        self.is_stale = False
        self.is_suspect = False
        self.extensions: dict[str, Any] = {}
        self._running: list[list[str]] = []
        self._is_closing = False
        self._opened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: SourceError | None = None

    @property
    def apis(self) -> dict[str, Api]:
        """Its tools, by id."""
        return self._listed.apis

    @property
    def is_open(self) -> bool:
        """Whether calls can be sent."""
        return self._opened.is_set() and not self.link.ended.is_set() and not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether everything of it is gone."""
        return self._task is not None and self._task.done()

    @property
    def n_running(self) -> int:
        """How many calls are under way."""
        return len(self._running)

    async def open(self) -> None:
        """Start and wait until calls can be sent.

        Raises
        ------
        SourceError
            If that fails. Nothing is left then.
        """
        self._task = asyncio.create_task(self._own(), name=f"connection of {self.source}")
        self._task.add_done_callback(lambda _: self._opened.set())
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            await self.close()
            raise
        if self.is_over:
            raise self.error()

    def error(self) -> SourceError:
        """Return why it is over."""
        error = self._error
        if error is None:
            return SourceUnavailableError(self.source, "it was closed")
        return type(error)(error.source, error.problem, cure=error.cure)

    async def list_again(self) -> None:
        """Ask for the tools anew.

        Raises
        ------
        SourceError
            If that fails.
        """
        limit = asyncio.timeout(self.start_timeout)
        try:
            async with limit:
                self._listed = await listed(self.source, self.client, self.trusted)
            self.is_stale = False
        except Exception as exc:
            raise self._explained(exc, started=not limit.expired()) from None

    async def wait_over(self) -> None:
        """Wait until everything of it is gone."""
        if self._task is not None:
            await asyncio.wait({self._task})

    def end(self, problem: str) -> None:
        """Begin to end it, because it is of no more use."""
        self.link.problem = self.link.problem or problem
        self.link.ended.set()

    async def close(self) -> None:
        """End it, and wait until everything of it is gone."""
        if self._task is None:
            return
        self._is_closing = True
        if self._opened.is_set():
            self.link.ended.set()
        else:
            self._task.cancel()
        await asyncio.wait({self._task})

    @contextmanager
    def calling(self) -> Iterator[list[str]]:
        """Keep what the server asks for during a call."""
        notes: list[str] = []
        self._running.append(notes)
        try:
            yield notes
        finally:
            self._running = [each for each in self._running if each is not notes]

    async def _own(self) -> None:
        from mcp import Client
        from mcp_types import Implementation

        limit = asyncio.timeout(self.start_timeout)
        try:
            async with (
                limit,
                Client(
                    self.link.transport(),
                    mode=self.mode,
                    client_info=Implementation(name="cnp-router", version=__version__),
                    message_handler=self._heard,
                    cache=None,
                ) as client,
            ):
                self._decline(client)
                client.session.validate_tool_result = self._check  # type: ignore[method-assign]
                self._listed = await listed(self.source, client, self.trusted)
                self.extensions = extensions_of(client.server_capabilities)
                self.client = client
                limit.reschedule(None)
                self._opened.set()
                try:
                    await self.link.ended.wait()
                finally:  # before any caller learns that the client is closed
                    self.link.ended.set()
        except Exception as exc:
            self._error = self._explained(exc, started=limit.when() is None)
        else:
            if self.link.problem and not self._is_closing:
                self._error = self._explained(None, started=True)
        finally:
            self.link.ended.set()

    def _explained(self, exc: Exception | None, *, started: bool) -> SourceError:
        """Return what happened, as an error in words."""
        from mcp import MCPError

        leaf = _leaf(exc)
        kind: type[SourceError] = SourceUnavailableError
        cure: str | None = self.link.cure
        problem = self.link.problem
        if isinstance(leaf, SourceError):
            kind, problem, cure = type(leaf), leaf.problem, leaf.cure
        elif problem:
            if self.link.is_nonsense:
                kind, cure = SourceAnswerError, None
            problem += "" if started else " while it was being started"
        elif isinstance(leaf, TimeoutError) and not started:
            problem = f"it did not list its tools within {self.start_timeout:g} s"
            cure = f"{cure}, or raise start_timeout"
        elif isinstance(leaf, MCPError):
            http = isinstance(leaf.data, dict) and leaf.data.get(HTTP_ERROR)
            if isinstance(http, dict) and http.get("unsent"):
                problem = leaf.message
            else:
                kind = SourceAnswerError
                problem, cure = f"it does not answer as an MCP server does: {leaf.message}", None
        else:
            problem = f"{type(leaf).__name__}: {leaf}"
        text = printable(self.clean(f"{problem}{self.link.detail}"), _LONGEST)
        return kind(self.source, text, cure=cure)

    async def _heard(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self.is_stale = True

    async def _check(self, name: str, result: CallToolResult) -> None:
        """Check a structured result; RuntimeError if it does not fit, as the SDK's own check.

        That one matches patterns of the server with `re`, which can take years.
        """
        schema = self._listed.outputs.get(name)
        found = result.structured_content
        if schema is None:
            return
        if found is None:
            raise RuntimeError("its tool promises a structured result, and gives none")
        if isinstance(found, dict):
            try:
                input_check(schema)(found)
            except InputError as exc:
                problem = str(exc).removeprefix("inputs")
                raise RuntimeError(f"its structured result is not as promised: {problem}") from None

    def _decline(self, client: Client) -> None:
        """Take note of what the server asks for and is not given.

        To give the client a callback would promise the server what it does not get.
        """
        session = client.session
        answer = session.dispatch_input_request

        async def noted(ctx: Any, request: Any) -> Any:
            wish = _DECLINED.get(request.method, request.method)
            for notes in self._running:
                note = f"declined: the server asked for {wish}"
                if note not in notes and len(notes) < _NOTES:
                    notes.append(note)
            return await answer(ctx, request)

        session.dispatch_input_request = noted  # type: ignore[method-assign]


def extensions_of(said: Any) -> dict[str, Any]:
    """Return what a server declares beside the capabilities of the protocol; none if too long.

    Under ``extensions`` where the version of the protocol has it (2026-07-28), and under
    ``experimental`` in the others.
    """
    found = {**(said.experimental or {}), **(said.extensions or {})}
    return found if len(json.dumps(found)) <= _MOST_DECLARED else {}


def _leaf(exc: BaseException | None) -> BaseException | None:
    """Return the first plain exception inside groups of them."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
