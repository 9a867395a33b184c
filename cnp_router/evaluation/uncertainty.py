"""How sure a mean over requests is: its standard error, and a paired difference of two means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

__all__ = ["PairedDifference", "standard_error"]


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of a mean: the standard deviation (n - 1) over the root of n.

    None of fewer than two values.

    Examples
    --------
    >>> standard_error([1.0, 2.0, 3.0, 4.0]), standard_error([1.0])
    (0.6454972243679028, None)
    """
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference of two figures of the same requests, and its 95 % interval.

    Parameters
    ----------
    n : int, at least 1
        How many requests have both.
    mean : float
    low, high : float or None
        The interval ``mean ± t s / √n``: s is the standard deviation of the differences, t the .975
        quantile of Student's t with n - 1 degrees of freedom (Student, Biometrika 6, 1908; for
        figures of the same requests, Dietterich, Neural Computation 10, 1998). It holds for
        differences that are about normal, or many. None of a single request.
    """

    n: int
    mean: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, first: Sequence[float], second: Sequence[float]) -> PairedDifference | None:
        """Return what the first are above the second, pair by pair; None without a pair.

        Examples
        --------
        >>> routed, broadcast = [3.0, 5.0, 4.0], [2.0, 3.0, 1.0]
        >>> found = PairedDifference.of(routed, broadcast)
        >>> found.n, found.mean, round(found.low, 3), round(found.high, 3)
        (3, 2.0, -0.484, 4.484)
        """
        from scipy.stats import t

        differences = [a - b for a, b in zip(first, second, strict=True)]
        if not differences:
            return None
        mean, error = fmean(differences), standard_error(differences)
        if error is None:
            return cls(len(differences), mean, None, None)
        half = float(t.ppf(0.975, len(differences) - 1)) * error
        return cls(len(differences), mean, mean - half, mean + half)
