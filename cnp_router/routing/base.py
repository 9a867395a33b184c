"""`Router`: from the probability of each contractor to the recipients of an announcement."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.routing.result import Reason, Recipient, Routing, Scores, Source
from cnp_router.routing.selection import (
    RecallControl,
    Selection,
    TargetRecall,
    expected_f1_size,
    selected,
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
        """Return the contractors to announce to besides those in `chosen`.

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
            Contractor ids.
        """
        ...


class Broadcast:
    """The fallback that announces to every contractor."""

    source: Source = "broadcast"

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return every contractor."""
        return [scores.contractors[i] for i in scores.order]


class Router(ABC):
    """Base of all routers. Scoring is pure; deciding is separate.

    A subclass says how probable it is that a request needs each contractor (`_scores`); this
    class makes the decision. A request may be any string, also an empty one. What every router
    must obey is in `cnp_router.checks`.

    Parameters
    ----------
    contractors : iterable of str
        Distinct ids, at least one.

    Attributes
    ----------
    contractors : tuple of str
        All contractor ids.
    recall_control : RecallControl or None
        What turns a target recall into a share of the probability mass. Without one the target
        itself is taken as that share, and nothing is promised.
    source_counts : collections.Counter
        How many routings each source has decided.

    Raises
    ------
    InputError
        If there is no contractor, or an id comes twice.
    """

    contractors: tuple[str, ...]
    recall_control: RecallControl | None = None
    _source: Source = "learned"

    def __init__(self, contractors: Iterable[str]) -> None:
        self.contractors = tuple(contractors)
        self.source_counts: Counter[str] = Counter()
        self._positions = {name: i for i, name in enumerate(self.contractors)}
        if not self.contractors:
            raise InputError("a router needs at least one contractor (got none)")
        if len(self._positions) < len(self.contractors):
            twice = Counter(self.contractors).most_common(1)[0][0]
            raise InputError(f"duplicate contractor id {twice!r} (ids must be unique)")

    @abstractmethod
    def _scores(self, request: str, known: Sequence[int]) -> Scores:
        """Return the probabilities, given the positions of the known APIs."""

    def score(self, request: str, known: Iterable[str] = ()) -> Scores:
        """Return the probability of each contractor that the request needs it.

        Parameters
        ----------
        request : str
            The requirement in plain language.
        known : iterable of str, default=()
            Ids of APIs that are already in use. Their probability is 0: they need no
            announcement. Ids the router does not know are ignored, with a warning in the log.

        Returns
        -------
        Scores

        Raises
        ------
        InputError
            If the request is not a string, or `known` is one.
        """
        positions, _ = self._known(known)
        return self._checked_scores(request, positions)

    def route(
        self,
        request: str,
        known: Iterable[str] = (),
        *,
        select: Selection | None = None,
        threshold: float = 0.6,
        fallback: Literal["none", "broadcast"] | Fallback = "none",
    ) -> Routing:
        """Decide who receives the announcement of a request: `score`, then `decide`.

        Parameters
        ----------
        request : str
            The requirement in plain language.
        known : iterable of str, default=()
            Ids of APIs that are already in use.
        select : TargetRecall, TopK or Budget, default=TargetRecall(0.9)
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
            If the request is not a string, the selection, the threshold or the fallback is not
            usable, or every contractor is already known.
        """
        positions, ignored = self._known(known)
        scores = self._checked_scores(request, positions)
        return self._decided(
            request,
            scores,
            positions,
            ignored,
            select=select or TargetRecall(),
            threshold=threshold,
            fallback=fallback,
        )

    def decide(
        self,
        request: str,
        scores: Scores,
        known: Iterable[str] = (),
        *,
        select: Selection | None = None,
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
        positions, ignored = self._known(known)
        return self._decided(
            request,
            scores,
            positions,
            ignored,
            select=select or TargetRecall(),
            threshold=threshold,
            fallback=fallback,
        )

    def _decided(
        self,
        request: str,
        scores: Scores,
        known: Sequence[int],
        ignored: tuple[str, ...],
        *,
        select: Selection,
        threshold: float,
        fallback: str | Fallback,
    ) -> Routing:
        if not isinstance(select, Selection):
            raise InputError(
                f"unknown selection {select!r} (use a TargetRecall, a TopK or a Budget)"
            )
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold must be between 0 and 1, got {threshold!r}")
        fallback_name, other = _fallback(fallback)
        allowed = scores.order[~np.isin(scores.order, known)] if known else scores.order
        if not len(allowed):
            raise InputError("every contractor is already known: there is no one to announce to")
        chosen = self._chosen(select, scores, allowed)
        confidence = self._confidence(scores, chosen)
        reasons = self._reasons(scores, chosen)
        source = self._source
        if confidence < threshold and other is not None:
            source = other.source
            names = other.recipients(request, scores, [self.contractors[i] for i in chosen])
            chosen = self._widened(chosen, names, allowed)
            logger.info(
                "confidence %.2f is below %.2f: %s fallback to %d contractors",
                confidence,
                threshold,
                source,
                len(chosen),
            )
        self.source_counts[source] += 1
        size = expected_f1_size(scores.probabilities[allowed])
        return Routing(
            request=request,
            recipients=tuple(
                Recipient(
                    self.contractors[i], float(scores.probabilities[i]), reasons.get(int(i), ())
                )
                for i in chosen
            ),
            recommendation=tuple(self.contractors[i] for i in allowed[:size]),
            confidence=confidence,
            source=source,
            n_contractors=len(self.contractors),
            threshold=threshold,
            fallback=fallback_name,
            known=tuple(self.contractors[i] for i in known),
            ignored=ignored,
        )

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
        """
        return self.route(request, known).recommendation

    def _chosen(
        self, select: Selection, scores: Scores, allowed: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return the positions of the recipients, out of those in `allowed` and in their order."""
        return selected(
            select, self.contractors, scores.probabilities, allowed, self.recall_control
        )

    def _widened(
        self, chosen: NDArray[np.intp], names: Iterable[str], allowed: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return `chosen` and the named contractors, most probable first, without known ones."""
        named = list(names)
        strangers = [name for name in named if name not in self._positions]
        if strangers:
            raise UnknownApiError(strangers[0])
        wider = np.array([self._positions[name] for name in named], dtype=np.intp)
        return allowed[np.isin(allowed, np.concatenate([chosen, wider]))]

    def _confidence(self, scores: Scores, chosen: NDArray[np.intp]) -> float:
        """Return the probability that no contractor outside `chosen` is needed.

        This one takes needs as independent; a router that can do better overrides it.
        """
        outside = np.delete(scores.probabilities, chosen)
        return float(np.exp(np.log1p(-np.minimum(outside, 1 - 1e-12)).sum()))

    def _reasons(self, scores: Scores, chosen: NDArray[np.intp]) -> dict[int, tuple[Reason, ...]]:
        """Return reasons by contractor position; a router that knows some overrides it."""
        return {}

    def _checked_scores(self, request: str, known: Sequence[int]) -> Scores:
        if not isinstance(request, str):
            raise InputError(f"a request must be a string, got {request!r}")
        scores = self._scores(request, known)
        if known and scores.probabilities[list(known)].any():
            probabilities = scores.probabilities.copy()
            probabilities[list(known)] = 0.0
            scores = replace(scores, probabilities=probabilities)
        return scores

    def _known(self, known: Iterable[str]) -> tuple[list[int], tuple[str, ...]]:
        if isinstance(known, str):
            raise InputError(f"known must be a list of API ids, got the string {known!r}")
        wanted = list(dict.fromkeys(known))
        ignored = tuple(name for name in wanted if name not in self._positions)
        if ignored:
            logger.warning("known APIs that the router has never heard of: %s", ", ".join(ignored))
        return [self._positions[name] for name in wanted if name in self._positions], ignored


def _fallback(fallback: str | Fallback) -> tuple[str, Fallback | None]:
    """Return its name, and who decides."""
    if fallback == "none":
        return "none", None
    if fallback == "broadcast":
        return "broadcast", Broadcast()
    if isinstance(fallback, Fallback):
        return fallback.source, fallback
    raise InputError(f"unknown fallback {fallback!r} (use 'none', 'broadcast' or a Fallback)")
