"""`LearnedRouter`: the router that was learned from past compositions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Api, Catalog
from cnp_router.graph import TransitionGraph
from cnp_router.history import History
from cnp_router.routing import Reason, RecallControl, Router, Scores
from cnp_router.training.calibration import confidence_features
from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.completion import Completion
from cnp_router.training.features import candidates
from cnp_router.training.ranker import Logistic, Ranker
from cnp_router.training.reasons import Evidence, explain
from cnp_router.training.specifications import Encoders
from cnp_router.training.views import Views

__all__ = ["LearnedRouter", "category_membership"]


@dataclass(frozen=True, eq=False)
class _LearnedScores(Scores):
    evidence: Evidence = field(kw_only=True)


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

    def _scores(self, request: str, known: Sequence[int]) -> Scores:
        encoded = self.encoders.encode([request])
        seen = self.views.scores(encoded)
        found = candidates(self.views, seen.apis[0])
        text = self.ranker.probabilities(self.views.co_usage, found)
        positions = found.positions
        if len(known):
            positions, text = self.completion.probabilities(
                positions, text, self.views.co_usage, known
            )
        probabilities = np.zeros(len(self.contractors))
        probabilities[positions] = text
        return _LearnedScores(
            self.contractors,
            probabilities,
            evidence=Evidence(
                encoded, seen.apis[0], seen.categories[0], seen.neighbours[0], tuple(known)
            ),
        )

    def _confidence(self, scores: Scores, chosen: NDArray[np.intp]) -> float:
        outside = float(np.delete(scores.probabilities, chosen).sum())
        features = confidence_features(scores.probabilities, outside)
        return float(self.decision.confidence.probability(features))

    def _reasons(self, scores: Scores, chosen: NDArray[np.intp]) -> dict[int, tuple[Reason, ...]]:
        if not isinstance(scores, _LearnedScores):  # somebody else's scores: nothing to tell
            return {}
        with_evidence = [int(i) for i in chosen if scores.probabilities[i] > 0]
        return explain(
            self.catalog, self.history, self.views, self.categories, scores.evidence, with_evidence
        )

    @cached_property
    def graph(self) -> TransitionGraph:
        """Co-usage in the history, counted when it is first asked for."""
        return TransitionGraph().fit(self.history, self.catalog)

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
        index = self.views.specifications.extended(catalog, new)
        classes = self.categories.classes_ if self.categories else ()
        return LearnedRouter(
            catalog=catalog,
            encoders=self.encoders,
            views=self.views.extended(index, category_membership(catalog, classes)),
            ranker=self.ranker,
            completion=self.completion,
            decision=self.decision,
            history=self.history,
            categories=self.categories,
            summary={**self.summary, "apis": len(catalog)},
        )

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

        save_router(self, path, overwrite=overwrite)

    def __repr__(self) -> str:
        return f"LearnedRouter({len(self.contractors)} contractors, {len(self.history)} mashups)"


def category_membership(catalog: Catalog, classes: Sequence[str]) -> sparse.csr_array:
    """Return which API is filed under which category.

    Returns
    -------
    csr_array of shape (n_apis, n_classes), of ones
    """
    column = {name: i for i, name in enumerate(classes)}
    rows = [sorted({column[name] for name in api.categories if name in column}) for api in catalog]
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    indices = np.array([i for row in rows for i in row], dtype=np.int32)
    return sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices, pointers),
        shape=(len(catalog), len(classes)),
    )
