"""`Router`: from the probability of each API to the recipients of an announcement."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, Protocol, runtime_checkable
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.records import (
    check_instance,
    check_number,
    check_request,
    positions,
    shown,
    string_tuple,
)
from cnp_router.routing.result import Reason, Recipient, Routing, Scores, Source
from cnp_router.routing.selection import (
    Ranked,
    RecallControl,
    SelectionRule,
    TargetRecall,
    expected_f1_size,
)

__all__ = ["Fallback", "Router"]

logger = logging.getLogger("cnp_router.routing")


@runtime_checkable
class Fallback(Protocol):
    """Who decides below the threshold: the seam for a language model.

    Attributes
    ----------
    source : {"llm", "broadcast"}
        What the routing gives as its source.
    """

    source: Source

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return the APIs to ask for besides those in `chosen`.

        Parameters
        ----------
        request : str
        scores : Scores
        chosen : sequence of str
            What the router chose. They stay recipients whatever is returned, and the router puts
            all of them in order.

        Returns
        -------
        sequence of str
            API ids.
        """
        ...


class Broadcast:
    """The fallback that announces to everyone."""

    source: Source = "broadcast"

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return every API."""
        return scores.apis


_FALLBACKS: dict[str, Fallback | None] = {"none": None, "broadcast": Broadcast()}


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
        What turns a target recall into a share of the probability mass. Without one the target
        itself is taken as that share, and nothing is promised.
    source_counts : collections.Counter
        How many routings each source has decided.

    Raises
    ------
    InputError
        If there is no API, or an id comes twice.
    """

    apis: tuple[str, ...]
    recall_control: RecallControl | None = None
    _source: Source = "learned"

    def __init__(self, apis: Iterable[str]) -> None:
        self.apis = string_tuple("apis", apis)
        self.source_counts: Counter[str] = Counter()
        self._positions = positions("API", self.apis)
        if not self.apis:
            raise InputError("a router needs at least one API (got none)")

    @abstractmethod
    def _scores(self, request: str, known: Sequence[int]) -> Scores:
        """Return the probabilities, given the positions of the known APIs."""

    def score(self, request: str, known: Iterable[str] = ()) -> Scores:
        """Return the probability of each API that the request needs it.

        Parameters
        ----------
        request : str
            The requirement in plain language; not blank.
        known : iterable of str, default=()
            Ids of APIs that are already in use. Their probability is 0: they need no
            announcement. Ids the router does not know are ignored, with a warning in the log.

        Returns
        -------
        Scores

        Raises
        ------
        InputError
            If the request is blank or not a string, or `known` is not a list of strings.
        """
        places, ignored = self._known(known)
        if ignored:
            names = ", ".join(map(ascii, ignored))
            logger.warning("known APIs that the router has never heard of: %s", names)
        scores = self._scores(check_request(request), places)
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
        select: SelectionRule | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
    ) -> Routing:
        """Decide who receives the announcement of a request: `score`, then `decide`.

        Parameters
        ----------
        request : str
            The requirement in plain language; not blank.
        known : iterable of str, default=()
            Ids of APIs that are already in use.
        select : SelectionRule, default=TargetRecall(0.9)
            A `TargetRecall`, a `TopK`, a `MaxCost`, or a rule of your own.
        threshold : float in [0, 1], default=0.6
            Below this confidence the fallback decides.
        fallback : {"none", "broadcast"} or Fallback, default="none"
            ``"none"`` keeps what was learned, and says so in the result.

        Returns
        -------
        Routing

        Raises
        ------
        InputError
            If an argument cannot be used, or every API is already known.
        """
        known = string_tuple("known", known)
        scores = self.score(request, known)
        return self.decide(
            request, scores, known, select=select, threshold=threshold, fallback=fallback
        )

    def decide(
        self,
        request: str,
        scores: Scores,
        known: Iterable[str] = (),
        *,
        select: SelectionRule | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
    ) -> Routing:
        """Decide on scores that are already there, for those who need both.

        Parameters
        ----------
        request : str
        scores : Scores
            What `score` answered to the same request and known APIs.
        known, select, threshold, fallback
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
        other = _fallback(fallback)
        request = check_request(request)
        p = check_instance("scores", scores, Scores).probabilities
        if len(p) != len(self.apis):
            raise InputError(
                f"scores are of {len(p)} APIs, and the router has {len(self.apis)} "
                "(give those of its own score)"
            )
        allowed = scores.order[~np.isin(scores.order, places)] if places else scores.order
        if not len(allowed):
            raise InputError(
                "every API is already known: there is no one to announce to (name fewer)"
            )
        chosen = self._chosen(rule, scores, allowed)
        confidence = self._confidence(scores, chosen)
        reasons = self._reasons(scores, chosen)
        source = self._source
        if confidence < threshold and other is not None:
            source = other.source
            chosen = self._widened(request, scores, other, chosen, allowed)
            logger.info(
                "confidence %.2f is below %.2f: %s fallback to %d APIs",
                *(confidence, threshold, source, len(chosen)),
            )
        routing = Routing(
            request=request,
            recipients=tuple(
                Recipient(self.apis[i], float(p[i]), reasons.get(int(i), ())) for i in chosen
            ),
            recommendation=tuple(self.apis[i] for i in allowed[: expected_f1_size(p[allowed])]),
            confidence=confidence,
            source=source,
            n_apis=len(self.apis),
            threshold=threshold,
            fallback="none" if other is None else other.source,
            known=tuple(self.apis[i] for i in places),
            ignored=ignored,
        )
        self.source_counts[source] += 1
        return routing

    def recommend(self, request: str, known: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the APIs that the request needs: the set of the highest expected F1.

        Parameters
        ----------
        request : str
        known : iterable of str, default=()

        Returns
        -------
        tuple of str
            API ids, most probable first, without the known ones.

        Raises
        ------
        InputError
            As in `route`.
        """
        return self.route(request, known).recommendation

    def _chosen(
        self, rule: SelectionRule, scores: Scores, allowed: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return the positions of the recipients, out of those in `allowed` and in their order."""
        p = scores.probabilities[allowed]
        return allowed[rule.places(Ranked(self.apis, p, self.recall_control, allowed))]

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

    def _confidence(self, scores: Scores, chosen: NDArray[np.intp]) -> float:
        """Return the probability that no API outside `chosen` is needed.

        This one takes needs as independent; a router that can do better overrides it.
        """
        outside = np.delete(scores.probabilities, chosen)
        return float(np.exp(np.log1p(-np.minimum(outside, 1 - 1e-12)).sum()))

    def _reasons(self, scores: Scores, chosen: NDArray[np.intp]) -> dict[int, tuple[Reason, ...]]:
        """Return reasons by position of the API; a router that knows some overrides it."""
        return {}

    def _known(self, known: Iterable[str]) -> tuple[list[int], tuple[str, ...]]:
        """Return the positions of the known APIs, and the ids that no API has."""
        wanted = {normalize("NFC", name): name for name in string_tuple("known", known)}
        ignored = tuple(given for name, given in wanted.items() if name not in self._positions)
        return [self._positions[name] for name in wanted if name in self._positions], ignored

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.apis)} APIs)"


def _fallback(fallback: str | Fallback) -> Fallback | None:
    """Return who decides below the threshold; None if no one does."""
    if isinstance(fallback, str):
        if fallback in _FALLBACKS:
            return _FALLBACKS[fallback]
    elif isinstance(fallback, Fallback):
        return fallback
    raise InputError(f"unknown fallback {shown(fallback)} (use 'none', 'broadcast' or a Fallback)")
