"""One act is done once, whatever goes wrong around it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from doors import QUICK, Later, World, gateway, run

from cnp_router import Step, Trajectory
from cnp_router.exceptions import InputError, UnknownSearchError
from cnp_router.prediction import NextToolPolicy, NextToolRouter
from cnp_router.serving import Client, SearchLog, Teaching
from cnp_router.sources import CallResult
from cnp_router.testing import ScriptedChatModel

WRITER = Client("ann", allow_write=True)
WRITES = replace(QUICK, allow_write=True)


def send(door, search_id=None, key="k"):
    return door.call("mail__send", {"text": "x"}, search_id, client=WRITER, key=key)


def test_what_was_done_is_answered_though_what_is_next_is_not_known(tmp_path, caplog):
    class Odd(Teaching):
        def next(self, query, steps, may_call):
            raise RuntimeError("odd")

    mail = World("mail")

    async def main():
        async with gateway(mail, settings=WRITES, teaching=Odd(tmp_path / "online.sqlite")) as door:
            search = await door.search("send", client=WRITER)
            return [await send(door, search.search_id) for _ in range(2)]

    assert [each.result.text for each in run(main())] == ["fine", "fine"]
    assert len(mail.calls) == 1
    assert "what is likely to be called next is not known" in caplog.text


def test_no_model_is_asked_for_what_is_next(tmp_path):
    model = ScriptedChatModel([])
    router = NextToolRouter(model=model, policy=NextToolPolicy.fixed(1.0))
    for n in range(200):
        steps = (Step("mail__send"), Step(("mail__read", "sky__rain", "sky__wind")[n % 3]))
        router.observe(Trajectory(f"t{n}", f"act {n}", steps))
    teaching = Teaching(tmp_path / "online.sqlite", next_tool=router)

    async def main():
        async with gateway(settings=WRITES, teaching=teaching) as door:
            search = await door.search("send", client=WRITER)
            return await send(door, search.search_id)

    assert run(main()).next == ()
    assert model.calls == []


def test_what_was_done_is_answered_though_the_log_has_a_fault_that_nobody_expected(caplog):
    class Odd(SearchLog):
        def end(self, number, call):
            raise RuntimeError("odd")

    mail = World("mail")

    async def main():
        with Odd() as log:
            async with gateway(mail, settings=WRITES, log=log) as door:
                search = await door.search("send", client=WRITER)
                return [await send(door, search.search_id) for _ in range(2)]

    assert all(each.result.is_done for each in run(main()))
    assert len(mail.calls) == 1
    assert "what came of a call is not learned" in caplog.text


def test_what_was_done_is_answered_though_the_gateway_was_closed_meanwhile(monkeypatch, caplog):
    from cnp_router.serving import gateway as module

    monkeypatch.setattr(module, "_PATIENCE", 1)
    may_end = asyncio.Event()

    async def slow(call):
        await may_end.wait()
        return "sent"

    mail = World("mail", {"mail__send": slow})

    async def main():
        async with gateway(mail, settings=WRITES) as door:
            search = await door.search("send", client=WRITER)
            sending = asyncio.create_task(send(door, search.search_id))
            while not mail.calls:
                await asyncio.sleep(0.01)
            await door.__aexit__()
            may_end.set()
            called = await sending
            await door.__aenter__()
            return called

    assert run(main()).result.text == "sent"
    assert "the gateway was closed meanwhile" in caplog.text


def test_a_source_that_breaks_off_in_an_unknown_way_is_not_asked_again(monkeypatch):
    from cnp_router.execution import Caller

    calls = []

    async def odd(self, *args, **options):
        calls.append(args)
        raise RuntimeError("odd")

    monkeypatch.setattr(Caller, "perform", odd)

    async def main():
        async with gateway(settings=WRITES) as door:
            search = await door.search("send", client=WRITER)
            with pytest.raises(RuntimeError):
                await send(door, search.search_id)
            return (await send(door, search.search_id)).result.failure

    failure = run(main())
    assert failure.was_done == "unknown"
    assert len(calls) == 1


def test_a_key_is_the_same_act_after_another_search():
    mail = World("mail")

    async def main():
        async with gateway(mail, settings=WRITES) as door:
            for _ in range(2):  # the connection broke, and the agent begins anew
                search = await door.search("send", client=WRITER)
                called = await send(door, search.search_id)
            return called

    assert run(main()).result.is_done
    assert len(mail.calls) == 1


def test_a_key_of_a_call_for_an_unknown_search_can_be_used():
    mail = World("mail")

    async def main():
        async with gateway(mail, settings=WRITES) as door:
            wrong = [send(door, "0" * 32) for _ in range(2)]
            done = await asyncio.gather(*wrong, return_exceptions=True)
            assert [type(each) for each in done] == 2 * [UnknownSearchError]
            return await send(door)

    assert run(main()).result.is_done
    assert len(mail.calls) == 1


@pytest.mark.parametrize("where", ["claim_key", "begin"])
def test_what_was_given_up_before_it_began_can_be_tried_again(where, monkeypatch):
    log, may_go, is_there = SearchLog(), threading.Event(), threading.Event()
    before = getattr(log, where)

    def slow(*args, **options):
        is_there.set()
        may_go.wait(10)
        return before(*args, **options)

    mail = World("mail")

    async def main():
        async with gateway(mail, settings=WRITES, log=log, teaching=Later()) as door:
            search = await door.search("send", client=WRITER)
            monkeypatch.setattr(log, where, slow)
            sending = asyncio.create_task(send(door, search.search_id))
            while not is_there.is_set():
                await asyncio.sleep(0.01)
            sending.cancel()
            asyncio.get_running_loop().call_later(0.05, may_go.set)
            with pytest.raises(asyncio.CancelledError):
                await sending
            monkeypatch.setattr(log, where, before)
            assert mail.calls == []
            called = await send(door, search.search_id)
            log.finish_own()
            return called.result, log.finished(idle=10**6)

    result, (over,) = run(main())
    assert result.is_done
    assert len(mail.calls) == 1
    assert len(over.calls) == 1  # what was not begun is no step
    log.close()


def test_what_was_given_up_after_it_was_done_is_answered(monkeypatch):
    log, may_go, is_there = SearchLog(), threading.Event(), threading.Event()
    end = log.end

    def slow(*args):
        is_there.set()
        may_go.wait(10)
        end(*args)

    monkeypatch.setattr(log, "end", slow)
    mail = World("mail", {"mail__send": CallResult("sent")})

    async def main():
        async with gateway(mail, settings=WRITES, log=log, teaching=Later()) as door:
            search = await door.search("send", client=WRITER)
            sending = asyncio.create_task(send(door, search.search_id))
            while not is_there.is_set():
                await asyncio.sleep(0.01)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            may_go.set()
            called = await send(door, search.search_id)
            await door._logged(log.finish_own)
            return called.result.text, log.finished(idle=10**6)

    text, (over,) = run(main())
    assert text == "sent"
    assert len(mail.calls) == 1
    assert [(call.success, call.served) for call in over.calls] == [(True, True)]
    log.close()


def test_a_key_of_another_worker_is_not_given_back_by_who_gives_up(monkeypatch):
    log = SearchLog()
    mail = World("mail")

    async def main():
        async with gateway(mail, settings=WRITES, log=log) as one:
            await send(one)
            async with gateway(mail, settings=WRITES, log=log) as other:
                sending = asyncio.create_task(send(other))
                await asyncio.sleep(0)  # it waits for the claim
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                return (await send(other)).result.failure

    assert run(main()).was_done == "unknown"
    assert len(mail.calls) == 1
    log.close()


def test_inputs_that_are_not_those_of_the_key():
    async def main():
        async with gateway(settings=WRITES) as door:
            await send(door)
            with pytest.raises(InputError, match="the key was given for other inputs"):
                await door.call("mail__send", {"text": "y"}, client=WRITER, key="k")

    run(main())
