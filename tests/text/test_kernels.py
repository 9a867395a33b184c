import itertools

import numpy as np
import pytest
from scipy import sparse

from cnp_router.text import kernels
from cnp_router.text.kernels import (
    add_up,
    below,
    dense_times,
    descending,
    product,
    taken,
    times_each,
)


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


def times(items, lines, vector):
    return times_each(items, lines, np.array([0, len(lines)]), [vector])


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("lines", [[], [3], [7, 0, 0, 9]])
def test_rows_that_are_taken_are_those_of_the_matrix(lines, kind):
    items = matrix(10, 6, 1, kind)
    found = taken(items, np.array(lines, dtype=np.intp))
    np.testing.assert_array_equal(found.matrix().toarray(), items.toarray()[lines])
    assert found.indptr.dtype == found.indices.dtype == kind
    again = taken(found, np.arange(len(lines)))
    np.testing.assert_array_equal(again.data, found.data)


LINES = [[], [3], [4, 5, 6, 9], [9, 6, 4], [7, 0, 0, 9]]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("lines", LINES)
def test_a_vector_is_multiplied_by_some_rows(lines, kind):
    items, vector = matrix(10, 6, 2, kind), np.arange(6, dtype=np.float32)
    found = times(items, np.array(lines, dtype=np.intp), vector)
    np.testing.assert_allclose(found, items.toarray()[lines] @ vector, rtol=1e-6)
    assert (found.dtype, found.shape) == (np.float32, (len(lines),))


@pytest.mark.parametrize("sizes", [[], [0], [2, 3], [0, 2, 0, 0, 1, 0], [1, 1, 9]])
def test_each_vector_is_multiplied_by_rows_of_its_own(sizes):
    items, rng = matrix(10, 6, 2), np.random.default_rng(len(sizes))
    vectors = rng.random((len(sizes), 6), dtype=np.float32)
    starts = np.cumsum([0, *sizes])
    lines = rng.integers(10, size=starts[-1])
    lent = np.empty(6, dtype=np.float32)

    def one_after_the_other():
        for vector in vectors:
            lent[:] = vector
            yield lent
        lent[:] = np.nan

    found = times_each(items, lines, starts, one_after_the_other())
    wanted = items.toarray()[lines] * vectors[np.arange(len(sizes)).repeat(sizes)]
    np.testing.assert_allclose(found, wanted.sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("lines", LINES)
def test_some_rows_are_added_up(lines, kind):
    items, weights = matrix(10, 6, 3, kind), np.arange(1, 1 + len(lines), dtype=np.float32)
    into = np.ones(6, dtype=np.float32)
    add_up(items, np.array(lines, dtype=np.int32), weights, into)
    np.testing.assert_allclose(into, 1 + weights @ items.toarray()[lines], rtol=1e-6)


def test_both_ways_answer_the_same_to_the_bit(monkeypatch):
    items, lines = matrix(40, 30, 4), np.array([31, 2, 17, 5, 39])
    vector, weights = matrix(1, 30, 5).toarray()[0], matrix(1, 5, 6).toarray()[0]
    answers = []
    for way in (kernels.loops, None):
        monkeypatch.setattr(kernels, "loops", way)
        into = np.zeros(30, dtype=np.float32)
        add_up(items, lines, weights, into)
        answers.append((into.tolist(), times(items, lines, vector).tolist()))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_a_product_is_that_of_the_operator(n_rows, kind):
    rows, items = matrix(n_rows, 10, 3), matrix(10, 6, 4, kind)
    for given in (rows, taken(rows, np.arange(n_rows))):
        found = product(given, items)
        np.testing.assert_array_equal(found.matrix().toarray(), (rows @ items).toarray())
        assert found.shape == (n_rows, 6)


def test_a_product_of_too_many_entries_is_left_to_the_operator(monkeypatch):
    monkeypatch.setattr(kernels, "_MOST_32", 3)
    rows, items = matrix(5, 10, 3), matrix(10, 6, 4)
    np.testing.assert_array_equal(product(rows, items).toarray(), (rows @ items).toarray())


@pytest.mark.parametrize("shape", [(0, 3), (1, 6), (4, 6)])
def test_columns_that_descend(shape):
    rows = matrix(*shape, 3)
    found = descending(rows)
    np.testing.assert_array_equal(found.toarray(), rows.toarray())
    for begin, end in itertools.pairwise(found.indptr.tolist()):
        own = found.indices[begin:end].tolist()
        assert own == sorted(own, reverse=True)


def test_columns_of_which_there_are_none_descend():
    found = descending(sparse.csr_array((2, 0), dtype=np.float32))
    assert found.indptr.tolist() == [0, 0, 0] and found.shape == (2, 0)


def test_rows_below_others():
    above, rows = matrix(3, 6, 1), matrix(2, 6, 2)
    found = below(above, taken(rows, np.arange(2)))
    np.testing.assert_array_equal(found.toarray(), np.vstack([above.toarray(), rows.toarray()]))


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_dense_matrix_is_multiplied_by_each_row(as_rows, order):
    rows = matrix(5, 10, 3)
    dense = np.asarray(matrix(10, 6, 4).toarray(), order=order)
    found = dense_times(taken(rows, np.arange(5)) if as_rows else rows, dense)
    np.testing.assert_array_equal(found, rows @ np.ascontiguousarray(dense))
    assert found.dtype == np.float32


def test_numbers_of_two_kinds():
    rows, items = matrix(1, 10, 3), matrix(10, 6, 4).astype(np.float64)
    vector = np.arange(6, dtype=np.float32)
    products = times(items, np.arange(10), vector)
    np.testing.assert_array_equal(products, items @ vector)
    into = np.zeros(6)
    add_up(items, rows.indices, rows.data, into)
    np.testing.assert_allclose(into, (rows @ items).sum(axis=0))
    assert products.dtype == np.float64


def test_what_is_read_only_is_multiplied_too():
    items = matrix(10, 6, 5)
    for each in (items.data, items.indices, items.indptr):
        each.flags.writeable = False  # as a file that is mapped
    lines, into = np.array([2, 1]), np.zeros(6, dtype=np.float32)
    np.testing.assert_array_equal(taken(items, lines).matrix().toarray(), items.toarray()[lines])
    add_up(items, lines, np.ones(2, dtype=np.float32), into)
    np.testing.assert_allclose(into, items.toarray()[lines].sum(axis=0))
    np.testing.assert_allclose(times(items, lines, into), items.toarray()[lines] @ into, rtol=1e-6)
