"""Routers to compare with: what is gained by learning, and what by knowing nothing.

They are deterministic, fit in a second, and obey the laws of every router (`cnp_router.checks`).
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cnp_router.catalog import Catalog
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.records import check_instance, check_number
from cnp_router.routing.recall import RecallControl
from cnp_router.routing.result import Reason, Scores, Source
from cnp_router.routing.router import Router
from cnp_router.text import BM25, TfidfEncoder, dense_product, specification_text

__all__ = [
    "BroadcastRouter",
    "HistoryKNNRouter",
    "PopularityRouter",
    "RandomRouter",
    "SpecificationRouter",
]

# Enough to measure a recall to a percent or two; more only costs time.
MEASURED = 1000


class _Baseline(Router):
    """A router of the APIs of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(check_instance("catalog", catalog, Catalog).ids)
        self.catalog = catalog

    def _reasons(self, scores: Scores, chosen: NDArray[np.intp]) -> dict[int, tuple[Reason, ...]]:
        reasons = zip(chosen, self._explain(scores.evidence, chosen), strict=False)
        return {int(i): (reason,) for i, reason in reasons if reason}

    def _explain(self, evidence: Any, chosen: NDArray[np.intp]) -> Iterable[Reason | None]:
        """Return the reason for each of the chosen, or nothing."""
        return ()


class _HistoryBaseline(_Baseline):
    """A router that counts, in a history, which mashups used which APIs."""

    n_mashups: int

    def __init__(self, catalog: Catalog, history: History) -> None:
        super().__init__(catalog)
        self._used = _usage(catalog, history)
        self.n_mashups = len(history)
        self.usage: NDArray[np.intp] = np.bincount(self._used.indices, minlength=len(catalog))

    def _others(self, used: NDArray[Any]) -> NDArray[Any]:
        """Return the share of the other mashups that use each API, given what a mashup used.

        An API that one mashup alone uses would else look known to that very mashup.
        """
        others = self.usage.copy()
        others[used] -= 1
        return np.asarray(others / max(self.n_mashups - 1, 1))


class BroadcastRouter(_Baseline):
    """Announces to everyone, as the Contract Net does without routing.

    Its probabilities are ``1 / n_apis`` each: the request needs one, and nothing more is known.
    Only asking everyone promises a recall, so with a target recall everyone is a recipient, and
    the confidence is 1; other rules choose the first APIs of the catalog.

    Parameters
    ----------
    catalog : Catalog

    Examples
    --------
    >>> from cnp_router.catalog import Api, Catalog
    >>> catalog = Catalog([Api("maps", "Maps"), Api("sms", "SMS")])
    >>> routing = BroadcastRouter(catalog).route("A map of my friends")
    >>> routing.contractors, routing.confidence, routing.source
    (('maps', 'sms'), 1.0, 'broadcast')
    """

    _source: Source = "broadcast"
    recall_control: RecallControl = RecallControl(
        np.empty(0), np.empty(0, dtype=np.intp), np.empty(0)
    )

    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        return Scores(self.apis, np.full(len(self.apis), 1 / len(self.apis)))

    def _answerable(self, scores: Scores, allowed: NDArray[np.intp]) -> float:
        return _any_of(scores, allowed)


class RandomRouter(_Baseline):
    """Asks at random; the same request under the same seed is answered the same.

    The probabilities are uniform random numbers of mean ``1 / n_apis``.

    Parameters
    ----------
    catalog : Catalog
    random_state : int, at least 0, default=0

    Examples
    --------
    >>> from cnp_router.catalog import Api, Catalog
    >>> catalog = Catalog([Api("maps", "Maps"), Api("sms", "SMS"), Api("mail", "Mail")])
    >>> router = RandomRouter(catalog, random_state=1)
    >>> router.score("A map").top(2) == router.score("A map").top(2)
    True
    """

    def __init__(self, catalog: Catalog, *, random_state: int = 0) -> None:
        super().__init__(catalog)
        self.random_state: int = check_number("random_state", random_state, 0, whole=True)

    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        # Not hash(): that differs from process to process.
        text = f"{self.random_state}\n{request}".encode("utf-8", "surrogatepass")
        seed = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
        n = len(self.apis)
        return Scores(self.apis, np.minimum(np.random.default_rng(seed).random(n) * 2 / n, 1.0))


class PopularityRouter(_HistoryBaseline):
    """Gives each API the share of the past mashups that use it, whatever the request.

    Target recall is controlled on the history, leaving each mashup out of its own count.

    Parameters
    ----------
    catalog : Catalog
    history : History
        At least one mashup; every API of it in `catalog`.

    Raises
    ------
    InputError
        If the history is empty.
    UnknownApiError
        If it names an API that the catalog does not have.

    Examples
    --------
    >>> from cnp_router.catalog import Api, Catalog
    >>> from cnp_router.history import History, Mashup
    >>> catalog = Catalog([Api("maps", "Maps"), Api("sms", "SMS")])
    >>> history = History([Mashup("m1", "Rain by text", ("sms",)),
    ...                    Mashup("m2", "Text me where you are", ("maps", "sms"))])
    >>> PopularityRouter(catalog, history).score("Any").top(2)
    (('sms', 1.0), ('maps', 0.5))
    """

    def __init__(self, catalog: Catalog, history: History) -> None:
        super().__init__(catalog, history)
        self.recall_control: RecallControl = _measured(
            _sample(self._used), lambda _, used: self._others(used)
        )

    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        return Scores(self.apis, self.usage / self.n_mashups)

    def _explain(self, evidence: Any, chosen: NDArray[np.intp]) -> Iterable[Reason | None]:
        text = f"used by {{}} of {self.n_mashups} past mashups"
        return [Reason("popularity", text.format(self.usage[i])) for i in chosen]


class SpecificationRouter(_Baseline):
    """Retrieval over the specifications: BM25 on name, description and categories.

    It needs no history, so a new API is as good as an old one. With a history, a logistic model
    of the score and of the request's best score (Platt, 1999) gives calibrated probabilities, and
    target recall is controlled. Without one they are ``exp(score) / sum exp(score)``, since a BM25
    score stands for log-odds of relevance: the right order, but not calibrated, as if each
    request needed exactly one API.

    Parameters
    ----------
    catalog : Catalog
    history : History, optional
        Only to calibrate: every API of it in `catalog`.

    Raises
    ------
    UnknownApiError
        If the history names an API that the catalog does not have.

    Examples
    --------
    >>> from cnp_router.catalog import Api, Catalog
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places on a map."),
    ...                    Api("sms", "SMS", "Sends text messages.")])
    >>> SpecificationRouter(catalog).route("Send me a text").recipients[0].reasons[0].text
    "its specification says 'send', 'text'"
    """

    def __init__(self, catalog: Catalog, history: History | None = None) -> None:
        super().__init__(catalog)
        self._index = BM25([specification_text(api) for api in catalog])
        self._logistic: tuple[float, float, float] | None = None
        self.n_mashups: int = (
            0 if history is None else len(check_instance("history", history, History))
        )
        if history is not None and self.n_mashups:
            self._calibrate(history)

    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        scores = self._index.scores(request)
        return Scores(self.apis, self._probabilities(scores), evidence=request)

    def _answerable(self, scores: Scores, allowed: NDArray[np.intp]) -> float:
        if self._logistic is None:
            return _any_of(scores, allowed)
        return super()._answerable(scores, allowed)

    def _probabilities(self, scores: NDArray[Any]) -> NDArray[Any]:
        best = scores.max()
        if self._logistic is None:
            odds = np.exp(scores - best)
            return np.asarray(odds / odds.sum())
        constant, slope, of_best = self._logistic
        return np.asarray(1 / (1 + np.exp(-(constant + slope * scores + of_best * best))))

    def _calibrate(self, history: History) -> None:
        def scores(place: int) -> NDArray[Any]:
            return self._index.scores(history[place].description)

        sample = _sample(_usage(self.catalog, history))
        self._logistic = _platt((scores(i) for i, _ in sample), [used for _, used in sample])
        self.recall_control: RecallControl = _measured(
            sample, lambda i, _: self._probabilities(scores(i))
        )

    def _explain(self, evidence: Any, chosen: NDArray[np.intp]) -> Iterable[Reason | None]:
        shared = self._index.shared_words(evidence, chosen) if isinstance(evidence, str) else ()
        return [
            Reason("specification", f"its specification says {', '.join(map(repr, words))}")
            if words
            else None
            for words in shared
        ]


class HistoryKNNRouter(_HistoryBaseline):
    """Lets the most similar past requests vote: TF-IDF k-nearest neighbours over the history.

    The probability is the share of the votes, weighted by cosine similarity ``s`` and drawn
    towards the overall usage by the weight of one identical request (m-estimate, Cestnik, 1990):
    ``(sum s_i used_i + popularity) / (sum s_i + 1)``. A request that resembles nothing is thus
    answered by popularity. Target recall is controlled on the history, leaving each request out
    of its own vote.

    Parameters
    ----------
    catalog : Catalog
    history : History
        At least one mashup; every API of it in `catalog`.
    k : int, at least 1, default=30
        Number of neighbours.

    Raises
    ------
    InputError
        If the history is empty, or `k` below 1.
    UnknownApiError
        If the history names an API that the catalog does not have.

    Examples
    --------
    >>> from cnp_router.catalog import Api, Catalog
    >>> from cnp_router.history import History, Mashup
    >>> catalog = Catalog([Api("maps", "Maps"), Api("sms", "SMS")])
    >>> history = History([Mashup("m1", "Text me when it rains", ("sms",)),
    ...                    Mashup("m2", "Restaurants on a map", ("maps",))])
    >>> router = HistoryKNNRouter(catalog, history, k=1)
    >>> router.score("Hotels on the map").top(1)[0][0]
    'maps'
    """

    def __init__(self, catalog: Catalog, history: History, *, k: int = 30) -> None:
        super().__init__(catalog, history)
        self.k: int = check_number("k", k, 1, whole=True)
        self._mashups = tuple(mashup.id for mashup in history)
        self._encoder = TfidfEncoder("content", min_df=1)
        past = self._encoder.fit_transform(history.texts)
        self._by_word = csr_array(past.T)

        def left_out(place: int, used: NDArray[Any]) -> NDArray[Any]:
            (similarities,) = dense_product(past[[place]], self._by_word)
            similarities[place] = 0.0
            return self._vote(similarities, self._others(used))

        self.recall_control: RecallControl = _measured(_sample(self._used), left_out)

    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        (similarities,) = dense_product(self._encoder.transform([request]), self._by_word)
        votes = self._vote(similarities, self.usage / self.n_mashups)
        return Scores(self.apis, votes, evidence=self._neighbours(similarities))

    def _neighbours(self, similarities: NDArray[Any]) -> NDArray[np.intp]:
        """Return the mashups that vote, nearest first; equally near ones in their order."""
        near = np.flatnonzero(similarities > 0)
        return near[np.argsort(-similarities[near], kind="stable")[: self.k]]

    def _vote(self, similarities: NDArray[Any], popularity: NDArray[Any]) -> NDArray[Any]:
        voters = self._neighbours(similarities)
        weights = similarities[voters]
        votes = np.asarray(weights @ self._used[voters]) + popularity
        return np.asarray(np.minimum(votes / (weights.sum() + 1), 1.0))

    def _explain(self, evidence: Any, chosen: NDArray[np.intp]) -> Iterable[Reason | None]:
        if not isinstance(evidence, np.ndarray):
            return
        for column in self._used[evidence][:, chosen].toarray().T:
            users = evidence[np.flatnonzero(column)]
            text = f"used by {len(users)} of the {len(evidence)} most similar past requests"
            references = tuple(self._mashups[j] for j in users[:3])
            yield Reason("history", text, references) if references else None


def _any_of(scores: Scores, allowed: NDArray[np.intp]) -> float:
    """Return the probability that any of `allowed` is the one API that the request needs."""
    return float(min(scores.probabilities[allowed].sum(), 1.0))


def _usage(catalog: Catalog, history: History) -> csr_array:
    """Return who uses what: csr_array of shape (n_mashups, n_apis), 1.0 where it does."""
    if not len(check_instance("history", history, History)):
        raise InputError("a history needs at least one mashup here (got none)")
    used = [sorted({catalog.position(api) for api in mashup.apis}) for mashup in history]
    ends = np.cumsum([0, *map(len, used)])
    columns = np.concatenate([np.asarray(row, dtype=np.int64) for row in used])
    return csr_array((np.ones(len(columns)), columns, ends), shape=(len(history), len(catalog)))


def _sample(usage: csr_array) -> list[tuple[int, NDArray[Any]]]:
    """Return some mashups, evenly spaced, and the APIs that each used: a sample without chance."""
    n_mashups = usage.shape[0]
    places = np.unique(np.linspace(0, n_mashups - 1, min(n_mashups, MEASURED)).astype(np.intp))
    return [(int(i), usage[[i]].indices) for i in places]


def _measured(
    sample: list[tuple[int, NDArray[Any]]],
    probabilities: Callable[[int, NDArray[Any]], NDArray[Any]],
) -> RecallControl:
    """Control target recall by what some of the past mashups would have been given."""
    given = (probabilities(i, used) for i, used in sample)
    return RecallControl.measured(given, (used for _, used in sample))


def _platt(rows: Any, used: Sequence[NDArray[Any]]) -> tuple[float, float, float]:
    """Fit need ~ constant + slope * score + of_best * best score; the slope is positive.

    Of the unneeded APIs, the hundred best of a request and a hundred others, weighted for
    all the others, are enough: fitting on all would grow with the catalog.
    """
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    features, targets, weights = [], [], []
    for scores, needed in zip(rows, used, strict=True):
        order = np.argsort(-scores, kind="stable")
        order = order[~np.isin(order, needed)]
        best, others = order[:100], order[100:]
        drawn = random.choice(others, min(len(others), 100), replace=False)
        taken = np.concatenate([needed, best, drawn])
        features.append(np.column_stack([scores[taken], np.full(len(taken), scores.max())]))
        targets.append(np.arange(len(taken)) < len(needed))
        share = len(others) / max(len(drawn), 1)
        weights.append(np.repeat([1.0, share], [len(taken) - len(drawn), len(drawn)]))
    target = np.concatenate(targets)
    if target.all():
        return (20.0, 1e-6, 0.0)
    model = LogisticRegression(C=1e6, max_iter=1000)
    model.fit(np.concatenate(features), target, sample_weight=np.concatenate(weights))
    slope, of_best = (float(c) for c in model.coef_[0])
    # Where the scores say nothing, they still give the order.
    return float(model.intercept_[0]), max(slope, 1e-6), of_best
