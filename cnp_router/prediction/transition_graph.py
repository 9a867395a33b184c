"""Predictors from the transition graph: first order, and higher orders with backoff."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.prediction.calibrated import CalibratedPredictor, Decay, Judgement, Priors
from cnp_router.prediction.counts import Followers
from cnp_router.prediction.predictor import Context, State
from cnp_router.records import check_number
from cnp_router.trajectories import Step

__all__ = ["BackoffPredictor", "FirstOrderPredictor"]

# Stands before the first step. No tool can be called this: ids are not blank.
_START = ""

Suffix = tuple[str, ...]


class BackoffPredictor(CalibratedPredictor):
    """The transition graph of higher order: what followed the last few tools, backing off.

    Each order is smoothed by the next shorter one with Witten and Bell's estimate:
    ``P(t | s) = (count(s -> t) + T(s) * P(t | shorter s)) / (count(s) + T(s))``, where ``T(s)``
    is the number of tools that followed ``s``. The shortest order looks at no tool.

    Parameters
    ----------
    order : int >= 1, default=3
        How many tools to look back.
    decay : Decay, default=Decay()
    priors : mapping of tool to mapping of tool to float > 0, optional
        Transitions believed in beforehand, in observations.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Witten and Bell, "The zero-frequency problem", IEEE Transactions on Information Theory
    37(4), 1991.

    Examples
    --------
    >>> from cnp_router.trajectories import Step, Trajectory
    >>> predictor = BackoffPredictor()
    >>> for n in range(4):
    ...     tools = ("weather", "maps", "sms", "weather", "maps", "mail")
    ...     predictor.observe(Trajectory(f"t{n}", "Rain?", tuple(map(Step, tools))))
    >>> predictor.predict_next(["sms", "weather", "maps"]).tool
    'mail'
    """

    name = "backoff"
    # Of how many tools the shortest suffix is that is counted.
    _shortest = 0

    def __init__(
        self, order: int = 3, *, decay: Decay | None = None, priors: Priors | None = None
    ) -> None:
        super().__init__(decay=decay, priors=priors)
        self.order = check_number("order", order, 1, whole=True)
        self._counts: dict[Suffix, Followers] = {}
        for tool, follower, weight in self._prior_transitions():
            self._add((s for s in self._suffixes([tool]) if len(s) <= 1), follower, weight)

    def _learned(self) -> State:
        rows = [[list(s), dict(f.counts), f.total] for s, f in self._counts.items()]
        return {"order": self.order, "counts": rows}

    def _take_over(self, state: Mapping[str, Any]) -> None:
        if int(state["order"]) != self.order:
            raise InputError(
                f"what was learned is of order {state['order']!r}, and this predictor of order "
                f"{self.order!r} (give the same order, or observe again in a new file)"
            )
        self._counts = {
            tuple(map(str, suffix)): Followers(
                ((str(tool), float(n)) for tool, n in counts.items()), float(total)
            )
            for suffix, counts, total in state["counts"]
        }

    def _suffixes(self, tools: Sequence[str]) -> tuple[Suffix, ...]:
        padded = (_START, *tools[-self.order :])[-self.order :]
        return tuple(padded[len(padded) - n :] for n in range(len(padded), self._shortest - 1, -1))

    def _judge(self, steps: list[Step], context: Context) -> Judgement:
        suffixes = self._suffixes([step.tool for step in steps[-self.order :]])
        probabilities = self._probabilities(suffixes)
        ranked = sorted(probabilities.items(), key=lambda pair: (-pair[1], pair[0]))
        return Judgement(ranked, suffixes)

    def _learn(self, judgement: Judgement, tool: str, weight: float) -> None:
        self._add(judgement.basis, tool, weight)

    def _add(self, suffixes: Iterable[Suffix], tool: str, weight: float) -> None:
        for suffix in suffixes:
            self._counts.setdefault(suffix, Followers()).add(tool, weight)

    def _decay(self, factor: float) -> None:
        rows = ((suffix, row.decayed(factor)) for suffix, row in self._counts.items())
        self._counts = {suffix: row for suffix, row in rows if row.counts}

    def _probabilities(self, suffixes: tuple[Suffix, ...]) -> dict[str, float]:
        """Return the raw probabilities after the suffixes, the longest of which is first."""
        probabilities: dict[str, float] = {}
        for suffix in reversed(suffixes):
            row = self._counts.get(suffix)
            if row is None:
                continue
            kinds = len(row.counts)
            whole = row.total + kinds
            probabilities = {t: kinds * p / whole for t, p in probabilities.items()}
            for tool, n in row.shortlist():
                probabilities[tool] = probabilities.get(tool, 0.0) + n / whole
        return probabilities


class FirstOrderPredictor(BackoffPredictor):
    """The transition graph as it stands: the most frequent follower of the last tool.

    ``P(t_j | t_i) = count(t_i -> t_j) / sum_k count(t_i -> t_k)``; the prediction is its
    maximum, the confidence that maximum, calibrated. The start of a trajectory counts as a tool.

    Parameters
    ----------
    decay : Decay, default=Decay()
    priors : mapping of tool to mapping of tool to float > 0, optional
        Transitions believed in beforehand, in observations.

    References
    ----------
    Jia and Li, "AutoTool: Efficient Tool Selection for Large Language Model Agents", AAAI 2026.

    Examples
    --------
    >>> from cnp_router.trajectories import Step, Trajectory
    >>> predictor = FirstOrderPredictor()
    >>> for n in range(4):
    ...     predictor.observe(Trajectory(f"t{n}", "Rain?", (Step("weather"), Step("sms"))))
    >>> predictor.predict_next(["weather"]).tool
    'sms'
    >>> predictor.predict_next(["telex"]).tool is None
    True
    """

    name = "first-order"
    _shortest = 1

    def __init__(self, *, decay: Decay | None = None, priors: Priors | None = None) -> None:
        super().__init__(1, decay=decay, priors=priors)

    def _probabilities(self, suffixes: tuple[Suffix, ...]) -> dict[str, float]:
        row = self._counts.get(suffixes[0])
        return {} if row is None else {tool: n / row.total for tool, n in row.shortlist()}
