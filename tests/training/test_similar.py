from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.training import fit_router
from cnp_router.training.views import similar
from cnp_router.training.views.similar import N_SIMILAR, SimilarView


def corpus(n_apis=120, n_terms=200, seed=0):
    rng = np.random.default_rng(seed)
    words = rng.random((n_apis, n_terms)) * (rng.random((n_apis, n_terms)) < 0.1)
    words[-1] = 0  # says nothing
    words /= np.maximum(np.linalg.norm(words, axis=1, keepdims=True), 1e-9)
    rows = sparse.csr_array(words.astype(np.float32))
    labels = np.flatnonzero(rng.random(n_apis) < 0.6)
    return SimpleNamespace(specifications=SimpleNamespace(word_rows=rows), labels=labels)


def test_a_large_catalog_is_compared_as_a_small_one(monkeypatch):
    """Where an index holds all, what it proposes is what all comparisons find."""
    world, rows = corpus(), np.arange(120)
    exact = similar._most_similar(world, rows)
    monkeypatch.setattr(similar, "EXACT", 10)
    found = similar._most_similar(world, rows)
    np.testing.assert_allclose(found.toarray(), exact.toarray(), atol=1e-6)
    assert found.dtype == exact.dtype == np.float32


def test_a_few_rows_of_a_large_catalog_are_compared_with_all(monkeypatch):
    world, rows = corpus(), np.array([3, 50, 119])
    exact = similar._most_similar(world, np.arange(120)).toarray()[rows]
    monkeypatch.setattr(similar, "EXACT", 30)
    monkeypatch.setattr(similar, "most_like", None)
    np.testing.assert_allclose(similar._most_similar(world, rows).toarray(), exact, atol=1e-6)


def test_those_that_are_as_like_as_the_last_are_there_whichever_came_first():
    catalog = Catalog([*(Api(f"a{n}", "Mail", "Sends mail.") for n in range(14)), Api("z", "Maps")])
    past = [Mashup(f"m{n}", f"mail number {n}", (f"a{n}",)) for n in range(13)]
    for first, then in ((past[:11], past[11:]), (past[2:], past[:2])):
        router = fit_router(catalog, History(first))
        router.observe(then)
        weights = router.views[SimilarView].weights.toarray()
        assert (weights > 0).sum(axis=1).tolist() == [12] * 13 + [13, 0]
        whole = similar._most_similar(router.views.corpus, np.arange(15))
        assert np.array_equal(weights, whole.toarray())
    assert N_SIMILAR < 12


@pytest.mark.parametrize("seed", range(3))
def test_the_least_of_each_row(seed):
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 4, (20, 6)).astype(np.float32)
    dense[[0, 7, 19]] = 0
    wanted = np.where(dense > 0, dense, np.inf).argmin(axis=1)
    wanted[~dense.any(axis=1)] = -1
    np.testing.assert_array_equal(similar._least(sparse.csr_array(dense)), wanted)
    assert similar._least(sparse.csr_array((2, 0))).tolist() == [-1, -1]
