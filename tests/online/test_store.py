from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from killing import Tally
from worlds import noisy, run

import cnp_router
from cnp_router import storage
from cnp_router.exceptions import (
    CnpRouterError,
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelStoreError,
    ModelVersionError,
)
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore, Receipt, database
from cnp_router.prediction import Context, ContextPredictor, Decay, NextToolRouter
from cnp_router.trajectories import Step, Trajectory

LOG = [run(n, "Rain?", "weather", "sms") for n in range(12)]
IDS = [trajectory.id for trajectory in LOG]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model" / "online.sqlite"


def filled(file, records=LOG, **options):
    """Observe some records, and leave without a last checkpoint, as if killed."""
    store = OnlineStore(file, [Tally()], **options)
    for record in records:
        store.observe(record)
    store._release()
    return store


def crashed(file, tmp_path, records=LOG):
    """Observe some records, and leave all files as a process does that is killed."""
    other = tmp_path / "living" / file.name
    store = OnlineStore(other, [Tally()])
    for record in records:
        store.observe(record)
    shutil.copytree(other.parent, file.parent)
    store.close()
    return file


def found(file):
    tally = Tally()
    OnlineStore(file, [tally], read_only=True)
    return tally.ids


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def altered(file, statement, *values):
    """Change the file as somebody might who knows SQLite."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement, values)


class TestKeeping:
    @pytest.mark.parametrize("every", [1, 2, 5, 11, 12, 100])
    def test_all_is_there_again(self, file, every):
        store = filled(file, checkpoint_every=every)
        assert store.sequence == 12
        assert found(file) == IDS
        tally = Tally()
        with OnlineStore(file, [tally], checkpoint_every=every) as again:
            assert again.sequence == 12
            assert again.observe(run(99, "Rain?", "mail")).sequence == 13
        assert tally.ids == found(file) == [*IDS, "t99"]

    def test_an_id_counts_once(self, file):
        with OnlineStore(file, [Tally()], checkpoint_every=3) as store:
            receipts = [store.observe(record).counted for record in (*LOG[:4], *LOG[:4])]
        assert receipts == [True] * 4 + [False] * 4
        with OnlineStore(file, [Tally()]) as store:
            assert store.observe(LOG[0]).sequence is None
            # A mashup of the same id is something else.
            assert store.observe(Mashup("t0", "Rain?", ("weather",))).counted
        assert found(file) == [*IDS[:4], "t0"]

    @pytest.mark.parametrize("every", [1, 3, 200])
    def test_many_at_once_are_as_one_by_one(self, file, every):
        tally, router, one_by_one = Tally(), NextToolRouter(), NextToolRouter()
        with OnlineStore(file, [tally, router], checkpoint_every=every) as store:
            assert store.observe_many([]) == []
            first = store.observe(LOG[0])
            receipts = store.observe_many(iter([*LOG, LOG[3]]))
            assert store.sequence == len(LOG)
        one_by_one.apply(LOG)
        assert first == Receipt(True, 1)
        assert receipts[0] == receipts[-1] == Receipt(False, None)
        assert [r.sequence for r in receipts[1:-1]] == list(range(2, len(LOG) + 1))
        assert tally.ids == found(file) == IDS
        assert storage.state_to_bytes(router.state()) == storage.state_to_bytes(one_by_one.state())

    def test_one_store_may_be_asked_while_records_are_given(self, file):
        def growing(store):
            for record in LOG[:3]:
                yield record
                store.observe(LOG[3])

        with OnlineStore(file, [Tally()]) as store:
            receipts = store.observe_many(growing(store))
        assert [receipt.sequence for receipt in receipts] == [2, 3, 4]

    @pytest.mark.parametrize("wrong", [None, 3, LOG[0], "t0", [LOG[0], "t1"]])
    def test_what_are_no_records(self, file, wrong):
        what = "records must be several Trajectory or Mashup objects"
        with OnlineStore(file, [Tally()]) as store, pytest.raises(InputError, match=what):
            store.observe_many(wrong)
        assert found(file) == []

    def test_of_many_at_once_the_first_under_an_id_counts(self, file):
        other = run(0, "Snow?", "weather")
        with OnlineStore(file, [Tally()]) as store:
            receipts = store.observe_many([LOG[0], other, LOG[1]])
        assert receipts == [Receipt(True, 1), Receipt(False, None, changed=True), Receipt(True, 2)]
        assert OnlineStore.records_after(file, 0)[1] == LOG[:2]

    @pytest.mark.parametrize("every", [1, 100])
    def test_the_receipt_says_that_the_content_under_an_id_has_changed(self, file, every):
        same = Trajectory("t0", "Rain?", [Step("weather", seconds=0), Step("sms")])
        others = [
            run(0, "Snow?", "weather", "sms"),
            run(0, "Rain?", "weather", Step("sms", {"to": "x"})),
            run(0, "Rain?", "weather", "sms", success=False),
        ]
        for _ in range(2):  # as it was observed, and when opened again
            store = OnlineStore(file, [Tally()], checkpoint_every=every)
            store.observe(LOG[0])
            receipts = [store.observe(record) for record in (same, *others)]
            assert [receipt.changed for receipt in receipts] == [False, True, True, True]
            assert {(receipt.counted, receipt.sequence) for receipt in receipts} == {(False, None)}
            store._release()
        assert found(file) == ["t0"]

    def test_the_order_of_the_inputs_does_not_count_as_content(self, file):
        with OnlineStore(file, [Tally()]) as store:
            store.observe(run(0, "Rain?", Step("weather", {"a": 1, "b": 2})))
            again = store.observe(run(0, "Rain?", Step("weather", {"b": 2, "a": 1})))
        assert (again.counted, again.changed) == (False, False)

    @pytest.mark.parametrize("every", [1, 2, 100])
    def test_priors_and_parameters_survive_opening_again(self, file, every):
        def router():
            priors = {"weather": {"telex": 30.0}}
            return NextToolRouter(ContextPredictor(priors=priors, decay=Decay(0.5, 10)))

        whole = router()
        for trajectory in LOG:
            whole.observe(trajectory)
        for start in range(0, 12, 3):
            parts = router()
            store = OnlineStore(file, [parts], checkpoint_every=every)
            for trajectory in LOG[start : start + 3]:
                store.observe(trajectory)
            store._release()
        last = router()
        OnlineStore(file, [last], read_only=True)
        expected, state = whole.state()["predictor"], last.state()["predictor"]
        assert state["usage"] == expected["usage"]
        assert last.predict_next(["weather"]) == whole.predict_next(["weather"])
        assert state["usage"]["telex"] == 15.0  # decayed once, after ten of the twelve runs

    def test_other_priors_are_refused_when_opened_again(self, file):
        with OnlineStore(file, [NextToolRouter()]) as store:
            store.observe(LOG[0])
        late = NextToolRouter(ContextPredictor(priors={"weather": {"telex": 30.0}}))
        with pytest.raises(InputError, match=r"began with the priors none, got {'weather'"):
            OnlineStore(file, [late])
        OnlineStore(file, [NextToolRouter()]).close()

    def test_a_mashup_without_an_api_is_not_kept(self, file):
        with OnlineStore(file, [Tally()]) as store:
            with pytest.raises(InputError, match="mashup 'none' has no API"):
                store.observe(Mashup("none", "Rain?", ()))
            assert store.sequence == 0

    def test_of_many_records_checkpoints_become_rare(self, file):
        class Counted(Tally):
            n_states = 0

            def state(self):
                self.n_states += 1
                return super().state()

        counted = Counted()
        with OnlineStore(file, [counted], checkpoint_every=2) as store:
            for number in range(256):
                store.observe(run(number, "Rain?", "weather"))
                if number + 1 in (32, 128, 256):
                    # Every second one, then 16 of those of each doubling at the most.
                    assert counted.n_states <= 16 * (1 + np.log2((number + 1) / 32))
        assert OnlineStore(file, [again := Tally()], read_only=True).sequence == 256
        assert again.state() == counted.state()

    def test_closing_leaves_one_file_and_a_checkpoint(self, file, monkeypatch):
        with OnlineStore(file, [Tally()]) as store:
            store.observe(LOG[0])
        assert {path.name for path in file.parent.iterdir()} == {file.name, f"{file.name}-lock"}
        monkeypatch.delattr(Tally, "apply")  # not needed any more
        assert found(file) == ["t0"]

    def test_what_is_acknowledged_is_synced(self, file):
        with OnlineStore(file, [Tally()]) as store:
            connection = store._database._connection
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_learned_state_is_the_same_bit_by_bit(self, file):
        log = noisy(20)
        whole, parts = NextToolRouter(), None
        for trajectory in log:
            whole.observe(trajectory)
        for start in range(0, 20, 5):
            parts = NextToolRouter()
            store = OnlineStore(file, [parts], checkpoint_every=3)
            for trajectory in log[start : start + 5]:
                store.observe(trajectory)
            store._release()
        parts = NextToolRouter()
        OnlineStore(file, [parts], read_only=True)
        for trajectory in noisy(5, seed=1):
            context = Context(trajectory.goal)
            expected = whole.predict_next(trajectory.steps[:2], context)
            assert parts.predict_next(trajectory.steps[:2], context) == expected

    def test_failure_is_kept(self, file):
        failed = [run(n, "Rain?", "weather", "telex", success=False) for n in range(9)]
        router = NextToolRouter()
        with OnlineStore(file, [router], checkpoint_every=4) as store:
            for record in failed:
                store.observe(record)
        again = NextToolRouter()
        OnlineStore(file, [again], read_only=True)
        assert again.n_trajectories == 9
        assert again.tools == router.tools == ()

    def test_arrays_come_back(self, file):
        class Arrays(Tally):
            kind = "arrays"

            def state(self):
                return {"deep": {"a-b": {"x": np.arange(3)}, "ids": [1]}}

            def restore(self, state):
                self.restored = state

        with OnlineStore(file, [Arrays()]) as store:
            store.observe(LOG[0])
        again = Arrays()
        OnlineStore(file, [again], read_only=True)
        assert again.restored["deep"]["a-b"]["x"].tolist() == [0, 1, 2]
        assert again.restored["deep"]["ids"] == [1]

    @pytest.mark.parametrize("tool", ["array", "sparse", "dict", "plain", "a/b", "a.b"])
    def test_a_tool_may_be_called_anything(self, file, tool):
        with OnlineStore(file, [NextToolRouter()]) as store:
            store.observe(run(0, "Rain?", tool))
        again = NextToolRouter()
        OnlineStore(file, [again], read_only=True)
        assert again.predict_next([]).tool == tool

    def test_many_threads(self, file):
        tally, start = Tally(), threading.Barrier(4)
        with OnlineStore(file, [tally], checkpoint_every=3) as store:

            def work():
                start.wait()
                return sum(store.observe(record).counted for record in LOG)

            with ThreadPoolExecutor(4) as pool:
                counted = [done.result() for done in [pool.submit(work) for _ in range(4)]]
        assert sum(counted) == 12
        assert sorted(tally.ids) == sorted(found(file)) == sorted(IDS)

    def test_an_observer_that_comes_late_or_pauses_learns_all(self, file):
        with OnlineStore(file, [Tally()], checkpoint_every=2) as store:
            for record in LOG[:5]:
                store.observe(record)
        router = NextToolRouter()
        with OnlineStore(file, [router]) as store:
            store.observe(LOG[5])
        tally = Tally()
        with OnlineStore(file, [tally, NextToolRouter()]):
            pass
        assert tally.ids == IDS[:6]
        assert router.n_trajectories == 6

    def test_it_is_shown_in_one_line(self, file):
        with OnlineStore(file, [Tally()]) as store:
            store.observe(LOG[0])
            assert repr(store) == f"OnlineStore('{file}', 1 records)"
        assert repr(store) == f"OnlineStore('{file}', 1 records, closed)"


class TestRefusing:
    def test_two_writers(self, file):
        with OnlineStore(file, [Tally()]) as store:
            store.observe(LOG[0])
            with pytest.raises(ModelStoreError, match="close it first"):
                OnlineStore(file, [Tally()])
            assert found(file) == ["t0"]
        OnlineStore(file, [Tally()]).close()

    def test_another_program_is_writing(self, file, monkeypatch):
        monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
        with OnlineStore(file, [Tally()]) as store:
            store.observe(LOG[0])
            with closing(sqlite3.connect(file, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(ModelStoreError, match="another process is writing there"):
                    store.observe(LOG[1])
            assert store.observe(LOG[1]).sequence == 2
        assert found(file) == IDS[:2]

    def test_nothing_to_read(self, file):
        with pytest.raises(ModelNotFoundError, match="nothing was observed"):
            OnlineStore(file, [], read_only=True)
        assert not file.parent.exists()

    @pytest.mark.parametrize(
        "record",
        [
            lambda: run(1, "Rain?", Step("weather", {"x": float("nan")})),
            lambda: run(1, "Rain?", Step("weather", {"x": object()})),
            lambda: run(1, "half \ud800", "weather"),
            lambda: "t1",
        ],
    )
    def test_a_record_that_could_not_be_read_again(self, file, record):
        with OnlineStore(file, [Tally()]) as store:
            with pytest.raises(InputError):
                store.observe(record())
            assert store.observe(LOG[0]).sequence == 1
        assert found(file) == ["t0"]

    def test_one_that_was_changed_after_it_was_made(self, file):
        late = run(1, "Rain?", Step("weather"))
        late.steps[0].inputs["x"] = float("nan")
        with OnlineStore(file, [Tally()]) as store:
            with pytest.raises(InputError, match="trajectory 't1' cannot be written as JSON"):
                store.observe(late)
            assert store.observe(LOG[0]).sequence == 1

    @pytest.mark.parametrize(
        "wrong",
        [
            {"apis": ()},
            {"date": "2024-01-01"},
            {"description": "half \ud800"},
            {"description": 7},
        ],
    )
    def test_a_mashup_that_could_not_be_read_again(self, file, wrong):
        with OnlineStore(file, [Tally()]) as store:
            with pytest.raises(InputError):
                store.observe(
                    Mashup(**{"id": "m", "description": "Rain?", "apis": ("a",), **wrong})
                )
            assert store.observe(LOG[0]).sequence == 1

    def test_a_record_an_observer_cannot_learn_from(self, file):
        class Strict(Tally):
            def check(self, records):
                if "t1" in [record.id for record in records]:
                    raise InputError("not this one")

        with OnlineStore(file, [Strict()]) as store:
            store.observe(LOG[0])
            with pytest.raises(InputError, match="not this one"):
                store.observe(LOG[1])
            with pytest.raises(InputError, match="not this one"):
                store.observe_many(LOG)  # all of them or none
            assert store.sequence == 1
            store.observe(LOG[2])
        assert found(file) == ["t0", "t2"]

    def test_after_closing(self, file):
        store = OnlineStore(file, [Tally()])
        store.close()
        store.close()
        with pytest.raises(ModelStoreError, match="is closed"):
            store.observe(LOG[0])

    def test_wrong_parameters(self, file):
        with pytest.raises(InputError, match="distinct kinds"):
            OnlineStore(file, [Tally(), Tally()])
        with pytest.raises(
            InputError, match="checkpoint_every must be a whole number of at least 1, got 0"
        ):
            OnlineStore(file, [], checkpoint_every=0)

    def test_a_folder_in_the_way(self, file):
        file.mkdir(parents=True)
        for read_only in (False, True):
            with pytest.raises(DataFileError, match="cannot be used"):
                OnlineStore(file, [Tally()], read_only=read_only)

    def test_a_file_in_the_way_of_its_folder(self, file):
        file.parent.write_text("x")
        with pytest.raises(DataFileError, match="cannot be used"):
            OnlineStore(file, [Tally()])


class TestReading:
    @pytest.mark.parametrize("state", ["closed", "alive", "killed", "without -shm"])
    def test_a_reader_changes_nothing_and_cannot_write(self, file, tmp_path, state):
        crashed(file, tmp_path)
        store = None
        if state in ("closed", "alive"):
            store = OnlineStore(file, [Tally()])
        if state == "closed":
            store.close()
        if state == "without -shm":
            Path(f"{file}-shm").unlink()
        before = everything(tmp_path)
        tally = Tally()
        reader = OnlineStore(file, [tally], read_only=True)
        assert (tally.ids, reader.sequence) == (IDS, 12)
        with pytest.raises(ModelStoreError, match="opened to be read"):
            reader.observe(LOG[0])
        with pytest.raises(ModelStoreError, match="opened to be read"):
            reader.checkpoint()
        reader.close()
        assert everything(tmp_path).keys() == before.keys()
        kept = {path for path in before if not path.name.endswith("-shm")}  # marks of readers
        assert all(path.read_bytes() == before[path] for path in kept)
        if store:
            store.close()

    @pytest.mark.skipif(os.name == "nt", reason="no modes")
    def test_only_its_owner_may_read_a_new_one(self, file):
        def modes():
            found = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
            assert {"online.sqlite", "online.sqlite-wal", "online.sqlite-shm"} <= set(found)
            return {found[f"online.sqlite{each}"] for each in ("", "-wal", "-shm")}

        before = os.umask(0o022)
        try:
            for mode, later in ((0o600, 0o640), (0o640, 0o644), (0o644, 0o600)):
                with OnlineStore(file, [Tally()]) as store:
                    store.observe(run(mode, "Rain?", "weather"))
                    assert modes() == {mode}
                file.chmod(later)
        finally:
            os.umask(before)

    @pytest.mark.skipif(os.name == "nt", reason="no modes")
    @pytest.mark.parametrize("killed", [False, True])
    def test_a_folder_that_may_only_be_read(self, file, tmp_path, killed):
        if killed:
            crashed(file, tmp_path)
        else:
            filled(file)
        for path in file.parent.iterdir():
            path.chmod(0o444)
        file.parent.chmod(0o555)
        try:
            assert as_nobody(file, "read_only=True") == f"12 {IDS}"
            assert as_nobody(file, "read_only=False").startswith("DataFileError")
        finally:
            file.parent.chmod(0o755)

    def test_readers_while_one_writes(self, file):
        with OnlineStore(file, [Tally()], checkpoint_every=2) as store:
            store.observe(LOG[0])
            for record in LOG[1:]:
                store.observe(record)
                ids = found(file)
                assert ids == IDS[: store.sequence]

    def test_a_writer_comes_and_goes_while_readers_read(self, file):
        filled(file, LOG[:1])
        done = threading.Event()
        seen = []

        def read():
            while not done.is_set():
                seen.append(found(file))

        with ThreadPoolExecutor(2) as pool:
            reading = [pool.submit(read) for _ in range(2)]
            for record in LOG[1:]:
                filled(file, [record], checkpoint_every=1)
            done.set()
            for one in reading:
                one.result()
        assert len(seen) > 2
        assert all(ids == IDS[: len(ids)] and ids for ids in seen)


class TestAnotherStoreTakesItsPlace:
    """An open store never writes into a file that is not its own."""

    def opened(self, file):
        store = OnlineStore(file, [Tally()], checkpoint_every=3)
        for record in LOG[:4]:
            assert store.observe(record).counted
        return store

    @pytest.mark.parametrize("with_new", [False, True])
    def test_the_folder_is_moved_away(self, file, tmp_path, with_new, caplog):
        store, away = self.opened(file), tmp_path / "away"
        file.parent.rename(away)
        others = [run(n, "Snow?", "maps") for n in range(100, 105)]
        new = None
        if with_new:
            new = OnlineStore(file, [Tally()], checkpoint_every=2)
            for record in others[:3]:
                new.observe(record)
        for _ in range(2):
            with pytest.raises(ModelStoreError, match=r"moved away, removed or replaced .*open"):
                store.observe(LOG[4])
        with pytest.raises(ModelStoreError, match="moved away"):
            store.checkpoint()
        store.close()
        assert "moved away" in caplog.text
        if new:
            for record in others[3:]:
                new.observe(record)
            assert found(file) == [record.id for record in others]
            new.close()
            assert found(file) == [record.id for record in others]
        else:
            assert not file.parent.exists()
        with OnlineStore(away / file.name, [Tally()]) as again:
            assert again.observe(LOG[4]).sequence == 5
        assert found(away / file.name) == IDS[:5]

    def test_the_file_is_replaced_by_another(self, file, tmp_path):
        filled(tmp_path / "other.sqlite", LOG[8:])
        whole = (tmp_path / "other.sqlite").read_bytes()
        store = self.opened(file)
        (tmp_path / "other.sqlite").replace(file)
        with pytest.raises(ModelStoreError, match="moved away"):
            store.observe(LOG[4])
        store.close()
        assert file.read_bytes() == whole

    def test_the_process_goes_elsewhere(self, file, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with OnlineStore(file.relative_to(tmp_path), [Tally()]) as store:
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")
            assert store.observe(LOG[0]).counted
        assert found(file) == IDS[:1]

    def test_it_comes_back(self, file, tmp_path):
        store = self.opened(file)
        file.parent.rename(tmp_path / "away")
        with pytest.raises(ModelStoreError):
            store.observe(LOG[4])
        (tmp_path / "away").rename(file.parent)
        assert store.observe(LOG[4]).sequence == 5
        store.close()
        assert found(file) == IDS[:5]


class TestDamage:
    def right_or_refused(self, file, expected):
        """Open to read and to write: all is right, or an error says what to do."""
        refused = 0
        for read_only in (True, False):
            tally = Tally()
            try:
                store = OnlineStore(file, [tally], read_only=read_only)
            except (ModelCorruptError, ModelVersionError) as exc:
                assert "(" in str(exc)
                refused += 1
                assert tally.ids in ([], expected)
                continue
            assert tally.ids == expected
            if not read_only:
                try:
                    assert not any(store.observe(record).counted for record in LOG)
                except ModelCorruptError:
                    refused += 1
            store._release()
        return refused

    @pytest.mark.parametrize("every", [5, 100])
    def test_flipped_bytes(self, file, every):
        filled(file, checkpoint_every=every)
        whole, refused = file.read_bytes(), 0
        used = [place for place in range(len(whole)) if whole[place]]
        for place in [*range(100), *used[100::29]]:
            flipped = bytearray(whole)
            flipped[place] ^= 1 + place % 254
            file.write_bytes(flipped)
            refused += self.right_or_refused(file, IDS)
        assert refused > 50

    @pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.3, 0.5, 0.9, 0.999])
    def test_truncated(self, file, share):
        filled(file)
        whole = file.read_bytes()
        file.write_bytes(whole[: int(len(whole) * share)])
        for read_only in (False, True):
            with pytest.raises(ModelCorruptError, match=r"\(restore it from a backup, or remove"):
                OnlineStore(file, [Tally()], read_only=read_only)

    @pytest.mark.parametrize("data", [b"", b"x", b"Rain?\n" * 1000, b"SQLite format 3\0"])
    def test_a_file_that_is_not_a_database(self, file, data):
        file.parent.mkdir()
        file.write_bytes(data)
        for read_only in (False, True):
            with pytest.raises(ModelCorruptError, match=r"altered: .* \(restore it"):
                OnlineStore(file, [Tally()], read_only=read_only)
        assert file.read_bytes() == data

    def test_a_database_of_something_else(self, file):
        file.parent.mkdir()
        altered(file, "CREATE TABLE records (x)")
        before = file.read_bytes()
        for read_only in (False, True):
            with pytest.raises(ModelCorruptError, match="a database of something else"):
                OnlineStore(file, [Tally()], read_only=read_only)
        assert file.read_bytes() == before

    def test_a_newer_format(self, file):
        filled(file)
        altered(file, "PRAGMA user_version = 99")
        for read_only in (False, True):
            with pytest.raises(ModelVersionError, match=r"another format \(99, .*upgrade"):
                OnlineStore(file, [Tally()], read_only=read_only)

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM records WHERE sequence = 3",
            "UPDATE records SET sequence = 99 WHERE sequence = 12",
            "UPDATE records SET content = '{}' WHERE sequence = 3",
            "UPDATE records SET id = 'other' WHERE sequence = 3",
            "UPDATE records SET content = 7 WHERE sequence = 3",
            "INSERT INTO records VALUES (13, 'trajectory', 'x', '{}', x'00')",
            "CREATE TABLE more (x)",
            "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
        ],
    )
    def test_forged_rows(self, file, statement):
        filled(file)
        altered(file, statement)
        for read_only in (False, True):
            with pytest.raises(ModelCorruptError, match=r"altered: .* \(restore it"):
                OnlineStore(file, [Tally()], read_only=read_only)

    @pytest.mark.parametrize(
        ("kind", "content"),
        [
            ("trajectory", b"7"),
            ("trajectory", b"{}"),
            ("trajectory", b'{"id": "y", "goal": "", "steps": []}'),
            ("trajectory", b'{"id": "x", "goal": "", "steps": [{"tool": 7}]}'),
            ("mashup", b"[" * 100_000),
            ("mashup", b"\xff"),
            ("other", b"{}"),
        ],
    )
    def test_a_record_nobody_wrote_with_the_right_digest(self, file, kind, content):
        filled(file)
        digest = database._digest(13, kind, "x", content)
        statement = "INSERT INTO records VALUES (13, ?, 'x', ?, ?)"
        altered(file, statement, kind, content, digest)
        for read_only in (False, True):
            with pytest.raises(ModelCorruptError, match="altered: record 13: "):
                OnlineStore(file, [Tally()], read_only=read_only)

    def test_the_records_make_up_for_a_damaged_checkpoint(self, file, caplog):
        with OnlineStore(file, [Tally()]) as store:
            for record in LOG:
                store.observe(record)
        altered(file, "UPDATE checkpoints SET state = x'00'")
        assert found(file) == IDS
        assert "the checkpoint of 'tally' is altered; learning again" in caplog.text
        with OnlineStore(file, [Tally()]) as store:
            assert store.sequence == 12
        caplog.clear()
        assert found(file) == IDS
        assert caplog.text == ""

    @pytest.mark.parametrize("state", [{}, {"ids": 7}])
    def test_a_checkpoint_nobody_wrote_with_the_right_digest(self, file, state):
        self.forged_checkpoint(file, 12, database.state_to_bytes(state))
        for read_only in (False, True):
            with pytest.raises(ModelCorruptError, match="altered: the checkpoint of 'tally'"):
                OnlineStore(file, [Tally()], read_only=read_only)

    def test_a_checkpoint_that_would_run_something(self, file, tmp_path):
        bomb = tmp_path / "bomb.npz"
        np.savez(bomb, plain=np.array([Exploding()], dtype=object))
        self.forged_checkpoint(file, 12, bomb.read_bytes())
        with pytest.raises(ModelCorruptError, match="the checkpoint of 'tally'"):
            OnlineStore(file, [Tally()])

    def test_a_checkpoint_of_records_that_are_not_there(self, file):
        self.forged_checkpoint(file, 13, database.state_to_bytes({"ids": []}))
        with pytest.raises(ModelCorruptError, match="record 13 was observed, and 12 are there"):
            OnlineStore(file, [Tally()])

    def test_a_forged_state_of_a_predictor(self, file):
        with OnlineStore(file, [NextToolRouter()]) as store:
            store.observe(LOG[0])
        state = {**NextToolRouter().state(), "predictable": 7}
        self.forged_checkpoint(file, 1, database.state_to_bytes(state), kind="next-tool")
        router = NextToolRouter()
        with pytest.raises(CnpRouterError, match="broken"):
            OnlineStore(file, [router])
        assert router.n_trajectories == 0

    def forged_checkpoint(self, file, sequence, state, kind="tally"):
        if not file.exists():
            filled(file)
        digest = database._digest(sequence, kind, "", state)
        statement = "REPLACE INTO checkpoints VALUES (?, ?, ?, ?)"
        altered(file, statement, kind, sequence, state, digest)


class TestTheDiskFails:
    def test_a_record_that_could_not_be_written(self, file, monkeypatch):
        store = OnlineStore(file, [Tally()])
        store.observe(LOG[0])
        store._database._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(DataFileError, match=r"is full \(make room, if the disk is full\)$"):
            store.observe(run(1, "Rain?" * 10_000, "weather"))
        with pytest.raises(ModelStoreError, match="open it again"):
            store.observe(LOG[1])
        store.close()
        with OnlineStore(file, [Tally()]) as again:
            assert again.observe(LOG[1]).sequence == 2
        assert found(file) == IDS[:2]

    def test_a_checkpoint_that_could_not_be_written(self, file, monkeypatch, caplog):
        def full(*_):
            raise DataFileError(file, "cannot be used: database or disk is full")

        with OnlineStore(file, [Tally()], checkpoint_every=2) as store:
            for record in LOG[:5]:
                store.observe(record)
            with monkeypatch.context() as broken:
                broken.setattr(database.Database, "write_checkpoint", full)
                assert all(store.observe(record).counted for record in LOG[5:8])
                assert "disk is full; what was learned will be" in caplog.text
            for record in LOG[8:]:
                store.observe(record)
        assert found(file) == IDS

    def test_nothing_is_left_of_a_file_that_could_not_be_made(self, file, monkeypatch):
        with monkeypatch.context() as broken:
            broken.setattr(database, "_SCHEMA", ["CREATE nothing"])
            with pytest.raises(CnpRouterError):
                OnlineStore(file, [Tally()])
        assert [each.name for each in file.parent.iterdir() if each.name.endswith("new")] == []
        OnlineStore(file, [Tally()]).close()

    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
    def test_an_observer_that_breaks_off(self, file, error):
        class Broken(Tally):
            def apply(self, records):
                if records[0].id == "t1":
                    raise error
                super().apply(records)

        store = OnlineStore(file, [Broken()])
        store.observe(LOG[0])
        with pytest.raises(error):
            store.observe(LOG[1])
        with pytest.raises(ModelStoreError, match="broken off"):
            store.observe(LOG[2])
        store.close()
        assert found(file) == IDS[:2]
        with OnlineStore(file, [Tally()]) as again:
            assert again.observe(LOG[1]) == Receipt(False, None)


@pytest.mark.skipif(os.name == "nt", reason="no fork and no SIGKILL")
def test_no_kill_loses_or_doubles_anything(tmp_path):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("killing.py"), tmp_path],
        env={**os.environ, "PYTHONPATH": str(Path(cnp_router.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(points) > 100
    ids = IDS[:7]
    for point in points:
        said, both = point["said"], point["said"] + point["said_again"]
        # In order and each once: nothing acknowledged is lost, at most what was given together
        # after it has been kept, and all of that.
        at_once = point["at_once"]
        assert said == ids[: len(said)], point
        assert point["found"] == ids[: len(point["found"])], point
        assert len(said) <= len(point["found"]) <= -(-(len(said) + 1) // at_once) * at_once, point
        assert len(point["found"]) in {7, *range(0, 7, at_once)}, point
        assert len(set(both)) == len(both), point
        assert set(both) <= set(point["found_again"]), point
        assert point["found_again"] == ids[: len(point["found_again"])], point
        assert point["at_the_end"] == ids, point
        assert point["left"] == ["online.sqlite", "online.sqlite-lock"], point
    assert any(point["found"] != point["said"] for point in points)
    for at_once in (1, 3):
        those = [point for point in points if point["at_once"] == at_once]
        assert {len(point["said"]) for point in those} >= {7, *range(0, 7, at_once)}


class Exploding:
    def __reduce__(self):
        return os._exit, (86,)


def as_nobody(file, how):
    """Open a store in a process that may only do what the modes of the files say."""
    code = (
        "import os, sys\n"
        "from killing import Tally\n"
        "from cnp_router.exceptions import CnpRouterError\n"
        "from cnp_router.online import OnlineStore\n"
        "if os.getuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"
        "tally = Tally()\n"
        "try:\n"
        f"    store = OnlineStore(sys.argv[1], [tally], {how})\n"
        "    print(store.sequence, tally.ids)\n"
        "except CnpRouterError as exc:\n    print(type(exc).__name__, exc)\n"
    )
    places = [Path(cnp_router.__file__).parents[1], Path(__file__).parent]
    folder = file.parent
    modes = {}
    while folder != folder.parent and os.getuid() == 0:  # a way for nobody to get there
        modes[folder] = folder.stat().st_mode
        folder.chmod(modes[folder] | 0o555)
        folder = folder.parent
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, file],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)
    return done.stdout.strip()
