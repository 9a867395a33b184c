"""What out-of-fold answers teach about the decision: the recall promise and the confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing.selection import RecallControl, mass_positions
from cnp_router.training.ranker import Logistic

__all__ = ["Answer", "Decision", "confidence_features"]

_SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_SIZES = (1, 3, 5, 10, 20, 50)


@dataclass(frozen=True)
class Answer:
    """An out-of-fold answer to one past request.

    Attributes
    ----------
    probabilities : ndarray of shape (n_candidates,), in [0, 1]
    labels : ndarray of shape (n_candidates,), bool
        Which of them it used.
    n_used : int
        APIs it used in all: those that are no candidate can be reached by a broadcast only.
    """

    probabilities: NDArray[Any]
    labels: NDArray[Any]
    n_used: int


@dataclass(frozen=True)
class Decision:
    """What out-of-fold answers teach about the decision.

    Attributes
    ----------
    confidence : Logistic
        The probability that the recipients cover all that a request needs, on
        `confidence_features`.
    recall_control : RecallControl
    """

    confidence: Logistic
    recall_control: RecallControl

    @classmethod
    def fit(cls, answers: Sequence[Answer]) -> Decision:
        """Learn from answers to requests that are as new ones will be."""
        return cls(_fit_confidence(answers), _fit_recall_control(answers))

    def state(self) -> dict[str, Any]:
        """Return what was learned as plain data."""
        control = self.recall_control
        return {
            "confidence": self.confidence.state(),
            "needed": np.minimum(
                control.needed, 2.0
            ),  # what is kept is finite, and no share above 1
            "weights": control.weights,
            "n_requests": control.n_requests,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Decision:
        """Rebuild it."""
        needed = np.where(state["needed"] > 1, np.inf, state["needed"])
        return cls(
            Logistic.from_state(state["confidence"]),
            RecallControl(needed, state["weights"], int(state["n_requests"])),
        )


def _fit_recall_control(answers: Sequence[Answer]) -> RecallControl:
    """Collect what each request needed, for conformal risk control."""
    needed, weights = [], []
    for answer in answers:
        probabilities, labels, n_used = answer.probabilities, answer.labels, answer.n_used
        order = np.argsort(-probabilities, kind="stable")
        found = mass_positions(probabilities[order])[labels[order]]
        needed.extend([*found, *[np.inf] * (n_used - len(found))])
        weights.extend([1 / n_used] * n_used)
    return RecallControl(np.array(needed), np.array(weights), len(answers))


def confidence_features(probabilities: NDArray[Any], outside: float) -> NDArray[Any]:
    """Return what the confidence is judged by.

    Parameters
    ----------
    probabilities : ndarray of shape (n,), in [0, 1]
    outside : float
        Sum of the probabilities of those that are not selected.

    Returns
    -------
    ndarray of shape (4,)
        Logarithm of the mass outside, its share of the whole, the highest probability, and the
        logarithm of the whole mass.
    """
    total = float(probabilities.sum())
    best = float(probabilities.max(initial=0.0))
    return np.array(
        [np.log(outside + 1e-3), outside / max(total, 1e-9), best, np.log(total + 1e-3)]
    )


def _fit_confidence(answers: Sequence[Answer]) -> Logistic:
    """Learn whether all that is needed is selected, from selections of many sizes."""
    rows, covered = [], []
    for answer in answers:
        order = np.argsort(-answer.probabilities, kind="stable")
        descending, hits = answer.probabilities[order], np.cumsum(answer.labels[order])
        place = mass_positions(descending)
        sizes = {int(np.count_nonzero(place <= share)) for share in _SHARES} | set(_SIZES)
        for size in sorted(min(size, len(order)) for size in sizes):
            if size:
                outside = float(descending[size:].sum())
                rows.append(confidence_features(answer.probabilities, outside))
                covered.append(hits[size - 1] == answer.n_used)
    if not rows:
        return Logistic(np.zeros(4), 0.0)
    return Logistic.fit(np.array(rows), np.array(covered))
