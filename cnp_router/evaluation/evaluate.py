"""`evaluate`: how a router does on mashups it has not learned from."""

from __future__ import annotations

import copy
import datetime
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cnp_router.catalog import Catalog
from cnp_router.cluster import working
from cnp_router.evaluation.curves import (
    LATENCY_LEVELS,
    EvaluationCurves,
    by_confidence,
    by_depth,
    by_threshold,
    n_reached,
)
from cnp_router.evaluation.figure_words import GROUPS, worded
from cnp_router.evaluation.metrics import (
    RANKING,
    Ranking,
    brier,
    ece,
    means,
    percentiles,
    reliability,
    rounded,
    set_scores,
)
from cnp_router.evaluation.parallel import in_order
from cnp_router.evaluation.table import Table, count, share
from cnp_router.evaluation.uncertainty import standard_error
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.records import check_flag, check_instance
from cnp_router.routing import Fallback, Router, Scores, TargetRecall

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Evaluation", "RequestFigures", "evaluate", "request_figures"]

DEEPEST = max(k for _, k in RANKING.values())
CALIBRATED = 10
# Where the requests are scored by several workers, latency is measured afterwards on so many.
TIMED = 200


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The figures of one router on one history; each is a mean over the requests.

    Parameters
    ----------
    requests : int
        How many mashups were evaluated.
    skipped : int
        How many were not: they name an API that the router does not have, or describe nothing.
    dated : bool
        Whether each mashup that has a date was asked as of that day.
    with_date : int
        How many of the mashups evaluated have a date.
    days : tuple of two dates, or None
        The first and the last of these dates; None if none has one.
    n_mashups : int or None
        How many past requests the router learned from; None where it does not say.
    learned_from : int or None
        How many of the mashups evaluated are among those the router learned from: with the same
        text, but for case and white space, or with the same id and the same APIs. Figures of these
        say nothing about later requests. None where the router keeps no history.
    ranking : mapping
        ``recall@5 recall@10 recall@20 recall@50 recall@100 ndcg@5 ndcg@10 map@10 complete@20``:
        of the APIs used, in the router's order of all APIs; those in `metrics.RANKING`.
    recommendation : mapping
        ``precision recall f1`` of the recommended set, ``mean_apis`` its size.
    categories : mapping
        ``precision recall f1`` of the predicted categories, against the categories of the APIs
        used (thesis, step 2), over the requests whose APIs have a category. None each where the
        router predicts no categories or the catalog has none.
    recipients : mapping
        ``target_recall``, the ``recall`` reached, ``mean``, ``p50`` and ``p95`` of the number of
        APIs routed to, ``total`` number of APIs.
    calibration : mapping
        ``ece brier`` of each request's ten highest probabilities.
    threshold : float in [0, 1]
        Below this confidence the fallback decided.
    fallback_rate : float in [0, 1]
        Share of the requests whose confidence is below the threshold.
    complete_if_sure : float in [0, 1] or None
        Of the other requests, the share whose recipients hold all that was used; None if there are
        none. That of other thresholds is in `curves`.
    nothing_fits_rate : float in [0, 1]
        Share of the requests of which the router says that nothing fits them. What comes nearest
        is measured of these, too, and is not to be used: `Router.recommend` returns nothing.
    latency_ms : mapping
        ``p50 p95`` of `Router.route`, in milliseconds of wall time.
    category_apis : mapping
        ``precision recall f1`` of all APIs in the predicted categories, against the APIs used;
        None each as for `categories`. Not part of `to_dict`.
    standard_errors : mapping
        Of the means in `ranking`, `recommendation` and `recipients` (``recall mean``), by the same
        names: how far they are off by chance alone; None each of one request. Not part of
        `to_dict`.
    curves : EvaluationCurves
        What is drawn: recall by recipients, reliability, latency. Not part of `to_dict`; it has
        one of its own.
    """

    requests: int
    skipped: int
    dated: bool
    with_date: int
    days: tuple[datetime.date, datetime.date] | None
    n_mashups: int | None
    learned_from: int | None
    ranking: Mapping[str, float]
    recommendation: Mapping[str, float]
    categories: Mapping[str, float | None]
    recipients: Mapping[str, float]
    calibration: Mapping[str, float]
    threshold: float
    fallback_rate: float
    complete_if_sure: float | None
    nothing_fits_rate: float
    latency_ms: Mapping[str, float]
    category_apis: Mapping[str, float | None] = field(kw_only=True)
    standard_errors: Mapping[str, Mapping[str, float | None]] = field(kw_only=True)
    curves: EvaluationCurves = field(kw_only=True)

    def __repr__(self) -> str:
        figures = f"R@5 {share(self.ranking['recall@5'])}, R@20 {share(self.ranking['recall@20'])}"
        f1, error = share(self.recommendation["f1"]), share(self.calibration["ece"])
        return f"Evaluation({self.requests:,} requests, {figures}, F1 {f1}, ECE {error})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    @property
    def learned_from_note(self) -> str:
        """What one has to know where requests are among those learned from, else nothing."""
        if not self.learned_from:
            return ""
        known = f"{self.learned_from:,} of {self.requests:,} requests"
        if 2 * self.learned_from >= self.requests:
            use = "the figures are of no use, for the router has seen the answers"
        else:
            use = "the figures are better than they will be, for the router has seen these answers"
        return (
            f"{known} are among those the model learned from: {use} "
            "(evaluate on requests that it was not fitted on)"
        )

    def table(self) -> Table:
        """Return all figures, a row each, with what they are in words and their names in JSON."""
        result = self.to_dict()
        rows = [
            (group.short, words, key, _shown(name, key, value))
            for name, group in GROUPS.items()
            for key, words, value in worded(result, name)
        ]
        sure = "Requests that are not sure"
        below = f"share of them whose confidence is below {self.threshold:g}"
        rows.append((sure, below, "fallback_rate", share(self.fallback_rate)))
        others = "of the others, share whose recipients hold all"
        rows.append((sure, others, "complete_if_sure", share(self.complete_if_sure)))
        none = "share of all of which nothing is said to fit, but what comes nearest is measured"
        rows.append((sure, none, "nothing_fits_rate", share(self.nothing_fits_rate)))
        columns = ("of", "figure", "name in JSON", "value")
        return Table(self._title(), columns, tuple(rows), labels=3)

    def _title(self) -> str:
        skipped = f"{self.skipped:,} more left out" if self.skipped else "none left out"
        dates = f"{self.with_date:,} have a date" if self.with_date else "none has a date"
        asked = ", and were asked as of that day" if self.dated else ", which was not given"
        return f"{self.requests:,} requests, {skipped}; {dates}{asked if self.with_date else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object; floats are rounded to six digits."""
        groups = ("ranking", "recommendation", "categories", "recipients", "calibration")
        sure = self.complete_if_sure
        return {
            "requests": self.requests,
            "skipped": self.skipped,
            "dated": self.dated,
            "with_date": self.with_date,
            "days": None if self.days is None else [day.isoformat() for day in self.days],
            "n_mashups": self.n_mashups,
            "learned_from": self.learned_from,
            **{name: rounded(getattr(self, name)) for name in groups},
            "threshold": self.threshold,
            "fallback_rate": round(self.fallback_rate, 6),
            "complete_if_sure": None if sure is None else round(sure, 6),
            "nothing_fits_rate": round(self.nothing_fits_rate, 6),
            "latency_ms": rounded(self.latency_ms),
        }


def evaluate(
    router: Router,
    history: History,
    *,
    target_recall: float = 0.9,
    threshold: float = 0.6,
    fallback: Literal["none", "broadcast"] | Fallback = "none",
    dated: bool = True,
    n_jobs: int | None = None,
    scheduler: str | Client | None = None,
) -> Evaluation:
    """Evaluate a router on mashups it has not learned from.

    Parameters
    ----------
    router : Router
        It is left as it is: these routings are not in its `source_counts`.
    history : History
        Mashups of which the router does not know every API are counted in ``skipped``. An API
        that comes twice in a mashup counts once. Those that the router learned from are evaluated
        too, and counted in ``learned_from``.
    target_recall : float in (0, 1), default=0.9
        For the recipients.
    threshold : float in [0, 1], default=0.6
        Below this confidence the fallback decides.
    fallback : {"none", "broadcast"} or Fallback, default="none"
    dated : bool, default=True
        Ask each mashup as of its date. Where that is within the time of what the router learned
        from, the router knows mashups later than the request too. False: no date is given.
    n_jobs : int, optional
        Number of joblib workers that route; None means one, unless a joblib backend is active.
        With several, latency is measured afterwards, in this process and with nothing beside it,
        on at most 200 requests; with one, on every request. A request to warm up comes first and
        does not count.
    scheduler : str or distributed.Client, optional
        Of a Dask cluster, whose workers do it instead, as in `fit_router`. Each is sent
        the whole router.

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
    check_instance("router", router, Router)
    check_instance("history", history, History)
    check_flag("dated", dated)
    apis = set(router.apis)
    mashups = [m for m in history if m.description.strip() and apis.issuperset(m.apis)]
    if not mashups:
        raise InputError(
            f"none of the {len(history)} mashups has a description, and only APIs that the router "
            "knows (evaluate on mashups of its catalog)"
        )
    router = copy.copy(router)
    router.source_counts = Counter()
    select = TargetRecall(target_recall)
    routed = partial(
        request_figures,
        router,
        dated=dated,
        select=select,
        threshold=threshold,
        fallback=fallback,
    )
    routed(mashups[0])  # to warm up
    with working(n_jobs, scheduler) as pool:
        results = timed = in_order(routed, pool)(mashups)
        is_shared = pool.is_remote or min(pool.n_workers, len(mashups)) > 1
    if is_shared:
        some = np.unique(np.linspace(0, len(mashups) - 1, min(len(mashups), TIMED)).astype(int))
        timed = [routed(mashups[i]) for i in some]
    probabilities = np.concatenate([r.probabilities for r in results])
    labels = np.concatenate([r.labels for r in results])
    places = [r.places for r in results]
    latencies = [1000 * r.seconds for r in timed]
    categories, category_apis = _category_scores(router, mashups)
    days = [mashup.date for mashup in mashups if mashup.date is not None]
    confidences = by_confidence(
        [r.confidence for r in results], [r.is_complete for r in results], threshold
    )
    return Evaluation(
        requests=len(mashups),
        skipped=history.skipped + len(history) - len(mashups),
        dated=dated,
        with_date=len(days),
        days=(min(days), max(days)) if days else None,
        n_mashups=router.n_mashups,
        learned_from=n_learned_from(router, mashups),
        ranking=means([r.ranking for r in results]),
        recommendation=means([r.recommendation for r in results]),
        categories=categories,
        recipients={
            "target_recall": target_recall,
            **means([r.recipients for r in results]),
            **percentiles([r.recipients["mean"] for r in results]),
            "total": len(router.apis),
        },
        calibration={"ece": ece(probabilities, labels), "brier": brier(probabilities, labels)},
        threshold=threshold,
        fallback_rate=sum(not r.is_confident for r in results) / len(results),
        complete_if_sure=next(p.complete for p in confidences if p.threshold == threshold),
        nothing_fits_rate=sum(not r.fits for r in results) / len(results),
        latency_ms=percentiles(latencies),
        category_apis=category_apis,
        standard_errors={
            "ranking": _standard_errors([r.ranking for r in results]),
            "recommendation": _standard_errors([r.recommendation for r in results]),
            "recipients": _standard_errors([r.recipients for r in results]),
        },
        curves=EvaluationCurves(
            thresholds=by_threshold(places, [r.n_reached for r in results]),
            depths=by_depth(places, len(router.apis)),
            reliability=reliability(probabilities, labels),
            confidences=confidences,
            latency_ms=percentiles(latencies, LATENCY_LEVELS),
        ),
    )


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """The figures of one request, as in `Evaluation`; small, for it travels between processes.

    `places` says how many APIs come before each one used, `n_reached` how many recipients each
    threshold of `EvaluationCurves` gives; empty where there are no probabilities. `is_complete`
    says whether the recipients hold all that was used, as the router chose them itself, and `fits`
    whether it says that anything fits.
    """

    ranking: Mapping[str, float]
    recommendation: Mapping[str, float]
    recipients: Mapping[str, float]
    is_confident: bool
    probabilities: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    places: Mapping[str, int]
    seconds: float
    n_reached: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    confidence: float = 0.0
    is_complete: bool = False
    fits: bool = True


def request_figures(
    router: Router, mashup: Mashup, *, dated: bool = True, **how: Any
) -> RequestFigures:
    """Route one request, with the options of `Router.decide`, and measure the answer."""
    began = time.perf_counter()
    # What route does, and the scores of the same pass.
    scores = router.score(mashup.description, date=mashup.date if dated else None)
    routing = router.decide(mashup.description, scores, **how)
    seconds = time.perf_counter() - began
    ranked = [router.apis[i] for i in scores.order[:DEEPEST]]
    ranking = Ranking(ranked, mashup.apis)
    recommended = set_scores(routing.recommendation, mashup.apis)
    recall = set_scores(routing.contractors, mashup.apis).recall
    own = routing
    if routing.source != "learned":  # the confidence is that of what the router chose itself
        own = router.decide(mashup.description, scores, **{**how, "fallback": "none"})
    return RequestFigures(
        ranking={name: metric(ranking, k) for name, (metric, k) in RANKING.items()},
        recommendation={**recommended.to_dict(), "mean_apis": len(routing.recommendation)},
        recipients={"recall": recall, "mean": routing.n_recipients},
        is_confident=routing.is_confident,
        probabilities=scores.probabilities[scores.order[:CALIBRATED]],
        labels=np.isin(ranked[:CALIBRATED], mashup.apis),
        places=_places(router, scores, mashup),
        seconds=seconds,
        n_reached=n_reached(scores.probabilities[scores.order]),
        confidence=routing.confidence,
        is_complete=set(own.contractors).issuperset(mashup.apis),
        fits=own.fits,
    )


def _standard_errors(figures: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    """Return the standard error of the mean of each figure; None of one request."""
    return {name: standard_error([each[name] for each in figures]) for name in figures[0]}


def n_learned_from(router: Router, mashups: Sequence[Mashup]) -> int | None:
    """Return how many mashups are in the router's own history; None if it keeps none."""
    past = getattr(router, "history", None)
    if not isinstance(past, History):
        return None
    used = {mashup.id: set(mashup.apis) for mashup in past}
    return sum(bool(past.asked(m.description)) or used.get(m.id) == set(m.apis) for m in mashups)


def _places(router: Router, scores: Scores, mashup: Mashup) -> dict[str, int]:
    used = set(mashup.apis)
    ranked = (router.apis[i] for i in scores.order)
    return {api: place for place, api in enumerate(ranked) if api in used}


def _category_scores(
    router: Router, mashups: Sequence[Mashup]
) -> tuple[Mapping[str, float | None], Mapping[str, float | None]]:
    """Return the scores of the predicted categories, and of all the APIs in them."""
    nothing = dict.fromkeys(("precision", "recall", "f1"))
    catalog: Catalog | None = getattr(router, "catalog", None)
    classifier: Any = getattr(router, "categories", None)
    if catalog is None or not hasattr(classifier, "predict"):
        return nothing, nothing
    truths = [{c for api in m.apis for c in catalog[api].categories} for m in mashups]
    known = [(mashup, truth) for mashup, truth in zip(mashups, truths, strict=True) if truth]
    if not known:
        return nothing, nothing
    of_categories, of_apis = [], []
    predicted = classifier.predict([mashup.description for mashup, _ in known])
    for (mashup, truth), chosen in zip(known, predicted, strict=True):
        of_categories.append(set_scores(chosen, truth).to_dict())
        of_apis.append(set_scores(catalog.ids_in(chosen), mashup.apis).to_dict())
    return means(of_categories), means(of_apis)


def _shown(group: str, name: str, value: float | None) -> str:
    is_share = group not in ("recipients", "latency_ms") or name in ("target_recall", "recall")
    if is_share and name != "mean_apis":
        return share(value)
    return count(value, 0 if name == "total" else 1)
