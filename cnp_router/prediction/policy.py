"""`NextToolPolicy`: when a prediction is acted upon, and what a model is shown where it is not."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from cnp_router.exceptions import InputError
from cnp_router.llm import Usage
from cnp_router.prediction.predictor import Candidate, NextTool
from cnp_router.records import check_id, string_tuple
from cnp_router.trajectories import Step

__all__ = ["NextToolPolicy", "RoutedTool", "Unsure"]

Unsure = Literal["cold-start", "unknown", "threshold", "in-a-row", "share", "after-failure"]

# Sources of a step that was not predicted: the model or the caller chose it.
_ASKED = frozenset({"llm", "none", "caller"})


@dataclass(frozen=True, slots=True, repr=False)
class RoutedTool(NextTool):
    """A next tool, and who decided on it.

    Parameters
    ----------
    tool : str or None
        The model's choice; without one, the most probable tool. None if nothing is known.
    confidence : float in [0, 1]
        Calibrated probability that `tool` is right, as predicted: where the model chose another
        tool than the first candidate, that of its choice.
    candidates : tuple of Candidate
        What was predicted.
    source : str
        The predictor's name: act on it. ``"llm"``: the model chose it. ``"none"``: nobody
        decided, the caller has to.
    unsure : str or None
        Why the prediction was not acted upon: ``"cold-start"``, ``"unknown"`` (nothing is
        known), ``"threshold"`` (the confidence is below it), or the guard that refused:
        ``"in-a-row"``, ``"share"``, ``"after-failure"``. None if it was.
    threshold : float in [0, 1]
        θ at that moment.
    hallucinated : tuple of str
        What the model named although there is no such tool; `source` is ``"none"`` then.
    usage : Usage or None
        What asking the model has cost.
    """

    unsure: Unsure | None = None
    threshold: float = 0.0
    hallucinated: tuple[str, ...] = ()
    usage: Usage | None = None

    def _facts(self) -> dict[str, str]:
        unsure = {"unsure": repr(self.unsure)} if self.unsure else {}
        # Not super(): a class with slots is made twice, and it would mean the first one.
        return {**NextTool._facts(self), **unsure, "threshold": f"{self.threshold:.2f}"}


@dataclass(frozen=True, slots=True)
class NextToolPolicy:
    """When a prediction is acted upon, and what a model is shown where it is not.

    Until `ask_first` trajectories have been observed, the model is always asked. From then on the
    threshold θ falls in a straight line from `first_threshold` to `last_threshold` as coverage
    grows to `full_coverage`. Guards may refuse within one trajectory, however sure a prediction.

    Parameters
    ----------
    ask_first : int >= 0, default=100
        Trajectories.
    first_threshold : float in [0, 1], default=0.9
    last_threshold : float in [0, first_threshold], default=0.6
    full_coverage : float in (0, 1], default=0.85
        The coverage that AutoTool reports after 100 trajectories.
    max_in_a_row : int >= 0 or None, default=None
        Guard: at most so many predicted steps one after the other.
    max_share : float in [0, 1] or None, default=None
        Guard: at most this share of all steps, the one in question included, may be predicted.
    ask_after_failure : bool, default=True
        Guard: ask after a step whose ``success`` is false.
    exclude : tuple of str, default=()
        Tools that are learned like others, but never predicted or chosen, such as the id under
        which calls are logged that could not be read. Without the first candidate the next one is
        taken, with the probability it had.
    candidates_shown : int >= 1, default=3
        Candidates that the model is shown with their probabilities.
    tools_shown : int >= 1, default=50
        Specifications that it is shown. Of more tools than that, it is shown the candidates and
        those that share most words with the goal; it may name any.

    Raises
    ------
    InputError
        If a number is out of range, or `exclude` is not several ids.

    References
    ----------
    Jia and Li, "AutoTool: Efficient Tool Selection for Large Language Model Agents", AAAI 2026;
    the guards are those of the agent released with it.

    Examples
    --------
    >>> policy = NextToolPolicy(max_share=0.5)
    >>> [round(policy.threshold(coverage), 2) for coverage in (0.0, 0.425, 0.85, 1.0)]
    [0.9, 0.75, 0.6, 0.6]
    >>> policy.guard([Step("weather"), Step("maps")], ["llm", "context"])
    'share'
    """

    ask_first: int = 100
    first_threshold: float = 0.9
    last_threshold: float = 0.6
    full_coverage: float = 0.85
    max_in_a_row: int | None = None
    max_share: float | None = None
    ask_after_failure: bool = True
    exclude: tuple[str, ...] = ()
    candidates_shown: int = 3
    tools_shown: int = 50

    def __post_init__(self) -> None:
        for name, least in (("ask_first", 0), ("candidates_shown", 1), ("tools_shown", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)!r}")
        if not 0 <= self.last_threshold <= self.first_threshold <= 1:
            raise InputError(
                "thresholds must be 0 <= last_threshold <= first_threshold <= 1, got "
                f"{self.last_threshold!r} and {self.first_threshold!r}"
            )
        if not 0 < self.full_coverage <= 1:
            raise InputError(f"full_coverage must be in (0, 1], got {self.full_coverage!r}")
        if self.max_in_a_row is not None and self.max_in_a_row < 0:
            raise InputError(f"max_in_a_row must be at least 0, got {self.max_in_a_row!r}")
        if self.max_share is not None and not 0 <= self.max_share <= 1:
            raise InputError(f"max_share must be in [0, 1], got {self.max_share!r}")
        object.__setattr__(self, "exclude", string_tuple("exclude", self.exclude))
        for tool in self.exclude:
            check_id("tool", tool)

    @classmethod
    def fixed(cls, threshold: float, **others: Any) -> Self:
        """Return a policy whose threshold never changes, without a cold start.

        Examples
        --------
        >>> NextToolPolicy.fixed(0.7, max_in_a_row=3).threshold(0.2)
        0.7
        """
        bounds = {"first_threshold": threshold, "last_threshold": threshold}
        return cls(**{"ask_first": 0, **bounds, **others})

    @classmethod
    def autotool(cls, **others: Any) -> Self:
        """Return the limits of AutoTool's released agent: one in a row, and three in ten.

        Examples
        --------
        >>> NextToolPolicy.autotool().guard([Step("weather")], ["context"])
        'in-a-row'
        """
        return cls(**{"max_in_a_row": 1, "max_share": 0.3, **others})

    def threshold(self, coverage: float) -> float:
        """Return θ at a coverage."""
        reached = min(coverage / self.full_coverage, 1.0)
        return self.first_threshold - (self.first_threshold - self.last_threshold) * reached

    def refusal(
        self,
        candidates: Sequence[Candidate],
        threshold: float,
        n_trajectories: int,
        guard: Unsure | None = None,
    ) -> Unsure | None:
        """Return why the first of the candidates is not acted upon, or None if it is.

        Parameters
        ----------
        candidates : sequence of Candidate
            Those that may be called, the most probable first.
        threshold : float in [0, 1]
        n_trajectories : int >= 0
            Observed so far.
        guard : str or None
            What `guard` gave.
        """
        if not candidates:
            return "unknown"
        if n_trajectories < self.ask_first:
            return "cold-start"
        return guard or ("threshold" if candidates[0].probability < threshold else None)

    def guard(self, steps: Sequence[Step], sources: Sequence[str] | None) -> Unsure | None:
        """Return the guard that refuses to act on a prediction after `steps`, or None.

        Parameters
        ----------
        steps : sequence of Step
        sources : sequence of str or None
            Who chose each of them, as in `RoutedTool.source`; ``"llm"``, ``"none"`` and
            ``"caller"`` count as not predicted. None if nobody knows.

        Raises
        ------
        InputError
            If a guard counts who chose each step, and `sources` is not one for each.
        """
        if self.ask_after_failure and steps and steps[-1].success is False:
            return "after-failure"
        if self.max_in_a_row is None and self.max_share is None:
            return None
        if isinstance(sources, str) or len(sources or ()) != len(steps):
            came = "none" if sources is None else f"{sources!r}"
            raise InputError(
                f"these guards count who chose each step, got {came} for {len(steps)} "
                "(give one source for each, or use AgentRun)"
            )
        asked = [source in _ASKED for source in reversed(sources or ())]
        in_a_row = asked.index(True) if True in asked else len(asked)
        if self.max_in_a_row is not None and in_a_row >= self.max_in_a_row:
            return "in-a-row"
        predicted = asked.count(False)
        if self.max_share is not None and predicted + 1 > self.max_share * (len(asked) + 1):
            return "share"
        return None


class PredictableSteps:
    """Which share of the recent steps could have been predicted: the coverage.

    Each step counts with the confidence of the prediction made just before it was learned. It is
    compared with the lowest threshold of the policy, not with the present one, so that a
    falling threshold does not make itself fall further.
    """

    WINDOW = 500

    def __init__(self, recent: Iterable[bool] = ()) -> None:
        self._recent = deque(recent, maxlen=self.WINDOW)
        self._predictable = sum(self._recent)

    @property
    def share(self) -> float:
        """The coverage, in [0, 1]; 0 before the first step."""
        return self._predictable / len(self._recent) if self._recent else 0.0

    def add(self, predictable: bool) -> None:
        """Count one more step."""
        if len(self._recent) == self.WINDOW:
            self._predictable -= self._recent[0]
        self._recent.append(predictable)
        self._predictable += predictable

    def state(self) -> list[int]:
        """Return the steps, oldest first, as 0 and 1."""
        return [int(predictable) for predictable in self._recent]

    @classmethod
    def from_state(cls, state: Sequence[int]) -> PredictableSteps:
        """Return those whose `state` this is; TypeError or ValueError if it is not one."""
        if len(state) > cls.WINDOW or not {0, 1}.issuperset(state):
            raise ValueError(f"the recent steps are at most {cls.WINDOW} of 0 and 1")
        return cls(bool(predictable) for predictable in state)
