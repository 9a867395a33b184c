"""`Waves`: how many contractors are called next, by what those before them have proposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnp_router.records import check_number

__all__ = ["Waves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """The recipients of a routed round are called in waves, as long as more are wanted.

    FIPA's iterated Contract Net. First those are called that are probable enough. When all have
    replied, or the deadline is over, it is looked at what was proposed: its expected recall is the
    sum of its probabilities over that sum and the probabilities of those not called yet; who
    refused is taken at its word. While that is below the target, a larger wave follows. All
    decisions come after the last wave.

    Parameters
    ----------
    probability : float in [0, 1], default=0.02
        Who is at least so probable is called in the first wave.
    at_least : int, default=5
        So many are called in the first wave, whatever their probability.
    target : float in [0, 1], default=0.85
        The expected recall from which no more are called.
    growth : float, above 1, default=3.0
        A wave brings the number of the called to so many times what it was.
    most : int, default=2
        How many waves there are at most.
    floor : float in [0, 1], default=0.008
        Who is less probable is not called after the first wave.

    Raises
    ------
    InputError
        If a value is out of range.

    References
    ----------
    FIPA, Iterated Contract Net Interaction Protocol Specification, SC00030H, 2002.

    Examples
    --------
    >>> waves = Waves(at_least=2)
    >>> probabilities = [0.9, 0.5, 0.02, 0.015, 0.01, 0.001]
    >>> waves.first(probabilities)
    3
    >>> waves.following(probabilities, 3, proposed=1.4, left=0.026)
    0
    >>> waves.following(probabilities, 3, proposed=0.02, left=0.026)
    2
    """

    probability: float = 0.02
    at_least: int = 5
    target: float = 0.85
    growth: float = 3.0
    most: int = 2
    floor: float = 0.008

    def __post_init__(self) -> None:
        for name in ("probability", "target", "floor"):
            check_number(f"{name} of the waves", getattr(self, name), 0, 1)
        for name in ("at_least", "most"):
            check_number(f"{name} of the waves", getattr(self, name), 1, whole=True)
        check_number("growth of the waves", self.growth, 1, ends=False)

    def first(self, probabilities: Sequence[float]) -> int:
        """Return how many are called in the first wave.

        Parameters
        ----------
        probabilities : sequence of float in [0, 1]
            Of all who may be called, highest first.

        Returns
        -------
        int
        """
        probable = sum(p >= self.probability for p in probabilities)
        return min(max(probable, self.at_least), len(probabilities))

    def following(
        self, probabilities: Sequence[float], n_called: int, *, proposed: float, left: float
    ) -> int:
        """Return how many more are called, 0 if none.

        Parameters
        ----------
        probabilities : sequence of float in [0, 1]
            Of all who may be called, highest first.
        n_called : int
            How many of them were.
        proposed, left : float
            Sums of the probabilities: of the APIs that were proposed, and of those that nobody was
            called for yet.

        Returns
        -------
        int
        """
        if proposed >= self.target * (proposed + left):
            return 0
        grown = max(n_called + 1, round(n_called * self.growth))
        return sum(p >= self.floor for p in probabilities[n_called:grown])
