"""What workers share of what their calls gave, when the store of it has a fault."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from doors import QUICK, World, gateway, run

from cnp_router.context import ContextStore, MemoryContextStore, SharedContext
from cnp_router.exceptions import ContextStoreError
from cnp_router.serving import Client, kept_results

WRITER = Client("ann", allow_write=True)
WRITES = replace(QUICK, allow_write=True)
NOT_USED = ["shared context is not used at present"]


class Faulty(ContextStore):
    """A way to a store that can be reached only as long as the test says so."""

    def __init__(self, store=None):
        self.store = store or MemoryContextStore()
        self.works = True

    def _there(self):
        if not self.works:
            raise ContextStoreError("here", "gone")
        return self.store

    async def put(self, entry):
        await self._there().put(entry)

    async def get(self, entry_id):
        return await self._there().get(entry_id)

    async def live(self):
        return await self._there().live()

    async def delete(self, *entry_ids):
        return await self._there().delete(*entry_ids)


def counted(world):
    """A mailbox that says how often it was read."""
    world.answers["mail__read"] = lambda call: f"answer {len(world.calls)}"
    return world


def read(door):
    return door.call("mail__read", {"text": "x"}, client=WRITER)


def write(door):
    return door.call("mail__send", {"text": "x"}, client=WRITER)


def test_while_shared_context_is_away_it_goes_on_without_it(caplog):
    mail, store = counted(World("mail")), Faulty()

    async def main():
        async with SharedContext(store) as context, gateway(mail, context=context) as door:
            store.works = False
            for _ in range(3):
                assert (await read(door)).result.is_done
            return door.status()["problems"]

    assert run(main()) == NOT_USED
    assert len(mail.calls) == 3
    assert caplog.text.count("is not used at present") == 1


def test_shared_context_that_is_away_is_known_from_the_start():
    store = Faulty()
    store.works = False

    async def main():
        async with SharedContext(store) as context, gateway(World("mail"), context=context) as door:
            return door.status()["problems"]

    assert run(main()) == NOT_USED


def test_when_shared_context_is_back_it_is_used_again(monkeypatch, caplog):
    monkeypatch.setattr(kept_results, "_AGAIN_SECONDS", 0.0)
    mail, store = counted(World("mail")), Faulty()

    async def main():
        async with SharedContext(store) as context, gateway(mail, context=context) as door:
            store.works = False
            await read(door)
            await read(door)
            assert door.status()["problems"] == NOT_USED
            store.works = True
            texts = [(await read(door)).result.text for _ in range(3)]
            assert door.status()["problems"] == []
            return texts

    assert run(main()) == ["answer 3", "answer 3", "answer 3"]
    assert caplog.text.count("is not used at present") == 1
    assert caplog.text.count("is used again") == 1


@asynccontextmanager
async def two(mail):
    """Two workers that share a context, and the way of the first to it."""
    way = Faulty()
    async with (
        SharedContext(way) as hers,
        SharedContext(way.store) as his,
        gateway(mail, context=hers, settings=WRITES) as one,
        gateway(mail, context=his, settings=WRITES) as other,
    ):
        yield way, one, other


def test_a_write_soon_after_a_fault_is_known_to_the_other_workers():
    mail = counted(World("mail"))

    async def main():
        async with two(mail) as (way, one, other):
            await read(other)
            way.works = False
            await read(one)
            way.works = True
            await write(one)
            return (await read(other)).result.text

    assert run(main()) == "answer 4"


def test_a_write_during_a_fault_is_known_as_soon_as_it_can_be(monkeypatch):
    monkeypatch.setattr(kept_results, "_AGAIN_SECONDS", 0.02)
    mail = counted(World("mail"))

    async def main():
        async with two(mail) as (way, one, other):
            await read(other)
            way.works = False
            await write(one)
            await asyncio.sleep(0.1)
            assert (await read(other)).result.text == "answer 1"  # nobody could tell
            way.works = True  # and nothing more is called there
            for _ in range(1500):
                await asyncio.sleep(0.02)
                if (text := (await read(other)).result.text) != "answer 1":
                    return text

    assert run(main()) == "answer 3"


def test_what_it_reads_itself_is_not_from_before_a_write_during_a_fault(monkeypatch):
    monkeypatch.setattr(kept_results, "_AGAIN_SECONDS", 3600.0)
    mail = counted(World("mail"))

    async def main():
        async with two(mail) as (way, one, _):
            await read(one)
            way.works = False
            await write(one)
            way.works = True
            one._caller.kept._again = 0.0  # the time is over
            return (await read(one)).result.text

    assert run(main()) == "answer 3"


def test_a_write_that_was_given_up_is_known_too(monkeypatch):
    monkeypatch.setattr(kept_results, "_AGAIN_SECONDS", 0.02)

    async def slow(call):
        await asyncio.sleep(30)

    mail = counted(World("mail", {"mail__send": slow}))

    async def main():
        async with two(mail) as (_, one, other):
            writing = asyncio.create_task(write(one))
            while not mail.calls:
                await asyncio.sleep(0.01)
            await read(other)  # before it was done, perhaps
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            for _ in range(1500):
                await asyncio.sleep(0.02)
                if (text := (await read(other)).result.text) != "answer 2":
                    return text

    assert run(main()) == "answer 3"


def test_the_end_says_what_is_unsaid(monkeypatch):
    monkeypatch.setattr(kept_results, "_AGAIN_SECONDS", 3600.0)
    mail, way = counted(World("mail")), Faulty()

    async def main():
        async with (
            SharedContext(way.store) as his,
            gateway(mail, context=his, settings=WRITES) as other,
        ):
            await read(other)
            async with (
                SharedContext(way) as hers,
                gateway(mail, context=hers, settings=WRITES) as one,
            ):
                way.works = False
                await write(one)
                way.works = True
            return (await read(other)).result.text

    assert run(main()) == "answer 3"


def test_a_fault_that_nobody_expected_takes_no_result_away(caplog):
    class Odd(Faulty):
        async def put(self, entry):
            raise RuntimeError("odd")

    async def main():
        async with SharedContext(Odd()) as context, gateway(context=context) as door:
            return (await read(door)).result.is_done

    assert run(main())
    assert "what a call of mail__read gave is not shared" in caplog.text
