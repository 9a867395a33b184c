"""Linear models: logistic regression, and ridge regression of many labels on sparse text."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.low_rank import Covariance, association, leading_directions
from cnp_router.training.parts import Part

__all__ = [
    "MOST_PRODUCTS",
    "Evidence",
    "Gaussian",
    "Logistic",
    "correction",
    "level",
    "pair_products",
    "replaced_columns",
    "ridge_weights",
    "rising",
    "sampled_negatives",
    "single_class",
    "spread_columns",
    "times_vector",
    "updated_weights",
]

MAX_NEGATIVES = 100_000
# Entries of the rows times labels: above, a ridge regression is solved from sums.
MOST_PRODUCTS = 500_000_000
# Errors below this are let stand when more rows come: most labels of most requests.
_SMALL = 0.02
_MOST_LEVEL = 10.0


def times_vector(matrix: NDArray[Any], vector: NDArray[Any]) -> NDArray[Any]:
    """Return ``matrix @ vector`` without the linear algebra library.

    That one wakes its threads for products of this size, and waits for them: an answer then takes
    several times longer as soon as another process uses a core.
    """
    return _products("ij,j->i", matrix, vector)


def pair_products(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return ``one @ other.T`` without the linear algebra library, as `times_vector` does.

    Examples
    --------
    >>> pair_products(np.eye(2), np.array([[3.0, 4.0]])).tolist()
    [[3.0], [4.0]]
    """
    return _products("ij,kj->ik", one, other)


def _products(subscripts: str, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    if one.shape[1]:
        return np.asarray(np.einsum(subscripts, one, other))
    # Of no terms, einsum may add 0 times what stands in memory behind nothing: it may be NaN.
    return np.zeros((len(one), *other.shape[:-1]), dtype=np.result_type(one, other))


def ridge_weights(
    X: sparse.csr_array,
    Y: sparse.csr_array,
    *,
    alpha: float = 1.0,
    iterations: int = 5,
    block: int = 64,
    prune: float = 0.01,
    low_rank: bool | None = None,
) -> sparse.csr_array:
    """Return a ridge regression's weights of each column of `Y` on `X`: (n_terms, n_labels).

    Solves ``(X X^T + alpha I) A = Y`` by conjugate gradients (Hestenes and Stiefel, 1952), all
    labels of a block at once and each with its own step, and returns ``X^T A``. No n x n matrix
    is made: the cost is linear in the entries of `X` times the number of labels, the memory in
    rows plus terms times `block`.

    Where that is too much, or if it is to be `low_rank`, the weights come from sums over the rows
    (`cnp_router.training.low_rank`), in time linear in the entries of `X`: about as good, somewhat
    larger, and only of the terms of a label's own rows.

    `alpha` is the strength of the penalty. Stopping after a few `iterations` regularises too.
    Weights smaller than `prune` are dropped.
    """
    if low_rank is None:
        low_rank = X.nnz * Y.shape[1] > MOST_PRODUCTS
    if low_rank:
        covariance = Covariance.of(X, leading_directions(X))
        return covariance.weights(association(X, Y), alpha=alpha, prune=prune)
    transposed = sparse.csr_array(X.T)
    columns = sparse.csc_array(Y)
    parts = []
    for start in range(0, Y.shape[1], block):
        target = columns[:, start : start + block].toarray().astype(np.float32)
        weights = transposed @ _solve(X, transposed, target, alpha, iterations)
        parts.append(_pruned(weights, prune))
    if not parts:
        return sparse.csr_array((X.shape[1], 0), dtype=np.float32)
    return sparse.csr_array(sparse.hstack(parts, format="csr"))


def _pruned(weights: NDArray[Any], least: float) -> sparse.csr_array:
    """Return the weights of at least some size; scipy's own conversion takes five times longer."""
    kept = np.abs(weights) >= least
    flat = np.flatnonzero(kept)
    pointers = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))])
    return sparse.csr_array(
        (
            weights.ravel()[flat],
            (flat % weights.shape[1]).astype(np.int32),
            pointers.astype(np.int32),
        ),
        shape=weights.shape,
    )


def _solve(
    X: sparse.csr_array,
    transposed: sparse.csr_array,
    target: NDArray[Any],
    alpha: float,
    iterations: int,
) -> NDArray[Any]:
    solution, own = np.zeros_like(target), np.empty_like(target)
    residual, direction = target.copy(), target.copy()
    norm = np.einsum("ij,ij->j", residual, residual)
    for _ in range(iterations):  # in place: what it goes through stays in a cache
        image = X @ (transposed @ direction)
        image += np.multiply(alpha, direction, out=own)
        curvature = np.einsum("ij,ij->j", direction, image)
        step = np.where(curvature > 0, norm / np.maximum(curvature, 1e-12), 0).astype(np.float32)
        solution += np.multiply(step, direction, out=own)
        residual -= np.multiply(step, image, out=own)
        new_norm = np.einsum("ij,ij->j", residual, residual)
        direction *= (new_norm / np.maximum(norm, 1e-12)).astype(np.float32)
        direction += residual
        norm = new_norm
    return solution


def updated_weights(
    weights: sparse.csr_array, energy: NDArray[Any], X: sparse.csr_array, Y: sparse.csr_array
) -> sparse.csr_array:
    """Return the weights of a ridge regression after more rows, without the old ones.

    A ridge regression of the errors on the new rows `X` and `Y`, in which a term's penalty grows
    with how much was learned of it already: recursive least squares with a diagonal covariance.
    `energy` is the sum of squares of each term in the old rows, of shape (n_terms,).
    """
    return sparse.csr_array(weights + correction(weights, energy, X, Y)).astype(np.float32)


def correction(
    weights: sparse.csr_array, energy: NDArray[Any], X: sparse.csr_array, Y: sparse.csr_array
) -> sparse.csr_array:
    """Return what `updated_weights` adds: (n_terms, n_labels).

    The time is that of the weights of the terms of the new rows, however large the model.
    """
    missing = sparse.csr_array(Y - X @ weights)
    missing.data[np.abs(missing.data) < _SMALL] = 0
    missing.eliminate_zeros()
    # Only what the new rows touch; for one row, that is next to nothing.
    terms, labels = np.unique(X.indices), np.unique(missing.indices)
    doubt = sparse.diags_array(1 / np.sqrt(1 + energy[terms]))
    step = doubt @ ridge_weights(
        sparse.csr_array(X[:, terms] @ doubt), missing[:, labels], prune=_SMALL / 10
    )
    by_term = spread_columns(sparse.csr_array(step.T), terms, np.arange(len(energy))).T
    return spread_columns(by_term, labels, np.arange(weights.shape[1]))


def replaced_columns(
    matrix: sparse.sparray, columns: NDArray[Any], values: sparse.sparray
) -> sparse.csr_array:
    """Return the matrix with some of its columns, which ascend, replaced.

    Examples
    --------
    >>> one = sparse.csr_array(np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32))
    >>> replaced_columns(one, np.array([1]), one[:, [2]]).toarray()
    array([[1., 3., 3.],
           [4., 6., 6.]], dtype=float32)
    """
    rows, n_columns = sparse.csr_array(matrix), matrix.shape[1]
    stays = np.ones(n_columns, dtype=bool)
    stays[columns] = False
    (kept,) = stays[rows.indices].nonzero()
    pointers = kept.searchsorted(rows.indptr)
    of = rows.data[kept], rows.indices[kept], pointers
    others = sparse.csr_array(of, shape=rows.shape)
    return sparse.csr_array(others + spread_columns(values, columns, np.arange(n_columns)))


def spread_columns(
    matrix: sparse.sparray, old: NDArray[Any], new: NDArray[Any]
) -> sparse.csr_array:
    """Return columns that stand for `old` as columns that stand for `new`, a superset; both ascend.

    Examples
    --------
    >>> one = sparse.csr_array(np.array([[1, 2]], dtype=np.float32))
    >>> spread_columns(one, np.array([3, 7]), np.array([1, 3, 7])).toarray()
    array([[0., 1., 2.]], dtype=float32)
    """
    rows = sparse.csr_array(matrix)
    where = np.searchsorted(new, old).astype(rows.indices.dtype)[rows.indices]
    of = rows.data.astype(np.float32, copy=False), where, rows.indptr
    return sparse.csr_array(of, shape=(rows.shape[0], len(new)))


@dataclass(frozen=True, eq=False)
class Gaussian:
    """What is known beforehand of the weights of a logistic regression, the intercept last.

    The weights are of standardised features, ``(x - center) / scale``; `mean` is of shape
    (n_features + 1,), and `precision` is the inverse of their covariance.
    """

    center: NDArray[Any]
    scale: NDArray[Any]
    mean: NDArray[Any]
    precision: NDArray[Any]

    def standardised(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the features as the weights take them, a column of ones last."""
        Z = np.ones((len(X), len(self.mean)))
        Z[:, :-1] = (X - self.center) / self.scale
        return Z

    @property
    def most_probable(self) -> Logistic:
        """The logistic regression with the mean of the weights."""
        return self.logistic(self.mean)

    def logistic(self, weights: NDArray[Any]) -> Logistic:
        """Return the logistic regression with such weights."""
        coefficients = weights[:-1] / self.scale
        return Logistic(coefficients, float(weights[-1] - coefficients @ self.center))


@dataclass(frozen=True, eq=False)
class Evidence(Part):
    """What rows said of the weights of a logistic regression, beside what is known beforehand.

    A Gaussian by what adds up: its `precision`, and the `shift`, which is that times its mean
    (Spiegelhalter and Lauritzen, "Sequential updating of conditional probabilities on directed
    graphical structures", 1990). It is of `n` requests, each of which had some rows.
    """

    precision: NDArray[Any]
    shift: NDArray[Any]
    n: int

    @classmethod
    def none(cls, n_weights: int) -> Evidence:
        """Return that of no rows."""
        return cls(np.zeros((n_weights, n_weights)), np.zeros(n_weights), 0)

    def faded(self, share: float) -> Evidence:
        """Return it with a share of its weight."""
        return replace(self, precision=share * self.precision, shift=share * self.shift)

    def posterior(self, prior: Gaussian, most: float = math.inf) -> Gaussian:
        """Return what is known with it, if it weighs no more than so many requests.

        That is a power prior (Ibrahim and Chen, 2000).
        """
        share = min(1.0, most / max(self.n, 1))
        precision = prior.precision + share * self.precision
        mean = np.linalg.solve(precision, prior.precision @ prior.mean + share * self.shift)
        return replace(prior, mean=mean, precision=precision)

    def with_rows(self, prior: Gaussian, X: NDArray[Any], y: NDArray[Any], n: int) -> Evidence:
        """Return it with the rows of `n` more requests.

        By the Laplace approximation at the weights that are then most probable.
        """
        before = self.posterior(prior)
        Z, weight = before.standardised(X), np.ones(len(y))
        w = maximum_a_posteriori(Z, y, weight, before)
        p = sigmoid(Z @ w)
        precision = curvature(Z, weight, p)
        shift = precision @ w + Z.T @ (y - p)
        return Evidence(self.precision + precision, self.shift + shift, self.n + n)


@dataclass(frozen=True, eq=False)
class Logistic(Part):
    """A logistic regression: ``p = 1 / (1 + exp(-(x . coefficients + intercept)))``."""

    coefficients: NDArray[Any]
    intercept: float

    @classmethod
    def fit(
        cls,
        X: NDArray[Any],
        y: NDArray[Any],
        *,
        C: float = 1.0,
        random_state: int = 0,
        prior: Gaussian | None = None,
        weight: NDArray[Any] | None = None,
    ) -> Logistic:
        """Fit on standardised features, and fold the scale into the coefficients.

        With a `prior` instead of the penalty `C`, the weights are the most probable ones given both
        (maximum a posteriori): without rows, its mean.

        Rows count by their `weight`. Where none is given, a random sample is taken of more than
        `MAX_NEGATIVES` negatives, and weighted back. With a
        single class, and no prior, there is nothing to learn but its frequency, smoothed by one of
        each.
        """
        if prior is None and (y.all() or not y.any()):
            return cls(np.zeros(X.shape[1]), single_class(y))
        if weight is None:
            rows, weight = sampled_negatives(y, random_state)
            X, y = X[rows], y[rows]
        X = X.astype(np.float64)
        if prior is not None:
            return prior.logistic(maximum_a_posteriori(prior.standardised(X), y, weight, prior))
        from sklearn.linear_model import LogisticRegression

        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
        model = LogisticRegression(C=C, max_iter=300, tol=1e-3)
        model.fit((X - mean) / scale, y, sample_weight=weight)
        coefficients = model.coef_[0] / scale
        return cls(coefficients, float(model.intercept_[0] - coefficients @ mean))

    def blended(self, other: Logistic, share: float) -> Logistic:
        """Return the model whose log-odds are those of both, by a share of the other's."""
        if share == 1:
            return other
        return Logistic(
            (1 - share) * self.coefficients + share * other.coefficients,
            (1 - share) * self.intercept + share * other.intercept,
        )

    def log_odds(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the log-odds of each row."""
        wide = X.reshape(-1, X.shape[-1])
        return (times_vector(wide, self.coefficients) + self.intercept).reshape(X.shape[:-1])

    def probability(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of each row."""
        return sigmoid(self.log_odds(X))

    def probability_of(self, row: Sequence[float], raised: float = 0.0) -> float:
        """Return the probability of one row, its log-odds `raised`: faster, up to rounding."""
        x = sum(map(operator.mul, self.coefficients.tolist(), row), self.intercept + raised)
        return 0.5 * (1 + math.tanh(0.5 * x))


def sampled_negatives(y: NDArray[Any], random_state: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return which rows to learn from, ascending, and their weights.

    All, but of more than `MAX_NEGATIVES` negatives a random sample that weighs as much.
    """
    positives = np.flatnonzero(y)
    n_negatives = len(y) - len(positives)
    if n_negatives <= MAX_NEGATIVES:
        return np.arange(len(y)), np.ones(len(y))
    rng = np.random.default_rng(random_state)
    sample = rng.choice(n_negatives, MAX_NEGATIVES, replace=False)  # all are never listed
    sample += np.searchsorted(positives - np.arange(len(positives)), sample, side="right")
    rows = np.sort(np.concatenate([positives, sample]))
    return rows, np.where(y[rows], 1.0, n_negatives / MAX_NEGATIVES)


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """Return ``1 / (1 + exp(-x))`` without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def level(x: NDArray[Any], wanted: float, weight: NDArray[Any] | float = 1.0) -> float:
    """Return what to add to some log-odds so that their weighted probabilities have a mean.

    Where no number does, it is one of the ends, -10 or 10.
    """
    least, most = -_MOST_LEVEL, _MOST_LEVEL
    for _ in range(40):
        middle = (least + most) / 2
        if np.mean(weight * sigmoid(x + middle)) < wanted:
            least = middle
        else:
            most = middle
    return (least + most) / 2


def maximum_a_posteriori(
    Z: NDArray[Any], y: NDArray[Any], weight: NDArray[Any], prior: Gaussian
) -> NDArray[Any]:
    """Return the most probable weights, given a prior and some weighted rows: Newton's method."""
    w = prior.mean
    value = np.inf
    step = np.zeros_like(w)
    for _ in range(50):
        tried = w + step
        lost, p = _loss(Z, y, weight, tried, prior)
        while lost > value and np.abs(step).max() > 1e-9:  # too far: half of it
            step = step / 2
            tried = w + step
            lost, p = _loss(Z, y, weight, tried, prior)
        w, gained, value = tried, value - lost, lost
        if gained < 1e-8 * max(1.0, abs(value)):
            break
        gradient = Z.T @ (weight * (p - y)) + prior.precision @ (w - prior.mean)
        step = -np.linalg.solve(curvature(Z, weight, p) + prior.precision, gradient)
    return np.asarray(w)


def rising(
    Z: NDArray[Any],
    y: NDArray[Any],
    weight: NDArray[Any],
    prior: Gaussian,
    free: Sequence[int] = (-1,),
) -> NDArray[Any]:
    """Return the most probable weights of which none is negative but the `free` ones."""
    from scipy.optimize import minimize

    least = np.zeros(len(prior.mean))
    least[list(free)] = -np.inf

    def loss(w: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        lost, p = _loss(Z, y, weight, w, prior)
        return lost, Z.T @ (weight * (p - y)) + prior.precision @ (w - prior.mean)

    start = np.maximum(prior.mean, least)
    bounds = [(b, None) for b in least]
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def curvature(Z: NDArray[Any], weight: NDArray[Any], p: NDArray[Any]) -> NDArray[Any]:
    """Return the second derivatives of the log loss by the weights."""
    return np.asarray(Z.T @ (Z * (weight * p * (1 - p))[:, None]))


def _loss(
    Z: NDArray[Any], y: NDArray[Any], weight: NDArray[Any], w: NDArray[Any], prior: Gaussian
) -> tuple[float, NDArray[Any]]:
    """Return the penalised log loss, and the probability of each row."""
    x = Z @ w
    off = w - prior.mean
    loss = weight @ (np.logaddexp(0, x) - y * x) + 0.5 * off @ prior.precision @ off
    return float(loss), sigmoid(x)


def single_class(y: NDArray[Any]) -> float:
    """Return the log-odds of a label's frequency, smoothed by one of each."""
    rate = (y.sum() + 1) / (len(y) + 2)
    return float(np.log(rate / (1 - rate)))
