"""`Router`: from the probability of each contractor to the recipients of an announcement."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError
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
        """Return contractor ids, at least those in `chosen`, most probable first."""
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
    class makes the decision. A request may be any string, also an empty one.

    Attributes
    ----------
    contractors : tuple of str
        All contractor ids.
    source_counts : collections.Counter
        How many routings each source has decided.
    """

    contractors: tuple[str, ...]
    recall_control: RecallControl | None = None

    def __init__(self, contractors: Iterable[str]) -> None:
        self.contractors = tuple(contractors)
        self.source_counts: Counter[str] = Counter()
        self._positions = {name: i for i, name in enumerate(self.contractors)}

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
            announcement. Ids the router does not know are ignored.

        Returns
        -------
        Scores
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
        """Decide who receives the announcement of a request.

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
            If the request is not a string, the threshold is outside [0, 1] or the fallback is
            unknown.
        """
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold must be between 0 and 1, got {threshold!r}")
        chosen_fallback = _fallback(fallback)
        positions, ignored = self._known(known)
        scores = self._checked_scores(request, positions)
        allowed = scores.order[~np.isin(scores.order, positions)]
        if not len(allowed):
            raise InputError("every contractor is already known: there is no one to announce to")
        chosen = selected(
            select or TargetRecall(),
            self.contractors,
            scores.probabilities,
            allowed,
            self.recall_control,
        )
        confidence = self._confidence(scores, chosen)
        source: Source = "learned"
        reasons = self._reasons(scores, chosen)
        if confidence < threshold and chosen_fallback is not None:
            source = chosen_fallback.source
            names = chosen_fallback.recipients(
                request, scores, [self.contractors[i] for i in chosen]
            )
            wider = np.array([self._positions[name] for name in names], dtype=np.intp)
            chosen = wider[~np.isin(wider, positions)]
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
            fallback=fallback if isinstance(fallback, str) else chosen_fallback.source,  # type: ignore[union-attr]
            known=tuple(self.contractors[i] for i in positions),
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
        return self._scores(request, known)

    def _known(self, known: Iterable[str]) -> tuple[list[int], tuple[str, ...]]:
        if isinstance(known, str):
            raise InputError(f"known must be a list of API ids, got the string {known!r}")
        wanted = list(dict.fromkeys(known))
        ignored = tuple(name for name in wanted if name not in self._positions)
        if ignored:
            logger.warning("known APIs that the router has never heard of: %s", ", ".join(ignored))
        return [self._positions[name] for name in wanted if name in self._positions], ignored


def _fallback(fallback: str | Fallback) -> Fallback | None:
    if fallback == "none":
        return None
    if fallback == "broadcast":
        return Broadcast()
    if isinstance(fallback, Fallback):
        return fallback
    raise InputError(f"unknown fallback {fallback!r} (use 'none', 'broadcast' or a Fallback)")
