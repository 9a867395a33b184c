"""Which vectors an inverted file finds, what it compares, and what becomes of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from cnp_router.training import vector_index
from cnp_router.training.vector_index import VectorIndex, unit_vectors


@pytest.fixture(autouse=True)
def little_is_much(monkeypatch):
    monkeypatch.setattr(vector_index, "EXACT", 200)
    monkeypatch.setattr(vector_index, "LOOKED_AT", 400)


def clustered(n, seed=0, size=16):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(30, size))
    around = centres[rng.integers(30, size=n)] + 0.6 * rng.normal(size=(n, size))
    return unit_vectors(around.astype(np.float32))


def cell_of(index):
    """Return the cell of each vector, -1 of one in none."""
    cells = np.full(index.cells.shape[1], -1)
    rows, vectors = index.cells.nonzero()
    assert len(set(vectors.tolist())) == len(vectors)
    cells[vectors] = rows
    return cells


def test_it_finds_most_of_what_is_nearest():
    vectors, requests = clustered(4_000), clustered(40, seed=1)
    found = VectorIndex.of(vectors).products(requests, vectors).matrix()
    likeness = requests @ vectors.T
    shares = []
    for row, true in enumerate(np.argsort(-likeness, axis=1)[:, :40]):
        own = found.indices[slice(*found.indptr[row : row + 2])]
        shares.append(np.isin(true, own).mean())
    assert np.mean(shares) >= 0.95


def test_what_it_says_is_exact_and_bounded():
    vectors, requests = clustered(4_000), clustered(40, seed=1)
    found = VectorIndex.of(vectors).products(requests, vectors).matrix()
    assert found.shape == (40, 4_000)
    assert np.diff(found.indptr).max() <= vector_index.LOOKED_AT
    rows = np.repeat(np.arange(40), np.diff(found.indptr))
    exact = (requests @ vectors.T)[rows, found.indices]
    np.testing.assert_allclose(found.data, exact, rtol=0, atol=1e-6)


def test_one_by_one_is_all_at_once_bit_for_bit():
    vectors, requests = clustered(1_000), clustered(9, seed=1)
    index = VectorIndex.of(vectors)
    alone = [index.products(requests[[i]], vectors).matrix() for i in range(9)]
    together = index.products(requests, vectors).matrix()
    assert (sparse.csr_array(sparse.vstack(alone)) != together).nnz == 0
    assert index.products(requests[:0], vectors).shape == (0, 1_000)


def test_each_vector_is_in_the_nearest_cell_and_one_of_zeros_in_none():
    vectors = clustered(1_000)
    vectors[[3, 500]] = 0
    index = VectorIndex.of(vectors)
    expected = (vectors @ index.centres.T).argmax(axis=1)
    expected[[3, 500]] = -1
    assert cell_of(index).tolist() == expected.tolist()
    assert not index.products(vectors[[3]], vectors).data.any()


def test_the_same_vectors_get_the_same_index():
    one, other = VectorIndex.of(clustered(500)), VectorIndex.of(clustered(500))
    assert np.array_equal(one.centres, other.centres)
    assert (one.cells != other.cells).nnz == 0


def test_many_equal_vectors_are_bounded_too():
    vectors = np.repeat(clustered(1), 2_000, axis=0)
    found = VectorIndex.of(vectors).products(vectors[:1], vectors).matrix()
    assert found.nnz == vector_index.LOOKED_AT


@pytest.mark.parametrize("vectors", [clustered(200), np.zeros((0, 4), np.float32)])
def test_of_few_vectors_there_is_none(vectors):
    index = VectorIndex.of(vectors)
    assert index.is_exact
    assert index.centres.shape == (0, vectors.shape[1])
    assert index.cells.shape == (0, len(vectors))
    assert VectorIndex.of(np.zeros((1_000, 0), np.float32)).is_exact


def test_new_vectors_come_into_the_cells_that_are_there():
    vectors = clustered(1_000)
    before = VectorIndex.of(vectors[:900])
    index = before.updated(vectors, np.arange(900, 1_000))
    assert index.centres is before.centres
    assert cell_of(index)[:900].tolist() == cell_of(before).tolist()
    expected = (vectors[900:] @ index.centres.T).argmax(axis=1)
    assert cell_of(index)[900:].tolist() == expected.tolist()


def test_with_many_more_vectors_it_is_made_anew():
    vectors = clustered(2_500)
    for n_before in (100, 500):
        index = VectorIndex.of(vectors[:n_before]).updated(vectors, np.arange(n_before, 2_500))
        assert np.array_equal(index.centres, VectorIndex.of(vectors).centres)
    assert index.updated(vectors[:100], np.zeros(0, dtype=int)).is_exact


def test_some_of_the_vectors():
    vectors = clustered(1_000)
    whole, rows = VectorIndex.of(vectors), np.arange(0, 1_000, 3)
    assert cell_of(whole.taken(rows)).tolist() == cell_of(whole)[rows].tolist()
    few = whole.taken(rows[:200])
    assert few.is_exact
    few.check({"vectors": 200, "dimensions": 16})


def test_what_is_damaged_is_refused():
    index = VectorIndex.of(clustered(300))
    sizes = {"vectors": 300, "dimensions": 16}
    index.check(sizes)
    for wrong in ({"vectors": 299}, {"dimensions": 15}):
        with pytest.raises(ValueError, match="VectorIndex"):
            index.check({**sizes, **wrong})
    with pytest.raises(ValueError, match="centres"):
        VectorIndex(index.centres[0], index.cells).check(sizes)
    with pytest.raises(ValueError, match="cells"):
        VectorIndex(index.centres[1:], index.cells).check(sizes)
