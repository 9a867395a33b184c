"""A model server of a few lines, in a process of its own: each answer takes a fixed time.

::

    python benchmarks/stub_server.py SECONDS

It prints its port, lists one model, answers every chat completion with a refusal to bid, and ends
with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys

__all__ = ["ANSWER", "serve"]

ANSWER = {"functions": [], "categories": [], "apis": [], "grounds": ["None of my APIs does that."]}


def _completion() -> bytes:
    message = {"role": "assistant", "content": json.dumps(ANSWER)}
    return _response(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 0,
            "model": "stub",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 500, "completion_tokens": 25},
        }
    )


def _response(said: object) -> bytes:
    body = json.dumps(said).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


_LIST = _response({"object": "list", "data": [{"id": "stub", "object": "model"}]})


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time, as clients of HTTP/1.1 send them."""

    def __init__(self, seconds: float, response: bytes) -> None:
        self.seconds = seconds
        self.response = response
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer, a fixed time after the request is complete."""
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        if not separator:
            return
        if head.startswith(b"GET "):
            self.received = b""
            self.transport.write(_LIST)
            return
        fields = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
        length = next(int(value) for name, _, value in fields if name == b"content-length")
        if len(body) >= length:
            self.received = b""
            asyncio.get_running_loop().call_later(self.seconds, self._answer)

    def _answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self.response)


async def serve(seconds: float) -> None:
    """Serve on a free port of this machine until standard input ends."""
    loop = asyncio.get_running_loop()
    response = _completion()
    server = await loop.create_server(lambda: _Connection(seconds, response), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
