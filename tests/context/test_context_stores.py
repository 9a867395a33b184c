"""Stores of context: one conduct for all of them, and what each has for itself."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing, contextmanager

import pytest

from cnp_router.context import (
    ContextEntry,
    MemoryContextStore,
    RedisContextStore,
    SqliteContextStore,
    store_at,
)
from cnp_router.exceptions import ContextStoreError, InputError
from tests.redis_server import redis_server

NOW = 1_900_000_000.0


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


def entry(name="ctx_1", **fields):
    fields = {"source": "weather__today", "data": {"rain": 0.4}, "time": NOW, **fields}
    return ContextEntry(id=name, **fields)


@pytest.fixture(scope="module")
def redis():
    with redis_server() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request, tmp_path):
    clock = Clock()
    if request.param == "memory":
        store = MemoryContextStore(clock=clock)
    elif request.param == "sqlite":
        store = SqliteContextStore(tmp_path / "context.db", clock=clock)
    else:
        server = request.getfixturevalue("redis")
        store = RedisContextStore(server.url, namespace=request.node.name)
    store.clock = clock
    yield store
    asyncio.run(store.aclose())


def run(*work):
    async def all_of_it():
        return [await each for each in work]

    return asyncio.run(all_of_it())[-1]


FULL = entry(
    "ctx_full",
    data=None,
    said="nothing yet — 何も",
    text="the weather",
    vector={"weather": 0.5, "rain": 0.25},
    ttl=60,
    data_class="public",
    dependencies=("ctx_1",),
    reads=True,
    user="aiko",
    execution="e1",
)


@pytest.mark.parametrize("kept", [entry(), FULL, entry(vector=(0.5, -1.0)), entry(data="sunny")])
def test_what_is_put_is_there_as_it_was(store, kept):
    run(store.put(kept))
    assert run(store.get(kept.id)) == kept
    assert run(store.live()) == (kept,)


def test_what_is_not_there_is_none(store):
    assert run(store.get("ctx_1")) is None
    assert run(store.live()) == ()
    assert run(store.delete("ctx_1")) == 0


def test_the_same_id_takes_the_place(store):
    run(store.put(entry()), store.put(entry(data="dry", time=NOW + 1)))
    assert [each.data for each in run(store.live())] == ["dry"]


def test_the_oldest_come_first(store):
    times = {"ctx_b": NOW - 3, "ctx_a": NOW - 1, "ctx_c": NOW - 2}
    for name, time in sorted(times.items(), key=lambda each: each[1]):
        run(store.put(entry(name, time=time)))
    assert [each.id for each in run(store.live())] == ["ctx_b", "ctx_c", "ctx_a"]


def test_deleting_says_how_many_were_there(store):
    run(store.put(entry("ctx_1")), store.put(entry("ctx_2")))
    assert run(store.delete("ctx_1", "ctx_9")) == 1
    assert run(store.get("ctx_1")) is None


@pytest.mark.parametrize(
    ("whose", "left"),
    [
        ({"user": "aiko"}, ["ctx_3"]),
        ({"execution": "e1"}, ["ctx_2"]),
        ({"execution": "e1", "user": "aiko"}, ["ctx_2", "ctx_3"]),
        ({"user": "nobody"}, ["ctx_1", "ctx_2", "ctx_3"]),
    ],
)
def test_what_is_somebodys_is_erased(store, whose, left):
    for name, user, execution in (
        ("ctx_1", "aiko", "e1"),
        ("ctx_2", "aiko", "e2"),
        ("ctx_3", "ben", "e1"),
    ):
        run(store.put(entry(name, user=user, execution=execution)))
    assert run(store.erase(**whose)) == 3 - len(left)
    assert [each.id for each in run(store.live())] == left


def test_erasing_needs_somebody(store):
    with pytest.raises(InputError, match="whose context"):
        run(store.erase())


def test_a_store_serves_several_threads_and_event_loops(store):
    def work(number):
        for each in range(10):
            run(store.put(entry(f"ctx_{number}_{each}")), store.live())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(run(store.live())) == 40


def test_what_has_expired_is_gone(store):
    if isinstance(store, RedisContextStore):
        pytest.skip("the server's clock is its own; see the test below")
    run(store.put(entry()))
    store.clock.now += 299
    assert run(store.get("ctx_1")) is not None
    store.clock.now += 1
    assert run(store.get("ctx_1")) is None
    assert run(store.live()) == ()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_there_is_room_for_so_many_and_the_oldest_goes(kind, tmp_path):
    sizes = {"max_entries": 2, "max_bytes": 3_000, "clock": Clock()}
    store = (
        MemoryContextStore(**sizes)
        if kind == "memory"
        else SqliteContextStore(tmp_path / "c.db", **sizes)
    )
    for number in range(3):
        run(store.put(entry(f"ctx_{number}", time=NOW + number)))
    assert [each.id for each in run(store.live())] == ["ctx_1", "ctx_2"]
    run(store.put(entry("ctx_large", data="x" * 2_600, time=NOW + 4)))
    assert [each.id for each in run(store.live())] == ["ctx_large"]
    run(store.put(entry("ctx_large", data="x" * 4_000, time=NOW + 5)))
    assert run(store.live()) == ()
    run(store.aclose())


def test_redis_lets_an_entry_go_by_its_own_clock(redis):
    import redis as library

    store = RedisContextStore(redis.url, namespace="ttl")
    run(store.put(entry(ttl=60)))
    with closing(library.Redis.from_url(redis.url)) as client:
        key = "ttl:context:ctx_1"
        assert 59_000 < client.pttl(key) <= 60_000
        client.pexpire(key, 1)
        while client.exists(key):
            pass
    assert run(store.get("ctx_1")) is None
    run(store.aclose())


def test_redis_says_how_much_of_its_memory_is_used_where_that_is_limited(redis):
    import redis as library

    store = RedisContextStore(redis.url, namespace="usage")
    with closing(library.Redis.from_url(redis.url)) as client:
        used = client.info("memory")["used_memory"]
        assert run(store.usage()) is None
        client.config_set("maxmemory", 4 * used)
        try:
            usage = run(store.usage())
        finally:
            client.config_set("maxmemory", 0)
    asyncio.run(store.aclose())
    assert 0.1 < usage < 0.6


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_has_expired_takes_no_room(kind, tmp_path):
    clock = Clock()
    how = {"max_entries": 4, "clock": clock}
    store = (
        MemoryContextStore(**how)
        if kind == "memory"
        else SqliteContextStore(tmp_path / "c.db", **how)
    )
    for number in range(3):
        run(store.put(entry(f"ctx_{number}", ttl=60 + 60 * number)))
    assert run(store.usage()) == 0.75
    clock.now += 60
    assert run(store.usage()) == 0.5
    clock.now += 600
    assert run(store.usage()) == 0
    run(store.aclose())


def test_a_file_says_how_full_it_is_while_another_process_writes(tmp_path):
    path = tmp_path / "context.db"
    with (
        sqlite_store(path, max_entries=4, busy=0.0) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        run(store.put(entry()))
        other.execute("BEGIN IMMEDIATE")
        assert run(store.usage()) == 0.25


class Mute(MemoryContextStore):
    """Cannot say how full it is, for the first times that it is asked."""

    asked = 0
    times = 2

    async def usage(self):
        self.asked += 1
        if self.asked <= self.times:
            raise ContextStoreError("it", "no right to say it")
        return await super().usage()


def test_a_store_that_cannot_say_how_full_it_is_is_not_asked_at_once(caplog, watched):
    store = Mute()
    run(store.watched(), store.watched())
    assert store.asked == 1
    assert caplog.text.count("no right to say it") == 1
    assert watched.values("cnp_router.context.store.usage") == {}


def test_but_later_and_the_log_says_so_once(caplog, watched, monkeypatch):
    monkeypatch.setattr("cnp_router.context.context_store._LONG_PAUSE", 0.0)
    store = Mute()
    run(store.watched(), store.watched(), store.watched())
    assert store.asked == 3
    assert caplog.text.count("no right to say it") == 1
    assert watched.values("cnp_router.context.store.usage") == {"store=memory": 0}


def test_redis_touches_only_its_namespace(redis):
    stores = [RedisContextStore(redis.url, namespace=each) for each in ("a", "a*", "[a]")]
    for store in stores:
        run(store.put(entry(user="aiko")))
    for store in stores:
        assert len(run(store.live())) == 1
    run(stores[1].erase(user="aiko"))
    assert [len(run(store.live())) for store in stores] == [1, 0, 1]
    for store in stores:
        run(store.aclose())


def test_what_is_too_large_for_redis_is_not_kept(redis):
    store = RedisContextStore(redis.url, namespace="large", max_bytes=1_000)
    run(store.put(entry()), store.put(entry(data="x" * 1_000)))
    assert run(store.live()) == ()
    run(store.aclose())


def test_a_redis_server_that_is_gone_is_one_clear_error():
    with redis_server() as server:
        store = RedisContextStore(server.url)
        run(store.put(entry()))
        server.stop()
        for work in (store.put(entry()), store.get("ctx_1"), store.live(), store.delete("a")):
            with pytest.raises(ContextStoreError, match=rf"127.0.0.1:{server.port}.*is the server"):
                run(work)
        run(store.aclose())


def test_what_others_write_to_redis_is_a_clear_error(redis):
    import redis as library

    store = RedisContextStore(redis.url, namespace="odd")
    with closing(library.Redis.from_url(redis.url)) as client:
        for content in (b"\x80", b"{}", b'{"id": 1}', b"[1]", b"not JSON"):
            client.set("odd:context:ctx_1", content)
            with pytest.raises(ContextStoreError, match="namespace of its own"):
                run(store.get("ctx_1"))
        client.delete("odd:context:ctx_1")
        client.lpush("odd:context:ctx_1", "a list")
        with pytest.raises(ContextStoreError, match="WRONGTYPE"):
            run(store.get("ctx_1"))
    run(store.aclose())


@pytest.mark.parametrize(
    "url", ["http://localhost", "redis://", "redis://host:port/0", "localhost:6379", 6379, None]
)
def test_what_is_not_a_url_of_a_server_is_refused(url):
    with pytest.raises(InputError, match="URL of a Redis server"):
        RedisContextStore(url)


def test_the_password_of_a_server_is_shown_nowhere():
    store = RedisContextStore("redis://me:hunter2-hunter2@127.0.0.1:1/0", timeout=0.5)
    with pytest.raises(ContextStoreError) as caught:
        run(store.live())
    assert "hunter2" not in f"{store!r} {caught.value} {caught.value.__cause__!r}"
    with pytest.raises(InputError) as refused:
        RedisContextStore("redes://me:hunter2-hunter2@127.0.0.1:1/0")
    assert "hunter2" not in str(refused.value)
    run(store.aclose())


@contextmanager
def sqlite_store(path, **settings):
    store = SqliteContextStore(path, clock=Clock(), **settings)
    try:
        yield store
    finally:
        asyncio.run(store.aclose())


def test_only_its_owner_may_read_the_file(tmp_path):
    path = tmp_path / "context.db"
    with sqlite_store(path) as store:
        run(store.put(entry()))
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        assert set(modes.values()) == {0o600}, modes


def test_entries_outlive_the_process(tmp_path):
    path = tmp_path / "context.db"
    with sqlite_store(path) as store:
        run(store.put(entry()))
    with sqlite_store(path) as store:
        assert run(store.get("ctx_1")) == entry()


def test_several_processes_write_at_once(tmp_path):
    path = tmp_path / "context.db"
    code = (
        "import asyncio, sys\n"
        "from cnp_router.context import ContextEntry, SqliteContextStore\n"
        "async def main():\n"
        f"    async with SqliteContextStore({str(path)!r}, clock=lambda: 1.0) as store:\n"
        "        for n in range(20):\n"
        "            name = f'ctx_{sys.argv[1]}_{n}'\n"
        "            await store.put(ContextEntry(id=name, source='a', data=n, time=1.0))\n"
        "asyncio.run(main())\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    store = SqliteContextStore(path, clock=lambda: 1.0)
    assert len(run(store.live())) == 60
    run(store.aclose())


def test_what_was_erased_is_gone_from_the_bytes(tmp_path):
    path = tmp_path / "context.db"
    with sqlite_store(path) as store:
        run(store.put(entry(data="canary-4711", user="aiko")), store.erase(user="aiko"))
        written = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"canary-4711" not in written


def test_a_file_that_is_something_else_is_refused(tmp_path):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    (tmp_path / "text").write_text("not a database, but long enough to be looked at" * 9)
    for path in (other, tmp_path / "text", tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(ContextStoreError) as caught:
            SqliteContextStore(path)
        assert str(path) in str(caught.value)
    assert other.stat().st_size > 0


def test_a_file_that_is_gone_is_one_clear_error(tmp_path):
    path = tmp_path / "context.db"
    with sqlite_store(path) as store:
        run(store.put(entry()))
        path.rename(tmp_path / "moved.db")
        for work in (store.get("ctx_1"), store.put(entry()), store.live()):
            with pytest.raises(ContextStoreError, match="moved away or removed"):
                run(work)


def test_a_damaged_entry_is_a_clear_error(tmp_path):
    path = tmp_path / "context.db"
    with sqlite_store(path) as store:
        run(store.put(entry()))
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE entries SET content = ?", (b'{"id": "x"}',))
        with pytest.raises(ContextStoreError, match="has not the fields"):
            run(store.get("ctx_1"))


def test_a_closed_store_says_so(tmp_path):
    store = SqliteContextStore(tmp_path / "context.db")
    run(store.aclose(), store.aclose())
    with pytest.raises(ContextStoreError, match="it is closed"):
        run(store.live())


def test_a_text_names_a_store(tmp_path):
    file = store_at(str(tmp_path / "context.db"))
    assert isinstance(file, SqliteContextStore)
    asyncio.run(file.aclose())
    assert isinstance(store_at("rediss://somewhere/1"), RedisContextStore)
    assert isinstance(store_at("memory"), MemoryContextStore)
    for place in ("", " ", None, "postgres://me:hunter2@somewhere"):
        with pytest.raises(InputError, match="redis://, rediss:// or a file") as refused:
            store_at(place)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"ttl": 59}, "ttl in seconds must be a number from 60"),
        ({"ttl": 601}, "ttl in seconds must be a number from 60"),
        ({"ttl": "300"}, "ttl"),
        ({"time": -1}, "time"),
        ({"data_class": "secret"}, "class must be"),
        ({"dependencies": ("ctx_1",)}, "cannot depend on itself"),
        ({"dependencies": "ctx_2"}, "dependencies must be a list"),
        ({"data": {1, 2}}, "cannot be written as JSON"),
        ({"data": float("nan")}, "cannot be written as JSON"),
        ({"vector": (float("inf"),)}, "a vector must be finite"),
        ({"vector": "abc"}, "a vector must be finite"),
        ({"source": ""}, "non-blank"),
        ({"text": None}, "text must be a string"),
        ({"reads": 1}, "reads must be true or false"),
    ],
)
def test_an_entry_says_what_is_wrong_with_it(fields, problem):
    with pytest.raises(InputError, match=problem):
        entry(**fields)


def test_what_stands_in_an_entry_is_not_shown():
    assert "canary" not in repr(entry(data="canary", text="canary", said="canary"))
