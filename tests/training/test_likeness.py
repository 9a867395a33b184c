from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from cnp_router.training import likeness
from cnp_router.training.likeness import most_like


def texts(n_rows=300, n_terms=400, seed=0):
    """Rows of length 1 whose terms are as rare as words are."""
    rng = np.random.default_rng(seed)
    often = 1 / (np.arange(n_terms) + 2.0)
    said = rng.random((n_rows, n_terms)) < np.minimum(0.9, 6 * often)
    rows = said * np.log(1 / often) * rng.uniform(0.5, 1.5, (n_rows, n_terms))
    return sparse.csr_array((rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float32))


def exact(rows, items, itself, most):
    products = (rows @ items.T).toarray()
    known = itself >= 0
    products[np.flatnonzero(known), itself[known]] = 0
    floor = np.sort(products, axis=1)[:, -most]
    return np.where(products >= floor[:, None], products, 0)


@pytest.mark.parametrize("most", [1, 10])
@pytest.mark.parametrize("block", [7, 1000])
def test_where_all_is_looked_at_it_is_exact(monkeypatch, most, block):
    monkeypatch.setattr(likeness, "CHAMPIONS", 300)
    monkeypatch.setattr(likeness, "TERMS", 400)
    monkeypatch.setattr(likeness, "POOL", 300)
    rows, items = texts(), texts()[100:200]
    itself = np.full(300, -1)
    itself[100:200] = np.arange(100)
    found = most_like(rows, items, itself, most, block=block)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), exact(rows, items, itself, most), atol=1e-6)


def test_few_champions_find_most_of_them(monkeypatch):
    monkeypatch.setattr(likeness, "CHAMPIONS", 30)
    monkeypatch.setattr(likeness, "TERMS", 30)
    rows, itself = texts(), np.arange(300)
    found = most_like(rows, rows, itself, 10)
    wanted = exact(rows, rows, itself, 10)
    assert (np.diff(found.indptr) == 10).all()
    assert (wanted[found.toarray() > 0] > 0).mean() > 0.8
    products = (rows @ rows.T).toarray()
    np.testing.assert_allclose(found.data, products[found.nonzero()], atol=1e-6)
    assert not found.diagonal().any()


def test_who_has_no_word_in_common_with_any_is_like_none():
    rows = sparse.csr_array(np.array([[1.0, 0, 0], [0, 0, 0], [0, 0.6, 0.8]], dtype=np.float32))
    found = most_like(rows, rows, np.arange(3), 2)
    assert found.shape == (3, 3) and found.nnz == 0


@pytest.mark.parametrize(("n_rows", "n_items"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_compare(n_rows, n_items):
    rows, items = (sparse.csr_array((n, 5), dtype=np.float32) for n in (n_rows, n_items))
    found = most_like(rows, items, np.full(n_rows, -1), 2)
    assert found.shape == (n_rows, n_items) and found.nnz == 0
