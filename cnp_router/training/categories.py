"""`CategoryClassifier`: which API categories a request calls for."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.exceptions import InputError, NotFittedError
from cnp_router.routing.selection import expected_f1_size
from cnp_router.text import TfidfEncoder
from cnp_router.training.corpus import matrix_of_ones
from cnp_router.training.linear import Logistic, ridge_weights, sampled_negatives
from cnp_router.training.views import CategoryView, Views

__all__ = ["CategoryClassifier"]

_N_FEATURES = 4
_LIKELY = 0.2


class CategoryClassifier:
    """Request text to the calibrated probability of each category, several at once.

    One ridge regression per category on word TF-IDF gives scores; a logistic regression on
    out-of-fold scores, the same for all categories, turns them into probabilities
    (Platt, 1999).

    Parameters
    ----------
    alpha : float, positive, default=1.0
        Strength of the ridge penalty.
    n_folds : int, at least 2, default=5
        Folds of the calibration.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    classes_ : tuple of str
        Category names, sorted.

    Examples
    --------
    >>> texts = ["show a map", "a map of bars", "parks on a map", "play a song", "a song a day",
    ...          "my song list"]
    >>> classifier = CategoryClassifier(n_folds=3)
    >>> classifier.fit(texts, [["Mapping"]] * 3 + [["Music"]] * 3).classes_
    ('Mapping', 'Music')
    >>> classifier.predict_proba(["map of the town"]).shape
    (1, 2)
    >>> classifier.predict(["map of the town"])
    (('Mapping',),)
    """

    def __init__(self, *, alpha: float = 1.0, n_folds: int = 5, random_state: int = 0) -> None:
        self.alpha = alpha
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, texts: Sequence[str], categories: Sequence[Iterable[str]]) -> CategoryClassifier:
        """Learn from past requests.

        Parameters
        ----------
        texts : sequence of str, length n
        categories : sequence of iterables of str, length n
            The categories of each request.

        Raises
        ------
        InputError
            If the lengths differ, there are fewer than two requests, or no category at all.
        """
        if len(texts) != len(categories):
            raise InputError(f"{len(texts)} texts but {len(categories)} lists of categories")
        _check_texts(texts)
        for names in categories:
            if isinstance(names, str):
                raise InputError(f"categories must be lists of names, got the string {names!r}")
        if len(texts) < 2 or self.n_folds < 2:
            raise InputError("a classifier needs at least two requests and two folds")
        sets = [frozenset(names) for names in categories]
        classes = tuple(sorted(frozenset().union(*sets)))
        if not classes:
            raise InputError("no request has a category (give at least one)")
        column = {name: i for i, name in enumerate(classes)}
        Y = matrix_of_ones([[column[name] for name in names] for names in sets], len(classes))
        encoder = TfidfEncoder("word", min_df=1 if len(texts) < 100 else 2).fit(texts)
        X = encoder.transform(texts)
        n_folds = min(self.n_folds, len(texts))
        fold = np.random.default_rng(self.random_state).permutation(len(texts)) % n_folds
        scores = np.zeros(Y.shape, dtype=np.float32)
        for number in range(n_folds):
            inside, outside = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            weights = ridge_weights(X[inside], Y[inside], alpha=self.alpha)
            scores[outside] = (X[outside] @ weights).toarray()
        weights = ridge_weights(X, Y, alpha=self.alpha)
        return self.assemble(encoder, classes, weights, scores, Y)

    def assemble(
        self,
        encoder: TfidfEncoder,
        classes: tuple[str, ...],
        weights: sparse.csr_array,
        scores: NDArray[Any],
        labels: sparse.csr_array,
    ) -> CategoryClassifier:
        """Take weights that were fitted elsewhere, and calibrate them on out-of-fold scores.

        Scores and labels, which are ones, are of shape (n_requests, n_classes).
        """
        self.classes_ = classes
        self._encoder = encoder
        self._weights = weights
        counts = np.bincount(labels.indices, minlength=len(classes)) / max(labels.shape[0], 1)
        self._prior = np.log(counts + 1 / (labels.shape[0] + 1))
        truth = np.zeros(labels.shape, dtype=bool)
        truth[labels.nonzero()] = True
        # Features of the cells to learn from, not of all.
        cells, weight = sampled_negatives(truth.ravel(), 0)
        row, column = np.divmod(cells, max(len(classes), 1))
        best = scores.max(axis=-1, initial=0)[row]
        features = _features(scores.ravel()[cells], best, self._prior[column])
        self._scale = Logistic.fit(features, truth.ravel()[cells], weight=weight)
        return self

    def predict_proba(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return the probability of each category.

        Returns
        -------
        ndarray of shape (n_texts, n_classes), in [0, 1]
            A row need not sum to 1: a request may call for several categories, or none.

        Raises
        ------
        NotFittedError
            If it is not fitted.
        InputError
            If `texts` is one string, or holds anything else.
        """
        if not hasattr(self, "classes_"):
            raise NotFittedError("this CategoryClassifier is not fitted yet (call fit first)")
        _check_texts(texts)
        return self.calibrated((self._encoder.transform(texts) @ self._weights).toarray())

    def calibrated(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities that belong to the linear model's scores, of the same shape."""
        best = scores.max(axis=-1, keepdims=True, initial=0)
        prior = np.broadcast_to(self._prior, scores.shape)
        return self._scale.probability(_features(scores, best, prior))

    def likely(self, scores: NDArray[Any]) -> dict[int, tuple[float, str]]:
        """Return how probable the categories are that a request is likely about, by number."""
        p = self.calibrated(scores)
        return {i: (float(p[i]), self.classes_[i]) for i in np.flatnonzero(p > _LIKELY).tolist()}

    def predict(self, texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return each request's categories: the set of the highest expected F1.

        Returns
        -------
        tuple of tuples of str, most probable first
        """
        answers = []
        for row in self.predict_proba(texts):
            order = np.argsort(-row, kind="stable")
            kept = order[: expected_f1_size(row[order])]
            answers.append(tuple(self.classes_[i] for i in kept))
        return tuple(answers)

    def reweighted(self, views: Views) -> CategoryClassifier:
        """Return this classifier with the weights and words of views, calibrated as it is."""
        other = copy.copy(self)
        other._weights = views[CategoryView].weights
        other._encoder = views.corpus.encoders.word
        return other

    def state(self) -> dict[str, Any]:
        """Return what was learned as plain data, but for the encoder and the weights."""
        scale = self._scale.state()
        return {"classes": list(self.classes_), "prior": self._prior, "scale": scale}

    @classmethod
    def from_state(
        cls, encoder: TfidfEncoder, weights: sparse.csr_array, state: dict[str, Any]
    ) -> CategoryClassifier:
        """Rebuild a fitted classifier; raises ValueError where its parts do not fit each other."""
        self = cls()
        self.classes_ = tuple(state["classes"])
        self._encoder = encoder
        self._weights = weights
        self._prior = state["prior"]
        self._scale = Logistic.from_state(state["scale"])
        names, n_classes = self.classes_, weights.shape[1]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError("the categories are not distinct names")
        found = [np.shape(part) for part in (names, self._prior, self._scale.coefficients)]
        if found != [(n_classes,), (n_classes,), (_N_FEATURES,)]:
            raise ValueError(f"parts of {n_classes} categories have the shapes {found}")
        return self

    def __repr__(self) -> str:
        classes = getattr(self, "classes_", None)
        state = "not fitted" if classes is None else f"{len(classes)} categories"
        return f"CategoryClassifier({state})"

    def _repr_html_(self) -> str:
        names = ", ".join(getattr(self, "classes_", ()))
        return f"<p>{escape(repr(self))}: {escape(names)}</p>"


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InputError(f"texts must be a list of strings, got the string {texts!r}")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"a text must be a string, got {text!r}")


def _features(scores: NDArray[Any], best: NDArray[Any], prior: NDArray[Any]) -> NDArray[Any]:
    """Return what calibrates some scores, given the best of their requests and what is usual."""
    share = scores / np.maximum(best, 1e-6)
    return np.stack([scores, np.sqrt(np.clip(scores, 0, None)), share, prior], axis=-1)
