"""The public fakes are strict."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from chat_server import run

from cnp_router.exceptions import ChatAnswerError, ChatTimeoutError
from cnp_router.llm import ChatMessage, ChatRequest, ChatResponse, Usage, complete_sync
from cnp_router.testing import Delayed, FakeError, FunctionChatModel, ScriptedChatModel

SCHEMA = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}
FREE = ChatRequest([ChatMessage("user", "Which APIs?")])
ASK = ChatRequest(FREE.messages, SCHEMA)
MAPS = {"apis": ["maps"]}


def test_answers_come_in_order_and_calls_are_recorded():
    ready = ChatResponse("x", None, Usage(1, 1, "server"), "real", 0.5)
    model = ScriptedChatModel(["Maps.", MAPS, '{"apis": []}', ready])
    responses = [complete_sync(model, request) for request in (FREE, ASK, ASK, FREE)]
    assert [r.text for r in responses[:1]] == ["Maps."]
    assert [r.data for r in responses[:3]] == [None, MAPS, {"apis": []}]
    assert responses[3] is ready
    assert responses[0].usage == Usage(10, 2, "estimated")
    assert model.calls == [FREE, ASK, ASK, FREE]
    model.assert_done()


def test_an_unexpected_call_is_reported_also_when_somebody_caught_it():
    model = ScriptedChatModel([])

    async def main():
        async with model:
            with suppress(Exception):
                await model.complete(FREE)

    with pytest.raises(FakeError, match="0 answers were prepared, and there were 1 calls"):
        run(main())


def test_leftovers_are_reported():
    async def main():
        async with ScriptedChatModel(["a", "b"]) as model:
            await model.complete(FREE)

    with pytest.raises(FakeError, match="2 answers were prepared, and there were 1 calls"):
        run(main())


def test_leftovers_do_not_hide_another_error():
    async def main():
        async with ScriptedChatModel(["a"]):
            raise KeyError("the real one")

    with pytest.raises(KeyError):
        run(main())


@pytest.mark.parametrize("error", [ChatTimeoutError("late"), OSError("disk")])
@pytest.mark.parametrize("late", [False, True])
def test_errors_can_be_scripted(error, late):
    model = ScriptedChatModel([Delayed(0.01, error) if late else error])
    with pytest.raises(type(error)):
        complete_sync(model, FREE)
    model.assert_done()


def test_delays_can_be_scripted():
    async def main():
        model = ScriptedChatModel([Delayed(0.03, "slow"), "fast"])
        began = time.perf_counter()
        slow, fast = await asyncio.gather(model.complete(FREE), model.complete(FREE))
        assert time.perf_counter() - began >= 0.03
        return slow.text, fast.text

    assert run(main()) == ("slow", "fast")


def test_a_text_off_the_schema_is_the_models_fault():
    with pytest.raises(ChatAnswerError):
        complete_sync(ScriptedChatModel(["Maps."]), ASK)


@pytest.mark.parametrize("answer", [{"api": 1}, 7, None])
def test_a_prepared_answer_that_makes_no_sense_is_the_tests_fault(answer):
    with pytest.raises(FakeError):
        complete_sync(ScriptedChatModel([answer]), ASK)


def test_a_function_answers():
    async def later(request):
        await asyncio.sleep(0)
        return MAPS

    for function in (later, lambda request: MAPS, lambda request: '{"apis": ["maps"]}'):
        model = FunctionChatModel(function)
        assert complete_sync(model, ASK).data == MAPS
        assert model.calls == [ASK]


def test_a_function_may_raise_or_return_an_error():
    def raising(request):
        raise ChatTimeoutError("late")

    for function in (raising, lambda request: ChatTimeoutError("late")):
        with pytest.raises(ChatTimeoutError):
            complete_sync(FunctionChatModel(function), FREE)
