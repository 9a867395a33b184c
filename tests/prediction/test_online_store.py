from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from kill_points import Tally
from worlds import noisy, run

import cnp_router
from cnp_router.exceptions import (
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelStoreError,
    ModelVersionError,
)
from cnp_router.history import Mashup
from cnp_router.prediction import (
    Context,
    ContextPredictor,
    Fading,
    NextToolRouter,
    OnlineStore,
    disk,
)
from cnp_router.trajectories import Step, Trajectory

LOG = [run(n, "Rain?", "weather", "sms") for n in range(12)]
IDS = [trajectory.id for trajectory in LOG]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "online"


def filled(folder, records=LOG, **options):
    """Observe some records, and leave without a last checkpoint, as if killed."""
    store = OnlineStore(folder, [Tally()], **options)
    for record in records:
        store.observe(record)
    store._release()
    return store


def found(folder):
    tally = Tally()
    OnlineStore(folder, [tally], read_only=True)
    return tally.ids


def files(folder, start):
    return sorted(path for path in folder.iterdir() if path.name.startswith(start))


class TestKeeping:
    @pytest.mark.parametrize("every", [1, 2, 5, 11, 12, 100])
    def test_all_is_there_again(self, folder, every):
        store = filled(folder, every=every)
        assert store.sequence == 12
        assert found(folder) == IDS
        tally = Tally()
        with OnlineStore(folder, [tally], every=every) as again:
            assert again.sequence == 12
            assert again.observe(run(99, "Rain?", "mail")).sequence == 13
        assert tally.ids == found(folder) == [*IDS, "t99"]

    def test_an_id_counts_once(self, folder):
        with OnlineStore(folder, [Tally()], every=3) as store:
            receipts = [store.observe(record).counted for record in (*LOG[:4], *LOG[:4])]
        assert receipts == [True] * 4 + [False] * 4
        with OnlineStore(folder, [Tally()]) as store:
            assert store.observe(LOG[0]).sequence is None
            # A mashup of the same id is something else.
            assert store.observe(Mashup("t0", "Rain?", ("weather",))).counted
        assert found(folder) == [*IDS[:4], "t0"]

    @pytest.mark.parametrize("every", [1, 100])
    def test_other_content_under_the_same_id_is_told(self, folder, every):
        same = Trajectory("t0", "Rain?", [Step("weather", seconds=0), Step("sms")])
        others = [
            run(0, "Snow?", "weather", "sms"),
            run(0, "Rain?", "weather", Step("sms", {"to": "x"})),
            run(0, "Rain?", "weather", "sms", success=False),
        ]
        for _ in range(2):  # as it was observed, and when opened again
            store = OnlineStore(folder, [Tally()], every=every)
            store.observe(LOG[0])
            receipts = [store.observe(record) for record in (same, *others)]
            assert [receipt.changed for receipt in receipts] == [False, True, True, True]
            assert {(receipt.counted, receipt.sequence) for receipt in receipts} == {(False, None)}
            store._release()
        assert found(folder) == ["t0"]

    def test_the_order_of_the_inputs_is_no_content(self, folder):
        with OnlineStore(folder, [Tally()]) as store:
            store.observe(run(0, "Rain?", Step("weather", {"a": 1, "b": 2})))
            again = store.observe(run(0, "Rain?", Step("weather", {"b": 2, "a": 1})))
        assert (again.counted, again.changed) == (False, False)

    @pytest.mark.parametrize("every", [1, 2, 100])
    def test_priors_and_parameters_survive_opening_again(self, folder, every):
        def router():
            priors = {"weather": {"telex": 30.0}}
            return NextToolRouter(ContextPredictor(priors=priors, fading=Fading(0.5, 10)))

        whole = router()
        for trajectory in LOG:
            whole.observe(trajectory)
        for start in range(0, 12, 3):
            parts = router()
            store = OnlineStore(folder, [parts], every=every)
            for trajectory in LOG[start : start + 3]:
                store.observe(trajectory)
            store._release()
        last = router()
        OnlineStore(folder, [last], read_only=True)
        expected, state = whole.state()["predictor"], last.state()["predictor"]
        assert state["usage"] == expected["usage"]
        assert state["fading"] == {"factor": 0.5, "window": 10}
        assert last.predict_next(["weather"]) == whole.predict_next(["weather"])
        assert state["usage"]["telex"] == 15.0  # faded once, after ten of the twelve runs

    def test_other_priors_are_refused_when_opened_again(self, folder):
        with OnlineStore(folder, [NextToolRouter()]) as store:
            store.observe(LOG[0])
        late = NextToolRouter(ContextPredictor(priors={"weather": {"telex": 30.0}}))
        with pytest.raises(InputError, match=r"began with the priors none, got {'weather'"):
            OnlineStore(folder, [late])
        OnlineStore(folder, [NextToolRouter()]).close()

    def test_what_is_not_needed_is_removed(self, folder):
        filled(folder, every=2)
        assert [path.name[-2:] for path in files(folder, "checkpoint-")] == ["10", "12"]
        assert [path.name for path in files(folder, "log-")] == ["log-000000000011.log"]
        assert files(folder, ".new-") == []

    def test_closing_writes_a_checkpoint(self, folder):
        with OnlineStore(folder, [Tally()]) as store:
            store.observe(LOG[0])
        assert [path.name for path in files(folder, "checkpoint-")] == ["checkpoint-000000000001"]
        with OnlineStore(folder, [Tally()]):
            pass
        assert len(files(folder, "checkpoint-")) == 1

    def test_it_is_on_disk_before_it_is_acknowledged(self, folder, monkeypatch):
        synced = []
        real = os.fsync

        def fsync(handle):
            real(handle)
            (path,) = files(folder, "log-") or [None]
            synced.append(path.read_bytes() if path else b"")

        with OnlineStore(folder, [Tally()]) as store:
            monkeypatch.setattr(os, "fsync", fsync)
            for record in LOG[:3]:
                store.observe(record)
                assert record.id.encode() in synced[-1]

    def test_learned_state_is_the_same_bit_by_bit(self, folder):
        log = noisy(20)
        whole, parts = NextToolRouter(), None
        for trajectory in log:
            whole.observe(trajectory)
        for start in range(0, 20, 5):
            parts = NextToolRouter()
            store = OnlineStore(folder, [parts], every=3)
            for trajectory in log[start : start + 5]:
                store.observe(trajectory)
            store._release()
        parts = NextToolRouter()
        OnlineStore(folder, [parts], read_only=True)
        for trajectory in noisy(5, seed=1):
            context = Context(trajectory.goal)
            expected = whole.predict_next(trajectory.steps[:2], context)
            assert parts.predict_next(trajectory.steps[:2], context) == expected

    def test_failure_is_kept(self, folder):
        failed = [run(n, "Rain?", "weather", "telex", success=False) for n in range(9)]
        router = NextToolRouter()
        with OnlineStore(folder, [router], every=4) as store:
            for record in failed:
                store.observe(record)
        again = NextToolRouter()
        OnlineStore(folder, [again], read_only=True)
        assert again.n_trajectories == 9
        assert again.tools == router.tools == ()

    def test_arrays_come_back(self, folder):
        class Arrays(Tally):
            kind = "arrays"

            def state(self):
                return {"array": {"array": 1}, "deep": {"a/b": {"x": np.arange(3)}, "ids": [1]}}

            def restore(self, state):
                self.restored = state

        with OnlineStore(folder, [Arrays()]) as store:
            store.observe(LOG[0])
        again = Arrays()
        OnlineStore(folder, [again], read_only=True)
        assert again.restored["array"] == {"array": 1}
        assert again.restored["deep"]["a/b"]["x"].tolist() == [0, 1, 2]

    def test_many_threads(self, folder):
        tally, start = Tally(), threading.Barrier(4)
        with OnlineStore(folder, [tally], every=3) as store:

            def work():
                start.wait()
                return sum(store.observe(record).counted for record in LOG)

            with ThreadPoolExecutor(4) as pool:
                counted = [done.result() for done in [pool.submit(work) for _ in range(4)]]
        assert sum(counted) == 12
        assert sorted(tally.ids) == sorted(found(folder)) == sorted(IDS)


class TestRefusing:
    def test_two_writers(self, folder):
        with OnlineStore(folder, [Tally()]) as store:
            store.observe(LOG[0])
            with pytest.raises(ModelStoreError, match="close it first"):
                OnlineStore(folder, [Tally()])
            assert found(folder) == ["t0"]
        OnlineStore(folder, [Tally()]).close()

    def test_a_reader_changes_nothing_and_cannot_write(self, folder):
        filled(folder)
        (log,) = files(folder, "log-")
        log.write_bytes(log.read_bytes() + b"torn")
        before = {path: path.read_bytes() for path in folder.iterdir()}
        store = OnlineStore(folder, [Tally()], read_only=True)
        with pytest.raises(ModelStoreError, match="opened to be read"):
            store.observe(LOG[0])
        store.close()
        assert {path: path.read_bytes() for path in folder.iterdir()} == before

    def test_nothing_to_read(self, folder):
        with pytest.raises(ModelNotFoundError, match="nothing was observed"):
            OnlineStore(folder, [], read_only=True)
        assert not folder.exists()

    @pytest.mark.parametrize(
        "record",
        [
            run(1, "Rain?", Step("weather", {"x": float("nan")})),
            run(1, "Rain?", Step("weather", {"x": object()})),
            run(1, "half \ud800", "weather"),
            Mashup("m1", "Rain?", ()),
            "t1",
        ],
    )
    def test_a_record_that_could_not_be_read_again(self, folder, record):
        with OnlineStore(folder, [Tally()]) as store:
            with pytest.raises(InputError):
                store.observe(record)
            assert store.observe(LOG[0]).sequence == 1
        assert found(folder) == ["t0"]

    def test_a_record_an_observer_cannot_learn_from(self, folder):
        class Strict(Tally):
            def check(self, record):
                if record.id == "t1":
                    raise InputError("not this one")

        with OnlineStore(folder, [Strict()]) as store:
            store.observe(LOG[0])
            with pytest.raises(InputError, match="not this one"):
                store.observe(LOG[1])
            store.observe(LOG[2])
        assert found(folder) == ["t0", "t2"]

    def test_after_closing(self, folder):
        store = OnlineStore(folder, [Tally()])
        store.close()
        store.close()
        with pytest.raises(ModelStoreError, match="is closed"):
            store.observe(LOG[0])

    def test_a_writer_gives_all_that_learn_there(self, folder, caplog):
        with OnlineStore(folder, [Tally(), NextToolRouter()]) as store:
            store.observe(LOG[0])
        with pytest.raises(InputError, match="has a state of \\['next-tool'\\]"):
            OnlineStore(folder, [Tally()])
        assert found(folder) == ["t0"]
        late = NextToolRouter()
        late.kind = "late"
        OnlineStore(folder, [Tally(), NextToolRouter(), late]).close()
        assert "'late' learns from what comes after record 1 only" in caplog.text

    def test_wrong_parameters(self, folder):
        with pytest.raises(InputError, match="distinct kinds"):
            OnlineStore(folder, [Tally(), Tally()])
        with pytest.raises(InputError, match="every must be at least 1, got 0"):
            OnlineStore(folder, [], every=0)

    def test_a_file_in_the_way(self, folder):
        folder.write_text("x")
        with pytest.raises(DataFileError, match="cannot be opened"):
            OnlineStore(folder, [Tally()])


class TestDamage:
    @pytest.mark.parametrize("tail", [b"0", b"00000000 {", b"\0\0\0\0", b"12345678 {}"])
    def test_a_torn_last_record_is_cut_off(self, folder, tail, caplog):
        filled(folder, LOG[:3])
        (log,) = files(folder, "log-")
        whole = log.read_bytes()
        log.write_bytes(whole + tail)
        assert found(folder) == IDS[:3]
        with caplog.at_level(logging.WARNING), OnlineStore(folder, [Tally()]) as store:
            assert log.read_bytes() == whole
            assert store.observe(LOG[3]).sequence == 4
        assert f"torn record of {len(tail)} bytes" in caplog.text
        assert found(folder) == IDS[:4]

    def test_every_cut_of_the_last_record(self, folder):
        filled(folder, LOG[:2])
        (log,) = files(folder, "log-")
        whole = log.read_bytes()
        first = whole.index(b"\n") + 1
        for size in range(first, len(whole)):
            log.write_bytes(whole[:size])
            assert found(folder) == IDS[:1]

    def test_an_altered_record_is_an_error_that_says_where(self, folder):
        filled(folder, LOG[:4])
        (log,) = files(folder, "log-")
        whole = log.read_bytes()
        for place in range(0, len(whole), 7):
            changed = bytes([whole[place] ^ 1])
            log.write_bytes(whole[:place] + changed + whole[place + 1 :])
            if place == len(whole) - 1:
                continue
            line = whole.count(b"\n", 0, place) + 1
            with pytest.raises(ModelCorruptError, match=rf"log, line ({line}|{line + 1}): altered"):
                OnlineStore(folder, [Tally()])

    def test_a_record_that_was_never_written_but_has_a_checksum(self, folder):
        import zlib

        filled(folder, LOG[:1])
        (log,) = files(folder, "log-")
        for document in ("7", "{}", '{"sequence": 2, "kind": "x", "record": {}}'):
            data = document.encode()
            line = f"{zlib.crc32(data):08x} ".encode() + data + b"\n"
            log.write_bytes(log.read_bytes().split(b"\n")[0] + b"\n" + line)
            with pytest.raises(ModelCorruptError, match="line 2: altered: no record"):
                OnlineStore(folder, [Tally()])

    def test_a_missing_file_of_the_log(self, folder):
        filled(folder, LOG[:3])
        store = OnlineStore(folder, [Tally()], every=100)
        store.checkpoint()
        store.observe(LOG[3])
        store._release()
        (folder / "log-000000000004.log").rename(folder / "log-000000000009.log")
        text = (folder / "log-000000000009.log").read_bytes()
        assert b'"sequence": 4' in text
        assert found(folder) == IDS[:4]
        for path in files(folder, "log-"):
            path.unlink()
        assert found(folder) == IDS[:3]

    def test_a_gap_between_files(self, folder):
        filled(folder, LOG[:2])
        (log,) = files(folder, "log-")
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(lines[1])
        with pytest.raises(ModelCorruptError, match="record 1, which should come before"):
            OnlineStore(folder, [Tally()])

    def test_a_torn_record_that_is_not_the_last(self, folder):
        filled(folder, LOG[:5], every=2)
        first, _ = files(folder, "log-")
        first.write_bytes(first.read_bytes()[:-5])
        (folder / "checkpoint-000000000004" / "state.json").write_bytes(b"{}")
        with pytest.raises(ModelCorruptError, match="is missing"):
            OnlineStore(folder, [Tally()])

    @pytest.mark.parametrize("name", ["manifest.json", "state.json", "arrays.npz"])
    @pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
    def test_the_log_makes_up_for_a_damaged_checkpoint(self, folder, name, damage, caplog):
        filled(folder, LOG[:5], every=2)
        latest = files(folder, "checkpoint-")[-1]
        spoil(latest / name, damage)
        assert found(folder) == IDS[:5]
        assert latest.name in caplog.text
        with OnlineStore(folder, [Tally()], every=1) as store:
            store.observe(LOG[5])
        assert found(folder) == IDS[:6]

    def test_all_checkpoints_damaged(self, folder):
        filled(folder, LOG[:9], every=2)
        for checkpoint in files(folder, "checkpoint-"):
            spoil(checkpoint / "state.json", "flip")
        with pytest.raises(ModelCorruptError, match=r"state\.json: its checksum differs"):
            OnlineStore(folder, [Tally()])

    def test_a_damaged_checkpoint_is_written_anew(self, folder):
        with OnlineStore(folder, [Tally()]) as store:
            store.observe(LOG[0])
        (checkpoint,) = files(folder, "checkpoint-")
        spoil(checkpoint / "arrays.npz", "cut")
        OnlineStore(folder, [Tally()]).close()
        assert files(folder, "checkpoint-") == [checkpoint]
        (folder / "log-000000000001.log").unlink()
        assert found(folder) == ["t0"]

    def test_no_pickle_is_loaded(self, folder):
        import hashlib

        with OnlineStore(folder, [Tally()]) as store:
            store.observe(LOG[0])
        (checkpoint,) = files(folder, "checkpoint-")
        np.savez(checkpoint / "arrays.npz", a0=np.array([Exploding()], dtype=object))
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        digest = hashlib.sha256((checkpoint / "arrays.npz").read_bytes()).hexdigest()
        manifest["files"]["arrays.npz"] = digest
        del manifest["sha256"]
        seal = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        (checkpoint / "manifest.json").write_text(json.dumps({**manifest, "sha256": seal}))
        (folder / "log-000000000001.log").unlink()
        with pytest.raises(ModelCorruptError, match="allow_pickle=False"):
            OnlineStore(folder, [Tally()])

    def test_another_format(self, folder):
        import hashlib

        with OnlineStore(folder, [Tally()]) as store:
            store.observe(LOG[0])
        path = files(folder, "checkpoint-")[0] / "manifest.json"
        manifest = {**json.loads(path.read_text()), "format_version": 99}
        del manifest["sha256"]
        seal = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({**manifest, "sha256": seal}))
        with pytest.raises(ModelVersionError, match="another format \\(99"):
            OnlineStore(folder, [Tally()])


class TestTheDiskFails:
    @pytest.mark.parametrize("written", [0, 20, 10_000])
    def test_a_record_that_could_not_be_written(self, folder, monkeypatch, written):
        real = disk.append

        def full(path, data):
            with path.open("ab") as file:
                file.write(data[:written])
            raise OSError(28, "No space left on device")

        store = OnlineStore(folder, [Tally()])
        store.observe(LOG[0])
        monkeypatch.setattr(disk, "append", full)
        with pytest.raises(DataFileError, match="No space left on device"):
            store.observe(LOG[1])
        monkeypatch.setattr(disk, "append", real)
        with pytest.raises(ModelStoreError, match="open it again"):
            store.observe(LOG[1])
        store.close()
        with OnlineStore(folder, [Tally()]) as again:
            assert again.observe(LOG[1]).sequence == 2
        assert found(folder) == IDS[:2]

    @pytest.mark.parametrize("operation", ["create_folder", "write_file", "put", "remove"])
    def test_a_checkpoint_that_could_not_be_written(self, folder, monkeypatch, caplog, operation):
        def full(*_):
            raise OSError(28, "No space left on device")

        with OnlineStore(folder, [Tally()], every=2) as store:
            for record in LOG[:5]:
                store.observe(record)
            with monkeypatch.context() as broken:
                broken.setattr(disk, operation, full)
                assert all(store.observe(record).counted for record in LOG[5:8])
                assert "No space left on device" in caplog.text
            for record in LOG[8:]:
                store.observe(record)
        assert found(folder) == IDS
        OnlineStore(folder, [Tally()]).close()
        assert files(folder, ".new-") == []

    def test_an_observer_that_breaks_off(self, folder):
        class Broken(Tally):
            def apply(self, records):
                if records[0].id == "t1":
                    raise KeyboardInterrupt
                super().apply(records)

        store = OnlineStore(folder, [Broken()])
        store.observe(LOG[0])
        with pytest.raises(KeyboardInterrupt):
            store.observe(LOG[1])
        with pytest.raises(ModelStoreError, match="broken off"):
            store.observe(LOG[2])
        store.close()
        assert found(folder) == IDS[:2]


@pytest.mark.skipif(os.name == "nt", reason="no fork and no SIGKILL")
def test_no_kill_loses_or_doubles_anything(tmp_path):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("kill_points.py"), tmp_path],
        env={**os.environ, "PYTHONPATH": str(Path(cnp_router.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(points) > 60
    ids = IDS[:7]
    for point in points:
        said, both = point["said"], point["said"] + point["said_again"]
        # In order and each once: nothing acknowledged is lost, at most one more has been kept.
        assert said == ids[: len(said)], point
        assert point["found"] == ids[: len(point["found"])], point
        assert len(said) <= len(point["found"]) <= len(said) + 1, point
        assert len(set(both)) == len(both), point
        assert set(both) <= set(point["found_again"]), point
        assert point["found_again"] == ids[: len(point["found_again"])], point
        assert point["at_the_end"] == ids, point
    assert any(point["found"] != point["said"] for point in points)
    assert {len(point["said"]) for point in points} == set(range(8))


class Exploding:
    def __reduce__(self):
        return os._exit, (86,)


def spoil(path, damage):
    data = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        half = len(data) // 2
        rest = data[half + 1 :] if damage == "flip" else b""
        path.write_bytes(data[:half] + bytes([data[half] ^ 1]) + rest)
