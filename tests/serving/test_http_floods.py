"""Clients that send half a request, do not read or come in numbers: the others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest
from http_serving import Answer, home, quiet, run, served

from cnp_router.serving import Clients
from cnp_router.serving.http_limits import Guard, Limits


@pytest.fixture
def deaf_client():
    """Connect, send a request as often as the server takes it, and read nothing."""
    with contextlib.ExitStack() as opened:  # closed also where a test fails

        async def deaf_client(port, path, token="none-at-all", times=5000):
            sock = opened.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, ("127.0.0.1", port))
            head = (
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await loop.sock_sendall(sock, head.encode() * times)
            return sock

        yield deaf_client


class TestPlaces:
    """Who is among those that are answered at once."""

    @pytest.mark.parametrize("begun", ["", "x" * 400], ids=["none", "half"])
    @pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/v1/search"])
    def test_half_a_request_takes_no_place_from_one_with_a_token(self, path, begun):
        """Without a token no body is read: the answer comes, and the connection is closed."""

        async def main():
            limits = Limits(max_concurrent=1, body_timeout=5)
            async with home(Clients.one("token-of-all"), limits) as (browser, _):
                halves = [await asyncio.open_connection("127.0.0.1", browser.port) for _ in "123"]
                head = f"GET {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n"
                heads = []
                for reader, writer in halves:
                    writer.write((head + begun).encode())
                    heads.append(await reader.readuntil(b"\r\n\r\n"))
                answer = await browser.get("/v1/tools", authorization="Bearer token-of-all")
                for _, writer in halves:
                    writer.close()
                return heads, answer

        heads, answer = run(main())
        status = b"200" if path in ("/", "/healthz") else b"401"
        assert {head.split(b" ")[1] for head in heads} == {status}
        if status == b"200":
            assert all(b"connection: close" in head.lower() for head in heads)
        assert answer.status == 200

    def test_what_is_small_takes_no_body(self):
        async def main():
            async with home(limits=Limits(body_timeout=5)) as (browser, _):
                head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n"
                return Answer(await browser.raw(head + b"x"))

        assert run(main()).status == 200

    @pytest.mark.parametrize("token", ["none-at-all", "token-of-all"])
    def test_one_that_does_not_read_its_answers_takes_no_place(self, deaf_client, token):
        async def main():
            limits = Limits(max_concurrent=2)
            async with home(Clients.one("token-of-all"), limits) as (browser, _):
                connections = browser.server.server_state.connections
                deaf = [await deaf_client(browser.port, "/v1/tools", token) for _ in range(3)]
                while not all(each.flow.write_paused for each in connections):
                    await asyncio.sleep(0.01)
                answer = await browser.get("/v1/tools", authorization="Bearer token-of-all")
                for sock in deaf:
                    sock.close()
                return answer

        assert run(main()).status == 200


class TestUnread:
    """Clients that ask, and do not read what they are sent."""

    @pytest.mark.parametrize("path", ["/", "/v1/tools"])
    def test_they_are_closed_and_others_are_answered(self, deaf_client, path, caplog):
        limits = Limits(max_connections=4, max_concurrent=4, timeout=1.0, body_timeout=2.0)

        async def main():
            async with home(Clients.one("token-of-all"), limits) as (browser, _):
                connections = browser.server.server_state.connections
                deaf = await asyncio.gather(*(deaf_client(browser.port, path) for _ in range(4)))
                while not all(each.flow.write_paused for each in connections):
                    await asyncio.sleep(0.01)
                # No client was turned away until now, and the one that comes is answered.
                assert len(connections) == 4
                answer = await browser.get("/v1/tools", authorization="Bearer token-of-all")
                while connections or browser.server.server_state.tasks:
                    await asyncio.sleep(0.01)
                for sock in deaf:
                    sock.close()
                return answer

        assert run(main()).status == 200
        assert "without" not in caplog.text

    def test_at_the_end_they_are_waited_for_as_long_as_others(self, deaf_client, caplog):
        async def main():
            limits = Limits(body_timeout=20)
            async with home(Clients.one("token-of-all"), limits, grace=0.2) as (browser, _):
                connections = browser.server.server_state.connections
                deaf = await deaf_client(browser.port, "/")
                while not all(each.flow.write_paused for each in connections):
                    await asyncio.sleep(0.01)
                began = time.monotonic()
            took = time.monotonic() - began
            while browser.server.server_state.tasks:
                await asyncio.sleep(0.01)
            deaf.close()
            return took

        assert run(main()) < 10
        assert "Traceback" not in caplog.text

    def test_one_that_reads_slowly_gets_all(self, deaf_client):
        body = b"x" * 600_000

        async def app(scope, receive, send):
            headers = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        async def main():
            limits = Limits(body_timeout=1.0)
            async with served(quiet(Guard(app, limits=limits)), limits) as browser:
                sock = await deaf_client(browser.port, "/", times=1)
                loop, read, began = asyncio.get_running_loop(), 0, time.monotonic()
                while read < len(body):
                    await asyncio.sleep(0.03)
                    got = await loop.sock_recv(sock, 8_192)
                    assert got, f"closed after {read:,} bytes"
                    read += len(got)
                sock.close()
                return time.monotonic() - began

        assert run(main()) > 2.0
