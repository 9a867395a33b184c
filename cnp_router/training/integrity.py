"""Whether the parts of a loaded router fit each other: what could crash later, or answer wrongly.

Checksums find damage. This finds what they cannot: parts of two models put together, or numbers
that no fit makes. Each check raises a ValueError that says what it found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cnp_router.text import TfidfEncoder
from cnp_router.training.co_usage_features import FEATURES
from cnp_router.training.decision import confidence_features
from cnp_router.training.features import Candidates, shortlist_features
from cnp_router.training.learned import LearnedRouter
from cnp_router.training.ranker import N_REST_FEATURES, Logistic, Ranker
from cnp_router.training.trees import BoostedTrees
from cnp_router.training.views import CategoryView, CoUsageView

__all__ = ["check_parts", "check_trees"]


def check_parts(router: LearnedRouter) -> None:
    """Raise ValueError where the parts of a router do not fit each other.

    Parameters
    ----------
    router : LearnedRouter
    """
    _check_encoder("word", router.encoders.word)
    _check_encoder("character", router.encoders.character)
    if router.views.corpus.usage.shape[0] != len(router.history):
        raise ValueError(f"the views know {router.views.corpus.usage.shape[0]} mashups")
    _check_ranker("", router.ranker, router, len(router.views.feature_names))
    if router.completion.ranker is not None:
        _check_ranker("completion's ", router.completion.ranker, router, len(FEATURES))
    n_confidence = len(confidence_features(np.zeros(1), 0.0))
    _check_logistic("confidence", router.decision.confidence, n_confidence)
    _check_control(router)
    _check_categories(router)


def check_trees(trees: BoostedTrees, *, n_features: int) -> None:
    """Raise ValueError unless these are trees on `n_features` features.

    A child of a node comes after it, so no path goes round in circles, and every path ends
    within ``trees.depth`` steps.

    Parameters
    ----------
    trees : BoostedTrees
    n_features : int
    """
    shape = trees.feature.shape
    for name, kinds in {
        "feature": "iu",
        "left": "iu",
        "right": "iu",
        "threshold": "f",
        "value": "f",
    }.items():
        part = getattr(trees, name)
        if part.ndim != 2 or not part.size or part.shape != shape or part.dtype.kind not in kinds:
            raise ValueError(f"{name} of the trees is {part.dtype} of shape {part.shape}")
    if (trees.feature < 0).any() or (trees.feature >= n_features).any():
        raise ValueError(f"a tree asks for a feature that is none of {n_features}")
    n_nodes = shape[1]
    # How many steps lead to each node; -1 where none do: trees have places to spare.
    steps = np.where(np.arange(n_nodes) == 0, 0, np.full(shape, -1))
    for node in range(n_nodes):
        left, right = trees.left[:, node], trees.right[:, node]
        goes_on = (steps[:, node] >= 0) & ((left != node) | (right != node))
        for child in (left[goes_on], right[goes_on]):
            if (child <= node).any() or (child >= n_nodes).any():
                raise ValueError("a child of a tree's node is no later node")
            trees_on = np.flatnonzero(goes_on)
            steps[trees_on, child] = np.maximum(steps[trees_on, child], steps[goes_on, node] + 1)
    if steps.max() > trees.depth:
        raise ValueError(f"a path of {steps.max()} steps in trees of depth {trees.depth}")
    _check_numbers("the values of the trees", trees.value)
    _check_numbers("the thresholds of the trees", trees.threshold)
    _check_numbers("the baseline of the trees", np.array(trees.baseline))


def _check_encoder(name: str, encoder: TfidfEncoder) -> None:
    terms = encoder.terms_
    if not all(isinstance(term, str) for term in terms) or len(set(terms)) < len(terms):
        raise ValueError(f"the {name} terms are no distinct strings")
    if encoder.idf_.shape != (len(terms),):
        raise ValueError(f"{len(terms)} {name} terms have weights of shape {encoder.idf_.shape}")
    _check_numbers(f"the weights of the {name} terms", encoder.idf_)


def _check_ranker(whose: str, ranker: Ranker, router: LearnedRouter, width: int) -> None:
    none = np.zeros(0)
    nothing = Candidates(none.astype(np.intp), np.zeros((0, width), dtype=np.float32))
    wide = shortlist_features(
        router.views[CoUsageView].conditional, nothing, none, nothing.positions
    ).shape[1]
    _check_logistic(f"{whose}first stage", ranker.first, width)
    _check_logistic(f"{whose}rest", ranker.rest, N_REST_FEATURES)
    _check_logistic(f"{whose}scale", ranker.scale, 1)
    if not ranker.parts:
        raise ValueError(f"the {whose}ranker has no trees")
    for trees in ranker.parts:
        check_trees(trees, n_features=wide)


def _check_logistic(name: str, model: Logistic, width: int) -> None:
    if np.shape(model.coefficients) != (width,):
        raise ValueError(
            f"the {name} has coefficients of shape {np.shape(model.coefficients)}, not ({width},)"
        )
    _check_numbers(f"the {name}", model.coefficients)
    if not np.isfinite(model.intercept):
        raise ValueError(f"the {name} has the intercept {model.intercept}")


def _check_control(router: LearnedRouter) -> None:
    control = router.decision.recall_control
    needed, weights, n = control.needed, control.weights, control.n_requests
    if needed.ndim != 1 or needed.shape != weights.shape:
        raise ValueError(f"the recall control has shapes {needed.shape} and {weights.shape}")
    _check_numbers("the recall control", weights)
    # One over the number of APIs for each of a request's APIs: 1 a request.
    sound = needed.dtype.kind == "f" and (needed >= 0).all() and (weights > 0).all()
    if not sound or n < 1 or not np.isclose(weights.sum(), n):
        raise ValueError("the recall control holds no shares and weights")


def _check_categories(router: LearnedRouter) -> None:
    width = router.views[CategoryView].weights.shape[1]
    if router.categories is None:
        if width:
            raise ValueError(f"there are weights of {width} categories, and none is named")
        return
    router.categories.check()


def _check_numbers(name: str, values: Any) -> None:
    numbers = values.data if sparse.issparse(values) else values
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected numbers")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name}: not all numbers are finite")
