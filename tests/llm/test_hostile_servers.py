"""Servers that send too much, too slowly, or somewhere else: what an answer may cost."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time
import zlib
from contextlib import ExitStack
from itertools import repeat

import pytest
from chat_server import DRIP, HANG, KEY, ChatServer, Reply, completion, refusal, run

from cnp_router.exceptions import (
    ChatAnswerError,
    ChatDisallowedError,
    ChatRequestError,
    ChatTimeoutError,
    ChatUnavailableError,
    InputError,
    LanguageModelError,
)
from cnp_router.llm import ChatMessage, ChatRequest, model_requests_allowed
from cnp_router.llm.openai_client import GuardedClient

FREE = ChatRequest([ChatMessage("user", "Which APIs?")])
SCHEMA = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}
MB = 2**20


def ask(replies, request=FREE, **options):
    async def main():
        async with ChatServer(replies) as server, server.model(**options) as model:
            return await model.complete(request)

    return run(main())


# Too much.

ASK_TWICE = """
import asyncio, resource, sys
from cnp_router.exceptions import LanguageModelError
from cnp_router.llm import ChatMessage, ChatRequest, OpenAIChatModel

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

async def main():
    request = ChatRequest([ChatMessage("user", "Which APIs?")])
    async with OpenAIChatModel(base_url=sys.argv[1], api_key="none", max_retries=1) as model:
        await model.complete(request)
        before = peak()
        try:
            await model.complete(request)
        except LanguageModelError as exc:
            print(type(exc).__name__, exc.problem)
        print(peak() - before)

asyncio.run(main())
"""


def bomb(size):
    """Return a stream of gzip that unpacks to that many bytes, in pieces."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for _ in range(size // MB):
        yield packer.compress(bytes(MB))
    yield packer.flush()


GZIP = {"Content-Encoding": "gzip"}
TOO_MUCH = {
    "a long body": lambda: Reply(repeat(b" " * 65_536, 50 * 16)),
    "a body without end": lambda: Reply(repeat(b" " * 65_536)),
    "a bomb": lambda: Reply(bomb(500 * MB), headers=GZIP),
    "a bomb at once": lambda: Reply(b"".join(bomb(500 * MB)), headers=GZIP),
    "packed a little": lambda: Reply(repeat(gzip.compress(b"", mtime=0)), headers=GZIP),
    "many small things": lambda: Reply(b"[" + b"[]," * 690_000 + b"[]]"),
    "an error": lambda: Reply(repeat(b" " * 65_536, 50 * 16), 400),
    "an error packed": lambda: Reply(bomb(500 * MB), 400, GZIP),
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_an_answer_takes_bounded_memory(kind):
    async def main():
        replies = [completion("x"), TOO_MUCH[kind]()]
        async with ChatServer(replies) as server:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", ASK_TWICE, server.url), stdout=asyncio.subprocess.PIPE
            )
            return (await child.communicate())[0].decode().splitlines()

    problem, more = run(main(), limit=60)
    # Many small things are within the limit: 2 MB of JSON make some 50 MB of objects.
    assert int(more) < (100 if kind == "many small things" else 40)
    if kind.startswith("an error"):
        assert problem.startswith("ChatRequestError the server answered 400")
    elif kind != "many small things":
        assert problem == "ChatAnswerError the response is larger than 2,097,152 bytes (max_bytes)"


@pytest.mark.parametrize("packed", [False, True])
def test_the_limit_holds_to_the_byte(packed):
    body = json.dumps(completion("x").body).encode()
    raw, headers = (gzip.compress(body, mtime=0), GZIP) if packed else (body, {})
    assert ask([Reply(raw, headers=headers)], max_bytes=len(body)).text == "x"
    with pytest.raises(ChatAnswerError, match="is larger than"):
        ask([Reply(raw, headers=headers)], max_bytes=len(body) - 1)


def test_a_limit_that_makes_no_sense():
    with pytest.raises(InputError, match="max_bytes"):
        ask([], max_bytes=0)


def test_what_is_too_large_is_not_asked_for_again():
    with pytest.raises(ChatAnswerError, match="is larger than"):
        ask([completion("x" * 999)], max_bytes=500, max_retries=2)  # the server has one reply


def test_a_long_error_is_read_to_its_first_line():
    error = refusal(503, "busy " * 100_000)
    with pytest.raises(ChatUnavailableError, match=r"answered 503: .*busy busy .*\.\.\. "):
        ask([error])


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"no gzip", "gzip"),
        (gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), "gzip, gzip"),
        (b"x", "br"),
        (zlib.compress(b"{}"), "deflate"),
    ],
)
def test_what_cannot_be_unpacked(body, encoding):
    with pytest.raises(ChatAnswerError, match=r"cannot be decompressed|which it must not be"):
        ask([Reply(body, headers={"Content-Encoding": encoding})])


def test_gzip_is_read():
    body = gzip.compress(json.dumps(completion("天気").body).encode())
    assert ask([Reply(body, headers=GZIP)]).text == "天気"


# Too slowly.


@pytest.mark.parametrize("reply", [DRIP, Reply(b"x" * 999, 500, fault="drip"), HANG])
def test_a_server_that_drips_is_waited_for_no_longer_than_the_timeout(reply):
    began = time.perf_counter()
    with pytest.raises(ChatTimeoutError, match=r"no answer within 0\.4 s"):
        ask([reply], timeout=0.4, max_retries=2)
    assert 0.4 <= time.perf_counter() - began < 0.4 + 3


def test_the_timeout_is_that_of_all_retries():
    began = time.perf_counter()
    with pytest.raises(ChatTimeoutError):
        ask(lambda body: refusal(503, "busy", retry_after="0.3"), timeout=0.7, max_retries=50)
    assert 0.7 <= time.perf_counter() - began < 0.7 + 3


def test_the_timeout_is_that_of_a_repair_too():
    request = ChatRequest(FREE.messages, SCHEMA)
    began = time.perf_counter()
    with pytest.raises(ChatTimeoutError) as caught:
        ask([completion("no", seconds=0.4), HANG], request, timeout=2.0)
    assert time.perf_counter() - began < 0.4 + 2.0 + 3
    assert caught.value.calls == 1


def test_waiting_for_a_place_takes_no_time_of_the_timeout():
    async def main():
        async with (
            ChatServer(lambda body: completion("x", seconds=0.6)) as server,
            server.model(max_concurrency=1, timeout=2.0) as model,
        ):
            return await asyncio.gather(*(model.complete(FREE) for _ in range(4)))

    assert [response.text for response in run(main())] == ["x"] * 4


# Somewhere else.


def redirect(to, status=307):
    return Reply({}, status, {"Location": to})


def test_a_redirect_within_the_server_is_followed():
    async def main():
        replies = [redirect("/v1/chat/completions/", 308), completion("x")]
        async with ChatServer(replies) as server, server.model() as model:
            return (await model.complete(FREE)).text, server

    text, server = run(main())
    assert text == "x"
    assert server.paths == ["/v1/chat/completions", "/v1/chat/completions/"]
    assert server.requests[0] == server.requests[1]
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(status):
    async def main():
        async with ChatServer([]) as other:
            replies = [redirect(f"{other.url}/chat/completions", status)]
            async with ChatServer(replies) as server, server.model(max_retries=2) as model:
                with pytest.raises(ChatRequestError) as caught:
                    await model.complete(FREE)
            return str(caught.value), other.url, other.requests

    message, url, requests = run(main())
    assert f"the server redirects to {url}/chat/completions, which is not followed" in message
    assert "base URL" in message
    assert requests == []


@pytest.mark.parametrize(
    "to",
    [
        "http://localhost:{port}/v1/chat/completions",
        "https://127.0.0.1:{port}/v1/chat/completions",
        "http://user@192.0.2.1/",
        "//192.0.2.1/v1",
        "ftp://127.0.0.1/x",
        "http://127.0.0.1:{port}@192.0.2.1/",
    ],
)
def test_other_hosts_schemes_and_ports_are_not_asked(to):
    async def main():
        async with ChatServer([]) as server:
            port = server.url.rpartition(":")[2].partition("/")[0]
            server._replies.append(redirect(to.format(port=port)))
            async with server.model() as model:
                with pytest.raises(ChatRequestError, match="the server redirects to"):
                    await model.complete(FREE)
            return server.requests

    assert len(run(main())) == 1  # more is an error of the guard against the network, too


def test_the_key_is_not_left_in_errors_after_a_redirect():
    replies = [redirect("/v1/chat/completions/"), Reply({"error": "no"}, 400)]
    with pytest.raises(ChatRequestError) as caught:
        ask(replies)
    sdk = caught.value.__cause__
    assert sdk.request.url.path == "/v1/chat/completions/"
    assert sdk.request.headers.get("authorization") is None


def test_what_is_wrong_may_stand_in_a_detail():
    detail = [{"loc": ["body", "model"], "msg": "no such thing"}]
    with pytest.raises(LanguageModelError, match=r"422: .*no such thing"):
        ask([Reply({"detail": detail}, 422)])


def test_an_address_with_the_key_in_it_is_not_asked():
    with pytest.raises(ChatRequestError, match=r"redirects to /v1/\?key=\*\*\*, which is not"):
        ask([redirect(f"/v1/?key={KEY}")])


def test_a_redirect_to_what_is_not_an_address():
    with pytest.raises(LanguageModelError, match=r"redirects to|Invalid URL"):  # by version
        ask([redirect("http://[::1/")])


def test_a_redirect_that_would_lose_the_question():
    with pytest.raises(ChatRequestError, match="which is not followed"):
        ask([redirect("/v1/chat/completions/", 303)])


def test_a_circle_of_redirects_ends():
    with pytest.raises(ChatRequestError, match="redirects more than 5 times"):
        ask(lambda body: redirect("/v1/chat/completions"))


def test_the_text_of_a_redirect_is_bounded_and_plain():
    with pytest.raises(ChatRequestError) as caught:
        ask([redirect("http://192.0.2.1/" + "x" * 9_999 + "\x9b2J")])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "first", [redirect("/v1/chat/completions/"), refusal(503, "busy", retry_after="0.01")]
)
def test_the_switch_holds_for_redirects_and_retries(first):
    async def main():
        with ExitStack() as switched_off:

            def reply(body):
                switched_off.enter_context(model_requests_allowed("none"))
                return first

            async with ChatServer(reply) as server, server.model(max_retries=2) as model:
                with pytest.raises(ChatDisallowedError):
                    await model.complete(FREE)
                return server.requests

    assert len(run(main())) == 1


def test_the_client_of_the_sdk_is_the_guarded_one():
    async def main():
        async with ChatServer([completion("x")]) as server, server.model() as model:
            await model.complete(FREE)
            return model._session().client._client

    client = run(main())
    assert isinstance(client, GuardedClient)
    assert client.trust_env  # proxies of the environment are used as before
