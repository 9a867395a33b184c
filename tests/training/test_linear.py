from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from cnp_router.training.linear import (
    Gaussian,
    Logistic,
    correction,
    level,
    maximum_a_posteriori,
    pair_products,
    ridge_weights,
    rising,
    sigmoid,
    times_vector,
    updated_weights,
)


def problem(seed=0, n_rows=60, n_terms=90, n_labels=11):
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, n_terms)) * (rng.random((n_rows, n_terms)) < 0.1)
    Y = rng.random((n_rows, n_labels)) < 0.2
    return sparse.csr_array(X.astype(np.float32)), sparse.csr_array(Y.astype(np.float32))


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


@pytest.mark.parametrize("strides", [((4, 4), (0,)), ((0, 0), (4,))])
def test_products_of_nothing_are_0_whatever_stands_behind_it(strides):
    """Arrays without elements have such strides after a fit, others after they were loaded."""
    garbage = np.full(4, np.nan, dtype=np.float32)
    of_matrix, of_vector = strides
    matrix = np.lib.stride_tricks.as_strided(garbage, (2, 0), of_matrix)
    vector = np.lib.stride_tricks.as_strided(garbage, (0,), of_vector)
    rows = np.lib.stride_tricks.as_strided(garbage, (3, 0), of_vector * 2)
    np.testing.assert_array_equal(times_vector(matrix, vector), np.zeros(2, dtype=np.float32))
    np.testing.assert_array_equal(pair_products(matrix, rows), np.zeros((2, 3)))


def test_after_more_rows_only_their_terms_and_labels_are_corrected():
    X, Y = problem(n_rows=80)
    before = ridge_weights(X[:79], Y[:79])
    energy = np.asarray(X[:79].power(2).sum(axis=0)).ravel()
    added = correction(before, energy, X[79:], Y[79:]).toarray()
    now = updated_weights(before, energy, X[79:], Y[79:]).toarray()
    np.testing.assert_allclose(now, before.toarray() + added, atol=1e-6)
    silent = np.setdiff1d(np.arange(90), X[79:].indices)
    assert added.any() and not added[silent].any()
    error = (Y[79:] - X[79:] @ before).toarray()
    assert not added[:, np.abs(error[0]) < 0.02].any()
    assert np.abs(Y[79:].toarray() - X[79:] @ now).sum() < np.abs(error).sum()


def rows(n=300, seed=0, weights=(2.0, -1.0, 0.5), intercept=-0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal([0, 3, -1], [1, 2, 0.3], (n, 3))
    return X, rng.random(n) < sigmoid(X @ np.array(weights) + intercept)


def gaussian(mean=(1.0, -2.0, 0.5, 0.25), precision=1.0, center=(0, 3, -1), scale=(1, 2, 0.3)):
    numbers = (np.array(part, dtype=float) for part in (center, scale, mean))
    return Gaussian(*numbers, np.eye(4) * precision)


class TestLogisticWithAPrior:
    def test_without_rows_it_is_the_mean_of_the_prior(self):
        prior = gaussian()
        none = Logistic.fit(np.zeros((0, 3)), np.zeros(0, dtype=bool), prior=prior)
        X, _ = rows()
        np.testing.assert_allclose(none.log_odds(X), prior.standardised(X) @ prior.mean)
        np.testing.assert_allclose(none.log_odds(X), prior.most_probable.log_odds(X))

    @pytest.mark.parametrize("precision", [0.1, 1.0, 30.0])
    def test_around_nothing_it_is_the_ridge_of_scikit_learn(self, precision):
        """Which does not penalise the intercept: neither does this prior."""
        X, y = rows()
        prior = gaussian(mean=(0, 0, 0, 0), precision=precision)
        prior.precision[-1, -1] = 0
        found = Logistic.fit(X, y, prior=prior)
        model = LogisticRegression(C=1 / precision, tol=1e-10, max_iter=1000)
        model.fit(prior.standardised(X)[:, :-1], y)
        expected = model.decision_function(prior.standardised(X)[:, :-1])
        np.testing.assert_allclose(found.log_odds(X), expected, atol=1e-4)

    def test_around_a_mean_it_is_the_ridge_of_what_the_mean_leaves(self):
        """The least of the loss: no step in any direction lowers it."""
        X, y = rows()
        prior = gaussian()
        Z, one = prior.standardised(X), np.ones(len(y))
        w = maximum_a_posteriori(Z, y, one, prior)
        gradient = Z.T @ (sigmoid(Z @ w) - y) + prior.precision @ (w - prior.mean)
        np.testing.assert_allclose(gradient, 0, atol=1e-3)

    def test_many_rows_outweigh_it(self):
        wrong = gaussian(mean=(-3.0, 3.0, -3.0, 3.0))
        errors = []
        for n in (20, 300, 30_000):
            X, y = rows(n)
            found = Logistic.fit(X, y, prior=wrong)
            errors.append(float(np.abs(found.coefficients - [2.0, -1.0, 0.5]).max()))
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 0.15

    def test_a_sure_prior_outweighs_few_rows(self):
        X, y = rows(20)
        sure = gaussian(precision=1e6)
        found = Logistic.fit(X, y, prior=sure)
        np.testing.assert_allclose(found.coefficients, sure.most_probable.coefficients, atol=1e-3)

    @pytest.mark.parametrize("label", [True, False])
    def test_a_single_class_moves_it_and_no_more(self, label):
        X, _ = rows(10)
        prior = gaussian()
        found = Logistic.fit(X, np.full(10, label), prior=prior)
        assert np.isfinite([*found.coefficients, found.intercept]).all()
        moved = found.log_odds(X) - prior.most_probable.log_odds(X)
        assert (moved.mean() > 0) == label

    def test_weights_count_as_so_many_rows(self):
        X, y = rows(60)
        prior = gaussian()
        Z = prior.standardised(X)
        twice = maximum_a_posteriori(np.vstack([Z, Z]), np.tile(y, 2), np.ones(120), prior)
        np.testing.assert_allclose(
            maximum_a_posteriori(Z, y, np.full(60, 2.0), prior), twice, atol=1e-6
        )

    def test_rows_far_away_do_not_throw_it_off(self):
        """Newton's method alone overshoots there."""
        X, y = rows(50)
        found = Logistic.fit(X * 1e4, y, prior=gaussian(precision=1e-6))
        assert np.isfinite([*found.coefficients, found.intercept]).all()


class TestRising:
    def test_where_all_rise_it_is_the_most_probable(self):
        X, y = rows(weights=(2.0, 1.0, 0.5), intercept=-3)
        prior = gaussian(mean=(1.0, 1.0, 1.0, 0.0))
        Z, one = prior.standardised(X), np.ones(len(y))
        np.testing.assert_allclose(
            rising(Z, y, one, prior), maximum_a_posteriori(Z, y, one, prior), atol=1e-3
        )

    def test_what_would_fall_counts_nothing(self):
        X, y = rows(weights=(2.0, -1.0, 0.5))
        prior = gaussian(mean=(0, 0, 0, 0))
        found = rising(prior.standardised(X), y, np.ones(len(y)), prior)
        assert found[1] == 0
        assert found[0] > 1
        assert found[3] < 0  # the intercept is free

    def test_who_is_free_may_fall(self):
        X, y = rows(weights=(2.0, -1.0, 0.5))
        prior = gaussian(mean=(0, 0, 0, 0))
        found = rising(prior.standardised(X), y, np.ones(len(y)), prior, free=(1, 3))
        assert found[1] < 0 <= found[[0, 2]].min()

    def test_without_rows_it_is_the_mean_where_that_rises(self):
        prior = gaussian(mean=(1.0, -2.0, 0.5, -0.25))
        none = rising(np.zeros((0, 4)), np.zeros(0), np.zeros(0), prior)
        np.testing.assert_allclose(none, [1.0, 0.0, 0.5, -0.25], atol=1e-6)


class TestLevel:
    @pytest.mark.parametrize("wanted", [0.05, 0.5, 0.9, 0.99])
    def test_the_mean_is_as_wanted(self, wanted):
        x = np.random.default_rng(0).normal(0, 3, 200)
        assert sigmoid(x + level(x, wanted)).mean() == pytest.approx(wanted, abs=1e-6)

    def test_the_mean_is_weighted(self):
        x, weight = np.zeros(4), np.array([1.0, 0.5, 0.5, 0.4])
        added = level(x, 0.3, weight)
        assert (weight * sigmoid(x + added)).mean() == pytest.approx(0.3, abs=1e-6)

    @pytest.mark.parametrize(("wanted", "end"), [(0.0, -10), (1.0, 10)])
    def test_where_no_number_does_it_is_an_end(self, wanted, end):
        assert level(np.zeros(3), wanted) == pytest.approx(end, abs=1e-6)

    def test_more_than_the_weights_allow_is_an_end(self):
        assert level(np.zeros(3), 0.9, np.full(3, 0.5)) == pytest.approx(10, abs=1e-6)
