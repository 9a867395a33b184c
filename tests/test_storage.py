from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cnp_router.exceptions import ModelCorruptError
from cnp_router.storage import (
    load_model,
    pack,
    save_model,
    state_from_bytes,
    state_to_bytes,
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
    with pytest.raises(ModelCorruptError, match="no permission to read it"):
        load_model(tmp_path / "model", lambda *parts: parts)
