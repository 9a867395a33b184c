"""Whether the parts of a loaded router fit each other: what could crash later, or answer wrongly.

The store has checked that all arrays are finite numbers and the indices of sparse matrices inside
their bounds; encoders and views check themselves when they are made of their states. This finds
parts of two models put together, and numbers that no fit makes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cnp_router.training.answerable import BOTH
from cnp_router.training.co_usage_features import FEATURES
from cnp_router.training.decision import confidence_features
from cnp_router.training.learned_router import LearnedRouter
from cnp_router.training.linear import Evidence
from cnp_router.training.ranker import LEVELS, Ranker
from cnp_router.training.shortlists import N_REST_FEATURES, N_SET_FEATURES
from cnp_router.training.tail import N_FEATURES as N_TAIL_FEATURES
from cnp_router.training.trees import BoostedTrees
from cnp_router.training.views import CategoryView

__all__ = ["check_parts", "check_trees"]


def check_parts(router: LearnedRouter) -> None:
    """Raise ValueError where the parts of a router do not fit each other."""
    _check_removed(router)
    views, decision = router.views, router.decision
    n_mashups, n_history = views.corpus.usage.shape[0], len(router.history)
    _require(n_mashups == n_history, f"views of {n_history} mashups, got {n_mashups}")
    _check_ranker(router.ranker, len(views.feature_names))
    if router.completion.ranker is not None:
        _check_ranker(router.completion.ranker, len(FEATURES))
    _check_width(decision.confidence, len(confidence_features(np.zeros(1), 0.0)))

    if router.tail.model is not None:
        _check_width(router.tail.model, N_TAIL_FEATURES)

    answerable = router.answerable
    n_terms = len(answerable.manner.encoder.terms_)
    _require(answerable.manner.weights.shape == (n_terms,), "a weight for each run of characters")
    n_scores = len(views.likeness_names)
    for judge, width in ((answerable.says, 3), (answerable.fits, 2 * n_scores)):
        _check_width(judge, width)
    _check_width(answerable.both, len(BOTH))

    needed, request, months = decision.needed, decision.request, decision.months
    flat = needed.ndim == months.ndim == 1 and needed.shape == request.shape
    _require(flat and len(months) >= 1 and request.dtype.kind == "i", "uses of requests")
    every = np.array_equal(np.unique(request), np.arange(len(months)))
    sound = needed.dtype.kind == months.dtype.kind == "f" and (needed >= 0).all()
    _require(bool(every and sound and (needed <= 1).all()), "probabilities of what was needed")
    _require(isinstance(decision.is_promise, bool), "whether the recall is promised")
    corrected = decision.recalibration
    _check_evidence(corrected.evidence, 2)
    numbers = decision.shift, decision.raised, corrected.slope, corrected.intercept
    _require(corrected.slope > 0 and np.isfinite(numbers).all(), "corrections that are numbers")
    has_categories = views[CategoryView].weights.shape[1] > 0
    _require((router.categories is not None) == has_categories, "names of the categories")


def check_trees(trees: BoostedTrees, *, n_features: int) -> None:
    """Raise ValueError unless these are trees on `n_features` features.

    A child of a node comes after it, so no path goes round in circles, and every path ends
    within ``trees.depth`` steps.
    """
    shape = trees.feature.shape
    for name, kinds in (("feature left right", "iu"), ("threshold value", "f")):
        for part in (getattr(trees, each) for each in name.split()):
            sound = part.ndim == 2 and part.size and part.shape == shape
            _require(sound and part.dtype.kind in kinds, f"{name} for each node of the trees")
    _require(
        (trees.feature >= 0).all() and (trees.feature < n_features).all(), "trees on known features"
    )
    n_nodes = shape[1]
    # How many steps lead to each node; -1 where none do: trees have places to spare.
    steps = np.where(np.arange(n_nodes) == 0, 0, np.full(shape, -1))
    for node in range(n_nodes):
        left, right = trees.left[:, node], trees.right[:, node]
        goes_on = np.flatnonzero((steps[:, node] >= 0) & ((left != node) | (right != node)))
        for child in (left[goes_on], right[goes_on]):
            _require(
                (child > node).all() and (child < n_nodes).all(), "trees whose children come later"
            )
            steps[goes_on, child] = np.maximum(steps[goes_on, child], steps[goes_on, node] + 1)
    _require(steps.max() <= trees.depth, f"paths of at most {trees.depth} steps in the trees")
    numbers = (trees.value, trees.threshold, trees.baseline)
    _require(all(np.isfinite(part).all() for part in numbers), "finite numbers in the trees")


def _check_removed(router: LearnedRouter) -> None:
    removed = router.removed
    ids = all(isinstance(api, str) and api not in router.catalog for api in removed)
    _require(ids and len(set(removed)) == len(removed), "distinct ids of what was removed")


def _check_ranker(ranker: Ranker, width: int) -> None:
    _check_width(ranker.first, width)
    _check_width(ranker.rest, N_REST_FEATURES)
    _check_width(ranker.scale, 1 if ranker.parts else len(LEVELS))
    if ranker.evidence is not None:
        _check_evidence(ranker.evidence, width + 1)
    _require(0 <= ranker.trust <= 1, "how much the trees are trusted, from 0 to 1")
    for trees in ranker.parts:
        check_trees(trees, n_features=width + N_SET_FEATURES)


def _check_evidence(evidence: Evidence, n: int) -> None:
    sound = evidence.precision.shape == (n, n) and evidence.shift.shape == (n,)
    finite = sound and np.isfinite(evidence.precision).all() and np.isfinite(evidence.shift).all()
    _require(finite and evidence.n >= 0, "what was observed of each weight")


def _check_width(model: Any, width: int) -> None:
    shape = np.shape(model.coefficients)
    _require(shape == (width,), f"coefficients of shape ({width},), got {shape}")


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"expected {what}")
