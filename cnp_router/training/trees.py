"""Boosted trees as arrays: what a saved ranker needs to answer, and nothing that runs code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.parts import Part

__all__ = ["BoostedTrees"]


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

    def log_odds(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the trees: X is of float32, the answer of shape (n_rows,)."""
        features, thresholds, children, roots, values = self._flat
        entries = X.ravel()
        rows = np.arange(len(X)) * X.shape[1]
        node = roots[:, None]  # the same for every row, as long as they are at the root
        for _ in range(self.depth):
            goes_right = entries.take(features.take(node) + rows) > thresholds.take(node)
            node = children.take(node + goes_right)
        total = values.take(node).sum(axis=0) + self.baseline
        return np.repeat(total, len(X)) if self.depth == 0 else np.asarray(total)

    @cached_property
    def _flat(self) -> tuple[NDArray[Any], ...]:
        """All trees' nodes in one sequence, so that one gather serves a whole level.

        Each has two places there, one for each child.
        """
        n_trees, n_nodes = self.feature.shape
        roots = 2 * n_nodes * np.arange(n_trees)
        children = 2 * np.stack([self.left, self.right], axis=2, dtype=np.intp)
        return (
            self.feature.astype(np.intp).repeat(2),
            self.threshold.repeat(2),
            (children + roots[:, None, None]).ravel(),
            roots,
            self.value.repeat(2),
        )
