"""`Deciding`: from the probability of each API to the recipients."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.records import check_flag, check_number, shown
from cnp_router.routing.eligible import (
    Chosen,
    Eligible,
    First,
    RankedEligible,
    best_of,
    none_of,
    none_outside,
)
from cnp_router.routing.recall import RecallControl
from cnp_router.routing.recipient import Reason, Recipient, recipients_of
from cnp_router.routing.restriction import LimitCache, Limits, Restriction, lookup
from cnp_router.routing.result import Routing, Source
from cnp_router.routing.routing_telemetry import counted_routing
from cnp_router.routing.scores import Scores
from cnp_router.routing.selection import Ranked, SelectionRule, TargetRecall
from cnp_router.routing.unsure import Fallback, fallback_called

__all__ = ["Deciding", "Decision", "How", "warn"]

logger = logging.getLogger("cnp_router.routing")

_BY_DEFAULT = TargetRecall()
_NAMED = 10  # ids in a line of the log
_COUNTING = threading.Lock()  # threads may route at the same time

Explained = dict[int, tuple[Reason, ...]]
Explaining = Callable[[NDArray[np.intp]], dict[str, tuple[Reason, ...]]]


@dataclass(frozen=True, eq=False)
class How:
    """How to decide: by which rule, on whom, and whether to `explain` it at once."""

    rule: SelectionRule
    threshold: float
    other: Fallback | None
    whom: Limits
    known: tuple[str, ...]
    ignored: tuple[str, ...]
    explain: bool = False


@dataclass(frozen=True, eq=False)
class Decision:
    """What a router decides by itself: positions of the recipients, most probable first.

    `given` are their probabilities, None where they are found later, and `best` of them are
    recommended. `explained` has the reasons of all by the id of their API, None where they are
    found later.
    """

    chosen: Chosen
    given: NDArray[Any] | None
    best: NDArray[np.intp]
    confidence: float
    answerable: float
    has_known_words: bool
    explained: Mapping[str, tuple[Reason, ...]] | None = None

    def of(self, eligible: Callable[[], Eligible]) -> Decision:
        """Return it with what the first of so many are found among, if it came without."""
        if not isinstance(self.chosen, First):
            return self
        return replace(self, chosen=replace(self.chosen, of=eligible))


class Deciding(ABC):
    """The half of a router that decides, on scores that are there."""

    apis: tuple[str, ...]
    recall_control: RecallControl | None = None
    n_mashups: int | None = None
    n_fitted: int | None = None
    is_counted: bool = True
    source_counts: Counter[str]
    _source: Source = "learned"
    _positions: dict[str, int]

    @functools.cached_property
    def _limits(self) -> LimitCache:
        return LimitCache()

    def _how(
        self,
        known: Iterable[str],
        among: Restriction | None,
        exclude: Restriction,
        select: SelectionRule | None,
        threshold: float,
        fallback: str | Fallback,
        *,
        explain: bool = False,
    ) -> How:
        """Return how to decide, once it is checked: for one request, or for many."""
        places, ignored = self._known(known)
        rule = _BY_DEFAULT if select is None else select
        if not isinstance(rule, SelectionRule):
            raise InputError(
                f"unknown selection {shown(select)} (use a TargetRecall, a TopK, a MaxCost or a "
                "SelectionRule of your own)"
            )
        threshold = check_number("threshold", threshold, 0, 1)
        other = fallback_called(fallback)
        whom = self._limits.limits(self._positions, places, among, exclude)
        for name, ids in whom.strangers.items():
            warn(f"APIs in {name}", ids)
        return How(
            rule,
            threshold,
            other,
            whom,
            known=tuple(self.apis[i] for i in places),
            ignored=tuple(dict.fromkeys(itertools.chain(ignored, *whom.strangers.values()))),
            explain=check_flag("explain", explain),
        )

    def _decided(self, request: str, scores: Scores, how: How) -> Routing:
        decision = self._decision(scores, how)
        return self._routing(request, decision, how, self._explaining(scores), lambda: scores)

    def _decision(self, scores: Scores, how: How) -> Decision:
        """Return what is decided before any fallback."""
        left: Any = Eligible(scores, how.whom)  # an array to whoever takes it for one
        chosen = self._chosen(how.rule, scores, left)
        given, best = best_of(scores, chosen)
        return Decision(
            chosen,
            given,
            best,
            confidence=self._confidence(scores, chosen, left),
            answerable=self._answerable(scores, left),
            has_known_words=scores.has_known_words,
            explained=self._explaining(scores)(np.asarray(chosen)) if how.explain else None,
        )

    def _routing(
        self,
        request: str,
        decision: Decision,
        how: How,
        reasons: Explaining,
        scores: Callable[[], Scores],
    ) -> Routing:
        """Return the routing of a decision, whose scores a fallback may ask for.

        `reasons` gives those of some of the chosen; whom a fallback adds has none.
        """
        chosen, given, best = decision.chosen, decision.given, decision.best
        confidence, source = decision.confidence, self._source
        if confidence < how.threshold and how.other is not None:
            source = how.other.source
            before = scores()
            left: Any = Eligible(before, how.whom)
            chosen = self._widened(request, before, how.other, np.asarray(chosen), left)
            given, best = best_of(before, chosen)
            logger.info(
                "confidence %.2f is below %.2f: %s fallback to %d APIs",
                *(confidence, how.threshold, source, len(chosen)),
            )
        apis = self.apis

        def recipients() -> tuple[Recipient, ...]:
            positions = np.asarray(chosen)
            p = scores().at(positions) if given is None else given
            own = None if chosen is decision.chosen else np.asarray(decision.chosen)

            def explain(which: slice) -> Mapping[str, tuple[Reason, ...]]:
                if decision.explained is not None:
                    return decision.explained
                some = positions[which]
                return reasons(some if own is None else some[np.isin(some, own)])

            return recipients_of([apis[i] for i in positions.tolist()], p.tolist(), explain)

        routing = Routing.of(
            len(chosen),
            recipients,
            request=request,
            recommendation=tuple(apis[i] for i in best.tolist()),
            confidence=confidence,
            source=source,
            n_apis=len(self.apis),
            threshold=how.threshold,
            fallback="none" if how.other is None else how.other.source,
            known=how.known,
            ignored=how.ignored,
            n_allowed=how.whom.n,
            answerable=decision.answerable,
            n_mashups=self.n_mashups,
            n_fitted=self.n_fitted,
            has_known_words=decision.has_known_words,
        )
        if self.is_counted:
            with _COUNTING:
                self.source_counts[source] += 1
            counted_routing(routing)
        return routing

    def _chosen(self, rule: SelectionRule, scores: Scores, allowed: NDArray[np.intp]) -> Chosen:
        """Return the positions of the recipients, out of those in `allowed` and in their order."""
        control, n_needs, months = self._control(scores), scores.n_needs, scores.months
        ranked: Ranked
        if isinstance(allowed, Eligible):
            ranked = RankedEligible(self.apis, allowed, control, n_needs, months)
            return allowed.at(rule.ranks(ranked))
        ranked = Ranked(self.apis, scores.at(allowed), control, allowed, n_needs, months)
        return allowed[rule.places(ranked)]

    def _control(self, scores: Scores) -> RecallControl | None:
        """Return what a target recall goes by; a router that learns has that of its scores."""
        return self.recall_control

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
        places, strangers = lookup("what a fallback returns", named, self._positions)
        if strangers:
            raise UnknownApiError(strangers[0])
        wider = np.array(places, dtype=np.intp)
        wanted = np.union1d(chosen, wider)
        if isinstance(allowed, Eligible):
            wanted = wanted[allowed.holds(wanted)]
        else:
            wanted = wanted[np.isin(wanted, allowed)]
        return wanted[np.argsort(-scores.at(wanted), kind="stable")]

    def _confidence(self, scores: Scores, chosen: Chosen, allowed: NDArray[np.intp]) -> float:
        """Return the probability that no API outside `chosen` is needed.

        Those outside `allowed`, the positions that may be asked, are outside too. This one takes
        needs as independent; a router that can do better overrides it.
        """
        return none_outside(scores, chosen)

    def _answerable(self, scores: Scores, allowed: NDArray[np.intp]) -> float:
        """Return the probability that any API in `allowed` is needed.

        This one takes needs as independent; a router that can do better overrides it.
        """
        return 1 - none_of(scores, allowed)

    def _reasons(self, scores: Scores, chosen: NDArray[np.intp]) -> Explained:
        """Return reasons by position of the API, for some of the chosen: of those that are read.

        A router that knows some overrides it.
        """
        return {}

    def _explaining(self, scores: Scores) -> Explaining:
        """Return what gives the `_reasons`, by the id of the API, once somebody reads them.

        A router that learns meanwhile overrides `_explained`, which takes what they are made of.
        """
        explained, apis = self._explained(scores), self.apis
        return lambda some: {apis[int(i)]: reasons for i, reasons in explained(some).items()}

    def _explained(self, scores: Scores) -> Callable[[NDArray[np.intp]], Explained]:
        return functools.partial(self._reasons, scores)

    def _known(self, known: Iterable[str]) -> tuple[list[int], tuple[str, ...]]:
        """Return the positions of the known APIs, and the ids that no API has."""
        return lookup("known", known, self._positions)


def warn(what: str, strangers: Sequence[str]) -> None:
    """Say in the log which ids are ignored."""
    if strangers:
        names = ", ".join(map(ascii, strangers[:_NAMED]))
        more = f" and {len(strangers) - _NAMED} more" if len(strangers) > _NAMED else ""
        logger.warning("%s that the router has never heard of: %s%s", what, names, more)
