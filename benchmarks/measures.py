"""What more than one benchmark computes of its answers."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["auroc", "share_true"]


def auroc(positive: Iterable[float], negative: Iterable[float]) -> float | None:
    """Return how probably a positive is above a negative; None without one of each."""
    from sklearn.metrics import roc_auc_score

    above, below = list(positive), list(negative)
    if not above or not below:
        return None
    return float(roc_auc_score([1] * len(above) + [0] * len(below), above + below))


def share_true(answers: Iterable[bool]) -> float | None:
    """Return the share that is true; None of nothing."""
    values = list(answers)
    return sum(values) / len(values) if values else None
