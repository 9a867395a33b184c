"""`Router`: from the probability of each API to the recipients of an announcement."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal
from unicodedata import normalize

from cnp_router import telemetry
from cnp_router.exceptions import InputError
from cnp_router.pool import check_jobs
from cnp_router.records import check_date, check_instance, check_request, positions, string_tuple
from cnp_router.routing.deciding import Deciding, warn
from cnp_router.routing.many import (
    batches,
    check_requests,
    in_pieces,
    in_thread,
    routed_elsewhere,
    scored_elsewhere,
)
from cnp_router.routing.restriction import Restriction
from cnp_router.routing.result import Routing, Scores
from cnp_router.routing.routing_telemetry import watched_routing
from cnp_router.routing.scores import zeroed
from cnp_router.routing.selection import SelectionRule
from cnp_router.routing.unsure import Fallback

__all__ = ["Router"]

AT_ONCE = 256
"""So many requests are scored together: what that takes is bounded, however many there are."""


class Router(Deciding):
    """Base of all routers. Scoring is pure; deciding is separate.

    A subclass says how probable it is that a request needs each API (`_scores`); this class makes
    the decision. A request may be any string that is not blank. What every router must obey is in
    `cnp_router.checks`.

    Parameters
    ----------
    apis : iterable of str
        Distinct ids, at least one.

    Attributes
    ----------
    apis : tuple of str
        All API ids.
    recall_control : RecallControl or None
        What turns a target recall into a threshold of the probabilities. Without one the target
        is taken as a share of the probability mass, and nothing is promised.
    n_mashups : int or None
        How many past requests the probabilities were learned from; None where that says nothing.
    source_counts : collections.Counter
        How many routings each source has decided.
    is_counted : bool
        Whether routings are counted: not those of a router that only looks ahead.

    Raises
    ------
    InputError
        If there is no API, or an id comes twice.
    """

    def __init__(self, apis: Iterable[str]) -> None:
        self.apis = tuple(normalize("NFC", api) for api in string_tuple("apis", apis))
        self.source_counts = Counter()
        self._positions = positions("API", self.apis)
        if not self.apis:
            raise InputError("a router needs at least one API (got none)")

    @abstractmethod
    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        """Return the probabilities, given the positions of the known APIs and the day."""

    def _scores_many(
        self,
        requests: Sequence[str],
        known: Sequence[int],
        dates: Sequence[datetime.date | None],
    ) -> Iterator[Scores]:
        """Yield the `_scores` of each of some requests, at most `AT_ONCE`.

        A router that is faster with several at once overrides it.
        """
        for request, date in zip(requests, dates, strict=True):
            yield self._scores(request, known, date)

    def _handed_over(self, now: Router) -> tuple[Callable[[], Router], object]:
        """Return what gives a copy of this router in another process, and what that needs there."""
        return partial(_itself, now), None

    def _packed(self, scores: Scores) -> Any:
        """Return what goes from one process to another: all of it, unless a router knows better."""
        return scores

    def _unpacked(self, packed: Any, request: str, date: datetime.date | None) -> Scores:
        """Return the scores of a request that were `_packed` by a copy of this router."""
        scores: Scores = packed
        return scores

    @property
    def promises_recall(self) -> bool:
        """Whether a `TargetRecall` is promised, and not only aimed at; see `RecallControl`."""
        return self.recall_control is not None and self.recall_control.is_promise

    def score(
        self, request: str, known: Iterable[str] = (), *, date: datetime.date | None = None
    ) -> Scores:
        """Return the probability of each API that the request needs it.

        Parameters
        ----------
        request : str
            The requirement in plain language; not blank.
        known : iterable of str, default=()
            Ids of APIs that are already in use. Their probability is 0: they need no
            announcement. Ids the router does not know are ignored, with a warning in the log.
        date : datetime.date, optional
            The day the request is asked. Default: the newest date of the history, and never
            today: a past request is asked with its own date.

        Returns
        -------
        Scores

        Raises
        ------
        InputError
            If the request is blank or not a string, `known` is not a list of strings, or `date`
            is not a date.
        """
        places, ignored = self._known(known)
        warn("known APIs", ignored)
        return zeroed(
            self._scores(check_request(request), places, check_date("date", date)), places
        )

    def score_many(
        self,
        requests: Iterable[str],
        known: Iterable[str] = (),
        *,
        dates: Iterable[datetime.date | None] | None = None,
        n_jobs: int | None = None,
    ) -> Iterator[Scores]:
        """Return what `score` answers to each of many requests, faster and one after the other.

        Parameters
        ----------
        requests : iterable of str
        known : iterable of str, default=()
            As in `score`, for all of them.
        dates : iterable of datetime.date or None, optional
            One for each request, as in `score`.
        n_jobs : int or None, default=None
            Processes that score, -1 for one a core; None is 1 unless a ``joblib.parallel_config``
            says otherwise. Worth it for thousands of requests: starting them takes a second. A
            learned router is saved for them in a temporary folder, once as long as it learns
            nothing; another must be one that pickle can take.

        Returns
        -------
        iterator of Scores
            In the order of the requests. All of them are checked before the first is scored.

        Raises
        ------
        InputError
            As in `score`; it says which request it is.

        Examples
        --------
        >>> from cnp_router import Api, Catalog, SpecificationRouter
        >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends.")])
        >>> router = SpecificationRouter(catalog)
        >>> [scores.top(1)[0][0] for scores in router.score_many(["show places", "send it"])]
        ['maps', 'sms']
        """
        asked, days = check_requests(requests, dates)
        places, ignored = self._known(known)
        warn("known APIs", ignored)
        return self._scored(asked, places, days, check_jobs(n_jobs))

    def _scored(
        self,
        requests: Sequence[str],
        places: list[int],
        dates: Sequence[datetime.date | None],
        n_jobs: int | None,
    ) -> Iterator[Scores]:
        pieces = in_pieces(requests, dates, n_jobs)
        if len(pieces) == 1:
            yield from self._in_batches(places, *pieces[0])
        else:
            yield from scored_elsewhere(self, pieces, places, n_jobs)

    def _in_batches(
        self,
        places: Sequence[int],
        requests: Sequence[str],
        dates: Sequence[datetime.date | None],
    ) -> Iterator[Scores]:
        for own in batches(len(requests), AT_ONCE):
            found = self._scores_many(requests[own], places, dates[own])
            yield from (zeroed(scores, places) for scores in found)

    def route(
        self,
        request: str,
        known: Iterable[str] = (),
        *,
        among: Restriction | None = None,
        exclude: Restriction = (),
        select: SelectionRule | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
        date: datetime.date | None = None,
    ) -> Routing:
        """Decide who receives the announcement of a request: `score`, then `decide`.

        Parameters
        ----------
        request : str
            The requirement in plain language; not blank.
        known : iterable of str, default=()
            Ids of APIs that are already in use.
        among, exclude : iterable of str, or callable from str to bool
            The only APIs that this request may be announced to, and those that it may not: ids, or
            a function that gets an id. Whatever chooses, no other is a recipient or recommended.
            The probabilities are those of `score`, and the confidence counts a needed API outside
            as not served; a target recall is of those needed inside. Ids the router does not know
            are ignored, as in `known`.
        select : SelectionRule, default=TargetRecall(0.9)
            A `TargetRecall`, a `TopK`, a `MaxCost`, or a rule of your own.
        threshold : float in [0, 1], default=0.6
            Below this confidence the fallback decides.
        fallback : {"none", "broadcast"} or Fallback, default="none"
            ``"none"`` keeps what was learned, and says so in the result.
        date : datetime.date, optional
            As in `score`.

        Returns
        -------
        Routing

        Raises
        ------
        InputError
            If an argument cannot be used, or no API is left to announce to. What a function given
            as `among` or `exclude` raises goes through.

        Examples
        --------
        >>> from cnp_router.catalog import Api, Catalog
        >>> from cnp_router.routing import SpecificationRouter, TopK
        >>> catalog = Catalog([Api("maps", "Maps", "Shows places on a map."),
        ...                    Api("atlas", "Atlas", "An old map."), Api("sms", "SMS")])
        >>> router = SpecificationRouter(catalog)
        >>> router.route("places on a map", select=TopK(2)).contractors
        ('maps', 'atlas')
        >>> router.route("places on a map", exclude=["maps"], select=TopK(2)).contractors
        ('atlas', 'sms')
        """
        known = string_tuple("known", known)
        with telemetry.span("route") as span:
            scores = self.score(request, known, date=date)
            routing = self.decide(
                request,
                scores,
                known,
                among=among,
                exclude=exclude,
                select=select,
                threshold=threshold,
                fallback=fallback,
            )
            return watched_routing(routing, span)

    def decide(
        self,
        request: str,
        scores: Scores,
        known: Iterable[str] = (),
        *,
        among: Restriction | None = None,
        exclude: Restriction = (),
        select: SelectionRule | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
    ) -> Routing:
        """Decide on scores that are already there, for those who need both.

        Parameters
        ----------
        request : str
        scores : Scores
            What `score` answered to the same request, known APIs and date.
        known, among, exclude, select, threshold, fallback
            As in `route`.

        Returns
        -------
        Routing

        Raises
        ------
        InputError
            As in `route`.
        """
        request = check_request(request)
        n_apis = check_instance("scores", scores, Scores).n_apis
        if n_apis != len(self.apis):
            raise InputError(
                f"scores are of {n_apis} APIs, and the router has {len(self.apis)} "
                "(give those of its own score)"
            )
        how = self._how(known, among, exclude, select, threshold, fallback)
        return self._decided(request, scores, how)

    def route_many(
        self,
        requests: Iterable[str],
        known: Iterable[str] = (),
        *,
        among: Restriction | None = None,
        exclude: Restriction = (),
        select: SelectionRule | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
        dates: Iterable[datetime.date | None] | None = None,
        n_jobs: int | None = None,
        explain: bool = False,
    ) -> list[Routing]:
        """Decide on many requests, as `route` on each, but faster.

        Parameters
        ----------
        requests : iterable of str
            All of them are checked before the first is routed.
        known, among, exclude, select, threshold, fallback
            As in `route`, for all of them. A function given as `among` or `exclude` is asked once
            for each API.
        dates : iterable of datetime.date or None, optional
            One for each request, as in `score`.
        n_jobs : int or None, default=None
            Processes that score and decide, as in `score_many`. What they need of a rule of your
            own must be what pickle can take.
        explain : bool, default=False
            Find the reasons of all recipients now, in these processes: for those who read them of
            most routings. Otherwise they are found when they are first read, here, for which a
            request that another process scored is scored once more.

        Returns
        -------
        list of Routing
            In the order of the requests.

        Raises
        ------
        InputError
            As in `route`; it says which request it is.

        Examples
        --------
        >>> from cnp_router import Api, Catalog, SpecificationRouter
        >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends.")])
        >>> router = SpecificationRouter(catalog)
        >>> [routing.contractors[0] for routing in router.route_many(["show places", "send it"])]
        ['maps', 'sms']
        """
        asked, days = check_requests(requests, dates)
        places, ignored = self._known(known := string_tuple("known", known))
        warn("known APIs", ignored)
        how = self._how(known, among, exclude, select, threshold, fallback, explain=explain)
        with telemetry.span("route") as span:
            span.set(cnp_router__apis=len(self.apis))
            pieces = in_pieces(asked, days, check_jobs(n_jobs))
            if len(pieces) == 1:
                scored = zip(asked, self._in_batches(places, asked, days), strict=True)
                return [self._decided(request, scores, how) for request, scores in scored]
            return list(routed_elsewhere(self, pieces, places, how, n_jobs))

    async def aroute(
        self,
        request: str,
        known: Iterable[str] = (),
        *,
        among: Restriction | None = None,
        exclude: Restriction = (),
        select: SelectionRule | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
        date: datetime.date | None = None,
    ) -> Routing:
        """Decide as `route` does, in another thread: the event loop goes on meanwhile.

        Parameters, result and errors are those of `route`. What is given runs in that
        thread too: a function, a rule or a fallback of your own.

        Examples
        --------
        >>> import asyncio
        >>> from cnp_router import Api, BroadcastRouter, Catalog
        >>> router = BroadcastRouter(Catalog([Api("maps", "Maps"), Api("sms", "Text messages")]))
        >>> asyncio.run(router.aroute("a map")).n_recipients
        2
        """
        given: Any = {"among": among, "exclude": exclude, "select": select, "date": date}
        return await in_thread(
            self.route, request, known, threshold=threshold, fallback=fallback, **given
        )

    async def aroute_many(
        self,
        requests: Iterable[str],
        known: Iterable[str] = (),
        *,
        among: Restriction | None = None,
        exclude: Restriction = (),
        select: SelectionRule | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
        dates: Iterable[datetime.date | None] | None = None,
        n_jobs: int | None = None,
        explain: bool = False,
    ) -> list[Routing]:
        """Decide as `route_many` does, in another thread: the event loop goes on meanwhile.

        Parameters, result and errors are those of `route_many`. What is given runs in that thread,
        too.

        Examples
        --------
        >>> import asyncio
        >>> from cnp_router import Api, BroadcastRouter, Catalog
        >>> router = BroadcastRouter(Catalog([Api("maps", "Maps"), Api("sms", "Text messages")]))
        >>> found = asyncio.run(router.aroute_many(["a map", "a text"]))
        >>> [routing.n_recipients for routing in found]
        [2, 2]
        """
        given: Any = {"among": among, "exclude": exclude, "select": select, "dates": dates}
        given |= {"n_jobs": n_jobs, "explain": explain}
        return await in_thread(
            self.route_many, requests, known, threshold=threshold, fallback=fallback, **given
        )

    def recommend(
        self,
        request: str,
        known: Iterable[str] = (),
        *,
        among: Restriction | None = None,
        exclude: Restriction = (),
        date: datetime.date | None = None,
    ) -> tuple[str, ...]:
        """Return the APIs that the request needs: the recipients of the highest expected F1.

        Parameters
        ----------
        request : str
        known, among, exclude, date
            As in `route`.

        Returns
        -------
        tuple of str
            API ids, most probable first, without the known ones; none where nothing fits
            (`Routing.fits`). What comes nearest then is `Routing.recommendation`.

        Raises
        ------
        InputError
            As in `route`.

        Examples
        --------
        >>> from cnp_router import Api, Catalog, fit_router
        >>> router = fit_router(Catalog([Api("sms", "SMS", "Sends text messages to phones."),
        ...                              Api("maps", "Maps", "Shows places on a map.")]))
        >>> router.recommend("Send a text message to a phone.")
        ('sms',)
        >>> router.recommend("What is 7 times 8?")
        ()
        """
        routing = self.route(request, known, among=among, exclude=exclude, date=date)
        return routing.recommendation if routing.fits else ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.apis)} APIs)"


def _itself(router: Router) -> Router:
    return router
