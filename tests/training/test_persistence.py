from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import re
import shlex
import shutil
import stat
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted import planted
from word_vectors import WordVectors

from cnp_router import storage
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import (
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelStoreError,
    ModelVersionError,
)
from cnp_router.training import fit_router, load_router, vector_index, verify_router

FILES = ("catalog.jsonl", "history.jsonl", "state.json", "views.expected.map.npy")
DAMAGED = "the model is damaged"
CURE = "(fit it again, or copy it again if it is a copy)"
NOW = storage.FORMAT_VERSION


@pytest.fixture(scope="module")
def little(small):
    return fit_router(small.catalog, small.history)


@pytest.fixture(scope="module")
def little_model(little, tmp_path_factory):
    folder = tmp_path_factory.mktemp("little") / "model"
    little.save(folder)
    return folder


@pytest.fixture
def folder(little_model, tmp_path):
    """A model folder to be changed."""
    return Path(shutil.copytree(little_model, tmp_path / "model"))


def parts(folder):
    """Return the folder of the generation that the model is."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return folder / manifest["generation"]


def reseal(folder, **changes):
    """Make the checksums those of the files, as somebody would who wants to be believed."""
    file = folder / "manifest.json"
    manifest = {**json.loads(file.read_text(encoding="utf-8")), **changes}
    if not {"files", "generation"} & set(changes):
        manifest["files"] = {
            path.name: {
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in (folder / manifest["generation"]).iterdir()
        }
    manifest["sha256"] = storage._seal(manifest)
    file.write_text(json.dumps(manifest), encoding="utf-8")


def inside(folder):
    return sorted(path.name for path in folder.iterdir())


def arrays_of(folder):
    return {path.stem: np.load(path) for path in sorted(parts(folder).glob("*.npy"))}


def with_array(folder, name, array):
    file = parts(folder) / f"{name}.npy"
    file.unlink(missing_ok=True)  # it may be mapped
    np.save(file, array)
    reseal(folder)


def refused(folder, error=ModelCorruptError):
    with pytest.raises(error) as caught:
        load_router(folder)
    return str(caught.value)


class TestRoundTrip:
    def test_it_answers_the_same_to_the_last_bit(self, world, router, model):
        loaded = load_router(model)
        requests = [m.description for m in world.history] + ["?", "地図", "x" * 5000]
        for request in requests:
            np.testing.assert_array_equal(
                loaded.score(request).probabilities, router.score(request).probabilities
            )
        for case in world.cases:
            for known in ((), case.known):
                assert (
                    loaded.route(case.request, known).to_dict()
                    == router.route(case.request, known).to_dict()
                )

    def test_all_of_it_comes_back(self, router, model):
        loaded = load_router(str(model))
        assert loaded.catalog == router.catalog
        assert loaded.history == router.history
        assert loaded.summary == router.summary
        assert loaded.categories.classes_ == router.categories.classes_
        assert loaded.graph.transition_.shape == router.graph.transition_.shape

    def test_without_history_too(self, small, tmp_path):
        blank = fit_router(small.catalog)
        blank.save(tmp_path / "model")
        loaded = verify_router(tmp_path / "model")
        assert not loaded.history
        assert loaded.summary == blank.summary
        text = small.history.texts[0]
        assert loaded.route(text).to_dict() == blank.route(text).to_dict()

    def test_a_loaded_router_is_saved_as_the_same_files(self, model, tmp_path):
        load_router(model).save(tmp_path / "again")
        again, before = parts(tmp_path / "again"), parts(model)
        assert inside(again) == inside(before)
        for name in inside(before):
            assert (again / name).read_bytes() == (before / name).read_bytes(), name

    def test_the_manifest_says_what_it_is(self, model):
        manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["format"] == "cnp-router model"
        assert manifest["format_version"] == storage.FORMAT_VERSION
        assert sorted(manifest["files"]) == inside(parts(model))
        assert set(FILES) < set(manifest["files"])
        assert manifest["summary"]["versions"]["numpy"] == np.__version__

    def test_nothing_in_the_folder_is_pickled(self, model):
        assert all(array.dtype.kind in "fiu" for array in arrays_of(model).values())

    def test_a_file_beside_the_models_own_is_no_trouble(self, folder):
        (folder / "notes.txt").write_text("mine", encoding="utf-8")
        load_router(folder)

    def test_a_link_to_a_model_is_followed(self, folder, tmp_path):
        (tmp_path / "link").symlink_to(folder, target_is_directory=True)
        load_router(tmp_path / "link")

    def test_the_mode_is_that_of_any_folder(self, little, tmp_path):
        old = os.umask(0o027)
        try:
            little.save(tmp_path / "model")
        finally:
            os.umask(old)
        assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o750


class TestSaving:
    def test_a_model_is_replaced_only_when_asked(self, little, folder):
        before = (folder / "manifest.json").read_bytes()
        with pytest.raises(InputError) as caught:
            little.save(folder)
        assert str(caught.value) == (
            f"{folder}: a model is there already (choose another place or overwrite)"
        )
        assert (folder / "manifest.json").read_bytes() == before

    def test_replacing_leaves_the_new_one_alone(self, router, folder):
        router.save(folder, overwrite=True)
        assert len(load_router(folder).apis) == len(router.apis)
        assert inside(folder.parent) == [folder.name]

    def test_replacing_keeps_what_is_not_the_models(self, little, folder):
        (folder / "notes.txt").write_text("mine", encoding="utf-8")
        (folder / "plots").mkdir()
        little.save(folder, overwrite=True)
        assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"
        assert (folder / "plots").is_dir()
        load_router(folder)

    @pytest.mark.parametrize("damage", [*FILES, "manifest.json"])
    def test_a_damaged_model_can_be_replaced(self, little, folder, damage):
        file = folder / damage if damage == "manifest.json" else parts(folder) / damage
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data[: len(data) // 2])
        little.save(folder, overwrite=True)
        verify_router(folder)
        assert inside(folder) == [parts(folder).name, "lock", "manifest.json"]

    @pytest.mark.parametrize("overwrite", [False, True])
    @pytest.mark.parametrize(
        "kind", ["a file", "a folder", "another manifest", "a link", "a dangling link"]
    )
    def test_what_is_no_model_is_never_replaced(self, little, folder, tmp_path, kind, overwrite):
        place = tmp_path / "place"
        if kind == "a file":
            place.write_text("mine", encoding="utf-8")
        elif kind == "a link":
            place.symlink_to(folder, target_is_directory=True)
        elif kind == "a dangling link":
            place.symlink_to(tmp_path / "nowhere")
        else:
            place.mkdir()
            name = "manifest.json" if kind == "another manifest" else "notes.txt"
            (place / name).write_text('{"name": "An extension"}', encoding="utf-8")
        with pytest.raises(InputError) as caught:
            little.save(place, overwrite=overwrite)
        told = "something that is not a model is there (choose another place)"
        if kind == "a link":
            told = "a link is there (give the folder itself, or another place)"
        assert str(caught.value) == f"{place}: {told}"
        assert inside(tmp_path) == ["model", "place"]
        if kind == "a file":
            assert place.read_text(encoding="utf-8") == "mine"
        load_router(folder)

    def test_an_empty_folder_can_be_saved_to(self, little, tmp_path):
        little.save(tmp_path)
        load_router(tmp_path)

    def test_what_was_observed_stays_where_a_model_is_saved(self, little, tmp_path):
        names = ("online.sqlite", "online.sqlite-lock", "memory.sqlite", "searches.sqlite")
        for name in names:
            (tmp_path / name).write_bytes(b"seen")
        little.save(tmp_path)
        load_router(tmp_path)
        assert all((tmp_path / name).read_bytes() == b"seen" for name in names)

    @pytest.mark.parametrize("above", ["nowhere", "file"])
    def test_its_folder_must_exist(self, little, tmp_path, above):
        (tmp_path / "file").write_text("mine", encoding="utf-8")
        place = tmp_path / above / "model"
        with pytest.raises(DataFileError) as caught:
            little.save(place)
        assert str(caught.value) == f"{place}: its folder does not exist (create it first)"

    @pytest.mark.parametrize(
        ("name", "reason"), [("m" * 300, "File name too long"), ("a\0b", "embedded null")]
    )
    def test_a_name_that_no_file_can_have(self, little, tmp_path, name, reason):
        with pytest.raises(DataFileError, match=f"cannot be written: {reason}"):
            little.save(tmp_path / name)

    @pytest.mark.skipif(not hasattr(os, "statvfs"), reason="only Unix says it")
    @pytest.mark.parametrize(
        ("flags", "reason"),
        [(getattr(os, "ST_RDONLY", 1), "Read-only file system"), (0, "Permission denied")],
    )
    def test_a_place_where_nobody_writes(self, tmp_path, monkeypatch, flags, reason):
        monkeypatch.setattr(os, "access", lambda *_: False)
        monkeypatch.setattr(os, "statvfs", lambda _: types.SimpleNamespace(f_flag=flags))
        with pytest.raises(DataFileError) as caught:
            storage.check_target(tmp_path / "model", False)
        said = f"{tmp_path / 'model'}: cannot be written: {reason} (choose another place)"
        assert str(caught.value) == said

    def test_a_place_that_may_not_be_looked_at(self, little, folder, monkeypatch):
        monkeypatch.setattr(Path, "read_text", denied)
        with pytest.raises(DataFileError) as caught:
            little.save(folder, overwrite=True)
        assert str(caught.value) == f"{folder}: cannot be written: Permission denied"

    def test_categories_and_names_of_any_kind(self, small, tmp_path):
        first, *others = small.catalog
        odd = replace(first, name="{\"array\": 'x'}\n", categories=("array", "\u2028", ""))
        router = fit_router(Catalog([odd, *others]), small.history)
        router.save(tmp_path / "model")
        loaded = load_router(tmp_path / "model")
        assert loaded.catalog[0] == odd
        assert loaded.categories.classes_ == router.categories.classes_

    def test_a_folder_that_cannot_be_made(self, little, tmp_path, monkeypatch):
        def nowhere(*_, **__):  # what some file systems say in place of "denied"
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")

        monkeypatch.setattr(Path, "mkdir", nowhere)
        with pytest.raises(DataFileError, match="model: cannot be written: No such file"):
            little.save(tmp_path / "model")


def denied(*_, **__):
    raise PermissionError(errno.EACCES, "Permission denied")


class TestAtomicity:
    """Whatever happens in the middle, it is there whole or not at all."""

    FAULTS = (OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt())
    PLACES = ((np, "save"), (storage, "_seal"), (storage, "_checksum"), (os, "fsync"))

    def fail(self, router, place, fault, **options):
        expected = DataFileError if isinstance(fault, OSError) else KeyboardInterrupt
        with pytest.raises(expected) as caught:
            router.save(place, **options)
        if isinstance(fault, OSError):
            assert "cannot be written: No space left on device" in str(caught.value)
            assert str(caught.value).startswith(str(place))

    def break_at(self, monkeypatch, where, fault):
        def fails(*_, **__):
            raise fault

        monkeypatch.setattr(*where, fails)

    @pytest.mark.parametrize("fault", FAULTS, ids=repr)
    @pytest.mark.parametrize("where", PLACES, ids=lambda where: where[1])
    def test_nothing_is_left(self, little, tmp_path, monkeypatch, fault, where):
        self.break_at(monkeypatch, where, fault)
        self.fail(little, tmp_path / "model", fault)
        assert inside(tmp_path) == []

    @pytest.mark.parametrize("fault", FAULTS, ids=repr)
    @pytest.mark.parametrize("where", PLACES, ids=lambda where: where[1])
    def test_the_old_model_stays(self, router, little, folder, monkeypatch, fault, where):
        before = inside(folder)
        with monkeypatch.context() as patch:
            self.break_at(patch, where, fault)
            self.fail(router, folder, fault, overwrite=True)
        assert inside(folder) == before
        assert load_router(folder).apis == little.apis

    @pytest.mark.parametrize("fault", FAULTS, ids=repr)
    @pytest.mark.parametrize("renamed", [False, True])
    def test_the_model_is_the_old_or_the_new_one(
        self, router, little, folder, monkeypatch, fault, renamed
    ):
        """It fails just before or just after the rename that makes the new one the model."""
        original = Path.replace

        def replace(self, target):
            if target != folder / "manifest.json":
                return original(self, target)
            if renamed:
                original(self, target)
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            self.fail(router, folder, fault, overwrite=True)
        assert len(inside(folder)) == 3
        expected = router if renamed else little
        assert verify_router(folder).apis == expected.apis


class TestNotThere:
    @pytest.mark.parametrize("kind", ["nothing", "an empty folder", "a file", "inside a file"])
    def test_no_model(self, tmp_path, kind):
        place = tmp_path / "place"
        if kind == "an empty folder":
            place.mkdir()
        elif kind != "nothing":
            place.write_text("mine", encoding="utf-8")
        if kind == "inside a file":
            place /= "model"
        cure = f"cnp-router fit --catalog FILE --output {shlex.quote(str(place))} makes one"
        if kind == "a file":
            cure = "give the folder of a model"
        assert refused(place, ModelNotFoundError) == f"{place}: no model there ({cure})"

    def test_a_name_that_is_too_long(self):
        assert refused("a" * 5_000, ModelNotFoundError).startswith(
            "a" * 5_000 + ": no model there ("
        )

    def test_a_name_that_no_file_can_have(self):
        message = refused("a\0b", ModelNotFoundError)
        cure = "cnp-router fit --catalog FILE --output DIR makes one"
        assert message == rf"'a\x00b': no model there ({cure})"

    def test_a_manifest_that_may_not_be_read(self, folder, monkeypatch):
        monkeypatch.setattr(Path, "read_bytes", denied)
        message = refused(folder, ModelStoreError)
        assert message == f"{folder}: the model cannot be read: Permission denied (check its mode)"

    @pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root reads all")
    def test_a_folder_that_may_not_be_read(self, folder):
        folder.chmod(0)
        try:
            assert "cannot be read" in refused(folder, ModelStoreError)
        finally:
            folder.chmod(0o700)

    @pytest.mark.parametrize("name", ["state.json", "catalog.jsonl", "views.expected.map.npy"])
    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (PermissionError(errno.EACCES, "No", "a/b.npy"), "b.npy: No (check its mode)"),
            (OSError(errno.EMFILE, "Many"), "Many (allow more open files, as by ulimit -n)"),
            (OSError(errno.ENOMEM, "None"), "None (give it more memory)"),
            (MemoryError(), "too little memory (give it more memory)"),
        ],
    )
    def test_what_hinders_from_reading_is_no_damage(self, folder, monkeypatch, name, error, reason):
        def hindered(method):
            def refuse(path, *arguments, **named):
                if path.name == name:
                    raise error
                return method(path, *arguments, **named)

            return refuse

        for method in ("open", "read_bytes"):
            monkeypatch.setattr(Path, method, hindered(getattr(Path, method)))
        message = refused(folder, ModelStoreError)
        assert message == f"{folder}: the model cannot be read: {reason}"
        monkeypatch.undo()
        verify_router(folder)

    def test_what_hindered_whoever_asks_is_not_what_is_wrong_here(self, folder, tmp_path):
        (parts(folder) / "state.json").write_text("{}", encoding="utf-8")
        for error in (PermissionError(errno.EACCES, "No"), MemoryError()):
            try:
                raise error
            except type(error):
                assert "no model there" in refused(tmp_path / "none", ModelNotFoundError)
                assert DAMAGED in refused(folder)

    def test_a_manifest_that_is_a_folder(self, folder):
        (folder / "manifest.json").unlink()
        (folder / "manifest.json").mkdir()
        assert refused(folder) == f"{folder}: {DAMAGED}: manifest.json: is a directory {CURE}"


class TestVersions:
    @pytest.mark.parametrize(
        ("version", "age", "cure"),
        [(NOW + 1, "a newer", "upgrade cnp-router"), (NOW - 1, "an older", "fit it again")],
    )
    def test_another_version_of_the_format(self, folder, version, age, cure):
        reseal(folder, format_version=version)
        assert refused(folder, ModelVersionError) == (
            f"{folder}: written in {age} format ({version}, this version reads {NOW}) ({cure})"
        )

    def test_a_newer_manifest_may_look_quite_different(self, folder):
        content = {"format": "cnp-router model", "format_version": NOW + 1, "parts": []}
        (folder / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
        assert f"written in a newer format ({NOW + 1}," in refused(folder, ModelVersionError)


class TestDamage:
    def everything(self, folder):
        return [path for path in parts(folder).iterdir() if path.stat().st_size > 128]

    @pytest.mark.parametrize("load", [load_router, verify_router])
    def test_one_altered_byte_in_any_file_is_found(self, folder, load):
        load(folder)
        for file in self.everything(folder):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
            with pytest.raises(ModelCorruptError) as caught:
                load(folder)
            assert str(caught.value) == (
                f"{folder}: {DAMAGED}: {file.name}: altered: its checksum differs {CURE}"
            )
            data[len(data) // 2] ^= 1
            file.write_bytes(data)

    @pytest.mark.parametrize("kept", [0, 100])
    def test_any_file_is_truncated(self, folder, kept):
        for file in self.everything(folder):
            data = file.read_bytes()
            file.write_bytes(data[:kept])
            assert refused(folder) == (
                f"{folder}: {DAMAGED}: {file.name}: truncated or altered: {kept} bytes {CURE}"
            )
            file.write_bytes(data)

    @pytest.mark.parametrize("name", FILES)
    def test_a_file_is_missing(self, folder, name):
        file = parts(folder) / name
        file.unlink()
        assert refused(folder).startswith(f"{folder}: {DAMAGED}: [Errno 2] No such file")
        assert str(file) in refused(folder)

    @pytest.mark.parametrize("name", FILES)
    def test_a_file_is_a_folder(self, folder, name):
        file = parts(folder) / name
        file.unlink()
        file.mkdir()
        assert refused(folder).startswith(f"{folder}: {DAMAGED}: ")
        assert name in refused(folder)

    def test_the_whole_generation_is_missing(self, folder):
        shutil.rmtree(parts(folder))
        assert f"{DAMAGED}: [Errno 2] No such file" in refused(folder)

    def test_any_byte_of_the_manifest(self, folder):
        file = folder / "manifest.json"
        data = file.read_bytes()
        for place in range(0, len(data), 7):
            if data[place : place + 1].isspace():
                continue
            altered = bytearray(data)
            altered[place] ^= 1
            file.write_bytes(altered)
            with pytest.raises(ModelStoreError):
                load_router(folder)

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "manifest.json: the file is empty"),
            (b"[", "manifest.json: not JSON at column 2: Expecting value"),
            (b"[" * 100_000, "manifest.json: not JSON: nested too deep"),
            (b"\xff{}", "manifest.json: not UTF-8 (byte 0xff)"),
            (b"[]", "manifest.json is not that of a model"),
            (b"null", "manifest.json is not that of a model"),
            (b"{}", "manifest.json is not that of a model"),
            (b'{"format": "npm"}', "manifest.json is not that of a model"),
            (b'{"format": "cnp-router model"}', "manifest.json lacks 'format_version'"),
            (
                b'{"format": "cnp-router model", "format_version": true, "generation": "",'
                b'"files": {}, "summary": {}}',
                "manifest.json holds what no save writes",
            ),
            (
                b'{"format": "cnp-router model", "format_version": %d}' % NOW,
                "manifest.json lacks 'generation'",
            ),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_a_manifest_that_is_none(self, folder, content, problem):
        (folder / "manifest.json").write_bytes(content)
        assert refused(folder) == f"{folder}: {DAMAGED}: {problem} {CURE}"

    @pytest.mark.parametrize(
        "changes",
        [
            {"files": []},
            {"files": 5},
            {"summary": []},
            {"generation": 3},
            {"generation": "../model"},
            {"files": {"../x": {}}},
            {"files": {"a.npy": 5}},
        ],
        ids=str,
    )
    def test_a_manifest_that_says_something_else(self, folder, changes):
        reseal(folder, **changes)
        assert refused(folder).startswith(f"{folder}: {DAMAGED}: ")

    def test_a_changed_summary(self, folder):
        file = folder / "manifest.json"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace('"mashups": 12', '"mashups": 13'), encoding="utf-8")
        assert refused(folder) == (
            f"{folder}: {DAMAGED}: the checksum of manifest.json differs {CURE}"
        )

    @pytest.mark.parametrize("expected", [{}, {"bytes": "1"}, {"sha256": 5}])
    def test_checksums_of_the_wrong_kind(self, folder, expected):
        reseal(folder, files=dict.fromkeys(FILES, expected))
        assert f"{DAMAGED}: " in refused(folder)


class TestNothingIsExecuted:
    @pytest.fixture
    def trap(self, tmp_path):
        return Trap(tmp_path / "sprung")

    def test_the_trap_works(self, trap, tmp_path):
        pickle.loads(pickle.dumps(trap))
        assert (tmp_path / "sprung").exists()

    @pytest.mark.parametrize("place", ["views.expected.map", "ranker.parts.0.value", "unasked"])
    def test_a_pickled_object_among_the_arrays(self, folder, trap, tmp_path, place):
        with_array(folder, place, np.array([trap], dtype=object))
        assert DAMAGED in refused(folder)
        assert not (tmp_path / "sprung").exists()

    @pytest.mark.parametrize("name", FILES)
    def test_a_file_that_is_a_pickle(self, folder, trap, tmp_path, name):
        (parts(folder) / name).write_bytes(pickle.dumps(trap))
        reseal(folder)
        assert DAMAGED in refused(folder)
        assert not (tmp_path / "sprung").exists()

    def test_a_zip_of_arrays_in_place_of_an_array(self, folder):
        with (parts(folder) / "views.expected.map.npy").open("wb") as file:
            np.savez(file, np.zeros(3))
        reseal(folder)
        assert DAMAGED in refused(folder)


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def shorter(array):
    return array[:-1]


def longer(array):
    return np.concatenate([array, array[-1:]])


def not_a_number(array):
    return np.full_like(array, np.nan)


def infinite(array):
    array = array.copy()
    array.flat[-1] = np.inf
    return array


def far_too_high(array):
    return np.full_like(array, np.iinfo(array.dtype).max)


def below_zero(array):
    return np.full(array.shape, -3).astype(array.dtype)


def flattened(array):
    return array.reshape(-1, 1) if array.ndim == 1 else array.ravel()


def doubled(array):
    return array * 2


def text(array):
    return array.astype("U")


def fractions(array):
    return array + 0.5


def swapped(array):
    return array.astype(array.dtype.newbyteorder())


BOTH = (shorter, longer, flattened, text, swapped)
FLOATS = (*BOTH, not_a_number, infinite)
WHOLE = (*BOTH, far_too_high, below_zero, fractions)


CO_USAGE = {
    " sparse": [f"views.co_usage.pairs.together.{part}" for part in ("data", "indices", "indptr")],
    "shape": [6, 6],
}


class TestPartsThatDoNotFit:
    """All checksums are right, as somebody made them so; the content is not."""

    def survivors(self, folder, arrays, names):
        survivors = []
        for name in names:
            array = arrays[name]
            for change in FLOATS if array.dtype.kind == "f" else WHOLE:
                if not array.size or (change is swapped and array.itemsize == 1):
                    continue
                with_array(folder, name, change(array))
                try:
                    load_router(folder)
                except ModelCorruptError as error:
                    assert str(error).startswith(f"{folder}: {DAMAGED}: ")
                else:
                    survivors.append(f"{name} {change.__name__}")
            with_array(folder, name, array)
        return survivors

    def test_any_array(self, little_model, tmp_path):
        """Every array, damaged in every way that can be told from a good one."""
        arrays = arrays_of(little_model)
        folder = Path(shutil.copytree(little_model, tmp_path / "model"))
        assert self.survivors(folder, arrays, arrays) == []
        for name in ("views.corpus.usage.data", "views.corpus.membership.data", "decision.request"):
            with_array(folder, name, doubled(arrays[name]))
            assert DAMAGED in refused(folder)
            with_array(folder, name, arrays[name])
        load_router(folder)

    @pytest.mark.parametrize("part", ["completion.", "ranker."])
    def test_any_array_of_what_needs_more_history(self, model, tmp_path, part):
        """The little history is too short to learn completion, or trees, from."""
        arrays = arrays_of(model)
        folder = Path(shutil.copytree(model, tmp_path / "model"))
        names = [name for name in arrays if name.startswith(part)]
        assert len(names) > 10
        assert self.survivors(folder, arrays, names) == []

    def test_any_array_of_an_encoder(self, small, tmp_path, monkeypatch):
        monkeypatch.setattr(vector_index, "EXACT", 2)
        folder = tmp_path / "model"
        fit_router(small.catalog, small.history, encoder=WordVectors()).save(folder)
        arrays = arrays_of(folder)
        names = [name for name in arrays if "dense" in name or "vector" in name]
        assert len(names) == 17
        assert self.survivors(folder, arrays, names) == []

    def test_a_missing_array(self, folder):
        (parts(folder) / "views.expected.map.npy").unlink()
        reseal(folder)
        assert refused(folder) == f"{folder}: {DAMAGED}: 'views.expected.map' {CURE}"

    def test_the_arrays_of_another_model(self, folder, model):
        for file in parts(model).glob("*.npy"):
            shutil.copy(file, parts(folder))
        reseal(folder)
        assert DAMAGED in refused(folder)

    @pytest.mark.parametrize("name", ["catalog.jsonl", "history.jsonl", "state.json"])
    def test_a_file_of_another_model(self, folder, model, name):
        shutil.copy(parts(model) / name, parts(folder))
        reseal(folder)
        assert DAMAGED in refused(folder)

    @pytest.mark.parametrize("name", ["catalog.jsonl", "history.jsonl"])
    def test_a_line_that_says_something_else(self, folder, name):
        """Loading may pass it over; verifying reads all."""
        file = parts(folder) / name
        lines = file.read_bytes().split(b"\n")
        lines[3] = lines[3].replace(b'"id"', b'"di"')
        file.write_bytes(b"\n".join(lines))
        reseal(folder)
        with pytest.raises(ModelCorruptError, match=rf"{DAMAGED}: {name}, line 4: missing field"):
            verify_router(folder)

    def test_a_mashup_of_an_api_that_never_was(self, folder):
        file = parts(folder) / "history.jsonl"
        used = load_router(folder).history[3].apis[0]
        lines = file.read_bytes().split(b"\n")
        lines[3] = lines[3].replace(f'"{used}"'.encode(), f'"{"x" * len(used)}"'.encode())
        file.write_bytes(b"\n".join(lines))
        reseal(folder)
        with pytest.raises(ModelCorruptError, match=rf"{DAMAGED}: history.jsonl: unknown API 'xx"):
            verify_router(folder)

    @pytest.mark.parametrize("name", ["catalog.jsonl", "history.jsonl"])
    def test_a_line_less(self, folder, name):
        file = parts(folder) / name
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(lines[:-1]), encoding="utf-8")
        reseal(folder)
        assert DAMAGED in refused(folder)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("encoders",), None),
            (("encoders", "word", "terms"), []),
            (("encoders", "word", "terms"), "letters"),
            (("encoders", "word", "terms", 0), 5),
            (("encoders", "word", "terms", 1), "same"),
            (("encoders", "character", "idf"), {" array": "nowhere"}),
            (("encoders", "character", "idf"), 1.0),
            (("views", "corpus", "usage"), CO_USAGE),
            (("views", "corpus", "usage"), {" array": "views.expected.map"}),
            (("views", "unasked"), 1),
            (("views", "similar"), {}),
            (("views", "co_usage", "pairs", "together"), {" array": "views.expected.map"}),
            (("views", "history", "unasked"), 1),
            (("encoders", "word", "rare"), None),
            (("ranker", "first", "intercept"), float("nan")),
            (("ranker", "first", "intercept"), None),
            (("ranker", "trust"), 2.0),
            (("ranker", "trust"), -0.1),
            (("ranker", "parts"), {"0": {}}),
            (("ranker", "scale", "coefficients"), {" array": "ranker.rest.coefficients"}),
            (("answerable",), {}),
            (("answerable", "manner", "weights"), {" array": "decision.weights"}),
            (("answerable", "fits", "coefficients"), {" array": "answerable.both.coefficients"}),
            (("answerable", "level"), float("nan")),
            (("completion",), {}),
            (("decision", "confidence", "coefficients"), {" array": "ranker.first.coefficients"}),
            (("encoders", "word", "analyzer"), "unknown"),
            (("decision", "n_requests"), -1),
            (("decision", "n_requests"), 10**6),
            (("decision", "n_requests"), 10**400),
            (("decision", "weights"), {" array": "decision.needed"}),
            (("categories",), None),
            (("categories", "classes"), []),
            (("categories", "classes", 0), 7),
            (("categories", "classes"), ["a", "a"]),
            (("categories", "scale", "intercept"), float("nan")),
            (("categories", "prior"), {" array": "views.expected.map"}),
        ],
        ids=str,
    )
    def test_a_changed_state(self, folder, path, value):
        self.changed(folder, path, value)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("ranker",), "none"),
            (("ranker", "first", "intercept"), float("-inf")),
            (("ranker", "first", "coefficients"), {" array": "ranker.first.coefficients"}),
            (("ranker", "scale", "intercept"), float("nan")),
            (("ranker", "parts"), {}),
            (("ranker", "parts"), {"0": {}}),
            (("ranker", "parts", "0", "depth"), -1),
            (("ranker", "parts", "0", "baseline"), float("inf")),
        ],
        ids=str,
    )
    def test_a_changed_state_of_completion(self, model, tmp_path, path, value):
        folder = Path(shutil.copytree(model, tmp_path / "model"))
        self.changed(folder, ("completion", *path), value)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("parts",), {}),  # the calibration is that of trees
            (("parts",), None),
            (("parts", "0", "depth"), -1),
            (("parts", "0", "baseline"), float("inf")),
        ],
        ids=str,
    )
    def test_a_changed_state_of_the_trees(self, model, tmp_path, path, value):
        folder = Path(shutil.copytree(model, tmp_path / "model"))
        self.changed(folder, ("ranker", *path), value)

    def changed(self, folder, path, value):
        file = parts(folder) / "state.json"
        state = json.loads(file.read_text(encoding="utf-8"))
        *above, last = path
        part = state
        for key in above:
            part = part[key]
        part[last] = value
        if value == "same":
            part[last] = part[0]
        file.write_text(json.dumps(state), encoding="utf-8")
        reseal(folder)
        assert DAMAGED in refused(folder)

    @pytest.mark.parametrize("content", ["", "[]", "{}", "null", "5", "[" * 100_000, "\ud800"])
    def test_a_state_that_is_none(self, folder, content):
        (parts(folder) / "state.json").write_bytes(content.encode("utf-8", "surrogatepass"))
        reseal(folder)
        assert re.search(rf"{DAMAGED}: .+ {re.escape(CURE)}$", refused(folder))

    @pytest.mark.parametrize("size", [0, 20, 127, 150])
    def test_an_array_that_is_cut_though_its_checksum_says_so(self, folder, size):
        file = parts(folder) / "views.expected.map.npy"
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data[:size])
        reseal(folder)
        assert DAMAGED in refused(folder)

    def test_any_byte_of_the_head_of_an_array(self, folder):
        """It loads as the same router, or is refused."""
        file = parts(folder) / "views.corpus.usage.indices.npy"
        data = file.read_bytes()
        expected = load_router(folder).score("a map").probabilities
        for place in range(128):
            altered = bytearray(data)
            altered[place] ^= 2
            file.unlink()
            file.write_bytes(altered)
            reseal(folder)
            try:
                loaded = load_router(folder)
            except ModelCorruptError:
                continue
            np.testing.assert_array_equal(loaded.score("a map").probabilities, expected)


def test_a_model_without_categories(tmp_path):
    world = planted(n_cliques=2, size=3, rounds=2)
    bare = Catalog(Api(api.id, api.name, api.description) for api in world.catalog)
    router = fit_router(bare, world.history)
    router.save(tmp_path / "model")
    loaded = load_router(tmp_path / "model")
    assert loaded.categories is None
    request = world.cases[0].request
    assert loaded.route(request).to_dict() == router.route(request).to_dict()


def test_a_loaded_model_keeps_few_files_open(little_model):
    place = Path("/proc/self/fd")
    if not place.exists():
        pytest.skip("this system does not list open files")
    before = len(list(place.iterdir()))
    loaded = [load_router(little_model) for _ in range(20)]
    assert len(list(place.iterdir())) - before <= len(loaded)
