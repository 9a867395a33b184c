"""A real Redis server on this machine, with nothing on disk, ended after use."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unpacked import Unpacked

_REDIS = Unpacked("redis", "usr/bin/redis-server", "redis-server")
_SECONDS = 10.0


def redis_binary() -> str | None:
    """Return where the server is; None if it is not installed."""
    return _REDIS.binary()


class RedisServer:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(timeout=_SECONDS)


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """Start a server on a free port of 127.0.0.1; without a binary the test is skipped."""
    binary = redis_binary()
    if binary is None:
        pytest.skip("there is no redis-server (make unpacks one from Debian's packages)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(
        [binary, *settings],
        env=_REDIS.environment(),
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = RedisServer(process, port)
    try:
        _await_answer(server)
        yield server
    finally:
        server.stop()


def _await_answer(server: RedisServer) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and server.process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("redis-server did not start")
