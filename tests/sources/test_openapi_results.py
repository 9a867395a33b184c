"""What comes back of a call, and whatever can go wrong on the way."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib

import openapi_documents as documents
import pytest
from chat_server import run, stay_on_this_machine
from validating_server import Reply, ValidatingServer

from cnp_router.sources.openapi_source import OpenApiSource
from cnp_router.sources.source import Call

DOCUMENT = documents.document(
    {
        "/it": {
            "get": documents.operation("look", "Look at it"),
            "post": documents.operation("change", "Change it"),
            "head": documents.operation("ask", "Ask for it"),
        }
    }
)


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    stay_on_this_machine(monkeypatch)


async def get(reply, *, tool="look", timeout=5.0, times=1, **options):
    async with (
        ValidatingServer(DOCUMENT, reply=lambda _: reply) as server,
        OpenApiSource("it", DOCUMENT, base_url=f"{server.url}/v1", **options) as source,
    ):
        for _ in range(times):
            result = await source.call(Call(api=f"it__{tool}", timeout=timeout))
    return result


def answer(body, media_type="", **fields):
    headers = {"Content-Type": media_type} | fields.pop("headers", {})
    options = {key: fields.pop(key) for key in ("status", "fault") if key in fields}
    return run(get(Reply(body, headers=headers, **options), **fields))


def test_json_is_structure_and_text():
    result = run(get(Reply({"a": [1, None, "ü"]})))
    assert result.structured == {"a": [1, None, "ü"]}
    assert result.data == result.structured
    assert '"a"' in result.text
    assert result.n_bytes == len(result.text.encode())
    assert result.seconds > 0


@pytest.mark.parametrize("media_type", ["application/problem+json", "text/json; charset=utf-8"])
def test_other_names_of_json(media_type):
    assert answer(b'{"a": 1}', media_type).structured == {"a": 1}


@pytest.mark.parametrize(
    ("body", "media_type", "text"),
    [
        ("schön".encode(), "text/plain", "schön"),
        ("schön".encode("latin-1"), "text/plain; charset=ISO-8859-1", "schön"),
        ("schön".encode("latin-1"), "text/plain", "sch\ufffdn"),
        (b"a,b", "text/csv; charset=none-such", "a,b"),
        (b"ab", "text/plain; charset=rot13", "ab"),
        (b"<a/>", "application/atom+xml", "<a/>"),
        (b"plain", "", "plain"),
        (b"", "application/json", ""),
    ],
)
def test_text(body, media_type, text):
    result = answer(body, media_type)
    assert result.is_done
    assert (result.text, result.structured, result.attachments) == (text, None, ())


@pytest.mark.parametrize(
    ("body", "media_type", "kept"),
    [
        (b"\x89PNG\0", "image/png", "image/png"),
        (b"\0\1\2", "", "application/octet-stream"),
        (b"\xff\xfe", "", "application/octet-stream"),
        (b"%PDF", "application/pdf; v=1", "application/pdf"),
    ],
)
def test_bytes_are_an_attachment(body, media_type, kept):
    (attachment,) = answer(body, media_type).attachments
    assert (attachment.media_type, attachment.data) == (kept, body)


@pytest.mark.parametrize(
    "body", [b"{", b"<html>", b"NaN", b'"\\ud800"', b"[" * 100_000, b"\xff", b"1" * 5000]
)
def test_json_that_is_none_is_unusable_and_its_text_is_kept(body):
    result = answer(body, "application/json")
    assert result.failure.kind == "unusable"
    assert result.failure.was_done == "unknown"
    assert result.text


@pytest.mark.parametrize("fault", [None, "drip"])
def test_a_large_answer_is_cut_while_it_comes(fault):
    result = answer(b"x" * 300_000, "text/plain", max_bytes=5_000, fault=fault)
    assert result.is_cut
    assert result.is_done
    assert (len(result.text), result.n_bytes) == (5_000, 300_000)


def test_json_that_is_cut_is_text():
    result = answer(b"[" + b"1," * 10_000 + b"1]", "application/json", max_bytes=100)
    assert (result.is_cut, result.is_done, result.structured) == (True, True, None)
    assert len(result.text) == 100


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_what_is_compressed_all_the_same_is_unpacked_within_the_bound(name, pack):
    headers = {"Content-Encoding": name}
    assert answer(pack(b"hello"), "text/plain", headers=headers).text == "hello"
    bomb = answer(pack(b"\0" * 50_000_000), "text/plain", headers=headers, max_bytes=1_000)
    assert (bomb.is_cut, len(bomb.text)) == (True, 1_000)


@pytest.mark.parametrize(("name", "body"), [("br", b"x"), ("gzip", b"no gzip")])
def test_what_cannot_be_unpacked(name, body):
    result = answer(body, "text/plain", headers={"Content-Encoding": name})
    assert result.failure.kind == "unusable"


def test_nothing_in_the_body_is_said():
    result = answer(b"", status=204)
    assert result.is_done
    assert result.notes == ("HTTP 204, no body",)


def test_the_answer_to_head_is_its_headers():
    result = answer(b"12345", "image/png", tool="ask", headers={"Set-Cookie": "a=b"})
    assert result.structured == {"content-length": "5", "content-type": "image/png"}


@pytest.mark.parametrize(
    ("status", "kind", "read", "write"),
    [
        (302, "tool", "no", "unknown"),
        (304, "tool", "no", "unknown"),
        (400, "inputs", "no", "no"),
        (401, "permission", "no", "no"),
        (403, "permission", "no", "no"),
        (404, "tool", "no", "no"),
        (408, "busy", "no", "unknown"),
        (409, "tool", "no", "no"),
        (410, "tool", "no", "no"),
        (418, "tool", "no", "no"),
        (422, "inputs", "no", "no"),
        (425, "busy", "no", "no"),
        (429, "busy", "no", "no"),
        (500, "lost", "unknown", "unknown"),
        (501, "tool", "no", "unknown"),
        (502, "lost", "unknown", "unknown"),
        (503, "busy", "no", "unknown"),
        (504, "lost", "unknown", "unknown"),
        (505, "tool", "no", "unknown"),
        (599, "lost", "unknown", "unknown"),
    ],
)
def test_a_status_is_a_kind_of_failure(status, kind, read, write):
    reply = {"body": b'{"detail": "no \\u001b[31mway"}', "media_type": "application/json"}
    for tool, was_done in (("look", read), ("change", write)):
        failure = answer(**reply, status=status, tool=tool).failure
        assert (failure.kind, failure.was_done) == (kind, was_done)
        assert failure.message.startswith(f"HTTP {status} Said")


@pytest.mark.parametrize(
    ("status", "was_done"),
    [(408, "unknown"), (425, "no"), (429, "no"), (500, "unknown"), (503, "no")],
)
def test_what_says_when_to_come_again_was_not_done(status, was_done):
    failure = answer(b"", status=status, tool="change", headers={"Retry-After": "3"}).failure
    assert failure.was_done == was_done


def test_what_the_server_says_is_in_the_failure_without_what_steers_a_terminal():
    result = answer(b"no \x1b[31mway\r\nhome " + b"x" * 5_000, "text/plain", status=404)
    assert result.failure.message.startswith("HTTP 404 Said: no \\x1b[31mway home xxx")
    assert len(result.failure.message) < 400
    assert len(result.text) > 5_000


def test_when_to_come_again_is_noted():
    result = answer(b"", status=429, headers={"Retry-After": "30"})
    assert "Retry-After: 30" in result.notes


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_nobody_is_there():
    async def main():
        base_url = f"http://127.0.0.1:{closed_port()}"
        async with OpenApiSource("it", DOCUMENT, base_url=base_url) as source:
            return await source.call(Call(api="it__change"))

    failure = run(main()).failure
    assert (failure.kind, failure.was_done, failure.is_transient) == ("unavailable", "no", True)
    assert failure.message.startswith("no connection to 127.0.0.1:")


async def without_tls(serve, *, timeout):
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    base_url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, OpenApiSource("it", DOCUMENT, base_url=base_url) as source:
        return (await source.call(Call(api="it__change", timeout=timeout))).failure


def test_a_server_that_speaks_no_tls():
    async def serve(reader, writer):
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    failure = run(without_tls(serve, timeout=5.0))
    assert (failure.kind, failure.was_done) == ("unavailable", "no")


def test_a_handshake_that_takes_too_long_leaves_no_connection():
    ended = []

    async def serve(reader, writer):
        await reader.read()  # until the client has gone
        ended.append(True)
        writer.close()
        await writer.wait_closed()

    failure = run(without_tls(serve, timeout=0.3))
    assert (failure.kind, failure.was_done) == ("timeout", "no")
    assert ended == [True]


@pytest.mark.parametrize("fault", ["reset", "cut"])
def test_a_connection_that_breaks(fault):
    failure = answer(b"x" * 100, "text/plain", tool="change", fault=fault).failure
    assert (failure.kind, failure.was_done) == ("lost", "unknown")


def test_an_answer_that_is_no_http():
    async def main():
        async def babble(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"hello\r\n\r\n")
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, OpenApiSource("it", DOCUMENT, base_url=base_url) as source:
            return await source.call(Call(api="it__change"))

    assert run(main()).failure.kind == "lost"


def test_no_answer_in_time():
    failure = answer(b"", fault="hang", timeout=0.1, tool="change").failure
    assert (failure.kind, failure.was_done) == ("timeout", "unknown")
    assert failure.message == "no answer in 0.1 s"


def test_a_call_that_is_cancelled_leaves_the_source_usable():
    async def main():
        replies = iter([Reply(fault="hang"), Reply({"again": True})])
        async with (
            ValidatingServer(DOCUMENT, reply=lambda _: next(replies)) as server,
            OpenApiSource("it", DOCUMENT, base_url=f"{server.url}/v1") as source,
        ):
            hanging = asyncio.create_task(source.call(Call(api="it__look")))
            while not server.seen:
                await asyncio.sleep(0.01)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            return await source.call(Call(api="it__look"))

    assert run(main()).structured == {"again": True}


def test_many_calls_at_a_time_and_the_start_is_told_once():
    async def main():
        async with (
            ValidatingServer(DOCUMENT) as server,
            OpenApiSource("it", DOCUMENT, base_url=f"{server.url}/v1") as source,
        ):
            first = await source.call(Call(api="it__look"))
            calls = (source.call(Call(api="it__look")) for _ in range(20))
            return first, await asyncio.gather(*calls)

    first, others = run(main())
    assert first.start_seconds > 0
    assert all(each.is_done and each.start_seconds is None for each in others)


def test_it_can_be_closed_twice_and_opened_again():
    async def main():
        async with ValidatingServer(DOCUMENT) as server:
            source = OpenApiSource("it", DOCUMENT, base_url=f"{server.url}/v1")
            for _ in range(2):
                assert (await source.call(Call(api="it__look"))).is_done
                await source.aclose()
                await source.aclose()

    run(main())
