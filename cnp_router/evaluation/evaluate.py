"""`evaluate`: how a router does on mashups it has not learned from."""

from __future__ import annotations

import copy
import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cnp_router.catalog import Catalog
from cnp_router.evaluation.metrics import (
    SetScores,
    average_precision_at,
    brier,
    complete_at,
    ece,
    mean,
    ndcg_at,
    percentiles,
    recall_at,
    set_scores,
)
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.routing import Fallback, Router, TargetRecall

__all__ = ["Evaluation", "evaluate"]

_Metric = Callable[[Sequence[str], Sequence[str], int], float]

RANKING: tuple[tuple[str, _Metric, int], ...] = (
    *((f"recall@{k}", recall_at, k) for k in (5, 10, 20, 50, 100)),
    *((f"ndcg@{k}", ndcg_at, k) for k in (5, 10)),
    ("map@10", average_precision_at, 10),
    ("complete@20", complete_at, 20),
)
DEEPEST = max(k for _, _, k in RANKING)
CALIBRATED = 10
# Where the requests are scored by several workers, latency is measured afterwards on so many.
TIMED = 200


@dataclass(frozen=True)
class Evaluation:
    """The figures of one router on one history; each is a mean over the requests.

    Parameters
    ----------
    requests : int
        How many mashups were evaluated.
    skipped : int
        How many were not: they name an API that the router does not have.
    ranking : mapping
        ``recall@5 recall@10 recall@20 recall@50 recall@100 ndcg@5 ndcg@10 map@10 complete@20``:
        of the APIs used, in the router's order of all contractors.
    recommendation : mapping
        ``precision recall f1`` of the recommended set, ``mean_apis`` its size.
    categories : mapping
        ``precision recall f1`` of the predicted categories, against the categories of the APIs
        used (thesis, step 2), over the requests whose APIs have a category. None each where the
        router predicts no categories or the catalog has none.
    recipients : mapping
        ``target_recall``, the ``recall`` reached, ``mean``, ``p50`` and ``p95`` of their number,
        ``total`` number of contractors.
    calibration : mapping
        ``ece brier`` of each request's ten highest probabilities.
    fallback_rate : float in [0, 1]
        Share of the requests whose confidence is below the threshold.
    latency_ms : mapping
        ``p50 p95`` of `Router.route`, in milliseconds of wall time.
    category_apis : mapping
        ``precision recall f1`` of all APIs in the predicted categories, against the APIs used;
        None each as for `categories`. Not part of `to_dict`.
    """

    requests: int
    skipped: int
    ranking: Mapping[str, float]
    recommendation: Mapping[str, float]
    categories: Mapping[str, float | None]
    recipients: Mapping[str, float]
    calibration: Mapping[str, float]
    fallback_rate: float
    latency_ms: Mapping[str, float]
    category_apis: Mapping[str, float | None] = field(kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object; floats are rounded to six digits."""
        return {
            "requests": self.requests,
            "skipped": self.skipped,
            "ranking": _rounded(self.ranking),
            "recommendation": _rounded(self.recommendation),
            "categories": _rounded(self.categories),
            "recipients": _rounded(self.recipients),
            "calibration": _rounded(self.calibration),
            "fallback_rate": round(self.fallback_rate, 6),
            "latency_ms": _rounded(self.latency_ms),
        }


def evaluate(
    router: Router,
    history: History,
    *,
    target_recall: float = 0.9,
    threshold: float = 0.6,
    fallback: Literal["none", "broadcast"] | Fallback = "none",
    n_jobs: int | None = None,
) -> Evaluation:
    """Evaluate a router on mashups it has not learned from.

    Parameters
    ----------
    router : Router
        It is left as it is: these routings are not in its `source_counts`.
    history : History
        Mashups of which the router does not know every API are counted in ``skipped``. An API
        that comes twice in a mashup counts once.
    target_recall : float in (0, 1), default=0.9
        For the recipients.
    threshold : float in [0, 1], default=0.6
        Below this confidence the fallback decides.
    fallback : {"none", "broadcast"} or Fallback, default="none"
    n_jobs : int, optional
        Number of joblib workers that route; None means one, unless a joblib backend is active.
        With several, latency is measured afterwards, in this process and with nothing beside it,
        on at most 200 requests; with one, on every request. A request to warm up comes first and
        does not count.

    Returns
    -------
    Evaluation

    Raises
    ------
    InputError
        If there is no mashup whose APIs the router knows, or an option is out of range.

    Examples
    --------
    >>> from cnp_router.catalog import Api
    >>> from cnp_router.routing import PopularityRouter
    >>> catalog = Catalog([Api("maps", "Maps"), Api("sms", "SMS"), Api("mail", "Mail")])
    >>> past = History([Mashup("m1", "Rain map by text", ("maps", "sms")),
    ...                 Mashup("m2", "Where are my friends? Text me.", ("maps", "sms")),
    ...                 Mashup("m3", "Mail me a map", ("maps", "mail"))])
    >>> evaluation = evaluate(PopularityRouter(catalog, past[:2]), past[2:])
    >>> evaluation.requests, evaluation.ranking["recall@5"], evaluation.categories["f1"]
    (1, 1.0, None)
    >>> evaluation.recommendation["precision"], evaluation.recommendation["recall"]
    (0.5, 0.5)
    """
    apis = set(router.apis)
    mashups = [m for m in history if m.description.strip() and apis.issuperset(m.apis)]
    if not mashups:
        raise InputError(
            f"the router does not know all the APIs of any of the {len(history)} mashups "
            "(evaluate on mashups of its catalog)"
        )
    router = copy.copy(router)
    router.source_counts = Counter()
    task = _Task(TargetRecall(target_recall), threshold, fallback)
    outcomes = _in_parallel(router, mashups, task, n_jobs)
    probabilities = np.concatenate([o.probabilities for o in outcomes])
    labels = np.concatenate([o.labels for o in outcomes])
    counts = [o.n_recipients for o in outcomes]
    categories, category_apis = _category_scores(router, mashups)
    return Evaluation(
        requests=len(mashups),
        skipped=history.skipped + len(history) - len(mashups),
        ranking={
            name: mean([o.ranking[i] for o in outcomes]) for i, (name, _, _) in enumerate(RANKING)
        },
        recommendation={
            **_means([o.recommendation for o in outcomes]),
            "mean_apis": mean([o.n_recommended for o in outcomes]),
        },
        categories=categories,
        recipients={
            "target_recall": target_recall,
            "recall": mean([o.recipients.recall for o in outcomes]),
            "mean": mean(counts),
            **percentiles(counts),
            "total": len(router.apis),
        },
        calibration={"ece": ece(probabilities, labels), "brier": brier(probabilities, labels)},
        fallback_rate=mean([float(not o.is_confident) for o in outcomes]),
        latency_ms=percentiles([1000 * s for s in _seconds(router, mashups, task, outcomes)]),
        category_apis=category_apis,
    )


@dataclass(frozen=True, slots=True)
class _Task:
    select: TargetRecall
    threshold: float
    fallback: Literal["none", "broadcast"] | Fallback


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one request came to; small, since it travels between processes."""

    ranking: tuple[float, ...]
    recommendation: SetScores
    n_recommended: int
    recipients: SetScores
    n_recipients: int
    is_confident: bool
    probabilities: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    seconds: float | None


def _outcome(router: Router, mashup: Mashup, task: _Task, *, timed: bool) -> _Outcome:
    began = time.perf_counter()
    # What route does, and the scores of the same pass.
    scores = router.score(mashup.description)
    routing = router.decide(
        mashup.description,
        scores,
        select=task.select,
        threshold=task.threshold,
        fallback=task.fallback,
    )
    seconds = time.perf_counter() - began
    used = tuple(dict.fromkeys(mashup.apis))
    ranked = [router.apis[i] for i in scores.order[:DEEPEST]]
    return _Outcome(
        ranking=tuple(metric(ranked, used, k) for _, metric, k in RANKING),
        recommendation=set_scores(routing.recommendation, used),
        n_recommended=len(routing.recommendation),
        recipients=set_scores(routing.contractors, used),
        n_recipients=len(routing.recipients),
        is_confident=routing.is_confident,
        probabilities=scores.probabilities[scores.order[:CALIBRATED]],
        labels=np.isin(ranked[:CALIBRATED], used),
        seconds=seconds if timed else None,
    )


def _outcomes(
    router: Router, mashups: Sequence[Mashup], task: _Task, *, timed: bool = False
) -> list[_Outcome]:
    return [_outcome(router, mashup, task, timed=timed) for mashup in mashups]


def _in_parallel(
    router: Router, mashups: Sequence[Mashup], task: _Task, n_jobs: int | None
) -> list[_Outcome]:
    """Return the outcomes in the order of the mashups, timed if one worker did it all."""
    import joblib

    parallel = joblib.Parallel(n_jobs=n_jobs)
    workers = min(joblib.effective_n_jobs(parallel.n_jobs), len(mashups))
    if workers == 1:
        _outcome(router, mashups[0], task, timed=False)
        return _outcomes(router, mashups, task, timed=True)
    # One chunk a worker: sending the router to one costs more than routing a request.
    cuts = np.linspace(0, len(mashups), workers + 1).astype(int)
    chunks = parallel(
        joblib.delayed(_outcomes)(router, mashups[i:j], task) for i, j in itertools.pairwise(cuts)
    )
    return [outcome for chunk in chunks for outcome in chunk]


def _seconds(
    router: Router, mashups: Sequence[Mashup], task: _Task, outcomes: Sequence[_Outcome]
) -> list[float]:
    if outcomes[0].seconds is None:
        places = np.unique(np.linspace(0, len(mashups) - 1, min(len(mashups), TIMED)).astype(int))
        _outcome(router, mashups[0], task, timed=False)
        outcomes = _outcomes(router, [mashups[i] for i in places], task, timed=True)
    return [o.seconds for o in outcomes if o.seconds is not None]


def _category_scores(
    router: Router, mashups: Sequence[Mashup]
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Return the scores of the predicted categories, and of all the APIs in them."""
    nothing: dict[str, float | None] = {"precision": None, "recall": None, "f1": None}
    catalog: Catalog | None = getattr(router, "catalog", None)
    classifier: Any = getattr(router, "categories", None)
    if catalog is None or not hasattr(classifier, "predict"):
        return nothing, nothing
    truths = [{c for api in m.apis for c in catalog[api].categories} for m in mashups]
    known = [i for i, truth in enumerate(truths) if truth]
    if not known:
        return nothing, nothing
    predicted = classifier.predict([mashups[i].description for i in known])
    in_them = [[api.id for api in catalog.in_categories(chosen)] for chosen in predicted]
    return (
        {**_means([set_scores(p, truths[i]) for i, p in zip(known, predicted, strict=True)])},
        {**_means([set_scores(p, mashups[i].apis) for i, p in zip(known, in_them, strict=True)])},
    )


def _means(scores: Sequence[SetScores]) -> dict[str, float]:
    return {
        "precision": mean([s.precision for s in scores]),
        "recall": mean([s.recall for s in scores]),
        "f1": mean([s.f1 for s in scores]),
    }


def _rounded(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    return {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in figures.items()
    }
