"""How what is asked of a catalog is said, learned against texts of nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.text import TfidfEncoder, specification_text
from cnp_router.training.linear import single_class
from cnp_router.training.looks import Look
from cnp_router.training.parts import Part

__all__ = ["Manner", "Texts", "fitted_manner"]

T = TypeVar("T")
MAX_TEXTS = 1_000  # of each kind from which the manner is learned
_C = 10.0


@dataclass(frozen=True, eq=False)
class Manner(Part):
    """How what is asked of a catalog is said, against texts of nothing: by runs of characters."""

    encoder: TfidfEncoder
    weights: NDArray[Any]
    intercept: float

    @classmethod
    def fit(cls, asked: Sequence[str], written: Sequence[str]) -> Manner:
        """Learn it from what is asked of a catalog, and from the texts of nothing."""
        texts = [*asked, *written]
        encoder = TfidfEncoder("character", min_df=2).fit(texts)
        is_asked = np.arange(len(texts)) < len(asked)
        return cls(encoder, *_linear(encoder.transform(texts), is_asked))

    def log_odds(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return how much each text sounds like the requests and the specifications."""
        return self.encoder.linear(texts, self.weights) + self.intercept


@dataclass(frozen=True)
class Texts:
    """What a manner is learned from: the texts of looks and of specifications, and of nothing.

    The first four are of the looks, in their order: its text, its kind, by which API it is served
    (-1: by none), and in which half it is: the other half tells what is said of it. The
    `specifications` are by the place of the API.
    """

    looks: list[str]
    kinds: list[str]
    server: NDArray[np.intp]
    half: NDArray[np.intp]
    specifications: Mapping[int, str]
    nothing: Sequence[str]

    @classmethod
    def of(cls, seen: Sequence[Look], catalog: Catalog, nothing: Sequence[str]) -> Texts:
        """Return those of some looks, and of a catalog."""
        return cls(
            [look.text for look in seen],
            [look.kind for look in seen],
            np.array([next(iter(look.used.tolist()), -1) for look in seen], dtype=np.intp),
            np.array([look.fold % 2 for look in seen], dtype=np.intp),
            {i: specification_text(catalog[i]) for i in _some(range(len(catalog)))},
            nothing,
        )


def fitted_manner(_: Any, given: Texts) -> tuple[Manner, NDArray[Any]]:
    """Return the manner, and its log-odds of all looks, each out of its half: a piece of work."""
    of: dict[str, list[int]] = {}
    for i, kind in enumerate(given.kinds):
        of.setdefault(kind, []).append(i)
    asked = [*_some(of.get("whole", [])), *_some(of.get("shortened", []))]
    joined = of.get("joined", [])
    beside = list(given.specifications.values())
    manner = Manner.fit(
        [*beside, *(given.looks[i] for i in asked)],
        [*given.nothing, *(given.looks[i] for i in joined)],
    )
    X = manner.encoder.transform(given.looks)
    Z = manner.encoder.transform(beside)
    chosen = np.array([*asked, *of.get("written", []), *joined], dtype=np.intp)
    places, described = np.array(list(given.specifications)), np.array(of.get("described", []), int)
    out = np.zeros(len(given.looks))
    for number in np.unique(given.half):
        own = given.half == number
        rows = chosen[~own[chosen]]
        others = ~np.isin(places, given.server[described[own[described]]])
        is_asked = np.concatenate([given.server[rows] >= 0, np.ones(others.sum(), dtype=bool)])
        weights, intercept = _linear(sparse.vstack([X[rows], Z[others]]), is_asked)
        out[own] = X[own] @ weights + intercept
    return manner, out


def _linear(X: Any, y: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Return weights and intercept of a logistic regression with balanced classes."""
    if y.all() or not y.any():
        return np.zeros(X.shape[1], dtype=np.float32), single_class(y)
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_C, class_weight="balanced", max_iter=300)
    model.fit(sparse.csr_matrix(X), y)
    return model.coef_[0].astype(np.float32), float(model.intercept_[0])


def _some(items: Sequence[T]) -> list[T]:
    """Return at most `MAX_TEXTS` of some items, from all over."""
    step = -(-len(items) // MAX_TEXTS)
    return list(items[:: max(step, 1)])
