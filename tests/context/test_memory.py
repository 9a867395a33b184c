"""Memory by session, thread and user: it expires, is erasable, and is its user's alone."""

from __future__ import annotations

import itertools
import os
import sqlite3
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.context.memory import Memory
from cnp_router.exceptions import ContextStoreError, InputError
from cnp_router.llm.tokens import estimate_tokens

MINUTE, DAY = 60.0, 86_400.0
WHERE = {"user": "ann", "session": "s1", "thread": "t1"}
LEVELS = ("session", "thread", "user")


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "file"])
def memory(request, tmp_path, clock):
    path = None if request.param == "memory" else tmp_path / "memory.sqlite"
    with Memory(path, clock=clock) as memory:
        yield memory


def told(memory, **whose):
    return [item.data for item in memory.recall(**whose)]


class TestExpiry:
    def test_30_minutes_7_days_and_90_days(self, memory, clock):
        for level in LEVELS:
            memory.remember(level, level, **WHERE)
        for seconds, left in (
            (30 * MINUTE - 1, ["session", "thread", "user"]),
            (1, ["thread", "user"]),
            (7 * DAY - 30 * MINUTE - 1, ["thread", "user"]),
            (1, ["user"]),
            (83 * DAY - 1, ["user"]),
            (1, []),
        ):
            clock.now += seconds
            assert told(memory, **WHERE) == left

    def test_the_times_are_settings(self, clock):
        with Memory(session_ttl=5, thread_ttl=6, user_ttl=7, clock=clock) as memory:
            items = [memory.remember(level, "x", **WHERE) for level in LEVELS]
        assert [item.expires - item.time for item in items] == [5, 6, 7]

    def test_what_has_expired_is_deleted_and_gone_from_the_file(self, tmp_path, clock):
        path = tmp_path / "memory.sqlite"
        with Memory(path, clock=clock) as memory:
            memory.remember("session", "the walrus sings", **WHERE)
            assert b"walrus" in path.read_bytes()
            clock.now += 30 * MINUTE
            assert memory.count(user="ann") == 1
            assert memory.recall(user="bob") == ()  # whoever uses it next
            assert memory.count(user="ann") == 0
        assert [b"walrus" in file.read_bytes() for file in tmp_path.iterdir()] == [False]


class TestOneUserOnly:
    def test_each_way(self, memory):
        """What Ann is remembered by reaches nobody else, whatever they name."""
        for level in LEVELS:
            memory.remember(level, f"Ann's {level}", **WHERE)
        names = (None, "s1", "t1", "ann", "other")
        for user, session, thread in itertools.product(("bob", "Ann", "an", None), names, names):
            assert memory.recall(user=user, session=session, thread=thread) == ()
            assert memory.for_prompt(500, user=user, session=session, thread=thread) == ()
        assert memory.erase(user="bob") == 0
        assert memory.erase(user="bob", session="s1") == 0
        assert told(memory, **WHERE) == ["Ann's session", "Ann's thread", "Ann's user"]

    def test_what_is_nobodys_is_nobodys(self, memory):
        memory.remember("session", "of nobody", session="s1")
        memory.remember("session", "of Ann", session="s1", user="ann")
        assert told(memory, session="s1") == ["of nobody"]
        assert told(memory, session="s1", user="ann") == ["of Ann"]
        assert told(memory, session="s1", user="bob") == []

    def test_another_session_or_thread_of_the_same_user(self, memory):
        for level in LEVELS:
            memory.remember(level, level, **WHERE)
        assert told(memory, user="ann") == ["user"]
        assert told(memory, user="ann", session="s2", thread="t1") == ["thread", "user"]
        assert told(memory, user="ann", session="s1", thread="t2") == ["session", "user"]
        assert told(memory, user="ann", session="t1", thread="s1") == ["user"]
        assert told(memory, **WHERE, ) == ["session", "thread", "user"]  # fmt: skip
        assert [i.level for i in memory.recall(**WHERE, levels=["thread"])] == ["thread"]

    @given(st.lists(st.tuples(st.sampled_from(LEVELS), st.sampled_from(["a", "b", None]),
                              st.sampled_from(["x", "y"]), st.sampled_from(["x", "y"])),
                    max_size=12))  # fmt: skip
    def test_any_mix(self, kept):
        with Memory() as memory:
            for number, (level, user, session, thread) in enumerate(kept):
                if level == "user" and user is None:
                    continue
                memory.remember(level, number, user=user, session=session, thread=thread)
            for user, session, thread in itertools.product(
                ["a", "b", None], ["x", None], ["y", None]
            ):
                expected = [
                    number
                    for number, (level, of, in_session, in_thread) in enumerate(kept)
                    if of == user
                    and (
                        (level == "session" and in_session == session)
                        or (level == "thread" and in_thread == thread)
                        or (level == "user" and user is not None)
                    )
                ]
                assert told(memory, user=user, session=session, thread=thread) == expected


class TestSecrets:
    def test_none_is_written(self, tmp_path):
        path = tmp_path / "memory.sqlite"
        with Memory(path) as memory:
            for secret in (
                {"api_key": "hunter-secret"},
                "Authorization: Bearer hunter-secret1",
                [{"headers": {"Cookie": "hunter-secret"}}],
                {"deep": ["https://ann:hunter-secret@x.org"]},
            ):
                item = memory.remember("user", secret, user="ann")
                assert "hunter" not in str(item.data) and "***" in str(item.data)
            assert "hunter" not in str(memory.recall(user="ann"))
            assert "hunter" not in path.read_bytes().decode("latin-1")
        assert "hunter" not in path.read_bytes().decode("latin-1")

    def test_no_repr_shows_what_is_remembered(self, memory):
        item = memory.remember("user", "prefers mornings", user="ann")
        assert "morning" not in repr(item) + repr(memory) + repr(memory.recall(user="ann"))


class TestErasing:
    @pytest.mark.parametrize(
        ("whose", "left"),
        [
            ({"user": "ann"}, ["b"]),
            ({"session": "s1"}, ["session 2", "thread 2", "user"]),
            ({"thread": "t1"}, ["session 2", "thread 2", "user"]),
            ({"user": "ann", "session": "s2"}, ["b", "session", "thread", "user"]),
            (
                {"user": "bob", "thread": "t1"},
                ["session", "session 2", "thread", "thread 2", "user"],
            ),
        ],
    )
    def test_what_is_named(self, memory, whose, left):
        memory.remember("session", "session", user="ann", session="s1", thread="t1")
        memory.remember("session", "session 2", user="ann", session="s2")
        memory.remember("thread", "thread", user="ann", session="s1", thread="t1")
        memory.remember("thread", "thread 2", user="ann", session="s2", thread="t2")
        memory.remember("user", "user", user="ann")
        memory.remember("thread", "b", user="bob", session="s1", thread="t1")
        before = memory.count(**whose)
        assert memory.erase(**whose) == before > 0
        assert memory.count(**whose) == 0
        names = [("ann", "s1", "t1"), ("ann", "s2", "t2"), ("bob", "s1", "t1")]
        still = {d for u, s, t in names for d in told(memory, user=u, session=s, thread=t)}
        assert sorted(still) == left

    def test_it_is_gone_from_the_file(self, tmp_path):
        path = tmp_path / "memory.sqlite"
        with Memory(path) as memory:
            for n in range(50):
                memory.remember("user", f"walrus {n} " * 50, user="ann")
            memory.remember("user", "octopus", user="bob")
            assert memory.erase(user="ann") == 50
            found = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"walrus" not in found and b"octopus" in found

    def test_nothing_named(self, memory):
        with pytest.raises(InputError, match="say whose memory is meant"):
            memory.erase()
        with pytest.raises(InputError, match="user must be a name"):
            memory.erase(user=" ")


class TestPrompt:
    def test_within_the_budget_the_newest_of_the_session_first(self, memory):
        for n in range(30):
            memory.remember("session", f"call {n}", **WHERE)
            memory.remember("user", f"habit {n}", **WHERE)
        shown = memory.for_prompt(200, **WHERE)
        assert [entry["data"] for entry in shown[:2]] == ["call 29", "call 28"]
        assert estimate_tokens(str(list(shown))) <= 200
        assert {entry["remembered"] for entry in memory.for_prompt(10_000, **WHERE)} == {
            "session", "user",
        }  # fmt: skip

    def test_what_is_too_long_does_not_hide_the_rest(self, memory):
        memory.remember("thread", "short", **WHERE)
        memory.remember("thread", "long " * 500, **WHERE)
        assert [entry["data"] for entry in memory.for_prompt(60, **WHERE)] == ["short"]
        assert memory.for_prompt(1, **WHERE) == ()


class TestLimits:
    def test_the_oldest_go_first_and_only_the_users_own(self):
        with Memory(max_items=3) as memory:
            memory.remember("user", "b", user="bob")
            for n in range(5):
                memory.remember("user", n, user="ann")
            assert (told(memory, user="ann"), told(memory, user="bob")) == ([2, 3, 4], ["b"])

    def test_what_is_too_large(self):
        with Memory(max_bytes=100) as memory:
            with pytest.raises(InputError, match=r"has 102 bytes, and 100 are allowed"):
                memory.remember("user", "x" * 100, user="ann")
            assert memory.recall(user="ann") == ()

    def test_what_is_too_large_is_not_looked_through(self, monkeypatch):
        monkeypatch.setattr("cnp_router.context.memory.without_secrets", None)
        with Memory(max_bytes=100) as memory, pytest.raises(InputError, match="has 102 bytes"):
            memory.remember("user", "x" * 100, user="ann")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("year", "x"), "level must be session, thread or user, got 'year'"),
            ((["user"], "x"), "level must be"),
            (("session", "x"), r"remembered by session needs one \(give session=...\)"),
            (("thread", "x"), "remembered by thread needs one"),
            (("user", "x"), "remembered by user needs one"),
            (("session", float("nan")), "needs one"),
        ],
    )
    def test_wrong_use(self, memory, arguments, message):
        with pytest.raises(InputError, match=message):
            memory.remember(*arguments)

    @pytest.mark.parametrize("data", [float("nan"), {1, 2}, "\ud800", object()])
    def test_what_json_cannot_hold(self, memory, data):
        with pytest.raises(InputError, match="cannot be written as JSON"):
            memory.remember("user", data, user="ann")

    @pytest.mark.parametrize("name", ["session_ttl", "thread_ttl", "user_ttl", "max_items"])
    @pytest.mark.parametrize("value", [0, -1, float("nan"), "x"])
    def test_wrong_settings(self, name, value):
        with pytest.raises(InputError):
            Memory(**{name: value})


class TestFile:
    def test_it_is_read_by_its_owner_only(self, tmp_path):
        path = tmp_path / "memory.sqlite"
        before = os.umask(0)
        try:
            with Memory(path) as memory:
                memory.remember("user", "x", user="ann")
                assert [stat.S_IMODE(f.stat().st_mode) for f in tmp_path.iterdir()] == [0o600]
            path.chmod(0o644)
            with Memory(path):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
        finally:
            os.umask(before)

    def test_it_is_read_again_and_shared(self, tmp_path, clock):
        path = tmp_path / "memory.sqlite"
        with Memory(path, clock=clock) as one, Memory(path, clock=clock) as other:
            one.remember("user", {"a": [1, None]}, user="ann")
            assert told(other, user="ann") == [{"a": [1, None]}]
        with Memory(path, clock=clock) as again:
            [item] = again.recall(user="ann")
        assert (item.level, item.user, item.session, item.time) == ("user", "ann", None, clock.now)

    def test_several_threads_write(self, tmp_path):
        with Memory(tmp_path / "memory.sqlite") as memory:

            def work(user):
                for n in range(10):
                    memory.remember("user", n, user=user)

            threads = [threading.Thread(target=work, args=(f"u{n}",)) for n in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join(10)
            assert [len(memory.recall(user=f"u{n}")) for n in range(4)] == [10] * 4

    def test_what_is_no_memory(self, tmp_path):
        (tmp_path / "text").write_text("not a database, and long enough to be read as one " * 9)
        with pytest.raises(ContextStoreError, match=r"text: file is not a database"):
            Memory(tmp_path / "text")
        with sqlite3.connect(tmp_path / "other") as connection:
            connection.execute("CREATE TABLE t (x)")
        connection.close()
        with pytest.raises(ContextStoreError, match=r"it is something else \(name another file"):
            Memory(tmp_path / "other")
        with pytest.raises(ContextStoreError, match="cannot be used"):
            Memory(tmp_path)
        with pytest.raises(ContextStoreError, match="cannot be used"):
            Memory(tmp_path / "no" / "folder")

    def test_one_that_is_gone_or_closed(self, tmp_path):
        path = tmp_path / "memory.sqlite"
        memory = Memory(path)
        path.unlink()
        with pytest.raises(ContextStoreError, match="moved away or removed"):
            memory.remember("user", "x", user="ann")
        memory.close()
        memory.close()
        with pytest.raises(ContextStoreError, match="it is closed"):
            memory.recall(user="ann")

    def test_a_damaged_item(self, tmp_path):
        path = tmp_path / "memory.sqlite"
        with Memory(path) as memory:
            memory.remember("user", "x", user="ann")
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE items SET data = '{'")
            connection.close()
            with pytest.raises(ContextStoreError, match="an item in it is damaged"):
                memory.recall(user="ann")
            assert memory.erase(user="ann") == 1
