"""The OpenAI adapter against a real server: what is sent, what comes back, what goes wrong."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
import time

import pytest
from chat_server import CUT, HANG, KEY, RESET, ChatServer, Reply, completion, refusal, run

from cnp_router.exceptions import (
    ChatAccessError,
    ChatAnswerError,
    ChatConnectionError,
    ChatModelUnknownError,
    ChatRateLimitError,
    ChatRequestError,
    ChatTimeoutError,
    ChatUnavailableError,
    ContextTooLongError,
    InputError,
)
from cnp_router.llm import ChatMessage, ChatRequest, OpenAIChatModel, Usage, complete_sync
from cnp_router.llm.openai_wire import request_body
from cnp_router.llm.parsing import schema_text

SCHEMA = {
    "type": "object",
    "properties": {"apis": {"type": "array", "items": {"type": "string"}}},
    "required": ["apis"],
    "additionalProperties": False,
}
FREE = ChatRequest([ChatMessage("system", "Be brief."), ChatMessage("user", "Which APIs?")])
STRUCTURED = ChatRequest(FREE.messages, SCHEMA)
MAPS = {"apis": ["maps"]}


def ask(replies, request=FREE, **options):
    """Ask once; return the response and the server."""

    async def main():
        async with ChatServer(replies) as server, server.model(**options) as model:
            return await model.complete(request), server

    return run(main())


def failing(replies, kind, request=FREE, **options):
    """Ask once; return the error, which must be of that very kind."""
    with pytest.raises(kind) as caught:
        ask(replies, request, **options)
    assert type(caught.value) is kind
    return caught.value


# What is sent, and what comes back.


def test_a_plain_answer():
    response, server = ask([completion("Maps.")])
    assert response.text == "Maps."
    assert response.data is None
    assert response.usage == Usage(11, 7, "server")
    assert (response.model, response.served_as) == ("gpt-oss:20b", "served-model")
    assert (response.calls, response.cached) == (1, False)
    assert (response.structured_by, response.finish_reason) == (None, "stop")
    assert 0 < response.seconds < 5
    assert server.requests == [
        {
            "model": "gpt-oss:20b",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Which APIs?"},
            ],
        }
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_parameters_are_sent_and_the_task_is_not():
    request = ChatRequest(FREE.messages, task={"secret": 1}, max_tokens=50, temperature=0.0, seed=3)
    _, server = ask([completion("x")], request, name="tiny")
    sent = server.requests[0]
    assert sent["model"] == "tiny"
    assert {key: sent[key] for key in sent if key not in ("model", "messages")} == {
        "max_tokens": 50,
        "temperature": 0.0,
        "seed": 3,
    }


def test_a_schema_is_given_to_the_server():
    response, server = ask([completion(MAPS)], STRUCTURED)
    assert response.data == MAPS
    assert response.structured_by == "server"
    assert server.requests[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
    }
    assert len(server.requests[0]["messages"]) == 2


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 3}, "many", {"prompt_tokens": -1}])
def test_usage_that_the_server_does_not_give_is_estimated_and_says_so(usage):
    response, _ = ask([completion("Maps.", usage=usage)])
    assert response.usage == Usage(4 + 3 + 4 + 3 + 3, 2, "estimated")


def test_half_a_surrogate_pair_in_an_answer_is_replaced():
    raw = json.dumps(completion("x").body).replace('"x"', '"a\\ud800b"').encode()
    assert ask([Reply(raw)])[0].text == "a?b"


# Answers that do not fit.


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("I would use maps.", "has no JSON object"),
        ('{"apis": ["maps"', "has no JSON object"),
        ({"api": "maps"}, "'apis' is a required property"),
        ({"apis": "maps"}, "is not of type 'array'"),
        ("", "is empty"),
        (None, "is empty"),
    ],
    ids=["prose", "truncated", "wrong key", "wrong type", "empty", "null"],
)
def test_an_answer_that_does_not_fit_is_repaired_once(wrong, problem):
    response, server = ask([completion(wrong), completion(MAPS)], STRUCTURED)
    assert response.data == MAPS
    assert response.calls == 2
    assert response.usage == Usage(22, 14, "server")
    again = server.requests[1]["messages"]
    assert problem in again[-1]["content"]
    assert schema_text(SCHEMA) in again[-1]["content"]
    assert [m["role"] for m in again] == ["system", "user"] + (
        ["assistant", "user"] if wrong else []
    )


def test_there_is_no_second_repair():
    error = failing([completion("no"), completion("never")], ChatAnswerError, STRUCTURED)
    assert "the answer has no JSON object: 'never' (use a model that follows" in str(error)
    assert (error.usage, error.calls) == (Usage(22, 14, "server"), 2)


def test_what_was_paid_is_in_the_error_also_when_the_repair_fails_otherwise():
    error = failing([completion("no"), refusal(503, "busy")], ChatUnavailableError, STRUCTURED)
    assert (error.usage, error.calls) == (Usage(11, 7, "server"), 1)


def test_a_model_that_ignores_the_schema_but_means_well_needs_no_repair():
    text = '<think>{"apis": 1}</think>Here you are:\n```json\n{"apis": ["maps"]}\n```'
    response, _ = ask([completion(text)], STRUCTURED)
    assert (response.data, response.calls) == (MAPS, 1)


def test_an_answer_that_was_cut_off_is_not_asked_for_again():
    error = failing([completion('{"apis": ["ma', finish="length")], ChatAnswerError, STRUCTURED)
    assert "it was cut off (raise max_tokens)" in str(error)
    assert error.usage == Usage(11, 7, "server")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            completion(None, refusal="I cannot do that."),
            "the model refuses to answer: 'I cannot do that.' (ask for something else, or use",
        ),
        (completion("", finish="content_filter"), "withholds the answer (ask for something else"),
        (completion(""), "the answer is empty (use another model)"),
        (Reply({"choices": [], "usage": None}), "no answer in it"),
        (Reply({"error": "model is loading"}), "model is loading"),
        (Reply({"choices": [{"message": "hello"}]}), "no answer in it"),
        (Reply(["x"]), "no answer in it"),
        (Reply(b'{"choices": [{"mess'), 'no answer in it: \'{"choices": [{"mess\''),
        (
            Reply(b"<html>It works!</html>", headers={"Content-Type": "text/html"}),
            "no answer in it: '<html>",
        ),
    ],
)
def test_responses_without_a_usable_answer(reply, words):
    error = failing([reply], ChatAnswerError)
    assert words in str(error)
    assert error.model == "gpt-oss:20b"
    assert error.server in str(error)


# Servers that take no schema.

UNSUPPORTED = [
    refusal(400, "invalid value: `json_schema`, supported values are: `json_object` and `text`"),
    refusal(422, "Extra inputs are not permitted: response_format"),
    refusal(500, "response_format type must be one of text or json_object"),
    Reply({"error": "'response_format.type' must be 'text'"}, 400),
]


TAKES = {  # what servers take, and the forms in which they are then asked
    "everything": ["json_schema"],
    "llama.cpp": ["json_schema", "json_object with schema"],
    "plain": ["json_schema", "json_object with schema", "json_object"],
    "nothing": ["json_schema", "json_object with schema", "json_object", "prompt"],
}


def form_of(body):
    wanted = body.get("response_format", {"type": "prompt"})
    return wanted["type"] + (" with schema" if "schema" in wanted else "")


def server_that_takes(*forms, answer=MAPS, reply=UNSUPPORTED[0]):
    return ChatServer(lambda body: completion(answer) if form_of(body) in forms else reply)


@pytest.mark.parametrize("reply", UNSUPPORTED, ids=["400", "422", "500", "plain"])
@pytest.mark.parametrize("forms", TAKES.values(), ids=TAKES)
def test_a_server_is_given_a_schema_in_the_strongest_form_that_it_takes(forms, reply, caplog):
    async def main():
        async with server_that_takes(forms[-1], reply=reply) as server, server.model() as model:
            return [await model.complete(STRUCTURED) for _ in range(2)], server.requests

    responses, requests = run(main())
    by = "server" if "schema" in forms[-1] else "prompt"
    assert [r.structured_by for r in responses] == [by, by]
    assert [r.data for r in responses] == [MAPS, MAPS]
    assert [r.calls for r in responses] == [1, 1]
    assert [form_of(body) for body in requests] == [*forms, forms[-1]]  # and that is remembered
    assert requests[-1]["messages"] == requests[-2]["messages"]
    shown = schema_text(SCHEMA) in requests[-1]["messages"][-1]["content"]
    assert shown == (forms[-1] != "json_schema")
    assert caplog.text.count("takes no schemas as") == len(forms) - 1


def test_many_at_once_find_out_together(caplog):
    async def main():
        async with server_that_takes("json_object") as server, server.model() as model:
            responses = await asyncio.gather(*(model.complete(STRUCTURED) for _ in range(5)))
            await model.complete(STRUCTURED)
            return responses, form_of(server.requests[-1])

    responses, last = run(main())
    assert [r.data for r in responses] == [MAPS] * 5
    assert last == "json_object"
    assert caplog.text.count("takes no schemas as") == 2


def test_a_server_that_refuses_one_schema_is_given_the_next(caplog):
    async def main():
        replies = [
            refusal(400, "Invalid schema for response_format 'answer'"),
            completion(MAPS),
            completion(MAPS),
        ]
        async with ChatServer(replies) as server, server.model() as model:
            responses = [await model.complete(STRUCTURED) for _ in range(2)]
            return [r.structured_by for r in responses], [form_of(b) for b in server.requests]

    by, forms = run(main())
    assert by == ["prompt", "server"]
    assert forms == ["json_schema", "json_object", "json_schema"]
    assert "takes not this schema as" in caplog.text


def test_a_repair_where_the_schema_is_in_the_prompt():
    replies = [*[UNSUPPORTED[0]] * 3, completion("no"), completion(MAPS)]
    response, server = ask(replies, STRUCTURED)
    assert (response.data, response.calls) == (MAPS, 2)
    assert form_of(server.requests[4]) == "prompt"
    contents = [m["content"] for m in server.requests[4]["messages"]]
    assert [content.count(schema_text(SCHEMA)) for content in contents] == [0, 0, 0, 1]


@pytest.mark.parametrize("form", TAKES["nothing"])
def test_the_final_error_says_whether_it_is_the_server_or_the_model(form):
    async def main():
        async with server_that_takes(form, answer="no") as server, server.model() as model:
            await model.complete(STRUCTURED)

    with pytest.raises(ChatAnswerError) as caught:
        run(main())
    is_the_server = "it is the server that takes no JSON schema, or not this one, not the" in str(
        caught.value
    )
    assert is_the_server == (form != "json_schema")
    assert ("use a model that follows a schema" in str(caught.value)) != is_the_server


# Faults.


def test_retry_after_is_honoured():
    began = time.perf_counter()
    replies = [refusal(429, "slow down", retry_after="0.2"), completion("x")]
    response, server = ask(replies, max_retries=1)
    assert response.text == "x"
    assert 0.2 <= time.perf_counter() - began < 0.2 + 3
    assert len(server.requests) == 2


def test_a_rate_limit_beyond_the_retries():
    replies = [refusal(429, "slow down", retry_after="0.01")] * 2
    error = failing(replies, ChatRateLimitError, max_retries=1)
    assert "the server answered 429: slow down (ask later, or lower max_concurrency)" in str(error)


@pytest.mark.parametrize("fault", [RESET, refusal(500, "oops", retry_after="0.01"), CUT])
def test_faults_that_pass_are_tried_again(fault):
    response, server = ask([fault, completion("x")], max_retries=1)
    assert (response.text, len(server.requests)) == ("x", 2)


@pytest.mark.parametrize("fault", [RESET, CUT])
def test_a_broken_connection(fault):
    error = failing([fault], ChatConnectionError)
    assert "check the base URL and whether the server runs" in str(error)


def test_no_server_at_all():
    async def main():
        async with ChatServer([]) as server:
            model = server.model()
        async with model:
            await model.complete(FREE)

    with pytest.raises(ChatConnectionError, match=r"at http://127\.0\.0\.1:\d+/v1: no connection"):
        run(main())


def test_a_server_that_hangs():
    began = time.perf_counter()
    error = failing([HANG], ChatTimeoutError, timeout=0.2)
    assert "no answer within 0.2 s" in str(error)
    assert time.perf_counter() - began < 3


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (refusal(401, "Incorrect API key"), ChatAccessError, "check the api_key argument"),
        (refusal(403, "not for you"), ChatAccessError, "answered 403: not for you"),
        (refusal(429, "pay", code="insufficient_quota"), ChatAccessError, "no credit"),
        (refusal(404, "model 'm' not found"), ChatModelUnknownError, "model 'm' not found"),
        (
            refusal(400, "too many", code="context_length_exceeded"),
            ContextTooLongError,
            "shorter prompt",
        ),
        (
            refusal(400, "the model's context length is only 1024 tokens", code=400),
            ContextTooLongError,
            "1024",
        ),
        (refusal(500, "the request exceeds the available context size"), ContextTooLongError, ""),
        (refusal(400, "no such temperature"), ChatRequestError, "no such temperature"),
        (refusal(500, "oops"), ChatUnavailableError, "oops"),
        (Reply(b"Bad Gateway", 502), ChatUnavailableError, "502: Bad Gateway"),
        (Reply(b"", 503), ChatUnavailableError, "503: Error code: 503"),
        (Reply([1, 2], 400), ChatRequestError, "400: Error code: 400"),
    ],
)
def test_errors_of_the_server(reply, kind, words):
    error = failing([reply], kind)
    assert words in str(error)
    assert error.__cause__ is not None
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# Arguments.


def test_openai_needs_a_model_name_and_a_key():
    with pytest.raises(InputError, match="which model"):
        OpenAIChatModel()
    with pytest.raises(ChatAccessError, match="set OPENAI_API_KEY"):
        OpenAIChatModel("big")


def test_the_base_url_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    assert repr(OpenAIChatModel()) == (
        "OpenAIChatModel('gpt-oss:20b', base_url='http://127.0.0.1:9/v1')"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": 10**400},
        {"timeout": float("nan")},
        {"timeout": "5"},
        {"max_retries": 1.5},
        {"max_concurrency": None},
        {"max_retries": -1},
        {"max_concurrency": 0},
        {"base_url": "localhost:11434"},
        {"base_url": "http://127.0.0.1:99999/v1"},
        {"base_url": "http://[::1/v1"},
    ],
)
def test_arguments_that_make_no_sense(options):
    with pytest.raises(InputError):
        OpenAIChatModel(**{"base_url": "http://127.0.0.1:9/v1", **options})


def test_openai_itself_is_given_the_newer_name_of_the_limit():
    model = OpenAIChatModel("big", api_key=KEY)
    request = ChatRequest(FREE.messages, max_tokens=5)
    body = request_body("big", request, 0, limit_name=model._limit_name)
    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


def test_importing_the_room_imports_no_client():
    code = "import sys, cnp_router.llm, cnp_router.testing; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"


# Many at once, and the end.


def test_the_concurrency_limit_holds():
    async def main():
        async with (
            ChatServer(lambda body: completion("x", seconds=0.02)) as server,
            server.model(max_concurrency=3) as model,
        ):
            await asyncio.gather(*(model.complete(FREE) for _ in range(12)))
            return server.most_under_way, len(server.requests)

    assert run(main()) == (3, 12)


def test_waiting_for_a_place_is_not_counted():
    async def main():
        async with (
            ChatServer(lambda body: completion("x", seconds=0.1)) as server,
            server.model(max_concurrency=1) as model,
        ):
            return await asyncio.gather(*(model.complete(FREE) for _ in range(3)))

    began = time.perf_counter()
    responses = run(main())
    assert sum(r.seconds for r in responses) <= time.perf_counter() - began


def test_cancellation_leaves_no_task_and_no_connection():
    async def main():
        async with ChatServer([HANG, completion("x")]) as server:
            async with server.model(max_concurrency=1) as model:
                first = asyncio.create_task(model.complete(FREE))
                waiting = asyncio.create_task(model.complete(FREE))
                await server.arrived.wait()
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                assert (await waiting).text == "x"  # the place is free again
            return server

    run(main())  # both the server and run() look for what is left


def test_a_deadline_of_the_caller_holds():
    async def main():
        replies = [completion("x"), HANG]
        async with ChatServer(replies) as server, server.model(max_retries=5) as model:
            await model.complete(FREE)  # the first one takes its time on a slow machine
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await model.complete(FREE)

    run(main())


def test_a_closed_model_opens_anew():
    async def main():
        async with ChatServer([completion("x"), completion("y")]) as server:
            model = server.model()
            texts = []
            for _ in range(2):
                async with model:
                    texts.append((await model.complete(FREE)).text)
            await model.aclose()  # once more does no harm
            return texts

    assert run(main()) == ["x", "y"]


def test_one_model_serves_several_loops():
    async def main():
        async with ChatServer(lambda body: completion("x", seconds=0.05)) as server:
            model = server.model()
            asked = [asyncio.to_thread(complete_sync, model, FREE) for _ in range(3)]
            async with model:
                return await asyncio.gather(model.complete(FREE), *asked)

    assert [r.text for r in run(main())] == ["x"] * 4
