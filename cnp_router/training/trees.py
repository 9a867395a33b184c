"""Boosted trees as arrays: what a saved ranker needs to answer, and nothing that runs code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoostedTrees"]


@dataclass(frozen=True)
class BoostedTrees:
    """An ensemble of binary regression trees whose values add up to a log-odds.

    Parameters
    ----------
    feature : ndarray of shape (n_trees, n_nodes), int
    threshold : ndarray of shape (n_trees, n_nodes), float32
        A row goes left where its feature is at most the threshold.
    left, right : ndarray of shape (n_trees, n_nodes), int
        Children; a leaf is its own child.
    value : ndarray of shape (n_trees, n_nodes), float32
    baseline : float
    depth : int
        Length of the longest path.
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
        feature = np.zeros(shape, dtype=np.int32)
        threshold = np.zeros(shape, dtype=np.float32)
        left = np.zeros(shape, dtype=np.int32)
        right = np.zeros(shape, dtype=np.int32)
        value = np.zeros(shape, dtype=np.float32)
        for i, nodes in enumerate(trees):
            itself = np.arange(len(nodes))
            leaf = nodes["is_leaf"].astype(bool)
            feature[i, : len(nodes)] = np.where(leaf, 0, nodes["feature_idx"])
            # Downwards, so that a float32 feature compares as its float64 threshold does.
            rounded = np.where(leaf, 0, nodes["num_threshold"]).astype(np.float32)
            over = rounded > np.where(leaf, 0, nodes["num_threshold"])
            threshold[i, : len(nodes)] = np.where(over, np.nextafter(rounded, -np.inf), rounded)
            left[i, : len(nodes)] = np.where(leaf, itself, nodes["left"])
            right[i, : len(nodes)] = np.where(leaf, itself, nodes["right"])
            value[i, : len(nodes)] = nodes["value"]
        depth = max(int(nodes["depth"].max()) for nodes in trees)
        baseline = float(np.ravel(model._baseline_prediction)[0])
        return cls(feature, threshold, left, right, value, baseline, depth)

    @classmethod
    def constant(cls, log_odds: float) -> BoostedTrees:
        """Return the ensemble that always answers the same.

        Examples
        --------
        >>> BoostedTrees.constant(0.5).log_odds(np.zeros((2, 3), dtype=np.float32)).tolist()
        [0.5, 0.5]
        """
        none = np.zeros((1, 1), dtype=np.int32)
        zero = np.zeros((1, 1), dtype=np.float32)
        return cls(none, zero, none, none, zero, log_odds, 0)

    def log_odds(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the trees.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features), float32

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        features, thresholds, children, roots, values = self._flat
        entries = X.ravel()
        rows = np.arange(len(X)) * X.shape[1]
        node = np.repeat(roots[:, None], len(X), axis=1)
        for _ in range(self.depth):
            goes_right = entries[features[node] + rows] > thresholds[node]
            node = children[2 * node + goes_right]
        return np.asarray(values[node].sum(axis=0) + self.baseline)

    @cached_property
    def _flat(self) -> tuple[NDArray[Any], ...]:
        """All trees' nodes numbered in one sequence, so that one gather serves a whole level."""
        n_trees, n_nodes = self.feature.shape
        roots = np.arange(n_trees) * n_nodes
        children = np.stack([self.left, self.right], axis=2) + roots[:, None, None]
        return (
            self.feature.ravel().astype(np.intp),
            self.threshold.ravel(),
            children.ravel().astype(np.intp),
            roots,
            self.value.ravel(),
        )

    def state(self) -> dict[str, Any]:
        """Return the trees as plain data."""
        return {
            "feature": self.feature.astype(np.int16),
            "threshold": self.threshold,
            "left": self.left.astype(np.int16),
            "right": self.right.astype(np.int16),
            "value": self.value,
            "baseline": self.baseline,
            "depth": self.depth,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> BoostedTrees:
        """Rebuild the trees."""
        return cls(
            feature=_whole(state["feature"]),
            threshold=state["threshold"],
            left=_whole(state["left"]),
            right=_whole(state["right"]),
            value=state["value"],
            baseline=float(state["baseline"]),
            depth=int(state["depth"]),
        )


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "iu":
        raise TypeError(f"nodes are numbered by whole numbers, not by {values.dtype}")
    return values.astype(np.int32)
