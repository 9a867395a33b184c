from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from cnp_router.training.integrity import check_trees
from cnp_router.training.trees import BoostedTrees, _binned, _edges


def fitted(X, y, **options):
    options = {"max_iter": 15, "early_stopping": False, "random_state": 0, **options}
    return HistGradientBoostingClassifier(**options).fit(X, y)


def problem(n_rows=800, n_features=6, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    if decimals is not None:
        X = X.round(decimals)
    y = X[:, 0] * X[:, 1] + rng.normal(size=n_rows) > 0
    return X, y


@pytest.fixture(scope="module")
def boosted():
    X, y = problem()
    model = fitted(X, y)
    return X, model, BoostedTrees.from_sklearn(model)


def same(model, X):
    np.testing.assert_allclose(
        BoostedTrees.from_sklearn(model).log_odds(X), model.decision_function(X), atol=1e-5
    )


@pytest.mark.parametrize("decimals", [None, 0, 1])
@pytest.mark.parametrize("options", [{}, {"max_leaf_nodes": None, "min_samples_leaf": 2}])
def test_it_answers_as_scikit_learn(decimals, options):
    X, y = problem(decimals=decimals)
    model = fitted(X, y, **options)
    same(model, X)
    same(model, problem(seed=1)[0])


def test_many_bins():
    X, y = problem(n_rows=3000, n_features=3)
    same(fitted(X, y, max_bins=255, max_leaf_nodes=200, min_samples_leaf=1), X)


def test_values_at_the_thresholds_and_just_beside_them(boosted):
    X, model, trees = boosted
    exact = [
        (node["feature_idx"], node["num_threshold"])
        for stage in model._predictors
        for node in stage[0].nodes
        if not node["is_leaf"]
    ]
    rows = []
    for feature, threshold in exact:
        near = np.float32(threshold)
        for value in (
            near,
            np.nextafter(near, np.float32(9e9)),
            np.nextafter(near, np.float32(-9e9)),
        ):
            row = X[len(rows) % len(X)].copy()
            row[feature] = value
            rows.append(row)
    at = np.array(rows)
    np.testing.assert_allclose(trees.log_odds(at), model.decision_function(at), atol=1e-5)


def test_a_threshold_that_is_a_value_of_the_data():
    # Of two neighbours in float32, the midpoint in float64 rounds to one of them.
    low = np.float32(1)
    high = np.nextafter(low, np.float32(2))
    for first, second in ((low, high), (high, np.nextafter(high, np.float32(2)))):
        X = np.repeat(np.array([[first], [second]]), 100, axis=0)
        same(fitted(X, np.repeat([False, True], 100)), X)


def test_extreme_values(boosted):
    _, model, trees = boosted
    X = np.array([[1e38, -1e38, 0, -0.0, np.inf, -np.inf]], dtype=np.float32)
    np.testing.assert_allclose(trees.log_odds(X), model.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("decimals", [None, 1])
def test_weighted_rows_count_as_often(decimals):
    X, y = problem(n_rows=3000, decimals=decimals)
    some = np.random.default_rng(1).random(3000) < 0.5
    often = np.concatenate([np.arange(3000), np.flatnonzero(some)])
    twice = BoostedTrees.fit(X[often], y[often], None, 0).log_odds(X)
    weighted = BoostedTrees.fit(X, y, 1.0 + some, 0)
    assert np.corrcoef(twice, weighted.log_odds(X))[0, 1] > 0.95
    check_trees(weighted, n_features=6)


def test_bins_answer_as_scikit_learn_does_on_them():
    X, y = problem(n_rows=2000)
    X[:, 1] = X[:, 1].round(1)
    X[:, 2] = 0
    edges = _edges(X)
    assert [len(own) for own in edges][2] == 0
    assert max(len(own) for own in edges) == 254
    binned = _binned(X, edges)
    model = fitted(binned, y)
    trees = BoostedTrees.from_sklearn(model)._unbinned(edges)
    np.testing.assert_allclose(trees.log_odds(X), model.decision_function(binned), atol=1e-5)
    new = problem(n_rows=500, seed=5)[0]
    np.testing.assert_allclose(
        trees.log_odds(new), model.decision_function(_binned(new, edges)), atol=1e-5
    )


def test_the_mean_of_several(boosted):
    X, _, trees = boosted
    other = BoostedTrees.from_sklearn(fitted(*problem(seed=3), max_leaf_nodes=5))
    constant = BoostedTrees.constant(-2.0)
    mean = BoostedTrees.mean([trees, other, constant])
    expected = (trees.log_odds(X) + other.log_odds(X) - 2) / 3
    np.testing.assert_allclose(mean.log_odds(X), expected, atol=1e-6)


def test_no_rows(boosted):
    assert boosted[2].log_odds(np.zeros((0, 6), dtype=np.float32)).shape == (0,)


def test_one_row_at_a_time(boosted):
    X, _, trees = boosted
    alone = np.concatenate([trees.log_odds(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(alone, trees.log_odds(X[:20]), atol=1e-6)
    np.testing.assert_allclose(trees.log_odds(np.asfortranarray(X[:20])), alone, atol=1e-6)


def test_state_round_trip(boosted):
    X, _, trees = boosted
    again = BoostedTrees.from_state(trees.state())
    np.testing.assert_array_equal(again.log_odds(X), trees.log_odds(X))


def test_constant():
    trees = BoostedTrees.constant(-1.5)
    X = np.zeros((3, 4), dtype=np.float32)
    assert trees.log_odds(X).tolist() == [-1.5] * 3
    check_trees(BoostedTrees.from_state(trees.state()), n_features=4)


@pytest.mark.parametrize("n", [1, 2, 3, 129, 257])
def test_a_row_has_the_same_log_odds_beside_others(boosted, n):
    trees = BoostedTrees.mean([boosted[2]] * 7)
    X = np.random.default_rng(0).normal(size=(n, 6)).astype(np.float32)
    alone = np.concatenate([trees.log_odds(X[[i]]) for i in range(n)])
    np.testing.assert_array_equal(trees.log_odds(X), alone)


def test_sound_trees_pass_the_check(boosted):
    check_trees(boosted[2], n_features=6)


def changed(part, place, value):
    part = part.copy()
    part[place] = value
    return part


BROKEN = {
    "a feature too many": lambda t: {"feature": changed(t.feature, (0, 0), 6)},
    "a feature below 0": lambda t: {"feature": changed(t.feature, (0, 0), -1)},
    "a child that is not there": lambda t: {"left": changed(t.left, (0, 0), t.left.shape[1])},
    "a child below 0": lambda t: {"right": changed(t.right, (1, 0), -1)},
    "a circle": lambda t: {"left": changed(t.left, (0, t.left[0, 0]), 0)},
    "a node that is one of its children": lambda t: {"left": changed(t.left, (0, 0), 0)},
    "a path that is cut": lambda t: {"depth": t.depth - 1},
    "a value that is NaN": lambda t: {"value": changed(t.value, (0, 1), np.nan)},
    "a threshold that is NaN": lambda t: {"threshold": changed(t.threshold, (0, 0), np.nan)},
    "an infinite baseline": lambda t: {"baseline": np.inf},
    "shapes that differ": lambda t: {"value": t.value[:, :-1]},
    "one dimension": lambda t: {"value": t.value.ravel()},
    "features in fractions": lambda t: {"feature": t.feature.astype(float)},
    "no trees": lambda t: {
        name: getattr(t, name)[:0] for name in ("feature", "threshold", "left", "right", "value")
    },
}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_check_finds(boosted, fault):
    trees = boosted[2]
    with pytest.raises(ValueError, match=r"tree|finite"):
        check_trees(replace(trees, **BROKEN[fault](trees)), n_features=6)
