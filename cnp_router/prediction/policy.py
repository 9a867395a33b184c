"""`NextToolPolicy`: when a prediction is acted upon, and what a model is shown where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from cnp_router.exceptions import InputError
from cnp_router.llm import Usage
from cnp_router.prediction.predictor import Candidate, NextTool
from cnp_router.records import check_flag, check_id, check_number, string_tuple
from cnp_router.trajectories import Step

__all__ = ["NextToolPolicy", "RoutedTool", "Unsure"]

Unsure = Literal["cold-start", "unknown", "threshold", "in-a-row", "share", "after-failure"]

# Sources of a step that was not predicted: the model or the caller chose it.
_ASKED = frozenset({"llm", "none", "caller"})


@dataclass(frozen=True, slots=True, repr=False)
class RoutedTool(NextTool):
    """A next tool, and who decided on it: a `NextTool`, whose `tool` is the model's choice if any.

    `confidence` is that of `tool` as it was predicted, and `candidates` are what was predicted.

    Parameters
    ----------
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

    def _more_facts(self) -> Iterable[str]:
        if self.unsure:
            yield f"unsure={self.unsure!r}"
        yield f"threshold={self.threshold:.2f}"


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
    >>> NextToolPolicy.fixed(0.7, max_in_a_row=3).threshold(0.2)
    0.7
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
            check_number(name, getattr(self, name), least, whole=True)
        for name in ("first_threshold", "full_coverage"):
            check_number(name, getattr(self, name), 0, 1)
        check_number("last_threshold", self.last_threshold, 0, self.first_threshold)
        if not self.full_coverage:
            raise InputError("full_coverage must be a number above 0, got 0 (see max_share)")
        if self.max_in_a_row is not None:
            check_number("max_in_a_row", self.max_in_a_row, 0, whole=True)
        if self.max_share is not None:
            check_number("max_share", self.max_share, 0, 1)
        check_flag("ask_after_failure", self.ask_after_failure)
        exclude = (check_id("tool", tool) for tool in string_tuple("exclude", self.exclude))
        object.__setattr__(self, "exclude", tuple(exclude))

    @classmethod
    def fixed(cls, threshold: float, **others: Any) -> Self:
        """Return a policy whose threshold never changes, without a cold start."""
        bounds = {"first_threshold": threshold, "last_threshold": threshold}
        return cls(**{"ask_first": 0, **bounds, **others})

    @classmethod
    def autotool(cls, **others: Any) -> Self:
        """Return the limits of AutoTool's released agent: one in a row, and three in ten."""
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

        `n_trajectories` have been observed so far; `guard` is what that method gave.
        """
        if not candidates:
            return "unknown"
        if n_trajectories < self.ask_first:
            return "cold-start"
        return guard or ("threshold" if candidates[0].probability < threshold else None)

    def guard(self, steps: Sequence[Step], sources: Sequence[str] | None) -> Unsure | None:
        """Return the guard that refuses to act on a prediction after `steps`, or None.

        `sources` say who chose each step, as in `RoutedTool.source`; ``"llm"``, ``"none"`` and
        ``"caller"`` count as not predicted. InputError if a guard needs them and has not got
        one for each step.
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
        predicted = [source not in _ASKED for source in sources or ()]
        in_a_row = [*predicted[::-1], False].index(False)
        if self.max_in_a_row is not None and in_a_row >= self.max_in_a_row:
            return "in-a-row"
        if self.max_share is not None:
            most = self.max_share * (len(predicted) + 1)
            return "share" if sum(predicted) + 1 > most else None
        return None
