"""The API key is in nothing that comes out: no answer, error, log, repr or file."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import time
import traceback
from dataclasses import asdict, replace

import pytest
from chat_server import KEY, ChatServer, Reply, completion, refusal, run

from cnp_router.exceptions import (
    ChatAccessError,
    ChatConnectionError,
    InputError,
    LanguageModelError,
)
from cnp_router.llm import CachedChatModel, ChatMessage, ChatRequest, OpenAIChatModel
from cnp_router.llm.secret import Secret

FREE = ChatRequest([ChatMessage("user", "Which APIs?")])
SCHEMA = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}
STRUCTURED = ChatRequest(FREE.messages, SCHEMA)
MAPS = {"apis": ["maps"]}


def ask(replies, request=FREE, **options):
    async def main():
        async with ChatServer(replies) as server, server.model(**options) as model:
            return await model.complete(request), server

    return run(main())


def shown(error):
    return "".join(traceback.format_exception(error))


PIECES = [KEY, KEY[:12], KEY[:8], f"{KEY[:6]}***", f"{KEY[:6]}******cdef", f"{KEY[:7]}...cdef"]
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)  # as JSON may write it


def echoes(piece):
    """Return errors that carry a piece of the key wherever a server can put it."""
    error = {"message": piece, "type": piece, "param": piece, "code": piece}
    return [
        refusal(401, f"Incorrect API key provided: {piece}"),
        Reply({"error": error}, 400, {"X-Echo": piece, "Content-Type": f"text/{piece}"}),
        Reply({"error": error}, 429, {"X-Request-Id": piece, "Retry-After": piece}),
        Reply({"error": piece}, 400),
        Reply({"message": "no", "seen": {"key": piece, piece: [piece]}}, 400),
        Reply(f'{{"error": "{ESCAPED}"}}'.encode(), 400),
        Reply(piece.encode(), 500),
        Reply({"seen": [piece]}),
        Reply({"choices": piece, "id": piece}),
        Reply(f"<p>{piece}</p>".encode()),
        Reply({}, headers={"Content-Encoding": piece}),
        Reply({}, 307, headers={"Location": f"http://192.0.2.1/{piece}"}),
        completion(None, refusal=f"I was given {piece}"),
        completion("no", finish=piece),
    ]


def errors_of(error):
    """Return an error and all that it came from."""
    found = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def everything_in(error):
    """Return all that somebody may print or keep of an error."""
    for cause in errors_of(error):
        yield from (str(cause), repr(cause), str(vars(cause)), str(cause.args))
        for message in (getattr(cause, "response", None), getattr(cause, "request", None)):
            if message is not None:
                yield str(message.headers.raw)
        if getattr(cause, "response", None) is not None:
            yield cause.response.text


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("number", range(len(echoes(KEY))))
def test_a_key_that_the_server_sends_back_is_in_no_error_and_no_log(piece, number, caplog):
    caplog.set_level(logging.DEBUG, "cnp_router")
    caplog.set_level(logging.DEBUG, "openai")
    reply = echoes(piece)[number]
    with pytest.raises(LanguageModelError) as caught:
        # "no" does not fit the schema, so that answer is shown to the model again: cut it off.
        ask([reply, reply], STRUCTURED)
    for text in [shown(caught.value), *everything_in(caught.value), caplog.text]:
        assert piece not in text
        assert KEY not in text


def test_a_key_in_what_is_not_even_http():
    async def main():
        async def speak(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/9.9 {KEY}\r\n\r\n".encode())
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, OpenAIChatModel(base_url=url, api_key=KEY, max_retries=0) as model:
            await model.complete(FREE)

    with pytest.raises(ChatConnectionError) as caught:
        run(main())
    for text in [shown(caught.value), *everything_in(caught.value)]:
        assert KEY not in text


def test_what_is_left_out_can_be_seen():
    with pytest.raises(ChatAccessError) as caught:
        ask([echoes(KEY)[0]])
    assert "Incorrect API key provided: ***" in str(caught.value)
    assert "Incorrect API key provided: ***" in str(caught.value.__cause__)


def echoing(content, piece):
    """Return an answer that carries a piece of the key wherever a server can put it."""
    reply = completion(content, finish=piece, usage=None)
    usage = {"prompt_tokens": piece, "completion_tokens": 7, piece: piece}
    return Reply(
        {**reply.body, "model": piece, "id": piece, "system_fingerprint": piece, "usage": usage},
        headers={"X-Request-Id": piece, "Set-Cookie": f"key={piece}"},
    )


@pytest.mark.parametrize("piece", PIECES)
def test_a_key_in_any_field_is_in_no_answer_and_no_file_of_the_cache(piece, tmp_path, caplog):
    replies = [
        echoing({"apis": [piece, {piece: piece}]}, piece),
        echoing(f"your key is {piece}", piece),
        # Escapes within the JSON of the answer, which is itself within JSON.
        echoing(f'{{"apis": ["{ESCAPED}"]}}', piece),
    ]
    asked = [STRUCTURED, FREE, replace(STRUCTURED, seed=1)]

    async def main():
        async with ChatServer(replies) as server, server.model() as inner:
            model = CachedChatModel(inner, tmp_path)
            return [await model.complete(request) for request in asked]

    responses = run(main())
    files = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert len(files) == 3
    for text in [*files, *(str(asdict(response)) for response in responses), caplog.text]:
        assert piece not in text
        assert KEY not in text
        assert KEY not in text.encode().decode("unicode_escape")
        assert KEY not in text.encode().decode("unicode_escape").encode().decode("unicode_escape")
    assert responses[0].data == {"apis": ["***", {"***": "***"}]}
    assert responses[1].text == "your key is ***"
    assert (responses[1].served_as, responses[1].finish_reason) == ("***", "***")
    assert responses[2].data == {"apis": ["***"]}


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"{KEY}{KEY} {KEY[:9]}x", "****** ***x"),
        ("sk-tes sk-test", "sk-tes sk-test"),  # too little to say anything
        (f"{KEY[:5]}...9999", "***9999"),
        (f"({KEY[:10]}…)", "(***)"),
        (f"without its sk-: {KEY[3:]}, {KEY[3:]}", "without its sk-: ***, ***"),
        (f"({KEY[-15:]}) or x{KEY[1:-1]}x", "(***) or x***x"),
        ("...", "..."),
    ],
)
def test_what_is_taken_out(text, redacted):
    assert Secret(KEY).redacted(text) == redacted


def test_taking_out_is_quick():
    began = time.perf_counter()
    assert Secret("a" * 100).redacted("a" * 1_000_000) == "***" * 10_000
    Secret(KEY).redacted(KEY[:8] * 100_000)
    assert time.perf_counter() - began < 3


def test_a_key_that_the_server_sends_back_is_in_no_answer():
    response, _ = ask([completion(f"your key is {KEY}")])
    assert response.text == "your key is ***"


def test_a_key_that_is_a_word_may_stand_in_an_answer():
    response, _ = ask([completion("the maps API")], api_key="maps")
    assert response.text == "the maps API"


def test_a_refused_schema_does_not_log_the_key(caplog):
    caplog.set_level(logging.DEBUG)
    ask([refusal(400, f"response_format? {KEY}"), completion(MAPS)], STRUCTURED)
    assert "takes no schemas as" in caplog.text
    assert KEY not in caplog.text


def test_a_refused_schema_steers_no_terminal(caplog):
    ask([Reply(b"response_format?\x1b[2J\n\xc2\x9b", 400), completion(MAPS)], STRUCTURED)
    [message] = caplog.messages
    assert message.isprintable()


def test_the_model_does_not_show_its_key(caplog):
    caplog.set_level(logging.DEBUG)

    async def main():
        async with ChatServer([completion("x")]) as server, server.model() as model:
            await model.complete(FREE)
            return f"{model!r} {vars(model)!r} {vars(copy.copy(model))!r}"

    assert KEY not in run(main()) + caplog.text


def test_a_model_is_not_pickled():
    model = OpenAIChatModel(base_url="http://127.0.0.1:9/v1", api_key=KEY)
    with pytest.raises(TypeError):
        pickle.dumps(model)


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": f"http://user:{KEY}@127.0.0.1/v1"},
        {"base_url": f"http://127.0.0.1/v1?key={KEY}"},
        {"base_url": f"{KEY}@[broken"},
        {"base_url": f"http://[broken?key={KEY}"},
        {"base_url": "http://127.0.0.1/v1", "api_key": KEY + "\né"},
    ],
)
def test_a_key_in_a_wrong_argument_is_not_shown(options):
    with pytest.raises(InputError) as caught:
        OpenAIChatModel(**options)
    assert KEY not in shown(caught.value)


def test_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment\n")
    _, server = ask([completion("x")], api_key=None)
    assert server.headers[0]["authorization"] == "Bearer sk-of-the-environment"


def test_a_server_of_ones_own_needs_no_key():
    _, server = ask([completion("x")], api_key=None)
    assert server.headers[0]["authorization"] == "Bearer none"
