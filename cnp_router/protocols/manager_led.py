"""Manager-led: the manager thinks, contractors compare one function with their specification."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cnp_router.agents import Decompose, MapCategories, MatchFunction
from cnp_router.catalog import Contractor
from cnp_router.exceptions import InputError
from cnp_router.protocols.announcing import certainly_called
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.negotiation import NegotiatedProtocol
from cnp_router.protocols.outcome import Choice
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.plan import AnnouncementPlan
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.round import Invitation, Round
from cnp_router.protocols.settings import RoundSettings
from cnp_router.training import CategoryClassifier

__all__ = ["ManagerLed"]


class ManagerLed(NegotiatedProtocol):
    """The manager decomposes and maps; contractors in a category match its functions.

    Categories are mapped by the router's classifier where the router is confident, and by the
    model otherwise. What it maps to then also widens the announcement, if that is the fallback.
    """

    name = "manager-led"
    summary = "Functions are announced to those in their categories; the manager does the rest."
    manager = "1, 2, 4"
    contractors = "3"
    carries = "a function and its category"
    reaches = "contractors in that category"
    maps_categories = True
    needs_categories = True

    def prepare(
        self,
        request: str,
        parties: Parties,
        settings: RoundSettings,
        announcement: str,
        date: datetime.date | None = None,
    ) -> tuple[Protocol, Choice | None]:
        """Check that there are categories to announce to, besides what every protocol needs."""
        if announcement == "broadcast" and not parties.catalog.categories:
            raise InputError(
                "manager-led rounds need a catalog with categories (give the APIs categories, or "
                "use another protocol)"
            )
        return super().prepare(request, parties, settings, announcement, date)

    async def plan(self, round_: Round, audience: Audience) -> AnnouncementPlan:
        """Decompose and map, and return the plan to announce each function with its category."""
        routing, classifier = audience.routing, round_.parties.classifier
        step = Decompose(round_.request)
        if routing is not None:  # in a broadcast, nobody knows yet whom it will reach
            round_.check_announcement(
                "a manager-led round, with one call to each recipient,",
                [
                    Invitation(c, MatchFunction(c.apis, round_.request, None))
                    for c in certainly_called(round_, audience)
                ],
                step,
            )
        functions = (await round_.ask(step)).functions
        fit = _CategoryFit(functions, classifier)
        known = round_.parties.catalog.categories
        if routing is not None and routing.is_confident and classifier is not None:
            categories = classifier.predict([round_.request])[0]
            return _matching(fit, fit.mapped(categories), categories)
        if not known:
            return _matching(fit, [()] * len(functions), None)
        mapping = await round_.ask(MapCategories(round_.request, functions, known))
        unsure = routing is not None and not routing.is_confident
        return _matching(
            fit,
            mapping.categories,
            mapping.all_categories,
            widens=unsure and bool(mapping.all_categories) and round_.settings.fallback == "llm",
        )


def _matching(
    fit: _CategoryFit,
    by_function: Sequence[Sequence[str]],
    categories: tuple[str, ...] | None,
    *,
    widens: bool = False,
) -> AnnouncementPlan:
    """Return the plan that calls a contractor for the functions in one of its categories.

    A chosen one that is in none of them was chosen on other evidence: it is called for the
    function that its own category fits best.
    """

    def invite(contractor: Contractor, chosen: bool) -> list[Invitation]:
        own = contractor.categories
        called: list[tuple[str, str | None]] = []
        for function, names in zip(fit.functions, by_function, strict=True):
            shared = [name for name in names if name in own]
            if shared:
                called.append((function, shared[0]))
        if not called and chosen:
            called = [fit.best(own)]
        return [
            Invitation(
                contractor,
                MatchFunction(contractor.apis, function, category),
                function=function,
                category=category,
            )
            for function, category in called
        ]

    return AnnouncementPlan(invite, fit.functions, categories, widens)


class _CategoryFit:
    """How well each function fits each category, as the router's classifier sees it."""

    def __init__(self, functions: tuple[str, ...], classifier: CategoryClassifier | None) -> None:
        self.functions = functions
        self.classifier = classifier
        self.column = {name: i for i, name in enumerate(classifier.classes_ if classifier else ())}

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """Of each function and category: ndarray of shape (n_functions, n_categories)."""
        if self.classifier is None:
            return np.zeros((len(self.functions), 0))
        return self.classifier.predict_proba(self.functions)

    def best(self, categories: Sequence[str]) -> tuple[str, str | None]:
        """Return the function and category that fit best, out of some categories."""
        known = [name for name in categories if name in self.column]
        if not known:
            return self.functions[0], categories[0] if categories else None
        table = self.probabilities[:, [self.column[name] for name in known]]
        function, category = np.unravel_index(int(table.argmax()), table.shape)
        return self.functions[function], known[category]

    def mapped(self, categories: Sequence[str]) -> list[list[str]]:
        """Return each category with the function it fits best, by function."""
        best = {name: self.best([name])[0] for name in categories}
        return [[n for n in categories if best[n] == function] for function in self.functions]
