"""What a request has to pass: where it comes from, how large it is, how long it takes."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress

import pytest
from http_serving import Answer, Tools, home, quiet, run, served

from cnp_router.exceptions import InputError
from cnp_router.serving import Client, Clients
from cnp_router.serving.http_limits import ACCESS_LOG, Guard, Limits, is_loopback

DIG = {"name": "home__dig", "inputs": {"metres": 2}}


class TestWhere:
    @pytest.mark.parametrize(
        ("host", "is_it"),
        [
            ("localhost", True),
            ("LOCALHOST:8000", True),
            ("127.0.0.1:1", True),
            ("127.1.2.3", True),
            ("[::1]:8000", True),
            ("", False),
            ("example.com", False),
            ("localhost.example.com", False),
            ("127.0.0.1.example.com", False),
            ("127.0.0.1@example.com", False),
            ("0.0.0.0:8000", False),
            ("localhost:8000\n", False),
        ],
    )
    def test_loopback(self, host, is_it):
        assert is_loopback(host) is is_it

    @pytest.mark.parametrize("path", ["/", "/healthz", "/v1/tools", "/metrics", "/mcp"])
    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "rebound.example.com"},
            {"host": None},
            {"origin": "http://example.com"},
            {"origin": "null"},
            {"origin": "http://localhost.example.com"},
            {"origin": "http://["},
            {"origin": "http://[localhost]"},
        ],
    )
    def test_a_page_of_another_place_is_refused(self, path, headers):
        async def main():
            async with home() as (browser, _):
                return await browser.get(path, **headers)

        answer = run(main())
        # Without a Host it is no HTTP/1.1 at all.
        assert answer.error in ((403, "forbidden"), (400, "invalid"))

    def test_a_page_of_this_machine_may_ask(self):
        async def main():
            async with home() as (browser, _):
                return await browser.get("/v1/tools", origin="http://localhost:3000")

        assert run(main()).status == 200

    def test_with_tokens_any_host_is_fine(self):
        async def main():
            async with home(Clients.one("token-of-all")) as (browser, _):
                held = {"host": "tools.example.com", "origin": "https://tools.example.com"}
                return await browser.get("/v1/tools", authorization="bearer token-of-all", **held)

        assert run(main()).status == 200

    def test_another_scheme_is_no_token(self):
        async def main():
            async with home(Clients.one("token-of-all")) as (browser, _):
                return await browser.get("/v1/tools", authorization="Basic token-of-all")

        answer = run(main())
        assert answer.error == (401, "unauthorized")
        assert "a token is needed" in answer.json["error"]["message"]


class TestBodies:
    def chunked(self, *chunks):
        async def main():
            async with home(limits=Limits(max_body=1000)) as (browser, _):
                head = (
                    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                said = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
                return Answer(await browser.raw(head + said + b"0\r\n\r\n"))

        return run(main())

    def test_a_chunked_body(self):
        assert self.chunked(b'{"query"', b': "rain"}').status == 200

    def test_a_chunked_body_that_is_too_large(self):
        answer = self.chunked(*[b" " * 400] * 3)
        assert answer.error == (413, "too_large")
        assert "1,000 bytes" in answer.json["error"]["message"]

    def test_a_body_that_says_it_is_too_large_is_not_read(self):
        async def main():
            async with home(limits=Limits(max_body=1000)) as (browser, _):
                reader, writer = await asyncio.open_connection("127.0.0.1", browser.port)
                writer.write(
                    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n"
                )
                answer = await reader.readuntil(b"\r\n\r\n")  # although nothing of it was sent
                writer.close()
                return answer

        assert run(main()).startswith(b"HTTP/1.1 413 ")

    def test_mcp_has_the_same_limit(self):
        async def main():
            async with home(limits=Limits(max_body=1000)) as (browser, _):
                return await browser.post("/mcp", {"jsonrpc": "2.0", "id": "x" * 1000})

        assert run(main()).error == (413, "too_large")

    def test_a_slow_body(self):
        async def main():
            async with home(limits=Limits(body_timeout=0.2)) as (browser, _):
                return Answer(
                    await browser.raw(
                        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
                        b"Content-Type: application/json\r\n\r\n{"
                    )
                )

        assert run(main()).error == (408, "body_timeout")

    @pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
    def test_a_head_that_does_not_come(self, begun):
        async def main():
            async with home(limits=Limits(body_timeout=0.2)) as (browser, _):
                return Answer(await browser.raw(begun))

        assert run(main()).error == (408, "late")

    def test_a_head_that_drips(self):
        """Each byte is no reason to wait longer."""

        async def main():
            async with home(limits=Limits(body_timeout=0.3)) as (browser, _):
                reader, writer = await asyncio.open_connection("127.0.0.1", browser.port)
                reading = asyncio.create_task(reader.read())
                while not reading.done():
                    writer.write(b"G")
                    await asyncio.sleep(0.05)
                writer.close()
                # The loop ends only when the server closes. What it says then may be lost: where a
                # byte comes after its last look, the system resets the connection.
                with suppress(ConnectionError):
                    assert Answer(await reading).error == (408, "late")

        run(main())

    @pytest.mark.parametrize("data", [b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\n: a\r\n\r\n"])
    def test_what_is_not_http(self, data):
        async def main():
            async with home() as (browser, _):
                return Answer(await browser.raw(data))

        assert run(main()).error == (400, "invalid")

    def test_a_client_that_goes_before_its_body_is_sent(self, caplog):
        async def main():
            async with home() as (browser, _):
                _, writer = await asyncio.open_connection("127.0.0.1", browser.port)
                writer.write(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n")
                writer.write(b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
                await writer.drain()
                writer.close()
                return await browser.get("/healthz")

        with caplog.at_level(logging.WARNING):
            assert run(main()).status == 200
        assert caplog.text == ""


class TestBusy:
    def test_too_many_at_once(self):
        tools = Tools()

        async def main():
            async with home(limits=Limits(max_concurrent=1), tools=tools) as (browser, _):
                first = asyncio.create_task(browser.post("/v1/call", DIG))
                await tools.begun.wait()
                busy = await browser.get("/v1/tools")
                watched = [await browser.get(path) for path in ("/healthz", "/metrics")]
                tools.release.set()
                return busy, watched, await first, await browser.get("/v1/tools")

        busy, watched, first, later = run(main())
        assert busy.error == (503, "busy")
        assert busy.headers["retry-after"] == "1"
        assert [answer.status for answer in watched] == [200, 200]
        assert watched[0].json["in_flight"] == 1
        assert first.json["result"]["text"] == "2 m"
        assert later.status == 200

    def test_too_many_connections(self):
        """One that asks nothing makes room; one that is being answered does not."""
        tools = Tools()

        async def main():
            async with home(limits=Limits(max_connections=1), tools=tools) as (browser, _):
                reader, writer = await asyncio.open_connection("127.0.0.1", browser.port)
                await asyncio.sleep(0.05)
                first = asyncio.create_task(browser.post("/v1/call", DIG))
                closed = await reader.read()
                writer.close()
                await tools.begun.wait()
                second = Answer(await browser.raw(b""))
                tools.release.set()
                return closed, await first, second, await browser.get("/healthz")

        closed, first, second, third = run(main())
        assert closed == b""
        assert first.json["result"]["text"] == "2 m"
        assert second.error == (503, "busy")
        assert second.headers["retry-after"] == "1"
        assert third.status == 200

    def test_a_flood(self):
        """Whoever is answered at all is answered properly, and afterwards all is as before."""

        async def main():
            async with home(limits=Limits(max_concurrent=4)) as (browser, _):
                asking = (browser.post("/v1/search", {"query": "rain"}) for _ in range(100))
                answers = await asyncio.gather(*asking)
                return answers, await browser.get("/healthz")

        answers, health = run(main())
        assert {answer.status for answer in answers} <= {200, 503}
        assert any(answer.status == 200 for answer in answers)
        assert all(a.error == (503, "busy") for a in answers if a.status == 503)
        assert health.json["in_flight"] == 0

    def test_a_call_that_takes_too_long(self):
        tools = Tools()

        async def main():
            async with home(limits=Limits(timeout=1.5), tools=tools) as (browser, gateway):
                answer = await browser.post("/v1/call", DIG)
                return answer, gateway.status()["in_flight"]

        answer, in_flight = run(main())
        assert answer.error == (504, "timeout")
        assert (tools.ended, in_flight) == (["cancelled"], 0)

    @pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
    def test_a_call_over_mcp_that_takes_too_long(self, era):
        tools = Tools()
        params = {"name": "call_tool", "arguments": DIG}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp_protocol_version": era,
        }
        if era == "2026-07-28":
            headers |= {"mcp_method": "tools/call", "mcp_name": "call_tool"}
            about = "io.modelcontextprotocol/"
            params["_meta"] = {
                f"{about}protocolVersion": era,
                f"{about}clientInfo": {"name": "test", "version": "1"},
                f"{about}clientCapabilities": {},
            }
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

        async def main():
            async with home(limits=Limits(timeout=1.5), tools=tools) as (browser, gateway):
                answer = await browser.post("/mcp", rpc, **headers)
                return answer, gateway.status()["in_flight"]

        answer, in_flight = run(main())
        assert b"no answer in 1.5 s" in answer.body
        assert (tools.ended, in_flight) == (["cancelled"], 0)
        if era == "2026-07-28":
            assert answer.error == (504, "timeout")
        else:  # a stream that has begun is ended by an error within it
            assert answer.status in (200, 504) and b'"error"' in answer.body

    @pytest.mark.parametrize("path", ["/v1/call", "/mcp"])
    def test_a_client_that_goes_cancels_its_call(self, path):
        tools = Tools()
        params = {"name": "call_tool", "arguments": DIG}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = json.dumps(DIG if path == "/v1/call" else rpc).encode()

        async def main():
            async with home(tools=tools) as (browser, gateway):
                _, writer = await asyncio.open_connection("127.0.0.1", browser.port)
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
                accept = "Accept: application/json, text/event-stream\r\n"
                writer.write(f"{head}{accept}Content-Type: application/json\r\n\r\n".encode())
                writer.write(body)
                await tools.begun.wait()
                writer.close()
                while gateway.status()["in_flight"]:
                    await asyncio.sleep(0.01)

        run(main())
        assert tools.ended == ["cancelled"]

    def test_at_the_end_what_runs_is_finished(self):
        tools = Tools()

        async def main():
            async with home(tools=tools, grace=5) as (browser, _):
                call = asyncio.create_task(browser.post("/v1/call", DIG))
                await tools.begun.wait()
                asyncio.get_running_loop().call_later(0.2, tools.release.set)
            return await call

        assert run(main()).json["result"]["text"] == "2 m"

    def test_after_the_grace_it_is_cancelled(self, caplog):
        tools = Tools()

        async def main():
            async with home(tools=tools, grace=0.1) as (browser, _):
                call = asyncio.create_task(browser.post("/v1/call", DIG))
                await tools.begun.wait()
            return await call

        answer = run(main())
        assert answer.error == (503, "ending")
        assert tools.ended == ["cancelled"]
        assert "Traceback" not in caplog.text


class TestGuard:
    def test_a_stream_of_events_has_no_end_of_its_own(self):
        async def app(scope, receive, send):
            if scope["type"] == "http":
                headers = [(b"content-type", b"text/event-stream")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await asyncio.sleep(0.4)
                await send({"type": "http.response.body", "body": b"data: 1\n\n"})

        async def main():
            limits = Limits(timeout=0.2)
            async with served(quiet(Guard(app, limits=limits)), limits) as browser:
                return await browser.get("/")

        assert run(main()).body == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"

    def test_what_was_begun_is_not_answered_twice(self, caplog):
        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise ZeroDivisionError

        async def main():
            async with served(quiet(Guard(app))) as browser:
                return await browser.get("/")

        assert run(main()).status == 200
        assert "ZeroDivisionError" in caplog.text

    def test_the_log_of_a_fault_is_one_line(self, caplog):
        async def app(scope, receive, send):
            raise ZeroDivisionError

        async def main():
            async with served(quiet(Guard(app))) as browser:
                return await browser.get("/%0aforged%1b[31m")

        assert run(main()).error == (500, "internal")
        (said,) = [r.getMessage() for r in caplog.records if "cannot be answered" in r.message]
        assert said.startswith(r"GET / forged\x1b[31m cannot be answered: ZeroDivisionError")
        assert "\n" not in said

    def test_a_websocket_is_closed(self):
        sent = []

        async def receive():
            return {"type": "websocket.connect"}

        async def send(message):
            sent.append(message)

        asyncio.run(Guard(None)({"type": "websocket"}, receive, send))
        assert sent == [{"type": "websocket.close"}]

    def test_the_log_names_who_and_what_and_no_secret(self, caplog):
        clients = Clients({"al\nice": "alice-token"}, [Client("al\nice")])

        async def main():
            async with home(clients) as (browser, _):
                held = {"authorization": "Bearer alice-token"}
                await browser.get("/v1/tools?limit=1&secret=query", **held)
                await browser.post("/v1/search", {"query": "secret body"}, **held)
                await browser.get("/%1b[31m/alice", authorization="Bearer wrong-token")

        with caplog.at_level(logging.INFO, logger=ACCESS_LOG):
            run(main())
        lines = [r.getMessage() for r in caplog.records if r.name == ACCESS_LOG]
        starts = [line.rpartition(" ")[0].rpartition(" ")[0] for line in lines]
        assert starts == [
            "al ice GET /v1/tools 200",
            "al ice POST /v1/search 200",
            r"- GET /\x1b[31m/alice 401",
        ]
        assert not any(word in caplog.text for word in ("secret", "token"))

    @pytest.mark.parametrize(
        "limits",
        [
            {"max_body": 0},
            {"max_concurrent": 1.5},
            {"timeout": 0},
            {"body_timeout": float("nan")},
            {"max_connections": "many"},
        ],
    )
    def test_limits_that_are_none(self, limits):
        with pytest.raises(InputError, match=next(iter(limits))):
            Limits(**limits)
