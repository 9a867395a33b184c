"""`SideBySide`: a request answered by keyword search, by a router, and by rounds, with the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from cnp_router.agents import offline_model
from cnp_router.catalog import Catalog
from cnp_router.evaluation.metrics import SetScores, set_scores
from cnp_router.history import History, Mashup
from cnp_router.protocols import Announcement, ContractNet
from cnp_router.routing import Router, Routing, SpecificationRouter

__all__ = ["METHODS", "Answer", "Asked", "MeanAnswer", "SideBySide", "mean_answers", "typical"]

METHODS = ("keyword search", "learned router", "broadcast round", "routed round")
"""The methods, in the order of the answers; keyword search comes first, to compare with."""

_PROTOCOL = "contractor-led"  # the request itself is announced, and everyone reasons about it
_SEVERAL = 3  # APIs: what needs one is found wholly or not at all, and shows little


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method found for a request, and what that cost.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    apis : tuple of str
        Ids of what it says is needed, most probable first.
    contractors : tuple of str
        Ids of those that were asked.
    messages, tokens : int
        Messages between them and the manager, tokens in and out.
    seconds : float
    routing : Routing or None
        What the learned router decided; None of the others.
    """

    method: str
    apis: tuple[str, ...]
    contractors: tuple[str, ...]
    messages: int
    tokens: int
    seconds: float
    routing: Routing | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON object, without the routing."""
        return {
            "method": self.method,
            "apis": list(self.apis),
            "contractors": len(self.contractors),
            "messages": self.messages,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """A past request that no method has learned from, and the answers to it."""

    mashup: Mashup
    answers: tuple[Answer, ...]

    @property
    def scores(self) -> tuple[SetScores, ...]:
        """What each answer is worth, by the APIs that the mashup used."""
        return tuple(set_scores(answer.apis, self.mashup.apis) for answer in self.answers)

    @property
    def reached(self) -> tuple[float, ...]:
        """Share of the contractors of what the mashup used that were asked, by method."""
        needed = set(self.mashup.apis)
        return tuple(len(needed & set(a.contractors)) / len(needed) for a in self.answers)


@dataclass(frozen=True, slots=True)
class MeanAnswer:
    """Means of one method over several requests.

    Recall, precision and F1 are of what it says is needed, and `reached` is the share of those
    needed among the contractors asked: all in [0, 1].
    """

    method: str
    recall: float
    precision: float
    f1: float
    contractors: float
    reached: float
    messages: float
    tokens: float

    def to_dict(self) -> dict[str, Any]:
        """Return the means as a JSON object."""
        means = {name: round(value, 6) for name, value in asdict(self).items() if name != "method"}
        return {"method": self.method, **means}


class SideBySide:
    """Answers requests by each of `METHODS`.

    Keyword search is BM25 over the specifications; how many of its best are needed, it learns from
    the history, as the router does. Both rounds are contractor-led, and the offline model answers
    in them: their traffic is that of the real prompts, their choices are those of a comparison of
    texts, and do not measure a language model.

    Parameters
    ----------
    catalog : Catalog
    history : History
        What the router was fitted on.
    router : Router

    Examples
    --------
    >>> from cnp_router import Api, Mashup, fit_router
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> history = History([Mashup("m1", "bars on a map", ("maps",)),
    ...                    Mashup("m2", "text me the news", ("sms",))])
    >>> asked = SideBySide(catalog, history, fit_router(catalog, history))
    >>> for answer in asked.answers("text me"):
    ...     print(answer.method, answer.apis, len(answer.contractors))
    keyword search ('sms',) 0
    learned router ('sms',) 0
    broadcast round ('sms',) 2
    routed round ('sms',) 1
    """

    def __init__(self, catalog: Catalog, history: History, router: Router) -> None:
        self._keywords = SpecificationRouter(catalog, history)
        self._router = router
        self._net = ContractNet(catalog, offline_model(catalog), router=router)

    def answers(self, request: str) -> tuple[Answer, ...]:
        """Return the answer of each method."""
        searched, routed = (
            self._routed(self._keywords, request),
            self._routed(self._router, request),
        )
        by_keywords, by_router = (
            Answer(method, routing.recommendation, (), 0, 0, seconds, own)
            for method, (routing, seconds), own in zip(
                METHODS, (searched, routed), (None, routed[0]), strict=False
            )
        )
        return (
            by_keywords,
            by_router,
            self._round(METHODS[2], request, "broadcast"),
            self._round(METHODS[3], request, "routed"),
        )

    def asked(self, mashup: Mashup) -> Asked:
        """Return the answers to a past request."""
        return Asked(mashup, self.answers(mashup.description))

    @staticmethod
    def _routed(router: Router, request: str) -> tuple[Routing, float]:
        begun = perf_counter()
        return router.route(request), perf_counter() - begun

    def _round(self, method: str, request: str, announcement: Announcement) -> Answer:
        begun = perf_counter()
        outcome = self._net.run_sync(request, protocol=_PROTOCOL, announcement=announcement)
        seconds, paid = perf_counter() - begun, outcome.ledger
        apis, n_messages = outcome.recommendation, paid.n_messages
        return Answer(method, apis, outcome.recipients, n_messages, paid.tokens, seconds)


def mean_answers(asked: Sequence[Asked]) -> tuple[MeanAnswer, ...]:
    """Return the means of each method over some requests."""
    found = []
    for place, method in enumerate(METHODS):
        answers = [each.answers[place] for each in asked]
        scores = [each.scores[place] for each in asked]
        reached = [each.reached[place] for each in asked]
        figures = [
            (s.recall, s.precision, s.f1, len(a.contractors), share, a.messages, a.tokens)
            for s, a, share in zip(scores, answers, reached, strict=True)
        ]
        found.append(MeanAnswer(method, *(float(x) for x in np.mean(figures, axis=0))))
    return tuple(found)


def typical(asked: Sequence[Asked]) -> Asked:
    """Return the most ordinary of some requests, to be shown in their place.

    Of those that need several APIs: the one where recall and F1 of the methods are nearest to their
    means over all; of equal ones the first.
    """
    several = [each for each in asked if len(each.mashup.apis) >= _SEVERAL] or list(asked)
    means = np.array([[mean.recall, mean.f1] for mean in mean_answers(asked)])
    own = np.array([[[score.recall, score.f1] for score in each.scores] for each in several])
    apart = np.square(own - means).sum(axis=(1, 2))
    return several[int(np.round(apart, 9).argmin())]
