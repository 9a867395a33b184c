from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cnp_router.text import GrowingRows, dense_product, rows_between, unit_rows
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
