"""Ridge regression from sums over the rows: linear in their entries, however many labels there are.

The covariance of the terms is kept as a low-rank part, in a few directions, and a diagonal for the
rest. Its inverse follows from the formula of Woodbury (1950), and a label's weights from the sum of
its own rows. All of these are sums: of rows apart they add up to those of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.exceptions import InputError
from cnp_router.text import evenly
from cnp_router.training.parts import Memo, Part

__all__ = [
    "MAX_ROWS",
    "RANK",
    "Covariance",
    "association",
    "leading_directions",
]

RANK = 128
MAX_ROWS = 20_000  # the directions are those of at most so many rows
_BLOCK = 16_384  # rows or weights at a time


@dataclass(frozen=True, eq=False)
class Covariance(Part, Memo):
    """What the rows `X` say of their terms: sums, which merge.

    `basis` holds directions of length 1 at right angles, of shape (n_terms, rank); `moments` is
    ``(X basis)^T (X basis)``, and `energy` the sum of squares of each term.

    Examples
    --------
    >>> X = sparse.csr_array(np.array([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8], [1.0, 0.0, 0.0]]))
    >>> Y = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    >>> basis = leading_directions(X, rank=2)
    >>> parts = Covariance.of(X[:1], basis) + Covariance.of(X[1:], basis)
    >>> parts.weights(association(X, Y)).toarray().round(2)
    array([[0.62, 0.  ],
           [0.26, 0.19],
           [0.  , 0.42]], dtype=float32)
    """

    basis: NDArray[Any]
    moments: NDArray[Any]
    energy: NDArray[Any]

    @classmethod
    def of(cls, X: sparse.csr_array, basis: NDArray[Any]) -> Covariance:
        """Return that of some rows, in some directions."""
        moments = np.zeros((basis.shape[1], basis.shape[1]))
        for start in range(0, X.shape[0], _BLOCK):
            turned = np.asarray(X[start : start + _BLOCK] @ basis)
            moments += turned.T @ turned
        squares = np.square(X.data, dtype=np.float64)
        return cls(basis, moments, np.bincount(X.indices, squares, minlength=X.shape[1]))

    def __add__(self, other: Covariance) -> Covariance:
        """Return that of both, which must have the same directions."""
        if self.basis is not other.basis and not np.array_equal(self.basis, other.basis):
            raise InputError(
                "two covariances of different directions cannot be added"
                " (make the directions once, and give them to all parts)"
            )
        return Covariance(self.basis, self.moments + other.moments, self.energy + other.energy)

    def weights(
        self,
        sums: sparse.csr_array,
        *,
        alpha: float = 1.0,
        prune: float = 0.01,
    ) -> sparse.csr_array:
        """Return a ridge regression's weights of some labels: float32 of shape (n_terms, n_labels).

        `sums` is ``X^T Y``, from `association`; only terms of a label's own rows have a weight.
        `alpha` is the strength of the penalty. Weights smaller than `prune` are dropped. Labels
        can be solved apart: a column needs no other.
        """
        rest, scaled, core = self.once(alpha, lambda: self._inverse(alpha))
        common = np.asarray(sums.T @ scaled) @ core
        terms = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
        values = (sums.data / rest[terms]).astype(np.float32)
        for start in range(0, len(values), _BLOCK):
            own = slice(start, start + _BLOCK)
            values[own] -= np.einsum("ij,ij->i", scaled[terms[own]], common[sums.indices[own]])
        kept = np.abs(values) >= prune
        ends = np.concatenate([[0], np.cumsum(kept)])
        pointers = ends[sums.indptr].astype(sums.indptr.dtype)
        return sparse.csr_array((values[kept], sums.indices[kept], pointers), shape=sums.shape)

    def _inverse(self, alpha: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return `d`, `B` and `C`: the inverse of the sum is ``diag(1 / d) - B C B^T``."""
        basis, moments = self.basis, self.moments
        explained = np.einsum("ij,ij->i", basis @ moments.astype(np.float32), basis)
        rest = np.maximum(self.energy - explained, 0) + alpha
        scaled = (basis / rest[:, None]).astype(np.float32)
        # Of the two forms of the formula the one that needs no inverse of the moments.
        inner = np.eye(len(moments)) + (basis.T @ scaled).astype(np.float64) @ moments
        core = np.linalg.solve(inner.T, moments).astype(np.float32)
        return rest, scaled, core


def leading_directions(
    X: sparse.csr_array, rank: int = RANK, *, max_rows: int = MAX_ROWS, random_state: int = 0
) -> NDArray[np.float32]:
    """Return the right singular vectors of some rows, evenly taken: (n_terms, at most `rank`)."""
    from sklearn.utils.extmath import randomized_svd

    n_rows = X.shape[0]
    if n_rows > max_rows:
        X = X[evenly(n_rows, max_rows)]
    rank = min(rank, *X.shape)
    if rank < 1:
        return np.zeros((X.shape[1], 0), dtype=np.float32)
    _, _, right = randomized_svd(X, rank, n_iter=2, random_state=random_state)
    return np.ascontiguousarray(right.T, dtype=np.float32)


def association(X: sparse.csr_array, Y: sparse.csr_array) -> sparse.csr_array:
    """Return the sum of each label's rows, ``X^T Y``: csr_array of shape (n_terms, n_labels).

    Those of rows apart add up to that of the whole.
    """
    return sparse.csr_array(sparse.csr_array(X.T) @ Y)
