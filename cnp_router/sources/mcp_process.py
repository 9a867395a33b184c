"""A process that speaks MCP over its standard streams: started, bounded, and surely ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnp_router.exceptions import shown

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client import Transport
    from mcp.shared.message import SessionMessage

__all__ = ["Allowance", "ServerProcess"]

_LAUNCHER = Path(__file__).with_name("mcp_launcher.py")
_CHUNK = 65_536
_STDERR_KEPT = 4_096
_STDERR_LINES = 6
_LINE = 200
# Each request of the server is answered, and waits for that where the server reads nothing.
_REQUEST_WEIGHT = 10
# Messages to the server that wait: so that one that reads nothing does not hold up a cancellation.
_QUEUED = 64


@dataclass
class Allowance:
    """How much may come within some seconds that answers nothing: more is a flood."""

    most_bytes: int
    most_messages: int = 5_000
    seconds: float = 30.0
    n_bytes: int = 0
    n_messages: int = 0
    since: float = field(default_factory=time.monotonic)

    def reset(self) -> None:
        """Begin anew: there was an answer."""
        self.n_bytes = self.n_messages = 0
        self.since = time.monotonic()

    def take(self, n_bytes: int, n_messages: int = 1) -> bool:
        """Return whether as much as this may still come."""
        if time.monotonic() - self.since > self.seconds:
            self.reset()
        self.n_bytes += n_bytes
        self.n_messages += n_messages
        return self.n_bytes <= self.most_bytes and self.n_messages <= self.most_messages


class ServerProcess:
    """The process of a server, as a transport of the SDK.

    Differs from the SDK's own in what it bounds: the length of a line, what comes without being
    asked for, and what is kept of standard error. It runs below `mcp_launcher`, so that nothing of
    it outlives this process.

    Attributes
    ----------
    ended : asyncio.Event
        Set when it is over.
    problem : str
        Why, if that was not this side's wish.
    is_nonsense : bool
        Whether it was what it wrote.
    """

    cure = "run its command by hand to see what is wrong"

    def __init__(
        self,
        program: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None,
        grace: float,
        max_message: int,
        clean: Callable[[str], str] = str,
    ) -> None:
        self.command = (program, *args)
        self.env = env
        self.cwd = cwd
        self.grace = grace
        self.max_message = max_message
        self.clean = clean  # before anything is cut: a part of a secret would not be known as one
        self.ended = asyncio.Event()
        self.problem = ""
        self.is_nonsense = False
        self.stderr = ""
        self._noise = ""
        self._asked: set[str] = set()  # ids of requests without an answer yet

    def transport(self) -> Transport:
        """Return what the SDK's client enters: starts the process, and ends it on leaving."""
        return self._run()

    @property
    def detail(self) -> str:
        """What may explain a problem: what it wrote to standard error, or beside the protocol."""
        text = self.clean(self.stderr)
        lines = [line.strip()[:_LINE] for line in text.splitlines() if line.strip()]
        said = " | ".join(lines[-_STDERR_LINES:])
        if said:
            return f"; on standard error: {said}"
        noise = f"; on standard output, which is for messages: {shown(self._noise)}"
        return noise if self._noise else ""

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[Any]:
        import anyio

        starting = asyncio.create_task(self._start())
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:  # a start that is cancelled would lose the process
            with suppress(OSError):
                await self._stop(await starting)
            raise
        deliver, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, to_send = anyio.create_memory_object_stream[Any](_QUEUED)
        tasks = [
            asyncio.create_task(self._keep_stderr(process)),
            asyncio.create_task(self._read(process, deliver)),
            asyncio.create_task(self._write(process, to_send)),
        ]
        try:
            yield incoming, outgoing
        finally:
            by_itself = self.ended.is_set()
            self.ended.set()
            with anyio.CancelScope(shield=True):
                incoming.close()
                outgoing.close()
                await self._stop(process)
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
                # Nothing public closes pipes that were not read to their ends.
                process._transport.close()  # type: ignore[attr-defined]
                await asyncio.sleep(0)
                deliver.close()
                to_send.close()
            for error in ends:
                if isinstance(error, Exception):
                    raise error
            if by_itself and not self.problem:
                self.problem = _how_it_ended(process.returncode)

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(self.grace)),
            *self.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(self.env),
            cwd=self.cwd,
            start_new_session=True,
        )

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        """Close its input, which ends it and all that it started."""
        assert process.stdin is not None
        process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self.grace + 2):
                await _ended(process)
        if process.returncode is None or process.returncode < 0:  # the launcher did not end all
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await _ended(process)

    async def _read(
        self, process: asyncio.subprocess.Process, deliver: MemoryObjectSendStream[Any]
    ) -> None:
        """Hand on each message, until the output ends or cannot be used."""
        assert process.stdout is not None
        try:
            with deliver:
                problem = await self._messages(process.stdout, deliver)
                self.problem = self.problem or problem
        finally:
            self.ended.set()
        while await process.stdout.read(_CHUNK):  # else it could not end
            pass

    async def _messages(
        self, stdout: asyncio.StreamReader, deliver: MemoryObjectSendStream[Any]
    ) -> str:
        """Hand on what comes; return what was wrong with it, or nothing."""
        import anyio
        from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

        buffer = bytearray()
        allowed = Allowance(self.max_message)
        while chunk := await stdout.read(_CHUNK):
            buffer += chunk
            if len(buffer) > self.max_message + _CHUNK:
                return self._wrong(f"a message of more than {self.max_message:,} bytes")
            if b"\n" not in chunk:
                continue
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                message = _parsed(bytes(line)) if line.strip() else None
                asks = message is not None and isinstance(message.message, JSONRPCRequest)
                if not allowed.take(len(line), _REQUEST_WEIGHT if asks else 1):
                    return self._wrong("it floods its output with what nobody asked for")
                if message is None and line.strip():
                    self._noise = (
                        self._noise
                        or self.clean(line[:_STDERR_KEPT].decode(errors="replace"))[:_LINE]
                    )
                    if b'"jsonrpc"' in line:  # and not something that was printed by mistake
                        return self._wrong(f"a message that is none, {shown(self._noise)}")
                if message is None:
                    continue
                if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                    self._answered(message.message.id, allowed)
                try:
                    await deliver.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return ""
        return ""

    def _answered(self, request: object, allowed: Allowance) -> None:
        if str(request) in self._asked:
            self._asked.discard(str(request))
            allowed.reset()

    def _wrong(self, problem: str) -> str:
        self.is_nonsense = True
        return problem

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        to_send: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        assert process.stdin is not None
        async for each in to_send:
            if isinstance(each.message, JSONRPCRequest):
                self._asked.add(str(each.message.id))
            elif isinstance(each.message, JSONRPCNotification):  # perhaps that it was given up
                self._asked.discard(str((each.message.params or {}).get("requestId")))
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            try:
                await process.stdin.drain()
            except OSError:  # it has gone: the reader learns why
                return

    async def _keep_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        kept = b""
        while chunk := await process.stderr.read(_CHUNK):
            kept = (kept + chunk)[-_STDERR_KEPT:]
            self.stderr = kept.decode(errors="replace")


def _parsed(line: bytes) -> SessionMessage | None:
    """Return the message that a line is, or None."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the process, and not for all who hold its pipes too, as `Process.wait` does."""
    while process.returncode is None:
        await asyncio.sleep(0.01)


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "the process could not be ended"
    if code > 128 and code - 128 in signal.valid_signals():
        return f"the process was ended by {signal.Signals(code - 128).name}"
    if code < 0:
        return f"the process was ended by {signal.Signals(-code).name}"
    return f"the process ended with code {code}"
