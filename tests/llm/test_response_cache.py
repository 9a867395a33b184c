"""The response cache: hits, misses, damage, company."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
from dataclasses import replace

import pytest
from chat_server import KEY, ChatServer, completion, refusal, run

from cnp_router.exceptions import ChatRateLimitError, ChatTimeoutError, DataFileError
from cnp_router.llm import CachedChatModel, ChatMessage, ChatRequest, complete_sync
from cnp_router.llm.cache import CacheStats
from cnp_router.testing import Delayed, FunctionChatModel, ScriptedChatModel

SCHEMA = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}
ASK = ChatRequest([ChatMessage("user", "Which APIs?")], SCHEMA, temperature=0.0)
MAPS = {"apis": ["maps"]}


def entries(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_second_time_is_from_the_folder(tmp_path):
    scripted = ScriptedChatModel([MAPS])
    first = complete_sync(CachedChatModel(scripted, tmp_path / "a" / "b"), ASK)
    again = CachedChatModel(scripted, tmp_path / "a" / "b")
    second = complete_sync(again, ASK)
    assert (first.cached, second.cached) == (False, True)
    assert replace(second, cached=False) == first
    assert again.stats == CacheStats(hits=1)
    scripted.assert_done()


def test_all_that_the_answer_depends_on_is_in_the_key(tmp_path):
    others = [
        replace(ASK, messages=[ChatMessage("user", "Which APIs")]),
        replace(ASK, messages=[ChatMessage("system", "Which APIs?")]),
        replace(ASK, messages=[ChatMessage("user", "Which "), ChatMessage("user", "APIs?")]),
        replace(ASK, schema={**SCHEMA, "title": "x"}),
        replace(ASK, schema=None),
        replace(ASK, max_tokens=5),
        replace(ASK, temperature=0.5),
        replace(ASK, temperature=None),
        replace(ASK, seed=1),
    ]
    model = CachedChatModel(FunctionChatModel(lambda request: MAPS), tmp_path)
    for request in [ASK, *others]:
        assert not complete_sync(model, request).cached
    for request in [ASK, *others, replace(ASK, task="another")]:
        assert complete_sync(model, request).cached
    other = CachedChatModel(FunctionChatModel(lambda request: MAPS, name="other"), tmp_path)
    assert not complete_sync(other, ASK).cached
    assert model.stats == CacheStats(hits=11, misses=10)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def altered(path):
    path.write_bytes(path.read_bytes().replace(b"maps", b"mops"))


def moved(path):
    other = replace(ASK, seed=7)
    complete_sync(CachedChatModel(ScriptedChatModel([{"apis": []}]), path.parents[1]), other)
    [source] = [p for p in entries(path.parents[1]) if p != path]
    path.write_bytes(source.read_bytes())
    source.unlink()


def made_a_folder(path):
    path.unlink()
    path.mkdir()


DAMAGE = [
    truncated,
    altered,
    moved,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"\xff\xfe"),
    lambda path: path.write_bytes(b"[1]"),
    lambda path: path.write_bytes(b"[" * 100_000),
    lambda path: path.write_bytes(path.read_bytes().replace(b'"format": 2', b'"format": 99')),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_entry_is_counted_asked_anew_and_replaced(damage, tmp_path, caplog):
    model = CachedChatModel(ScriptedChatModel([MAPS, {"apis": ["sms"]}]), tmp_path)
    complete_sync(model, ASK)
    [path] = entries(tmp_path)
    damage(path)
    responses = [complete_sync(model, ASK) for _ in range(2)]
    assert [(r.data["apis"], r.cached) for r in responses] == [(["sms"], False), (["sms"], True)]
    assert model.stats == CacheStats(hits=1, misses=2, damaged=1)
    assert "cannot be used and is asked anew" in caplog.text


def test_an_answer_that_cannot_be_kept_is_not_lost(tmp_path, caplog):
    model = CachedChatModel(ScriptedChatModel([MAPS, MAPS]), tmp_path)
    complete_sync(model, ASK)
    made_a_folder(*entries(tmp_path))
    assert complete_sync(model, ASK).data == MAPS
    assert model.stats == CacheStats(misses=2, damaged=1, unwritten=1)
    assert "could not be kept" in caplog.text
    assert entries(tmp_path) == []  # no temporary file either


def test_a_place_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataFileError, match="no cache can be there"):
        CachedChatModel(ScriptedChatModel([]), tmp_path / "file")


def test_errors_are_not_kept(tmp_path):
    model = CachedChatModel(ScriptedChatModel([ChatTimeoutError("late"), MAPS]), tmp_path)
    with pytest.raises(ChatTimeoutError):
        complete_sync(model, ASK)
    assert complete_sync(model, ASK).data == MAPS


def test_identical_requests_at_once_are_asked_once(tmp_path):
    scripted = ScriptedChatModel([Delayed(0.02, MAPS)])
    model = CachedChatModel(scripted, tmp_path)

    async def main():
        return await asyncio.gather(*(model.complete(ASK) for _ in range(5)))

    responses = run(main())
    assert sorted(r.cached for r in responses) == [False, True, True, True, True]
    assert model.stats == CacheStats(misses=1, hits=4)
    assert not model._locks
    scripted.assert_done()


def test_different_requests_do_not_wait_for_each_other(tmp_path):
    async def both(request):
        await barrier.wait()
        return MAPS

    async def main():
        nonlocal barrier
        barrier = asyncio.Barrier(2)
        model = CachedChatModel(FunctionChatModel(both), tmp_path)
        return await asyncio.gather(model.complete(ASK), model.complete(replace(ASK, seed=1)))

    barrier = None
    assert len(run(main())) == 2


def test_whoever_waits_takes_over_from_one_who_is_cancelled(tmp_path):
    scripted = ScriptedChatModel([Delayed(60, MAPS), MAPS])
    model = CachedChatModel(scripted, tmp_path)

    async def main():
        first, second = (asyncio.create_task(model.complete(ASK)) for _ in range(2))
        while not scripted.calls:
            await asyncio.sleep(0)
        first.cancel()
        response = await second
        assert first.cancelled()
        return response

    assert run(main()).data == MAPS
    gc.collect()  # the error of the one who was cancelled holds on to its lock
    assert not model._locks


def test_no_key_is_in_the_folder(tmp_path):
    async def main():
        replies = [completion(f"your key is {KEY}"), refusal(429, KEY)]
        async with ChatServer(replies) as server, server.model() as inner:
            model = CachedChatModel(inner, tmp_path)
            await model.complete(replace(ASK, schema=None))
            with pytest.raises(ChatRateLimitError):
                await model.complete(replace(ASK, schema=None, seed=1))

    run(main())
    [path] = entries(tmp_path)
    assert KEY not in path.read_text()
    assert "your key is ***" in json.loads(path.read_text())["response"]["text"]


def ask_many(folder, seconds):
    model = CachedChatModel(FunctionChatModel(lambda request: MAPS), folder)
    for round_ in range(40):
        response = complete_sync(model, replace(ASK, seed=round_ % 4))
        if response.data != MAPS:
            raise SystemExit(1)
    raise SystemExit(2 if model.stats.damaged or model.stats.unwritten else 0)


def test_two_processes_share_a_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=ask_many, args=(tmp_path, 1)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    assert len(entries(tmp_path)) == 4


def test_closing_closes_the_model(tmp_path):
    async def main():
        # The end of the server says whether a connection was left open.
        async with (
            ChatServer([completion(MAPS)]) as server,
            CachedChatModel(server.model(), tmp_path) as model,
        ):
            await model.complete(ASK)

    run(main())
