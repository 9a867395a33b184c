from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cnp_router import packing, storage
from cnp_router.exceptions import DataFileError, ModelCorruptError, ModelStoreError
from cnp_router.storage import (
    generation_of,
    load_model,
    pack,
    save_model,
    state_from_bytes,
    state_to_bytes,
    summary_of,
    unpack,
)

DENSE = np.array([[0, 1.5, 0], [2, 0, 0]], dtype=np.float32)
KEYS = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda key: key[:1] != " ")
PLAIN = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_a_sparse_array_comes_back_the_same_whatever_its_layout(kind):
    arrays, plain = pack({"x": kind(DENSE)})
    found = unpack(arrays, plain)["x"]
    assert isinstance(found, sparse.csr_array)
    np.testing.assert_array_equal(found.toarray(), DENSE)


@settings(max_examples=100)
@given(
    st.recursive(
        PLAIN | st.text(st.characters(exclude_categories=["Cs"])) | st.lists(KEYS, max_size=3),
        lambda inner: st.dictionaries(
            st.sampled_from(["array", "sparse", "shape", "a", "a.b"]) | KEYS, inner, max_size=3
        ),
    ).filter(lambda value: isinstance(value, dict))
)
def test_plain_data_comes_back_the_same(state):
    """Whatever names users give to their tools: "array", say."""
    assert unpack(*pack(state)) == state
    assert state_from_bytes(state_to_bytes(state)) == state


def test_indices_are_packed_in_four_bytes_where_they_fit():
    wide = sparse.csr_array(DENSE)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    arrays, plain = pack({"x": wide})
    assert {arrays["x.indices"].dtype, arrays["x.indptr"].dtype} == {np.dtype(np.int32)}
    np.testing.assert_array_equal(unpack(arrays, plain)["x"].toarray(), DENSE)
    huge = sparse.csr_array((wide.data, wide.indices, wide.indptr), shape=(2, 1 << 32))
    arrays, plain = pack({"x": huge})
    assert arrays["x.indices"].dtype == np.int64
    assert unpack(arrays, plain)["x"].shape == (2, 1 << 32)


def test_arrays_are_named_by_their_path():
    arrays, plain = pack({"a": {"b": DENSE}, "c": sparse.csr_array(DENSE)})
    assert list(arrays) == ["a.b", "c.data", "c.indices", "c.indptr"]
    assert plain == {
        "a": {"b": {" array": "a.b"}},
        "c": {" sparse": ["c.data", "c.indices", "c.indptr"], "shape": [2, 3]},
    }


def test_arrays_of_the_same_path_are_kept_apart():
    state = {"a": {"b": np.zeros(1)}, "a.b": np.ones(1)}
    found = state_from_bytes(state_to_bytes(state))
    assert (found["a"]["b"].item(), found["a.b"].item()) == (0, 1)


@pytest.mark.parametrize("name", ["file", "plain", "allow_pickle", "self"])
def test_an_array_may_have_any_name(name):
    assert state_from_bytes(state_to_bytes({name: np.arange(2)}))[name].tolist() == [0, 1]


def test_a_key_that_begins_with_a_space():
    with pytest.raises(ValueError, match=re.escape("begins with a space: [' array']")):
        pack({"a": {" array": 1}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x.indices", np.array([9, 0], dtype=np.int32)),
        ("x.indices", np.array([-1, 0], dtype=np.int32)),
        ("x.indices", np.array([1.0, 0.0])),
        ("x.indptr", np.array([0, 1, 9], dtype=np.int32)),
        ("x.indptr", np.array([0, 2, 1], dtype=np.int32)),
        ("x.indptr", np.array([0, 1], dtype=np.int32)),
        ("x.data", np.array([1.5])),
        ("x.data", np.array([[1.5, 2.0]])),
    ],
)
def test_a_sparse_array_whose_parts_do_not_fit(name, value):
    arrays, plain = pack({"x": sparse.csr_array(DENSE)})
    with pytest.raises((TypeError, ValueError)):
        unpack({**arrays, name: value}, plain)


@pytest.mark.parametrize("shape", [[2], [2, -3], [2, 1], [2.0, 3.0], "23", None, [2, 3, 4]])
def test_a_sparse_array_whose_shape_does_not_fit(shape):
    arrays, plain = pack({"x": sparse.csr_array(DENSE)})
    plain["x"]["shape"] = shape
    with pytest.raises((TypeError, ValueError)):
        unpack(arrays, plain)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(number):
    with pytest.raises(ValueError, match="JSON"):
        state_to_bytes({"x": number})
    with pytest.raises(ValueError, match="is not a finite number"):
        unpack({}, {"a": {"x": number}})


def test_what_is_missing_and_what_is_not_an_object():
    with pytest.raises(KeyError, match="x"):
        unpack({}, {"y": {" array": "x"}})
    with pytest.raises(TypeError, match="expected an object, got list"):
        unpack({}, [])


def test_a_model_that_may_not_be_read_is_not_called_missing(tmp_path, monkeypatch):
    """In a folder that may not be looked into, nothing seems to exist."""

    def denied(path):
        raise PermissionError(13, "Permission denied")

    save_model(tmp_path / "model", {"a": 1}, files={}, summary={})
    monkeypatch.setattr(Path, "read_bytes", denied)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    with pytest.raises(ModelStoreError, match="cannot be read: Permission denied"):
        load_model(tmp_path / "model", lambda *parts: parts)


def saved(folder, n, **how):
    """Save a model with a number in it."""
    return save_model(folder, {"n": n}, files={}, summary={"n": n}, **how)


def test_only_what_was_to_be_replaced_is_replaced(tmp_path):
    folder = tmp_path / "model"
    saved(folder, 1)
    first = generation_of(folder)
    second = saved(folder, 2, overwrite=True, replaces=first)
    with pytest.raises(ModelStoreError, match="replaced the model meanwhile: nothing was saved"):
        saved(folder, 3, overwrite=True, replaces=first)
    assert generation_of(folder) == second
    assert summary_of(folder) == {"n": 2}
    saved(folder, 4, overwrite=True)
    assert summary_of(folder) == {"n": 4}


def test_a_full_disk_is_said_where_numpy_does_not(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("3660 requested and 3040 written")

    monkeypatch.setattr(np, "save", full)
    said = r"cannot be written: not all of it could be written \(make room: the disk may be full"
    with pytest.raises(DataFileError, match=said):
        save_model(tmp_path / "model", {"a": np.zeros(9)}, files={}, summary={})
    assert not (tmp_path / "model").exists()


class TestManyStrings:
    TERMS = (*(f"term {i}" for i in range(packing._MANY)), "caf\u00e9", "\u2028", "\r", "")

    def test_they_are_one_array(self):
        arrays, plain = pack({"terms": [*self.TERMS], "few": ["a"]})
        assert plain == {"terms": {" text": "terms", "n": len(self.TERMS)}, "few": ["a"]}
        assert arrays["terms"].dtype == np.uint8
        assert unpack(arrays, plain)["terms"] == [*self.TERMS]

    @pytest.mark.parametrize("odd", ["two\nlines", 3, None, ["a"]])
    def test_what_lines_cannot_hold_stays_in_json(self, odd):
        state = {"terms": [*self.TERMS, odd]}
        assert pack(state) == ({}, state)
        assert state_from_bytes(state_to_bytes(state)) == state

    @pytest.mark.parametrize(
        "damage",
        [
            lambda array: array[:-1],
            lambda array: array[:-9],
            lambda array: np.append(array, array[-1:]),
            lambda array: array.astype(np.int64),
            lambda array: array[:, None],
            lambda array: np.full_like(array, 255),
        ],
    )
    def test_damaged_ones(self, damage):
        arrays, plain = pack({"terms": [*self.TERMS]})
        with pytest.raises((TypeError, ValueError)):
            unpack({"terms": damage(arrays["terms"])}, plain)


class TestSparseArraysAreNotCopied:
    @pytest.mark.parametrize("kind", [np.int32, np.int64])
    def test_the_parts_are_those_that_were_mapped(self, kind):
        arrays, plain = pack({"x": sparse.csr_array(DENSE)})
        for part in ("x.indices", "x.indptr"):
            arrays[part] = arrays[part].astype(kind)
        found = unpack(arrays, plain)["x"]
        for part in ("data", "indices", "indptr"):
            assert np.shares_memory(getattr(found, part), arrays[f"x.{part}"])
        np.testing.assert_array_equal((found @ found.T).toarray(), DENSE @ DENSE.T)
        np.testing.assert_array_equal(found[[1]].toarray(), DENSE[[1]])

    def test_what_stands_behind_the_last_row_is_cut_off(self):
        arrays, plain = pack({"x": sparse.csr_array(DENSE)})
        for part in ("x.data", "x.indices"):
            arrays[part] = np.append(arrays[part], arrays[part][:1])
        np.testing.assert_array_equal(unpack(arrays, plain)["x"].toarray(), DENSE)


class TestLargeArraysAreLookedThroughOnce:
    @pytest.fixture
    def looked(self, monkeypatch):
        """Whether each loading took the arrays as seen."""
        seen = []
        original = storage.unpack

        def noted(*args, **how):
            seen.append(how["seen"])
            return original(*args, **how)

        monkeypatch.setattr(storage, "unpack", noted)
        return seen

    @pytest.fixture
    def model(self, tmp_path):
        rng = np.random.default_rng(0)
        wide = sparse.random_array((2000, 3000), density=0.2, rng=rng, format="csr")
        state = {"x": wide, "y": np.zeros(packing.LARGE // 8)}
        save_model(tmp_path / "model", state, files={}, summary={})
        return tmp_path / "model"

    def load(self, model):
        return load_model(model, lambda folder, state, summary: state)

    def array(self, model, name):
        (file,) = model.glob(f"generation-*/{name}.npy")
        return file

    def test_once(self, model, looked):
        for _ in range(3):
            assert self.load(model)["x"].shape == (2000, 3000)
        assert looked == [False, True, True]
        (generation,) = (path for path in model.iterdir() if path.is_dir())
        assert sorted(path.name for path in model.iterdir()) == sorted(
            [generation.name, f"{generation.name}.seen", "lock", "manifest.json"]
        )

    @pytest.mark.parametrize(
        ("name", "number", "problem"),
        [
            ("x.indices", 3000, "out of bounds"),
            ("x.indices", -1, "out of bounds"),
            ("x.data", np.nan, "not all numbers are finite"),
            ("y", np.inf, "not all numbers are finite"),
        ],
    )
    def test_until_a_file_changes(self, model, looked, name, number, problem):
        for seen_before in (False, True):
            if seen_before:
                self.load(model)
            file = self.array(model, name)
            values = np.load(file)
            kept, values[7] = values[7], number
            np.save(file, values)
            with pytest.raises(ModelCorruptError, match=problem):
                self.load(model)
            values[7] = kept
            np.save(file, values)

    def test_a_copy_is_looked_through(self, model, looked, tmp_path):
        self.load(model)
        self.load(shutil.copytree(model, tmp_path / "copy"))
        assert looked == [False, False]

    @pytest.mark.parametrize("content", ["", "null", "{}", "[" * 10_000])
    def test_a_stamp_that_is_none(self, model, looked, content):
        self.load(model)
        (stamp,) = model.glob("*.seen")
        stamp.write_text(content)
        self.load(model)
        self.load(model)
        assert looked == [False, False, True]

    def test_where_nothing_can_be_written(self, model, looked, monkeypatch):
        def denied(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(storage, "atomic_write", denied)
        self.load(model)
        self.load(model)
        assert looked == [False, False]

    def test_the_next_model_takes_the_stamp_away(self, model):
        self.load(model)
        save_model(model, {"a": 1}, files={}, summary={}, overwrite=True)
        assert list(model.glob("*.seen")) == []
        assert self.load(model) == {"a": 1}

    def test_small_arrays_need_no_stamp(self, tmp_path):
        save_model(tmp_path / "model", {"x": DENSE}, files={}, summary={})
        self.load(tmp_path / "model")
        assert list((tmp_path / "model").glob("*.seen")) == []
