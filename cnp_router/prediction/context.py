"""`ContextPredictor`: what followed in many contexts, mixed by weights learned online."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.prediction.calibrated import CalibratedPredictor, Decay, Judgement, Priors
from cnp_router.prediction.context_keys import (
    CONTEXTS,
    LOCAL_CONTEXTS,
    context_keys,
    local_followers,
)
from cnp_router.prediction.counts import ContextMemory, Followers
from cnp_router.prediction.predictor import Context, State
from cnp_router.records import check_number
from cnp_router.trajectories import Step

__all__ = ["ContextPredictor"]

_N_CONTEXTS = len(CONTEXTS) + len(LOCAL_CONTEXTS)
_LAST_TOOL = CONTEXTS.index("last tool")
# A context is trusted by how often it was observed, and by how much of that was one tool.
_AMOUNTS = np.array([1.5, 3.5])
_SHARES = np.array([0.7, 0.999])
_FIRST_TRUST = 0.1
# Candidates besides what the contexts name: the most used tools of all.
_MOST_USED = 10
# Strength, in observations, of the overall usage against what followed a context.
_SMOOTHING = 0.5


@dataclass(frozen=True, slots=True)
class _Mixed:
    """How a judgement came about: all that is needed to learn from it."""

    keys: list[int]
    places: dict[str, int]
    evidence: NDArray[np.float64]
    mixture: NDArray[np.float64]
    weights: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]


class ContextPredictor(CalibratedPredictor):
    """Predicts the next tool from the goal, the last tools, inputs and observations.

    Each of some twenty contexts (`cnp_router.prediction.context_keys`) remembers what followed
    it, the latest weighing most. Their opinions are multiplied, each raised to a weight that says
    how far a context of its kind is trusted, by how much it has observed and how unanimously:
    ``P(t) ~ P_0(t) * prod_i (P_i(t) / P_0(t)) ** w_i``, where ``P_0`` is the overall usage. The
    weights follow the gradient of the logarithmic loss after every step (AdaGrad). Tools that no
    context speaks for share one place, so the probabilities of the others sum to less than 1.

    Parameters
    ----------
    context_decay : float in (0, 1), default=0.8
        What is left of a context's counts when it is observed again.
    learning_rate : float > 0, default=0.05
        Of the weights.
    size : int >= 1, default=200000
        The most contexts remembered, at about 0.4 kB each.
    decay : Decay, default=Decay()
        Of the overall usage.
    priors : mapping of tool to mapping of tool to float > 0, optional
        Transitions believed in beforehand, in observations.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Hinton, "Training products of experts by minimizing contrastive divergence", Neural
    Computation 14(8), 2002, for the product. Mahoney, "Adaptive weighing of context models for
    lossless data compression", Florida Tech technical report CS-2005-16, for weights chosen by
    the state of the context. Duchi, Hazan and Singer, "Adaptive subgradient methods", JMLR 12,
    2011.

    Examples
    --------
    >>> from cnp_router.trajectories import Step, Trajectory
    >>> predictor = ContextPredictor()
    >>> for n in range(20):
    ...     sky, tool = ("rain", "sms") if n % 2 else ("sun", "mail")
    ...     steps = (Step("weather", observation=sky), Step(tool))
    ...     predictor.observe(Trajectory(f"t{n}", "Warn me of rain.", steps))
    >>> predictor.predict_next([Step("weather", observation="rain")]).tool
    'sms'
    """

    name = "context"

    def __init__(
        self,
        *,
        context_decay: float = 0.8,
        learning_rate: float = 0.05,
        size: int = 200_000,
        decay: Decay | None = None,
        priors: Priors | None = None,
    ) -> None:
        super().__init__(decay=decay, priors=priors)
        self.learning_rate = check_number("learning_rate", learning_rate, 0, ends=False)
        self._memory = ContextMemory(
            check_number("context_decay", context_decay, 0, 1, ends=False),
            check_number("size", size, 1, whole=True),
        )
        self._usage = Followers()
        shape = (_N_CONTEXTS, len(_AMOUNTS) + 1, len(_SHARES) + 1)
        self._trust = np.full(shape, _FIRST_TRUST)
        self._squares = np.full(shape, 0.01)
        for tool, follower, weight in self._prior_transitions():
            key = context_keys([Step(tool)], "")[_LAST_TOOL]
            self._memory.believe(key, follower, weight)
            self._usage.add(follower, weight)

    def _learned(self) -> State:
        return {
            "usage": dict(self._usage.counts),
            "usage_total": self._usage.total,
            "trust": self._trust.copy(),
            "squares": self._squares.copy(),
            **self._memory.state(),
        }

    def _take_over(self, state: Mapping[str, Any]) -> None:
        used = ((str(tool), float(n)) for tool, n in state["usage"].items())
        usage = Followers(used, float(state["usage_total"]))
        trust, squares = (_like(self._trust, state[name]) for name in ("trust", "squares"))
        self._memory.restore(state)
        self._usage, self._trust, self._squares = usage, trust, squares

    def _judge(self, steps: list[Step], context: Context) -> Judgement:
        keys = context_keys(steps, context.goal)
        rows = [self._memory.get(key) for key in keys]
        rows += local_followers(steps, self._memory.decay)
        speaking = [place for place, row in enumerate(rows) if row]
        places = self._candidates([rows[place] for place in speaking])
        base = self._base(places)
        counts = _matrix([rows[place] for place in speaking], places)
        totals = counts.sum(axis=1)
        shares = counts.max(axis=1, initial=0.0) / totals
        opinions = (counts + _SMOOTHING * base) / (totals + _SMOOTHING)[:, None]
        evidence = np.log(opinions / base)
        weights = (
            np.array(speaking, dtype=np.intp),
            _AMOUNTS.searchsorted(totals, side="right"),
            _SHARES.searchsorted(shares, side="right"),
        )
        scores = np.log(base) + self._trust[weights] @ evidence
        mixture = np.exp(scores - scores.max())
        mixture /= mixture.sum()
        # As (-probability, tool): ties go by id. With nothing learned, nothing is predicted.
        best = sorted(zip((-mixture[:-1]).tolist(), places, strict=True))
        ranked = [(tool, -negative) for negative, tool in best if self._usage.counts]
        return Judgement(ranked, _Mixed(keys, places, evidence, mixture, weights))

    def _candidates(self, rows: list[dict[str, float]]) -> dict[str, int]:
        """Return the tools somebody speaks for, each with its column."""
        used = [tool for tool, _ in self._usage.shortlist()[:_MOST_USED]]
        tools = dict.fromkeys(tool for row in (used, *rows) for tool in row)
        return {tool: place for place, tool in enumerate(tools)}

    def _base(self, places: dict[str, int]) -> NDArray[np.float64]:
        """Return the overall usage of the candidates and, last, of all other tools."""
        counts, kinds = self._usage.counts, len(self._usage.counts)
        # Witten and Bell: as much is left for tools never observed as there are observed ones.
        whole = self._usage.total + kinds + 1
        unseen = 0.5 / whole
        base = np.array([counts.get(tool, 0.0) / whole or unseen for tool in places] + [0.0])
        base[-1] = max(1.0 - base.sum(), unseen)
        return base

    def _learn(self, judgement: Judgement, tool: str, weight: float) -> None:
        mixed: _Mixed = judgement.basis
        came = mixed.places.get(tool, len(mixed.places))
        where = mixed.weights
        gradient = mixed.evidence @ mixed.mixture - mixed.evidence[:, came]
        self._squares[where] += weight * gradient * gradient
        self._trust[where] -= self.learning_rate * weight * gradient / np.sqrt(self._squares[where])
        self._memory.add(mixed.keys, tool, weight)
        self._usage.add(tool, weight)

    def _decay(self, factor: float) -> None:
        self._usage = self._usage.decayed(factor)


def _matrix(rows: list[dict[str, float]], places: dict[str, int]) -> NDArray[np.float64]:
    """Return how often each row has observed each candidate, and, last, nothing of the others."""
    counts = np.zeros((len(rows), len(places) + 1))
    lines = [line for line, row in enumerate(rows) for _ in row]
    columns = [places[tool] for row in rows for tool in row]
    counts[lines, columns] = [n for row in rows for n in row.values()]
    return counts


def _like(expected: NDArray[np.float64], value: Any) -> NDArray[np.float64]:
    array = np.array(value, dtype=float)
    if array.shape != expected.shape or not np.isfinite(array).all():
        raise ValueError(f"an array of shape {expected.shape} was expected, got {array.shape}")
    return array
