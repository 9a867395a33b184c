"""The figures of `scale`: what a ranking finds, and where a peer that only ranks draws the line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.peers.peer import Peer, best_threshold
from cnp_router.catalog import Catalog
from cnp_router.evaluation.evaluate import CALIBRATED
from cnp_router.evaluation.metrics import Ranking, ece, means, percentiles, set_scores
from cnp_router.history import Mashup
from cnp_router.routing import Router

__all__ = ["MOST_RECIPIENTS", "TARGET", "Lines", "peer_figures", "router_figures", "timed"]

TARGET = 0.9
MOST_RECIPIENTS = 1_000
_DEEPEST = 20  # ranks among which a threshold may fall
_FIRST = 10  # calls before those that are timed, where no others are given


class Lines:
    """Where a peer draws its lines, chosen on requests of the past that it has not learned.

    It recommends what reaches the score of the highest mean F1, and at least one. Its recipients
    are its first `depth`: as few as find a share of `TARGET` of the needed APIs in the mean, at
    most `MOST_RECIPIENTS`.
    """

    def __init__(self, peer: Peer, catalog: Catalog, asked: Sequence[Mashup]) -> None:
        judged = []
        found = np.zeros(MOST_RECIPIENTS)
        for mashup in asked:
            needed = [catalog.position(api) for api in dict.fromkeys(mashup.apis)]
            places, scores = peer.top(mashup.description, MOST_RECIPIENTS)
            hits = np.isin(places, needed)
            found[: len(hits)] += hits / len(needed)
            best, missed = hits[:_DEEPEST], len(needed) - int(hits[:_DEEPEST].sum())
            judged.append(
                (
                    np.append(scores[:_DEEPEST], np.full(missed, -np.inf)),
                    np.append(best, np.ones(missed, dtype=bool)),
                )
            )
        self.threshold = best_threshold(judged)
        recall = np.cumsum(found) / max(len(asked), 1)
        self.depth = min(int(np.searchsorted(recall, TARGET)) + 1, MOST_RECIPIENTS)


def peer_figures(
    peer: Peer, lines: Lines, catalog: Catalog, asked: Sequence[Mashup]
) -> dict[str, float]:
    """Return means over some requests."""
    ids, rows = catalog.ids, []
    for mashup in asked:
        places, scores = peer.top(mashup.description, MOST_RECIPIENTS)
        ranked = [ids[i] for i in places]
        n_best = max(int((scores >= lines.threshold).sum()), 1)
        rows.append(_row(mashup, ranked, ranked[:n_best], ranked[: lines.depth]))
    return means(rows)


def router_figures(router: Router, asked: Sequence[Mashup]) -> dict[str, float]:
    """Return means over some requests, each asked with its date.

    Beside those of a peer, how often the recipients cover all that is needed, how sure of that the
    router is, and the calibration error of the ten highest probabilities of each request.
    """
    rows = []
    given: list[float] = []
    used: list[bool] = []
    for mashup in asked:
        scores = router.score(mashup.description, date=mashup.date)
        routing = router.decide(mashup.description, scores)
        top = scores.top(_DEEPEST)
        row = _row(mashup, [api for api, _ in top], routing.recommendation, routing.contractors)
        row["covered"] = float(row["recipient_recall"] == 1)
        row["confidence"] = routing.confidence
        rows.append(row)
        given += [p for _, p in top[:CALIBRATED]]
        used += [api in mashup.apis for api, _ in top[:CALIBRATED]]
    return {**means(rows), "ece": ece(given, used)}


def timed(
    work: Callable[[Mashup], object], asked: Sequence[Mashup], *, warm_up: Sequence[Mashup] = ()
) -> dict[str, float]:
    """Return the milliseconds of a call with each mashup: p50 and p95, and p50 of the processor.

    Other work on the machine counts little in the latter; all threads of the process are in it.
    Before that come calls with others, `warm_up`, as of somebody who has been asked for a while.
    """
    for mashup in warm_up or asked[:_FIRST]:
        work(mashup)
    seconds, cpu = [], []
    for mashup in asked:
        began, processor = time.perf_counter(), time.process_time()
        work(mashup)
        cpu.append(time.process_time() - processor)
        seconds.append(time.perf_counter() - began)
    own = percentiles([1000 * one for one in cpu], (50,))
    return {**percentiles([1000 * one for one in seconds]), "cpu_p50": own["p50"]}


def _row(
    mashup: Mashup, ranked: Sequence[str], best: Sequence[str], recipients: Sequence[str]
) -> dict[str, float]:
    ranking = Ranking(ranked, mashup.apis)
    return {
        "recall@5": ranking.recall(5),
        "recall@20": ranking.recall(20),
        "f1": set_scores(best, mashup.apis).f1,
        "recipient_recall": set_scores(recipients, mashup.apis).recall,
        "mean_recipients": float(len(recipients)),
    }
