"""A round that is cancelled leaves no task behind, and nothing that nobody waited for."""

from __future__ import annotations

import asyncio
import gc

import pytest
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
from cnp_router.protocols import ContractNet, RoundSettings

POINTS = [
    ("manager-led", Decompose),
    ("manager-led", MapCategories),
    ("manager-led", MatchFunction),
    ("manager-led", SelectApis),
    ("contractor-led", InterpretRequest),
    ("contractor-led", SelectApis),
    ("collaborative", ServeFunction),
    ("single-agent", ComposeAlone),
]


def cancelled_round(model, reached, *, turns=1, protocol="contractor-led", **settings):
    """Cancel a round some turns after a point is reached, and look at what is left."""
    complaints = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        net = ContractNet(
            CATALOG, model, router=PlantedRouter(), settings=RoundSettings(**settings)
        )
        task = asyncio.create_task(net.run(REQUEST, protocol=protocol, announcement="broadcast"))
        await asyncio.wait_for(reached.wait(), 5)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    gc.collect()
    assert complaints == []


@pytest.mark.parametrize(("protocol", "kind"), POINTS)
@pytest.mark.parametrize("concurrency", [1, 64])
def test_at_each_step(protocol, kind, concurrency):
    reached = asyncio.Event()

    async def stop(task):
        reached.set()
        await asyncio.Event().wait()

    model = acting({}, {kind: stop})
    cancelled_round(model, reached, protocol=protocol, max_concurrency=concurrency)


@pytest.mark.parametrize("turns", range(8))
def test_while_contractors_answer(turns):
    reached = asyncio.Event()

    async def answer(task):
        reached.set()
        for _ in range(4):
            await asyncio.sleep(0)
        return propose(task)

    async def select(task):
        await asyncio.Event().wait()

    model = acting({}, {InterpretRequest: answer, SelectApis: select})
    cancelled_round(model, reached, turns=turns, max_concurrency=2)


def test_while_late_contractors_are_sent_home():
    reached = asyncio.Event()

    async def take_leave_slowly(task):
        try:
            await asyncio.Event().wait()
        finally:
            reached.set()
            await asyncio.sleep(0.02)

    model = acting({"sms": take_leave_slowly})
    cancelled_round(model, reached, deadline=0.05)


def test_a_contractor_that_fails_on_its_way_home():
    reached = asyncio.Event()

    async def fall(task):
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("a bug in cleaning up")

    cancelled_round(acting({"sms": fall}), reached)
