"""A round has a total time, the manager included, and ends with what it knows and has paid."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from chat_server import run
from negotiation import CATALOG, REQUEST, PlantedRouter, acting, propose

from cnp_router.agents import (
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    SelectApis,
    ServeFunction,
)
from cnp_router.exceptions import RoundFailedError
from cnp_router.llm import ChatModel, OpenAIChatModel, model_requests_allowed
from cnp_router.protocols import ContractNet, RoundSettings

SOON = 0.3  # seconds


async def hang(task):
    await asyncio.Event().wait()


def failed(model, *, protocol="contractor-led", **settings):
    net = ContractNet(
        CATALOG, model, router=PlantedRouter(), settings=RoundSettings(timeout=SOON, **settings)
    )
    began = time.perf_counter()

    async def main():
        with pytest.raises(RoundFailedError, match=r"took longer than 0\.3 s \(raise") as caught:
            await net.run(REQUEST, protocol=protocol, announcement="broadcast")
        assert asyncio.all_tasks() == {asyncio.current_task()}  # all workers are gone
        return caught.value

    error = asyncio.run(main())
    assert time.perf_counter() - began < 10
    return error.transcript


def test_there_is_a_limit_by_default():
    assert 0 < RoundSettings().timeout <= 3_600
    assert RoundSettings(timeout=None).timeout is None


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        ("manager-led", Decompose),
        ("manager-led", MapCategories),
        ("manager-led", MatchFunction),
        ("contractor-led", InterpretRequest),
        ("contractor-led", SelectApis),
        ("collaborative", ServeFunction),
        ("single-agent", ComposeAlone),
    ],
)
def test_whoever_hangs_does_not_keep_the_round(protocol, kind):
    transcript = failed(acting({}, {InterpretRequest: propose, kind: hang}), protocol=protocol)
    assert transcript.messages[0].performative == "request"
    unanswered = [call for call in transcript.calls if call.tokens_out == 0]
    assert unanswered  # the prompts were sent, and are booked
    assert all(call.tokens_in > 0 and call.tokens_are == "estimated" for call in unanswered)
    open_calls = transcript.ledger.messages.get("cfp", 0)
    replies = ("propose", "refuse", "failure")
    assert sum(transcript.ledger.messages.get(name, 0) for name in replies) == open_calls


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [("manager-led", Decompose), ("contractor-led", InterpretRequest), ("single-agent", None)],
)
def test_a_model_that_holds_back_cancellation_is_left(protocol, kind, monkeypatch, caplog):
    monkeypatch.setattr("cnp_router.protocols.bidding.GRACE", 0.05)

    async def main():
        over = asyncio.Event()
        asked = []

        async def stubborn(task):
            asked.append(task)
            while not over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await over.wait()

        net = ContractNet(
            CATALOG,
            acting({}, {kind or ComposeAlone: stubborn}),
            settings=RoundSettings(timeout=SOON, max_concurrency=2),
        )
        with pytest.raises(RoundFailedError, match="longer") as caught:
            await asyncio.wait_for(net.run(REQUEST, protocol=protocol, announcement="broadcast"), 5)
        n_messages, n_asked = len(caught.value.transcript.messages), len(asked)
        over.set()  # those that were left end now: nothing more is asked or said
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        assert (len(caught.value.transcript.messages), len(asked)) == (n_messages, n_asked)

    asyncio.run(main())
    assert "did not stop within 0.05 s, and were left" in caplog.text
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_what_was_paid_before_is_booked():
    transcript = failed(acting({"sms": hang}, {InterpretRequest: propose, SelectApis: hang}))
    paid = [call for call in transcript.calls if call.tokens_out]
    assert {call.agent for call in paid} == set(CATALOG.ids) - {"sms"}


def test_a_timeout_of_the_model_itself_is_not_taken_for_it():
    class Slow(ChatModel):
        name = "slow"

        async def complete(self, request):
            raise TimeoutError("socket")

    net = ContractNet(CATALOG, Slow())
    with pytest.raises(TimeoutError, match="socket"):
        run(net.run(REQUEST, protocol="single-agent", announcement="broadcast"))


def test_a_server_that_answers_a_byte_a_second_does_not_keep_it():
    async def drip(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        try:
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def main():
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        model = OpenAIChatModel("m", base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        net = ContractNet(CATALOG, model, settings=RoundSettings(timeout=SOON))
        async with model:
            with (
                model_requests_allowed("loopback"),
                pytest.raises(RoundFailedError, match="longer"),
            ):
                await net.run(REQUEST, protocol="single-agent", announcement="broadcast")
        server.close()

    began = time.perf_counter()
    asyncio.run(main())
    assert time.perf_counter() - began < 10
