"""`LearnedRouter`: the router that was learned from past compositions."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError
from cnp_router.graph import TransitionGraph
from cnp_router.history import History, Mashup
from cnp_router.routing import Reason, RecallControl, Router, Scores
from cnp_router.training.calibration import confidence_features
from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.companions import Companions
from cnp_router.training.completion import Completion, Surroundings
from cnp_router.training.features import candidates
from cnp_router.training.matrices import category_membership, usage_matrix
from cnp_router.training.observing import observed_views
from cnp_router.training.ranker import Logistic, Ranker
from cnp_router.training.reasons import Evidence, explain
from cnp_router.training.specifications import Encoders
from cnp_router.training.views import Views

__all__ = ["LearnedRouter"]


@dataclass(frozen=True)
class Decision:
    """What held-out requests taught about the decision.

    Attributes
    ----------
    confidence : Logistic
    recall_control : RecallControl
    """

    confidence: Logistic
    recall_control: RecallControl


class LearnedRouter(Router):
    """A fitted router: announcements go to those who past compositions say are needed.

    Made by `fit_router` or `load_router`.

    Attributes
    ----------
    catalog : Catalog
        The APIs; each is held by the contractor of the same id.
    history : History
        What it was fitted on.
    categories : CategoryClassifier or None
        None where the catalog has no categories.
    summary : dict
        What it was fitted on, with which versions, and how long that took.

    Examples
    --------
    >>> from cnp_router import Api, Catalog, History, Mashup, fit_router
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> history = History([
    ...     Mashup("m1", "bars on a map", ("maps",)),
    ...     Mashup("m2", "text me the news", ("sms",)),
    ...     Mashup("m3", "text me a map", ("maps", "sms")),
    ...     Mashup("m4", "map of parks", ("maps",)),
    ... ])
    >>> router = fit_router(catalog, history)
    >>> router.route("parks on a map").recipients[0].contractor
    'maps'
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        encoders: Encoders,
        views: Views,
        ranker: Ranker,
        completion: Completion,
        decision: Decision,
        history: History,
        categories: CategoryClassifier | None,
        summary: dict[str, Any],
    ) -> None:
        super().__init__(catalog.ids)
        self.catalog = catalog
        self.history = history
        self.categories = categories
        self.summary = summary
        self.encoders = encoders
        self.views = views
        self.ranker = ranker
        self.completion = completion
        self.decision = decision
        self.recall_control = decision.recall_control
        self._learning = threading.Lock()
        # Each with what it was made of, so that what is out of date is never taken.
        self._companions: tuple[Views, Companions] | None = None
        self._graph: tuple[History, TransitionGraph] | None = None

    def _scores(self, request: str, known: Sequence[int]) -> Scores:
        views = self.views  # others may observe meanwhile
        encoded = self.encoders.encode([request])
        seen = views.scores(encoded)
        found = candidates(views, seen.apis[0])
        text = self.ranker.probabilities(views.co_usage, found)
        positions = found.positions
        if len(known):
            around = Surroundings(self._companions_of(views), seen.neighbours[0])
            completed = self.completion.complete(positions, text, around, known)
            positions, text = completed.positions, completed.probabilities
        probabilities = np.zeros(len(self.apis))
        probabilities[positions] = text
        return Scores(
            self.apis,
            probabilities,
            evidence=Evidence(
                encoded, seen.apis[0], seen.categories[0], seen.neighbours[0], tuple(known)
            ),
        )

    def _companions_of(self, views: Views) -> Companions:
        """Return what goes with the views; made when the first request comes with known APIs."""
        kept = self._companions
        if kept is None or kept[0] is not views:
            kept = self._companions = (views, Companions.of(views))
        return kept[1]

    def _confidence(self, scores: Scores, chosen: NDArray[np.intp]) -> float:
        outside = float(np.delete(scores.probabilities, chosen).sum())
        features = confidence_features(scores.probabilities, outside)
        return float(self.decision.confidence.probability(features))

    def _reasons(self, scores: Scores, chosen: NDArray[np.intp]) -> dict[int, tuple[Reason, ...]]:
        if not isinstance(scores.evidence, Evidence):  # somebody else's scores: nothing to tell
            return {}
        with_evidence = [int(i) for i in chosen if scores.probabilities[i] > 0]
        return explain(
            self.catalog, self.history, self.views, self.categories, scores.evidence, with_evidence
        )

    @property
    def graph(self) -> TransitionGraph:
        """Co-usage in the history, counted when it is first asked for."""
        history, kept = self.history, self._graph
        if kept is None or kept[0] is not history:
            kept = self._graph = (history, TransitionGraph().fit(history, self.catalog))
        return kept[1]

    def extended(self, apis: Iterable[Api]) -> LearnedRouter:
        """Return a router that also knows new APIs, without fitting again.

        They are cold: only their specification speaks for them, as the ranker learned to judge
        it. This router stays as it is.

        Parameters
        ----------
        apis : iterable of Api
            With ids the catalog does not have yet.

        Raises
        ------
        InputError
            If an id is there already.
        """
        new = tuple(apis)
        catalog = self.catalog.extended(new)
        if not new:
            return self
        now = copy.copy(self)
        index = now.views.specifications.extended(catalog, new)
        classes = now.categories.classes_ if now.categories else ()
        return LearnedRouter(
            catalog=catalog,
            encoders=now.encoders,
            views=now.views.extended(index, category_membership(catalog, classes)),
            ranker=now.ranker,
            completion=now.completion,
            decision=now.decision,
            history=now.history,
            categories=now.categories,
            summary={**now.summary, "apis": len(catalog)},
        )

    def observe(self, mashups: Mashup | Iterable[Mashup]) -> int:
        """Learn from more mashups at once, without fitting again.

        The next request already finds them: as past requests, in use, co-use and the graph, and
        one step further in the linear models (`cnp_router.training.observing`). The ranker and
        the calibration stay as they were fitted: fit again from time to time. Threads may
        observe and route at the same time. Takes time linear in the size of the model, so give
        many mashups at once where there are many.

        Parameters
        ----------
        mashups : Mashup or iterable of Mashup
            Those with an id that it knows already are passed over.

        Returns
        -------
        int
            How many were new.

        Raises
        ------
        UnknownApiError
            If a mashup names an API that the catalog does not have; nothing is learned then.
        InputError
            If something else than mashups is given.

        Examples
        --------
        >>> from cnp_router import Mashup, fit_router, load_sample
        >>> sample = load_sample()
        >>> router = fit_router(sample.catalog, sample.history)
        >>> request = "A quiz about birds for children."
        >>> "flickr" in router.recommend(request)
        False
        >>> router.observe(Mashup("birds", "Children guess birds in a quiz.", ("flickr",)))
        1
        >>> router.recommend(request)[0]
        'flickr'
        """
        given = [mashups] if isinstance(mashups, Mashup) else list(mashups)
        strangers = [item for item in given if not isinstance(item, Mashup)]
        if strangers:
            raise InputError(f"mashups must be Mashup objects, got {strangers[0]!r}")
        for mashup in given:
            for api in mashup.apis:
                self.catalog.position(api)
        with self._learning:
            there = {mashup.id for mashup in self.history}
            new = [m for m in dict.fromkeys(given) if m.id not in there]
            if new:
                self._learn(History(new))
            return len(new)

    def _learn(self, new: History) -> None:
        usage = usage_matrix(self.catalog, new)
        views = observed_views(self.views, self.encoders.encode(new.texts), usage)
        # In this order: who reads in between must find every past request that the views name.
        before, counted = self.history, self._graph
        self.history = History((*before, *new), skipped=before.skipped)
        if counted is not None and counted[0] is before:
            self._graph = (self.history, copy.copy(counted[1]).partial_fit(new))
        if self.categories is not None:
            self.categories = self.categories.reweighted(views.category_weights)
        self.views = views
        self.summary = {
            **self.summary,
            "apis_with_history": int(np.count_nonzero(views.counts)),
            "mashups": len(self.history),
        }

    def __getstate__(self) -> dict[str, Any]:
        with self._learning:  # a copy is of one moment
            return {name: value for name, value in self.__dict__.items() if name != "_learning"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._learning = threading.Lock()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Save the router as a folder of data, atomically.

        Parameters
        ----------
        path : str or Path
            The folder to make.
        overwrite : bool, default=False
            Replace a model that is there.

        Raises
        ------
        InputError
            If something is there already.
        DataFileError
            If the place cannot be written.
        """
        from cnp_router.training.store import save_router

        save_router(copy.copy(self), path, overwrite=overwrite)

    def __repr__(self) -> str:
        return f"LearnedRouter({len(self.apis)} APIs, {len(self.history)} mashups)"
