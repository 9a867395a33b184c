"""A model folder while others save to it, and after they were killed in doing so."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from save_again_and_again import routers

from cnp_router import Mashup, storage
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError, ModelNotFoundError, ModelStoreError
from cnp_router.files import lock
from cnp_router.training import load_router, verify_router

HERE = Path(__file__).parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE.parent)]),
}
REQUEST = "a map of bars"
N_LOADS, N_SAVES = 200, 10


@pytest.fixture(scope="module")
def both():
    return routers()


@pytest.fixture
def folder(both, tmp_path):
    both[0].save(tmp_path / "model")
    return tmp_path / "model"


def script(name, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, HERE / name, *map(str, arguments)],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def generations(folder):
    return sorted(folder.glob("generation-*"))


def answer(router):
    return router.score(REQUEST).probabilities.tolist()


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
class TestKilled:
    """At every thing that a save does to the disk, and in the middle of it."""

    def points(self, tmp_path, mode):
        child = script("kill_saves.py", tmp_path, mode)
        out, _ = child.communicate(timeout=300)
        assert child.returncode == 0
        return [json.loads(line) for line in out.splitlines()]

    @pytest.mark.parametrize("mode", ["over", "again"])
    def test_the_old_or_the_new_model_is_there_with_what_was_observed(self, tmp_path, mode):
        points = self.points(tmp_path, mode)
        assert len(points) > 30
        allowed = ("old, observed", "new, observed")
        assert {point["found"] for point in points} == set(allowed)
        for point in points:
            assert point["found_again"] in allowed
            assert point["at_the_end"] == "old, observed"
            # One generation, the manifest, the lock, and what was observed: loading cleans up.
            assert len(point["after_loading"]) == 5
            assert len(point["left"]) == 6

    def test_the_first_save_can_be_done_again(self, tmp_path):
        points = self.points(tmp_path, "first")
        assert len(points) > 20
        for point in points:
            assert point["found"] in ("nothing", "new, not observed")
            assert point["at_the_end"] == "old, not observed"
            assert len(point["left"]) == 4


class TestLoading:
    @pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be replaced there")
    def test_while_another_process_saves_over_and_over(self, both, folder):
        """Each load is one of the two models, to the last bit; none fails."""
        expected = [answer(router) for router in both]
        saver = script("save_again_and_again.py", folder, 10**6)
        found, seen = [], set()
        try:
            # A slow machine saves slowly: as many loads as it takes.
            while saver.poll() is None and (len(found) < N_LOADS or len(seen) < N_SAVES):
                found.append(answer(load_router(folder)))
                seen.update(generations(folder))
        finally:
            saver.communicate("stop\n", timeout=60)
        assert saver.returncode == 0
        assert len(seen) >= N_SAVES
        assert all(one in expected for one in found)
        assert len(generations(folder)) == 1
        verify_router(folder)

    def test_the_model_is_replaced_in_the_middle(self, both, folder, monkeypatch):
        """What is read first belongs to a generation that is gone when the rest is read."""
        calls = []
        original = storage.unpack

        def unpack(arrays, plain, **how):
            if not calls:
                both[1].save(folder, overwrite=True)
            calls.append(len(arrays))
            return original(arrays, plain, **how)

        monkeypatch.setattr(storage, "unpack", unpack)
        assert answer(load_router(folder)) == answer(both[1])
        assert len(calls) == 2

    def test_a_model_that_is_taken_away_in_the_middle(self, folder, monkeypatch):
        def unpack(arrays, plain, **how):
            folder.rename(folder.with_name("away"))
            raise KeyError("whatever")

        monkeypatch.setattr(storage, "unpack", unpack)
        with pytest.raises(ModelNotFoundError):
            load_router(folder)

    def test_a_loaded_router_outlives_its_files(self, both, folder):
        loaded = load_router(folder)
        both[1].save(folder, overwrite=True)
        assert answer(loaded) == answer(both[0])
        loaded.save(folder, overwrite=True)
        assert answer(load_router(folder)) == answer(both[0])

    def test_nothing_can_be_written_to_its_arrays(self, folder):
        loaded = load_router(folder)
        arrays, _ = storage.pack(loaded.state())
        mapped = [array for array in arrays.values() if not array.flags.writeable]
        assert len(mapped) > 40
        with pytest.raises(ValueError, match="read-only"):
            loaded.encoders.word.idf_[:1] = 0

    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
    )
    def test_it_learns_as_the_router_that_was_saved(self, both, folder, copied):
        """Observing, extending and counting leave the mapped arrays alone."""
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        one, other = copy.deepcopy(both[0]), copied(load_router(folder))
        first, second = one.catalog.ids[:2]
        for router in (one, other):
            assert router.observe(Mashup("new", "birds on a map", (second, first))) == 1
            router.route("birds", known=[first])
            assert router.graph.statistics().n_used
        new = Api("quiz", "Bird quiz", "Asks for birds.")
        for left, right in ((one, other), (one.extended([new]), other.extended([new]))):
            assert answer(left) == answer(right)
            for known in ((), (first,)):
                assert left.route("birds", known).to_dict() == right.route("birds", known).to_dict()
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


class TestTwoSavers:
    @pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be replaced there")
    def test_one_waits_for_the_other(self, both, folder):
        savers = [script("save_again_and_again.py", folder, 10) for _ in range(2)]
        found = []
        while any(saver.poll() is None for saver in savers):
            found.append(answer(load_router(folder)))
        assert [saver.communicate()[0] for saver in savers] == ["10", "10"]
        assert [saver.returncode for saver in savers] == [0, 0]
        assert all(one in [answer(router) for router in both] for one in found)
        verify_router(folder)
        assert len(list(folder.iterdir())) == 3

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_who_makes_the_folder(self, both, tmp_path, overwrite):
        """All start where nothing is: one result; who may not overwrite is told so."""
        errors = []

        def save(router):
            try:
                router.save(tmp_path / "model", overwrite=overwrite)
            except InputError as exc:
                errors.append(str(exc))

        threads = [threading.Thread(target=save, args=[both[n % 2]]) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == (0 if overwrite else 5)
        assert all("a model is there already" in error for error in errors)
        assert answer(verify_router(tmp_path / "model")) in [answer(router) for router in both]
        assert len(list((tmp_path / "model").iterdir())) == 3

    def test_a_folder_that_comes_while_somebody_looks(self, tmp_path):
        """Only an interval of microseconds shows it: hence so often."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for n in range(300):
                place = tmp_path / str(n)
                maker = threading.Thread(target=place.mkdir)
                maker.start()
                for _ in range(20):
                    storage.check_place(place)
                maker.join()
        finally:
            sys.setswitchinterval(interval)

    def test_a_saver_that_does_not_end(self, both, folder, monkeypatch):
        monkeypatch.setattr(storage, "MAX_WAIT", 0.1)
        with (folder / "lock").open("ab") as file:
            lock(file)
            with pytest.raises(ModelStoreError) as caught:
                both[1].save(folder, overwrite=True)
        assert str(caught.value) == (
            f"{folder}: another process is saving there (try again when it is done)"
        )
        assert answer(load_router(folder)) == answer(both[0])

    def test_a_folder_that_its_failed_saver_takes_away_again(self, both, tmp_path, monkeypatch):
        """The one who waits for the lock then makes it anew."""
        place, save = tmp_path / "model", np.save
        waiting = threading.Thread(target=both[1].save, args=[place])

        def fails(*_, **__):
            monkeypatch.setattr(np, "save", save)
            waiting.start()
            while not waiting.is_alive():
                pass
            waiting.join(0.2)
            raise OSError("No space left on device")

        monkeypatch.setattr(np, "save", fails)
        with pytest.raises(InputError, match="No space left"):
            both[0].save(place)
        waiting.join(30)
        assert answer(verify_router(place)) == answer(both[1])


class TestLeftovers:
    @pytest.fixture
    def left(self, folder):
        """What a killed save leaves."""
        left = folder / f"generation-{'0' * 16}"
        left.mkdir()
        (left / "state.json").write_text("{", encoding="utf-8")
        return left

    @pytest.fixture
    def mine(self, folder):
        """What is not the model's."""
        for name in ("generation-notes", "generation-0123", ".hidden"):
            (folder / name).mkdir()
        (folder / "online.sqlite").write_text("acknowledged", encoding="utf-8")
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("lock"))

    def test_loading_removes_them(self, folder, mine, left):
        load_router(folder)
        assert not left.exists()
        assert set(mine) <= {path.name for path in folder.iterdir()}

    def test_saving_removes_them(self, both, folder, mine, left):
        both[1].save(folder, overwrite=True)
        assert not left.exists()
        assert len(mine) == len(list(folder.iterdir())) - 1

    def test_not_while_somebody_saves(self, folder, left):
        with (folder / "lock").open("ab") as file:
            lock(file)
            load_router(folder)
        assert left.exists()

    def test_a_lock_file_that_was_not_copied(self, folder, left):
        (folder / "lock").unlink()
        load_router(folder)
        assert not left.exists()

    @pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root writes all")
    def test_a_folder_that_is_read_only(self, both, folder, left):
        folder.chmod(0o500)
        try:
            assert answer(load_router(folder)) == answer(both[0])
            with pytest.raises(InputError, match="Permission denied"):
                storage.check_target(folder, True)
        finally:
            folder.chmod(0o700)
        assert left.exists()
