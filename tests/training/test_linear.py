from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from cnp_router.training.linear import ridge_weights


def problem(seed=0, n_rows=60, n_terms=90, n_labels=11):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n_rows, n_terms), density=0.1, rng=rng, dtype=np.float32)
    Y = sparse.random_array((n_rows, n_labels), density=0.2, rng=rng, dtype=np.float32)
    Y.data[:] = 1
    return sparse.csr_array(X), sparse.csr_array(Y)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("shape", [(60, 90), (90, 30)])
def test_it_is_ridge_regression(alpha, shape):
    X, Y = problem(n_rows=shape[0], n_terms=shape[1])
    weights = ridge_weights(X, Y, alpha=alpha, iterations=200, prune=0).toarray()
    dense, labels = X.toarray().astype(float), Y.toarray().astype(float)
    closed = dense.T @ np.linalg.solve(dense @ dense.T + alpha * np.eye(len(dense)), labels)
    np.testing.assert_allclose(weights, closed, atol=1e-5)
    model = Ridge(alpha=alpha, fit_intercept=False).fit(dense, labels)
    np.testing.assert_allclose(weights, model.coef_.T, atol=1e-5)


@pytest.mark.parametrize("block", [1, 3, 10, 11, 1000])
def test_the_block_size_does_not_matter(block):
    X, Y = problem()
    np.testing.assert_allclose(
        ridge_weights(X, Y, block=block).toarray(), ridge_weights(X, Y).toarray(), atol=1e-5
    )


def test_more_steps_come_closer():
    X, Y = problem()
    exact = ridge_weights(X, Y, iterations=200, prune=0)
    errors = [
        float(abs(ridge_weights(X, Y, iterations=n, prune=0) - exact).max()) for n in (1, 4, 16)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_small_weights_are_dropped():
    X, Y = problem()
    full = ridge_weights(X, Y, prune=0).toarray()
    pruned = ridge_weights(X, Y, prune=0.1)
    assert (np.abs(pruned.data) >= 0.1).all()
    np.testing.assert_array_equal(pruned.toarray(), np.where(np.abs(full) < 0.1, 0, full))


def test_rows_without_words_and_labels_without_rows():
    X, Y = problem()
    X, Y = sparse.lil_array(X), sparse.lil_array(Y)
    X[5] = 0
    Y[:, 3] = 0
    weights = ridge_weights(sparse.csr_array(X), sparse.csr_array(Y)).toarray()
    assert np.isfinite(weights).all()
    assert not weights[:, 3].any()


@pytest.mark.parametrize(("n_rows", "n_terms", "n_labels"), [(5, 4, 0), (5, 0, 3), (1, 1, 1)])
def test_degenerate_shapes(n_rows, n_terms, n_labels):
    X = sparse.csr_array(np.ones((n_rows, n_terms), dtype=np.float32))
    Y = sparse.csr_array(np.ones((n_rows, n_labels), dtype=np.float32))
    weights = ridge_weights(X, Y)
    assert weights.shape == (n_terms, n_labels)
    assert weights.dtype == np.float32


def test_the_matrices_stay_as_they_are():
    X, Y = problem()
    before = X.toarray(), Y.toarray()
    ridge_weights(X, Y)
    np.testing.assert_array_equal(X.toarray(), before[0])
    np.testing.assert_array_equal(Y.toarray(), before[1])
