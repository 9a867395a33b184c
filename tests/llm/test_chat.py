"""The seam's types, the switch, token estimates, the offline model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass

import pytest
from chat_server import ChatServer, run

from cnp_router.exceptions import ChatAnswerError, ChatDisallowedError, InputError
from cnp_router.llm import (
    ChatMessage,
    ChatRequest,
    OfflineChatModel,
    OpenAIChatModel,
    Usage,
    complete_sync,
    estimate_request_tokens,
    model_requests_allowed,
)
from cnp_router.llm.switch import SCOPE_VARIABLE, check_model_request
from cnp_router.llm.tokens import estimate_tokens

ASK = ChatRequest([ChatMessage("user", "Which APIs?")])
SCHEMA = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}


# Requests.


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChatMessage("tool", "x"),
        lambda: ChatMessage("user", None),
        lambda: ChatMessage("user", "a\ud800"),
        lambda: ChatRequest([]),
        lambda: ChatRequest(["Which APIs?"]),
        lambda: ChatRequest(ASK.messages, {"type": "string"}),
        lambda: ChatRequest(ASK.messages, max_tokens=0),
        lambda: ChatRequest(ASK.messages, max_tokens="9"),
    ],
)
def test_requests_that_cannot_be_sent(make):
    with pytest.raises(InputError):
        make()


def test_a_request_is_a_value():
    one, other = (ChatRequest([ChatMessage("user", "x")], SCHEMA, task=[1]) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert isinstance(one.messages, tuple)


@pytest.mark.parametrize(
    ("sources", "total"),
    [
        (("server", "server"), "server"),
        (("server", "estimated"), "estimated"),
        (("estimated", "estimated"), "estimated"),
    ],
)
def test_a_sum_of_usage_is_the_servers_only_if_all_of_it_is(sources, total):
    one, other = (Usage(2, 1, source) for source in sources)
    assert one + other == Usage(4, 2, total)


def test_no_more_tokens_are_kept_than_read():
    assert Usage(4, 2, "server", tokens_cached=4).tokens_cached == 4
    with pytest.raises(InputError, match="must be at most tokens_in, got 5 and 4"):
        Usage(4, 2, "server", tokens_cached=5)


def test_the_sync_wrapper_says_what_to_do_in_a_loop():
    async def main():
        complete_sync(OfflineChatModel({}), ASK)

    with pytest.raises(InputError, match=r"await model\.complete\(request\)"):
        asyncio.run(main())


# The switch.


@pytest.mark.parametrize(
    ("scope", "server", "allowed"),
    [
        ("any", "https://api.example.com/v1", True),
        ("loopback", "https://api.example.com/v1", False),
        ("loopback", "http://127.0.0.1.example.com/v1", False),
        ("loopback", "http://localhost:11434/v1", True),
        ("loopback", "http://127.8.8.8/v1", True),
        ("loopback", "http://[::1]:80/v1", True),
        ("none", "http://localhost:11434/v1", False),
    ],
)
@pytest.mark.parametrize("by", ["block", "environment"])
def test_the_switch(scope, server, allowed, by, monkeypatch):
    def check():
        if allowed:
            check_model_request(server)
        else:
            with pytest.raises(ChatDisallowedError, match=f"allowed to '{scope}' only"):
                check_model_request(server)

    if by == "block":
        with model_requests_allowed(scope):
            check()
    else:
        monkeypatch.setenv(SCOPE_VARIABLE, scope)
        check()


def test_the_inner_block_holds_and_ends():
    with model_requests_allowed("none"):
        with model_requests_allowed("any"):
            check_model_request("https://api.example.com/v1")
        with pytest.raises(ChatDisallowedError):
            check_model_request("https://api.example.com/v1")


def test_a_scope_that_does_not_exist(monkeypatch):
    with pytest.raises(InputError, match="got 'local'"), model_requests_allowed("local"):
        pass
    monkeypatch.setenv(SCOPE_VARIABLE, "off")
    with pytest.raises(InputError, match=f"{SCOPE_VARIABLE} must be"):
        check_model_request("http://localhost/v1")


def test_a_model_asks_nobody_when_the_switch_is_off():
    async def main():
        async with ChatServer([]) as server, server.model() as model:
            with model_requests_allowed("none"), pytest.raises(ChatDisallowedError):
                await model.complete(ASK)
            return server.requests

    assert run(main()) == []


def test_the_switch_holds_in_child_processes():
    code = (
        "from cnp_router.llm import *\n"
        "model = OpenAIChatModel(base_url='http://192.0.2.1/v1', max_retries=0)\n"
        "complete_sync(model, ChatRequest([ChatMessage('user', 'x')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ChatDisallowedError: model 'gpt-oss:20b' at http://192.0.2.1/v1" in done.stderr


def test_these_tests_ask_this_machine_only():
    model = OpenAIChatModel(base_url="http://192.0.2.1/v1")
    with pytest.raises(ChatDisallowedError):
        complete_sync(model, ASK)


# Tokens.


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("天気", 2), ("\ud800", 1), ("x" * 4000, 1000)],
)
def test_a_token_is_four_bytes(text, tokens):
    assert estimate_tokens(text) == tokens


def test_a_schema_counts_as_its_text():
    plain = estimate_request_tokens(ASK)
    assert plain == 3 + 4 + 3
    assert estimate_request_tokens(ChatRequest(ASK.messages, SCHEMA)) > plain + 15


# The offline model.


@dataclass(frozen=True)
class Task:
    text: str


class Narrower(Task):
    pass


OFFLINE = OfflineChatModel({Task: lambda task: {"apis": [task.text]}, str: lambda task: task})


@pytest.mark.parametrize("kind", [Task, Narrower])
def test_the_offline_model_answers_the_task(kind):
    response = complete_sync(OFFLINE, ChatRequest(ASK.messages, SCHEMA, kind("maps")))
    assert response.data == {"apis": ["maps"]}
    assert (response.model, response.usage.source, response.seconds) == ("offline", "estimated", 0)
    assert response == complete_sync(OFFLINE, ChatRequest(ASK.messages, SCHEMA, kind("maps")))


def test_the_offline_model_counts_the_rendered_prompt():
    longer = ChatRequest([ChatMessage("user", "x" * 4000)], task="hello")
    assert complete_sync(OFFLINE, longer).usage == Usage(1007, 2, "estimated")


def test_a_task_that_the_offline_model_does_not_know():
    with pytest.raises(InputError, match=r"task of type NoneType \(it knows: Task, str\)"):
        complete_sync(OFFLINE, ASK)


def test_an_offline_answer_must_fit_too():
    with pytest.raises(ChatAnswerError):
        complete_sync(OFFLINE, ChatRequest(ASK.messages, SCHEMA, "prose"))


def test_offline_answers_let_others_have_their_turn():
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        for _ in range(10):
            await OFFLINE.complete(ChatRequest(ASK.messages, task="x"))
        ticking.cancel()
        return ticks

    assert asyncio.run(main()) >= 9
