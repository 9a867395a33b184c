import numpy as np
import pytest
from scipy import sparse

from cnp_router.text import kernels
from cnp_router.text.kernels import dense_times, product, taken, times


@pytest.fixture(params=["loops", "operators"], autouse=True)
def way(request, monkeypatch):
    """Both ways there are: the compiled loops of scipy, and its operators where they are gone."""
    assert kernels.loops is not None  # or all answers are slower: time to look for them again
    if request.param == "operators":
        monkeypatch.setattr(kernels, "loops", None)


def matrix(n_rows, n_columns, seed, kind=np.int32):
    rng = np.random.default_rng(seed)
    found = sparse.random_array(
        (n_rows, n_columns), density=0.3, format="csr", dtype=np.float32, rng=rng
    )
    found.indptr, found.indices = found.indptr.astype(kind), found.indices.astype(kind)
    return found


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("lines", [[], [3], [7, 0, 0, 9]])
def test_rows_that_are_taken_are_those_of_the_matrix(lines, kind):
    items = matrix(10, 6, 1, kind)
    found = taken(items, np.array(lines, dtype=np.intp))
    np.testing.assert_array_equal(found.matrix().toarray(), items.toarray()[lines])
    assert found.indptr.dtype == found.indices.dtype == kind
    again = taken(found, np.arange(len(lines)))
    np.testing.assert_array_equal(again.data, found.data)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_a_vector_is_multiplied_by_each_row(kind):
    items, vector = matrix(10, 6, 2, kind), np.arange(6, dtype=np.float32)
    found = times(taken(items, np.arange(4, 10)), vector)
    np.testing.assert_allclose(found, items.toarray()[4:] @ vector, rtol=1e-6)
    assert found.dtype == np.float32
    assert times(taken(items, np.arange(0)), vector).shape == (0,)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_a_product_is_that_of_the_operator(n_rows, kind):
    rows, items = matrix(n_rows, 10, 3), matrix(10, 6, 4, kind)
    found = product(rows, items)
    np.testing.assert_array_equal(found.matrix().toarray(), (rows @ items).toarray())
    assert found.shape == (n_rows, 6)


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_dense_matrix_is_multiplied_by_each_row(as_rows, order):
    rows = matrix(5, 10, 3)
    dense = np.asarray(matrix(10, 6, 4).toarray(), order=order)
    found = dense_times(taken(rows, np.arange(5)) if as_rows else rows, dense)
    np.testing.assert_array_equal(found, rows @ np.ascontiguousarray(dense))
    assert found.dtype == np.float32


def test_a_product_of_rows_is_that_of_their_matrix():
    rows, items = matrix(5, 10, 3), matrix(10, 6, 4)
    found = product(taken(rows, np.arange(5)), items)
    np.testing.assert_array_equal(found.matrix().toarray(), (rows @ items).toarray())


def test_a_product_of_too_many_entries_is_left_to_the_operator(monkeypatch):
    monkeypatch.setattr(kernels, "_MOST_32", 3)
    rows, items = matrix(5, 10, 3), matrix(10, 6, 4)
    np.testing.assert_array_equal(product(rows, items).toarray(), (rows @ items).toarray())


def test_numbers_of_two_kinds():
    rows, items = matrix(5, 10, 3), matrix(10, 6, 4).astype(np.float64)
    found = product(rows, items)
    np.testing.assert_array_equal(found.toarray(), (rows @ items).toarray())
    vector = np.arange(6, dtype=np.float32)
    products = times(taken(items, np.arange(10)), vector)
    np.testing.assert_array_equal(products, items @ vector)
    assert found.data.dtype == products.dtype == np.float64


def test_what_is_read_only_is_multiplied_too():
    items = matrix(10, 6, 5)
    for each in (items.data, items.indices, items.indptr):
        each.flags.writeable = False  # as a file that is mapped
    found = taken(items, np.array([2, 1]))
    np.testing.assert_array_equal(found.matrix().toarray(), items.toarray()[[2, 1]])
    rows = matrix(2, 10, 6)
    expected = (rows @ items).toarray()
    np.testing.assert_array_equal(product(rows, items).matrix().toarray(), expected)
