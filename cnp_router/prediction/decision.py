"""`RoutedTool` and `RouterSettings`: what a `NextToolRouter` answers, and by which rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cnp_router.exceptions import InputError
from cnp_router.llm import Usage
from cnp_router.prediction.base import NextTool
from cnp_router.prediction.guards import Guard, Guards
from cnp_router.prediction.schedule import Schedule
from cnp_router.records import check_id, string_tuple

__all__ = ["RoutedTool", "RouterSettings", "Unsure"]

Unsure = Literal["cold-start", "unknown", "threshold"] | Guard


@dataclass(frozen=True, slots=True)
class RoutedTool(NextTool):
    """A next tool, and who decided on it.

    Parameters
    ----------
    tool : str or None
        The model's choice; without one, the most probable tool. None if nothing is known.
    confidence : float in [0, 1]
        Calibrated probability that `tool` is right, as foretold: where the model chose another
        tool than the first candidate, that of its choice.
    candidates : tuple of Candidate
        What was foretold.
    source : str
        The predictor's name: act on it. ``"llm"``: the model chose it. ``"none"``: nobody
        decided, the caller has to.
    unsure : str or None
        Why the prediction was not acted upon: ``"cold-start"``, ``"unknown"`` (nothing is
        known), ``"threshold"`` (the confidence is below it), or the guard that refused:
        ``"in-a-row"``, ``"share"``, ``"after-failure"``. None if it was.
    threshold : float in [0, 1]
        θ at that moment.
    invented : tuple of str
        What the model named although there is no such tool; `source` is ``"none"`` then.
    usage : Usage or None
        What asking the model has cost.
    """

    unsure: Unsure | None = None
    threshold: float = 0.0
    invented: tuple[str, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """When a prediction is acted upon, and what the model is shown.

    Parameters
    ----------
    schedule : Schedule, default=Schedule()
        Cold start and threshold.
    guards : Guards, default=Guards()
    offered : int >= 1, default=3
        Candidates that the model is shown with their probabilities.
    listed : int >= 1, default=50
        Specifications that it is shown. Of more tools than that, it is shown the candidates and
        those that share most words with the goal; it may name any.
    exclude : tuple of str, default=()
        Tools that are learned like others, but never foretold or chosen, such as the id under
        which calls are logged that could not be read. Without the first candidate the next one is
        taken, with the probability it had.

    Raises
    ------
    InputError
        If a number is out of range, or `exclude` is not several ids.
    """

    schedule: Schedule = field(default_factory=Schedule)
    guards: Guards = field(default_factory=Guards)
    offered: int = 3
    listed: int = 50
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "exclude", string_tuple("exclude", self.exclude))
        for tool in self.exclude:
            check_id("tool", tool)
        for name in ("offered", "listed"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)!r}")
