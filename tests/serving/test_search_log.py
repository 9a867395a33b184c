from __future__ import annotations

import errno
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from cnp_router.exceptions import DataFileError, InputError, UnknownSearchError
from cnp_router.serving import LoggedSearch, SearchLog
from cnp_router.serving.logged import LoggedCall


def search(name, **fields):
    about = {
        "client": "ann",
        "time": 1000.0,
        "query": "rain?",
        "shown": ("a", "b"),
        "chosen": ("a",),
        "confidence": 0.75,
        "fits": True,
        "acted": True,
        **fields,
    }
    return LoggedSearch(name, **about)


def call(log, name, api, success=True):
    begun = log.begin(name, "ann", api, {}, since=0.0)
    log.end(begun, LoggedCall(api, {}, "x", success, bool(success)))
    return begun


def test_a_search_comes_back_as_it_went_in(tmp_path):
    row = search("s1", query="雨 🌧", shown=("a", "ä"), fits=False, acted=False, rating=3)
    with SearchLog(tmp_path / "log") as log:
        log.add(row)
    with SearchLog(tmp_path / "log") as log:
        assert log.searches() == (row,)


def test_only_its_owner_may_read_it(tmp_path):
    with SearchLog(tmp_path / "log") as log:
        log.add(search("s1"))
        modes = {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert modes == {0o600}


def test_what_was_called_counts_once_for_a_search():
    with SearchLog() as log:
        log.add(search("s1"))
        assert call(log, "s1", "a").is_correct is True
        assert call(log, "s1", "a").is_correct is None
        assert call(log, "s1", "b", success=False).is_correct is False
        log.add(search("s2", acted=False))
        begun = call(log, "s2", "a")
        assert begun.query == "rain?"
        log.add(search("s3"))
        accuracy = log.accuracy()
        assert {n: (a.n_called, a.n_correct) for n, a in accuracy.items()} == {
            "shadow": (1, 1),
            "acted": (2, 1),
            "all": (3, 2),
        }
        steps = log.begin("s1", "ann", "c", None, since=0.0).steps
        assert [(step.tool, step.success) for step in steps] == [
            ("a", True),
            ("a", True),
            ("b", False),
        ]


def test_accuracy_of_nothing():
    with SearchLog() as log:
        assert [each.share for each in log.accuracy().values()] == [None, None, None]


def test_it_does_not_grow_for_ever():
    with SearchLog(max_searches=10) as log:
        for n in range(25):
            log.add(search(f"s{n}"))
            call(log, f"s{n}", "a")
        assert [row.id for row in log.searches()] == [f"s{n}" for n in range(24, 14, -1)]
        with pytest.raises(UnknownSearchError):
            log.rate("s14", "ann", 5, since=0.0)
        log.finish_own()
        assert len(log.finished(idle=10**6)) == 10


def test_keys_are_forgotten_with_their_time():
    now = [1000.0]
    with SearchLog(clock=lambda: now[0]) as log:
        assert [log.claim_key("k"), log.claim_key("k"), log.claim_key("j")] == [True, False, True]
        log.tidy(since=1000.0)
        assert not log.claim_key("k")
        log.tidy(since=1000.1)
        assert log.claim_key("k")


def test_what_is_finished_is_the_same_until_it_was_taught(tmp_path):
    now = [1000.0]
    with SearchLog(tmp_path / "log", clock=lambda: now[0]) as log:
        log.add(search("s1"))
        call(log, "s1", "a")
        now[0] += 10
        (first,) = log.finished(idle=10)
    with SearchLog(tmp_path / "log", clock=lambda: now[0]) as log:  # after a kill
        call(log, "s1", "b")  # goes on in between
        assert log.finished(idle=10) == (first,)
        now[0] += 10
        assert [(f.part, [c.api for c in f.calls]) for f in log.finished(idle=10)] == [
            (1, ["a"]),
            (2, ["b"]),
        ]
        log.was_taught(first)
        assert [f.part for f in log.finished(idle=10)] == [2]


def test_a_worker_finishes_its_own():
    with SearchLog() as log:
        log.add(search("s1"))
        call(log, "s1", "a")
        log.worker = "another"
        log.finish_own()
        assert log.finished(idle=10**9) == ()


def test_a_call_that_was_broken_off_is_there():
    with SearchLog() as log:
        log.add(search("s1"))
        log.begin("s1", "ann", "a", {"x": 1}, since=0.0, within=0.0)
        log.finish_own()
        (over,) = log.finished(idle=10**9)
        assert over.calls == (LoggedCall("a", {"x": 1}, "", None, False),)


def test_a_search_is_not_over_while_a_call_runs_for_it():
    now = [1000.0]
    with SearchLog(clock=lambda: now[0]) as log:
        for name in ("s1", "s2"):
            log.add(search(name))
            call(log, name, "b")
        begun = log.begin("s1", "ann", "a", {}, since=0.0, within=400.0)
        log.begin("s2", "ann", "a", {}, since=0.0, within=400.0)  # its worker is killed
        log.rate("s1", "ann", 5, since=0.0)
        now[0] += 399  # longer than a search without a call waits
        assert log.finished(idle=300) == ()
        log.end(begun, LoggedCall("a", {}, "x", True, True))
        (over,) = log.finished(idle=300)
        assert (over.search, over.rating, [c.served for c in over.calls]) == ("s1", 5, [True, True])
        log.was_taught(over)
        now[0] += 1
        (over,) = log.finished(idle=300)
        assert (over.search, [c.served for c in over.calls]) == ("s2", [True, False])


def test_of_a_search_so_many_calls_are_noted():
    now = [1000.0]
    with SearchLog(clock=lambda: now[0]) as log:
        log.add(search("s1"))
        for _ in range(210):
            call(log, "s1", "a")
            now[0] += 1
        begun = log.begin("s1", "ann", "b", {"x": "y"}, since=0.0)
        assert (begun.number, begun.query, begun.is_correct, begun.steps) == (
            None,
            "rain?",
            None,
            (),
        )
        log.end(begun, LoggedCall("b", {"x": "y"}, "z", True, True))
        assert log.searches()[0].called == ("a",)
        (over,) = log.finished(idle=11)  # from the last that was noted on
        assert [each.api for each in over.calls] == ["a"] * 200
        log.was_taught(over)
        call(log, "s1", "a")
        now[0] += 100
        assert log.finished(idle=0) == ()


def test_what_is_finished_comes_in_pieces():
    with SearchLog() as log:
        for n in range(6):
            log.add(search(f"s{n}"))
            for _ in range(n):
                call(log, f"s{n}", "a")
        log.finish_own()
        found = []
        while over := log.finished(idle=10**6, most_calls=4):
            found.append([each.search for each in over])
            for each in over:
                log.was_taught(each)
        assert found == [["s1", "s2", "s3"], ["s4"], ["s5"]]


def test_many_threads_of_two_logs(tmp_path):
    with SearchLog(tmp_path / "log") as one, SearchLog(tmp_path / "log") as two:

        def work(n):
            log, other = (one, two) if n % 2 else (two, one)
            log.add(search(f"s{n}"))
            call(other, f"s{n}", "a")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(60)))
        assert one.accuracy()["all"].n_correct == 60
        assert len(two.searches(100)) == 60


@pytest.mark.parametrize("content", [b"not a database", b""])
def test_a_file_that_is_something_else(tmp_path, content):
    file = tmp_path / "log"
    file.write_bytes(content)
    if content:
        with pytest.raises(DataFileError, match=r"the log of searches: .*\(name another file"):
            SearchLog(file)
    else:
        SearchLog(file).close()
    with closing(sqlite3.connect(tmp_path / "other")) as other:
        other.execute("CREATE TABLE x (y)")
        other.commit()
    with pytest.raises(DataFileError, match="it is something else"):
        SearchLog(tmp_path / "other")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataFileError, match="name a file in a folder that exists"):
        SearchLog(tmp_path / "no" / "log")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch, number):
    def refused(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.open", refused)
    with pytest.raises(DataFileError, match="let this user read and write it and its folder"):
        SearchLog(tmp_path / "log")


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be removed there")
def test_a_file_that_goes_away(tmp_path):
    with SearchLog(tmp_path / "log") as log:
        (tmp_path / "log").unlink()
        with pytest.raises(DataFileError, match="moved away or removed") as error:
            log.add(search("s1"))
    assert str(error.value).count("the log of searches") == 1


@pytest.mark.skipif(os.name != "posix", reason="a folder with an open file cannot be moved there")
class TestAnotherFolder:
    """One takes the place of the folder that the log is in."""

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "model").mkdir()
        return tmp_path / "model"

    def test_it_goes_on_where_that_was_moved(self, folder):
        with SearchLog(folder / "log") as log:
            log.add(search("s1"))
            begun = log.begin("s1", "ann", "a", {}, since=0.0)
            folder.rename(folder.with_name("old"))
            log.add(search("s2"))
            log.end(begun, LoggedCall("a", {}, "x", True, True))
            assert not folder.exists()
            folder.mkdir()
            log.rate("s1", "ann", 5, since=0.0)
            (over,) = log.finished(idle=1e9)
            assert (over.search, [each.served for each in over.calls]) == ("s1", [True])
        assert list(folder.iterdir()) == []
        with SearchLog(folder.with_name("old") / "log") as log:
            assert [each.id for each in log.searches()] == ["s2", "s1"]

    def test_it_goes_on_in_the_file_of_the_other(self, folder):
        with SearchLog(folder / "log") as log:
            log.add(search("s1"))
            begun = log.begin("s1", "ann", "a", {}, since=0.0)
            assert log.claim_key("k")
            folder.rename(folder.with_name("old"))
            folder.mkdir()
            with SearchLog(folder / "log") as other:
                other.add(search("s2"))
                assert other.begin("s2", "ann", "b", {}, since=0.0).number == begun.number
                log.end(begun, LoggedCall("a", {}, "x", True, True))
                (step,) = other.begin("s2", "ann", "c", {}, since=0.0).steps
                assert (step.tool, step.observation) == ("b", "")
                with pytest.raises(UnknownSearchError):
                    log.rate("s1", "ann", 5, since=0.0)
                assert not other.claim_key("k")
                assert not log.claim_key("k")

    def test_a_file_that_goes_away_later(self, folder):
        with SearchLog(folder / "log") as log:
            folder.rename(folder.with_name("old"))
            folder.mkdir()
            SearchLog(folder / "log").close()
            log.add(search("s1"))
            (folder / "log").unlink()
            with pytest.raises(DataFileError, match="moved away or removed"):
                log.add(search("s2"))


@pytest.mark.parametrize("most", [0, -1, 2.5])
def test_bounds_that_cannot_be(most):
    with pytest.raises(InputError):
        SearchLog(max_searches=most)


def test_inputs_that_are_too_long_are_not_kept():
    with SearchLog() as log:
        log.add(search("s1"))
        log.begin("s1", "ann", "a", {"x": "y" * 20_000}, since=0.0, within=0.0)
        log.finish_own()
        assert log.finished(idle=10**9)[0].calls[0].inputs is None
