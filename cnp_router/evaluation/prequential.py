"""`prequential`: walk a log step by step, predict each from what came before it only, and learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.evaluation.metrics import (
    ReliabilityBin,
    RiskCoverage,
    ece,
    reliability,
    risk_coverage,
)
from cnp_router.exceptions import InputError
from cnp_router.prediction import PREDICTORS, NextToolPredictor
from cnp_router.prediction.predictor import lessons
from cnp_router.records import check_id, check_number, string_tuple
from cnp_router.trajectories import Trajectory

__all__ = [
    "THRESHOLDS",
    "AtThreshold",
    "PredictorEvaluation",
    "PrequentialEvaluation",
    "Window",
    "prequential",
]

THRESHOLDS = tuple(round(0.30 + 0.05 * n, 2) for n in range(14))
"""From .30 to .95 by .05."""

_WINDOWS = 20
_TARGET = 0.8  # accuracy that is worth acting upon


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """What a method predicts at or above a threshold, and what that saves.

    Parameters
    ----------
    threshold, coverage : float in [0, 1]
        Coverage is the share of the steps that are predicted, by a tool that is not excluded.
    accuracy : float in [0, 1] or None
        Share of the predicted steps that are right; None if none is predicted.
    tokens_saved, seconds_saved : float in [0, 1]
        Of the steps that are predicted and right, as a share of those of all steps.
    tokens_saved_net : float in [-1, 1]
        `tokens_saved`, less the share of the steps that are predicted and wrong.
    tokens_in_saved, tokens_out_saved : int, default=0
        Tokens of the steps that are predicted and right, for prices.
    """

    threshold: float
    coverage: float
    accuracy: float | None
    tokens_saved: float
    tokens_saved_net: float
    seconds_saved: float
    tokens_in_saved: int = 0
    tokens_out_saved: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """What a method predicted in some steps of a log that follow each other.

    Parameters
    ----------
    first : int >= 1
        The first of them, counted from the beginning of the log.
    n_steps : int >= 1
    coverage, accuracy, tokens_saved : float in [0, 1]
        As in `AtThreshold`, of these steps alone; `accuracy` is None where nothing was predicted.
    """

    first: int
    n_steps: int
    coverage: float
    accuracy: float | None
    tokens_saved: float


@dataclass(frozen=True, slots=True, repr=False)
class PredictorEvaluation:
    """How one predictor did: at each threshold asked for, and over all steps and predictions.

    Parameters
    ----------
    thresholds : tuple of AtThreshold
    calibration_error : float in [0, 1]
    risk_coverage : tuple of RiskCoverage
    shown_at : float in [0, 1] or None, default=None
        The threshold of `over_time`: that of `best`, which is known only at the end of the log; or
        the lowest one, where none is accurate enough.
    over_time : tuple of Window, default=()
        At most 20, of about the same number of steps, in the order of the log.
    reliability : tuple of ReliabilityBin, default=()
        Of the confidence of every prediction.
    """

    thresholds: tuple[AtThreshold, ...]
    calibration_error: float
    risk_coverage: tuple[RiskCoverage, ...]
    shown_at: float | None = None
    over_time: tuple[Window, ...] = ()
    reliability: tuple[ReliabilityBin, ...] = ()

    @property
    def predicts(self) -> bool:
        """Whether it predicted anything: `AlwaysAsk` does not."""
        return any(each.predicted > 0 for each in self.reliability)

    def best(self, accuracy: float = _TARGET, *, less_errors: bool = True) -> AtThreshold | None:
        """Return the best threshold at which what is predicted is right often enough.

        Parameters
        ----------
        accuracy : float in [0, 1], default=0.8
            Thresholds at which less than this share of the predicted steps is right are left out.
        less_errors : bool, default=True
            The best has the highest `tokens_saved_net`: a step predicted wrongly costs its tokens,
            for it has to be done again. Otherwise it has the highest `tokens_saved`, as if errors
            cost nothing: that is the lowest threshold that is accurate enough.

        Returns
        -------
        AtThreshold or None
            None where none is accurate enough.

        Examples
        --------
        >>> low = AtThreshold(0.3, 0.9, 0.8, 0.70, 0.45, 0.7)
        >>> high = AtThreshold(0.4, 0.8, 0.9, 0.65, 0.50, 0.6)
        >>> found = PredictorEvaluation((low, high), 0.02, ())
        >>> found.best().threshold, found.best(less_errors=False).threshold
        (0.4, 0.3)
        """
        return _best(self.thresholds, accuracy, less_errors=less_errors)

    def __repr__(self) -> str:
        best = self.best()
        saved = "nothing"
        if best is not None:
            saved = f"{best.tokens_saved_net:.3f} less errors at {best.threshold:.2f}"
        return f"PredictorEvaluation(saves {saved}, ECE {self.calibration_error:.3f})"


@dataclass(frozen=True, slots=True, repr=False)
class PrequentialEvaluation:
    """How predictors did on a log.

    Parameters
    ----------
    n_trajectories, n_steps, n_warm : int
        Trajectories and steps replayed, and trajectories learned from before.
    tokens, seconds : int, float
        Of all steps replayed.
    methods : dict of str to PredictorEvaluation
    exclude : tuple of str, default=()
        Tools whose prediction was not acted upon.
    tokens_in : int, default=0
        How many of `tokens` are input.
    """

    n_trajectories: int
    n_steps: int
    n_warm: int
    tokens: int
    seconds: float
    methods: dict[str, PredictorEvaluation]
    exclude: tuple[str, ...] = ()
    tokens_in: int = 0

    @property
    def best(self) -> tuple[str, AtThreshold] | None:
        """The method and threshold that save most: by `PredictorEvaluation.best`, if any is."""
        each = {name: at for name, m in self.methods.items() if (at := m.best()) is not None}
        return max(each.items(), key=lambda item: item[1].tokens_saved_net, default=None)

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        if not self.tokens:
            return "The log has no tokens, so what predictions would save cannot be weighed."
        if self.best is None:
            return (
                f"Act on no prediction yet: at none of these thresholds is {_TARGET:.0%} of what "
                "is predicted right."
            )
        name, at = self.best
        if at.tokens_saved_net <= 0:
            return "Act on no prediction: what is predicted wrongly costs as much as is saved."
        return (
            f"Act on {name} from a confidence of {at.threshold:.2f} on: where at least "
            f"{_TARGET:.0%} of what is predicted is right, this saves most tokens less errors, "
            f"{at.tokens_saved_net:.1%} of the log's; {at.coverage:.0%} of the steps are "
            f"predicted, {at.accuracy:.0%} of these rightly."
        )

    @property
    def tokens_out(self) -> int:
        """How many of `tokens` are output."""
        return self.tokens - self.tokens_in

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object; ``methods``: a name to a list, one object per threshold."""
        return {
            "trajectories": self.n_trajectories,
            "steps": self.n_steps,
            "warm": self.n_warm,
            "tokens": self.tokens,
            "tokens_in": self.tokens_in,
            "seconds": self.seconds,
            "exclude": list(self.exclude),
            "methods": {n: [asdict(at) for at in m.thresholds] for n, m in self.methods.items()},
            "calibration_error": {n: m.calibration_error for n, m in self.methods.items()},
            "risk_coverage": {
                n: [asdict(point) for point in m.risk_coverage] for n, m in self.methods.items()
            },
            "reliability": {
                n: [asdict(each) for each in m.reliability] for n, m in self.methods.items()
            },
            "over_time": {
                n: {"threshold": m.shown_at, "windows": [asdict(each) for each in m.over_time]}
                for n, m in self.methods.items()
            },
        }

    def __repr__(self) -> str:
        methods = ", ".join(self.methods)
        return f"PrequentialEvaluation({self.n_steps:,} steps, {methods})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(repr(method))}</td></tr>"
            for name, method in self.methods.items()
        )
        return f"<table><caption>{escape(repr(self))}</caption>{rows}</table>"


def prequential(
    predictors: Iterable[NextToolPredictor] | None,
    trajectories: Sequence[Trajectory],
    *,
    warm: Iterable[Trajectory] = (),
    thresholds: Sequence[float] = THRESHOLDS,
    exclude: Iterable[str] = (),
) -> PrequentialEvaluation:
    """Predict every step of a log from what came before it only, learning as it goes.

    A step is learned as soon as it was predicted, so the next step of the same trajectory is
    predicted with it known (prequential evaluation). A step marked as failed is not reinforced.
    Whether the whole trajectory failed is not known before its end, and so it does not matter
    here; it does in `warm`.

    Parameters
    ----------
    predictors : iterable of NextToolPredictor, or None
        With distinct names; None is a new one of each of `PREDICTORS`. They learn in place.
    trajectories : sequence of Trajectory
        What to replay, with at least one step.
    warm : iterable of Trajectory, default=()
        Learned from beforehand, in order.
    thresholds : sequence of float in [0, 1], default=THRESHOLDS
    exclude : iterable of str, default=()
        Tools whose prediction is not acted upon, such as the id under which calls are logged that
        could not be read. Their steps are learned, and count as steps.

    Returns
    -------
    PrequentialEvaluation

    Raises
    ------
    InputError
        If there is no step to replay, a name occurs twice, a threshold is out of range or
        `exclude` is one bare string.

    References
    ----------
    Dawid, "Present position and potential developments: the prequential approach", Journal of
    the Royal Statistical Society A 147(2), 1984.

    Examples
    --------
    >>> from cnp_router.trajectories import Step, Trajectory
    >>> steps = tuple(Step(t, input_tokens=10) for t in ("weather", "sms", "weather", "sms"))
    >>> log = [Trajectory(f"t{n}", "Rain?", steps) for n in range(10)]
    >>> result = prequential(None, log[5:], warm=log[:5], thresholds=[0.5])
    >>> result.methods["context"].thresholds[0].tokens_saved
    1.0
    >>> [window.coverage for window in result.methods["context"].over_time][:3]
    [1.0, 1.0, 1.0]
    """
    learners = [kind() for kind in PREDICTORS.values()] if predictors is None else list(predictors)
    names = [predictor.name for predictor in learners]
    if len(set(names)) < len(names):
        raise InputError(f"predictors must have distinct names, got {names!r}")
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    if not steps:
        raise InputError("there is no step to replay (give a trajectory with steps)")
    for threshold in thresholds:
        check_number("a threshold", threshold, 0, 1)
    ids = (check_id("tool", tool) for tool in string_tuple("exclude", exclude))
    left_out = tuple(dict.fromkeys(ids))
    before = list(warm)
    for predictor in learners:
        for trajectory in before:
            predictor.observe(trajectory)
    tokens_in = np.array([step.input_tokens for step in steps], dtype=float)
    tokens_out = np.array([step.output_tokens for step in steps], dtype=float)
    seconds = np.array([step.seconds for step in steps], dtype=float)

    def measured(predictor: NextToolPredictor) -> PredictorEvaluation:
        confidence, right, usable = _walk(predictor, trajectories, left_out)
        acted = np.where(usable, confidence, -1.0)
        at = tuple(_at(theta, acted, right, tokens_in, tokens_out, seconds) for theta in thresholds)
        best = _best(at, _TARGET)
        shown_at = best.threshold if best else min(thresholds, default=None)
        return PredictorEvaluation(
            thresholds=at,
            calibration_error=ece(confidence, right),
            risk_coverage=risk_coverage(np.where(usable, confidence, 0.0), right & usable),
            shown_at=shown_at,
            over_time=()
            if shown_at is None
            else _over_time(acted >= shown_at, right, tokens_in + tokens_out),
            reliability=reliability(confidence, right),
        )

    return PrequentialEvaluation(
        n_trajectories=len(trajectories),
        n_steps=len(steps),
        n_warm=len(before),
        tokens=sum(step.tokens for step in steps),
        seconds=sum(step.seconds for step in steps),
        methods={predictor.name: measured(predictor) for predictor in learners},
        exclude=left_out,
        tokens_in=sum(step.input_tokens for step in steps),
    )


def _walk(
    predictor: NextToolPredictor, trajectories: Sequence[Trajectory], exclude: tuple[str, ...]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return for each step what was claimed, whether it came, and whether one may act on it."""
    rows = []
    for trajectory in trajectories:
        for prefix, step, context, weight in lessons(trajectory, in_hindsight=False):
            answer = predictor.predict_next(prefix, context)
            may_act = answer.tool is not None and answer.tool not in exclude
            rows.append((answer.confidence, answer.tool == step.tool, may_act))
            predictor.observe_step(prefix, step, context, weight=weight)
        predictor.end_trajectory()
    confidence, right, usable = map(np.array, zip(*rows, strict=True))
    return confidence, right, usable


def _at(
    threshold: float,
    confidence: NDArray[Any],
    right: NDArray[Any],
    tokens_in: NDArray[Any],
    tokens_out: NDArray[Any],
    seconds: NDArray[Any],
) -> AtThreshold:
    tokens = tokens_in + tokens_out
    predicted = confidence >= threshold
    hits = predicted & right
    saved = _share(tokens, hits)
    return AtThreshold(
        threshold=threshold,
        coverage=float(predicted.mean()),
        accuracy=float(hits.sum() / predicted.sum()) if predicted.any() else None,
        tokens_saved=saved,
        tokens_saved_net=saved - _share(tokens, predicted & ~right),
        seconds_saved=_share(seconds, hits),
        tokens_in_saved=int(tokens_in[hits].sum()),
        tokens_out_saved=int(tokens_out[hits].sum()),
    )


def _best(
    thresholds: tuple[AtThreshold, ...], accuracy: float, *, less_errors: bool = True
) -> AtThreshold | None:
    good = [at for at in thresholds if at.accuracy is not None and at.accuracy >= accuracy]
    saved = attrgetter("tokens_saved_net" if less_errors else "tokens_saved")
    return max(good, key=saved, default=None)


def _over_time(
    predicted: NDArray[np.bool_], right: NDArray[np.bool_], tokens: NDArray[Any]
) -> tuple[Window, ...]:
    """Return what was predicted in each part of the log."""
    hits = predicted & right
    windows = []
    for steps in np.array_split(np.arange(len(predicted)), min(_WINDOWS, len(predicted))):
        acted, good = predicted[steps], hits[steps]
        windows.append(
            Window(
                first=int(steps[0]) + 1,
                n_steps=len(steps),
                coverage=float(acted.mean()),
                accuracy=float(good.sum() / acted.sum()) if acted.any() else None,
                tokens_saved=_share(tokens[steps], good),
            )
        )
    return tuple(windows)


def _share(amounts: NDArray[Any], chosen: NDArray[np.bool_]) -> float:
    total = float(amounts.sum())
    return float(amounts[chosen].sum()) / total if total > 0 else 0.0
