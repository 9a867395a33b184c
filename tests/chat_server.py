"""A server on this machine that speaks OpenAI's chat completions, by a script with faults.

It lives in the event loop of its test, and ends with it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from cnp_router.llm import OpenAIChatModel
from cnp_router.llm.switch import SCOPE_VARIABLE

KEY = "sk-test-0123456789abcdef"
LIMIT = 60.0  # seconds that any test may take


@dataclass(frozen=True)
class Reply:
    """One HTTP response, or what goes wrong instead of it."""

    body: Any = None  # sent as JSON, unless it is bytes, or an iterator of bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    fault: str | None = None  # "hang", "reset", "cut", "drip"


HANG = Reply(fault="hang")
RESET = Reply(fault="reset")
CUT = Reply({"choices": []}, fault="cut")
DRIP = Reply({"choices": []}, fault="drip")


def completion(
    content: Any,
    *,
    usage: Any = (11, 7),
    finish: str = "stop",
    seconds: float = 0.0,
    **message: Any,
) -> Reply:
    """Return a well-formed answer; `content` that is not a string is written as JSON."""
    text = content if isinstance(content, str | None) else json.dumps(content)
    body: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion",
        "created": 0,
        "model": "served-model",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
    }
    if isinstance(usage, tuple):
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    if usage is not None:
        body["usage"] = usage
    return Reply(body, seconds=seconds)


def embeddings(vectors: Iterable[Iterable[float]]) -> Reply:
    """Return the vectors of some texts, the last first: their index says whose each is."""
    data = [{"object": "embedding", "index": i, "embedding": [*v]} for i, v in enumerate(vectors)]
    return Reply({"object": "list", "model": "served-model", "data": data[::-1]})


def refusal(status: int, message: str, *, code: Any = None, **headers: str) -> Reply:
    """Return an error in OpenAI's form."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Reply({"error": error}, status, {k.replace("_", "-"): v for k, v in headers.items()})


class ChatServer:
    """Gives the replies in order, or those of a function of the request's body.

    Of a request for the list of its models the body is None.
    """

    def __init__(self, replies: Iterable[Reply] | Callable[[dict[str, Any]], Reply]) -> None:
        self._reply = replies if callable(replies) else self._next
        self._replies = [] if callable(replies) else list(replies)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.connections = 0
        self.under_way = 0
        self.most_under_way = 0
        self.arrived = asyncio.Event()

    def model(self, name: str | None = None, **options: Any) -> OpenAIChatModel:
        """Return a model that asks this server."""
        options = {"api_key": KEY, "timeout": 5.0, "max_retries": 0, **options}
        return OpenAIChatModel(name, base_url=self.url, **options)

    def assert_done(self) -> None:
        """Raise AssertionError unless all replies were asked for, and every connection closed."""
        assert self._replies == [], "the server has replies that nobody asked for"
        assert self.connections == 0, "connections are still open"

    async def __aenter__(self) -> ChatServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for _ in range(100):  # the end of a connection takes a turn of the loop to be seen
            if not self.connections:
                break
            await asyncio.sleep(0.01)
        if error[0] is None:
            self.assert_done()

    def _next(self, body: dict[str, Any]) -> Reply:
        if not self._replies:
            return refusal(418, "the script of the test has no more replies")
        return self._replies.pop(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self.connections -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        if head[0].startswith("GET /v1/models "):
            body = None  # asked for the list of its models
        else:
            assert head[0].startswith(("POST /v1/chat/completions", "POST /v1/embeddings "))
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.paths.append(head[0].split()[1])
        self.requests.append(body)
        self.headers.append(headers)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.arrived.set()
        try:
            return await self._write(self._reply(body), reader, writer)
        finally:
            self.under_way -= 1

    async def _write(
        self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if reply.fault == "hang":
            await reader.read()  # until the client has gone
            return False
        if reply.fault == "reset":
            writer.transport.abort()
            return False
        await asyncio.sleep(reply.seconds)
        body = reply.body
        if isinstance(body, Iterator):
            chunks, headers = body, {"Connection": "close"}
        else:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            chunks, headers = iter([raw]), {"Content-Length": str(len(raw))}
        headers = {"Content-Type": "application/json", **headers, **reply.headers}
        lines = [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([f"HTTP/1.1 {reply.status} -", *lines, "", ""]).encode())
        for chunk in chunks:
            if reply.fault == "drip":
                for byte in chunk:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.05)
            writer.write(chunk[:5] if reply.fault == "cut" else chunk)
            await writer.drain()
        return reply.fault != "cut" and "Connection" not in headers


@contextmanager
def in_a_thread(
    replies: Iterable[Reply] | Callable[[dict[str, Any]], Reply],
) -> Iterator[ChatServer]:
    """Run a server in a thread of its own, for those who block while they wait for it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def done(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(LIMIT)

    server = ChatServer(replies)
    try:
        done(server.__aenter__())
        try:
            yield server
        except BaseException as exc:
            done(server.__aexit__(type(exc)))
            raise
        done(server.__aexit__(None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()


def stay_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away key, server and proxy of whoever runs the tests, and allow this machine only."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(SCOPE_VARIABLE, "loopback")


def run(main: Coroutine[Any, Any, Any] | Awaitable[Any], *, limit: float = LIMIT) -> Any:
    """Run a test's coroutine, bounded, and see that it leaves no task behind."""

    async def bounded() -> Any:
        async with asyncio.timeout(limit):
            result = await main
        for _ in range(100):
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if not others:
                break
            await asyncio.sleep(0.01)
        assert not others, f"tasks are still running: {others}"
        return result

    return asyncio.run(bounded())
