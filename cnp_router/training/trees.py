"""Boosted trees as arrays: what a saved ranker needs to answer, and nothing that runs code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.linear import single_class
from cnp_router.training.parts import Part

__all__ = ["BoostedTrees"]

_MOST_BINS = 255  # of a feature
_BINNED_BY = 20_000  # rows
_ROWS = 128  # that go through all trees at once: more fill the cache


@dataclass(frozen=True, eq=False)
class BoostedTrees(Part):
    """An ensemble of binary regression trees whose values add up to a log-odds.

    Arrays are of shape (n_trees, n_nodes). A row goes left where its feature is at most the
    threshold; a leaf is its own child; `depth` is the length of the longest path.
    """

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    value: NDArray[Any]
    baseline: float
    depth: int

    @classmethod
    def fit(
        cls, X: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None, random_state: int
    ) -> BoostedTrees:
        """Fit an ensemble; rows of X, which is of float32, count by their weight, if given."""
        if y.all() or not y.any():
            return cls.constant(single_class(y))
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        model = HistGradientBoostingClassifier(
            learning_rate=0.13,
            max_iter=60,
            max_leaf_nodes=31,
            max_depth=8,
            min_samples_leaf=20,
            max_features=0.4,
            l2_regularization=10.0,
            early_stopping=False,
            random_state=random_state,
        )
        edges = None if weight is None else _edges(X)
        # Its own threads wait for each other after every node: with another process on the machine
        # that made fitting seven times slower.
        with threadpool_limits(1, user_api="openmp"):
            model.fit(X if edges is None else _binned(X, edges), y, sample_weight=weight)
        trees = cls.from_sklearn(model)
        return trees if edges is None else trees._unbinned(edges)

    def _unbinned(self, edges: Sequence[NDArray[Any]]) -> BoostedTrees:
        """Return the trees of the features, where these are those of their bins."""
        width = max(len(own) for own in edges)
        table = np.stack([np.pad(own, (0, width - len(own))) for own in edges])
        place = np.minimum(np.floor(self.threshold).astype(np.intp), width - 1)
        is_leaf = self.left == np.arange(self.left.shape[1])
        threshold = np.where(is_leaf, 0, table[self.feature, place]).astype(np.float32)
        return replace(self, threshold=threshold)

    @classmethod
    def from_sklearn(cls, model: Any) -> BoostedTrees:
        """Read the trees of a fitted binary `HistGradientBoostingClassifier`.

        scikit-learn has no public view of these trees; the tests compare the answers.
        """
        trees = [stage[0].nodes for stage in model._predictors]
        shape = (len(trees), max(len(nodes) for nodes in trees))
        feature, left, right = (np.zeros(shape, dtype=np.int16) for _ in range(3))
        threshold, value = (np.zeros(shape, dtype=np.float32) for _ in range(2))
        for i, nodes in enumerate(trees):
            itself = np.arange(len(nodes))
            leaf = nodes["is_leaf"].astype(bool)
            feature[i, : len(nodes)] = np.where(leaf, 0, nodes["feature_idx"])
            # Downwards, so that a float32 feature compares as its float64 threshold does.
            exact = np.where(leaf, 0, nodes["num_threshold"])
            rounded = exact.astype(np.float32)
            over = rounded > exact
            threshold[i, : len(nodes)] = np.where(over, np.nextafter(rounded, -np.inf), rounded)
            left[i, : len(nodes)] = np.where(leaf, itself, nodes["left"])
            right[i, : len(nodes)] = np.where(leaf, itself, nodes["right"])
            value[i, : len(nodes)] = nodes["value"]
        depth = max(int(nodes["depth"].max()) for nodes in trees)
        baseline = float(np.ravel(model._baseline_prediction)[0])
        return cls(feature, threshold, left, right, value, baseline, depth)

    @classmethod
    def constant(cls, log_odds: float) -> BoostedTrees:
        """Return the ensemble that always answers the same."""
        none = np.zeros((1, 1), dtype=np.int16)
        zero = np.zeros((1, 1), dtype=np.float32)
        return cls(none, zero, none, none, zero, log_odds, 0)

    @classmethod
    def mean(cls, several: Sequence[BoostedTrees]) -> BoostedTrees:
        """Return the ensemble that answers the mean of some others."""
        width = max(trees.feature.shape[1] for trees in several)

        def joined(name: str) -> NDArray[Any]:
            parts = [getattr(trees, name) for trees in several]
            return np.vstack([np.pad(p, ((0, 0), (0, width - p.shape[1]))) for p in parts])

        feature, threshold, left, right, value = map(
            joined, ("feature", "threshold", "left", "right", "value")
        )
        baseline = sum(trees.baseline for trees in several) / len(several)
        depth = max(trees.depth for trees in several)
        return cls(feature, threshold, left, right, value / len(several), baseline, depth)

    def log_odds(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the trees: X is of float32, the answer of shape (n_rows,)."""
        if len(X) == 1:  # numpy would add in another order than beside others
            return self._log_odds(X.repeat(2, axis=0))[:1]
        if len(X) <= _ROWS:
            return self._log_odds(X)
        starts = range(0, len(X), _ROWS)
        return np.concatenate([self.log_odds(X[start : start + _ROWS]) for start in starts])

    def _log_odds(self, X: NDArray[Any]) -> NDArray[Any]:
        features, thresholds, first, roots, values = self._flat
        entries = X.ravel()
        rows = np.arange(len(X)) * X.shape[1]
        node = roots[:, None]  # the same for every row, as long as they are at the root
        for _ in range(self.depth):
            # All of these are places that there are: "wrap" is a tenth faster than looking twice.
            place = features.take(node, mode="wrap") + rows
            goes_right = entries.take(place, mode="wrap") > thresholds.take(node, mode="wrap")
            node = first.take(node, mode="wrap") + goes_right
        total = values.take(node).sum(axis=0) + self.baseline
        return np.repeat(total, len(X)) if self.depth == 0 else np.asarray(total)

    @cached_property
    def _flat(self) -> tuple[NDArray[Any], ...]:
        """All trees' nodes in one sequence, so that one gather serves a whole level.

        The children of a node follow each other, so that the place of the first is enough, and
        nothing is there twice: the smaller the tables, the more of them a cache holds. Level by
        level, since what is near the roots is needed most.
        """
        n_trees = len(self.feature)
        tree, node = np.arange(n_trees), np.zeros(n_trees, dtype=np.intp)
        levels: list[tuple[NDArray[Any], ...]] = []
        begin = 0
        for _ in range(self.depth + 1):
            itself = np.arange(begin, begin + len(node))
            left, right = self.left[tree, node], self.right[tree, node]
            is_leaf = (left == node) & (right == node)
            begin += len(node)
            first = begin + 2 * (np.cumsum(~is_leaf) - 1)
            levels.append(
                (
                    np.where(is_leaf, 0, self.feature[tree, node]).astype(np.intp),
                    np.where(is_leaf, np.inf, self.threshold[tree, node]).astype(np.float32),
                    np.where(is_leaf, itself, first),
                    self.value[tree, node],
                )
            )
            both = np.stack([left, right], axis=1)[~is_leaf].ravel()
            tree, node = tree[~is_leaf].repeat(2), both.astype(np.intp)
        features, thresholds, places, values = map(np.concatenate, zip(*levels, strict=True))
        return features, thresholds, places, np.arange(n_trees), values


def _edges(X: NDArray[Any]) -> list[NDArray[Any]]:
    """Return where the bins of each feature end, ascending: in a bin is what is at most its end.

    scikit-learn finds them by weight, a quantile at a time: that takes longer than the trees.
    """
    sample = np.sort(X[:: max(1, len(X) // _BINNED_BY)], axis=0)
    edges = []
    for column in sample.T:
        values = np.unique(column)
        if len(values) <= _MOST_BINS:
            middle = ((values[:-1].astype(np.float64) + values[1:]) / 2).astype(np.float32)
            edges.append(np.where(middle < values[1:], middle, values[:-1]))
        else:
            edges.append(np.unique(column[np.arange(1, _MOST_BINS) * len(column) // _MOST_BINS]))
    return edges


def _binned(X: NDArray[Any], edges: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return in which bin each value is."""
    binned = np.empty(X.shape, dtype=np.float64, order="F")
    for i, own in enumerate(edges):
        binned[:, i] = np.searchsorted(own, X[:, i])
    return binned
