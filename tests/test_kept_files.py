"""What a save takes over from the model that it replaces, and what it never trusts."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from scipy import sparse

from cnp_router import kept_files, storage
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import ModelCorruptError
from cnp_router.history import History, Mashup
from cnp_router.kept_files import MAPPED, KeptFiles, open_array
from cnp_router.storage import load_model, save_model, verify_model

N = MAPPED // 4
LARGE = {"x": np.arange(N, dtype=np.int32), "y": np.linspace(0, 1, N).reshape(2, -1)}


def save(folder, state, files=None):
    save_model(folder, state, files=files or {}, summary={}, overwrite=True)


def load(folder):
    return load_model(folder, lambda generation, state, summary: state)


def inodes(folder):
    """What each file of the model that is there is known by: inodes alone are given again."""
    generation = folder / json.loads((folder / "manifest.json").read_bytes())["generation"]
    found = {path.name: path.stat() for path in generation.iterdir()}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


def linked(folder, before):
    """The names of the files that stood in the model before."""
    now = inodes(folder)
    return sorted(name for name, inode in now.items() if inode == before.get(name))


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "model", LARGE)
    return tmp_path / "model"


def test_what_has_not_changed_is_not_written_again(folder, monkeypatch):
    looked, original = [], storage._checksum
    monkeypatch.setattr(
        storage, "_checksum", lambda file: looked.append(file.name) or original(file)
    )
    before, manifest = inodes(folder), json.loads((folder / "manifest.json").read_bytes())
    for _ in range(2):  # what was linked once is linked again
        learned = load(folder)
        looked.clear()
        save(folder, {**learned, "more": np.zeros(N, dtype=np.int32)})
        assert looked == ["more.npy", "state.json"]
        assert linked(folder, before) == ["x.npy", "y.npy"]
    now = json.loads((folder / "manifest.json").read_bytes())
    for name in ("x.npy", "y.npy"):
        assert now["files"][name] == manifest["files"][name]
    verify_model(folder)
    np.testing.assert_array_equal(load(folder)["y"], LARGE["y"])
    assert len(list(folder.glob("generation-*"))) == 1


def test_under_another_name(folder):
    before = inodes(folder)
    save(folder, {"z": load(folder)["x"]})
    assert inodes(folder)["z.npy"] == before["x.npy"]
    np.testing.assert_array_equal(load(folder)["z"], LARGE["x"])


def test_the_parts_of_a_sparse_array(tmp_path):
    rows = sparse.random_array((100, N), density=0.02, format="csr", dtype=np.float32)
    save(tmp_path / "model", {"rows": rows})
    before = inodes(tmp_path / "model")
    save(tmp_path / "model", load(tmp_path / "model"))
    assert {"rows.data.npy", "rows.indices.npy"} <= {*linked(tmp_path / "model", before)}


@pytest.mark.parametrize(
    "changed",
    [
        lambda x: x + 1,
        lambda x: x.copy(),
        lambda x: x[:-1],
        lambda x: x[1:],
        lambda x: x[::2],
        lambda x: x.reshape(2, -1),
        lambda x: x.view(np.uint32),
    ],
)
def test_whatever_is_not_the_whole_file_is_written(folder, changed):
    before, expected = inodes(folder), changed(LARGE["x"])
    state = load(folder)
    save(folder, {**state, "x": changed(state["x"])})
    assert linked(folder, before) == ["y.npy"]
    found = load(folder)["x"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_a_file_that_was_replaced_is_not_trusted(folder):
    state = load(folder)
    (file,) = folder.glob("generation-*/x.npy")
    other = file.with_name("other.npy")
    np.save(other, LARGE["x"] + 1)
    other.replace(file)
    save(folder, state)
    verify_model(folder)
    np.testing.assert_array_equal(load(folder)["x"], LARGE["x"])


def test_a_file_that_was_changed_in_place_is_not_linked(folder):
    state, before = load(folder), inodes(folder)
    (file,) = folder.glob("generation-*/x.npy")
    os.utime(file, ns=(1, 1))
    save(folder, state)
    assert linked(folder, before) == ["y.npy"]


def test_a_link_that_leads_elsewhere_is_taken_back(folder, monkeypatch):
    """Somebody puts another file there between the look and the link."""
    state, original = load(folder), os.link

    def link(place, target):
        copy = shutil.copy(place, f"{place}.copy")
        os.replace(copy, place)  # noqa: PTH105
        original(place, target)

    monkeypatch.setattr(os, "link", link)
    before = inodes(folder)
    save(folder, state)
    assert linked(folder, before) == []
    verify_model(folder)


@pytest.mark.parametrize("error", [OSError(18, "Invalid cross-device link"), NotImplementedError()])
def test_where_there_are_no_links(folder, monkeypatch, error):
    def none(*_):
        raise error

    before, state = inodes(folder), load(folder)
    monkeypatch.setattr(os, "link", none)
    save(folder, state)
    assert linked(folder, before) == []
    verify_model(folder)


def test_another_folder_shares_nothing(folder, tmp_path):
    state = load(folder)
    save(tmp_path / "other", state)
    save(tmp_path / "other", state)
    assert set(inodes(folder).values()).isdisjoint(inodes(tmp_path / "other").values())


def test_a_model_that_others_have_saved_meanwhile(folder):
    """Of theirs nothing is taken, but what both were loaded from."""
    mine, theirs, before = load(folder), load(folder), inodes(folder)
    save(folder, {**theirs, "y": theirs["y"] + 1})
    save(folder, mine)
    assert linked(folder, before) == ["x.npy"]
    np.testing.assert_array_equal(load(folder)["y"], LARGE["y"])


def test_damage_is_found_after_it_was_linked(folder):
    state = load(folder)
    (file,) = folder.glob("generation-*/x.npy")
    status = file.stat()
    with file.open("r+b") as out:
        out.seek(-1, os.SEEK_END)
        out.write(b"\xff")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    save(folder, state)
    with pytest.raises(ModelCorruptError, match=r"x\.npy: altered"):
        verify_model(folder)


def test_a_save_that_breaks_off_leaves_the_old_model(folder, monkeypatch):
    state = load(folder)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "json_bytes", full)
        with pytest.raises(Exception, match="No space"):
            save(folder, {"only": state["x"]})
    verify_model(folder)
    np.testing.assert_array_equal(load(folder)["x"], LARGE["x"])
    assert len([path for path in folder.glob("generation-*") if path.is_dir()]) == 1


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_an_array_of_another_version_of_its_format(tmp_path, version):
    file = tmp_path / "x.npy"
    with file.open("wb") as out:
        np.lib.format.write_array(out, LARGE["x"], version=version)
    np.testing.assert_array_equal(open_array(file), LARGE["x"])


def test_an_array_of_objects(tmp_path):
    file = tmp_path / "x.npy"
    with file.open("wb") as out:
        np.lib.format.write_array(out, np.full(N, "x" * 9, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        open_array(file)


TEXT = "Rain by text " * 20


class TestItems:
    MASHUPS = tuple(Mashup(f"m{n}", f"{TEXT} {n}", ("sms",)) for n in range(5_000))
    NEW = tuple(Mashup(f"new{n}", f"bars on a map {n}", ("maps",)) for n in range(3))

    @pytest.fixture
    def history(self, tmp_path):
        save(tmp_path / "model", {}, {"history.jsonl": History(self.MASHUPS).write_indexed})
        return self.opened(tmp_path)

    def opened(self, tmp_path):
        return load_model(
            tmp_path / "model", lambda folder, *_: History.open_indexed(folder / "history.jsonl")
        )

    def saved(self, tmp_path, history):
        before = inodes(tmp_path / "model")
        save(tmp_path / "model", {}, {"history.jsonl": history.write_indexed})
        return linked(tmp_path / "model", before), self.opened(tmp_path)

    def check(self, found, expected):
        assert list(found) == list(expected)
        assert found == History(expected)
        assert found.find(expected[-1].id) == len(expected) - 1
        assert found.asked(expected[-1].description) == (len(expected) - 1,)
        assert found[-1] == expected[-1]

    def test_lines_that_are_there_are_not_written_again(self, history, tmp_path):
        files, found = self.saved(tmp_path, history)
        assert "history.jsonl" in files
        self.check(found, self.MASHUPS)

    def test_a_few_more_stand_in_a_file_of_their_own(self, history, tmp_path):
        grown = history
        for n, mashup in enumerate(self.NEW, 1):
            files, grown = self.saved(tmp_path, grown.extended([mashup]))
            assert "history.jsonl" in files
            (later,) = (tmp_path / "model").glob("generation-*/history.more.jsonl")
            assert later.read_text().count("\n") == n
            self.check(grown, (*self.MASHUPS, *self.NEW[:n]))
            verify_model(tmp_path / "model")

    def test_many_more_are_written_with_the_others(self, history, tmp_path):
        many = [Mashup(f"many{n}", f"news {n}", ("news",)) for n in range(1_001)]
        files, found = self.saved(tmp_path, history.extended(self.NEW).extended(many))
        assert "history.jsonl" not in files
        assert list(tmp_path.glob("model/generation-*/history.more.jsonl")) == []
        self.check(found, (*self.MASHUPS, *self.NEW, *many))

    def test_elsewhere_they_are_one_file(self, history, tmp_path):
        grown = history.extended(self.NEW)
        grown.write_indexed(tmp_path / "history.jsonl", KeptFiles())
        grown.write(tmp_path / "plain.jsonl")
        written = (tmp_path / "history.jsonl").read_bytes()
        assert written == (tmp_path / "plain.jsonl").read_bytes()
        self.check(History.open_indexed(tmp_path / "history.jsonl"), (*self.MASHUPS, *self.NEW))

    @pytest.mark.parametrize(
        ("damage", "problem"),
        [
            (lambda content: content[:-1], "line 3: its last line does not end"),
            (lambda content: content.replace(b"{", b"[", 1), "line 1"),
            (lambda content: content + content, "duplicate"),
            (lambda content: content.replace(b"new0", b"m0"), "duplicate mashup id 'm0'"),
        ],
    )
    def test_damage(self, history, tmp_path, damage, problem):
        _, _ = self.saved(tmp_path, history.extended(self.NEW))
        (later,) = (tmp_path / "model").glob("generation-*/history.more.jsonl")
        later.write_bytes(damage(later.read_bytes()))
        with pytest.raises(ModelCorruptError, match=r"history\.more\.jsonl.*" + problem):
            History.open_indexed(later.with_name("history.jsonl"))

    def test_a_catalog(self, tmp_path):
        apis = [Api(f"api{n}", f"API {n}", TEXT, (f"c{n % 9}",)) for n in range(5_000)]
        new = Api("news", "News", "Newest news.", ("Media",))
        place = "catalog.jsonl"
        folder = tmp_path / "model"

        def opened():
            return load_model(folder, lambda found, *_: Catalog.open_indexed(found / place))

        save(folder, {}, {place: Catalog(apis).write_indexed})
        before = inodes(folder)
        save(folder, {}, {place: opened().extended([new]).write_indexed})
        assert place in linked(folder, before)
        found, expected = opened(), Catalog([*apis, new])
        assert found == expected
        assert (found.ids, found.categories) == (expected.ids, expected.categories)
        assert found.position("news") == 5_000


def test_small_files_are_written(tmp_path, monkeypatch):
    """Nothing keeps their inodes from being given to others."""
    monkeypatch.setattr(kept_files, "MAPPED", 10**9)
    save(tmp_path / "model", LARGE)
    before = inodes(tmp_path / "model")
    save(tmp_path / "model", load(tmp_path / "model"))
    assert linked(tmp_path / "model", before) == []
