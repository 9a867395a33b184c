"""Inverted indexes, products with some rows, the best of each segment, values under keys."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from scipy import sparse

from cnp_router.text.entries import entries
from cnp_router.text.kernels import descending, taken
from cnp_router.training import keyed, postings
from cnp_router.training.postings import (
    best_of_each,
    best_products,
    champions,
    part_products,
    pooled,
    row_products,
    segments,
    sort_each,
    sparse_product,
    with_items,
)


def matrix(n_rows, n_columns, seed, density=0.3):
    rng = np.random.default_rng(seed)
    return sparse.csr_array(
        sparse.random_array((n_rows, n_columns), density=density, rng=rng, dtype=np.float32)
    )


def starts_of(sizes):
    return np.concatenate([[0], np.cumsum(sizes)])


@pytest.mark.parametrize("sizes", [[12], [0], [], [3, 0, 7], [40, 1, 2, 40], [9] * 5])
@pytest.mark.parametrize("most", [1, 3, 8])
@pytest.mark.parametrize(("short", "at_once"), [(0, 1), (10, 1), (10, 1_000), (256, 2)])
def test_the_best_of_each_segment(monkeypatch, sizes, most, short, at_once):
    monkeypatch.setattr(postings, "_SHORT", short)
    monkeypatch.setattr(postings, "_AT_ONCE", at_once)
    rng = np.random.default_rng(sum(sizes))
    values = rng.integers(0, 4, size=sum(sizes)).astype(np.float32)  # many are equal
    starts = starts_of(sizes).astype(np.intp)
    expected = []
    for begin, end in itertools.pairwise(starts):
        order = begin + np.argsort(-values[begin:end], kind="stable")[:most]
        expected.extend(sorted(order.tolist()))
    assert best_of_each(values, starts, most).tolist() == expected


@pytest.mark.parametrize("sizes", [[0, 3, 900], [1_000, 0], [257, 256, 3_000, 255], [900] * 3])
@pytest.mark.parametrize("n_levels", [3, 10**6])
def test_the_best_of_long_segments(sizes, n_levels):
    rng, most = np.random.default_rng(0), 20
    starts = starts_of(sizes).astype(np.intp)
    values = rng.integers(1, n_levels + 1, starts[-1]).astype(np.float32)
    expected = [
        begin + np.sort(np.argsort(-values[begin:end], kind="stable")[:most])
        for begin, end in itertools.pairwise(starts.tolist())
    ]
    np.testing.assert_array_equal(best_of_each(values, starts, most), np.concatenate(expected))


def test_champions_are_the_weightiest():
    index = matrix(6, 40, 1)
    few = champions(index, 4)
    for row, kept in zip(index.toarray(), few.toarray(), strict=True):
        assert sorted(kept[kept > 0]) == sorted(np.sort(row[row > 0])[-4:])


def test_an_exact_index_has_all_that_the_items_say():
    rows = matrix(20, 5, 2, density=0.8)
    np.testing.assert_array_equal(
        postings.postings(rows, exact=True, most=3).toarray(), rows.toarray().T
    )
    few = postings.postings(rows, exact=False, most=3)
    assert np.diff(few.indptr).tolist() == [3] * 5


def test_of_equal_champions_the_first_are_kept():
    index = matrix(30, 60, seed=3, density=0.5)
    index.data = np.round(index.data, 1) - np.float32(0.3)  # with equal ones, and negative ones
    found = champions(index, 7)
    for row in range(30):
        own = index.data[index.indptr[row] : index.indptr[row + 1]]
        kept = np.sort(np.argsort(-own, kind="stable")[:7])
        there = slice(found.indptr[row], found.indptr[row + 1])
        np.testing.assert_array_equal(found.data[there], own[kept])
        columns = index.indices[index.indptr[row] : index.indptr[row + 1]]
        np.testing.assert_array_equal(found.indices[there], columns[kept])


@pytest.mark.parametrize("cuts", [(0, 40), (39, 40), (1, 20, 21, 40)])
def test_an_index_that_grows_is_as_if_made_of_all(cuts):
    rows = matrix(40, 9, seed=1, density=0.6)
    rows.data = np.round(rows.data, 1)
    index = champions(sparse.csr_array(rows[: cuts[0]].T), 5)
    for begin, end in itertools.pairwise(cuts):
        index = with_items(index, rows[begin:end], 5)
    whole = champions(sparse.csr_array(rows.T), 5)
    np.testing.assert_array_equal(index.toarray(), whole.toarray())


def test_products_with_some_rows():
    queries, items = matrix(3, 20, 2), matrix(30, 20, 3, density=0.1)  # some rows are empty
    of = [np.array([4, 0, 7]), np.array([], dtype=int), np.arange(30)]
    starts = starts_of(list(map(len, of)))
    found = row_products(queries, items, np.concatenate(of).astype(np.intp), starts)
    exact = (queries @ items.T).toarray()
    expected = np.concatenate([exact[row, own] for row, own in enumerate(of)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_was_lent_is_given_back_where_a_product_fails(monkeypatch):
    rows, items = matrix(2, 20, 4), matrix(6, 20, 5)

    def failing(items, of, starts, vectors):
        raise KeyboardInterrupt(next(iter(vectors)).sum())

    monkeypatch.setattr(postings, "times_each", failing)
    with pytest.raises(KeyboardInterrupt) as stopped:
        row_products(rows, items, np.arange(6), np.array([0, 3, 6]))
    assert stopped.value.args[0] > 0  # and whoever keeps the error, keeps the loop
    with keyed.Filled(np.zeros(0, dtype=np.intp), 0, 20) as lent:
        assert not lent.any()


@pytest.mark.parametrize("borrow", [keyed.scattered, lambda *given: keyed.added(*given[:2], 20)])
def test_nobody_finds_what_an_interrupted_borrower_left(borrow):
    keys, values = np.array([3, 7], dtype=np.intp), np.array([1, np.nan], dtype=np.float32)

    def interrupted(number):
        left = [number]

        def trace(frame, event, _):
            if frame.f_code.co_filename == keyed.__file__:
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            borrow(keys, values, keys, 20)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    number = 1
    while interrupted(number):
        with keyed.Filled(keys[:0], 0, 20) as lent:
            assert not lent.any()
        number += 1
    assert number > 11


@pytest.mark.parametrize("n_parts", [[1], [3], [0], [1, 4, 2], [2, 2], []])
@pytest.mark.parametrize("n_items", [0, 1, 7])
def test_products_with_the_parts_of_requests(n_parts, n_items):
    sizes = [n_items + i for i in range(len(n_parts))]
    begins, starts = starts_of(n_parts).astype(int), starts_of(sizes).astype(int)
    parts = matrix(int(begins[-1]), 20, 4, density=0.2)
    items = matrix(int(starts[-1]), 20, 5)
    found = part_products(
        taken(parts, np.arange(begins[-1])), begins, taken(items, np.arange(starts[-1])), starts
    )
    expected = np.zeros((starts[-1], max([1, *n_parts])))
    for i, n in enumerate(n_parts):
        own, said = slice(*starts[i : i + 2]), slice(*begins[i : i + 2])
        expected[own, :n] = (items[own] @ parts[said].T).toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("n_rows", [0, 1, 3, 40])
def test_a_product_with_an_index(n_rows):
    rows, index = matrix(n_rows, 30, 6), matrix(30, 500, 7)
    found = sparse_product(rows, index).matrix()
    np.testing.assert_allclose(found.toarray(), (rows @ index).toarray(), rtol=1e-5)


@pytest.mark.parametrize("n_rows", [0, 1, 3, 40])
@pytest.mark.parametrize("most", [1, 7, 600])
def test_the_best_products_are_the_same_however_they_are_found(monkeypatch, n_rows, most):
    rows, index = matrix(n_rows, 30, 6, density=0.05), matrix(30, 500, 7, density=0.1)
    expected = [own.tolist() for own in pooled(sparse_product(descending(rows), index), most)]
    # All at once, line by line, some lines at once; what is there, by scipy and one by one.
    for cells, per_entry, few in (
        (1 << 18, 999, 0),
        (1, 999, 0),
        (1_300, 999, 0),
        (1, 0, 0),
        (1, 0, 99),
    ):
        monkeypatch.setattr(postings, "_CELLS", cells)
        monkeypatch.setattr(postings, "_CELLS_AN_ENTRY", per_entry)
        monkeypatch.setattr(postings, "_FEW_ROWS", few)
        monkeypatch.setattr(postings, "_MANY_COLUMNS", 0)
        assert [own.tolist() for own in best_products(rows, index, most)] == expected


@pytest.mark.parametrize("sizes", [[], [1], [3], [2, 1, 40, 5]])
@pytest.mark.parametrize("most", [1, 7, 600])
def test_the_best_products_of_requests_of_several_parts(monkeypatch, sizes, most):
    begins = starts_of(sizes).astype(int)
    rows, index = matrix(int(begins[-1]), 30, 6, density=0.05), matrix(30, 500, 7, density=0.1)
    every = [
        (rows[begin:end] @ index).toarray().max(axis=0) for begin, end in itertools.pairwise(begins)
    ]
    for cells, per_entry in ((1 << 18, 999), (1, 999), (2_000, 999), (1, 0)):
        monkeypatch.setattr(postings, "_CELLS", cells)
        monkeypatch.setattr(postings, "_CELLS_AN_ENTRY", per_entry)
        starts, columns, values = best_products(rows, index, most, begins)
        for i, expected in enumerate(every):
            own = slice(*starts[i : i + 2])
            best = np.argsort(-expected, kind="stable")[: min(most, np.count_nonzero(expected))]
            assert columns[own].tolist() == np.sort(best).tolist()
            np.testing.assert_allclose(values[own], expected[columns[own]], rtol=1e-5)
        assert starts.tolist()[-1:] == [len(columns)] and len(starts) == len(sizes) + 1


@pytest.mark.parametrize("most", [5, 600])
def test_the_best_of_a_product_ascend_and_are_positive(most):
    found = matrix(4, 50, 8)
    found.data[::3] *= -1
    found.sort_indices()
    starts, columns, values = pooled(found, most)
    for row, line in enumerate(found.toarray()):
        own = slice(*starts[row : row + 2])
        order = np.argsort(-line, kind="stable")[:most]
        assert columns[own].tolist() == sorted(order[line[order] > 0].tolist())
        assert values[own].tolist() == line[columns[own]].tolist()


def test_entries_are_what_slicing_answers():
    items = matrix(20, 9, 9)
    lines = np.array([3, 3, 0, 19])
    found, sliced = entries(items, lines), items[lines]
    assert found.index.tolist() == sliced.indices.tolist()
    assert found.data.tolist() == sliced.data.tolist()
    assert found.sizes.tolist() == np.diff(sliced.indptr).tolist()
    assert entries(items, lines[:0]).index.tolist() == []


def test_segments():
    assert segments(np.array([0, 2, 2, 3])).tolist() == [0, 0, 2]
    assert segments(np.array([0, 2])).tolist() == [0, 0]
    # The first may begin anywhere.
    assert segments(np.array([3, 4, 6])).tolist() == [0, 1, 1]
    assert segments(np.array([3, 5])).tolist() == [0, 0]


@pytest.mark.parametrize("cells", [0, 1_000], ids=["in order", "by a table"])
class TestKeyed:
    @pytest.fixture(autouse=True)
    def how(self, monkeypatch, cells):
        monkeypatch.setattr(keyed, "_CELLS_A_KEY", cells)

    def test_values_under_keys(self):
        keys = np.array([5, 1, 5, 0])
        values = np.array([0.5, 2, 1, 3], dtype=np.float32)
        assert [own.tolist() for own in keyed.counted(keys, 7)] == [[0, 1, 5], [1, 1, 2]]
        assert [own.tolist() for own in keyed.summed(keys, values, 7)] == [[0, 1, 5], [3, 2, 1.5]]
        assert [own.tolist() for own in keyed.highest(keys, values, 7)] == [[0, 1, 5], [3, 2, 1]]
        wanted = np.array([1, 2, 5])  # and what was used is left clean
        assert keyed.scattered(keys[1:2], values[1:2], wanted, 7).tolist() == [2, 0, 0]
        some = keys[1:3], values[1:3]
        assert keyed.valued(*some, wanted[::-1], 7).tolist() == [1, 0, 2]

    @pytest.mark.parametrize("size", [1_000, 10**9, 10**18])
    def test_many_values_under_keys(self, size):
        rng = np.random.default_rng(3)
        keys = rng.integers(0, size, 200)[rng.integers(0, 60, 500)]
        values = rng.random(500, dtype=np.float32) + np.float32(0.01)
        there, which = np.unique(keys, return_inverse=True)
        for by, found in ((np.add, keyed.summed), (np.maximum, keyed.highest)):
            expected = np.zeros(len(there), dtype=np.float64)
            by.at(expected, which, values)
            own, made = found(keys, values, size)
            np.testing.assert_array_equal(own, there)
            np.testing.assert_array_equal(made, expected)

    @pytest.mark.parametrize("size", [0, 7])
    def test_no_keys(self, size):
        keys, values = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.float32)
        for found in (keyed.counted(keys, size), keyed.summed(keys, values, size)):
            assert [len(own) for own in found] == [0, 0]
        sums = keyed.summed(keys, values, size)[1]
        assert sums.dtype == np.float64
        assert keyed.highest(keys, values, size)[1].dtype == np.float32
        assert keyed.valued(keys, values, np.array([3]), 7).tolist() == [0]


class TestSortingEachSegment:
    @pytest.mark.parametrize("most", [0, 3, 40, 300])
    @pytest.mark.parametrize("n", [0, 1, 2, 200])
    def test_each_is_as_numpy_sorts_it(self, n, most):
        rng = np.random.default_rng(n + most)
        sizes = rng.integers(0, most + 1, n)
        starts = np.concatenate([[0], sizes.cumsum()]).astype(np.intp)
        keys = rng.integers(-(10**15), 10**15, starts[-1])
        expected = [np.sort(own) for own in np.split(keys, starts[1:-1])] if n else []
        sort_each(keys, starts)
        assert np.array_equal(keys, np.concatenate([np.zeros(0, np.int64), *expected]))

    def test_segments_of_one_length(self):
        keys = np.arange(12)[::-1].copy()
        sort_each(keys, np.arange(0, 13, 4))
        assert keys.tolist() == [8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3]
