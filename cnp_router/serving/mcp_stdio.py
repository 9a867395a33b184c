"""An MCP server on stdin and stdout, which hold the protocol and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, BinaryIO

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from cnp_router.serving.clients import Client
from cnp_router.serving.gateway import Gateway
from cnp_router.serving.mcp_handlers import server_of

__all__ = ["serve_stdio"]

_LONGEST = 4 << 20  # bytes of a message, as over HTTP
_MOST_WAITING = 100  # messages read and not looked at yet
_MOST_OPEN = 1_000  # requests that are being answered
_BUSY = ErrorData(code=-32000, message=f"{_MOST_OPEN:,} requests are being answered (ask again)")
_GRACE = 1.0  # seconds: for calls under way when stdin ends, and for a client that reads nothing
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve_stdio(gateway: Gateway, client: Client) -> None:
    """Serve a gateway to the one client on stdin and stdout, until stdin ends.

    SIGTERM, SIGINT and a client that no longer reads end it as well; calls under way are cancelled.
    While it serves, whatever is printed in this process, or by programs that it starts, goes to
    stderr.

    Parameters
    ----------
    gateway : Gateway
        Entered and left by the caller.
    client : Client
        Who is at the other end.
    """
    server = server_of(gateway, client=lambda _: client)
    async with _streams() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def _streams() -> AsyncIterator[tuple[Any, Any]]:
    """Give the messages of stdin, and take those for stdout, until one of the two ends."""
    with _own_descriptors() as (stdin, stdout):
        wire = _Wire(_lines(stdin), _writer(stdout))
        reading, answering = asyncio.create_task(wire.read()), asyncio.create_task(wire.answer())
        answering.add_done_callback(lambda _: reading.cancel())
        try:
            with _signals(reading.cancel):
                yield wire.incoming, wire.outgoing
        finally:
            reading.cancel()
            wire.outgoing.close()
            await asyncio.wait({answering}, timeout=_GRACE)
            answering.cancel()
            ended = await asyncio.gather(reading, answering, return_exceptions=True)
            wire.close()
        for each in ended:
            if isinstance(each, Exception) and not isinstance(each, OSError):
                raise each


class _Wire:
    """The messages of one client, to and fro, and which of its requests have no answer yet."""

    def __init__(
        self, lines: AsyncIterator[bytes], write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self._lines, self._write = lines, write
        self._into, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._out = anyio.create_memory_object_stream[SessionMessage](0)
        self._open: set[Any] = set()
        self._answered = asyncio.Event()

    async def read(self) -> None:
        """Pass on what comes; after the last of it, wait a little for what is being answered."""
        async with self._into:
            async for line in self._lines:
                await self._take(line)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    while self._open:
                        self._answered.clear()
                        await self._answered.wait()

    async def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            await self._refuse(None, _problem(line))
            return
        if isinstance(message, JSONRPCRequest):
            if len(self._open) >= _MOST_OPEN:
                await self._refuse(message.id, _BUSY)
                return
            self._open.add(message.id)
        elif (
            isinstance(message, JSONRPCNotification)
            and message.method == "notifications/cancelled"  # such a request gets no answer
        ):
            self._open.discard((message.params or {}).get("requestId"))
        await self._into.send(SessionMessage(message))

    async def _refuse(self, id_: Any, error: ErrorData) -> None:
        answer = JSONRPCError(jsonrpc="2.0", id=id_, error=error)
        await self.outgoing.send(SessionMessage(answer))

    async def answer(self) -> None:
        """Write what is to be said; OSError where nobody reads it."""
        async with self._out:
            async for each in self._out:
                message = each.message
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._open.discard(message.id)
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._write(text.encode() + b"\n")
                self._answered.set()

    def close(self) -> None:
        for stream in (self._into, self.incoming, self.outgoing, self._out):
            stream.close()


def _problem(line: bytes) -> ErrorData:
    """Return what is wrong with a line that is no message."""
    if len(line) >= _LONGEST:
        return ErrorData(code=INVALID_REQUEST, message=f"a message of over {_LONGEST:,} bytes")
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return ErrorData(code=PARSE_ERROR, message="a line that is not JSON")
    return ErrorData(code=INVALID_REQUEST, message="a line that is not one message of JSON-RPC")


async def _lines(stdin: BinaryIO) -> AsyncIterator[bytes]:
    """Read lines in a thread that keeps nobody waiting: a read cannot be cancelled."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(_MOST_WAITING)

    def read() -> None:
        line = b"..."
        while line:
            room.acquire()
            try:
                line = rest = stdin.readline(_LONGEST)
                while len(rest) == _LONGEST and not rest.endswith(b"\n"):
                    rest = stdin.readline(_LONGEST)
            except OSError:  # as good as its end
                line = b""
            try:
                loop.call_soon_threadsafe(waiting.put_nowait, line)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while line := await waiting.get():
        room.release()
        if line.strip():
            yield line


def _writer(stdout: int) -> Callable[[bytes], Awaitable[None]]:
    """Return what writes in a thread that keeps nobody waiting; OSError if nobody reads."""
    loop = asyncio.get_running_loop()
    todo: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()

    def end(done: asyncio.Future[None], error: OSError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def work() -> None:
        while True:
            data, done = todo.get()
            error = None
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(stdout, left) :]
            except OSError as exc:
                error = exc
            try:
                loop.call_soon_threadsafe(end, done, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    threading.Thread(target=work, name="stdout", daemon=True).start()

    async def write(data: bytes) -> None:
        done: asyncio.Future[None] = loop.create_future()
        todo.put((data, done))
        await done

    return write


@contextmanager
def _own_descriptors() -> Iterator[tuple[BinaryIO, int]]:
    """Keep stdin and stdout for the protocol: what is printed goes to stderr meanwhile."""
    sys.stdout.flush()
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            # They stay open: a thread may be reading, and another file must not get its number.
            yield open(stdin, "rb", closefd=False), stdout  # noqa: SIM115
    finally:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)


@contextmanager
def _signals(stop: Callable[[], object]) -> Iterator[None]:
    """Stop on a signal, where signals can be handled: not in a thread, and not on Windows."""
    loop = asyncio.get_running_loop()
    handled = []
    for each in _SIGNALS:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(each, stop)
            handled.append(each)
    try:
        yield
    finally:
        for each in handled:
            loop.remove_signal_handler(each)
