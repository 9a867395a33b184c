from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cnp_router.storage import pack, unpack

DENSE = np.array([[0, 1.5, 0], [2, 0, 0]], dtype=np.float32)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_a_sparse_array_comes_back_the_same_whatever_its_layout(kind):
    arrays, plain = pack({"x": kind(DENSE)})
    found = unpack(arrays, plain)["x"]
    assert isinstance(found, sparse.csr_array)
    np.testing.assert_array_equal(found.toarray(), DENSE)


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.text(st.characters(categories=["L"]), min_size=1).filter(
            lambda key: key not in ("array", "sparse")
        ),
        st.recursive(
            st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=3),
            lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        ),
    )
)
def test_plain_data_comes_back_the_same(state):
    assert unpack(*pack(state)) == state


def test_arrays_are_named_by_their_path():
    arrays, plain = pack({"a": {"b": DENSE}, "c": sparse.csr_array(DENSE)})
    assert list(arrays) == ["a/b", "c.data", "c.indices", "c.indptr", "c.shape"]
    assert plain == {"a": {"b": {"array": "a/b"}}, "c": {"sparse": "c"}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x.indices", np.array([9, 0], dtype=np.int32)),
        ("x.indices", np.array([-1, 0], dtype=np.int32)),
        ("x.indices", np.array([1.0, 0.0])),
        ("x.indptr", np.array([0, 1, 9], dtype=np.int32)),
        ("x.indptr", np.array([0, 2, 1], dtype=np.int32)),
        ("x.indptr", np.array([0, 1], dtype=np.int32)),
        ("x.shape", np.array([2])),
        ("x.shape", np.array([2, -3])),
        ("x.shape", np.array([2, 1])),
        ("x.data", np.array([1.5])),
        ("x.data", b"bytes"),
    ],
)
def test_a_sparse_array_whose_parts_do_not_fit(name, value):
    arrays, plain = pack({"x": sparse.csr_array(DENSE)})
    with pytest.raises((TypeError, ValueError)):
        unpack({**arrays, name: value}, plain)


def test_what_is_missing_and_what_is_no_object():
    with pytest.raises(KeyError, match="x"):
        unpack({}, {"y": {"array": "x"}})
    with pytest.raises(TypeError, match="expected an object, got list"):
        unpack({}, [])
