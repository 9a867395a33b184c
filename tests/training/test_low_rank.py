from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

from cnp_router.exceptions import InputError
from cnp_router.training import linear
from cnp_router.training.linear import ridge_weights
from cnp_router.training.low_rank import (
    Covariance,
    association,
    leading_directions,
)


def problem(seed=0, n_rows=80, n_terms=40, n_labels=12):
    """Rows of three topics: what a label's rows say is said by others, too."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(3, size=n_rows)
    likely = np.where(rng.random((3, n_terms)) < 0.3, 0.4, 0.03)
    X = rng.random((n_rows, n_terms)) * (rng.random((n_rows, n_terms)) < likely[topic])
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    Y = rng.random((n_rows, n_labels)) < np.where(topic[:, None] == np.arange(n_labels) % 3, 0.3, 0)
    return sparse.csr_array(X.astype(np.float32)), sparse.csr_array(Y.astype(np.float32))


@pytest.fixture
def learned():
    X, Y = problem()
    return X, Y, Covariance.of(X, leading_directions(X, rank=6))


@pytest.mark.parametrize("alpha", [0.3, 1.0, 10.0])
def test_with_all_directions_it_is_ridge_regression(alpha):
    X, Y = problem(n_terms=20)
    covariance = Covariance.of(X, leading_directions(X, rank=20))
    found = covariance.weights(association(X, Y), alpha=alpha, prune=0).toarray()
    dense, labels = X.toarray().astype(float), Y.toarray().astype(float)
    closed = np.linalg.solve(dense.T @ dense + alpha * np.eye(20), dense.T @ labels)
    own = association(X, Y).toarray() != 0
    np.testing.assert_allclose(found[own], closed[own], atol=1e-4)
    assert not found[~own].any()


@pytest.mark.parametrize("rank", [0, 1, 3, 8])
def test_it_is_the_inverse_of_low_rank_and_diagonal(rank):
    X, Y = problem()
    covariance = Covariance.of(X, leading_directions(X, rank=rank))
    basis = covariance.basis.astype(float)
    common = basis @ covariance.moments @ basis.T
    squares = (X.toarray().astype(float) ** 2).sum(axis=0)
    rest = np.diag(np.maximum(squares - np.diag(common), 0))
    sums = association(X, Y).toarray()
    wanted = np.linalg.solve(common + rest + np.eye(40), sums) * (sums != 0)
    found = covariance.weights(association(X, Y), prune=0).toarray()
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_more_directions_come_closer():
    X, Y = problem(n_rows=400)
    dense = X.toarray().astype(float)
    closed = np.linalg.solve(dense.T @ dense + np.eye(40), dense.T @ Y.toarray())
    errors = []
    for rank in (1, 8, 40):
        covariance = Covariance.of(X, leading_directions(X, rank=rank))
        found = covariance.weights(association(X, Y), prune=0).toarray()
        own = found != 0
        errors.append(float(np.abs(found - closed)[own].mean()))
    assert errors[0] > errors[1] > errors[2]


def test_parts_add_up_to_the_whole(learned):
    X, Y, whole = learned
    cuts = [slice(0, 25), slice(25, 26), slice(26, 80)]
    parts = [Covariance.of(X[own], whole.basis) for own in cuts]
    # As a process would hand them back.
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    merged = parts[0] + parts[1] + parts[2]
    sums = sum((association(X[own], Y[own]) for own in cuts[1:]), association(X[cuts[0]], Y[:25]))
    np.testing.assert_allclose(merged.moments, whole.moments, atol=1e-5)
    np.testing.assert_allclose(merged.energy, whole.energy, rtol=1e-12)
    np.testing.assert_allclose(
        merged.weights(sparse.csr_array(sums)).toarray(),
        whole.weights(association(X, Y)).toarray(),
        atol=1e-4,
    )


def test_other_directions_do_not_add_up(learned):
    X, _, covariance = learned
    other = Covariance.of(X, leading_directions(X, rank=5))
    with pytest.raises(InputError, match="different directions cannot be added"):
        covariance + other


def test_a_label_is_solved_on_its_own(learned):
    X, Y, covariance = learned
    every = covariance.weights(association(X, Y)).toarray()
    labels = np.array([1, 4, 11])
    few = covariance.weights(association(X, Y[:, labels]))
    assert few.shape == (40, 3)
    np.testing.assert_allclose(few.toarray(), every[:, labels], atol=1e-6)


def test_directions_are_the_same_each_time_and_of_a_sample():
    X, _ = problem(n_rows=500)
    left, right = (leading_directions(X, rank=4, max_rows=100) for _ in range(2))
    np.testing.assert_array_equal(left, right)
    np.testing.assert_allclose(left.T @ left, np.eye(4), atol=1e-5)
    np.testing.assert_allclose(left, leading_directions(X[::5], rank=4), atol=1e-6)


@pytest.mark.parametrize(("n_rows", "n_terms", "n_labels"), [(5, 4, 0), (5, 0, 3), (1, 1, 1)])
def test_degenerate_shapes(n_rows, n_terms, n_labels):
    X = sparse.csr_array(np.ones((n_rows, n_terms), dtype=np.float32))
    Y = sparse.csr_array(np.ones((n_rows, n_labels), dtype=np.float32))
    weights = ridge_weights(X, Y, low_rank=True)
    assert weights.shape == (n_terms, n_labels)
    assert weights.dtype == np.float32


class TestWhichWay:
    def test_what_is_small_is_solved_in_full(self):
        X, Y = problem()
        full = ridge_weights(X, Y, low_rank=False)
        np.testing.assert_array_equal(ridge_weights(X, Y).toarray(), full.toarray())
        assert np.abs(full - ridge_weights(X, Y, low_rank=True)).max() > 0.01

    def test_what_is_large_is_solved_from_sums(self, monkeypatch):
        X, Y = problem()
        monkeypatch.setattr(linear, "MOST_PRODUCTS", X.nnz * Y.shape[1] - 1)
        wanted = ridge_weights(X, Y, low_rank=True)
        np.testing.assert_array_equal(ridge_weights(X, Y).toarray(), wanted.toarray())

    def test_both_rank_the_labels_of_a_topic_first(self):
        X, Y = problem(n_rows=600)
        past, asked = slice(0, 500), slice(500, 600)
        for low_rank in (False, True):
            scores = (X[asked] @ ridge_weights(X[past], Y[past], low_rank=low_rank)).toarray()
            used_scores = scores[Y[asked].toarray() > 0].mean()
            assert used_scores > 1.5 * scores.mean()
