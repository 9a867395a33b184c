"""`learning_curve`: how good a router would be with less history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cnp_router.evaluation.evaluate import Evaluation, evaluate
from cnp_router.evaluation.table import Table, count, share
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.records import check_instance, check_number
from cnp_router.training import LearnedRouter, fit_router

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["LearningCurve", "LearningPoint", "learning_curve"]

SIZES = (0, 15, 60, 250, 1000)

Progress = Callable[[str, int, int], object]


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """What a router that was fitted on so many past mashups reaches.

    Parameters
    ----------
    mashups : int
    evaluation : Evaluation
    """

    mashups: int
    evaluation: Evaluation


@dataclass(frozen=True, repr=False)
class LearningCurve:
    """How good a router is with less history than it has.

    Parameters
    ----------
    points : tuple of LearningPoint
        By rising number of past mashups; each part holds all smaller ones, the last is everything.
    random_state : int
        Seed of the parts and the fits.
    """

    points: tuple[LearningPoint, ...]
    random_state: int

    def __repr__(self) -> str:
        recalls = ", ".join(
            f"{point.mashups:,}: {share(point.evaluation.ranking['recall@5'])}"
            for point in self.points
        )
        return f"LearningCurve(R@5 by mashups {recalls})"

    def table(self) -> Table:
        """Return the figures that one looks at first, a row for each size."""
        columns: dict[str, Callable[[LearningPoint], str]] = {
            "past mashups": lambda point: count(point.mashups),
            "recall, first 5": lambda point: share(point.evaluation.ranking["recall@5"]),
            "recall, first 20": lambda point: share(point.evaluation.ranking["recall@20"]),
            "F1": lambda point: share(point.evaluation.recommendation["f1"]),
            "recall of recipients": lambda point: share(point.evaluation.recipients["recall"]),
            "recipients": lambda point: count(point.evaluation.recipients["mean"], 1),
            "calibration error": lambda point: share(point.evaluation.calibration["ece"]),
        }
        return Table.of("", columns, self.points, labels=0)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as a JSON object: of each size, all of `Evaluation.to_dict`."""
        return {
            "random_state": self.random_state,
            "points": [
                {"mashups": point.mashups, **point.evaluation.to_dict()} for point in self.points
            ],
        }


def learning_curve(
    router: LearnedRouter,
    history: History,
    *,
    sizes: Iterable[int] = SIZES,
    n_jobs: int | None = None,
    scheduler: str | Client | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> LearningCurve:
    """Fit a router anew on nested parts of its history, and evaluate each on the same mashups.

    Says what more history would be worth. Each fit has the catalog, the encoder and the seed of
    the router; its parts are drawn at random.

    Parameters
    ----------
    router : LearnedRouter
        It stays as it is. Mashups that it has observed since it was fitted are history, too;
        those that name an API which was removed from its catalog are left out.
    history : History
        Mashups that the router has not learned from.
    sizes : iterable of int >= 0, default=(0, 15, 60, 250, 1000)
        Numbers of past mashups. Those beyond the history are left out, and all of it comes last.
    n_jobs : int, optional
        As in `fit_router`, and in `evaluate`.
    scheduler : str or distributed.Client, optional
        Likewise.
    progress : callable, optional
        Called with the size, the fits done and all fits, before each of them and at the end.
    **options
        As in `evaluate`.

    Returns
    -------
    LearningCurve

    Raises
    ------
    InputError
        If the router was fitted with an encoder and loaded without, a size is not a whole number,
        or as in `evaluate`.

    Examples
    --------
    >>> from cnp_router import load_sample
    >>> sample = load_sample()
    >>> router = fit_router(sample.catalog, sample.history[:60])
    >>> curve = learning_curve(router, sample.history[200:], sizes=[0, 20])
    >>> [point.mashups for point in curve.points]
    [0, 20, 60]
    >>> curve.points[-1].evaluation.requests == len(sample.history) - 200
    True
    """
    check_instance("router", router, LearnedRouter)
    dense = router.encoders.dense
    if dense is not None and dense.encoder is None:
        raise InputError(
            f"the router is fitted again with its encoder {dense.name!r} "
            "(give the encoder when it is loaded)"
        )
    past = router.history.known_to(router.catalog)
    given = {check_number("a size of the history", n, 0, whole=True) for n in sizes}
    wanted = [*sorted(n for n in given if n < len(past)), len(past)]
    random_state = int(router.summary["random_state"])
    order = np.random.default_rng(random_state).permutation(len(past))
    points = []
    for done, n in enumerate(wanted):
        if progress is not None:
            progress(f"{n:,} mashups", done, len(wanted))
        fitted = fit_router(
            router.catalog,
            History(past[i] for i in sorted(order[:n].tolist())),
            encoder=None if dense is None else dense.encoder,
            random_state=random_state,
            n_jobs=n_jobs,
            scheduler=scheduler,
        )
        fitted.compound = router.compound
        options |= {"n_jobs": n_jobs, "scheduler": scheduler}
        points.append(LearningPoint(n, evaluate(fitted, history, **options)))
    if progress is not None:
        progress("done", len(wanted), len(wanted))
    return LearningCurve(tuple(points), random_state)
