"""`SpecificationRouters`: routers of what tools say of themselves, and of what served requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.online import OnlineStore
from cnp_router.training import LearnedRouter, fit_router
from cnp_router.trajectories import Trajectory

__all__ = ["SpecificationRouters"]

_MOST_SETS = 8  # sets of tools that a router is kept for
_MOST_LESSONS = 10_000  # that are held without a store


class SpecificationRouters:
    """Routers of sets of tools, each fitted once; the sets that were used last are kept.

    Each fit is given all that served requests, as far as it is about the tools at hand: what the
    store has, or without one the newest of what was learned here. Where something was forgotten in
    the store, all are fitted anew. Thread-safe.

    Parameters
    ----------
    store : OnlineStore or None
        Where what is learned here is kept by the caller.
    ids : mapping of str to str
        By what a tool is called in the store, where that is not its id.
    is_counted : bool
        Whether the routings of these routers are counted.
    """

    def __init__(
        self, store: OnlineStore | None, ids: Mapping[str, str], *, is_counted: bool
    ) -> None:
        self.fitted: OrderedDict[frozenset[Api], Future[LearnedRouter]] = OrderedDict()
        self._store = store
        self._ids = ids
        self._is_counted = is_counted
        self._n_forgettings = 0 if store is None else store.n_forgettings
        self._lessons: dict[str, Mashup] = {}  # without a store, by id
        self._lock = threading.Lock()  # held for a moment only
        self._learning = threading.Lock()

    def of(self, tools: tuple[Api, ...]) -> Future[LearnedRouter]:
        """Return a router of the specifications of tools, fitted once, now or by somebody else.

        That of more tools will do: users who may see some of them need no router of their own.
        """
        wanted = frozenset(tools)
        with self._lock:
            if self._store is not None and self._store.n_forgettings != self._n_forgettings:
                self._n_forgettings = self._store.n_forgettings
                self.fitted.clear()  # a router cannot unlearn
            there = wanted if wanted in self.fitted else None
            there = there or next((each for each in self.fitted if wanted <= each), None)
            if there is not None:
                self.fitted.move_to_end(there)
                return self.fitted[there]
            future = self.fitted[wanted] = Future()
            if len(self.fitted) > _MOST_SETS:
                # One of ten thousand tools takes long to fit: it does not go for one of five.
                older = list(self.fitted)[: _MOST_SETS // 2]
                del self.fitted[min(older, key=len)]
        try:
            known = self._restricted(tools, self._past())
            future.set_result(self._fit(Catalog(tools), History(known)))
        except BaseException as exc:
            with self._lock:
                self.fitted.pop(wanted, None)  # the next one tries again
            future.set_exception(exc)
        return future

    def learn(self, served: Mashup) -> None:
        """Learn what served a request, by the ids of the store: at once, and for later fits."""
        with self._lock:
            if self._store is None:
                self._lessons.setdefault(served.id, served)
            if len(self._lessons) > _MOST_LESSONS:
                del self._lessons[next(iter(self._lessons))]
            fitted = tuple(self.fitted)
        for tools in fitted:
            for own in self._restricted(tools, [served]):
                self._learn(tools, own)

    def _learn(self, tools: frozenset[Api], served: Mashup) -> None:
        """Have the router of some tools learn, and fit it again each time its history doubled.

        One that was fitted on nothing knows no words but those of the specifications.
        """
        with self._learning:
            with self._lock:
                future = self.fitted.get(tools)
            if future is None or future.exception() is not None:  # waits while it is fitted
                return
            router = future.result()
            if not router.observe(served):
                return
            n = len(router.history)
            if n & (n - 1) == 0:
                again: Future[LearnedRouter] = Future()
                again.set_result(self._fit(router.catalog, router.history))
                with self._lock:
                    if self.fitted.get(tools) is future:
                        self.fitted[tools] = again

    def _fit(self, catalog: Catalog, history: History) -> LearnedRouter:
        router = fit_router(catalog, history)
        router.is_counted = self._is_counted
        return router

    def _past(self) -> list[Mashup]:
        """Return all that served requests, by the ids of the store."""
        if self._store is None:
            with self._lock:
                return list(self._lessons.values())
        return _lessons(OnlineStore.records_after(self._store.path, 0)[1])

    def _restricted(self, tools: Iterable[Api], lessons: Iterable[Mashup]) -> list[Mashup]:
        """Return what lessons say of some tools, by the ids of these."""
        own = {self._ids.get(tool.id, tool.id): tool.id for tool in tools}
        left = [
            replace(lesson, apis=tuple(own[api] for api in lesson.apis if api in own))
            for lesson in lessons
        ]
        return [lesson for lesson in left if lesson.apis]


def _lessons(records: Iterable[Trajectory | Mashup]) -> list[Mashup]:
    """Return what served requests by the records of a store.

    A run that succeeded says it too: its mashup lacks the tools that the router did not know.
    """
    found: dict[str, Mashup] = {}
    for record in records:
        if isinstance(record, Trajectory):
            if not record.success or not record.goal.strip():
                continue
            tools = tuple(step.tool for step in record.steps if step.success is not False)
            lesson = Mashup(record.id, record.goal, tools, user=record.user)
        else:
            lesson = record
        before = found.get(record.id, lesson)
        apis = tuple(dict.fromkeys((*before.apis, *lesson.apis)))
        found[record.id] = replace(lesson, apis=apis, date=lesson.date or before.date)
    return list(found.values())
