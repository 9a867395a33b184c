"""What other processes are given: a folder that is written once, as long as nothing is learned."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
from pathlib import Path

import pytest
from joblib.externals.loky import process_executor

from cnp_router import Api, Catalog, History, Mashup, fit_router, load_router
from cnp_router.exceptions import ModelStoreError
from cnp_router.storage import generation_of
from cnp_router.training.handover import Folder, Handover, _remove


def fitted():
    catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    history = History([Mashup("m1", "bars on a map", ("maps",))])
    return fit_router(catalog, history)


@pytest.fixture
def router():
    return fitted()


def handed_over(router):
    """Return the folder that is kept, and what another process makes of it."""
    opened, kept = router._handed_over(router)
    return kept, pickle.loads(pickle.dumps(opened))


def test_pages_of_the_model_are_no_leak_of_memory(router, monkeypatch):
    """joblib would end the process, and every one after it, as soon as some were read."""
    assert process_executor._MAX_MEMORY_LEAK_SIZE >= 300_000_000
    monkeypatch.setattr(process_executor, "_MAX_MEMORY_LEAK_SIZE", 0)
    kept, opened = handed_over(router)
    opened()
    size = sum(file.stat().st_size for file in generation_of(kept.model).iterdir())
    assert size > 10_000
    allowed = process_executor._MAX_MEMORY_LEAK_SIZE
    assert allowed == 300_000_000 + size


def test_it_is_written_once(router):
    (kept, opened), (again, _) = handed_over(router), handed_over(router)
    assert again is kept
    assert opened() is opened()
    assert opened().score("a map").top(2) == router.score("a map").top(2)


def test_what_is_learned_is_handed_over(router):
    before = handed_over(router)[0].path
    router.observe(Mashup("m2", "a text for the owner", ("sms",)))
    gc.collect()
    assert not before.exists()
    after, opened = handed_over(router)
    assert after.path != before
    assert opened().score("a text").top(2) == router.score("a text").top(2)


def test_a_folder_that_was_cleared_away_is_written_again(router):
    kept, _ = handed_over(router)
    shutil.rmtree(kept.model)
    again, opened = handed_over(router)
    assert again.path != kept.path and opened().apis == router.apis


def test_how_requests_are_read_is_not_kept(router):
    _, opened = handed_over(router)
    assert opened().compound is None
    router.compound = False
    _, opened = handed_over(router)
    assert opened().compound is False


def test_a_recall_control_of_ones_own_goes_along(router):
    control = router.recall_control
    router.recall_control = None
    _, opened = handed_over(router)
    assert opened().recall_control is None
    router.recall_control = control
    _, opened = handed_over(router)
    assert opened().recall_control.threshold(0.9) == control.threshold(0.9)


def test_it_goes_with_the_router_once_nobody_needs_it():
    router = fitted()
    kept, _ = handed_over(router)
    path = kept.path
    other = pickle.loads(pickle.dumps(router))  # has one of its own
    assert handed_over(other)[0].path != path
    del router
    gc.collect()
    assert path.exists()
    del kept
    gc.collect()
    assert not path.exists()


def test_a_fork_of_the_process_leaves_it_where_it_is(tmp_path):
    _remove(tmp_path, os.getpid() + 1)
    assert tmp_path.exists()


@pytest.fixture
def loaded(router, tmp_path):
    """Return a router that was loaded, and its folder."""
    router.save(tmp_path / "model")
    return load_router(tmp_path / "model"), tmp_path / "model"


def keep_one(place):
    folder = Folder()
    Path(place).write_text(str(folder.path))
    globals()["kept"] = folder  # as long as the process is


@pytest.mark.parametrize("way", ["fork", "forkserver", "spawn"])
def test_it_goes_with_a_process_that_multiprocessing_has_started(way, tmp_path, capfd):
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {way} here")
    place = tmp_path / "place"
    process = multiprocessing.get_context(way).Process(target=keep_one, args=(str(place),))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert not Path(place.read_text()).exists()
    assert "leaked" not in capfd.readouterr().err


def test_what_was_loaded_is_handed_over_where_it_is(loaded, monkeypatch):
    router, folder = loaded
    monkeypatch.setattr(router, "save", None)  # nothing is written
    kept, opened = handed_over(router)
    assert kept == generation_of(folder)
    assert opened().score("a map").top(2) == router.score("a map").top(2)


def test_a_folder_is_found_from_elsewhere(loaded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    router = load_router("model")
    _, opened = handed_over(router)
    monkeypatch.chdir("/")
    assert opened().apis == router.apis


def test_what_was_loaded_and_has_learned_is_written(loaded):
    router, folder = loaded
    router.observe(Mashup("m2", "a text for the owner", ("sms",)))
    kept, opened = handed_over(router)
    assert kept != generation_of(folder)
    assert opened().n_mashups == 2


def test_a_part_that_was_exchanged_is_handed_over(loaded):
    router, folder = loaded
    more = History([Mashup(f"m{i}", "bars on a map", ("maps",)) for i in range(40)])
    router.decision = fit_router(router.catalog, more).decision
    kept, opened = handed_over(router)
    assert kept != generation_of(folder)
    assert opened().route("bars on a map").confidence == router.route("bars on a map").confidence


def test_what_was_saved_is_handed_over_where_it_is(router, tmp_path):
    router.save(tmp_path / "model")
    assert handed_over(router)[0] == generation_of(tmp_path / "model")
    router.observe(Mashup("m2", "a text for the owner", ("sms",)))
    assert handed_over(router)[0] != generation_of(tmp_path / "model")
    router.save(tmp_path / "model", overwrite=True)
    kept, opened = handed_over(router)
    assert kept == generation_of(tmp_path / "model")
    assert opened().score("a text").top(2) == router.score("a text").top(2)


def test_a_link_may_lead_elsewhere_later(router, tmp_path):
    router.save(tmp_path / "first")
    (tmp_path / "current").symlink_to("first")
    loaded = load_router(tmp_path / "current")
    (tmp_path / "current").unlink()
    assert handed_over(loaded)[0] == generation_of(tmp_path / "first")


def test_a_folder_that_cannot_be_looked_through_is_no_obstacle(loaded, monkeypatch):
    _, folder = loaded

    def forbidden(path):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as locked:
        locked.setattr(Path, "iterdir", forbidden)
        router = Handover()
        router.found(generation_of(folder), ())
        assert load_router(folder).apis == loaded[0].apis
    assert router._last is None


@pytest.mark.parametrize("gone", ["replaced", "removed", "half removed", "damaged"])
def test_what_was_loaded_is_written_where_it_stands_no_more(loaded, gone):
    router, folder = loaded
    before = generation_of(folder)
    if gone == "replaced":
        router.save(folder, overwrite=True)
    elif gone == "removed":
        shutil.rmtree(folder)
    elif gone == "half removed":
        shutil.rmtree(before)
    else:
        next(before.glob("*.npy")).unlink()
    kept, opened = handed_over(router)
    assert kept != before
    assert opened().score("a map").top(2) == router.score("a map").top(2)


def test_another_model_is_never_taken_for_it(loaded):
    router, folder = loaded
    _, opened = handed_over(router)
    fitted().save(folder, overwrite=True)
    with pytest.raises(ModelStoreError, match="is not the model any more"):
        opened()
