"""`Guards`: when a prediction is not acted upon, however confident it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from cnp_router.exceptions import InputError
from cnp_router.trajectories import Step

__all__ = ["ASKED", "Guard", "Guards"]

Guard = Literal["in-a-row", "share", "after-failure"]

ASKED = frozenset({"llm", "none", "caller"})
"""Sources of a step that was not foretold: the model or the caller chose it."""


@dataclass(frozen=True, slots=True)
class Guards:
    """Limits on acting without the model, within one trajectory.

    Parameters
    ----------
    in_a_row : int >= 0 or None, default=None
        At most so many foretold steps one after the other.
    share : float in [0, 1] or None, default=None
        At most this share of all steps, the one in question included, may be foretold.
    after_failure : bool, default=True
        Ask after a step whose ``success`` is false.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    The three guards of the agent released with AutoTool (AAAI 2026).

    Examples
    --------
    >>> guards = Guards(in_a_row=2, share=0.5)
    >>> guards.refusal([Step("weather"), Step("maps")], ["llm", "llm"]) is None
    True
    >>> guards.refusal([Step("weather"), Step("maps")], ["context", "context"])
    'in-a-row'
    >>> guards.refusal([Step("weather"), Step("maps")], ["llm", "context"])
    'share'
    >>> guards.refusal([Step("weather", success=False)], ["llm"])
    'after-failure'
    """

    in_a_row: int | None = None
    share: float | None = None
    after_failure: bool = True

    def __post_init__(self) -> None:
        if self.in_a_row is not None and self.in_a_row < 0:
            raise InputError(f"in_a_row must be at least 0, got {self.in_a_row!r}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise InputError(f"share must be in [0, 1], got {self.share!r}")

    @classmethod
    def autotool(cls) -> Self:
        """Return the limits of AutoTool's released agent: one in a row, and three in ten.

        Examples
        --------
        >>> Guards.autotool()
        Guards(in_a_row=1, share=0.3, after_failure=True)
        """
        return cls(in_a_row=1, share=0.3)

    @property
    def needs_sources(self) -> bool:
        """Whether they must be told who chose each step."""
        return self.in_a_row is not None or self.share is not None

    def refusal(self, steps: Sequence[Step], sources: Sequence[str] | None) -> Guard | None:
        """Return the guard that refuses to act on a prediction after `steps`, or None.

        Parameters
        ----------
        steps : sequence of Step
        sources : sequence of str or None
            Who chose each of them, as in `NextTool.source`; one of `ASKED` counts as not
            foretold. None if nobody knows.

        Raises
        ------
        InputError
            If `sources` is needed and missing, or is not one for each step.
        """
        if self.after_failure and steps and steps[-1].success is False:
            return "after-failure"
        if not (self.needs_sources and steps):
            return self._refusal([])
        if sources is None or isinstance(sources, str) or len(sources) != len(steps):
            came = "none" if sources is None else f"{sources!r}"
            raise InputError(
                f"these guards count who chose each step, got {came} for {len(steps)} "
                "(give one source for each, or use AgentRun)"
            )
        return self._refusal([source not in ASKED for source in sources])

    def _refusal(self, foretold: list[bool]) -> Guard | None:
        latest = list(reversed(foretold))
        run = latest.index(False) if False in latest else len(latest)
        if self.in_a_row is not None and run >= self.in_a_row:
            return "in-a-row"
        if self.share is not None and sum(foretold) + 1 > self.share * (len(foretold) + 1):
            return "share"
        return None
