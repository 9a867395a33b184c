from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cnp_router.text import (
    GrowingRows,
    dense_product,
    longer,
    rows_below,
    rows_between,
    unit_rows,
)
from cnp_router.text import sparse_rows as module
from cnp_router.text.sparse_rows import counted_rows, one_row


@settings(max_examples=50)
@given(rows=st.lists(st.lists(st.integers(0, 6), max_size=9), min_size=1, max_size=5))
def test_counted_rows_count_what_each_row_has(rows):
    flat = np.array([column for row in rows for column in row], dtype=np.int32)
    sizes = np.array(list(map(len, rows)))
    columns, counts, own = counted_rows(flat, sizes, 7)
    pointers = np.concatenate([[0], np.cumsum(own)])
    found = sparse.csr_array((counts, columns, pointers), shape=(len(rows), 7))
    assert found.has_canonical_format
    assert found.toarray().tolist() == [[row.count(i) for i in range(7)] for row in rows]


def test_more_places_than_32_bits_count():
    columns, counts, own = counted_rows(np.array([5, 5, 2**31 - 2]), np.array([2, 1]), 2**31 - 1)
    assert (columns.tolist(), counts.tolist(), own.tolist()) == ([5, 2**31 - 2], [2, 1], [1, 1])


@pytest.mark.parametrize("shape", [(3,), (3, 2), (0,), (0, 2), (3, 0)])
def test_an_array_grows_in_the_room_behind_it(shape):
    before = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    more = np.ones((2, *shape[1:]), dtype=np.float32)
    first = longer(before, more)
    second = longer(first, more + 1)
    third = longer(second, more + 2)
    assert not np.shares_memory(first, before)
    assert third.size == 0 or (np.shares_memory(first, second) and np.shares_memory(second, third))
    assert second.dtype == np.float32
    np.testing.assert_array_equal(first, np.concatenate([before, more]))
    np.testing.assert_array_equal(third, np.concatenate([before, more, more + 1, more + 2]))


def test_what_others_have_put_there_stays():
    first = longer(np.array([1, 2]), np.array([3]))
    one, other = longer(first, np.array([4])), longer(first, np.array([5]))
    assert (first.tolist(), one.tolist(), other.tolist()) == ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5])
    assert longer(first[:2], np.array([9])).tolist() == [1, 2, 9]
    assert longer(first[1:], np.array([9])).tolist() == [2, 3, 9]
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0
    assert longer(one.view(np.float64), np.array([0.5]))[-1] == 0.5
    assert one.tolist() == [1, 2, 3, 4]


def test_a_full_room_is_left_for_a_larger_one(monkeypatch):
    monkeypatch.setattr(module, "_LEAST", 2)
    array = np.arange(8)
    for n in range(8, 100):
        array = longer(array, np.array([n]))
    assert array.tolist() == list(range(100))


def test_a_copy_has_no_room():
    first = longer(np.arange(3), np.arange(2))
    other = pickle.loads(pickle.dumps(first))
    assert len(pickle.dumps(first)) < 1_000
    assert not np.shares_memory(longer(other, np.arange(2)), first)


@pytest.mark.parametrize("cuts", [(0, 500), (0, 0, 3), (7, 8, 9, 500)])
def test_rows_below_others(cuts):
    whole = sparse.random_array((500, 300), density=0.3, rng=0, dtype=np.float32, format="csr")
    rows = whole[: cuts[0]]
    for start, stop in itertools.pairwise(cuts):
        rows = rows_below(rows, whole[start:stop])
    assert rows.shape == (cuts[-1], 300) and rows.dtype == np.float32
    for name in ("data", "indices", "indptr"):
        found, wanted = getattr(rows, name), getattr(whole[: cuts[-1]], name)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_more_entries_than_32_bits_count_have_wider_numbers(monkeypatch):
    whole = sparse.random_array((50, 30), density=0.3, rng=0, dtype=np.float32, format="csr")
    rows = rows_below(whole[:20], whole[20:30])
    monkeypatch.setattr(module, "_MOST_32", rows.nnz)
    wide = rows_below(rows, whole[30:])
    assert wide.indices.dtype == wide.indptr.dtype == np.int64
    np.testing.assert_array_equal(wide.toarray(), whole.toarray())


def test_rows_grow_to_what_they_are_in_one_go():
    whole = sparse.random_array((500, 300), density=0.3, rng=0, dtype=np.float32, format="csr")
    rows = GrowingRows(300)
    for start, stop in ((0, 1), (1, 1), (1, 7), (7, 490), (490, 500)):
        part = whole[start:stop]
        rows.add(part.data, part.indices, np.diff(part.indptr))
    made = rows.matrix()
    assert made.dtype == np.float32 and made.indices.dtype == made.indptr.dtype == np.int32
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(made, name), getattr(whole, name))


def test_no_rows():
    assert GrowingRows(3).matrix().shape == (0, 3)


def test_most_rows_of_a_matrix_share_its_entries():
    whole = sparse.random_array((9, 5), density=0.5, rng=0, format="csr")
    for start, stop in ((1, 9), (0, 9), (2, 4), (3, 3)):
        some = rows_between(whole, start, stop)
        np.testing.assert_array_equal(some.toarray(), whole.toarray()[start:stop])
        if stop - start > 5:
            assert np.shares_memory(some.data, whole.data)
            assert np.shares_memory(some.indices, whole.indices)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 200])
def test_one_row_is_the_row_of_a_matrix(n):
    rng = np.random.default_rng(n)
    weights = rng.random(n, dtype=np.float32)
    columns = np.sort(rng.choice(300, n, replace=False)).astype(np.int32)
    row = one_row(sparse.csr_array((1, 300), dtype=np.float32), weights, columns)
    pair = np.concatenate([weights, weights]), np.concatenate([columns, columns])
    both = unit_rows(sparse.csr_array((*pair, [0, n, 2 * n]), shape=(2, 300)))
    for i in (0, 1):
        np.testing.assert_array_equal(row.toarray(), both[[i]].toarray())
    assert (row @ both.T).shape == (1, 2)  # scipy takes it


@pytest.mark.parametrize("n_terms", [40, 6_000], ids=["few entries", "many entries"])
@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_a_dense_product_is_that_of_scipy(n_rows, n_terms):
    rng = np.random.default_rng(n_rows)
    made = [
        sparse.random_array(shape, density=0.2, rng=rng, dtype=np.float32, format="csr")
        for shape in ((n_rows, n_terms), (n_terms, 50))
    ]
    product = dense_product(*made)
    assert (product.dtype, product.shape) == (np.float32, (n_rows, 50))
    assert np.array_equal(product, (made[0] @ made[1]).toarray())
