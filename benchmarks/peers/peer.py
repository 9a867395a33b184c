"""What a peer is, and how one that only ranks gets a set: by a threshold on its scores."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.catalog import Catalog
from cnp_router.evaluation.evaluate import RequestFigures
from cnp_router.evaluation.metrics import RANKING, Ranking, means, percentiles, set_scores
from cnp_router.history import History, Mashup

__all__ = ["FittedPeer", "Peer", "best", "best_threshold"]

_FOLDS = 3
_JUDGED = 1000  # requests out of fold
_DEEPEST = 20  # ranks among which a threshold may fall


class Peer(ABC):
    """Another library, as its authors recommend to use it. It knows no dates."""

    @abstractmethod
    def fit(self, catalog: Catalog, history: History) -> None:
        """Learn, from at least one mashup if it needs history. It may be called again."""

    @abstractmethod
    def scores(self, request: str) -> NDArray[Any]:
        """Return an array of shape (n_apis,) in the order of the catalog: higher is better."""

    def top(self, request: str, k: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return positions and scores of its `k` best, best first; fewer if it ranks no more."""
        return best(self.scores(request), k)


def best(scores: NDArray[Any], k: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the places and values of the `k` highest above 0; equal ones in their order.

    Examples
    --------
    >>> best(np.array([0.2, 0.0, 0.7, 0.2]), 2)
    (array([2, 0]), array([0.7, 0.2]))
    """
    places = np.flatnonzero(scores > 0)
    if k < len(places):
        values = scores[places]
        least = np.partition(values, len(values) - k)[len(values) - k]
        above, equal = places[values > least], places[values == least]
        places = np.sort(np.concatenate([above, equal[: k - len(above)]]))
    places = places[np.argsort(-scores[places], kind="stable")]
    return places, scores[places]


class FittedPeer:
    """A peer that has learned, and from which score on it recommends.

    It recommends the APIs whose score reaches a threshold, and the best one always. The threshold
    is that of the highest mean F1 on past requests that the peer had not learned from: those of
    each of three folds, at most 1,000 in all. Nothing held out is looked at. Without any history
    the best one alone is recommended.

    Parameters
    ----------
    peer : Peer
        It has learned `history` already; it is not left as it is.
    make : callable
        Makes a peer for each fold.
    """

    def __init__(
        self, peer: Peer, make: Callable[[], Peer], catalog: Catalog, history: History
    ) -> None:
        self.peer = peer
        self.apis = catalog.ids
        self.threshold = best_threshold(list(_out_of_fold(make, catalog, history)))

    def figures(self, mashup: Mashup) -> RequestFigures:
        """Ask for one request, and measure the answer; it has no recipients or probabilities."""
        began = time.perf_counter()
        scores = self.peer.scores(mashup.description)
        order = np.argsort(-scores, kind="stable")
        seconds = time.perf_counter() - began
        ranked = [self.apis[i] for i in order]
        ranking = Ranking(ranked, mashup.apis)
        recommended = ranked[: max(int((scores >= self.threshold).sum()), 1)]
        found = set_scores(recommended, mashup.apis).to_dict()
        return RequestFigures(
            ranking={name: metric(ranking, k) for name, (metric, k) in RANKING.items()},
            recommendation={**found, "mean_apis": len(recommended)},
            recipients={},
            is_confident=False,
            probabilities=np.empty(0),
            labels=np.empty(0, dtype=bool),
            places={api: ranked.index(api) for api in mashup.apis},
            seconds=seconds,
        )

    def evaluated(self, history: History) -> dict[str, Any]:
        """Return the means over a history, in the layout of `Evaluation.to_dict`."""
        known = set(self.apis)
        asked = [m for m in history if m.description.strip() and known.issuperset(m.apis)]
        self.figures(asked[0])  # to warm up
        found = [self.figures(mashup) for mashup in asked]
        return {
            "requests": len(asked),
            "skipped": len(history) - len(asked),
            "dated": False,
            "with_date": sum(mashup.date is not None for mashup in asked),
            "ranking": means([one.ranking for one in found]),
            "recommendation": means([one.recommendation for one in found]),
            "latency_ms": percentiles([1000 * one.seconds for one in found]),
        }


def _out_of_fold(
    make: Callable[[], Peer], catalog: Catalog, history: History
) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_]]]:
    """Yield the best scores of past requests, and which of these are of needed APIs.

    A needed API that is not among them counts as False at the end, of a score below all.
    """
    n_folds = min(_FOLDS, len(history))
    if n_folds < 2:
        return
    shuffled = np.random.default_rng(0).permutation(len(history)).tolist()
    for fold in range(n_folds):
        asked = shuffled[fold::n_folds]
        rest = sorted(set(shuffled).difference(asked))
        peer = make()
        peer.fit(catalog, History(history[i] for i in rest))
        for mashup in (history[i] for i in asked[: _JUDGED // n_folds]):
            needed = {catalog.position(api) for api in mashup.apis}
            scores = peer.scores(mashup.description)
            first = np.argsort(-scores, kind="stable")[:_DEEPEST]
            missed = len(needed.difference(first.tolist()))
            hits = [int(i) in needed for i in first]
            yield (
                np.append(scores[first], np.full(missed, -np.inf)),
                np.array([*hits, *[True] * missed]),
            )


def best_threshold(judged: list[tuple[NDArray[Any], NDArray[np.bool_]]]) -> float:
    """Return the score of the highest mean F1; infinity, which is the best alone, without any."""
    if not judged:
        return np.inf
    everything = np.concatenate([scores[np.isfinite(scores)] for scores, _ in judged])
    candidates = np.unique(np.quantile(everything, np.linspace(0, 1, 401)))
    f1 = np.zeros(len(candidates))
    for scores, needed in judged:
        sizes = np.maximum((scores[:, None] >= candidates).sum(axis=0), 1)
        hits = np.cumsum(needed)[sizes - 1]
        f1 += 2 * hits / (sizes + needed.sum())
    return float(candidates[int(np.argmax(f1))])
