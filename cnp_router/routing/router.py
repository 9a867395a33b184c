"""`Router`: from the probability of each API to the recipients of an announcement."""

from __future__ import annotations

import datetime
import itertools
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cnp_router import telemetry
from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.records import (
    check_date,
    check_instance,
    check_number,
    check_request,
    positions,
    shown,
    string_tuple,
)
from cnp_router.routing.recall import RecallControl
from cnp_router.routing.restriction import Restriction, allowed, lookup
from cnp_router.routing.result import Reason, Recipient, Routing, Scores, Source
from cnp_router.routing.routing_telemetry import counted_routing, watched_routing
from cnp_router.routing.selection import (
    Ranked,
    SelectionRule,
    TargetRecall,
    expected_f1_size,
)
from cnp_router.routing.unsure import Fallback, fallback_called

__all__ = ["Router"]

logger = logging.getLogger("cnp_router.routing")

_NAMED = 10  # ids in a line of the log


class Router(ABC):
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

    apis: tuple[str, ...]
    recall_control: RecallControl | None = None
    n_mashups: int | None = None
    is_counted: bool = True
    _source: Source = "learned"

    def __init__(self, apis: Iterable[str]) -> None:
        self.apis = string_tuple("apis", apis)
        self.source_counts: Counter[str] = Counter()
        self._positions = positions("API", self.apis)
        if not self.apis:
            raise InputError("a router needs at least one API (got none)")

    @abstractmethod
    def _scores(self, request: str, known: Sequence[int], date: datetime.date | None) -> Scores:
        """Return the probabilities, given the positions of the known APIs and the day."""

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
        _warn("known APIs", ignored)
        scores = self._scores(check_request(request), places, check_date("date", date))
        if places and scores.probabilities[places].any():
            probabilities = scores.probabilities.copy()
            probabilities[places] = 0.0
            scores = replace(scores, probabilities=probabilities)
        return scores

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
        places, ignored = self._known(known)
        rule = TargetRecall() if select is None else select
        if not isinstance(rule, SelectionRule):
            raise InputError(
                f"unknown selection {shown(select)} (use a TargetRecall, a TopK, a MaxCost or a "
                "SelectionRule of your own)"
            )
        threshold = check_number("threshold", threshold, 0, 1)
        other = fallback_called(fallback)
        request = check_request(request)
        p = check_instance("scores", scores, Scores).probabilities
        if len(p) != len(self.apis):
            raise InputError(
                f"scores are of {len(p)} APIs, and the router has {len(self.apis)} "
                "(give those of its own score)"
            )
        mask, strangers = allowed(self._positions, places, among, exclude)
        for name, ids in strangers.items():
            _warn(f"APIs in {name}", ids)
        left = scores.order[mask[scores.order]]
        chosen = self._chosen(rule, scores, left)
        confidence = self._confidence(scores, chosen, left)
        reasons = self._reasons(scores, chosen)
        source = self._source
        if confidence < threshold and other is not None:
            source = other.source
            chosen = self._widened(request, scores, other, chosen, left)
            logger.info(
                "confidence %.2f is below %.2f: %s fallback to %d APIs",
                *(confidence, threshold, source, len(chosen)),
            )
        routing = Routing(
            request=request,
            recipients=tuple(
                Recipient(self.apis[i], float(p[i]), reasons.get(int(i), ())) for i in chosen
            ),
            recommendation=tuple(self.apis[i] for i in _best(scores, chosen)),
            confidence=confidence,
            source=source,
            n_apis=len(self.apis),
            threshold=threshold,
            fallback="none" if other is None else other.source,
            known=tuple(self.apis[i] for i in places),
            ignored=tuple(dict.fromkeys(itertools.chain(ignored, *strangers.values()))),
            n_allowed=len(left),
            answerable=self._answerable(scores, left),
            n_mashups=self.n_mashups,
            has_known_words=scores.has_known_words,
        )
        if self.is_counted:
            self.source_counts[source] += 1
            counted_routing(routing)
        return routing

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

    def _chosen(
        self, rule: SelectionRule, scores: Scores, allowed: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return the positions of the recipients, out of those in `allowed` and in their order."""
        p = scores.probabilities[allowed]
        ranked = Ranked(self.apis, p, self.recall_control, allowed, scores.n_needs, scores.months)
        return allowed[rule.places(ranked)]

    def _widened(
        self,
        request: str,
        scores: Scores,
        other: Fallback,
        chosen: NDArray[np.intp],
        allowed: NDArray[np.intp],
    ) -> NDArray[np.intp]:
        """Return `chosen` and what the fallback names, most probable first, without known ones."""
        named = other.recipients(request, scores, [self.apis[i] for i in chosen])
        names = string_tuple("what a fallback returns", named)
        strangers = [name for name in names if name not in self._positions]
        if strangers:
            raise UnknownApiError(strangers[0])
        wider = np.array([self._positions[name] for name in names], dtype=np.intp)
        return allowed[np.isin(allowed, np.concatenate([chosen, wider]))]

    def _confidence(
        self, scores: Scores, chosen: NDArray[np.intp], allowed: NDArray[np.intp]
    ) -> float:
        """Return the probability that no API outside `chosen` is needed.

        Those outside `allowed`, the positions that may be asked, are outside too. This one takes
        needs as independent; a router that can do better overrides it.
        """
        return _none_of(np.delete(scores.probabilities, chosen))

    def _answerable(self, scores: Scores, allowed: NDArray[np.intp]) -> float:
        """Return the probability that any API in `allowed` is needed.

        This one takes needs as independent; a router that can do better overrides it.
        """
        return 1 - _none_of(scores.probabilities[allowed])

    def _reasons(self, scores: Scores, chosen: NDArray[np.intp]) -> dict[int, tuple[Reason, ...]]:
        """Return reasons by position of the API; a router that knows some overrides it."""
        return {}

    def _known(self, known: Iterable[str]) -> tuple[list[int], tuple[str, ...]]:
        """Return the positions of the known APIs, and the ids that no API has."""
        return lookup("known", known, self._positions)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.apis)} APIs)"


def _none_of(probabilities: NDArray[Any]) -> float:
    """Return the probability that none of some independent needs is there."""
    return float(np.exp(np.log1p(-np.minimum(probabilities, 1 - 1e-12)).sum()))


def _best(scores: Scores, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return which of the chosen to recommend: the set of the highest expected F1."""
    others = np.ones(len(scores.order), dtype=bool)
    others[chosen] = False
    outside = scores.probabilities[scores.order[others[scores.order]]]
    return chosen[: expected_f1_size(scores.probabilities[chosen], outside)]


def _warn(what: str, strangers: Sequence[str]) -> None:
    """Say in the log which ids are ignored."""
    if strangers:
        names = ", ".join(map(ascii, strangers[:_NAMED]))
        more = f" and {len(strangers) - _NAMED} more" if len(strangers) > _NAMED else ""
        logger.warning("%s that the router has never heard of: %s%s", what, names, more)
