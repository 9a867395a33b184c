"""`LearnedRouter`: the router that was learned from past compositions."""

from __future__ import annotations

import copy
import datetime
import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup, warn_of_future_dates
from cnp_router.pool import one_thread
from cnp_router.records import check_instance, instances
from cnp_router.routing import Reason, RecallControl, Router, Scores
from cnp_router.routing.eligible import Chosen
from cnp_router.storage import save_model
from cnp_router.training.answerable import Answerable
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.completion import Completion
from cnp_router.training.corpus import (
    Specifications,
    check_known,
    synced_membership,
    usage_matrix,
)
from cnp_router.training.decision import Decision
from cnp_router.training.dense_encoder import Encoder
from cnp_router.training.encoders import EncodedRequests, Encoders
from cnp_router.training.explaining import explained
from cnp_router.training.handover import Handover
from cnp_router.training.observing import asked, renewed, turns
from cnp_router.training.parts import placed
from cnp_router.training.ranker import Ranker
from cnp_router.training.scoring import LearnedScores, Scoring, served
from cnp_router.training.tail import Tail
from cnp_router.training.views import CategoryView, CoUsageView, Views

if TYPE_CHECKING:
    from cnp_router.graph import TransitionGraph

__all__ = ["LearnedRouter"]

CATALOG, HISTORY = "catalog.jsonl", "history.jsonl"  # beside the state, in a model folder
_LEARNED = ("ranker", "tail", "completion", "answerable", "decision")


class LearnedRouter(Router):
    """A fitted router: announcements go to those whose APIs past compositions say are needed.

    Made by `fit_router` or `load_router`.

    Attributes
    ----------
    catalog : Catalog
        The APIs; each is held by the contractor of the same id.
    history : History
        What it was fitted on, and has observed since.
    removed : tuple of str
        Ids of the APIs that the catalog once had; `history` names them (see `History.without`).
    categories : CategoryClassifier or None
        None where the catalog has no categories.
    compound : bool or None, default=None
        Whether a request is also tried as several in one. None: yes, unless many past mashups need
        several APIs: then the router knows from them how such requests look. Without any history
        it never is. Not saved.
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

    compound: bool | None = None

    def __init__(
        self,
        *,
        catalog: Catalog,
        views: Views,
        ranker: Ranker,
        tail: Tail,
        completion: Completion,
        answerable: Answerable,
        decision: Decision,
        history: History,
        categories: CategoryClassifier | None,
        summary: dict[str, Any],
    ) -> None:
        super().__init__(catalog.ids)
        self.catalog = catalog
        self.history: History = history
        self.n_mashups: int = len(history)
        self.n_fitted: int = summary["fitted_on"]
        self.removed: tuple[str, ...] = tuple(summary.get("removed", ()))
        self.categories = categories
        self.summary: dict[str, Any] = summary
        self.views = views
        self.ranker = ranker
        self.tail = tail
        self.completion = completion
        self.answerable = answerable
        self.decision = decision
        self.recall_control = decision.recall_control
        self._learning = threading.Lock()
        self._handover = Handover()
        # Each with what it was made of, so that what is out of date is never taken.
        self._co_usage: tuple[Views, CoUsageFeatures] | None = None
        self._graph: tuple[History, TransitionGraph] | None = None

    @property
    def encoders(self) -> Encoders:
        """The encoders of requests and specifications."""
        return self.views.corpus.encoders

    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        (scores,) = self._scores_many([request], known, [date])
        return scores

    def _scores_many(
        self,
        requests: Sequence[str],
        known: Sequence[int],
        dates: Sequence[datetime.date | None],
    ) -> Iterator[Scores]:
        return self._scoring().scores(requests, known, dates)

    def _scoring(self) -> Scoring:
        now = self.__dict__.copy()  # others may observe meanwhile
        parts = {name: now[name] for name in ("apis", "views", *_LEARNED, "history")}
        co_usage = functools.partial(self._co_usage_of, now["views"])
        return Scoring(co_usage=co_usage, compound=self.compound, **parts)

    def _handed_over(self, now: Router) -> tuple[Callable[[], Router], object]:
        assert isinstance(now, LearnedRouter)
        dense = now.encoders.dense
        encoder = None if dense is None else dense.encoder
        build = functools.partial(LearnedRouter.from_folder, encoder=encoder)
        opened, kept = self._handover.of(now, now._learned(), build)
        control = {"recall_control": now.recall_control}  # always: a process keeps the last one
        return functools.partial(opened, **now.settings() | control), kept

    def settings(self) -> dict[str, Any]:
        """Return what its user may have set, and a saved router lacks."""
        found = {"compound": self.compound, "is_counted": self.is_counted}
        is_own = self.recall_control is self.decision.recall_control
        return found if is_own else found | {"recall_control": self.recall_control}

    def _learned(self) -> list[object]:
        """Return what is another object as soon as anything is learned."""
        return [getattr(self, name) for name in (*_LEARNED, "views", "history", "categories")]

    def _packed(self, scores: Scores) -> Any:
        assert isinstance(scores, LearnedScores)
        return scores.packed()

    def _unpacked(self, packed: Any, request: str, date: datetime.date | None) -> Scores:
        return self._scoring().unpacked(packed, request, date)

    def _co_usage_of(self, views: Views) -> CoUsageFeatures:
        made = self._co_usage
        if made is None or made[0] is not views:
            pairs = views[CoUsageView].pairs
            made = self._co_usage = (views, CoUsageFeatures(views.corpus, pairs))
        return made[1]

    def _confidence(self, scores: Scores, chosen: Chosen, allowed: NDArray[np.intp]) -> float:
        if isinstance(scores, LearnedScores):  # the confidence was learned from the candidates
            p, left = scores.of_candidates(chosen)
            outside, decision = p[left], scores.decision
        else:
            p, decision = scores.probabilities, self.decision
            outside = np.delete(p, np.asarray(chosen))
        covered = decision.covering(p, float(outside.sum()))
        return min(covered * served(scores), self._answerable(scores, allowed))

    def _control(self, scores: Scores) -> RecallControl | None:
        is_own = self.recall_control is self.decision.recall_control  # and nobody's
        now = scores.decision if isinstance(scores, LearnedScores) and is_own else self
        return now.recall_control  # others may have observed meanwhile

    def _answerable(self, scores: Scores, allowed: NDArray[np.intp]) -> float:
        """Return the probability that anything serves it, and that it is among the allowed."""
        inside = super()._answerable(scores, allowed)
        if isinstance(scores, LearnedScores) and scores.known:
            return served(scores) * inside  # whether anything else is needed, too
        anywhere = 1 - math.exp(scores.head.log_none)
        return served(scores) * inside / anywhere if anywhere else 0.0

    def _explained(
        self, scores: Scores
    ) -> Callable[[NDArray[np.intp]], dict[int, tuple[Reason, ...]]]:
        """Return what gives the reasons, of what was learned until now."""
        if not isinstance(scores, LearnedScores):  # another router's scores: nothing to explain
            return lambda _: {}
        history, categories = self.history, self.categories

        def reasons(some: NDArray[np.intp]) -> dict[int, tuple[Reason, ...]]:
            positions = some[scores.at(some) > 0].tolist()
            what = (scores.views, scores.batch, scores.known, scores.compound)
            return explained(positions, *what, history, categories)

        return reasons

    @property
    def graph(self) -> TransitionGraph:
        """Co-usage in the history, counted when first asked for; InputError if there is none."""
        from cnp_router.graph import TransitionGraph  # an answer needs none, nor its library

        history, made = self.history, self._graph
        if made is None or made[0] is not history:
            there = history.without(self.removed)
            made = self._graph = (history, TransitionGraph().fit(there, self.catalog))
        return made[1]

    def extended(self, apis: Iterable[Api]) -> LearnedRouter:
        """Return a router that also knows new APIs; `synced` with a larger catalog.

        Parameters
        ----------
        apis : iterable of Api
            With ids the catalog does not have yet. How much a word of their names tells is settled
            when the first of them comes: those with new words in common are best given at once.

        Raises
        ------
        InputError
            If an id is there already.
        """
        return self.synced(self.catalog.extended(apis))

    def synced(self, catalog: Catalog) -> LearnedRouter:
        """Return a router of the catalog as it is now, without fitting again.

        APIs that were added are cold: only their specification speaks for them, as the ranker
        learned to judge it. Of those that changed, the new specification counts from now on,
        beside the history that they have. Those that were removed are in no answer any more, and
        unknown as `known` APIs; past requests that used them still help to find the others, or
        tell that nothing serves what they asked for, and when one is added again, its history is
        known again, but for what `observe` taught the linear models. This router stays as it is.

        Parameters
        ----------
        catalog : Catalog
            All APIs that there are now; its order is that of the new router.

        Raises
        ------
        InputError
            If it is no Catalog, or there are new texts for an encoder that was not given.

        Examples
        --------
        >>> from cnp_router import Api, Catalog, fit_router
        >>> router = fit_router(Catalog([Api("maps", "Maps"), Api("sms", "SMS")]))
        >>> now = router.synced(Catalog([Api("maps", "Atlas"), Api("news", "News")]))
        >>> now.recommend("news"), now.removed, now.catalog["maps"].name
        (('news',), ('sms',), 'Atlas')
        """
        if check_instance("catalog", catalog, Catalog) == self.catalog:
            return self
        now = copy.copy(self)
        change, corpus = CatalogChange.between(now.catalog, catalog), now.views.corpus
        removed = [api for api in now.removed if api not in catalog]
        removed += [now.catalog.ids[i] for i in np.flatnonzero(change.removed)]
        if set(now.removed).issubset(removed):
            usage = placed(corpus.usage, change.apis, 1)
        else:  # of those that are back, the history is known again
            usage = usage_matrix(catalog, now.history, removed)
        classes = now.categories.classes_ if now.categories else ()
        membership = synced_membership(corpus.membership, catalog, classes, change)
        views = now.views.synced(catalog, usage, membership, change)
        learned = {name: getattr(now, name) for name in (*_LEARNED, "history")}
        router = LearnedRouter(
            catalog=catalog,
            views=views,
            summary={**now.summary, **views.corpus.summary, "removed": removed},
            categories=now.categories and now.categories.reweighted(views),
            **learned,
        )
        router.__dict__.update(now.settings())
        return router

    def observe(self, mashups: Mashup | Iterable[Mashup]) -> int:
        """Learn from more mashups at once, without fitting again.

        The next request already finds them: as past requests, in use, co-use and the graph, in
        their words and in the linear models (`Views.observed`). What would have been answered to
        the last 200 of a call corrects probabilities, confidence and the threshold of target
        recalls (`Decision.adapted`). A ranker without trees learns (`Ranker.observed`). The rest
        stays as it was fitted: fit again from time to time. Threads may observe and route at once.
        Takes time linear in the size of the model.

        Parameters
        ----------
        mashups : Mashup or iterable of Mashup
            Best many at once, each id once. Those with a known id are passed over. APIs that were
            `removed` from the catalog teach nothing, unless they come back.

        Returns
        -------
        int
            How many were new.

        Raises
        ------
        UnknownApiError
            If a mashup names an API that the catalog never had; nothing is learned then.
        InputError
            If something else than mashups is given, or two different ones with the same id.

        Examples
        --------
        >>> from cnp_router import Mashup, fit_router, load_sample
        >>> sample = load_sample()
        >>> router = fit_router(sample.catalog, sample.history)
        >>> request = "Guess the tree in a quiz."
        >>> "flickr" in router.recommend(request)
        False
        >>> router.observe(Mashup("trees", "Children guess trees in a quiz.", ("flickr",)))
        1
        >>> "flickr" in router.recommend(request)
        True
        """
        given = instances("mashups", [mashups] if isinstance(mashups, Mashup) else mashups, Mashup)
        check_known(given, self.catalog, self.removed)
        with self._learning, one_thread:  # several would only wait for each other
            new = [m for m in dict.fromkeys(given) if self.history.find(m.id) is None]
            if new:
                warn_of_future_dates(new)
                after = object.__new__(type(self))
                after.__dict__.update(self.__dict__)
                for part in turns(new, len(self.history), self.ranker, lambda: after.encoders):
                    learned = after._learned_from(*part)
                    after.__dict__.update(learned)
                self._handover.forget()
                # In one step: whoever is interrupted has learned all or nothing.
                self.__dict__.update(**learned)
            return len(new)

    def _learned_from(self, new: History, requests: EncodedRequests, ask: bool) -> dict[str, Any]:
        usage = usage_matrix(self.catalog, new, self.removed)
        parts = self.views, self.ranker, self.tail, self.answerable, self.decision
        ranker, decision = asked(*parts, requests, usage) if ask else (self.ranker, self.decision)
        views = self.views.observed(requests, usage)
        history, graph = self.history.extended(new), self._graph
        if graph is not None and graph[0] is self.history:
            counted = copy.copy(graph[1]).partial_fit(new.without(self.removed))
            graph = (history, counted)
        categories = self.categories and self.categories.reweighted(views)
        n = len(history)
        own = ranker, self.answerable, decision
        ranker, answerable, decision = renewed(views, n, len(new), *own)
        # In this order: who reads in between must find every past request that the views name.
        return {
            "recall_control": self.settings().get("recall_control", decision.recall_control),
            "history": history,
            "n_mashups": n,
            "_graph": graph,
            "categories": categories,
            "views": views,
            "ranker": ranker,
            "answerable": answerable,
            "decision": decision,
            "summary": {**self.summary, **views.corpus.summary},
        }

    def __getstate__(self) -> dict[str, Any]:
        now = self.__dict__.copy()  # of one moment, while others observe
        return {name: now[name] for name in now if name not in ("_learning", "_handover")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._learning, self._handover = threading.Lock(), Handover()

    def save(
        self, path: str | Path, *, overwrite: bool = False, replaces: Path | None = None
    ) -> None:
        """Save the router as a folder of data, which is there whole or not at all.

        Whoever loads meanwhile gets the old or the new router. Of two that save at once, the second
        waits for the first. Files that are not the model's stay, `online.sqlite` for one.

        Parameters
        ----------
        path : str or Path
            The folder to make. The one above it must exist.
        overwrite : bool, default=False
            Replace a model that is there. Anything else that is there is never replaced.
        replaces : Path, optional
            The generation that this router was made from, as `generation_of` the path returned
            before it was loaded: no other is replaced, so that nothing is lost that another
            process has saved meanwhile. Default: any.

        Raises
        ------
        InputError
            If something is there already.
        DataFileError
            If the place cannot be written, or the catalog or the history not be written as JSON.
        ModelStoreError
            If another process has been saving there for a minute, or has replaced what was to be.
        """
        now = copy.copy(self)
        files = {CATALOG: now.catalog.write_indexed, HISTORY: now.history.write_indexed}
        generation = save_model(
            path,
            now.state(),
            files=files,
            summary=now.summary,
            overwrite=overwrite,
            replaces=replaces,
        )
        self._handover.found(generation, now._learned())

    def state(self) -> dict[str, Any]:
        """Return what was learned as plain data; catalog, history and summary stand beside it."""
        return {
            **{name: getattr(self, name).state() for name in ("encoders", *_LEARNED, "views")},
            "specifications": self.views.corpus.specifications.state(),
            "categories": self.categories.state() if self.categories else None,
        }

    @classmethod
    def from_folder(
        cls, folder: Path, state: dict[str, Any], summary: dict[str, Any], encoder: Encoder | None
    ) -> LearnedRouter:
        """Rebuild a router, as `from_state`; catalog and history are read as they are needed."""
        catalog = Catalog.open_indexed(folder / CATALOG)
        history = History.open_indexed(folder / HISTORY)
        router = cls.from_state(catalog, history, state, summary, encoder)
        router._handover.found(folder, router._learned())
        return router

    @classmethod
    def from_state(
        cls,
        catalog: Catalog,
        history: History,
        state: dict[str, Any],
        summary: dict[str, Any],
        encoder: Encoder | None = None,
    ) -> LearnedRouter:
        """Rebuild a router; raises KeyError, TypeError or ValueError where its parts do not fit.

        Whether the `encoder` is the one that it was fitted with is not looked at.
        """
        encoders = Encoders.from_state(state["encoders"])
        if encoders.dense is not None:
            encoders = replace(encoders, dense=replace(encoders.dense, encoder=encoder))
        index = Specifications.from_state(
            state["specifications"], catalog=catalog, encoders=encoders
        )
        views = Views.from_state(index, state["views"])
        categories = state["categories"] and CategoryClassifier.from_state(
            encoders.word, views[CategoryView].weights, state["categories"]
        )
        return cls(
            catalog=catalog,
            history=history,
            views=views,
            ranker=Ranker.from_state(state["ranker"]),
            tail=Tail.from_state(state["tail"]),
            completion=Completion.from_state(state["completion"]),
            answerable=Answerable.from_state(state["answerable"]),
            decision=Decision.from_state(state["decision"]),
            categories=categories,
            summary=summary,
        )

    def __repr__(self) -> str:
        return f"LearnedRouter({len(self.catalog)} APIs, {len(self.history)} mashups)"

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>"
            for name, value in self.summary.items()
        )
        return f"<p>{escape(repr(self))}</p><table>{''.join(rows)}</table>"
