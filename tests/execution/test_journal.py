"""What is on disk of an execution, and what is read of it again."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_tools import READ, UNKNOWN, WRITE, Person, Scripted, failed

import cnp_router
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.execution import Caller, Job, JobEnd, Journal, Plan, allow_writes
from cnp_router.line_file import LineFile
from cnp_router.sources import Attachment, CallFailure, CallResult

PLAN = Plan("Do it.", tuple(Job(name, "do") for name in "abc"))
DONE = CallResult("sunny", {"sky": "blue"}, seconds=0.5, start_seconds=1.0, n_bytes=5, notes=("n",))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "journal"


def written(file, *, close=True):
    """A journal with a job that is done, one that failed, and one whose outcome is unknown."""
    journal = Journal(file)
    journal.begin(PLAN)
    journal.finish(journal.start("a", READ, {"x": "ü"}, key="k1"), DONE)
    journal.end_job("a", JobEnd("done"))
    journal.finish(journal.start("b", WRITE, {}, key="k2"), failed("busy"))
    journal.end_job("b", JobEnd("failed"))
    journal.start("c", UNKNOWN, {"y": 1}, key="k3")
    if close:
        journal.close()
    return journal


def state(journal):
    """All that a journal knows."""
    return (
        journal.plan,
        journal.results,
        journal.ends,
        [(call.number, call.job, call.key) for call in journal.unsettled()],
    )


def test_opened_again_it_knows_what_it_knew(file):
    before = written(file)
    with Journal(file) as journal:
        assert journal.execution == before.execution
        assert state(journal) == state(before)
        assert journal.results == {"a": DONE}
        assert journal.ends == {"a": JobEnd("done"), "b": JobEnd("failed")}
        [call] = journal.unsettled()
        assert call == before.unsettled("c")[0]
        assert (call.api, call.inputs, call.effects) == (UNKNOWN.id, {"y": 1}, "unknown")
        assert journal.unsettled("a") == ()
        assert journal.start("c", UNKNOWN, {}, key="k3") == 3


def test_in_memory_it_knows_the_same(file):
    assert state(written(None)) == state(written(file))


def test_only_its_owner_may_read_it(file):
    written(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_line_is_in_the_file_as_soon_as_it_is_noted(file):
    journal = written(file, close=False)
    assert len(file.read_bytes().splitlines()) == 8
    journal.close()
    journal.close()


# Which execution


def test_the_file_belongs_to_one_request_and_plan(file):
    written(file)
    before = file.read_bytes()
    for plan, problem in (
        (replace(PLAN, request="Do that."), "belongs to another request: 'Do it.'"),
        (replace(PLAN, jobs=PLAN.jobs[:2]), "belongs to another plan"),
    ):
        with Journal(file) as journal, pytest.raises(InputError, match=problem):
            journal.begin(plan)
    with Journal(file) as journal:
        journal.begin(PLAN)
    assert file.read_bytes() == before


def test_nothing_is_noted_without_a_plan_or_after_the_end(file):
    journal = Journal(file)
    with pytest.raises(InputError, match="has no plan yet"):
        journal.start("a", READ, {}, key="k")
    journal.begin(PLAN)
    journal.close()
    with pytest.raises(InputError, match="is closed"):
        journal.start("a", READ, {}, key="k")


def test_one_execution_at_a_time(file):
    code = "import sys; from cnp_router.execution import Journal; Journal(sys.argv[1])"
    with Journal(file):
        with pytest.raises(DataFileError, match="another execution is writing to it"):
            Journal(file)
        done = subprocess.run(
            [sys.executable, "-c", code, file],
            env={**os.environ, "PYTHONPATH": str(Path(cnp_router.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "another execution is writing to it" in done.stderr
    Journal(file).close()


# Torn ends and damage


def test_wherever_it_is_cut_off_nothing_half_written_is_taken_for_done(file, monkeypatch):
    monkeypatch.setattr(LineFile, "sync", lambda self: None)  # thousands of times
    written(file)
    whole = file.read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    near = {end + n for end in ends for n in (-2, -1, 0, 1)} - {len(whole), len(whole) + 1}
    for n in sorted({*range(0, len(whole), 5), *near}):
        file.write_bytes(whole[:n])
        with Journal(file) as journal:
            lines = sum(end <= n for end in ends)
            assert (journal.plan is None) == (lines == 0)
            assert journal.results == ({"a": DONE} if lines >= 3 else {})
            assert [call.job for call in journal.unsettled()] == (
                {5: ["b"], 8: ["c"]}.get(lines, [])
            )
            assert file.read_bytes() == whole[:n]
            journal.begin(PLAN)
            journal.end_job("c", JobEnd("skipped", "b"))
        text = file.read_bytes().decode()
        assert all(json.loads(line) for line in text.splitlines())
        with Journal(file) as journal:
            assert journal.ends["c"] == JobEnd("skipped", "b")


@pytest.mark.parametrize(
    ("line", "old", "new", "problem"),
    [
        (1, "execution", "comparison", "line 1: is not the file of an execution"),
        (1, '"format": 3', '"format": 4', "written in format 4, this version has 3"),
        (1, '"id": "a"', '"id": "b"', "line 1: duplicate job id 'b'"),
        (1, '"plan"', '"plans"', "is not the file of an execution"),
        (2, "started", "begun", "line 2: is not a line of a journal"),
        (2, '"call": 0', '"call": 1', "line 2: call 1 begins, and 0 is the next"),
        (2, '"job": "a"', '"job": "z"', "line 2: the plan has no job 'z'"),
        (2, '"reads"', '"looks"', "line 2: effects"),
        (2, '"key": "k1"', '"kez": "k1"', "line 2: key"),
        (3, "{", "", "line 3: not JSON"),
        (3, '"call": 0', '"call": 7', "line 3: call 7 ends, and is not one that runs"),
        (3, '"call": 0', '"call": -1', "line 3: call -1 ends, and is not one that runs"),
        (3, '"seconds": 0.5', '"seconds": -1', "line 3: result.seconds"),
        (4, "done", "fine", "line 4: state"),
        (4, '"job-ended"', "[1]", "line 4: is not a line of a journal"),
        (6, "busy", "bored", "line 6: result.failure.kind"),
        (6, '"call": 1', '"call": 0', "line 6: call 0 ends, and is not one that runs"),
        (7, '{"record"', "\x00\x00", "line 7: not JSON"),
        (7, "{", "[" * 100_000, "line 7: "),
    ],
)
def test_any_other_damage_is_an_error_and_the_file_is_left_as_it_is(file, line, old, new, problem):
    written(file)
    lines = file.read_text().split("\n")
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    file.write_text("\n".join(lines))
    before = file.read_bytes()
    with pytest.raises(DataFileError, match=problem) as caught:
        Journal(file)
    assert str(caught.value).endswith(")")  # the cure
    assert caught.value.__cause__ is None  # it would say what the file holds
    assert file.read_bytes() == before
    file.unlink()
    Journal(file).close()  # the lock is gone with it


@pytest.mark.parametrize(
    "content", ["\n", "notes of mine", "notes of mine\n", "{}\n", "[]", "\x00"]
)
def test_somebody_elses_file_is_not_touched(file, content):
    file.write_text(content)
    with pytest.raises(DataFileError, match="is not the file of an execution"):
        Journal(file)
    assert file.read_text() == content


def test_places_where_no_journal_can_be(tmp_path):
    for place, problem in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "journal", "its folder does not exist"),
        ("a\0b", "cannot be written"),
    ):
        with pytest.raises(DataFileError, match=problem):
            Journal(place)
    with pytest.raises(InputError, match="a path must be"):
        Journal(3)


@pytest.mark.skipif(os.name == "nt", reason="no such files")
def test_a_pipe_or_device_is_no_place_either(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(DataFileError, match="not a regular file"):
            Journal(place)


# Trouble with the disk


class Full:
    """A file whose device has room for only so many bytes more."""

    def __init__(self, file, room):
        self.file = file
        self.room = room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        n = self.file.write(data[: self.room])
        self.room -= n
        return n

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_full_disk_is_an_error_before_the_write_and_tears_nothing_for_later(file):
    journal = written(file, close=False)
    before, whole = file.read_bytes(), journal._file._file
    tools = Scripted()
    journal._file._file = Full(whole, 20)
    caller = Caller(tools, approve=allow_writes, journal=journal)
    with pytest.raises(DataFileError, match="No space left on device"):
        asyncio.run(caller.perform("b", WRITE, {}))
    assert tools.calls == []
    assert len(file.read_bytes()) == len(before) + 20
    journal._file._file = whole
    journal.end_job("c", JobEnd("failed"))
    journal.close()
    assert file.read_bytes().startswith(before + b'{"record": "job-ended"')
    with Journal(file) as again:
        assert again.ends["c"] == JobEnd("failed")


def test_a_write_is_called_when_its_beginning_is_on_disk(file, monkeypatch):
    order, sync = [], LineFile.sync

    def note(self):
        order.append(file.read_text().count('"started"'))
        sync(self)

    class Tools(Scripted):
        async def call(self, call):
            order.append(call.api)
            return await super().call(call)

    monkeypatch.setattr(LineFile, "sync", note)

    async def main():
        with Journal(file) as journal:
            journal.begin(PLAN)
            caller = Caller(Tools(DONE, DONE), approve=allow_writes, journal=journal)
            await caller.perform("a", WRITE, {})
            order.append("done")
            await caller.perform("b", READ, {})
            journal.end_job("b", JobEnd("done"))
            await journal.synced()
            await journal.synced()
            order.append("end")

    asyncio.run(main())
    assert order == [1, WRITE.id, "done", READ.id, 2, "end"]


def test_what_cannot_be_put_on_disk_is_not_called(file, monkeypatch):
    def broken(self):
        raise DataFileError(self.path, "cannot be written: Input/output error")

    tools = Scripted()
    with Journal(file) as journal:
        journal.begin(PLAN)
        with monkeypatch.context() as patched:
            patched.setattr(LineFile, "sync", broken)
            with pytest.raises(DataFileError, match="Input/output"):
                asyncio.run(
                    Caller(tools, approve=allow_writes, journal=journal).perform("a", WRITE, {})
                )
    assert tools.calls == []


def test_many_at_a_time_share_the_way_to_the_disk(file, monkeypatch):
    n, sync = [0], LineFile.sync

    def count(self):
        n[0] += 1
        sync(self)

    monkeypatch.setattr(LineFile, "sync", count)

    async def main():
        with Journal(file) as journal:
            journal.begin(PLAN)

            async def note():
                journal.start("a", READ, {}, key="k")
                await journal.synced()

            await asyncio.gather(*(note() for _ in range(100)))

    asyncio.run(main())
    assert n[0] <= 3


# What is kept of a result


def reopened(file, result):
    with Journal(file) as journal:
        journal.begin(PLAN)
        journal.finish(journal.start("a", READ, {}, key="k"), result)
    with Journal(file) as journal:
        return journal.results["a"]


def test_large_results_are_cut_and_say_so(file):
    found = reopened(file, CallResult("x" * 3_000_000, {"y": "z" * 2_000_000}, n_bytes=5_000_000))
    assert (len(found.text), found.structured, found.is_cut) == (1_000_000, None, True)
    assert found.n_bytes == 5_000_000
    assert [note.partition(",")[0] for note in found.notes] == [
        "of 3",
        "the structured result was not kept: it has 2",
    ]
    assert file.stat().st_size < 1_100_000


def test_of_an_attachment_size_and_digest_are_kept(file):
    picture = Attachment("image/png", b"\x89PNG" * 1_000, "file:///a.png")
    found = reopened(file, CallResult("a picture", attachments=(picture,)))
    assert found.attachments == (Attachment("image/png", b"", "file:///a.png"),)
    assert not found.is_cut
    [line] = [line for line in file.read_text().splitlines() if "finished" in line]
    [kept] = json.loads(line)["result"]["attachments"]
    assert kept["bytes"] == 4_000
    assert kept["sha256"] == hashlib.sha256(picture.data).hexdigest()


def test_what_json_cannot_hold_is_not_kept_and_says_so(file):
    loop: list = []
    loop.append(loop)
    for structured in ({"x": float("nan")}, {"x": object()}, loop):
        found = reopened(file, CallResult("t", structured))
        assert (found.text, found.structured, found.is_cut) == ("t", None, True)
        assert "cannot be written as JSON" in found.notes[0]
        file.unlink()


def test_half_a_character_and_line_ends_are_kept(file):
    text = "a\ud800\u2028\r\nb\x00"
    assert reopened(file, CallResult(text, {"x": text})) == CallResult(text, {"x": text})


def test_what_failed_is_kept_in_bounds(file):
    with Journal(file) as journal:
        journal.begin(PLAN)
        failure = CallFailure("tool", "m" * 100_000, "unknown")
        notes = ("n" * 100_000,) * 1_000
        journal.finish(
            journal.start("a", WRITE, {}, key="k"), CallResult("", failure=failure, notes=notes)
        )
    assert file.stat().st_size < 1_100_000
    with Journal(file) as journal:
        assert len(journal.unsettled("a")) == 1


# Going on


def test_a_resumed_execution_repeats_nothing_and_asks_for_what_is_unknown(file):
    written(file)
    with Journal(file) as journal:
        journal.begin(PLAN)
        person = Person(True, True)
        tools = Scripted(DONE, DONE)
        caller = Caller(tools, approve=person, journal=journal)

        async def main():
            for job, api in (("a", READ), ("b", WRITE), ("c", UNKNOWN)):
                assert (await caller.perform(job, api, {})).then == "done"

        asyncio.run(main())
    assert [call.api for call in tools.calls] == [WRITE.id, UNKNOWN.id]
    assert [(asked.job, asked.why) for asked in person.asked] == [("b", "writes"), ("c", "repeat")]


JOBS = st.sampled_from("abc")
APIS = st.sampled_from([READ, WRITE, UNKNOWN])
RESULTS = st.sampled_from([DONE, failed("busy"), failed("timeout"), failed("tool"), None])


@given(st.lists(st.tuples(JOBS, APIS, RESULTS)), st.randoms(use_true_random=False))
def test_whatever_happened_is_read_as_it_was(tmp_path_factory, events, chance):
    file = tmp_path_factory.mktemp("any") / "journal"
    with Journal(file) as journal:
        journal.begin(PLAN)
        running = []
        for job, api, result in events:
            running.append((journal.start(job, api, {"n": len(running)}, key=job), result))
            if chance.random() < 0.5:
                number, end = running.pop(chance.randrange(len(running)))
                if end is not None:
                    journal.finish(number, end)
            if chance.random() < 0.3:
                journal.end_job(job, JobEnd("skipped", "a"))
        before = state(journal)
    with Journal(file) as journal:
        assert state(journal) == before


@pytest.mark.skipif(os.name == "nt", reason="no fork and no SIGKILL")
def test_no_kill_does_a_write_twice_without_approval(tmp_path):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("kill_executions.py"), tmp_path],
        env={**os.environ, "PYTHONPATH": str(Path(cnp_router.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(points) > 60
    jobs = ["busy", "end", "one", "rain", "three", "two"]
    writes = ["busy", "one", "three", "two"]
    for point in points:
        assert max(point["without"].values(), default=0) <= 1, point
        # What is done was done, and what was not asked for again was done once.
        assert set(point["cautious"]) & set(writes) <= set(point["without"]), point
        assert point["done"] == jobs, point
        assert sorted(point["with_approval"]) == writes, point
        repeated = {job for job, why in point["asked"] if why == "repeat"}
        twice = {job for job, n in point["with_approval"].items() if n > 1}
        assert twice <= repeated, point
        # Nobody is asked about what cannot have been done.
        assert set(point["without"]) - set(point["cautious"]) <= repeated, point
    assert any(point["killed"] == {} for point in points)
    assert any(
        len(point["with_approval"]) < sum(point["with_approval"].values()) for point in points
    )


def test_a_revised_plan_keeps_what_is_done(file):
    revised = Plan("Do it.", (Job("a", "do"), Job("d", "do otherwise", after=("a",))))
    with written(file, close=False) as journal:
        journal.finish(2, CallResult("done"))
        journal.revise(revised)
        assert set(journal.results) == {"a", "c"} and journal.ends == {"a": JobEnd("done")}
        journal.end_job("d", JobEnd("done"))
        known = state(journal)
    with Journal(file) as again:
        again.begin(revised)
        assert state(again) == known


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (Plan("Do that.", (Job("a", "do"),)), "another request"),
        (Plan("Do it.", (Job("a", "do more"),)), "job 'a' is done, and the revised plan has"),
    ],
)
def test_a_revised_plan_cannot_change_what_is_done(file, plan, problem):
    with written(file, close=False) as journal:
        before = state(journal)
        with pytest.raises((InputError, DataFileError), match=problem):
            journal.revise(plan)
        assert state(journal) == before


def test_there_must_be_a_plan_to_revise():
    with pytest.raises(InputError, match="no plan yet"):
        Journal().revise(PLAN)
